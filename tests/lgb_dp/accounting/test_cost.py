"""Costs in exact numbers: two steps of every part under replacement, and sums that are never rounded down."""

import math
import sys
from fractions import Fraction

import pytest

from lgb_dp.accounting.cost import Cost, lower_float, share, total_cost, upper_float, upper_total
from lgb_dp.accounting.gaussian import SampledGaussian, composed_epsilon, gaussian_epsilon

pytestmark = pytest.mark.usefixtures("coarse_accounting")

DELTA = 1e-5
SAMPLED = (SampledGaussian(0.5, 0.5, 2),)


def test_replacing_takes_two_steps_of_every_part():
    pure_delta = (1 + math.exp(0.5)) * 1e-6
    assert Cost(0.5, 1e-6).replacing(DELTA) == pytest.approx((1.0, pure_delta), rel=1e-14)
    gaussian = gaussian_epsilon(0.6, DELTA)
    assert Cost(0.5, 1e-6, 0.3).replacing(DELTA) == pytest.approx(
        (1.0 + gaussian, pure_delta + DELTA), rel=1e-14
    )
    cost = Cost(0.25, 1e-6, sampled=SAMPLED)
    epsilon, delta = cost.at(DELTA)
    assert epsilon > 0.25
    assert delta == upper_total([1e-6, DELTA])
    assert cost.replacing(DELTA) == pytest.approx((2 * epsilon, (1 + math.exp(epsilon)) * delta), rel=1e-14)


def test_an_epsilon_without_exponential_in_floats_has_a_finite_delta():
    assert Cost(1000.0, 0.0, 0.3).replacing(DELTA)[1] == DELTA
    assert Cost(1000.0).replacing(DELTA) == (2000.0, 0.0)


def test_gaussian_costs_are_infinite_without_delta_and_others_need_none():
    assert Cost(0.5, 1e-6, 0.3).at(0.0) == (math.inf, 1e-6)
    assert Cost(0.5, 1e-6, sampled=SAMPLED).at(0.0) == (math.inf, 1e-6)
    assert Cost(0.5, 1e-6).at(0.0) == (0.5, 1e-6)
    gaussian = composed_epsilon(0.3, (), DELTA)
    assert gaussian == pytest.approx(gaussian_epsilon(0.3, DELTA), rel=1e-9)
    assert Cost(0.5, 1e-6, 0.3).at(DELTA) == (upper_total([0.5, gaussian]), upper_total([1e-6, DELTA]))


def test_costs_survive_as_json_and_add_up():
    cost = Cost(0.25, 1e-6, 0.3, SAMPLED)
    assert Cost.from_dict(cost.to_dict()) == cost
    both = total_cost([cost, Cost(0.5, 1e-7, 0.4, SAMPLED)])
    assert (both.epsilon, both.delta) == (0.75, upper_total([1e-6, 1e-7]))
    assert both.mu == pytest.approx(0.5, rel=1e-11)
    assert both.mu >= 0.5
    assert both.sampled == SAMPLED * 2


@pytest.mark.parametrize("values", [[0.1, 0.2], [0.1] * 10, [1e300, 1e-300], [1 / 3, 1.0], [0.5, 0.25]])
def test_sums_are_the_next_float_that_is_not_below(values):
    exact = sum(map(Fraction, values), Fraction())
    found = upper_total(values)
    assert Fraction(found) >= exact
    assert Fraction(math.nextafter(found, 0.0)) < exact


def test_sums_may_be_infinite_and_lower_bounds_may_not():
    assert upper_total([0.1, math.inf]) == math.inf
    assert upper_total([]) == 0.0
    largest = Fraction(sys.float_info.max)
    assert upper_float(largest) == sys.float_info.max
    assert upper_float(largest + 1) == math.inf
    assert lower_float(2 * largest) == sys.float_info.max


@pytest.mark.parametrize("exact", [Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), Fraction(1, 2)])
def test_lower_bounds_are_the_next_float_that_is_not_above(exact):
    found = lower_float(exact)
    assert Fraction(found) <= exact
    assert Fraction(math.nextafter(found, 1.0)) > exact
    parts = 7
    assert Fraction(share(float(exact), parts)) * parts <= Fraction(float(exact))
    assert Fraction(math.nextafter(share(float(exact), parts), 1.0)) * parts > Fraction(float(exact))
