"""The joint bound of gradients and hessians, by enumeration and by search."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.trees import leaf_sums
from gbdt_kernels.trees.newton import logistic_gradients
from lgb_dp.losses.loss import HESSIAN_LIMIT, STEPS, NewtonLoss, pair_table

clips = st.one_of(st.just(1.0), st.floats(1 / STEPS, 1.0))
shares = st.sampled_from([0.0, 0.05, 0.5, 0.95])


def squared_length(g, h, loss, mu=1.0):
    """Exact squared length of a contribution in stds of the noise."""
    sigma_g, sigma_h = map(Fraction, loss.stds(mu))
    return sum(Fraction(int(x)) ** 2 for x in np.atleast_1d(g)) / sigma_g**2 + (
        sum(Fraction(int(x)) ** 2 for x in np.atleast_1d(h)) / sigma_h**2
    )


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(["binary", "regression"]), clips, shares)
def test_every_entry_of_the_table_keeps_to_the_bound(objective, clip, share):
    loss = NewtonLoss(objective, clip, share)
    table = pair_table(objective, clip, share)
    sigma_g, sigma_h = loss.stds(1.0)
    length = (table[:, 0] / sigma_g) ** 2 + (table[:, 1] / sigma_h) ** 2
    assert length.max() <= 1 + 1e-9
    for entry in [*np.argsort(length)[-40:], 0, STEPS, 2 * STEPS]:  # the longest ones, exactly
        assert squared_length(*table[entry], loss) <= 1 + Fraction(1, 10**14)
    assert len(table) == 2 * STEPS + 1
    np.testing.assert_array_equal(table[::-1] * [-1, 1], table)
    assert (table[:, 1] >= 0).all()
    assert np.abs(table[:, 0]).max() <= clip * STEPS


def test_the_bound_is_attained_and_the_hessian_is_that_of_the_loss():
    table = pair_table("binary", 1.0, 0.0)
    assert table[[0, STEPS, 2 * STEPS]].tolist() == [[-STEPS, 0], [0, 0], [STEPS, 0]]
    size = np.abs(np.arange(-STEPS, STEPS + 1)) / STEPS
    np.testing.assert_allclose(table[:, 1] / STEPS, size * (1 - size), atol=1.01 / STEPS)
    g = np.linspace(0, 1, 200_001)[:-1]
    assert HESSIAN_LIMIT["binary"] - 1e-4 < np.max(g * (1 - g) / np.sqrt(1 - g**2)) <= HESSIAN_LIMIT["binary"]


def one_row(loss, score, target, weight):
    score = np.atleast_2d(np.asarray(score, dtype=float))
    pairs = loss.pairs(np.array([float(target)]))
    sums = leaf_sums(pairs, score, np.array([weight], np.int32), np.zeros(1, np.uint16), 1)
    return sums[0, :, 0], sums[0, :, 1]


scores = st.one_of(
    st.floats(-40, 40), st.sampled_from([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308, 5e-324])
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["binary", "regression"]), scores, st.floats(-1, 1), st.integers(0, 1024), clips, shares
)
def test_no_row_adds_more_than_its_weight_times_the_bound(objective, score, target, weight, clip, share):
    loss = NewtonLoss(objective, clip, share)
    target = float(target > 0) if objective == "binary" else target
    g, h = one_row(loss, [score], target, weight)
    assert squared_length(g, h, loss) <= Fraction(weight) ** 2 * (1 + Fraction(1, 10**14))


@settings(max_examples=150, deadline=None)
@given(st.lists(scores, min_size=2, max_size=9), st.data(), st.integers(0, 1024), clips, shares)
def test_no_row_adds_more_than_the_bound_with_several_classes(score, data, weight, clip, share):
    loss = NewtonLoss("multiclass", clip, share)
    target = data.draw(st.integers(0, len(score) - 1))
    g, h = one_row(loss, score, target, weight)
    assert squared_length(g, h, loss) <= Fraction(weight) ** 2 * (1 + Fraction(1, 10**12))


@settings(max_examples=150, deadline=None)
@given(st.lists(scores, min_size=2, max_size=9), st.data(), st.integers(0, 1024), clips, shares)
def test_no_row_adds_more_than_the_bound_with_several_targets(score, data, weight, clip, share):
    loss = NewtonLoss("regression", clip, share, len(score))
    target = np.array([[data.draw(st.floats(-1, 1)) for _ in score]])
    reach = data.draw(st.sampled_from([1e-3, 1.0, 5.0]))  # a wider clip, of the last release
    own = np.array([score]), np.array([weight], np.int32), np.zeros(1, np.uint16), 1
    g, h = np.moveaxis(leaf_sums(loss.pairs(target, reach), *own)[0], 1, 0)
    assert squared_length(g, h, loss) <= Fraction(weight) ** 2 * (1 + Fraction(1, 10**12))
    assert np.ptp(h) == 0
    counts = loss.label_counts(target, np.array([weight], np.int32), len(score))
    assert sum(int(one) ** 2 for one in counts) <= (weight * STEPS) ** 2


def test_the_bound_is_attained_with_several_targets():
    loss = NewtonLoss("regression", 0.1, 0.0, 4)
    sigma_g, sigma_h = loss.stds(1.0)
    own = np.ones(1, np.int32), np.zeros(1, np.uint16), 1
    for residual in (0.0, 0.1, 0.3, 2.0):  # beside the clip, of a length of 0.2
        (pairs,) = leaf_sums(loss.pairs(np.zeros((1, 4))), np.array([[residual, 0, -residual, 0]]), *own)
        assert np.hypot(*(np.linalg.norm(pairs, axis=0) / [sigma_g, sigma_h])) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("clip", [1.0, 0.5])
def test_a_directed_search_finds_no_longer_row_with_several_classes(clip):
    """Climb on the scores for the longest contribution: the bound is met, never passed."""
    loss, rng = NewtonLoss("multiclass", clip, 0.0), np.random.default_rng(0)
    sigma_g, sigma_h = loss.stds(1.0)

    def length(score, target):
        g, h = one_row(loss, score, target, 1)
        return float((g / sigma_g) @ (g / sigma_g) + (h / sigma_h) @ (h / sigma_h))

    best = 0.0
    for n_classes in (2, 3, 10):
        for _ in range(10):
            score, target = rng.normal(size=n_classes) * 4, rng.integers(n_classes)
            now = length(score, target)
            for _ in range(200):
                trial = score + rng.normal(size=n_classes) * rng.choice([0.01, 0.3, 3.0])
                if (found := length(trial, target)) >= now:
                    score, now = trial, found
            best = max(best, now)
    assert 0.99 < best <= 1 + 1e-12


@pytest.mark.parametrize("n_classes", [3, 5])
def test_a_model_of_several_classes_begins_at_their_shares(n_classes):
    loss, counts = NewtonLoss("multiclass", 0.5, 0.0), 100.0 * np.arange(1, n_classes + 1)
    assert loss.n_counts(n_classes) == n_classes
    start = loss.start(counts, 0.0)
    assert start.n_rows == counts.sum()
    np.testing.assert_allclose(np.exp(start.prior) / np.exp(start.prior).sum(), counts / counts.sum())
    # Of counts within the noise nothing is said.
    assert np.ptp(loss.start(counts, 1e9).prior) < 1e-5
    assert NewtonLoss("binary", 0.5, 0.0).n_counts(1) == 2


def test_rounding_is_toward_zero():
    loss = NewtonLoss("binary", 1.0, 0.0)
    for score in np.linspace(-9, 9, 1001):
        p = 1 / (1 + np.exp(-score))
        for target in (0.0, 1.0):
            g, h = one_row(loss, [score], target, 1)
            assert abs(int(g[0])) <= abs(p - target) * STEPS * (1 + 1e-12)
            assert int(h[0]) <= p * (1 - p) * STEPS + 1  # of the rounded gradient


def test_the_fast_logistic_is_the_logistic():
    score = np.concatenate([np.linspace(-29, 29, 4001), [0.0, 100.0, -100.0]])
    gradient = np.empty(len(score))
    logistic_gradients(score, np.zeros(len(score)), gradient)
    np.testing.assert_allclose(gradient, scipy.special.expit(score), atol=1e-9)


def test_sums_are_exact_whatever_the_threads():
    rng = np.random.default_rng(1)
    n = 30_000
    leaf = rng.integers(0, 8, n).astype(np.uint16)
    weight = rng.integers(0, 1025, n).astype(np.int32)
    for objective, n_outputs in (("binary", 1), ("regression", 1), ("multiclass", 4)):
        loss = NewtonLoss(objective, 0.7, 0.0)
        score = rng.normal(size=(n, n_outputs)) * 3
        target = rng.integers(0, max(2, n_outputs), n).astype(float)
        one, two = (leaf_sums(loss.pairs(target), score, weight, leaf, 8, threads) for threads in (1, 2))
        np.testing.assert_array_equal(one, two)
        rows = np.flatnonzero(leaf == 3)[:50]
        by_hand = sum(np.stack(one_row(loss, score[i], target[i], weight[i]), axis=1) for i in rows)
        own = leaf_sums(loss.pairs(target[rows]), score[rows], weight[rows], leaf[rows], 8)
        np.testing.assert_array_equal(own[3], by_hand)


def test_neighbouring_data_sets_differ_by_the_row_alone():
    rng = np.random.default_rng(2)
    loss = NewtonLoss("binary", 0.5, 0.0)
    score, target = rng.normal(size=(500, 1)), rng.integers(0, 2, 500).astype(float)
    weight, leaf = np.ones(500, np.int32), rng.integers(0, 4, 500).astype(np.uint16)
    with_row = leaf_sums(loss.pairs(target), score, weight, leaf, 4)
    without = leaf_sums(loss.pairs(target[:-1]), score[:-1], weight[:-1], leaf[:-1], 4)
    change = with_row - without
    assert np.count_nonzero(change.any(axis=(1, 2))) == 1
    assert squared_length(change[..., 0].sum(), change[..., 1].sum(), loss) <= 1
