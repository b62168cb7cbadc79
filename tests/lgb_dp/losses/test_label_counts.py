"""Counts of labels, and what is read from noisy ones."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from label_histograms import numbers
from lgb_dp.losses.label_counts import STDS_OF_DOUBT, LabelCounts, counts_on_grid
from lgb_dp.losses.loss import STEPS, NewtonLoss


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(-3, 3) | st.just(-np.inf), min_size=2, max_size=40), numbers, st.integers(0, 1024))
@example([-np.inf, 0.0], 0.0, 1)
@example([0.0, 0.0], np.nan, 1)
def test_a_row_of_label_counts_is_at_most_its_weight_long(grid, target, weight):
    grid = np.sort(np.array(grid))
    with np.errstate(all="ignore"):
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


def test_a_row_counts_for_the_two_points_around_it_or_for_the_nearest_end():
    grid, ones = np.array([0.0, 1.0, 4.0]), np.ones(1, dtype=np.int32)
    for target, shares in (
        (-2.0, [1, 0, 0]),
        (0.0, [1, 0, 0]),
        (0.25, [0.75, 0.25, 0]),
        (1.0, [0, 1, 0]),
        (2.5, [0, 0.5, 0.5]),
        (4.0, [0, 0, 1]),
        (9.0, [0, 0, 1]),
    ):
        counts = counts_on_grid(np.array([target]), ones, grid, STEPS)
        np.testing.assert_array_equal(counts, STEPS * np.array(shares))


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


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["binary", "regression"]), st.floats(-1, 1), st.integers(0, 1024))
def test_a_row_adds_at_most_its_weight_to_the_counts_of_two_labels(objective, target, weight):
    target = float(target > 0) if objective == "binary" else target
    loss = NewtonLoss(objective, 1.0, 0.0)
    counts = loss.label_counts(np.array([target]), np.array([weight], np.int32), 1)
    assert (counts >= 0).all()
    assert counts.sum() <= weight * STEPS


def test_a_row_of_a_regression_is_divided_between_two_labels_and_rounded_down():
    counts = NewtonLoss("regression", 1.0, 0.0).label_counts(np.array([0.3]), np.array([7], np.int32), 1)
    assert counts.tolist() == [7 * int(0.35 * STEPS), 7 * int(0.65 * STEPS)]
    assert counts.sum() < 7 * STEPS  # neither share is a whole number of steps


@pytest.mark.parametrize("share", [0.3, 0.99, 1.01])
def test_labels_count_alike_until_their_sum_stands_out_of_the_noise_of_all_points(share):
    grid, counts = np.linspace(-1, 1, 33), np.zeros(33)
    counts[16] = share * STDS_OF_DOUBT * 33**0.5
    found = LabelCounts.of(grid, counts, 1.0)
    assert found.count.tolist() == (counts if share > 1 else np.ones(33)).tolist()
