"""Gradients of losses with a logarithmic link are those of the formulas, and their pairs keep to limits."""

import numpy as np
import pytest

from gbdt_kernels.trees import LogLinkPairs, leaf_sums

TOP = 1000
NO_LIMIT = np.full(2 * TOP + 1, TOP, dtype=np.int16)


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
