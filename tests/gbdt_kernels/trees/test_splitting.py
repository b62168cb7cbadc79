"""Gains against their definition, and the table that sends bins left."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.trees import BinLayout, candidate_gains, candidate_risks, goes_left_table

LAMBDAS = st.sampled_from([0.0, 0.1, 1.0, 1000.0])


@st.composite
def layout_and_histogram(draw, signed=True):
    """Features that share one node total; about half of the bins are empty."""
    n_features = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_bins = rng.integers(1, 6, n_features)
    is_categorical = rng.random(n_features) < 0.5
    n_total = int((n_bins + 1).sum())
    layout = BinLayout(n_bins, is_categorical, rng.random((int(rng.integers(0, 4)), n_total)) < 0.5)
    largest = draw(st.sampled_from([3, 1000, 2**50]))
    n_rows = int(rng.integers(0, 6))
    rows = np.stack(
        [rng.integers(-largest if signed else 0, largest + 1, n_rows), rng.integers(0, largest + 1, n_rows)],
        axis=1,
    )
    histogram = np.zeros((n_total, 2), dtype=np.int64)
    for f in range(n_features):
        np.add.at(histogram, layout.bin_offsets[f] + rng.integers(0, n_bins[f] + 1, n_rows), rows)
    return layout, histogram


def left_sides(layout):
    """(feature, bins that go left) of every candidate, in the documented order."""
    for f, n in enumerate(layout.n_bins.tolist()):
        if not layout.is_categorical[f]:
            for threshold in range(n - 1):
                below = set(range(threshold + 1))
                yield f, below | {n}
                yield f, below
        elif n > 1:
            for category in range(n):
                yield f, {category}
            for subset in layout.subsets:
                yield f, {b for b in range(n) if subset[layout.bin_offsets[f] + b]}


def gain_of(layout, histogram, feature, left, lambda_l2):
    bins = histogram[layout.bin_offsets[feature] : layout.bin_offsets[feature + 1]].tolist()
    gain = Fraction(0)
    for child in (left, set(range(len(bins))) - left):
        gradient = sum(bins[b][0] for b in child)
        denominator = sum(bins[b][1] for b in child) + Fraction(lambda_l2)
        gain += Fraction(gradient) ** 2 / denominator if denominator > 0 else 0
    return float(gain)


def risk_of(layout, histogram, feature, left, alpha, cap, prior):
    bins = histogram[layout.bin_offsets[feature] : layout.bin_offsets[feature + 1]].tolist()
    risk = 0.0
    for child in (left, set(range(len(bins))) - left):
        p, n = (sum(bins[b][column] for b in child) for column in (0, 1))
        root = math.sqrt((min(p, cap) + prior) * (min(n, cap) + prior))
        risk += 2 * (alpha * root + (1 - alpha) * min(p, n))
    return risk


@settings(max_examples=150, deadline=None)
@given(
    case=layout_and_histogram(signed=False),
    alpha=st.sampled_from([0.0, 0.3, 1.0]),
    cap=st.sampled_from([1.0, 2000.0, math.inf]),
    prior=st.sampled_from([0.0, 0.5, 100.0]),
)
def test_risks_are_those_of_the_definition(case, alpha, cap, prior):
    layout, histogram = case
    # A second node with other settings must not see those of the first.
    per_node = (np.array(pair) for pair in ((0.7, alpha), (3.0, cap), (1.0, prior)))
    risks = candidate_risks(np.stack([0 * histogram, histogram]), layout, *per_node)[1]
    expected = [risk_of(layout, histogram, f, left, alpha, cap, prior) for f, left in left_sides(layout)]
    np.testing.assert_allclose(risks, expected, rtol=1e-12)


@settings(max_examples=150, deadline=None)
@given(case=layout_and_histogram(), lambda_l2=LAMBDAS)
def test_gains_are_their_definition(case, lambda_l2):
    layout, histogram = case
    expected = [gain_of(layout, histogram, f, left, lambda_l2) for f, left in left_sides(layout)]
    np.testing.assert_allclose(candidate_gains(histogram[None], layout, lambda_l2)[0], expected, rtol=1e-12)


@settings(max_examples=100, deadline=None)
@given(case=layout_and_histogram())
def test_the_table_sends_the_bins_of_the_candidate_left(case):
    layout, _ = case
    sides = list(left_sides(layout))
    feature, goes_left = goes_left_table(np.arange(layout.n_candidates), layout)
    assert feature.tolist() == [f for f, _ in sides]
    assert [set(np.flatnonzero(row).tolist()) for row in goes_left] == [left for _, left in sides]
    assert goes_left.shape == (len(sides), 256)
    assert set(np.unique(goes_left)) <= {0, 1}


@settings(max_examples=100, deadline=None)
@given(case=layout_and_histogram(), lambda_l2=LAMBDAS)
def test_the_table_agrees_with_the_gains(case, lambda_l2):
    layout, histogram = case
    feature, goes_left = goes_left_table(np.arange(layout.n_candidates), layout)
    expected = [
        gain_of(layout, histogram, f, set(np.flatnonzero(row).tolist()), lambda_l2)
        for f, row in zip(feature, goes_left, strict=True)
    ]
    np.testing.assert_allclose(candidate_gains(histogram[None], layout, lambda_l2)[0], expected, rtol=1e-12)


def test_candidates_in_any_order_and_repeated():
    layout = BinLayout(np.array([1, 3, 1, 2]), np.array([False, False, True, True]), np.ones((1, 11), bool))
    candidates = np.array([6, 0, 3, 0, 4, 2])
    sides = list(left_sides(layout))
    feature, goes_left = goes_left_table(candidates, layout)
    assert feature.tolist() == [sides[c][0] for c in candidates]
    assert [set(np.flatnonzero(row).tolist()) for row in goes_left] == [sides[c][1] for c in candidates]


@pytest.mark.parametrize("lambda_l2", [0.0, 1.0])
def test_an_empty_node_scores_every_candidate_zero(lambda_l2):
    layout = BinLayout(np.array([4, 3]), np.array([False, True]), np.ones((2, 9), bool))
    gains = candidate_gains(np.zeros((1, 9, 2), dtype=np.int64), layout, lambda_l2)[0]
    assert gains.tolist() == [0.0] * (6 + 5)


def test_an_empty_child_leaves_the_gain_of_the_node():
    layout = BinLayout(np.array([3]), np.array([False]), np.zeros((0, 4), bool))
    histogram = np.array([[0, 0], [0, 0], [6, 4], [0, 0]])
    assert candidate_gains(histogram[None], layout, 0.0)[0].tolist() == [9.0] * 4


def test_categories_that_are_missing_always_go_right():
    layout = BinLayout(np.array([3]), np.array([True]), np.ones((1, 4), bool))
    _, goes_left = goes_left_table(np.arange(layout.n_candidates), layout)
    assert not goes_left[:, 3].any()
