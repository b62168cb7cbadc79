"""Concordance counts the pairs that a loop over all pairs counts."""

import numpy as np
import pytest

from gbdt_kernels.concordance import concordance


def slow(lower, upper, predicted):
    n_pairs = n_ordered = 0
    for i in np.flatnonzero(np.isfinite(upper)):
        later = (upper[i] < lower) | ((upper[i] == lower) & (upper > lower))
        later[i] = False
        n_pairs += later.sum()
        n_ordered += (predicted[i] < predicted[later]).sum() + (predicted[i] == predicted[later]).sum() / 2
    return n_pairs, n_ordered


@pytest.mark.parametrize("seed", range(30))
def test_pairs_are_those_of_a_loop(seed):
    random = np.random.default_rng(seed)
    n = seed * 2
    lower = random.integers(0, 8, n).astype(float)
    upper = np.where(random.random(n) < 0.4, np.inf, lower + random.integers(0, 2, n))
    predicted = random.integers(0, 6, n).astype(float)
    assert concordance(lower, upper, predicted) == slow(lower, upper, predicted)
