"""Encryptions of zero from a table: their distance from uniform, when there is a table, and decryption."""

import pickle
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from secret_numbers import group_order
from small_keys import integers_of
from uniformity import DRAWS_PER_CELL, P, check_uniform, stream
from xgb_fed import OkamotoUchiyama, Paillier, Plain
from xgb_fed.ciphers import zero_table
from xgb_fed.ciphers.obfuscators import AT_ONCE
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyamaKey
from xgb_fed.ciphers.residue_key import MAX_KEY_LENGTH, ResidueKey
from xgb_fed.ciphers.zero_table import DIGIT_BITS, MAX_TABLE_BYTES, n_bases, table_bytes

SCHEMES = [Paillier(256, allow_weak_key=True), OkamotoUchiyama(256, allow_weak_key=True)]


def excess(key_bits):
    """Bound of ``|H|·C − 1`` in the proof, with as many prime factors as a key has at most."""
    bases, n_digits = n_bases(key_bits), 1 << DIGIT_BITS
    second = sum(
        g ** (key_bits // 16) * Fraction(-(-n_digits // g), n_digits) ** bases for g in range(2, n_digits)
    )
    return Fraction(2**key_bits, 2 ** (DIGIT_BITS * bases)) + second


@pytest.mark.parametrize("key_bits", [256, 1024, 1800, 2047, 2048, 3072, 4096])
def test_the_distance_from_uniform_is_below_two_to_the_minus_64(key_bits):
    """The distance is half the root of `excess`."""
    assert excess(key_bits) / 4 < Fraction(1, 2**128)


def tabulated(key):
    """Let a public key make its table."""
    public = key.public
    public.tabulate()
    public.obfuscators.take(public.zero_table.n_bases)
    while public.zero_table.n_missing:
        assert public.prepare(1)
    return public


@pytest.mark.parametrize("scheme", SCHEMES)
def test_answers_re_randomised_by_the_table_decrypt_as_before_and_differ(scheme):
    key = scheme.generate()
    public = tabulated(key)
    public.obfuscators.take(len(public.obfuscators))
    same = key.encrypt([7])
    fresh = public.rerandomise(np.repeat(same, 40, axis=0))
    assert key.decrypt(fresh) == [7] * 40
    assert len({row.tobytes() for row in [*fresh, same[0]]}) == 41
    zeros = integers_of(public, public.obfuscators.take(20))
    order = group_order(key)
    assert {int(gmpy2.powmod(z, order, public.modulus.value)) for z in zeros} == {1}


def test_products_of_a_table_are_uniform():
    """Of a group so small that every element is counted."""
    key = OkamotoUchiyamaKey(P, 29, allow_weak_key=True)
    n, modulus = key.public.n, key.public.modulus
    zeros = sorted({pow(r, n, n) for r in range(1, n) if r % 23 and r % 29})
    random = stream(5)
    table = zero_table.ZeroTable(n.bit_length(), modulus, 1)
    units = [pow(r, n, n) for r in range(1, n) if r % 23 and r % 29]
    picked = random.below(len(units), table.n_bases)[:, 0]
    table.add(key.public.from_integers([units[k] for k in picked.tolist()]))
    drawn = integers_of(key.public, table.draw(random, DRAWS_PER_CELL * len(zeros)))
    check_uniform(drawn, zeros)


def test_the_table_is_begun_when_as_many_powers_were_drawn_as_it_has_bases_and_only_if_it_may():
    key = SCHEMES[1].generate()
    public = ResidueKey.from_public_bytes(key.public.public_bytes())
    public.obfuscators.take(n_bases(256))
    assert not public.prepare(1)
    assert public.zero_table is None
    public = ResidueKey.from_public_bytes(key.public.public_bytes())
    public.tabulate()
    public.obfuscators.take(n_bases(256) - 1)
    assert not public.prepare(1)
    assert public.zero_table.n_missing == n_bases(256)
    public.obfuscators.take(2)
    assert public.prepare(1)
    assert public.zero_table.n_missing == n_bases(256) - AT_ONCE
    # Without anything wanted, nothing is made.
    assert not public.prepare(0)
    assert public.zero_table.n_missing == n_bases(256) - AT_ONCE
    public.tabulate()
    assert public.zero_table.n_missing == n_bases(256) - AT_ONCE


def test_bases_are_never_handed_out():
    """A power that is a base and an answer's randomness would be used twice."""
    public = SCHEMES[0].generate().public
    public.tabulate()
    taken = [public.obfuscators.take(n_bases(256))]
    bases = []
    add = public.zero_table.add
    public.zero_table.add = lambda powers: (bases.append(powers), add(powers))
    while public.zero_table.n_missing:
        public.prepare(3)
        taken.append(public.obfuscators.take(2))
    taken.append(public.obfuscators.take(50))
    rows = [row.tobytes() for row in np.concatenate([*taken, *bases])]
    assert len(set(rows)) == len(rows)
    assert sum(map(len, bases)) == n_bases(256)


def test_no_table_is_larger_than_the_limit_and_its_size_is_told():
    for bits in range(256, MAX_KEY_LENGTH, 512):
        assert table_bytes(bits, bits // 4) <= MAX_TABLE_BYTES
    public = SCHEMES[1].generate().public
    assert public.table_bytes == n_bases(256) * 256 * public.ciphertext_bytes
    tabled = tabulated(SCHEMES[1].generate())
    assert tabled.zero_table.products.table.nbytes == tabled.table_bytes
    assert table_bytes(2048, 256) > 0
    assert table_bytes(3072, 768) > 0
    assert table_bytes(8192, 1024) == 0
    assert Plain().table_bytes == 0
    Plain().tabulate()


def test_a_table_shows_nothing_and_is_not_pickled():
    public = tabulated(SCHEMES[0].generate())
    with pytest.raises(TypeError):
        pickle.dumps(public.zero_table)
    assert pickle.loads(pickle.dumps(public)).zero_table is None
    assert repr(public.zero_table) == f"ZeroTable({n_bases(256)} of {n_bases(256)} bases)"


def test_tables_have_the_bases_and_the_memory_that_are_stated():
    assert [n_bases(bits) for bits in (64, 2048, 3072)] == [256, 273, 401]
    rows = 256 << DIGIT_BITS
    assert (table_bytes(64, (128 << 20) // rows), table_bytes(64, (128 << 20) // rows + 1)) == (128 << 20, 0)
