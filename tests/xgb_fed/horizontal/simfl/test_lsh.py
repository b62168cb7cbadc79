"""Moments, hash functions, and how many hashes Definition 1 allows."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from xgb_fed.horizontal.simfl.lsh import (
    PAPER_WINDOW,
    Moments,
    hash_rows,
    max_hashes,
    raw_scale,
    typical_distance,
)


@given(n_rows=st.integers(3, 10**6), n_unknown=st.integers(-5, 500))
def test_hashes_and_moments_are_fewer_equations_than_unknowns_and_no_more_hashes_would_do(n_rows, n_unknown):
    """Theorem 1's count for a row, L < d, and for a party, L·n + 2d < n·d; the largest such L."""

    def allowed(n_hashes):
        return n_hashes < n_unknown and n_hashes * n_rows + 2 * n_unknown < n_rows * n_unknown

    most = max_hashes(n_rows, n_unknown)
    if n_unknown > 0:
        assert most < 1 or allowed(most)
        assert not allowed(most + 1)
    else:
        assert most < 1


def test_typical_distance_is_the_root_mean_square_of_standardised_rows():
    random = np.random.default_rng(0)
    X = np.column_stack([random.random((20_000, 5)) * [1, 10, 100, 1e3, 1e4], np.full(20_000, 7.0)])
    deviation = X.std(axis=0)
    Z = (X - X.mean(axis=0))[:, :5] / deviation[:5]
    squares = ((Z[:10_000] - Z[10_000:]) ** 2).sum(axis=1)
    assert typical_distance(deviation) == pytest.approx(np.sqrt(10))
    assert np.sqrt(squares.mean()) == pytest.approx(typical_distance(deviation), rel=0.01)


def test_rows_as_they_are_are_hashed_in_windows_of_the_papers_width():
    random = np.random.default_rng(0)
    X = (random.random((2_000, 5)) * [1, 10, 100, 1e3, 1e4]).astype(np.float32)
    mean, std = raw_scale(5)
    found = hash_rows(X, mean, std, bytes(32), 4, typical_distance(std))
    written_out = hash_rows(X, np.zeros(5), np.ones(5), bytes(32), 4, PAPER_WINDOW)
    assert np.mean(found == written_out) > 0.999


def test_pooled_moments_are_those_of_pooled_rows_even_far_from_zero():
    random = np.random.default_rng(0)
    X = (1e6 + random.standard_normal((900, 4))).astype(np.float32)
    X[::9, 1] = np.nan
    parts = [X[:100], X[100:500], X[500:]]
    pooled = Moments.pooled([Moments.of(part) for part in parts])
    exact = X.astype(np.float64)
    assert np.array_equal(pooled.count, (~np.isnan(exact)).sum(axis=0))
    assert np.allclose(pooled.mean, np.nanmean(exact, axis=0), rtol=1e-12)
    assert np.allclose(pooled.std, np.nanstd(exact, axis=0), rtol=1e-9)


def test_unstored_entries_are_zeros():
    random = np.random.default_rng(1)
    X = np.where(random.random((200, 6)) < 0.3, random.standard_normal((200, 6)), 0).astype(np.float32)
    sparse, dense = Moments.of(scipy.sparse.csr_matrix(X)), Moments.of(X)
    assert np.array_equal(sparse.count, dense.count)
    assert np.allclose(sparse.mean, dense.mean)
    assert np.allclose(sparse.squares, dense.squares)


def test_columns_of_two_values_tell_nothing_and_constant_ones_do_not_count():
    X = np.full((50, 3), np.nan, dtype=np.float32)
    X[:2, 0] = 5.0, 7.0
    X[:, 1] = 3.0
    X[:, 2] = np.arange(50)
    moments = Moments.of(X)
    assert (moments.count[0], moments.mean[0], moments.squares[0]) == (0, 0, 0)
    assert moments.accepts(moments.mean, moments.std).tolist() == [False, False, True]


def test_moments_far_from_the_own_are_not_accepted():
    moments = Moments(np.full(6, 100.0), np.zeros(6), np.full(6, 100.0))  # six columns of std 1
    std = np.array([0.24, 0.26, 3.9, 4.1, 1.0, 1.0])
    mean = np.array([0.0, 0.0, 0.0, 0.0, 3.9, -4.1])
    assert moments.accepts(mean, std).tolist() == [False, True, True, False, True, False]
    assert not moments.accepts(mean, np.zeros(6)).any()


def test_functions_are_those_of_the_seed_and_scale_does_not_matter():
    random = np.random.default_rng(2)
    X = random.standard_normal((300, 5)).astype(np.float32)
    mean, deviation = X.mean(axis=0).astype(float), X.std(axis=0).astype(float)
    one = hash_rows(X, mean, deviation, bytes(32), 4, 4.0)
    assert np.array_equal(one, hash_rows(X, mean, deviation, bytes(32), 4, 4.0))
    assert not np.array_equal(one, hash_rows(X, mean, deviation, bytes(31) + b"1", 4, 4.0))
    assert np.array_equal(one, hash_rows(X * 2**10, mean * 2**10, deviation * 2**10, bytes(32), 4, 4.0))


def test_columns_without_spread_do_not_count():
    X = np.random.default_rng(3).standard_normal((100, 3)).astype(np.float32)
    other = X.copy()
    other[:, 1] = 9.0
    mean, deviation = np.zeros(3), np.array([1.0, 0.0, 1.0])
    ours, theirs = (hash_rows(rows, mean, deviation, bytes(32), 2, 4.0) for rows in (X, other))
    assert np.array_equal(ours, theirs)


def test_normal_directions():
    """The drawn directions are standard normal: mean and variance of 40,000 within 5 standard errors."""
    hashes = hash_rows(np.eye(200, dtype=np.float32), np.zeros(200), np.ones(200), bytes(32), 200, 1e-3)
    draws = hashes.ravel() * 1e-3
    assert abs(draws.mean()) < 5 / 200
    assert draws.var() == pytest.approx(1, abs=5 * np.sqrt(2) / 200)
