"""What was released, what it cost, and the guarantee that follows.

Costs are ε of pure differential privacy under adding or removing one row.
Releases that read the same rows add up; releases that read disjoint sets of
rows cost the largest of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

NEIGHBOURING = "add or remove one row"


@dataclass(frozen=True)
class Release:
    """One differentially private release.

    Parameters
    ----------
    what : str
        What was released: "splits of level 1", "leaf values".
    mechanism : str
        "exponential", "discrete Laplace", or "composed" for an initial model.
    epsilon : float
        Cost in nats, numerical slack included.
    group : int
        Releases of different groups may read the same rows.
    part : int
        Within a group, releases of different parts read disjoint rows.
    delta : float
        Cost in probability; pure mechanisms have none.
    """

    what: str
    mechanism: str
    epsilon: float
    group: int
    part: int
    delta: float = 0.0


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
    """All releases of one training, charged before they are made.

    Parameters
    ----------
    copies : int
        How many trainings like this one read a row (k - 1 in k-fold cross-validation).
    """

    copies: int = 1
    releases: list[Release] = field(default_factory=list)

    def charge(self, release: Release) -> None:
        """Write a release down."""
        self.releases.append(release)

    @property
    def epsilon(self) -> float:
        """Total ε: sum over groups of the largest sum over a part, exact and rounded up."""
        return self._total(lambda release: release.epsilon)

    @property
    def delta(self) -> float:
        """Total δ, composed like ε."""
        return self._total(lambda release: release.delta)

    def _total(self, cost: Callable[[Release], float]) -> float:
        if any(math.isinf(cost(release)) for release in self.releases):
            return math.inf
        parts: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        for release in self.releases:
            parts[release.group][release.part] += Fraction(cost(release))
        return upper_float(self.copies * sum((max(group.values()) for group in parts.values()), Fraction()))

    def table(self) -> list[dict[str, Any]]:
        """Equal releases of a group counted in one row, in the order they were made."""
        counts = Counter((r.group, r.what, r.mechanism, r.epsilon) for r in self.releases)
        parts: dict[tuple[Any, ...], set[int]] = defaultdict(set)
        for r in self.releases:
            parts[r.group, r.what, r.mechanism, r.epsilon].add(r.part)
        return [
            {
                "group": group,
                "release": what,
                "mechanism": mechanism,
                "epsilon": epsilon,
                "count": count,
                "disjoint_sets_of_rows": len(parts[group, what, mechanism, epsilon]),
            }
            for (group, what, mechanism, epsilon), count in counts.items()
        ]


@dataclass(frozen=True)
class PrivacyReport:
    """The guarantee of a model.

    Parameters
    ----------
    epsilon, delta : float
        (ε, δ) under `neighbouring`; never below the true cost.
    private : bool
        False when something voided the guarantee; `reasons` says what.
    reasons : tuple of str
        What voids the guarantee.
    notes : tuple of str
        What the guarantee does not cover.
    ledger : tuple of dict
        The releases, as `Ledger.table` gives them.
    neighbouring : str
        The neighbouring relation.
    """

    epsilon: float
    delta: float
    private: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    ledger: tuple[Mapping[str, Any], ...]
    neighbouring: str = NEIGHBOURING

    @property
    def replace_one(self) -> tuple[float, float]:
        """(ε, δ) under replacing one row, which is one removal and one addition."""
        return 2 * self.epsilon, (1 + math.exp(min(self.epsilon, 700.0))) * self.delta

    def to_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON has."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbouring": self.neighbouring,
            "replace_one": list(self.replace_one),
            "private": self.private,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "ledger": [dict(row) for row in self.ledger],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Read back what `to_dict` gave; raises a KeyError if something is missing."""
        own: dict[str, Any] = {key: values[key] for key in cls.__dataclass_fields__}
        for key in ("reasons", "notes", "ledger"):
            own[key] = tuple(own[key])
        return cls(**own)

    def __str__(self) -> str:
        verdict = "private" if self.private else "NOT PRIVATE"
        replaced = self.replace_one[0]
        lines = [
            f"{verdict}: epsilon = {self.epsilon:.6g}, delta = {self.delta:.3g} ({self.neighbouring}; "
            f"replace one row: epsilon = {replaced:.6g})",
            *(f"  void because {reason}" for reason in self.reasons),
            *(f"  note: {note}" for note in self.notes),
            f"  {'group':>5}  {'release':<22} {'mechanism':<17} {'epsilon each':>12} {'count':>6} disjoint",
            *(
                f"  {row['group']:>5}  {row['release']:<22} {row['mechanism']:<17} {row['epsilon']:>12.6g} "
                f"{row['count']:>6} {row['disjoint_sets_of_rows']:>8}"
                for row in self.ledger
            ),
        ]
        return "\n".join(lines)
