"""p-stable hashes against their formula, and the theory of their collisions."""

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import norm

from gbdt_kernels.similarity.stable_hashing import MAX_SLAB, stable_hashes


def functions(n_features, n_hashes, seed=0, window=4.0):
    random = np.random.default_rng(seed)
    directions = random.standard_normal((n_features, n_hashes))
    return random.standard_normal(n_features), directions, random.random(n_hashes) * window, window


def formula(X, centre, directions, shifts, window):
    distance = np.nan_to_num(X.astype(np.float64) - centre)
    return np.floor((distance @ directions + shifts) / window)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_dense_rows(n_threads):
    X = np.random.default_rng(1).standard_normal((20_000, 7)).astype(np.float32)
    X[::5, 2] = np.nan
    drawn = functions(7, 11)
    assert np.array_equal(stable_hashes(X, *drawn, n_threads), formula(X, *drawn))


def test_csr_rows_have_zeros_where_nothing_is_stored():
    random = np.random.default_rng(2)
    dense = np.where(random.random((500, 30)) < 0.2, random.standard_normal((500, 30)), 0).astype(np.float32)
    sparse = scipy.sparse.csr_matrix(dense)
    sparse.data[::7] = np.nan
    rows = sparse.toarray()
    drawn = functions(30, 5)
    assert np.array_equal(stable_hashes(sparse, *drawn), formula(rows, *drawn))


def test_extreme_values_are_clipped():
    X = np.array([[3e38], [-3e38]], dtype=np.float32)
    hashes = stable_hashes(X, np.zeros(1), np.ones((1, 1)), np.zeros(1), 1e-3)
    assert hashes.tolist() == [[MAX_SLAB], [-MAX_SLAB]]


def test_chance_of_collision_is_that_of_datar_et_al():
    """p(c) = 1 − 2Φ(−r/c) − 2c/(√(2π) r) (1 − exp(−r²/2c²)) at distance c, within 5 standard errors."""
    n_hashes, window = 40_000, 4.0
    random = np.random.default_rng(3)
    for distance in (1.0, 4.0, 12.0):
        direction = random.standard_normal(6)
        one = random.standard_normal(6)
        X = np.array([one, one + distance * direction / np.linalg.norm(direction)], dtype=np.float32)
        directions = random.standard_normal((6, n_hashes))
        hashes = stable_hashes(X, np.zeros(6), directions, random.random(n_hashes) * window, window)
        ratio = window / distance
        expected = 1 - 2 * norm.cdf(-ratio) - 2 / (np.sqrt(2 * np.pi) * ratio) * (1 - np.exp(-(ratio**2) / 2))
        spread = np.sqrt(expected * (1 - expected) / n_hashes)
        assert abs((hashes[0] == hashes[1]).mean() - expected) < 5 * spread
