"""Gaussian differential privacy of noise that several parties add in shares.

Each of n parties adds a discrete Gaussian number of variance V to its integer sums, and only the sum over all
parties is ever opened. The shares of t parties count as known: these parties pool their views, or add no
noise. The noise that the others hide is the sum of n - t shares, of variance (n - t) V.

It is not a Gaussian number, but so close to a rounded one that Gaussian differential privacy accounts for it:

1. *A sum of shares is nearly one discrete Gaussian.*  Let N(a) be the distribution on the integers of
   P(k) ∝ exp(-k² / 2a).  Then P[N(a) + N(b) = z] ∝ Σ_x exp(-x² / 2a - (z - x)² / 2b)
   = exp(-z² / 2(a + b)) Σ_x exp(-(x - az / (a + b))² / 2c), c = ab / (a + b), and by Poisson's summation
   formula the sum over x is within factors 1 ± e of √(2πc) whatever z is, e = 2 Σ_j≥1 exp(-2π² c j²).  So the
   logarithm of the ratio to N(a + b) is at most log((1 + e) / (1 - e)), below 10 exp(-2π² c) for c ≥ 1/2.
   Adding one share after the other, c = V k / (k + 1) for k = 1 … n - t - 1, the total is
   τ = 10 Σ_k exp(-2π² V k / (k + 1))  (Kairouz, Liu and Steinke, "The Distributed Discrete Gaussian Mechanism
   for Federated Learning with Secure Aggregation", ICML 2021, theorem on sums of discrete Gaussians).

2. *One discrete Gaussian is nearly a rounded Gaussian.*  Let S = (n - t) V and r² = 4.  Draw Y from the
   continuous normal distribution of mean x and variance S - r², and round it at random: Z = z with
   probability φ_r(z - Y) / ρ(Y), φ_r the density of variance r² and ρ(y) = Σ_k φ_r(k - y), again within
   1 ± e of 1 with e = 2 Σ_j≥1 exp(-2π² r² j²).  Integrating φ_(S - r²)(y - x) φ_r(z - y) over y gives
   φ_S(z - x), so that P[Z = z] is φ_S(z - x) up to a factor 1 / (1 ± e), and so is P[x + N(S) = z].  The
   logarithm of their ratio is at most 4 exp(-2π² r²).

3. *The rounded Gaussian is post-processing* of the continuous one of variance S - r².  With
   V ≥ (σ² + r²) / (n - t) that variance is at least σ², so a release whose sensitivity is at most μσ is μ-GDP
   before the two steps above, and μ is what the ledger charges.  (Put the other way, noise of variance S
   gives μ (1 - r² / S)^(-1/2).)

Over all coordinates of all releases, each of which may depend on those before, the logarithm of the ratio of
the real and the idealised probabilities of any outcome is at most η, the number of coordinates times
τ + 4 exp(-2π² r²).  If the idealised releases are together (ε, δ)-DP, then for neighbouring data sets
P(S) ≤ e^η Q(S) ≤ e^η (e^ε Q'(S) + δ) ≤ e^(ε + 2η) P'(S) + e^η δ: the real ones are (ε + 2η, e^η δ)-DP.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from lgb_dp.accounting.cost import Cost
from lgb_dp.errors import InvalidArgumentError

ROUNDING_VARIANCE = 4
"""r²: variance that is taken off the noise for rounding."""

CLOSENESS_SHARE = 1e-9
"""Share of ε and of δ that is set aside for η; for any noise of this package η is below 1e-20."""

_USED = 0.99
"""Part of it that is used: the rest is for the rounding of sums."""


@lru_cache(maxsize=256)
def share_variance(std: float, n_parties: int, colluding: int) -> int:
    """V of every party's share, such that the shares of all but the colluding parties suffice.

    `std` is σ in integer steps, sensitivity over μ; the shares of t `colluding` parties, fewer than all,
    count as known.
    """
    if not 0 <= colluding < n_parties:
        raise InvalidArgumentError(
            f"colluding={colluding} must be less than the number of parties that add noise, {n_parties}"
        )
    return math.ceil((Fraction(std) ** 2 + ROUNDING_VARIANCE) / (n_parties - colluding))


def closeness(variance: int, n_parties: int) -> float:
    """Bound of the logarithm of a ratio of probabilities, for one coordinate of one release.

    `variance` is V of a share, at least 1; shares of at most `n_parties` are added.
    """
    # Every term is at most that of k = 1.
    tau = 10 * (n_parties - 1) * math.exp(-(math.pi**2) * variance)
    return tau + 4 * math.exp(-2 * math.pi**2 * ROUNDING_VARIANCE)


def closeness_cost(epsilon: float, delta: float) -> Cost:
    """Cost that η may add to a run of the given ε and δ.

    2η ≤ c ε, and (e^η - 1) δ ≤ c δ, with c the part of `CLOSENESS_SHARE` that is used (`check_closeness`).
    """
    return Cost(_USED * CLOSENESS_SHARE * epsilon, _USED * CLOSENESS_SHARE * delta)


def check_closeness(total: float, epsilon: float) -> None:
    """Check that η fits what is set aside for it; raises InvalidArgumentError otherwise.

    2η must be at most the share of ε, and e^η - 1 ≤ 2η at most the share itself.
    """
    if 2 * total > _USED * CLOSENESS_SHARE * min(epsilon, 1.0):
        raise InvalidArgumentError(
            f"epsilon={epsilon:g} is too small for noise in integer shares, or there are too many releases"
        )
