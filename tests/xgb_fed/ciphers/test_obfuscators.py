"""Obfuscators are drawn ahead, bounded in number and used once."""

import os

import gmpy2
import numpy as np
import pytest

from gbdt_kernels.residues import decode
from secret_numbers import group_order
from small_keys import integers_of
from uniformity import DRAWS_PER_CELL, P, check_uniform, stream
from xgb_fed import OkamotoUchiyama, Paillier
from xgb_fed.ciphers.obfuscators import AT_ONCE, ObfuscatorPool
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyamaKey

SCHEMES = [Paillier(256, allow_weak_key=True), OkamotoUchiyama(256, allow_weak_key=True)]


def test_rerandomisers_are_encryptions_of_zero_in_the_same_group_as_the_key_holders(key):
    """Raised to the order of the group of randomness, both give 1."""
    n = key.public.n
    zeros = np.concatenate([key.public.obfuscators.take(5), key.obfuscators.take(5)])
    order = group_order(key)
    modulus = key.public.modulus.value
    assert {int(gmpy2.powmod(z, order, modulus)) for z in integers_of(key.public, zeros)} == {1}
    assert order % n != 0


def test_pools_are_bounded_and_used_once(key):
    pool = key.obfuscators
    pool.take(len(pool))
    pool.capacity, capacity = 10, pool.capacity
    assert pool.prepare(6) == 6
    assert pool.prepare(100) == 10
    taken = np.concatenate([pool.take(7), pool.take(7), pool.take(1)])
    assert len(pool) == 0
    assert len({row.tobytes() for row in taken}) == 15
    pool.capacity = capacity
    pool.prepare(3)
    assert key.decrypt(key.encrypt([1, 2, 3, 4])) == [1, 2, 3, 4]


def test_a_few_are_made_at_once_until_there_are_enough():
    made = []
    pool = ObfuscatorPool(lambda n: made.append(n) or np.zeros((n, 1), np.uint64), 3 * AT_ONCE)
    assert pool.prepare_some(2 * AT_ONCE + 1)
    assert pool.prepare_some(2 * AT_ONCE + 1)
    assert not pool.prepare_some(2 * AT_ONCE + 1)
    assert not pool.prepare_some(2 * AT_ONCE + 1)
    assert made == [AT_ONCE, AT_ONCE, 1]
    assert not pool.prepare_some(4 * AT_ONCE)  # no more than there is room for
    assert (len(pool), sum(made)) == (3 * AT_ONCE, 3 * AT_ONCE)


def test_rerandomisers_are_uniform_too():
    """r^n for uniform r, as the other parties draw it; multiples of the toy primes are left out."""
    key = OkamotoUchiyamaKey(P, 29, allow_weak_key=True)
    public = key.public
    public.random = stream(3)
    n = public.n
    zeros = sorted({pow(r, n, n) for r in range(1, n) if r % 23 and r % 29})
    drawn = [
        z
        for z in decode(public.obfuscators.take(DRAWS_PER_CELL * len(zeros)), public.modulus)
        if z % 23 and z % 29
    ]
    check_uniform(drawn, zeros)


def in_a_forked_child(work):
    """The bytes that `work` gives in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, work())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        return answer.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
def test_a_forked_child_uses_no_obfuscator_of_its_parent(scheme):
    key = scheme.generate()
    key.obfuscators.prepare(4)
    key.public.obfuscators.prepare(4)
    one = key.encrypt([1])
    key.obfuscators.prepare(4)
    for work in (lambda: key.encrypt([1]).tobytes(), lambda: key.public.rerandomise(one).tobytes()):
        assert in_a_forked_child(work) != work()
