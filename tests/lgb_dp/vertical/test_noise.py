"""Noise of opened sums: its distribution, its guarantee by exact probabilities, and its repetition."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.two_party.session import Draws
from lgb_dp.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from lgb_dp.mechanisms.discrete_gaussian import discrete_gaussian
from lgb_dp.vertical.noise import sum_noise
from lgb_dp.vertical.numbers import PublicNumbers

SEED, NONCE = b"s" * 32, b"n" * 32


def stream(purpose=b"noise"):
    return Draws(SEED, NONCE).stream(purpose)


def decoded(numbers, words):
    return numbers.decoded(words & np.uint64((1 << numbers.ring_bits) - 1))


def log_probabilities(variance, k):
    """Of a discrete Gaussian, up to its constant, which is that of all integers."""
    reach = np.arange(-int(40 * math.sqrt(variance)) - 5, int(40 * math.sqrt(variance)) + 6)
    return -(k.astype(float) ** 2) / (2 * variance) - math.log(np.exp(-(reach**2.0) / (2 * variance)).sum())


@pytest.mark.parametrize("n_rows", [1_000, 1_000_000])
def test_noise_has_the_distribution_it_should(n_rows):
    numbers = PublicNumbers.of(n_rows, 20.0, (0.08, 0.5), 0.03)
    drawn = decoded(numbers, sum_noise(numbers, 20_000, KeyStream(b"k" * 32)))
    for values, variance in zip(drawn, numbers.variances, strict=True):
        assert (
            kstest(values + np.linspace(-0.5, 0.5, len(values)), norm(0, math.sqrt(variance)).cdf).pvalue
            > 0.01
        )
        assert abs((values.astype(float) ** 2).mean() / variance - 1) < 5 * math.sqrt(2 / 20_000)
    assert abs(np.corrcoef(*drawn)[0, 1]) < 5 / math.sqrt(20_000)


def test_opened_noise_of_both_parties_has_the_stated_deviation():
    numbers = PublicNumbers.of(10_000, 20.0, (0.5, 0.3003), 0.03)
    both = sum_noise(numbers, 20_000, stream(b"A")) + sum_noise(numbers, 20_000, stream(b"B"))
    for values, std in zip(decoded(numbers, both), numbers.stds, strict=True):
        assert values.std() / numbers.steps == pytest.approx(std, rel=0.03)


def test_noise_follows_from_seed_nonce_and_purpose():
    numbers = PublicNumbers.of(10_000, 20.0, (0.5, 0.3003), 0.03)
    first = sum_noise(numbers, 64, stream())
    np.testing.assert_array_equal(sum_noise(numbers, 64, stream()), first)
    others = [
        stream(b"other"),
        Draws(b"t" * 32, NONCE).stream(b"noise"),
        Draws(SEED, b"m" * 32).stream(b"noise"),
        Draws(SEED).stream(b"noise"),
    ]
    for other in others:
        assert not np.isin(sum_noise(numbers, 64, other), first).any()


def test_trees_of_one_stream_have_different_noise():
    numbers, shared = PublicNumbers.of(10_000, 20.0, (0.5, 0.3003), 0.03), stream()
    one, two = (sum_noise(numbers, 64, shared) for _ in range(2))
    assert not np.isin(one, two).any()


def test_gradients_are_drawn_before_hessians_by_the_packages_sampler():
    numbers, repeated = PublicNumbers.of(10_000, 20.0, (0.5, 0.3003), 0.03), stream()
    parts = [discrete_gaussian(16, variance, repeated) for variance in numbers.variances]
    np.testing.assert_array_equal(sum_noise(numbers, 16, stream()), numbers.packed(*parts))


def delta_of_a_shift(numbers, q, h, epsilon):
    """Exact δ(ε) of noise on one leaf against the same noise moved by a row's pair."""
    axes = [
        np.arange(-int(13 * math.sqrt(variance)) - 3, int(13 * math.sqrt(variance)) + 4)
        for variance in numbers.variances
    ]
    here = [log_probabilities(v, k) for v, k in zip(numbers.variances, axes, strict=True)]
    there = [log_probabilities(v, k - d) for v, k, d in zip(numbers.variances, axes, (q, h), strict=True)]
    at, moved = (part[0][:, None] + part[1][None, :] for part in (here, there))
    return float(np.maximum(np.exp(at) - math.exp(epsilon) * np.exp(moved), 0).sum())


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("bounds", [(0.5, 0.3003), (0.08, 0.5)])
def test_a_rows_pair_costs_no_more_than_the_accountant_says(mu, bounds):
    """Every pair on the rim of the bound, by exact probabilities, with so few steps that rounding matters."""
    numbers = PublicNumbers(1_000, bounds, mu, 48, 40)
    room = numbers.hessian_room
    for epsilon in (0.0, 0.5 * mu, 2.0 * mu):
        granted = gaussian_delta(epsilon, mu)
        worst = max(
            delta_of_a_shift(numbers, q, int(room[q]), epsilon)
            for q in np.unique(np.linspace(0, len(room) - 1, 4).astype(int))
        )
        assert worst <= granted * (1 + 1e-9) + 1e-12
        # The bound is not loose, either: noise of less than half of the variance would exceed it.
        assert worst > 0.5 * granted


def test_the_exact_probabilities_find_noise_that_is_too_small():
    """The test above can fail: with nine tenths of the variance a pair exceeds the accountant's δ."""

    class Less(PublicNumbers):
        @property
        def variances(self):
            return tuple(9 * v // 10 for v in super().variances)

    q, epsilon, granted = 40, 0.5, gaussian_delta(0.5, 1.0)
    numbers = [cls(1_000, (1.0, 1.0), 1.0, 48, 40) for cls in (Less, PublicNumbers)]
    assert delta_of_a_shift(numbers[0], q, 0, epsilon) > granted
    assert 0.98 * granted < delta_of_a_shift(numbers[1], q, 0, epsilon) <= granted


def test_a_whole_run_composes_to_no_more_than_its_epsilon():
    """200 trees of exact discrete noise by `dp_accounting`, beside the closed form."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    epsilon, delta, n_trees, fine = 1.0, 1e-5, 200, 5e-6
    mu = gaussian_mu(epsilon, delta)
    numbers = PublicNumbers(5_000, (0.5, 0.3003), mu / math.sqrt(n_trees), 48, 20)
    variance, step = numbers.variances[0], numbers.limits[0]
    k = np.arange(-int(9 * math.sqrt(variance)), int(9 * math.sqrt(variance)) + 1)
    log_p = log_probabilities(variance, k)
    here, there = (dict(zip((k + d).tolist(), log_p, strict=True)) for d in (0, step))
    losses = pld.from_two_probability_mass_functions(
        here, there, value_discretization_interval=fine, log_mass_truncation_bound=-60
    )
    found = losses.self_compose(n_trees).get_epsilon_for_delta(delta)
    # Losses are rounded up by `fine` at most, each.
    assert found <= gaussian_epsilon(mu, delta) + n_trees * fine
    assert found > 0.97 * epsilon
