from fractions import Fraction

import numpy as np
import pytest

from allocated import peak_of
from gbdt_kernels.trees.wide_sums import (
    as_floats,
    fixed_point,
    fixed_points,
    left_sums,
    route_by_codes,
    wide_difference,
    wide_histograms,
    wide_sum,
)

SCALE = 80


def as_integer(words):
    low, high = (int(word) for word in words)
    value = (high << 64) + low
    return value - (1 << 128) if value >> 127 else value


@pytest.mark.parametrize("scale", [80, 30, 0, -3])
def test_fixed_point_is_the_nearest_integer(scale):
    values = np.array(
        [0.0, -0.0, 1.0, -1.0, 2.0**-57, -(2.0**-90), 1e-30, 123456.789, -3e10, 5.5], np.float64
    )
    for value, words in zip(values.tolist(), fixed_point(values, scale), strict=True):
        exact = Fraction(value) * Fraction(2) ** scale
        assert abs(as_integer(words) - exact) <= Fraction(1, 2)


def test_float32_above_the_grid_come_back_as_they_were():
    rng = np.random.default_rng(0)
    values = (rng.normal(size=500) * 2.0 ** rng.integers(-50, 30, 500)).astype(np.float32)
    assert np.array_equal(as_floats(fixed_point(values, SCALE), SCALE), values)


def test_columns_side_by_side_are_made_without_copies_of_words():
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=50_000).astype(np.float32) for _ in range(2)]
    fixed_points([column[:2] for column in columns], SCALE)  # loads the kernel
    words, peak = peak_of(lambda: fixed_points(columns, SCALE))
    assert np.array_equal(words, np.concatenate([fixed_point(one, SCALE) for one in columns], axis=1))
    assert peak < words.nbytes + 9 * len(words)  # a column as float64


def rows(n=400, n_bins=(3, 1, 4, 0)):
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, n + 1, 400) for n in n_bins], axis=1).astype(np.uint8)
    g, h = rng.integers(-9, 9, n).astype(float), rng.integers(1, 9, n).astype(float)
    words = np.concatenate([fixed_point(g, SCALE), fixed_point(h, SCALE)], axis=1)
    return codes, np.array(n_bins), g, h, words, rng.integers(-1, 3, n).astype(np.int32)


def test_histograms_and_sums_to_the_left_are_exact():
    codes, n_bins, g, h, words, node = rows()
    bins, totals = wide_histograms(codes, node, words, n_bins, 3)
    left_g, left_h, has_missing = left_sums(bins, totals, n_bins, SCALE)
    for k in range(3):
        own = node == k
        assert as_floats(totals[k].reshape(2, 2), SCALE).tolist() == [g[own].sum(), h[own].sum()]
        expected = []
        for f, n in enumerate(n_bins):
            code, missing = codes[own, f], codes[own, f] == n
            assert has_missing[k, f] == missing.any()
            expected += [code <= b for b in range(n)]
            expected += [(code <= b) | missing for b in range(n - 2, -2, -1)]
        assert left_g[k].tolist() == [g[own][left].sum() for left in expected]
        assert left_h[k].tolist() == [h[own][left].sum() for left in expected]
    rest = wide_difference(totals[0], wide_sum(bins[0, :3]))
    missing = (node == 0) & (codes[:, 0] == 3)
    assert as_floats(rest.reshape(2, 2), SCALE).tolist() == [g[missing].sum(), h[missing].sum()]


def test_rows_go_to_the_children_of_their_nodes():
    codes, n_bins, _, _, _, node = rows()
    node = np.abs(node)
    before = node.copy()
    arguments = [np.array(v) for v in ([2, 0, 0], [1, 0, 0], [True, False, False], [3, -1, 5])]
    route_by_codes(codes, node, *arguments, n_bins)
    left = np.where(before == 0, (codes[:, 2] <= 1) | (codes[:, 2] == 4), codes[:, 0] <= 0)
    expected = np.select([before == 0, before == 2], [np.where(left, 3, 4), np.where(left, 5, 6)], before)
    assert np.array_equal(node, expected)
