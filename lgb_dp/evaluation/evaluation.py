"""The evaluation of a private model: figures, curves and their intervals, all from one released table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.evaluation.intervals import Estimate, are_moderate, auc_estimate, mean_estimate
from lgb_dp.evaluation.table import EvaluationTable, calibration_axes, confusion_rows

N_POINTS = 5
"""Scores that stand for those of a bin."""

_MAX_BINS = 1024
_N_GROUPS = 10
_MAX_STEPS, _SMALL_STEP, _LARGEST_CONDITION, _MAX_FACTOR = 50, 1e-9, 1e12, 10.0
"""Of Newton's method for two numbers: where it ends elsewhere, scores stay as they are."""


@dataclass(frozen=True, eq=False)
class PrivateEvaluation(EvaluationTable):
    """Quality of a model of two classes, on rows that were held out of its training run.

    Intervals are those of `EvaluationTable`.

    Attributes
    ----------
    edges : ndarray of float64, shape (n_bins - 1,)
        Raw scores between which rows were counted.
    points : ndarray of float64, shape (n_bins, 5)
        Raw scores in each bin, which stand for those of all rows there.
    counts : ndarray of float64, shape (n_bins, 2)
        Held-out rows with noise, by bin and label.
    std : float
        Of the noise in a cell, in rows.
    """

    edges: NDArray[np.float64]
    points: NDArray[np.float64]
    counts: NDArray[np.float64]
    std: float

    @property
    def positives(self) -> Estimate:
        """Share of rows with the higher label."""
        negative, positive = self.counts.sum(axis=0)
        return self._share(positive, negative, len(self.counts), len(self.counts))

    @property
    def auc(self) -> Estimate:
        """Area under the ROC curve."""
        negative, positive = self.counts.T / self.alike
        return auc_estimate(positive, negative, self.std / self.alike)

    @property
    def log_loss(self) -> Estimate:
        """Mean negative log-likelihood, in nats."""
        return self._mean(-log_expit(-self.points), -log_expit(self.points))

    @property
    def brier(self) -> Estimate:
        """Mean squared distance of probabilities from labels of 0 and 1."""
        return self._mean(expit(self.points) ** 2, expit(-self.points) ** 2)

    @property
    def accuracy(self) -> Estimate:
        """Share of rows whose label is the more probable one."""
        high, n_bins = self._high(), len(self.counts)
        right = float(self.counts[:, 1] @ high + self.counts[:, 0] @ (1 - high))
        found = self._share(right, self.counts.sum() - right, n_bins, n_bins)
        # Where a bin is on both sides, its rows may lie otherwise than its points.
        doubt = float(np.maximum(self.counts.sum(axis=1), 0) @ np.sqrt(high * (1 - high))) / 4
        doubt /= max(float(self.counts.sum()), 1.0)
        return Estimate(found.value, max(found.low - doubt, 0.0), min(found.high + doubt, 1.0))

    def confusion(self) -> list[dict[str, Any]]:
        """By label and class above a probability of ½: rows, and the share of the label's predicted so."""
        sides = 1 - self._high(), self._high()
        sums, n_cells = [side @ self.counts for side in sides], [int((side > 0).sum()) for side in sides]
        return confusion_rows(np.transpose(sums), n_cells, self._share)

    def calibration(self) -> list[dict[str, Any]]:
        """At most ten groups of rows by ascending score: mean prediction, and share of the higher label."""
        found = []
        for group in self._groups():
            negative, positive = self.counts[group].sum(axis=0)
            weight = np.maximum(self.counts[group].sum(axis=1), 1e-9)
            predicted = float(np.average(expit(self.points[group]).mean(axis=1), weights=weight))
            observed = self._share(positive, negative, len(group), len(group))
            found.append({"predicted": predicted, "observed": observed, "rows": float(negative + positive)})
        return found

    def lift(self) -> list[dict[str, Any]]:
        """By descending score: the share of rows so far, and the share of all of the higher label in it."""
        by_score = self.counts[::-1]
        found, n, n_bins = [], max(float(self.counts.sum()), 1.0), len(self.counts)
        for stop in sorted({n_bins - int(group[0]) for group in self._groups()}):
            inside, beyond = float(by_score[:stop, 1].sum()), float(by_score[stop:, 1].sum())
            captured = self._share(inside, beyond, stop, n_bins - stop)
            found.append({"rows": float(np.clip(by_score[:stop].sum() / n, 0, 1)), "captured": captured})
        return found

    def roc(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """False and true positive rates, from 0 to 1, by descending threshold."""
        rates = []
        for label in (0, 1):
            passed = np.maximum.accumulate(np.cumsum(self.counts[::-1, label]))
            total = max(float(passed[-1]), 1e-9)
            rates.append(np.clip(np.concatenate([[0.0], passed / total]), 0.0, 1.0))
        return rates[0], rates[1]

    def plot(self, *, axes: Sequence[Any] | None = None) -> Sequence[Any]:
        """Draw the ROC curve, the calibration and the lift by deciles, the latter with their intervals.

        Parameters
        ----------
        axes : sequence of three matplotlib Axes, optional

        Returns
        -------
        sequence of three matplotlib Axes

        Raises
        ------
        MissingDependencyError
            If matplotlib is not installed.
        """
        left, middle, right = axes_of(3) if axes is None else axes
        left.plot(*self.roc(), marker=".")
        left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        left.set(xlabel="false positive rate", ylabel="true positive rate", title=f"AUC {self.auc}")
        calibration_axes(middle, self.calibration(), "predicted probability", "share of the higher label")
        lift = [{"predicted": row["rows"], "observed": row["captured"]} for row in self.lift()]
        calibration_axes(right, lift, "share of rows, highest scores first", "share of the higher label")
        return left, middle, right

    def figures(self) -> dict[str, Estimate]:
        """All figures by name."""
        return {
            "held-out rows": self.n_rows,
            "positives": self.positives,
            "AUC": self.auc,
            "log-loss": self.log_loss,
            "Brier score": self.brier,
            "accuracy": self.accuracy,
        }

    def is_table(self) -> bool:
        """Whether tables and edges have the shapes and the order that they must have."""
        n_bins, numbers = len(self.counts), np.concatenate([self.edges, self.points.ravel()])
        is_shaped = self.counts.shape == (n_bins, 2) and self.points.shape == (n_bins, N_POINTS)
        is_shaped = is_shaped and self.edges.shape == (n_bins - 1,) and 2 <= n_bins <= _MAX_BINS
        return is_shaped and are_moderate(numbers, 0.0, 1) and bool((np.diff(self.edges) > 0).all())

    def platt(self) -> tuple[float, float]:
        """Factor and shift of raw scores that make them log-odds, shrunk towards 1 and 0 by their noise.

        They are Platt's (1999): the most likely ones.  Their covariance is that of drawing rows and of noise
        in the sums that are zero there.  With q the squared length of the change in its terms, which is 2 on
        average for noise alone, 1 - 2/q of the change is kept.
        """
        x = np.stack([self.points, np.ones_like(self.points)], axis=-1)
        counts, std = self.counts / self.alike, self.std / self.alike
        rows, start = np.maximum(counts.sum(axis=1), 0.0), np.array([1.0, 0.0])
        found, outer = start.copy(), x[..., :, None] * x[..., None, :]
        for _ in range(_MAX_STEPS):
            p = expit(x @ found)
            of_low, of_high = (np.mean((p - y)[..., None] * x, axis=1) for y in (0, 1))
            slope = counts[:, 0] @ of_low + counts[:, 1] @ of_high
            curvature = np.einsum("b,bkij->ij", rows, (p * (1 - p) / N_POINTS)[..., None, None] * outer)
            if not np.isfinite(slope).all() or np.linalg.cond(curvature) > _LARGEST_CONDITION:
                return 1.0, 0.0
            step = np.linalg.solve(curvature, slope)
            found -= step
            if np.abs(step).max() < _SMALL_STEP and 1 / _MAX_FACTOR < found[0] < _MAX_FACTOR:
                change = curvature @ (found - start)
                noise = curvature + std**2 * (of_low.T @ of_low + of_high.T @ of_high)
                q = float(change @ np.linalg.solve(noise, change))
                a, b = start + max(0.0, 1 - 2 / max(q, 2.0)) * (found - start)
                return float(a), float(b)
        return 1.0, 0.0

    def moved(self, factor: float, shift: float) -> PrivateEvaluation:
        """The evaluation of a model whose raw scores are multiplied, by a positive number, and moved."""
        if self.groups:
            groups = {name: one.moved(factor, shift) for name, one in self.groups.items()}
            return self.of_groups(self.by, groups)
        edges, points = (factor * values + shift for values in (self.edges, self.points))
        return replace(self, edges=edges, points=points)

    def _high(self) -> NDArray[np.float64]:
        """Share of each bin's points above a raw score of 0: one of the edges, unless scores were moved."""
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        share = (self.points > 0).mean(axis=1)
        return np.where(ends[:-1] >= 0, 1.0, np.where(ends[1:] <= 0, 0.0, share))

    def _mean(self, of_low: NDArray[np.float64], of_high: NDArray[np.float64]) -> Estimate:
        """Mean over rows of a number that follows from score and label; given at the points of each bin."""
        at_points = np.stack([of_low, of_high], axis=1)
        values, spread = at_points.mean(axis=2).ravel(), at_points.std(axis=2).ravel()
        counts, std = self.counts.ravel() / self.alike, self.std / self.alike
        return mean_estimate(counts, values, spread, std, (0.0, float(values.max())))

    def _groups(self) -> list[NDArray[np.int64]]:
        """Bins in groups of about equally many rows, by ascending score."""
        rows = np.maximum(self.counts.sum(axis=1), 0.0)
        before = (np.cumsum(rows) - rows / 2) / max(float(rows.sum()), 1e-9)
        group = np.minimum((before * _N_GROUPS).astype(np.int64), _N_GROUPS - 1)
        return [np.flatnonzero(group == k) for k in np.unique(group)]
