"""Privacy reports: the guarantee of one model, or of several private results on the same rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gbdt_commons.documentation import OFFICERS_PAGE
from gbdt_commons.html_tables import html_list, html_paragraph
from gbdt_commons.quoting import quoted
from lgb_dp.accounting.attack_curve import attack_curve, chance_of_telling
from lgb_dp.accounting.cost import Cost, pair_text, total_cost
from lgb_dp.accounting.ledger import Ledger, cost_each, ledger_html
from lgb_dp.accounting.unit import ONE_ROW, Unit
from lgb_dp.checks import NOT_NEGATIVE, NOT_NEGATIVE_OR_INFINITE, checked_delta, checked_number
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError, NoGuaranteeError

LARGE_EPSILON = 10.0
"""ε above which a report says how often an attacker is right: e^ε alone rules next to nothing out."""

_FIXED_BEFOREHAND = (
    "the composition is valid if the number of results and their budgets were fixed beforehand, not chosen "
    "in view of results; lgb_dp.Budget keeps to this by itself"
)


def checked_reports(reports: Any) -> tuple[PrivacyReport, ...]:
    """Reports in a `paid_for`, read once: an iterator would be empty the next time.

    Raises
    ------
    ArgumentTypeError
        If it is not a sequence, or holds something else than reports.
    """
    if isinstance(reports, PrivacyReport) or not isinstance(reports, Iterable):
        raise ArgumentTypeError(
            f"paid_for must be a sequence of privacy reports, got {type(reports).__name__}"
        )
    given = tuple(reports)
    for report in given:
        if not isinstance(report, PrivacyReport):
            raise ArgumentTypeError(f"paid_for must hold privacy reports, got {type(report).__name__}")
    return given


def compose(*reports: PrivacyReport, delta: float | None = None) -> PrivacyReport:
    """One report for everything that was released.

    Costs compose kind by kind: ε and δ add up as they are, Gaussian releases by their squares.  Two models
    of (ε, δ) each therefore cost less than (2ε, 2δ).  Each result may depend on those before it, while how
    many there are and what each costs must be fixed beforehand; a note says so, unless all results were paid
    from one `Budget`.

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
        If `delta` is not accepted, or the reports have different units ("one row", "one person").
    """
    for report in reports:
        if not isinstance(report, PrivacyReport):
            raise ArgumentTypeError(f"compose takes privacy reports, got {type(report).__name__}")
    if not reports:
        raise NoGuaranteeError("compose needs at least one report")
    unit = reports[0].unit
    if any(report.unit != unit for report in reports):
        relations = sorted({report.neighbouring for report in reports})
        raise InvalidArgumentError(f"reports of different units do not compose, got {relations}")
    if delta is not None:
        delta = checked_delta(delta)
    cost = total_cost([report.cost for report in reports])
    granted = max(report.delta - report.cost.delta for report in reports) if delta is None else delta
    epsilon, total_delta = cost.at(granted)
    budgets = {report.budget for report in reports}
    of_one_budget = len(budgets) == 1 and None not in budgets
    notes = [note for report in reports for note in report.notes]
    if len(reports) > 1 and not of_one_budget:
        notes.append(_FIXED_BEFOREHAND)
    return PrivacyReport(
        epsilon=epsilon,
        delta=total_delta,
        private=all(report.private for report in reports),
        reasons=tuple(dict.fromkeys(reason for report in reports for reason in report.reasons)),
        notes=tuple(dict.fromkeys(notes)),
        ledger=tuple(row for report in reports for row in report.ledger),
        unit=unit,
        cost=cost,
        budget=budgets.pop() if of_one_budget else None,
    )


_MAX_TEXT = 1000
"""Characters of a reason or note in a file."""
_AS_GRANTED = (math.nan, math.nan)
"""Stands for what was granted, if nothing else is said to be spent."""
_NO_REASON = "its report says so, without a reason"
_INFINITE = "epsilon is infinite, which bounds nothing"
_DELTA_OF_ONE = "delta is not below 1, which bounds nothing"


def _ledger_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a ledger as a file has it."""
    read: dict[str, Any] = {name: quoted(str(row[name])) for name in ("release", "mechanism")}
    for name in ("group", "count", "disjoint_sets_of_rows", "epsilon", "delta", "mu", "probability"):
        if name in ("delta", "mu", "probability") and name not in row:
            continue
        if isinstance(row[name], bool) or not isinstance(row[name], (int, float)):
            raise ArgumentTypeError(f"{name} of a ledger's row must be a number")
        float(row[name])  # an OverflowError if it has hundreds of digits
        read[name] = row[name]
    return {name: read[name] for name in row if name in read}


