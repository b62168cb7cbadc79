"""What Paillier and Okamoto–Uchiyama have in common."""

import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.residues.limbs import to_rows
from secret_numbers import secret_primes
from small_keys import KEYS, SCHEMES
from xgb_fed.errors import InvalidCiphertextError, PlaintextRangeError


@given(data=st.data())
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sums_differences_and_shifts(scheme, data):
    key = KEYS[scheme]
    bits = 60
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, (1 << bits) - 1), st.integers(0, (1 << bits) - 1)), min_size=1)
    )
    a, b = [max(pair) for pair in pairs], [min(pair) for pair in pairs]
    x, y = key.encrypt(a), key.encrypt(b)
    public = key.public
    assert key.decrypt(x) == a
    assert key.decrypt(public.add(x, y)) == [u + v for u, v in zip(a, b, strict=True)]
    assert key.decrypt(public.subtract(x, y)) == [u - v for u, v in zip(a, b, strict=True)]
    assert key.decrypt(public.scale(x, 9)) == [u << 9 for u in a]
    order = np.arange(len(a))[::-1]
    starts = np.array([0, len(a) // 2, len(a)])
    sums = key.decrypt(public.sum_by_index(x, order, starts))
    assert sums == [sum(a[::-1][: len(a) // 2]), sum(a[::-1][len(a) // 2 :])]


def test_extreme_plaintexts_and_both_input_forms(key):
    limit = key.public.plaintext_limit
    values = [0, 1, limit - 1, limit // 2, *(secrets.randbelow(limit) for _ in range(8))]
    assert key.decrypt(key.encrypt(values)) == values
    width = -(-limit.bit_length() // 64)
    assert key.decrypt(key.encrypt(to_rows(values, width))) == values
    assert key.decrypt(key.encrypt(to_rows(values, width + 2))) == values
    assert key.decrypt(key.encrypt(np.array([3, 4]))) == [3, 4]
    assert key.decrypt(key.encrypt([])) == []


def test_plaintexts_out_of_range(key):
    limit = key.public.plaintext_limit
    for values in ([limit], [-1], [0, 1 << 600]):
        with pytest.raises(PlaintextRangeError):
            key.encrypt(values)
    with pytest.raises(PlaintextRangeError):
        key.encrypt(to_rows([1 << 700], 20))
    with pytest.raises(TypeError):
        key.encrypt([0.5])


def test_encryption_and_rerandomisation_are_fresh(key):
    same = key.encrypt([5] * 20)
    again = key.public.rerandomise(same)
    assert key.decrypt(again) == [5] * 20
    assert len({row.tobytes() for row in np.concatenate([same, again])}) == 40


def test_ciphertexts_that_are_no_units_or_not_reduced(key):
    public = key.public
    good = key.encrypt([1])
    width = good.shape[1]
    prime, _ = secret_primes(key)[0]
    for bad in (public.modulus.value, (1 << (64 * width)) - 1, 0, prime):
        rows = np.concatenate([good, to_rows([bad], width)])
        with pytest.raises(InvalidCiphertextError):
            public.from_bytes(public.to_bytes(rows))
    for bad in (-1, public.modulus.value, 0, prime):
        with pytest.raises(InvalidCiphertextError):
            public.from_integers([bad])
    with pytest.raises(InvalidCiphertextError):
        public.subtract(good, to_rows([prime], width))
