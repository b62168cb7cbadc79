"""The ground of all evaluations: a table of held-out rows with noise, and figures of it with intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.html_tables import html_paragraph, html_table
from lgb_dp.evaluation.intervals import Estimate, Z


class EvaluationTable(ABC):
    """Numbers of held-out rows with noise, of whatever cells, and their texts."""

    counts: NDArray[np.float64]
    std: float

    @abstractmethod
    def figures(self) -> dict[str, Estimate]:
        """All figures by name."""

    @property
    def n_rows(self) -> Estimate:
        """Number of held-out rows, in rows of the largest weight."""
        n, reach = float(self.counts.sum()), Z * self.std * np.sqrt(self.counts.size)
        return Estimate(max(n, 0.0), max(n - reach, 0.0), max(n + reach, 0.0))

    def __str__(self) -> str:
        head = f"on held-out rows, with noise of {self.std:.3g} rows in each count (95% intervals):"
        return "\n".join([head, *(f"  {name:<14} {one}" for name, one in self.figures().items())])

    def _repr_html_(self) -> str:
        """The figures for a notebook."""
        rows = [{"figure": name, "value and 95% interval": str(one)} for name, one in self.figures().items()]
        return html_paragraph(str(self).splitlines()[0]) + html_table(rows)