@dataclass(frozen=True)
class PrivacyReport:
    """The guarantee of a model.

    Parameters
    ----------
    epsilon, delta : float
        (ε, δ) under `neighbouring`; never below the true cost.  As soon as Gaussian noise is involved, it is
        what was granted when the run began, whether or not the run used all of it.
    private : bool
        False when something voided the guarantee; `reasons` says what.  At infinite ε it is always false.
    reasons : tuple of str
        Reasons that void the guarantee.
    notes : tuple of str
        Remarks on the limits of the guarantee.
    ledger : tuple of dict
        The releases, as `Ledger.table` gives them.
    unit : Unit
        Whose presence the guarantee hides.
    cost : Cost, optional
        The same cost in the terms in which it composes; (epsilon, delta) itself unless given.
    spent : (float, float), optional
        (ε, δ) of what was released.  This is information, not a guarantee: where a run stopped because of
        what it had released, only the granted figure is one.  It is (epsilon, delta) unless given.
    budget : str, optional
        Identity of the `Budget` from which everything was paid.
    evaluation : ModelEvaluation, optional
        Quality of the model on held-out rows, if the guarantee is of one that has it.
    """

    epsilon: float
    delta: float
    private: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    ledger: tuple[Mapping[str, Any], ...]
    unit: Unit = ONE_ROW
    cost: Cost = field(default_factory=Cost)
    spent: tuple[float, float] = _AS_GRANTED
    budget: str | None = None
    evaluation: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        checked_number("epsilon of a report", self.epsilon, NOT_NEGATIVE_OR_INFINITE)
        checked_number("delta of a report", self.delta, NOT_NEGATIVE)
        if self.private and (math.isinf(self.epsilon) or math.isinf(self.cost.epsilon)):
            object.__setattr__(self, "private", False)
            object.__setattr__(self, "reasons", (*self.reasons, _INFINITE))
        if self.private and max(self.delta, self.cost.delta) >= 1:
            object.__setattr__(self, "private", False)
            object.__setattr__(self, "reasons", (*self.reasons, _DELTA_OF_ONE))
        if self.reasons:  # in a text of somebody else, the verdict may not be theirs
            object.__setattr__(self, "private", False)
        if not self.private and not self.reasons:
            object.__setattr__(self, "reasons", (_NO_REASON,))
        if self.spent is _AS_GRANTED:
            object.__setattr__(self, "spent", (self.epsilon, self.delta))
        # A cost below (epsilon, delta), or none, must not be composed in its place.  With secret samples the
        # comparison would take seconds, so that `from_dict`, which reads what others wrote, makes it alone.
        if not self.cost.sampled:
            epsilon, delta = self.cost.at(self.delta - self.cost.delta)
            if epsilon < self.epsilon * (1 - 1e-6) or delta < self.delta * (1 - 1e-6):
                object.__setattr__(self, "cost", Cost(self.epsilon, self.delta))

    @property
    def neighbouring(self) -> str:
        """The neighbouring relation: whose presence the guarantee hides."""
        return self.unit.neighbouring

    @property
    def replace_one(self) -> tuple[float, float]:
        """(ε, δ) under replacing one unit, which is one removal and one addition."""
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
            "spent": list(self.spent),
            "budget": self.budget,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Read back what `to_dict` gave, which may have been in a file of somebody else.

        Texts are escaped and cut; numbers must be such as a guarantee has.

        Parameters
        ----------
        values : mapping
            Of JSON's types.

        Returns
        -------
        PrivacyReport

        Raises
        ------
        KeyError, TypeError, ValueError, AttributeError, OverflowError
            If something is missing, or is not what `to_dict` gives.
        """
        spent = tuple(
            checked_number("spent", value, NOT_NEGATIVE_OR_INFINITE) for value in values.get("spent") or ()
        )
        if len(spent) not in (0, 2) or not isinstance(values["private"], bool):
            raise InvalidArgumentError("a report has a verdict, and two numbers that were spent")
        cost = Cost.from_dict(values["cost"])
        epsilon, delta = (
            checked_number(f"{name} of a report", values[name], NOT_NEGATIVE_OR_INFINITE)
            for name in ("epsilon", "delta")
        )
        if values["private"] and not max(delta, cost.delta) < 1:
            raise InvalidArgumentError("delta of a private report must be below 1")
        if cost.sampled and cost.at(delta - cost.delta)[0] < epsilon * (1 - 1e-6):
            raise InvalidArgumentError("the cost of a report is below its epsilon")
        return cls(
            epsilon=values["epsilon"],
            delta=values["delta"],
            private=values["private"],
            reasons=tuple(quoted(str(text), _MAX_TEXT) for text in values["reasons"]),
            notes=tuple(quoted(str(text), _MAX_TEXT) for text in values["notes"]),
            ledger=tuple(_ledger_row(row) for row in values["ledger"]),
            unit=Unit.of_relation(values["neighbouring"]),
            cost=cost,
            spent=(spent[0], spent[1]) if spent else _AS_GRANTED,
            budget=None if values.get("budget") is None else quoted(str(values["budget"])),
        )

    def _lines(self) -> tuple[str, list[str]]:
        """The guarantee in a line, and what is to be said of it."""
        verdict = "private" if self.private else "NOT PRIVATE"
        granted = self.epsilon, self.delta
        spent = f"spent: {pair_text(*self.spent)} (information; the guarantee is what was granted)"
        guarantee = (
            f"{verdict}: {pair_text(*granted)} ({self.neighbouring}; "
            f"replace one {self.unit.noun}: {pair_text(*self.replace_one)})"
        )
        return guarantee, [
            *([spent] if self.spent != granted else []),
            *([self._weakness()] if self.private and self.epsilon > LARGE_EPSILON else []),
            *(f"void because {reason}" for reason in self.reasons),
            *(f"note: {note}" for note in self.notes),
        ]

    def _weakness(self) -> str:
        """The attacker's chance that a large ε still leaves, rounded up."""
        share = min(math.ceil(1000 * chance_of_telling(attack_curve(self))), 1000) / 10
        return (
            f"weak: epsilon is above {LARGE_EPSILON:g}; an attacker who sees the result may tell whether one "
            f"{self.unit.noun} took part and be right {share:g}% of the time, where guessing is right 50%"
        )

    def __str__(self) -> str:
        guarantee, remarks = self._lines()
        lines = [
            guarantee,
            *(f"  {remark}" for remark in remarks),
            f"  {'group':>5}  {'release':<22} {'mechanism':<17} {'cost each':>22} {'count':>6} disjoint",
            *(
                f"  {row['group']:>5}  {row['release']:<22} {row['mechanism']:<17} {cost_each(row):>22} "
                f"{row['count']:>6} {row['disjoint_sets_of_rows']:>8}"
                for row in self.ledger
            ),
            OFFICERS_PAGE,
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        guarantee, remarks = self._lines()
        told = html_paragraph(guarantee) + html_list(remarks) + ledger_html(self.ledger)
        return told + html_paragraph(OFFICERS_PAGE)


def report_of(
    ledger: Ledger, reasons: Iterable[str] = (), notes: Iterable[str] = (), budget: str | None = None
) -> PrivacyReport:
    """The guarantee that follows from a ledger."""
    cost = ledger.cost
    epsilon, delta = cost.at(ledger.granted_delta)
    reasons = tuple(dict.fromkeys(reasons))
    return PrivacyReport(
        epsilon=epsilon,
        delta=delta,
        private=not reasons,
        reasons=reasons,
        notes=tuple(dict.fromkeys(notes)),
        ledger=tuple(ledger.table()),
        unit=ledger.unit,
        cost=cost,
        spent=ledger.spent,
        budget=budget,
    )
