"""Plots of what a budget was spent on; they need matplotlib."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np

from lgb_dp.accounting.cost import Cost, printed
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.errors import InvalidArgumentError, MissingDependencyError


def axes_of(n_axes: int = 1, n_columns: int = 2) -> Any:
    """New axes in rows of at most `n_columns`: one, or an array of several; raises without matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib: pip install 'veilboost[plot]'") from error
    shape = math.ceil(n_axes / n_columns), min(n_axes, n_columns)
    size = (2 + 4 * shape[1], 4 * shape[0])
    axes = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=n_axes == 1)[1]
    for ax in [] if n_axes == 1 else axes.flat[n_axes:]:
        ax.remove()
    return axes if n_axes == 1 else axes.flat[:n_axes]


def budget_shares(report: PrivacyReport) -> list[tuple[str, str, float]]:
    """Expenses of the budget: name of a release, ``"ε"`` or ``"μ²"``, and its share of that.

    Releases that are Gaussian compose by squares, so their shares are shares of μ²; others are shares of ε.
    Of releases on disjoint rows, the most expensive counts.  Costs that are not finite have no share.
    """
    spent: dict[str, dict[str, float]] = {"ε": defaultdict(float), "μ²": defaultdict(float)}
    for row in report.ledger:
        each = row["count"] / max(1, row["disjoint_sets_of_rows"])
        spent["ε"][row["release"]] += each * row["epsilon"]
        mu = float(row.get("mu", 0.0) * row.get("probability", 1.0))
        spent["μ²"][row["release"]] += each * (mu * mu)  # infinite where a power would raise an error
    totals = {kind: sum(by_release.values()) for kind, by_release in spent.items()}
    return [
        (name, kind, value / totals[kind])
        for kind, by_release in spent.items()
        for name, value in by_release.items()
        if 0 < value <= totals[kind] < math.inf
    ]


def plot_budget(report: PrivacyReport, *, ax: Any = None) -> Any:
    """Shares of the budget by what was released.

    Releases that are Gaussian compose by squares, so their shares are shares of μ²; others are shares of ε.
    Of releases on disjoint rows, the most expensive counts.

    Parameters
    ----------
    report : PrivacyReport
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    if math.isinf(report.epsilon):
        raise InvalidArgumentError("report has epsilon = inf, which cannot be divided into shares")
    ax = axes_of() if ax is None else ax
    found = budget_shares(report)
    colors = ["C0" if kind == "ε" else "C1" for _, kind, _ in found]
    bars = ax.barh([name for name, _, _ in found], [share for _, _, share in found], color=colors)
    ax.bar_label(bars, [f"{share:.1%} of {kind}" for _, kind, share in found], padding=3)
    ax.set(xlim=(0, 1.25), xlabel="share of the budget")
    ax.set_title(f"ε = {printed(report.epsilon, 6)}, δ = {printed(report.delta, 3)}")
    ax.invert_yaxis()
    return ax


def plot_charges(
    charges: Sequence[Mapping[str, Any]], limit: Cost, *, title: str = "", ax: Any = None
) -> Any:
    """Staircase of what charges have used of a budget, by their dates.

    Parameters
    ----------
    charges : sequence of mapping
        As `Budget.charges` gives them, in their order; a clock that went back does not move the steps.
    limit : Cost
        Of the budget.
    title : str
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    if not charges:
        raise InvalidArgumentError("budget has no charges to draw: nothing was paid from it")
    ax = axes_of() if ax is None else ax
    times = np.array([row["date"] for row in charges], dtype="datetime64[D]")
    times = np.maximum.accumulate(np.append(times, np.datetime64(datetime.now(timezone.utc).date())))
    wholes = {"μ²": (limit.mu**2, "mu", 2), "ε": (limit.epsilon, "epsilon", 1)}
    for kind, (whole, name, power) in wholes.items():
        if whole:
            used = np.cumsum([0.0, *(row[name] ** power / whole for row in charges)]).clip(0, 1)
            label = f"{kind}: {used[-1]:.1%} spent, {1 - used[-1]:.1%} left"
            line = ax.step(times, np.append(used[1:], used[-1]), where="post", label=label)[0]
            ax.fill_between(
                times, np.append(used[1:], used[-1]), 1, step="post", alpha=0.1, color=line.get_color()
            )
    ax.set(ylim=(0, 1.05), ylabel="share of the budget", title=title)
    ax.axhline(1.0, color="black", linewidth=0.8)
    ax.tick_params(axis="x", rotation=30)
    ax.legend(frameon=False)
    return ax
