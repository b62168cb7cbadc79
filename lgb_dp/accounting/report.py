"""Privacy reports: the guarantee of one model, or of several private results on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lgb_dp.accounting.ledger import NEIGHBOURING, Cost, _cost_each, total_cost
from lgb_dp.checks import checked_delta
from lgb_dp.errors import ArgumentTypeError, NoGuaranteeError


def compose(*reports: PrivacyReport, delta: float | None = None) -> PrivacyReport:
    """One report for everything that was released.

    Costs compose kind by kind: ε and δ add up as they are, Gaussian releases by their squares.  Two models
    of (ε, δ) each therefore cost less than (2ε, 2δ).  Each result may depend on those before it.

    Parameters
    ----------
    *reports : PrivacyReport
        At least one; of models, or of private metadata, of the same rows.
    delta : float, optional
        δ at which Gaussian releases are stated; the largest of the reports' unless given.

    Returns
    -------
    PrivacyReport
        It is not private if one of the reports is not.

    Raises
    ------
    ArgumentTypeError
        If an argument is not a report.
    NoGuaranteeError
        If there is no report.
    InvalidArgumentError
        If `delta` is not in (0, 1).
    """
    for report in reports:
        if not isinstance(report, PrivacyReport):
            raise ArgumentTypeError(f"compose takes privacy reports, got {type(report).__name__}")
    if not reports:
        raise NoGuaranteeError("compose needs at least one report")
    if delta is not None:
        delta = checked_delta(delta)
    cost = total_cost([report.cost for report in reports])
    granted = max(report.delta - report.cost.delta for report in reports) if delta is None else delta
    epsilon, total_delta = cost.at(granted)
    return PrivacyReport(
        epsilon=epsilon,
        delta=total_delta,
        private=all(report.private for report in reports),
        reasons=tuple(dict.fromkeys(reason for report in reports for reason in report.reasons)),
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        ledger=tuple(row for report in reports for row in report.ledger),
        cost=cost,
    )


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
    cost : Cost, optional
        The same cost in the terms in which it composes; (epsilon, delta) itself unless given.
    """

    epsilon: float
    delta: float
    private: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    ledger: tuple[Mapping[str, Any], ...]
    neighbouring: str = NEIGHBOURING
    cost: Cost = field(default_factory=Cost)

    def __post_init__(self) -> None:
        # A cost below (epsilon, delta), or none, must not be composed in its place.  With secret samples the
        # comparison would take seconds, so that the cost is trusted there.
        if not self.cost.sampled:
            epsilon, delta = self.cost.at(self.delta - self.cost.delta)
            if epsilon < self.epsilon * (1 - 1e-6) or delta < self.delta * (1 - 1e-6):
                object.__setattr__(self, "cost", Cost(self.epsilon, self.delta))

    @property
    def replace_one(self) -> tuple[float, float]:
        """(ε, δ) under replacing one row, which is one removal and one addition."""
        return self.cost.replacing(self.delta - self.cost.delta)

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
            "cost": self.cost.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Read back what `to_dict` gave; raises a KeyError if something is missing."""
        own: dict[str, Any] = {key: values[key] for key in cls.__dataclass_fields__}
        for key in ("reasons", "notes", "ledger"):
            own[key] = tuple(own[key])
        own["cost"] = Cost.from_dict(own["cost"])
        return cls(**own)

    def __str__(self) -> str:
        verdict = "private" if self.private else "NOT PRIVATE"
        replaced = self.replace_one[0]
        lines = [
            f"{verdict}: epsilon = {self.epsilon:.6g}, delta = {self.delta:.3g} ({self.neighbouring}; "
            f"replace one row: epsilon = {replaced:.6g})",
            *(f"  void because {reason}" for reason in self.reasons),
            *(f"  note: {note}" for note in self.notes),
            f"  {'group':>5}  {'release':<22} {'mechanism':<17} {'cost each':>22} {'count':>6} disjoint",
            *(
                f"  {row['group']:>5}  {row['release']:<22} {row['mechanism']:<17} {_cost_each(row):>22} "
                f"{row['count']:>6} {row['disjoint_sets_of_rows']:>8}"
                for row in self.ledger
            ),
        ]
        return "\n".join(lines)
