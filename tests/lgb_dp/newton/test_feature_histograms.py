"""What follows from released histograms: distributions, and which thresholds part rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.feature_histograms import (
    FeatureHistograms,
    has_many_thresholds,
    ranges_that_stand_out,
    released_cells,
)
from lgb_dp.newton.public_splits import CyclicSplits, RandomSplits, leaf_of_codes
from small_bins import Bins

RNG = np.random.default_rng(3)


def histograms(std=0.0):
    counts = [
        np.r_[np.zeros(10), np.full(13, 40.0), np.zeros(10), 20.0],
        np.r_[np.arange(33.0), 0.0],
        np.array([10.0, 0.0, 30.0, 0.0, 60.0, 0.0]),
    ]
    return FeatureHistograms([c + std * RNG.normal(size=len(c)) for c in counts], std)


def test_noise_is_smoothed_and_what_stands_out_of_it_stays():
    released = histograms(std=10.0)
    for f in range(3):
        estimate = released.probabilities(f, is_categorical=bool(f == 2))
        assert (estimate > 0).all()
        assert estimate.sum() == pytest.approx(1.0)
    ramp = np.arange(33.0) / np.arange(33).sum()
    rough = np.maximum(released.counts[1][:-1], 0)
    error = [np.abs(p - ramp).sum() for p in (estimate_of(released, 1)[:-1], rough / rough.sum())]
    assert error[0] < 0.7 * error[1]
    peak = np.zeros(34)
    peak[20] = 1000.0
    found = FeatureHistograms([peak], 10.0).probabilities(0, is_categorical=False)
    assert found[20] > 0.9
    nothing = FeatureHistograms([np.full(34, -5.0)], 10.0).probabilities(0, is_categorical=False)
    np.testing.assert_allclose(nothing, 1 / 34)


def estimate_of(released, feature):
    return released.probabilities(feature, is_categorical=False)


# Thresholds.

counts_of_bins = hnp.arrays(np.float64, st.integers(1, 70), elements=st.floats(-1e4, 1e6))


@given(counts_of_bins, st.floats(0.0, 1e3))
def test_ranges_are_apart_and_stand_out(counts, std):
    ranges = ranges_that_stand_out(counts, std)
    ends = [end for both in ranges for end in both]
    assert ends == sorted(ends)
    assert set(ends) <= set(range(len(counts) + 1))
    for first, stop in ranges:
        assert first < stop
        tolerance = 1e-9 * np.abs(counts).sum()
        assert counts[first:stop].sum() > 3 * std * np.sqrt(stop - first) - tolerance


@given(counts_of_bins, st.floats(0.0, 1e3))
def test_every_threshold_may_be_drawn(counts, std):
    (weights,) = FeatureHistograms([np.append(counts, 0.0)], std).threshold_weights()
    assert weights.shape == (len(counts) - 1,)
    assert ((weights > 0) & (weights <= 1)).all()


def test_thresholds_beside_rows_are_drawn_most():
    """A bin of 300 rows among empty ones, noise of standard deviation 20."""
    counts = np.zeros(129)
    counts[[0, 90]] = 20_000.0, 300.0
    released = counts + 20 * np.random.default_rng(0).normal(size=129)
    (weights,) = FeatureHistograms([released], 20.0).threshold_weights()
    beside = [0, 89, 90]
    assert (weights[beside] == 1.0).all()
    assert np.count_nonzero(weights == 1.0) <= 5
    assert weights[weights < 1].sum() / weights.sum() == pytest.approx(0.25)


def test_where_nothing_or_everything_stands_out_thresholds_are_drawn_alike():
    for counts in (np.zeros(34), np.full(34, 1e6)):
        (weights,) = FeatureHistograms([counts], 10.0).threshold_weights()
        np.testing.assert_array_equal(weights, np.ones(32))


def test_weights_decide_what_is_drawn_and_what_leaves_hold():
    bins = Bins([129, 5], categorical=[1])
    weights = [np.full(128, 1e-6), np.ones(4)]
    weights[0][[0, 60, 61, 99]] = 1.0
    splits, random = RandomSplits(bins, 4, weights), SecureRandom(0)
    drawn = []
    for _ in range(40):
        tree = splits.draw(random)
        drawn += (tree.goes_left[tree.feature == 0, :129].sum(axis=1) - 1).tolist()
    assert set(drawn) == {0, 60, 61, 99}
    np.testing.assert_array_equal(np.unique(splits.cells.feature, return_counts=True)[1] > 0, [True, True])
    numeric = splits.cells.feature == 0
    assert splits.cells.probability[numeric].sum() == pytest.approx(0.5)
    tree = CyclicSplits(bins, 3, weights).trees[0]
    first_codes = np.flatnonzero(np.diff(leaf_of_codes(tree)[:129]))
    assert {0, 60, 61, 99} <= set(first_codes.tolist())


def test_features_with_many_thresholds_are_counted():
    bins = Bins([129, 17, 16, 2, 40], categorical=[4])
    np.testing.assert_array_equal(has_many_thresholds(bins), [True, True, False, False, False])
    cells = released_cells(has_many_thresholds(bins), bins)
    assert cells.sum() == 130 + 18
    assert cells[: 130 + 18].all()
