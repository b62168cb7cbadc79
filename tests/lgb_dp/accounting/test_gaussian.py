"""Gaussian accounting against closed forms in high precision and dp_accounting."""

import math

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lgb_dp.accounting import gaussian
from lgb_dp.accounting.gaussian import (
    SampledGaussian,
    composed_epsilon,
    composed_mu,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    geometric_mean,
    last_safe,
    midpoint,
    sampled_mu,
)

epsilons = st.floats(1e-3, 60.0)
deltas = st.floats(1e-12, 0.1)


def exact_delta(epsilon, mu):
    """Balle and Wang's formula with 300 bits."""
    with gmpy2.context(gmpy2.get_context(), precision=300):
        e, m, two = gmpy2.mpfr(epsilon), gmpy2.mpfr(mu), gmpy2.sqrt(gmpy2.mpfr(2))
        first = gmpy2.erfc((e / m - m / 2) / two) / 2
        second = gmpy2.erfc((e / m + m / 2) / two) / 2
        return first - gmpy2.exp(e) * second


@settings(max_examples=200, deadline=None)
@given(epsilons, st.floats(1e-3, 20.0))
def test_delta_is_never_below_the_exact_one_and_close_to_it(epsilon, mu):
    exact = exact_delta(epsilon, mu)
    computed = gaussian_delta(epsilon, mu)
    assert gmpy2.mpfr(computed) >= exact
    assert computed <= max(float(exact) * (1 + 1e-6), 1e-17)


@settings(max_examples=100, deadline=None)
@given(epsilons, deltas)
def test_calibration_inverts_the_accounting(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(epsilon, mu) <= delta
    assert epsilon * (1 - 1e-6) <= gaussian_epsilon(mu, delta) <= epsilon
    assert exact_delta(epsilon, mu * (1 + 1e-6)) > delta


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 20.0), deltas)
def test_epsilon_is_never_below_the_exact_one(mu, delta):
    assert exact_delta(gaussian_epsilon(mu, delta), mu) <= delta


def test_a_value_by_hand():
    # Φ(-1/2) - e Φ(-3/2)
    assert gaussian_delta(1.0, 1.0) == pytest.approx(0.12693674, rel=1e-6)


@given(st.lists(st.floats(1e-6, 3.0), min_size=1, max_size=60))
def test_squares_add_up_rounded_up(mus):
    assert composed_mu(mus) >= math.sqrt(sum(m * m for m in mus)) * (1 - 1e-15)
    assert composed_mu(mus) <= math.sqrt(sum(m * m for m in mus)) * (1 + 1e-11)


def test_many_releases_agree_with_dp_accounting():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    mu, count, delta = 0.05, 400, 1e-5
    theirs = pld.from_gaussian_mechanism(1 / mu).self_compose(count).get_epsilon_for_delta(delta)
    ours = gaussian_epsilon(composed_mu([mu] * count), delta)
    assert ours == pytest.approx(theirs, rel=2e-3)


def test_sampling_all_rows_costs_what_no_sampling_costs():
    mu, count, delta = 0.02, 100, 1e-5
    nearly_all = composed_epsilon(0.0, (SampledGaussian(mu, 1 - 1e-9, count),), delta)
    assert nearly_all == pytest.approx(gaussian_epsilon(mu * 10, delta), rel=5e-3)


@pytest.mark.parametrize("coarse", [pytest.param(1e-3, marks=pytest.mark.slow), 0.1])
def test_subsampled_calibration_keeps_to_epsilon_and_sampling_never_pays(coarse, monkeypatch):
    monkeypatch.setattr(gaussian, "COARSE", coarse)
    sampled_mu.cache_clear()
    epsilon, delta, prior, count = 1.0, 1e-5, 0.02, 20
    all_rows = math.sqrt((gaussian_mu(epsilon, delta) ** 2 - prior**2) / count)
    probability = 0.3
    mu = sampled_mu(epsilon, delta, prior, probability, count)
    cost = composed_epsilon(prior, (SampledGaussian(mu, probability, count),), delta)
    assert 0.98 * epsilon < cost <= epsilon
    if coarse == 0.1:  # too coarse to find anything near
        near = composed_epsilon(prior, (SampledGaussian(mu, probability, count),), delta, coarse)
        assert near > 1.05 * epsilon
    # Noise relative to the sum over a sample of expected size q n: the full data's is smaller.
    assert 1 / (mu * probability) > (1 - 1e-3) / all_rows


