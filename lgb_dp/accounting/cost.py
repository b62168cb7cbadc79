"""The cost of releases in the terms in which costs compose, and sums of such costs that are never too low."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, Final

from lgb_dp.accounting.gaussian import SampledGaussian, composed_epsilon, composed_mu, gaussian_epsilon
from lgb_dp.checks import NOT_NEGATIVE, NOT_NEGATIVE_OR_INFINITE, checked_number

_LARGEST: Final = Fraction(sys.float_info.max)
_ROOM: Final = 1 - Fraction(1, 2**51)
"""The part of a figure that is granted.

Parts r₁ + r₂ + … = R of a budget are asked for as floats, each at most r(1 + 2⁻⁵³) (0.1 is above a tenth),
and the budget is a float E of at least R(1 - 2⁻⁵³): what is granted of the parts adds up to less than E.
"""


@dataclass(frozen=True)
class Cost:
    """Cost of several releases together, in the terms in which costs compose.

    `epsilon` and `delta` are the sum over the releases that are (ε, δ)-differentially private, `mu` that of
    the Gaussian ones together; `sampled` are Gaussian releases on secret samples of the rows.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    mu: float = 0.0
    sampled: tuple[SampledGaussian, ...] = ()

    def __post_init__(self) -> None:
        # A cost may come from somebody else's file: one below 0 would pay for releases of our own.
        for name, accepted in (
            ("epsilon", NOT_NEGATIVE_OR_INFINITE),
            ("delta", NOT_NEGATIVE),
            ("mu", NOT_NEGATIVE_OR_INFINITE),
        ):
            checked_number(f"{name} of a cost", getattr(self, name), accepted)

    @property
    def is_gaussian(self) -> bool:
        """Whether ε depends on the δ that is granted."""
        return self.mu > 0 or bool(self.sampled)

    def at(self, delta: float) -> tuple[float, float]:
        """(ε, δ): of all together, the Gaussian ones at `delta`; never below the true cost."""
        if not self.is_gaussian:
            return self.epsilon, self.delta
        if delta <= 0:
            return math.inf, self.delta
        epsilon = composed_epsilon(self.mu, self.sampled, delta)
        return upper_total([self.epsilon, epsilon]), upper_total([self.delta, delta])

    def replacing(self, delta: float) -> tuple[float, float]:
        """(ε, δ) under replacing one row, which is one removal and one addition.

        Two steps of a μ-GDP mechanism are 2μ-GDP; two of an (ε, δ)-DP one are (2ε, (1 + e^ε) δ)-DP.
        """
        is_closed = self.is_gaussian and not self.sampled
        epsilon, total = (self.epsilon, self.delta) if is_closed else self.at(delta)
        pure = 2 * epsilon, (1 + math.exp(min(epsilon, 700.0))) * total * (1 + 1e-15)
        gaussian = (gaussian_epsilon(2 * self.mu, delta), delta) if is_closed else (0.0, 0.0)
        return upper_total([pure[0], gaussian[0]]), min(1.0, upper_total([pure[1], gaussian[1]]))

    def to_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON has."""
        sampled = [[part.mu, part.probability, part.count] for part in self.sampled]
        return {"epsilon": self.epsilon, "delta": self.delta, "mu": self.mu, "sampled": sampled}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Cost:
        """Read back what `to_dict` gave; raises a KeyError if something is missing."""
        sampled = tuple(SampledGaussian(mu, p, count) for mu, p, count in values["sampled"])
        return cls(values["epsilon"], values["delta"], values["mu"], sampled)


def total_cost(costs: Sequence[Cost]) -> Cost:
    """Cost of several training runs on the same rows, each of which may depend on those before."""
    return Cost(
        upper_total([cost.epsilon for cost in costs]),
        upper_total([cost.delta for cost in costs]),
        composed_mu([cost.mu for cost in costs]),
        tuple(part for cost in costs for part in cost.sampled),
    )


def upper_total(values: Sequence[float]) -> float:
    """Sum, rounded up; infinite if one of them is."""
    if any(math.isinf(value) for value in values):
        return math.inf
    return upper_float(sum(map(Fraction, values), Fraction()))


def upper_float(exact: Fraction) -> float:
    """The smallest float that is not below `exact`, which may be infinity."""
    if exact > _LARGEST:
        return math.inf
    nearest = float(exact)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < exact else nearest


def lower_float(exact: Fraction) -> float:
    """The largest finite float that is not above `exact`."""
    nearest = float(min(exact, _LARGEST))
    return math.nextafter(nearest, 0.0) if Fraction(nearest) > exact else nearest


def share(epsilon: float, parts: int) -> float:
    """The largest float that does not exceed `epsilon` when multiplied by `parts`."""
    return lower_float(Fraction(epsilon) / parts)


def granted(asked: float) -> float:
    """The part of a budget that an ε or δ asks for, as it may be spent."""
    return lower_float(Fraction(asked) * _ROOM)


def printed(value: float, digits: int, rounding: str = ROUND_CEILING) -> str:
    """A number for a reader in so many digits, rounded up unless `rounding` says otherwise."""
    rounded = Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))
    return f"{float(rounded):.{digits}g}"


def pair_text(epsilon: float, delta: float, rounding: str = ROUND_CEILING) -> str:
    """ε with the δ that belongs to it: no sentence states the one without the other."""
    return f"epsilon = {printed(epsilon, 6, rounding)}, delta = {printed(delta, 3, rounding)}"
