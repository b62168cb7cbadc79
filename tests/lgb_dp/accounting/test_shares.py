"""Noise in shares: its variance, and how close sums of shares come to what the accounting assumes."""

from fractions import Fraction
from math import exp, log, pi

import numpy as np
import pytest

from lgb_dp.accounting.shares import (
    CLOSENESS_SHARE,
    ROUNDING_VARIANCE,
    check_closeness,
    closeness,
    closeness_cost,
    share_variance,
)
from lgb_dp.errors import InvalidArgumentError


def discrete(variance, reach):
    weight = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance))
    return weight / weight.sum()


@pytest.mark.parametrize(("variance", "n"), [(1, 2), (1, 5), (2, 3)])
def test_sums_of_shares_are_as_close_to_one_discrete_gaussian_as_stated(variance, n):
    reach = 40
    one = discrete(variance, reach)
    total = one
    for _ in range(n - 1):
        total = np.convolve(total, one)
    middle = len(total) // 2
    near = slice(middle - 12, middle + 13)
    ratio = total[near] / discrete(n * variance, middle)[near]
    tau = 10 * sum(exp(-2 * pi**2 * variance * k / (k + 1)) for k in range(1, n))
    assert 0 < np.abs(np.log(ratio)).max() <= tau
    assert tau <= 10 * (n - 1) * exp(-(pi**2) * variance) <= closeness(variance, n)


@pytest.mark.parametrize(("total", "rounding"), [(1.0, 0.4), (2.0, 0.5), (1.5, 0.25)])
def test_a_discrete_gaussian_is_as_close_to_a_rounded_one_as_stated(total, rounding):
    """With a smaller r² than the one in use, for which the difference could not be seen in float64."""
    y = np.linspace(-14, 14, 8_001)
    k = np.arange(-24, 25)
    at = np.exp(-((k[:, None] - y) ** 2) / (2 * rounding))
    density = np.exp(-(y**2) / (2 * (total - rounding)))
    of_rounded = (density * at / at.sum(axis=0)).sum(axis=1)
    of_rounded /= of_rounded.sum()
    near = slice(20, 29)
    ratio = np.log(of_rounded[near] / discrete(total, 24)[near])
    bound = 4 * exp(-2 * pi**2 * rounding)
    assert 1e-9 < np.abs(ratio).max() <= bound * (1 + bound)


@pytest.mark.parametrize("std", [0.7, 3.0, 1e5, 123456.789])
@pytest.mark.parametrize(("n", "t"), [(2, 1), (3, 1), (10, 4), (5, 0)])
def test_honest_shares_suffice_and_no_variance_is_wasted(std, n, t):
    variance = share_variance(std, n, t)
    needed = Fraction(std) ** 2 + ROUNDING_VARIANCE
    assert (n - t) * variance >= needed > (n - t) * (variance - 1)


@pytest.mark.parametrize(("n", "t"), [(2, 2), (1, 1), (3, 5), (2, -1)])
def test_somebody_must_be_honest(n, t):
    with pytest.raises(InvalidArgumentError, match="colluding"):
        share_variance(1.0, n, t)


def test_what_is_set_aside_covers_any_training_run():
    of_run = 10_000 * 2**17 * closeness(share_variance(100.0, 50, 1), 50)
    assert 0 < of_run < 1e-20
    check_closeness(of_run, 0.01)
    assert log(1 + CLOSENESS_SHARE) >= of_run
    with pytest.raises(InvalidArgumentError, match="too small"):
        check_closeness(1e-9, 1.0)


def test_one_party_alone_has_the_closeness_of_its_rounding():
    assert closeness(1, 1) == 4 * exp(-8 * pi**2)
    assert closeness(3, 3) == 20 * exp(-3 * pi**2) + 4 * exp(-8 * pi**2)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_closeness_is_paid_from_99_hundredths_of_a_billionth(epsilon):
    cost = closeness_cost(epsilon, 1e-5)
    assert (cost.epsilon, cost.delta, cost.mu) == (0.99 * 1e-9 * epsilon, 0.99 * 1e-9 * 1e-5, 0.0)
    most = 0.99 * 1e-9 * min(epsilon, 1.0) / 2
    check_closeness(most * (1 - 1e-12), epsilon)
    with pytest.raises(InvalidArgumentError, match="too small"):
        check_closeness(most * (1 + 1e-12), epsilon)
