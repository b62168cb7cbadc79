"""What follows from released histograms: distributions, and which thresholds part rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lgb_dp
from gbdt_kernels.trees import DenseCodes
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.settings import MAX_COUNTED_FEATURES
from lgb_dp.newton.splits.distilled import DistilledSplits
from lgb_dp.newton.splits.feature_histograms import (
    FeatureHistograms,
    features_with_many_bins,
    ranges_that_stand_out,
    released_cells,
)
from lgb_dp.newton.splits.learned import LearnedSplits
from lgb_dp.newton.splits.random import RandomSplits, leaf_of_codes
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
        estimate = released.probabilities(f, is_categorical=f == 2)
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


@given(counts_of_bins, st.floats(0.0, 1e3), st.floats(0.0, 1e3))
def test_ranges_are_apart_and_stand_out(counts, std, least):
    ranges = ranges_that_stand_out(counts, std, least)
    ends = [end for both in ranges for end in both]
    assert ends == sorted(ends)
    assert set(ends) <= set(range(len(counts) + 1))
    for first, stop in ranges:
        assert first < stop
        tolerance = 1e-9 * np.abs(counts).sum()
        assert counts[first:stop].sum() > max(3 * std * np.sqrt(stop - first), least) - tolerance


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


@pytest.mark.parametrize(
    ("n_rows", "tail", "beside"), [(20_000, 10, False), (20_000, 60, True), (400, 10, True)]
)
def test_a_bin_of_few_rows_is_no_range_of_its_own(n_rows, tail, beside):
    """Next to no noise, and a tail of bins that hold few rows each."""
    counts = np.zeros(130)
    counts[[3, 40, 70, 100]] = n_rows - 3 * tail, tail, tail, tail
    (weights,) = FeatureHistograms([counts], 1e-3).threshold_weights()
    assert bool((weights[[39, 40, 69, 70, 99, 100]] == 1.0).all()) is beside
    assert (weights[[2, 3]] == 1.0).all()


def test_where_nothing_or_everything_stands_out_thresholds_are_drawn_alike():
    for counts in (np.zeros(34), np.full(34, 1e6)):
        (weights,) = FeatureHistograms([counts], 10.0).threshold_weights()
        np.testing.assert_array_equal(weights, np.ones(32))


BINS = Bins([1, 5, 33, 129], categorical=[1])
DRAWN = [0, 60, 61, 99]


def weights():
    """Of the last feature, four thresholds are drawn at all."""
    of_last = np.full(128, 1e-9)
    of_last[DRAWN] = 1.0
    return [np.ones(0), np.ones(4), np.ones(32), of_last]


def thresholds_of(trees, feature, n_bins):
    nodes = [tree.goes_left[tree.feature == feature, :n_bins] for tree in trees]
    return (np.concatenate(nodes).sum(axis=1) - 1).tolist()


def test_weights_decide_what_is_drawn():
    """Behind features of one bin, of categories and of equal weights."""
    random = SecureRandom(0)
    splits = LearnedSplits(BINS, 2, 1000, weights=weights())  # no opening at depth 2
    distilled = DistilledSplits(
        BINS, 2, 3, 1000, 4, weights(), "binary", DenseCodes(np.zeros((9, 4), np.uint8)), np.zeros((9, 1)), []
    )
    for source in (RandomSplits(BINS, 4, weights()), splits, distilled, distilled.below):
        trees = [source.draw(random) for _ in range(100)]
        assert set(thresholds_of(trees, 3, 129)) == set(DRAWN)
        assert len(set(thresholds_of(trees, 2, 33))) > 16
    cells = splits.random_splits.cells
    np.testing.assert_allclose(np.bincount(cells.feature, cells.probability)[1:], 1 / 3)
    likely = (cells.feature == 3) & (cells.probability > 0.01)
    assert set(cells.middle[likely].tolist()) == set(DRAWN)


def test_weights_decide_what_leaves_of_one_feature_hold():
    trees = LearnedSplits(BINS, 3, 1000, 3, weights()).opening[:3]
    ends = np.flatnonzero(np.diff(leaf_of_codes(trees[2])[:129]))
    assert set(DRAWN) <= set(ends.tolist())
    sizes = np.unique(leaf_of_codes(trees[1])[:33], return_counts=True)[1]
    assert sizes.max() - sizes.min() <= 1


def test_a_threshold_is_drawn_as_often_as_it_weighs():
    weight = np.array([1.0, 4.0, 0.5, 2.5, 2.0])
    trees = RandomSplits(Bins([6]), 8, [weight])
    random = SecureRandom(1)
    drawn = np.bincount(thresholds_of([trees.draw(random) for _ in range(60)], 0, 6), minlength=5)
    np.testing.assert_allclose(drawn / drawn.sum(), weight / 10, atol=0.02)


def test_each_of_few_bins_has_a_leaf_of_its_own():
    (weights,) = FeatureHistograms([np.r_[9000.0, np.zeros(14), 9000.0, 0.0]], 5.0).threshold_weights()
    np.testing.assert_array_equal(weights, np.ones(15))


def test_features_with_many_bins_are_counted():
    bins = Bins([129, 17, 16, 2, 40], categorical=[4])
    np.testing.assert_array_equal(features_with_many_bins(bins), [True, True, False, False, False])
    cells = released_cells(features_with_many_bins(bins), bins)
    assert cells.sum() == 130 + 18
    assert cells[: 130 + 18].all()
    assert not features_with_many_bins(Bins([40] * (MAX_COUNTED_FEATURES + 1))).any()
    assert features_with_many_bins(Bins([40] * MAX_COUNTED_FEATURES + [2] * 9)).sum() == MAX_COUNTED_FEATURES


@pytest.mark.parametrize(
    ("high", "is_missing", "told"),
    [
        (1.0, 0.0, {}),
        (0.75, 0.0, {"in an outermost bin, as all beyond the bounds": 25}),
        (1.0, 0.3, {"missing or not declared": 30}),
    ],
)
def test_reports_tell_released_shares_that_speak_against_the_declarations(high, is_missing, told):
    x = RNG.uniform(0, 1, 6000)
    x[RNG.random(6000) < is_missing] = np.nan
    model = lgb_dp.DPLGBMClassifier(4.0, n_estimators=2)
    model.fit(pd.DataFrame({"x": x}), x > 0.5, bounds=(0, high), classes=[0, 1])
    found = [note.split(": ")[1:] for note in model.privacy_.notes if "released histograms" in note]
    assert [what for what, _ in found] == [f"of the rows are {what}" for what in told]
    for (_, share), expected in zip(found, told.values(), strict=True):
        assert share.endswith("% of 'x'")
        assert int(share.partition("%")[0]) == pytest.approx(expected, abs=4)
