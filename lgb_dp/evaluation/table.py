"""The ground of all evaluations: tables of held-out rows with noise, and figures of them with intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.html_tables import html_paragraph, html_table
from lgb_dp.evaluation.intervals import Estimate, Z

Table = TypeVar("Table", bound="EvaluationTable")


class EvaluationTable(ABC):
    """Numbers of held-out rows with noise, of whatever cells, and their texts.

    Where a public column divides them, `groups` has an evaluation for each of its values, and the whole is
    their sum.  `noised` names the tables, and the standard deviations of their noise.
    """

    counts: NDArray[np.float64]
    std: float
    by: str
    groups: Mapping[str, Any]
    noised: ClassVar[Mapping[str, str]] = {"counts": "std"}

    @abstractmethod
    def figures(self) -> dict[str, Estimate]:
        """All figures by name."""

    @abstractmethod
    def table(self) -> dict[str, Any]:
        """The released tables of all groups together, in types that JSON has."""

    @classmethod
    def of_groups(cls: type[Table], by: str, groups: Mapping[str, Table]) -> Table:
        """All groups together, whose noises add up; a ValueError if they are of different shapes."""
        first = next(iter(groups.values()))
        changes: dict[str, Any] = {"by": by, "groups": dict(groups)}
        for counts, std in first.noised.items():
            changes[counts] = np.sum([getattr(one, counts) for one in groups.values()], axis=0)
            changes[std] = float(np.linalg.norm([getattr(one, std) for one in groups.values()]))
        return replace(first, **changes)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """The released tables, in types that JSON has."""
        if not self.groups:
            return self.table()
        return {"by": self.by, "groups": {name: one.to_dict() for name, one in self.groups.items()}}

    def all_figures(self) -> dict[str, Estimate]:
        """All figures by name, those of groups too."""
        of_groups = {
            f"{name}, {self.by}={group}": figure
            for group, one in self.groups.items()
            for name, figure in one.figures().items()
        }
        return {**self.figures(), **of_groups}

    @property
    def n_rows(self) -> Estimate:
        """Number of held-out rows, in rows of the largest weight."""
        n, reach = float(self.counts.sum()), Z * self.std * np.sqrt(self.counts.size)
        return Estimate(max(n, 0.0), max(n - reach, 0.0), max(n + reach, 0.0))

    def __str__(self) -> str:
        head = f"on held-out rows, with noise of {self.std:.3g} rows in each count (95% intervals):"
        return "\n".join([head, *(f"  {name:<14} {one}" for name, one in self.all_figures().items())])

    def _repr_html_(self) -> str:
        """The figures for a notebook."""
        rows = [
            {"figure": name, "value and 95% interval": str(one)} for name, one in self.all_figures().items()
        ]
        return html_paragraph(str(self).splitlines()[0]) + html_table(rows)


def confusion_rows(
    table: NDArray[np.float64], n_cells: Sequence[int], share: Callable[[float, float, int, int], Estimate]
) -> list[dict[str, Any]]:
    """Rows by label and predicted class, and the share of the label's; a prediction is of several cells."""
    found = []
    for label, predicted in np.ndindex(table.shape):
        rows, n = float(table[label, predicted]), n_cells[predicted]
        of_label = share(rows, float(table[label].sum()) - rows, n, sum(n_cells) - n)
        found.append({"label": label, "predicted": predicted, "rows": rows, "share": of_label})
    return found


def calibration_axes(axes: Any, rows: Sequence[dict[str, Any]], xlabel: str, ylabel: str) -> None:
    """Draw shares that were observed, with their intervals, over those that were predicted."""
    x, y = [row["predicted"] for row in rows], [row["observed"].value for row in rows]
    reach = [[row["observed"].value - row["observed"].low for row in rows]]
    reach.append([row["observed"].high - row["observed"].value for row in rows])
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.errorbar(x, y, yerr=reach, marker="o", markersize=3, linestyle="none")
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, 1), ylim=(0, 1))
