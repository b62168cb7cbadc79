"""Sums over leaves, of whatever table, and scores brought up to date on the way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.trees import LogLinkPairs, SoftmaxPairs, TablePairs, add_leaf_values, leaf_sums

TOP = 1000
NO_LIMIT = np.full(2 * TOP + 1, TOP, dtype=np.int16)

pytestmark = pytest.mark.usefixtures("tiny_blocks")

STEPS = 50


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), logistic=st.booleans(), n_threads=st.integers(1, 3))
def test_rows_add_their_tables_entries_times_their_weights(seed, logistic, n_threads):
    rng = np.random.default_rng(seed)
    n, n_leaves = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    table = rng.integers(-(2**15), 2**15, (2 * STEPS + 1, 2)).astype(np.int16)
    score = rng.normal(size=(n, 1)) * rng.choice([1.0, 100.0])
    target = rng.uniform(0, 1, n) if logistic else rng.uniform(-1, 1, n)
    weight, leaf = rng.integers(0, 1000, n).astype(np.int32), rng.integers(0, n_leaves, n).astype(np.uint16)
    expected = np.zeros((n_leaves, 1, 2), dtype=np.int64)
    for row in range(n):
        p = 1 / (1 + np.exp(-np.clip(score[row, 0], -30, 30)))
        gradient = p - target[row] if logistic else (score[row, 0] - target[row]) / 2
        if abs(gradient * STEPS - round(gradient * STEPS)) < 1e-6:
            weight[row] = 0  # which of two entries, float64 may decide either way
        entry = STEPS + int(np.clip(gradient, -1, 1) * STEPS)
        expected[leaf[row], 0] += table[entry].astype(np.int64) * weight[row]
    found = leaf_sums(TablePairs(target, logistic, table), score, weight, leaf, n_leaves, n_threads)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("score", "entry"), [(np.nan, STEPS), (np.inf, 2 * STEPS), (-np.inf, 0), (1e9, 2 * STEPS)]
)
def test_any_score_has_an_entry(score, entry):
    table = np.arange(2 * (2 * STEPS + 1)).reshape(-1, 2).astype(np.int16)
    pairs = TablePairs(np.zeros(1), False, table)
    found = leaf_sums(pairs, np.array([[score]]), np.ones(1, np.int32), np.zeros(1, np.uint16), 1)
    np.testing.assert_array_equal(found[0, 0], table[entry])


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_rows_are_prepared_before_they_are_added_up(n_outputs, n_threads):
    rng = np.random.default_rng(0)
    n = 11
    score, value = rng.normal(size=(n, n_outputs)), rng.normal(size=(4, n_outputs))
    old, new = (rng.integers(0, 4, n).astype(np.uint16) for _ in range(2))
    weight = np.ones(n, np.int32)
    if n_outputs == 1:
        table = rng.integers(-50, 50, (2 * STEPS + 1, 2)).astype(np.int16)
        pairs = TablePairs(np.zeros(n), True, table)
    else:
        pairs = SoftmaxPairs(rng.integers(0, 3, n), STEPS, 1.0, 1.0, 0.5)
    after = score + value[old]
    expected = leaf_sums(pairs, after, weight, new, 4, 1)
    leaf = old.copy()

    def prepare(first, last):
        add_leaf_values(leaf, value, first, last, score)
        leaf[first:last] = new[first:last]

    np.testing.assert_array_equal(leaf_sums(pairs, score, weight, leaf, 4, n_threads, prepare), expected)
    np.testing.assert_array_equal(score, after)
    np.testing.assert_array_equal(leaf, new)


def pairs_of(score, target, power, scale=1.0, limit=NO_LIMIT, lowest=-25.0):
    """What each row adds on its own, in steps."""
    n = len(score)
    pairs = LogLinkPairs(np.asarray(target, dtype=float), power, lowest, scale, limit)
    leaf, weight = np.arange(n, dtype=np.uint16), np.ones(n, dtype=np.int32)
    return leaf_sums(pairs, np.asarray(score, dtype=float)[:, None], weight, leaf, n)[:, 0].T


@pytest.mark.parametrize("power", [1.0, 1.3, 1.5, 1.99, 2.0])
def test_gradients_are_those_of_the_deviance(power):
    rng = np.random.default_rng(0)
    score, target = rng.uniform(-12, 0, 4000), rng.uniform(0, 1, 4000)
    mean = np.exp(score)
    gradient, hessian = mean ** (1 - power) * (mean - target), mean ** (2 - power)
    g, h = pairs_of(score, target, power, 0.7)
    inside = np.abs(0.7 * gradient) < 1
    np.testing.assert_allclose(g[inside], np.trunc(0.7 * gradient[inside] * TOP), atol=1.01)
    np.testing.assert_array_equal(g[~inside], np.sign(gradient[~inside]) * TOP)
    np.testing.assert_allclose(h, np.floor(0.7 * hessian * TOP), atol=1.01)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_scores_beyond_their_range_count_as_its_ends(power):
    score = np.array([np.inf, 3.0, 0.0, -25.0, -1e300, -np.inf])
    g, h = pairs_of(score, np.full(6, 0.5), power)
    assert len(set(g[:3])) == len(set(h[:3])) == len(set(g[3:])) == len(set(h[3:])) == 1
    assert g[0] == TOP / 2
    assert g[3] == pytest.approx(-TOP if power > 1 else -TOP / 2, abs=1)


def test_limits_hold_for_every_row_whatever_its_score():
    rng = np.random.default_rng(1)
    limit = rng.integers(0, 50, 2 * TOP + 1).astype(np.int16)
    score = np.concatenate([rng.normal(-2, 5, 3000), [np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0]])
    for power in (1.0, 1.4, 2.0):
        g, h = pairs_of(score, rng.uniform(0, 1, len(score)), power, 3.0, limit)
        assert (np.abs(g) <= TOP).all()
        assert (h >= 0).all()
        assert (h <= limit[g + TOP]).all()
