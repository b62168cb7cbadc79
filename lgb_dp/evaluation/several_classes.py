"""The evaluation of a private model of several classes, from two released tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.evaluation.intervals import Estimate, mean_estimate
from lgb_dp.evaluation.table import EvaluationTable, calibration_axes, confusion_rows

LOSS_EDGES = np.geomspace(0.02, 8.0, 15)
"""Between which losses of rows, in nats, are counted; larger ones count as the last."""

CONFIDENCE_EDGES = np.arange(1, 8) / 8
MAX_CELLS = 1 << 16
"""Of a table: about a megabyte of a model's text."""


@dataclass(frozen=True, eq=False)
class MulticlassEvaluation(EvaluationTable):
    """Quality of a model of several classes, on rows that were held out of its training run.

    Intervals are those of `EvaluationTable`.

    Attributes
    ----------
    counts : ndarray of float64, shape (n_classes, n_classes, 8)
        Held-out rows with noise, by label, predicted class, and eighth of the predicted class's probability.
    std : float
        Of the noise in a cell, in rows.
    losses : ndarray of float64, shape (16,)
        Held-out rows with noise, by the loss of their label: less than `LOSS_EDGES` of this module.
    losses_std : float
        Of the noise in each of them, in rows.
    """

    counts: NDArray[np.float64]
    std: float
    losses: NDArray[np.float64]
    losses_std: float

    noised: ClassVar[Mapping[str, str]] = {"counts": "std", "losses": "losses_std"}

    @property
    def accuracy(self) -> Estimate:
        """Share of rows whose label is the most probable class."""
        right, n, n_bins = np.trace(self.counts).sum(), len(self.counts), self.counts.shape[2]
        return self._share(right, self.counts.sum() - right, n * n_bins, n * (n - 1) * n_bins)

    @property
    def log_loss(self) -> Estimate:
        """Mean negative log-likelihood, in nats; rows of more than 8 count as 8."""
        ends = np.concatenate([[LOSS_EDGES[0] / 9], LOSS_EDGES, LOSS_EDGES[-1:]])
        inside = np.geomspace(ends[:-1], ends[1:], 5)
        counts, std = self.losses / self.alike, self.losses_std / self.alike
        return mean_estimate(counts, inside.mean(axis=0), inside.std(axis=0), std, (0.0, LOSS_EDGES[-1]))

    def confusion(self) -> list[dict[str, Any]]:
        """By label and predicted class: rows, and the share of the label's rows that are predicted so."""
        return confusion_rows(self.counts.sum(axis=2), [self.counts.shape[2]] * len(self.counts), self._share)

    def calibration(self) -> list[dict[str, Any]]:
        """By eighth of the predicted class's probability: its middle, and how often it is right."""
        n, found = len(self.counts), []
        for k in range(self.counts.shape[2]):
            right, rows = float(np.trace(self.counts[:, :, k])), float(self.counts[:, :, k].sum())
            observed = self._share(right, rows - right, n, n * (n - 1))
            found.append({"predicted": (k + 0.5) / 8, "observed": observed, "rows": rows})
        return found

    def plot(self, *, axes: Sequence[Any] | None = None) -> Sequence[Any]:
        """Draw confusion, as shares of each label's rows, and calibration; on two `axes`, or new ones."""
        left, right = axes_of(2) if axes is None else axes
        shares = np.array([row["share"].value for row in self.confusion()]).reshape(self.counts.shape[:2])
        left.imshow(shares, vmin=0, vmax=1, cmap="Blues")
        left.set(xlabel="predicted class", ylabel="label", title=f"accuracy {self.accuracy}")
        calibration_axes(
            right, self.calibration(), "probability of the predicted class", "share that is right"
        )
        return left, right

    def figures(self) -> dict[str, Estimate]:
        """All figures by name."""
        return {"held-out rows": self.n_rows, "accuracy": self.accuracy, "log-loss": self.log_loss}

    def is_table(self) -> bool:
        """Whether tables and edges have the shapes and the order that they must have."""
        n, n_bins = len(self.counts), len(CONFIDENCE_EDGES) + 1
        return n > 1 and self.counts.shape == (n, n, n_bins) and self.losses.shape == (len(LOSS_EDGES) + 1,)
