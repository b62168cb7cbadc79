"""Counts of labels, and what is read from noisy ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from label_histograms import numbers
from lgb_dp.newton.losses.label_counts import LabelCounts, counts_on_grid
from lgb_dp.newton.losses.loss import STEPS


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=40, unique=True), numbers, st.integers(0, 1024))
def test_a_row_of_label_counts_is_at_most_its_weight_long(grid, target, weight):
    grid = np.sort(np.array(grid))
    if np.isnan(target) or (np.diff(grid) < 1e-300).any():
        return
    counts = counts_on_grid(np.array([target]), np.array([weight], np.int32), grid, STEPS)
    assert (counts >= 0).all()
    assert counts.sum() <= weight * STEPS
    assert np.count_nonzero(counts) <= 2


def test_label_counts_are_sums_over_rows_and_keep_the_mean():
    rng = np.random.default_rng(0)
    target, weight = rng.gamma(1.0, 0.1, 5000).clip(0, 1), rng.integers(0, 1025, 5000).astype(np.int32)
    grid = np.concatenate([[0.0], 0.5 ** np.arange(20, -1, -1)])
    counts = counts_on_grid(target, weight, grid, STEPS)
    one_by_one = sum(counts_on_grid(target[[i]], weight[[i]], grid, STEPS) for i in range(300))
    np.testing.assert_array_equal(counts_on_grid(target[:300], weight[:300], grid, STEPS), one_by_one)
    assert counts.sum() == STEPS * weight.sum()
    assert counts @ grid / counts.sum() == pytest.approx(np.average(target, weights=weight), rel=1e-3)


def noisy_counts(labels, grid, std):
    exact = counts_on_grid(labels, np.ones(len(labels), np.int32), grid, STEPS) / STEPS
    return LabelCounts.of(grid, exact + np.random.default_rng(3).normal(0, std, len(grid)), std)


def test_what_is_read_from_noisy_counts():
    rng = np.random.default_rng(1)
    halves = np.concatenate([[0.0], 0.5 ** np.arange(20, -1, -1)])
    found = noisy_counts(rng.poisson(0.3, 100_000) / 50, halves, 30.0)
    assert found.point[found.count > 0].max() <= 8 / 50  # the noise beyond does not count
    assert found.mean == pytest.approx(0.3 / 50, rel=0.03)
    even = noisy_counts(rng.normal(0, 0.2, 100_000), np.linspace(-1, 1, 33), 30.0)
    for probability, quantile in [(0.5, 0.0), (0.9, 1.2816), (0.02, -2.054)]:
        assert even.quantile(probability) == pytest.approx(0.2 * quantile, abs=0.02)
    assert (np.diff(even.cumulated) >= 0).all()
    size, share = np.abs(found.point - found.mean), 0.02
    clip = found.clip_of(size, share)
    cut = found.count @ np.maximum(size - clip, 0)
    assert cut == pytest.approx(share * (found.count @ size), rel=1e-6)


def test_noise_alone_says_nothing():
    grid = np.linspace(-1, 1, 33)
    only_noise = LabelCounts.of(grid, np.random.default_rng(0).normal(0, 30, 33), 30.0)
    assert len(set(only_noise.count)) == 1
    assert only_noise.quantile(0.5) == pytest.approx(0.0)
