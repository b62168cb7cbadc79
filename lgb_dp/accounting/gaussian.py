"""Gaussian differential privacy: conversions between (ε, δ) and μ that never err on the unsafe side.

A release of sensitivity 1 (in the Euclidean norm) with Gaussian noise of standard deviation 1/μ is μ-GDP;
releases of μ₁, μ₂, … on the same rows, each of which may depend on those before, are together exactly
√(μ₁² + μ₂² + …)-GDP, and μ-GDP means (ε, δ(ε))-DP for every ε with
δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)
(Dong, Roth and Su, "Gaussian Differential Privacy", JRSS B 2022, corollaries 1 and 3.3; Balle and Wang, ICML
2018, theorem 8).  Subsampled releases have no closed form and go to `dp_accounting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from scipy.special import erfcx, log_ndtr

from lgb_dp.checks import NOT_NEGATIVE, SHARE, checked_integer, checked_number
from lgb_dp.errors import InvalidArgumentError


def midpoint(a: float, b: float) -> float:
    """Arithmetic mean."""
    return (a + b) / 2


def geometric_mean(a: float, b: float) -> float:
    """Geometric mean, for boundaries known only to an order of magnitude."""
    return math.sqrt(a * b)


def last_safe(
    is_safe: Callable[[float], bool],
    safe: float,
    unsafe: float,
    *,
    middle: Callable[[float, float], float] = midpoint,
    tolerance: float = 1e-12,
    max_steps: int = 2000,
) -> float:
    """The safe number next to the boundary between safe and unsafe ones: the largest found if `safe` is
    below.

    Every number that is returned was `safe` from the start or has been seen to be safe, so that a search that
    ends early costs accuracy and never the guarantee. `is_safe` changes once between `safe`, which is taken
    on trust, so the caller must know it, and `unsafe`, above or below it. The latter may be safe after all;
    then the answer is close to it. `middle` says where to look next. The search ends when both ends differ by
    the share `tolerance` of the larger one, or after `max_steps`.
    """
    for _ in range(max_steps):
        if abs(unsafe - safe) <= tolerance * max(safe, unsafe):
            break
        between = middle(safe, unsafe)
        if is_safe(between):
            safe = between
        else:
            unsafe = between
    return safe


_SLACK = 1e-9
"""Relative room for the rounding of float64 in δ(ε) and in the sums of squares around it.

Both terms are evaluated within about 1e-12 of themselves (`erfcx` and `log_ndtr` are good to a few ulp, their
arguments below 1e3).  Their difference can lose digits: at ε = 0 it is about 0.4 μ, smaller differences come
with smaller terms; `gaussian_delta` adds the error bound of its terms, so the loss is paid for there.
"""

_MAX_EPSILON = 1e6
MAX_RELEASES = 10_000_000
"""Of one kind, in one report."""


def gaussian_delta(epsilon: float, mu: float) -> float:
    """δ of a μ-GDP mechanism at `epsilon`, rounded up; neither is negative."""
    if mu == 0:
        return 0.0
    a, b = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    if a < 0:
        # Φ(a) = φ(a) erfcx(-a/√2) √(π/2) and e^ε φ(b) = φ(a): one factor before a difference of two numbers
        # of moderate size, where the exponentials would cancel.
        density = math.exp(-a * a / 2) / 2
        first = density * float(erfcx(-a / math.sqrt(2)))
        second = density * float(erfcx(b / math.sqrt(2)))
    else:
        first = math.exp(float(log_ndtr(a)))
        second = math.exp(epsilon + float(log_ndtr(-b)))
    return min(1.0, max(0.0, first - second) + 1e-13 * (first + second) + 5e-324)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest ε such that μ-GDP implies (ε, δ)-DP, rounded up; infinite from μ of about 1000 on."""
    if mu == 0:
        return 0.0
    widened = mu * (1 + _SLACK)
    if gaussian_delta(_MAX_EPSILON, widened) > delta:
        return math.inf
    if gaussian_delta(0.0, widened) <= delta:
        return 0.0
    return last_safe(lambda epsilon: gaussian_delta(epsilon, widened) <= delta, _MAX_EPSILON, 0.0)


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest μ whose `gaussian_epsilon` at `delta` is at most `epsilon`; ValueError unless positive."""
    mu = last_safe(
        lambda mu: gaussian_delta(epsilon, mu * (1 + 2 * _SLACK)) <= delta, 0.0, math.sqrt(2 * epsilon) + 10
    )
    if mu == 0.0:
        raise InvalidArgumentError(f"no Gaussian noise gives epsilon={epsilon:g} at delta={delta:g}")
    return mu


@dataclass(frozen=True)
class SampledGaussian:
    """Gaussian releases, each on rows that were taken with a probability, independently and in secret
    (Poisson).

    `mu` is the sensitivity of one release over the standard deviation of its noise; `count` releases follow
    each other, each with fresh draws.
    """

    mu: float
    probability: float
    count: int

    def __post_init__(self) -> None:
        checked_number("mu of a release", self.mu, NOT_NEGATIVE)
        checked_number("probability of a release", self.probability, SHARE)
        checked_integer("count of releases", self.count, 1, MAX_RELEASES)


DISCRETISATION = 1e-4
"""Step of `dp_accounting`'s privacy loss distributions; they are rounded pessimistically, so this is safe."""


