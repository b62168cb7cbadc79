"""The attack curve against closed forms: never below what an attacker achieves, and close to it."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from lgb_dp.accounting.attack_curve import attack_curve, chance_of_telling, true_positive_rate
from lgb_dp.accounting.cost import Cost
from lgb_dp.accounting.gaussian import SampledGaussian
from lgb_dp.accounting.report import PrivacyReport

RATES = np.concatenate([np.geomspace(1e-6, 0.1, 60), np.linspace(0.1, 1, 91)])
DELTA = 1e-5


def report(cost, granted=DELTA):
    epsilon, delta = cost.at(granted)
    return PrivacyReport(epsilon, delta, True, (), (), (), cost=cost)


def rates(curve):
    return np.array([true_positive_rate(curve, alpha) for alpha in RATES])


def achieved(cost, alpha):
    """What the best test achieves against randomized response of ε and δ and a Gaussian of μ, together.

    Outcomes are ordered by their likelihood ratio, on a fine grid for the Gaussian; both mechanisms attain
    their costs (Kairouz, Oh and Viswanath, 2015, theorem 3.2).
    """
    p = 1 / (1 + math.exp(-cost.epsilon))
    z = np.linspace(-9, 9 + cost.mu, 40_001)
    inside, outside = norm.pdf(z, cost.mu), norm.pdf(z)
    inside, outside = inside / inside.sum(), outside / outside.sum()
    hit = (1 - cost.delta) * np.concatenate([p * inside, (1 - p) * inside])
    alarm = (1 - cost.delta) * np.concatenate([(1 - p) * outside, p * outside])
    order = np.argsort(-hit / alarm)
    alarms = np.concatenate([[0.0], np.cumsum(alarm[order]), [1.0]])
    hits = np.concatenate([[0.0], np.cumsum(hit[order]), [1.0 - cost.delta]]) + cost.delta
    return np.interp(alpha, alarms, hits)


@pytest.mark.parametrize("mu", [1e-6, 0.05, 0.27, 1.0, 3.0, 12.0, 60.0])
def test_gaussian_cost_has_the_curve_of_gaussian_differential_privacy(mu):
    found, exact = rates(attack_curve(report(Cost(mu=mu)))), norm.cdf(norm.ppf(RATES) + mu)
    assert (found >= exact - 1e-14).all()
    assert (found <= exact + 5e-5 * max(1.0, mu)).all()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (1.0, 0.01), (4.0, 1e-3), (0.0, 0.2)])
def test_other_costs_have_the_curve_of_epsilon_and_delta(epsilon, delta):
    curve = attack_curve(report(Cost(epsilon, delta)))
    low, high = delta + math.exp(epsilon) * RATES, 1 - math.exp(-epsilon) * (1 - delta - RATES)
    assert rates(curve) == pytest.approx(np.minimum(np.minimum(low, high), 1), abs=1e-14)
    assert chance_of_telling(curve) == pytest.approx(
        (1 + delta) / 2 + (1 - delta) * math.tanh(epsilon / 2) / 2
    )


@pytest.mark.parametrize("cost", [Cost(0.5, 0.0, 0.8), Cost(1.0, 0.01, 0.3), Cost(5e-8, 1e-14, 1.0)])
def test_what_an_attacker_achieves_against_both_kinds_is_not_above_the_curve(cost):
    found, real = rates(attack_curve(report(cost))), achieved(cost, RATES)
    assert (found >= real - 1e-9).all()
    assert (found <= real + 0.12).all()


@pytest.mark.parametrize("cost", [Cost(mu=0.3), Cost(1.0), Cost(0.5, 1e-6, 0.8)])
def test_curve_keeps_to_the_epsilon_and_delta_that_are_reported(cost):
    stated = report(cost)
    curve = attack_curve(stated)
    assert (curve[:, 1] <= math.exp(stated.epsilon) * curve[:, 0] + stated.delta + 1e-12).all()
    touches = (math.exp(stated.epsilon) * curve[:, 0] + stated.delta - curve[:, 1]).min()
    assert touches < 1e-6
    mirrored = 1 - math.exp(-stated.epsilon) * (1 - stated.delta - curve[:, 0])
    assert (curve[:, 1] <= mirrored + 1e-12).all()


def test_secret_samples_cost_no_more_than_all_rows_and_no_less_than_reported():
    cost = Cost(mu=0.2, sampled=(SampledGaussian(0.5, 0.1, 20),))
    stated, all_rows = report(cost), report(Cost(mu=math.hypot(0.2, 0.5 * math.sqrt(20))))
    curve = attack_curve(stated)
    assert (rates(curve) <= rates(attack_curve(all_rows)) + 1e-12).all()
    assert (curve[:, 1] <= math.exp(stated.epsilon) * curve[:, 0] + stated.delta + 1e-12).all()


@pytest.mark.parametrize("cost", [Cost(mu=0.5), Cost(0.7), Cost(1.0, 0.01, 0.5), Cost(1e5), Cost(mu=800.0)])
def test_curve_rises_is_concave_and_ends_at_certainty(cost):
    curve = attack_curve(report(cost))
    assert curve[0, 0] == 0
    assert curve[-1].tolist() == [1, 1]
    steps = np.diff(curve, axis=0)
    assert (steps >= 0).all()
    slopes = steps[:, 1] / np.maximum(steps[:, 0], 1e-300)
    wide = steps[:, 0] > 1e-12
    assert (np.diff(slopes[wide]) <= 1e-6 * np.abs(slopes[wide][1:]) + 1e-9).all()


def test_an_attacker_of_a_void_report_may_be_always_right():
    void = PrivacyReport(1.0, DELTA, False, ("a seed was fixed",), (), (), cost=Cost(1.0, DELTA))
    curve = attack_curve(void)
    assert curve.tolist() == [[0, 1], [1, 1]]
    assert chance_of_telling(curve) == 1


def test_no_cost_leaves_an_attacker_with_guessing():
    curve = attack_curve(report(Cost()))
    assert rates(curve) == pytest.approx(RATES)
    assert chance_of_telling(curve) == 0.5
