"""The guarantee of several models, or other private results, of the same rows."""

from __future__ import annotations

from lgb_dp.errors import NoGuaranteeError
from lgb_dp.ledger import PrivacyReport, total_cost


def compose(*reports: PrivacyReport, delta: float | None = None) -> PrivacyReport:
    """One report for everything that was released.

    Costs add up kind by kind: ε and δ as they are, Gaussian releases by their squares, so that two models of
    (ε, δ) each cost less than (2ε, 2δ).  Each result may depend on those before it.

    Parameters
    ----------
    *reports : PrivacyReport
        At least one, of trainings or metadata of the same rows.
    delta : float, optional
        δ at which Gaussian releases are stated; the largest of the reports' unless given.

    Returns
    -------
    PrivacyReport
        Not private if one of them is not.

    Raises
    ------
    TypeError, ValueError
        If there is no report, or something else than a report; or if `delta` is not in (0, 1).
    """
    for report in reports:
        if not isinstance(report, PrivacyReport):
            raise TypeError(f"compose takes privacy reports, got {type(report).__name__}")
    if not reports:
        raise NoGuaranteeError("compose needs at least one report")
    if delta is not None and not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
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
