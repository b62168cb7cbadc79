"""The most similar row, against counting all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from gbdt_kernels.similarity import collisions
from gbdt_kernels.similarity.collisions import most_similar


def agreements(queries, targets):
    return (queries[:, None, :] == targets[None]).sum(axis=2)


def words(count, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


@settings(max_examples=25, deadline=None)
@given(
    n_hashes=st.integers(1, 40),
    span=st.sampled_from([1, 2, 5, 200, 70_000, 2**31 - 1]),
    n_queries=st.integers(0, 60),
    n_targets=st.integers(1, 90),
    seed=st.integers(0, 2**32),
)
def test_finds_a_row_with_the_most_equal_hashes(n_hashes, span, n_queries, n_targets, seed):
    random = np.random.default_rng(seed)
    queries = random.integers(-span, span, (n_queries, n_hashes), dtype=np.int32, endpoint=True)
    targets = random.integers(-span, span, (n_targets, n_hashes), dtype=np.int32, endpoint=True)
    near = random.integers(0, n_targets, n_queries)
    keep = random.random((n_queries, n_hashes)) < random.random((n_queries, 1))
    queries = np.where(keep, targets[near], queries)
    (found,), best = most_similar(queries, targets, words(n_queries, seed))
    counts = agreements(queries, targets)
    assert np.array_equal(best, counts.max(axis=1))
    assert np.array_equal(counts[np.arange(n_queries), found], best)


def test_buckets_longer_than_a_piece():
    random = np.random.default_rng(1)
    targets = random.integers(0, 2, (3 * collisions.ROWS_AT_ONCE + 7, 12), dtype=np.int32)
    queries = random.integers(0, 2, (50, 12), dtype=np.int32)
    (found,), best = most_similar(queries, targets, words(50))
    counts = agreements(queries, targets)
    assert np.array_equal(best, counts.max(axis=1))
    assert np.array_equal(counts[np.arange(50), found], best)


@pytest.mark.parametrize("distance", [0, 1, 2, 3, 5, 6, 8])
def test_ties_are_uniform_whatever_the_groups(distance):
    """Every target at the smallest distance is drawn equally often (χ² test at 1e-6), at any depth."""
    n_hashes, n_queries = 17, 40_000
    random = np.random.default_rng(distance)
    query = random.integers(0, 100, n_hashes, dtype=np.int32)
    targets = np.tile(query, (11, 1))
    for row in targets[:7]:
        row[random.choice(n_hashes, distance, replace=False)] += 1000
    for row in targets[7:]:
        row[random.choice(n_hashes, distance + 1, replace=False)] += 1000
    targets = np.concatenate([targets, random.integers(2000, 3000, (3000, n_hashes), dtype=np.int32)])
    order = random.permutation(len(targets))
    (found,), best = most_similar(np.tile(query, (n_queries, 1)), targets[order], words(n_queries, distance))
    assert (best == n_hashes - distance).all()
    drawn = np.bincount(order[found], minlength=len(targets))
    assert drawn[7:].sum() == 0
    assert chisquare(drawn[:7]).pvalue > 1e-6


@pytest.mark.parametrize("n_targets", [3, 3 * collisions.ROWS_AT_ONCE])
def test_draws_of_a_row_are_independent(n_targets):
    """Two draws from the same ties: all pairs of thirds as often (χ² test at 1e-6), in any pieces."""
    n_queries = 30_000
    targets, queries = np.ones((n_targets, 4), dtype=np.int32), np.ones((n_queries, 4), dtype=np.int32)
    found, best = most_similar(queries, targets, words(n_queries), n_draws=3)
    assert found.shape == (3, n_queries)
    assert (best == 4).all()
    third = found // (n_targets // 3)
    for one, two in ((0, 1), (1, 2), (0, 2)):
        assert chisquare(np.bincount(3 * third[one] + third[two], minlength=9)).pvalue > 1e-6


def test_rows_without_any_equal_hash_draw_among_all():
    queries = np.zeros((20_000, 3), dtype=np.int32)
    targets = np.ones((5, 3), dtype=np.int32)
    (found,), best = most_similar(queries, targets, words(len(queries)))
    assert (best == 0).all()
    assert chisquare(np.bincount(found, minlength=5)).pvalue > 1e-6


def test_words_decide_and_threads_do_not():
    random = np.random.default_rng(3)
    queries = random.integers(0, 3, (30_000, 9), dtype=np.int32)
    targets = random.integers(0, 3, (3_000, 9), dtype=np.int32)
    drawn = words(len(queries))
    given_words = drawn.copy()
    one, _ = most_similar(queries, targets, drawn, n_threads=1)
    several, _ = most_similar(queries, targets, drawn, n_threads=3)
    other, _ = most_similar(queries, targets, words(len(queries), 1))
    assert np.array_equal(one, several)
    assert not np.array_equal(one, other)
    assert np.array_equal(drawn, given_words)


def test_bad_tables():
    table = np.zeros((3, 4), dtype=np.int32)
    with pytest.raises(ValueError, match="4 and 3 hashes"):
        most_similar(table, table[:, :3], words(3))
    with pytest.raises(ValueError, match="no rows"):
        most_similar(table, table[:0], words(3))
    with pytest.raises(ValueError, match="1 to 255"):
        most_similar(np.zeros((3, 256), np.int32), np.zeros((3, 256), np.int32), words(3))
