"""The ledger of a training run: what was released, what it cost, and the guarantee that follows.

Costs are under adding or removing one row: ε (and δ) of differential privacy,
which add up, or μ of Gaussian differential privacy, whose squares add up.
Releases that read disjoint sets of rows cost the largest of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from lgb_dp.accounting.gaussian import SampledGaussian, composed_epsilon, composed_mu, gaussian_epsilon

NEIGHBOURING = "add or remove one row"


@dataclass(frozen=True)
class Cost:
    """What releases cost together, in the terms in which costs compose.

    Parameters
    ----------
    epsilon, delta : float
        Sum over the releases that are (ε, δ)-differentially private.
    mu : float
        Of the Gaussian releases together.
    sampled : tuple of SampledGaussian
        Gaussian releases on secret samples of the rows.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    mu: float = 0.0
    sampled: tuple[SampledGaussian, ...] = ()

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
        epsilon = Fraction(composed_epsilon(self.mu, self.sampled, delta))
        return _upper_sum(self.epsilon, epsilon), _upper_sum(self.delta, Fraction(delta))

    def replacing(self, delta: float) -> tuple[float, float]:
        """(ε, δ) under replacing one row, which is one removal and one addition.

        Two steps of a μ-GDP mechanism are 2μ-GDP; two of an (ε, δ)-DP one are (2ε, (1 + e^ε) δ)-DP.
        """
        if self.sampled or not self.is_gaussian:
            epsilon, total = self.at(delta)
            return 2 * epsilon, (1 + math.exp(min(epsilon, 700.0))) * total
        pure = 2 * self.epsilon, (1 + math.exp(min(self.epsilon, 700.0))) * self.delta
        return pure[0] + gaussian_epsilon(2 * self.mu, delta), pure[1] + delta

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
        upper_float(sum((Fraction(cost.epsilon) for cost in costs), Fraction())),
        upper_float(sum((Fraction(cost.delta) for cost in costs), Fraction())),
        composed_mu([cost.mu for cost in costs]),
        tuple(part for cost in costs for part in cost.sampled),
    )


@dataclass(frozen=True)
class Release:
    """One differentially private release.

    Parameters
    ----------
    what : str
        What was released: "splits of level 1", "leaf values".
    mechanism : str
        "exponential", "discrete Laplace", "Gaussian", or "composed" for an initial model.
    epsilon : float
        Cost in nats, numerical slack included.
    group : int
        Releases of different groups may read the same rows.
    part : int
        Within a group, releases of different parts read disjoint rows.
    delta : float
        Cost in probability; pure mechanisms have none.
    mu : float
        Cost in μ of Gaussian differential privacy, instead of `epsilon`.
    probability : float
        With which a row was taken for a Gaussian release; below 1, it is a secret sample's.
    """

    what: str
    mechanism: str
    epsilon: float
    group: int
    part: int
    delta: float = 0.0
    mu: float = 0.0
    probability: float = 1.0


def _upper_sum(a: float, b: Fraction) -> float:
    return math.inf if math.isinf(a) else upper_float(Fraction(a) + b)


def upper_float(exact: Fraction) -> float:
    """The smallest float that is not below `exact`."""
    nearest = float(exact)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < exact else nearest


def lower_float(exact: Fraction) -> float:
    """The largest float that is not above `exact`."""
    nearest = float(exact)
    return math.nextafter(nearest, 0.0) if Fraction(nearest) > exact else nearest


def share(epsilon: float, parts: int) -> float:
    """The largest float of which `parts` do not exceed `epsilon`."""
    return lower_float(Fraction(epsilon) / parts)


@dataclass
class Ledger:
    """All releases of one training run, charged before they are made.

    Parameters
    ----------
    copies : int
        Training runs like this one that read a row (k - 1 in k-fold cross-validation).
    granted_delta : float
        δ at which the ε of Gaussian releases is stated.
    """

    copies: int = 1
    releases: list[Release] = field(default_factory=list)
    granted_delta: float = 0.0

    def charge(self, release: Release) -> None:
        """Record a release."""
        self.releases.append(release)

    @property
    def epsilon(self) -> float:
        """Total ε, rounded up."""
        return self.cost.at(self.granted_delta)[0]

    @property
    def delta(self) -> float:
        """Total δ, rounded up."""
        return self.cost.at(self.granted_delta)[1]

    @property
    def cost(self) -> Cost:
        """What all releases cost: sums over groups of the largest sum over a part, rounded up.

        Each kind of cost is summed up separately, so that each kind's largest part counts.
        """
        whole = [release for release in self.releases if release.probability == 1.0]
        parts: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for release in whole:
            parts[release.group][release.part].append(release.mu)
        largest = [max(composed_mu(mus) for mus in group.values()) for group in parts.values()]
        drawn = Counter((r.mu, r.probability) for r in self.releases if r.probability < 1.0)
        return Cost(
            self._total(lambda release: release.epsilon),
            self._total(lambda release: release.delta),
            composed_mu(largest * self.copies),
            tuple(SampledGaussian(mu, p, count * self.copies) for (mu, p), count in drawn.items()),
        )

    def _total(self, cost: Callable[[Release], float]) -> float:
        if any(math.isinf(cost(release)) for release in self.releases):
            return math.inf
        parts: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        for release in self.releases:
            parts[release.group][release.part] += Fraction(cost(release))
        return upper_float(self.copies * sum((max(group.values()) for group in parts.values()), Fraction()))

    def table(self) -> list[dict[str, Any]]:
        """Equal releases of a group counted in one row, in the order they were made."""
        parts: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for r in self.releases:
            parts[r.group, r.what, r.mechanism, r.epsilon, r.mu, r.probability].append(r.part)
        return [
            {
                "group": group,
                "release": what,
                "mechanism": mechanism,
                "epsilon": epsilon,
                "mu": mu,
                "probability": probability,
                "count": len(of_rows),
                "disjoint_sets_of_rows": len(set(of_rows)),
            }
            for (group, what, mechanism, epsilon, mu, probability), of_rows in parts.items()
        ]


def _cost_each(row: Mapping[str, Any]) -> str:
    """Cost of one release of a ledger's row, for the reader."""
    terms = [f"{name} {row[name]:.6g}" for name in ("epsilon", "mu") if row.get(name)]
    return " ".join(terms) + (f" of {row['probability']:.3g} n" if row.get("probability", 1.0) < 1 else "")
