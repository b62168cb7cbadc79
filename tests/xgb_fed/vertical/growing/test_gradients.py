"""Sums of gradients against Python's integers and fractions, which have no limits."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocated import peak_of
from packed_fields import decoded
from scaled_gradients import CLOSE, LIMIT, gradients, scaled
from xgb_fed.vertical.growing.gradients import FixedPointGradients, apart_from_zero
from xgb_fed.vertical.protocol.packing import packing_for
from xgb_fed.vertical.trees.partition import Partition


def added_plaintexts(own, selections):
    """Sums of the plaintexts of selected rows, per group of classes: what decrypted histograms hold."""
    plaintexts = own.plaintexts(np.arange(len(own.g), dtype=np.int32))
    numbers = [[int.from_bytes(row.astype("<u8").tobytes(), "little") for row in rows] for rows in plaintexts]
    return [
        [sum(n for n, taken in zip(group, selected, strict=True) if taken) for selected in selections]
        for group in numbers
    ]


@given(gradients())
@settings(max_examples=40)
def test_the_largest_value_decides_the_power_of_two(pair):
    own = scaled(*pair)
    for values, integers, exponent in zip(
        pair, (own.g, own.h), (own.g_exponent, own.h_exponent), strict=True
    ):
        largest = np.abs(values).max()
        unit = Fraction(2) ** exponent
        assert Fraction(float(largest)) <= unit
        if largest:
            assert Fraction(float(largest)) > unit / 2
            assert 1 << 52 < np.abs(integers).max() <= 1 << 53
        else:
            assert not integers.any()
        step = unit / (1 << 53)
        for value, integer in zip(values.ravel().tolist(), integers.ravel().tolist(), strict=True):
            assert abs(integer * step - Fraction(value)) <= step / 2


@given(gradients())
@settings(max_examples=40)
def test_positive_hessians_that_are_kept_apart_from_zero_stay_positive(pair):
    """XGBoost tells a node without hessian, which weighs 0, from one that has little."""
    g, h = pair[0], pair[1].astype(np.float32)
    own = scaled(g, apart_from_zero(h))
    assert np.array_equal(own.h > 0, h > 0)
    large = h >= np.ldexp(h.max(), -52)
    assert np.array_equal(own.h[large], scaled(g, h).h[large])


@given(gradients(CLOSE))
@settings(max_examples=40)
def test_values_of_one_scale_come_back_exactly(pair):
    """Half-precision numbers in [−1, 1] are multiples of 2^-24: 53 bits hold all of them."""
    own = scaled(*pair)
    alone = Partition(np.arange(len(pair[0]), dtype=np.int32), np.arange(len(pair[0]) + 1))
    g, h = own.to_float(own.node_sums(alone)[0])
    for got, expected in zip((g.T, h.T), pair, strict=True):
        np.testing.assert_array_equal(got, expected)


@given(gradients(), st.sampled_from([LIMIT, 1 << 250]), st.data())
@settings(max_examples=40)
def test_sums_of_plaintexts_decode_to_the_sums(pair, limit, data):
    n_rows, n_classes = pair[0].shape
    packing = packing_for(n_rows, n_classes, limit)
    own = FixedPointGradients.scaled(*pair, packing)
    left = np.array(data.draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    sums, counts = own.node_sums(Partition.root(n_rows).children({0: left}))
    packed = added_plaintexts(own, [left, ~left])
    assert all(value < limit for group in packed for value in group)
    g, h = decoded(packing, packed, counts)
    expected_g, expected_h = own.to_float(sums)
    np.testing.assert_array_equal(np.ldexp(g, own.g_exponent), expected_g.T)
    np.testing.assert_array_equal(np.ldexp(h, own.h_exponent), expected_h.T)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("scale", [1e-45, 1e-6, 0.25, 1.0, 7e30, 3.4e38])
def test_fields_hold_the_sum_of_all_rows_at_their_largest(sign, scale):
    """As a weight or an amplification of any size would make them: bits do not depend on it."""
    n_rows = 1000
    g, h = np.full((n_rows, 2), sign * np.float32(scale)), np.full((n_rows, 2), np.float32(scale))
    own = scaled(g.astype(np.float64), h.astype(np.float64))
    gh = own.packing.gh
    assert gh.bits == packing_for(n_rows, 2, LIMIT).gh.bits == 2 * 53 + 11 + 10
    counts = np.array([n_rows])
    ((packed,),) = added_plaintexts(own, [np.ones(n_rows, dtype=bool)])
    assert packed < 1 << (2 * gh.bits)
    got_g, got_h = decoded(own.packing, [[packed]], counts)
    total = n_rows * float(np.float32(scale))
    np.testing.assert_array_equal(np.ldexp(got_g, own.g_exponent), [[sign * total] * 2])
    np.testing.assert_array_equal(np.ldexp(got_h, own.h_exponent), [[total] * 2])


def test_no_rows_and_no_gradients():
    own = scaled(np.zeros((3, 1)), np.zeros((3, 1)))
    assert (own.g_exponent, own.h_exponent) == (0, 0)
    empty = Partition.root(3).kept(np.zeros(3, dtype=bool))
    sums, counts = own.node_sums(empty)
    assert counts.tolist() == [0]
    assert own.to_float(sums)[0].tolist() == [[0.0]]


def test_sums_over_nodes_take_no_more_memory_than_the_gradients():
    rng = np.random.default_rng(0)
    own = scaled(rng.normal(size=(40_000, 1)), rng.random((40_000, 1)))
    root = Partition.root(len(own.g))
    (sums, counts), peak = peak_of(lambda: own.node_sums(root))
    assert counts.tolist() == [len(own.g)]
    assert own.to_float(sums)[0][0, 0] == pytest.approx(np.ldexp(own.g.sum(dtype=float), own.g_exponent - 53))
    assert peak < own.halves.nbytes
