"""Sums modulo powers of two."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import PartyArgumentError, SumRangeError
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128, Ring

RINGS = {"64": MODULO_64, "128": MODULO_128, "3": Ring(3), "40": Ring(40)}


def vector(ring, values):
    words = [v % 2**ring.bits >> 64 * i & (2**64 - 1) for v in values for i in range(ring.words_per_value)]
    flat = np.array(words, dtype=np.uint64)
    return flat.reshape(-1, 2) if ring.bits == 128 else flat


@pytest.mark.parametrize("ring", RINGS.values(), ids=RINGS)
@given(data=st.data())
def test_arithmetic_is_that_of_integers(ring, data):
    numbers = st.integers(-(2 ** (ring.bits - 1)), 2 ** (ring.bits - 1) - 1)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5))
    a, b = (vector(ring, column) for column in zip(*pairs, strict=True))
    half = 2 ** (ring.bits - 1)

    def centred(v):
        return (v + half) % 2**ring.bits - half

    assert ring.centred(ring.add(a, b), half).tolist() == [centred(x + y) for x, y in pairs]
    assert ring.centred(ring.subtract(a, b), half).tolist() == [centred(x - y) for x, y in pairs]
    assert ring.from_bytes(ring.to_bytes(a)).tolist() == a.tolist()


@pytest.mark.parametrize("ring", [MODULO_64, MODULO_128])
def test_signed_integers_come_back(ring):
    integers = np.array([0, 1, -1, 2**63 - 1, -(2**63)])
    assert ring.centred(ring.from_integers(integers), 2**63).tolist() == integers.tolist()


@pytest.mark.parametrize("ring", [MODULO_64, MODULO_128])
@pytest.mark.parametrize("value", [101, -101, -(2**63)])
def test_sums_out_of_range_are_refused_without_quoting_them(ring, value):
    total = ring.from_integers(np.array([3, value]))
    with pytest.raises(SumRangeError) as caught:
        ring.centred(total, 100)
    assert "101" not in str(caught.value)
    assert ring.centred(ring.from_integers(np.array([100, -100])), 100).tolist() == [100, -100]


def test_rings_of_one_or_two_words_are_accepted():
    assert [Ring(bits).words_per_value for bits in (1, 63, 64, 128)] == [1, 1, 1, 2]
    assert [Ring(bits).zeros(3).shape for bits in (1, 64, 128)] == [(3,), (3,), (3, 2)]


@pytest.mark.parametrize("bits", [0, 65, 129, -1])
def test_rings_of_other_sizes_are_refused(bits):
    with pytest.raises(PartyArgumentError, match="bits"):
        Ring(bits)


@pytest.mark.parametrize("bits", [64, 80, 126])
def test_words_are_checked_by_their_bits(bits):
    def words(value):
        number = value % 2**128
        return np.array([[number % 2**64, number >> 64]], dtype=np.uint64)

    for value in (0, 1, -1, 2**bits - 1, 1 - 2**bits):
        MODULO_128.check_bits(words(value), bits)
    for value in (2**bits, -(2**bits), -(2**bits) - 1, 2**127 - 1, -(2**127)):
        with pytest.raises(SumRangeError, match="out of range"):
            MODULO_128.check_bits(words(value), bits)
        for others in ([0, value], [value, 0]):
            with pytest.raises(SumRangeError):
                MODULO_128.check_bits(np.concatenate([words(one) for one in others]), bits)
    MODULO_128.check_bits(MODULO_128.zeros(0), bits)


def test_all_values_of_127_bits_are_in_range():
    words = np.array([[2**64 - 1, 2**63 - 1], [1, 2**63]], dtype=np.uint64)
    MODULO_128.check_bits(words, 127)
    with pytest.raises(SumRangeError):
        MODULO_128.check_bits(np.array([[0, 2**63]], dtype=np.uint64), 127)
    with pytest.raises(SumRangeError):
        MODULO_128.check_bits(words, 126)
