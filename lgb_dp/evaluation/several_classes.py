"""The evaluation of a private model of several classes, from two released tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.intervals import Estimate, are_moderate, mean_estimate, share_estimate
from lgb_dp.evaluation.table import EvaluationTable, calibration_axes, confusion_rows

LOSS_EDGES = np.geomspace(0.02, 8.0, 15)
"""Between which losses of rows, in nats, are counted; larger ones count as the last."""

CONFIDENCE_EDGES = np.arange(1, 8) / 8
MAX_CELLS = 1 << 16
"""Of a table: about a megabyte of a model's text."""


@dataclass(frozen=True, eq=False)
class MulticlassEvaluation(EvaluationTable):
    """Quality of a model of several classes, on rows that were held out of its training run.

    Every figure has a 95% interval that covers both the drawing of the rows and the noise.  Persons are
    taken as independent, and rows of one as alike; weights count as shares of the largest one.

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
    alike : int
        How many rows of the largest weight a person may have.
    by, groups : str, dict
        The column whose values divide the rows, if one was given, and the evaluation of each value.
    """

    counts: NDArray[np.float64]
    std: float
    losses: NDArray[np.float64]
    losses_std: float
    alike: int = 1
    by: str = ""
    groups: Mapping[str, Any] = field(default_factory=dict)

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
        """Draw the confusion matrix, as shares of each label's rows, and how often confidence is right.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, optional

        Returns
        -------
        sequence of two matplotlib Axes
        """
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

    def table(self) -> dict[str, Any]:
        """The released tables, in types that JSON has."""
        return {
            "classes": self.counts.tolist(),
            "std": self.std,
            "losses": self.losses.tolist(),
            "losses std": self.losses_std,
            "alike": self.alike,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MulticlassEvaluation:
        """Read back what `to_dict` gave, which may have been in a file of somebody else.

        Raises
        ------
        KeyError, TypeError, ValueError, OverflowError
            If something is missing, or is not what `to_dict` gives.
        """
        counts, losses = (np.array(values[name], dtype=np.float64) for name in ("classes", "losses"))
        std, losses_std, alike = float(values["std"]), float(values["losses std"]), int(values["alike"])
        is_table = counts.ndim == 3 and counts.shape == (len(counts), len(counts), len(CONFIDENCE_EDGES) + 1)
        is_table = is_table and len(counts) > 1 and losses.shape == (len(LOSS_EDGES) + 1,)
        numbers = np.concatenate([counts.ravel(), losses])
        if not is_table or not all(are_moderate(numbers, one, alike) for one in (std, losses_std)):
            raise InvalidArgumentError("the evaluation of a model has counts, losses and their noise")
        return cls(counts, std, losses, losses_std, alike)

    def _share(self, part: float, rest: float, n_part: int, n_rest: int) -> Estimate:
        return share_estimate(part / self.alike, rest / self.alike, n_part, n_rest, self.std / self.alike)