def test_impossible_budgets_are_refused():
    assert gaussian_epsilon(1e5, 1e-5) == math.inf
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    with pytest.raises(ValueError, match="leaves nothing"):
        sampled_mu(1.0, 1e-5, gaussian_mu(1.0, 1e-5) * 1.01, 0.5, 10)
    assert np.isfinite(gaussian_mu(1e-6, 1e-12))


@pytest.mark.usefixtures("coarse_accounting")
def test_every_part_of_a_composition_is_paid():
    delta, once = 1e-5, SampledGaussian(0.5, 0.5, 1)
    twice = composed_epsilon(0.0, (SampledGaussian(0.5, 0.5, 2),), delta)
    assert composed_epsilon(0.0, (once, once), delta) == pytest.approx(twice, rel=2e-3)
    assert composed_epsilon(0.0, (once,), delta) < 0.9 * twice
    beside = composed_epsilon(0.0, (once, SampledGaussian(0.7, 1.0, 1)), delta)
    assert composed_epsilon(0.7, (once,), delta) == pytest.approx(beside, rel=1e-9)
    assert beside > 1.1 * gaussian_epsilon(0.7, delta)


def test_compositions_that_take_too_long_cost_as_much_as_without_sampling():
    delta, mu = 1e-5, 0.5
    for sampled in (
        (SampledGaussian(4.5, 0.5, 1),),
        (SampledGaussian(1e-7, 0.5, 2),),
        (SampledGaussian(0.1, 0.5, 1),) * 65,
        (SampledGaussian(2.0, 0.5, 20),),
    ):
        whole = composed_mu([mu, *(part.mu * math.sqrt(part.count) for part in sampled)])
        assert composed_epsilon(mu, sampled, delta) == gaussian_epsilon(whole, delta)


def test_a_delta_is_a_probability_and_never_zero():
    assert gaussian_delta(0.0, 1e3) == 1.0
    assert 0.0 < gaussian_delta(60.0, 0.01) < 1e-300
    assert gaussian_delta(0.0, 0.0) == 0.0


def test_a_search_does_not_begin_where_accounting_in_steps_costs_too_much(monkeypatch):
    monkeypatch.setattr(gaussian, "DISCRETISATION", 0.5)
    composed_epsilon.cache_clear()
    with pytest.raises(ValueError, match="leaves nothing"):
        sampled_mu.__wrapped__(0.1, 1e-5, 0.0, 0.5, 20)
    composed_epsilon.cache_clear()


@pytest.mark.parametrize("boundary", [1e-9, 0.3, 1.0, 7.25])
@pytest.mark.parametrize("middle", [midpoint, geometric_mean])
@pytest.mark.parametrize("rising", [True, False])
def test_the_answer_is_safe_and_close_to_the_boundary(boundary, middle, rising):
    def is_safe(x):
        return x <= boundary if rising else x >= boundary

    found = last_safe(is_safe, *((1e-12, 10.0) if rising else (10.0, 1e-12)), middle=middle)
    assert is_safe(found)
    assert found == pytest.approx(boundary, rel=1e-11)


@pytest.mark.parametrize("max_steps", [0, 1, 5])
def test_a_search_that_ends_early_is_still_safe(max_steps):
    found = last_safe(lambda x: x <= math.pi, 0.0, 10.0, max_steps=max_steps)
    assert found <= math.pi
    assert math.pi - found <= 10.0 / 2**max_steps


def test_without_a_safe_number_beyond_it_the_safe_end_is_returned():
    assert last_safe(lambda x: False, 2.0, 5.0) == 2.0


def test_a_search_ends_when_both_ends_differ_by_the_tolerance():
    asked = []

    def is_safe(x):
        asked.append(x)
        return x <= 0.3

    found = last_safe(is_safe, 0.0, 8.0, tolerance=2.0**-20)
    assert 0 <= 0.3 - found <= 0.3 * 2**-20
    assert len(asked) == 25  # 8 / 2**25 is the first width that is at most 0.3 / 2**20
