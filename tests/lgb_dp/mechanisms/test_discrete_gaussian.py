"""The discrete Gaussian sampler against its exact probabilities."""

from math import exp

import numpy as np
import pytest
from scipy.stats import chisquare

from gbdt_kernels.draws.discrete import LOG2_DENOMINATOR
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.mechanisms import discrete_gaussian as module
from lgb_dp.mechanisms.discrete_gaussian import MAX_VARIANCE, discrete_gaussian
from lgb_dp.mechanisms.rng import SecureRandom


def probabilities(variance, reach):
    weight = np.array([exp(-k * k / (2 * variance)) for k in range(-reach, reach + 1)])
    return weight / weight.sum()


@pytest.mark.parametrize("variance", [1, 2, 7, 60])
def test_frequencies_are_the_exact_probabilities(variance):
    n, reach = 60_000, int(12 * variance**0.5) + 2
    drawn = discrete_gaussian(n, variance, SecureRandom(variance))
    assert np.abs(drawn).max() <= reach
    counts = np.bincount(drawn + reach, minlength=2 * reach + 1)
    expected = n * probabilities(variance, reach)
    kept = expected >= 8
    counts = np.append(counts[kept], counts[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum())
    assert chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 1e-3


def test_variance_of_large_numbers():
    variance, n = 3 * 10**9, 40_000
    drawn = discrete_gaussian(n, variance, SecureRandom(1)).astype(np.float64)
    assert abs((drawn**2).mean() / variance - 1) < 6 * (2 / n) ** 0.5
    assert abs(drawn.mean()) < 6 * (variance / n) ** 0.5
    assert abs((drawn**4).mean() / variance**2 / 3 - 1) < 6 * (32 / 3 / n) ** 0.5


def test_the_exact_comparison_agrees_with_that_of_floats(monkeypatch):
    variance, n = 1000, 300
    slope = int(2**LOG2_DENOMINATOR / variance**0.5)
    proposed = np.arange(-n // 2, n // 2)
    plain = module.accept(proposed, variance, slope, SecureRandom(3))
    monkeypatch.setattr(module, "LEAST_DOUBT", 1.0)
    exact = module.accept(proposed, variance, slope, SecureRandom(3))
    assert plain.tolist() == exact.tolist()
    assert 0 < plain.sum() < n


class Words:
    """A stream of given words."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


def test_a_uniform_number_at_the_boundary_is_told_apart_by_its_further_bits():
    variance, slope = 1, 0  # so that a proposal of 1 is accepted with probability exp(-1/2)
    first, more = divmod(0x9B4597E37CB04FF3D675A35530CDD767, 2**64)  # its first 128 bits
    assert module.is_below(first, 1, variance, slope, Words(more - 1))
    assert not module.is_below(first, 1, variance, slope, Words(more + 1))
    assert module.is_below(first - 1, 1, variance, slope, Words())
    assert not module.is_below(first + 1, 1, variance, slope, Words())


def test_comparisons_are_exact_wherever_floats_may_err():
    # The errors that `accept` proves: 2^-38 of the probability, and 2^-50 beyond 64 standard deviations.
    assert 2.0**-37 < module.DOUBT < 2.0**-20
    assert 2.0**-50 <= module.LEAST_DOUBT < 2.0**-40


@pytest.mark.parametrize("variance", [0, -3, MAX_VARIANCE + 1])
def test_variances_out_of_range_are_refused(variance):
    with pytest.raises(InvalidArgumentError, match="variance"):
        discrete_gaussian(1, variance, SecureRandom(0))


def test_as_many_as_asked_for():
    assert [len(discrete_gaussian(n, 50, SecureRandom(0))) for n in (0, 1, 7)] == [0, 1, 7]
