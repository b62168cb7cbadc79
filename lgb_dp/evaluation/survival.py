"""The evaluation of a private model of times to events, from one released table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.evaluation.intervals import Estimate, Z, concordance_estimate
from lgb_dp.evaluation.table import EvaluationTable

MAX_BINS = 16
"""Of scores."""

QUARTERS = "highest", "second", "third", "lowest"


@dataclass(frozen=True, eq=False)
class SurvivalEvaluation(EvaluationTable):
    """Quality of a model of times to events, on rows that were held out of its training run.

    Intervals are those of `EvaluationTable`.  An event between two times counts halfway, of their logarithms.

    Attributes
    ----------
    edges : ndarray of float64, shape (n_bins - 1,)
        Logarithms of medians between which rows were counted.
    times : ndarray of float64, shape (n_times,)
        Times between which rows were counted; the last is that of `label_bounds`.
    counts : ndarray of float64, shape (n_bins, 2 * n_times + 1)
        Held-out rows with noise, by score: with an event up to each time, then without an event, who left
        before each time or after the last.
    std : float
        Of the noise in a cell, in rows.
    """

    edges: NDArray[np.float64]
    times: NDArray[np.float64]
    counts: NDArray[np.float64]
    std: float

    @property
    def events(self) -> Estimate:
        """Share of rows whose event was observed."""
        n, (n_bins, n_cells) = len(self.times), self.counts.shape
        parts = self.counts[:, :n].sum(), self.counts[:, n:].sum()
        return self._share(float(parts[0]), float(parts[1]), n_bins * n, n_bins * (n_cells - n))

    @property
    def concordance(self) -> Estimate:
        """Harrell's: share of comparable pairs of rows whose medians are in the right order."""
        counts, n = self.counts / self.alike, len(self.times)
        return concordance_estimate(counts[:, :n], counts[:, n:], self.std / self.alike)

    def survival(self) -> list[dict[str, Any]]:
        """Kaplan-Meier curves of four quarters of the rows, of ascending medians.

        Rows by quarter and time: the share without an event until then, and how many rows a quarter has.
        The intervals are of each time alone; a row that left counts for half of its interval of times.
        """
        rows = np.maximum(self.counts.sum(axis=1), 0.0)
        place = 4 * (np.cumsum(rows) - rows / 2) / max(float(rows.sum()), 1e-9)
        quarters = [self.counts[np.minimum(place.astype(np.int64), 3) == k] for k in range(4)]
        return [
            {"quarter": quarter, "time": float(time), "survived": one, "rows": float(own.sum())}
            for quarter, own in zip(QUARTERS, quarters, strict=True)
            for time, one in zip(self.times, self._curve(own), strict=True)
        ]

    def plot(self, *, axes: Any = None) -> Any:
        """Draw the four curves with their bands; on `axes`, or new ones."""
        ax, curves = axes_of() if axes is None else axes, self.survival()
        for quarter in QUARTERS:
            own = [row["survived"] for row in curves if row["quarter"] == quarter]
            value, low, high = (
                [1.0, *(getattr(one, end) for one in own)] for end in ("value", "low", "high")
            )
            times = [0.0, *self.times]
            (line,) = ax.plot(times, value, label=f"{quarter} risk")
            ax.fill_between(times, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        ax.legend()
        title = f"concordance {self.concordance}"
        ax.set(xlabel="time", ylabel="share without an event", ylim=(0, 1), title=title)
        return ax

    def figures(self) -> dict[str, Estimate]:
        """All figures by name."""
        return {"held-out rows": self.n_rows, "events": self.events, "concordance": self.concordance}

    def is_table(self) -> bool:
        """Whether tables and edges have the shapes and the order that they must have."""
        n_bins, n = len(self.edges) + 1, len(self.times)
        is_shaped = self.counts.shape == (n_bins, 2 * n + 1) and n_bins <= MAX_BINS and 0 < n <= 2 * MAX_BINS
        ascending = self.edges, np.append(0.0, self.times)
        return is_shaped and all(np.isfinite(one).all() and (np.diff(one) > 0).all() for one in ascending)

    def _curve(self, counts: NDArray[np.float64]) -> list[Estimate]:
        """Shares without an event until each time, of rows in some bins, which do not rise.

        With e events among y rows left, h = e / y and w = 1 / (y - e), a share's logarithm is Σ log(1 - h).
        The variance of drawing rows is Greenwood's (1926), Σ h w, and w² for a row more.  Noise in a cell of
        events moves the sum by -w (1 - h) at its own time and h w at each before, in another one by h w / 2
        and the same; where it hides whether rows are left, any share is possible.
        """
        n, n_bins, std = len(self.times), len(counts), self.std / self.alike
        event, other = np.split(counts.sum(axis=0) / self.alike, [n])
        left = event[::-1].cumsum()[::-1] + other[:0:-1].cumsum()[::-1] + other[:-1] / 2
        n_cells = 2.0 * np.arange(n, 0, -1)
        is_hidden = np.maximum.accumulate(left <= Z * std * np.sqrt(n_bins * n_cells) + 1)
        hazard = np.where(is_hidden, 0.0, np.minimum(event / np.maximum(left, 1.0), 1 - 1e-6))
        w = 1 / (np.maximum(left, 1.0) * (1 - hazard))
        own = hazard * w
        after = own.cumsum()
        before = after - own
        moved = np.cumsum((before - w * (1 - hazard)) ** 2 + (before + own / 2) ** 2) + after**2 * (
            n_cells - 1
        )
        reach = Z * np.sqrt(np.maximum(after, 0.0) + w**2 + std**2 * n_bins * moved)
        value = np.log1p(-hazard).cumsum()
        low, high = np.where(is_hidden, -np.inf, value - reach), np.where(is_hidden, 0.0, value + reach)
        value, low, high = (np.exp(np.minimum(one, 0.0)) for one in (value, low, high))
        value = isotonic_regression(value, increasing=False)
        low = np.minimum(np.minimum.accumulate(low), value)
        high = np.maximum(np.minimum.accumulate(high), value)
        return [Estimate(*map(float, one)) for one in np.transpose([value, low, high])]