COARSE = 1e-3
"""Step of a first search for μ: about a tenth of the time, and ε is up to about 0.5 percent too high."""


_SMALLEST_MU, _LARGEST_MU = 1e-6, 4.0
_LARGEST_LOAD = 30.0
_MOST_PARTS = 64


def _is_tractable(mu: float, sampled: tuple[SampledGaussian, ...]) -> bool:
    """Whether `dp_accounting` composes these within seconds; a file of somebody else may ask for hours.

    Its time grows with the range of the privacy loss, about the sum of the squares.
    """
    load = mu * mu + sum(part.count * part.probability * part.mu * part.mu for part in sampled)
    each = all(_SMALLEST_MU <= part.mu <= _LARGEST_MU for part in sampled)
    return 0 < len(sampled) <= _MOST_PARTS and each and load <= _LARGEST_LOAD


@lru_cache(maxsize=256)
def composed_epsilon(
    mu: float, sampled: tuple[SampledGaussian, ...], delta: float, step: float | None = None
) -> float:
    """Smallest ε at `delta` of a μ-GDP mechanism and subsampled releases together, rounded up.

    Without subsampled releases it is the closed form, and with such that cost far more than any useful
    budget, it is that of the same releases without subsampling.  With others, it is that of `dp_accounting`'s
    privacy loss distributions of Poisson-subsampled Gaussians under adding or removing a row, rounded
    pessimistically (Koskela, Jälkö and Honkela, AISTATS 2020; Doroshenko et al., PoPETs 2022), in steps of
    `step` if it is given.
    """
    if not _is_tractable(mu, sampled):
        # A release on a secret sample costs at most what it costs on all rows.
        return gaussian_epsilon(composed_mu([mu, *(p.mu * math.sqrt(p.count) for p in sampled)]), delta)
    # dp_accounting takes seconds to import and only subsampling needs it.
    from dp_accounting.pld import privacy_loss_distribution as pld

    def losses(part: SampledGaussian) -> pld.PrivacyLossDistribution:
        return pld.from_gaussian_mechanism(
            1.0 / (part.mu * (1 + _SLACK)),
            sampling_prob=part.probability,
            value_discretization_interval=step or DISCRETISATION,
            pessimistic_estimate=True,
        ).self_compose(part.count)

    total = losses(sampled[0])
    for part in sampled[1:]:
        total = total.compose(losses(part))
    if mu > 0:
        total = total.compose(losses(SampledGaussian(mu, 1.0, 1)))
    return float(total.get_epsilon_for_delta(delta)) * (1 + _SLACK)


@lru_cache(maxsize=64)
def sampled_mu(epsilon: float, delta: float, mu: float, probability: float, count: int) -> float:
    """Largest μ per release such that `count` subsampled releases and a μ-GDP one keep to (ε, δ).

    `mu` is spent without subsampling; `probability` and `count` are those of `SampledGaussian`. Raises
    ValueError if μ would not be positive.
    """

    def fits(each: float, step: float | None = None) -> bool:
        return composed_epsilon(mu, (SampledGaussian(each, probability, count),), delta, step) <= epsilon

    # A release costs most without subsampling; taking rows with probability q is worth about 1/q at best.
    low = math.sqrt(max(gaussian_mu(epsilon, delta) ** 2 - mu**2, 0.0) / count) * (1 - 1e-6)
    if low == 0.0:
        raise InvalidArgumentError(f"epsilon={epsilon:g} leaves nothing for {count} subsampled releases")
    # Twelve coarse steps leave the μ of a release within 0.1 percent of where coarse steps put it, and a fine
    # step takes up to a second.  What is returned has been seen to fit at full precision.
    near = last_safe(
        partial(fits, step=COARSE), low, 2 * low / probability, middle=geometric_mean, max_steps=12
    )
    if not fits(near):
        safe, unsafe = low, near
    elif fits(near * 1.01):  # coarse steps are far too high where releases are many
        safe, unsafe = near * 1.01, 2 * low / probability
    else:
        return last_safe(fits, near, near * 1.01, max_steps=3)
    if not fits(safe):
        raise InvalidArgumentError(f"epsilon={epsilon:g} leaves nothing for {count} subsampled releases")
    return last_safe(fits, safe, unsafe, middle=geometric_mean, max_steps=12)


def composed_mu(mus: Sequence[float]) -> float:
    """μ of several Gaussian releases together, rounded up."""
    return math.hypot(*mus) * (1 + 1e-12) if len(mus) else 0.0
