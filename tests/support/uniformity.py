"""Toy keys, and a test of uniformity."""

import numpy as np
from scipy.stats import chi2

from xgb_fed.ciphers.primes import FactoredPrime
from xgb_fed.ciphers.randomness import SecretStream

P = FactoredPrime(23, (2, 11))
DRAWS_PER_CELL = 60


def stream(number):
    return SecretStream(bytes([number] * 32))


def check_uniform(drawn, cells):
    """Only members of `cells`, every one about equally often."""
    values, counts = np.unique(np.array(drawn), return_counts=True)
    assert set(values.tolist()) <= set(cells)
    expected = len(drawn) / len(cells)
    full = np.concatenate([counts, np.zeros(len(cells) - len(counts))])
    statistic = ((full - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-6, len(cells) - 1)
    assert statistic > chi2.ppf(1e-6, len(cells) - 1)
