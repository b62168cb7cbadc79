"""The ground of all evaluations: tables of held-out rows with noise, and figures of them with intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.html_tables import html_paragraph, html_table
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.intervals import Estimate, Z, are_moderate, share_estimate

Table = TypeVar("Table", bound="EvaluationTable")


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationTable(ABC):
    """Numbers of held-out rows with noise, of whatever cells, and their texts.

    Every figure has a 95% interval that covers both the drawing of the rows and the noise.  Persons are
    taken as independent, and rows of one as alike; weights count as shares of the largest one.

    Attributes
    ----------
    alike : int
        How many rows of the largest weight a person may have.
    by, groups : str, dict
        The column whose values divide the rows, if one was given, and the evaluation of each value; the
        whole is their sum.
    """

    alike: int = 1
    by: str = ""
    groups: Mapping[str, Any] = field(default_factory=dict)

    noised: ClassVar[Mapping[str, str]] = {"counts": "std"}
    """Names of tables, and of the standard deviations of their noise."""

    @abstractmethod
    def figures(self) -> dict[str, Estimate]:
        """All figures by name."""

    @abstractmethod
    def is_table(self) -> bool:
        """Whether tables and edges have the shapes and the order that they must have."""

    @classmethod
    def of_groups(cls: type[Table], by: str, groups: Mapping[str, Table]) -> Table:
        """All groups together, whose noises add up; a ValueError if they are of different shapes."""
        changes: dict[str, Any] = {"by": by, "groups": dict(groups)}
        for counts, std in cls.noised.items():
            changes[counts] = np.sum([getattr(one, counts) for one in groups.values()], axis=0)
            changes[std] = float(np.linalg.norm([getattr(one, std) for one in groups.values()]))
        return replace(next(iter(groups.values())), **changes)

    def to_dict(self) -> dict[str, Any]:
        """The released tables, in types that JSON has."""
        if self.groups:
            return {"by": self.by, "groups": {name: one.to_dict() for name, one in self.groups.items()}}
        return {name: np.asarray(value).tolist() for name, value in self._fields().items()}

    @classmethod
    def from_dict(cls: type[Table], values: Mapping[str, Any]) -> Table:
        """Read back a `to_dict` of one group, perhaps from a foreign file; anything else raises an error."""
        names = [one.name for one in fields(cls) if one.name not in ("alike", "by", "groups")]
        read: dict[str, Any] = {name: np.array(values[name], dtype=np.float64) for name in names}
        tables = [(read[counts], float(read[std])) for counts, std in cls.noised.items()]
        alike = int(values["alike"])
        known: dict[str, Any] = {name: one if one.ndim else float(one) for name, one in read.items()}
        found = cls(**known, alike=alike)
        is_moderate = all(are_moderate(counts, std, alike) for counts, std in tables)
        if not all(counts.ndim for counts, _ in tables) or not is_moderate or not found.is_table():
            raise InvalidArgumentError("the evaluation of a model has tables that are none")
        return found

    def _fields(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("by", "groups")}

    def _counted(self) -> tuple[NDArray[np.float64], float]:
        """The first table, and the noise in it."""
        counts, std = next(iter(self.noised.items()))
        return getattr(self, counts), getattr(self, std)

    def _share(self, part: float, rest: float, n_part: int, n_rest: int) -> Estimate:
        """Share of some rows in all, by sums of cells: rows that are alike count as one."""
        std = self._counted()[1] / self.alike
        return share_estimate(part / self.alike, rest / self.alike, n_part, n_rest, std)

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
        counts, std = self._counted()
        n, reach = float(counts.sum()), Z * std * np.sqrt(counts.size)
        return Estimate(max(n, 0.0), max(n - reach, 0.0), max(n + reach, 0.0))

    def __str__(self) -> str:
        head = f"on held-out rows, with noise of {self._counted()[1]:.3g} rows in each count (95% intervals):"
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
