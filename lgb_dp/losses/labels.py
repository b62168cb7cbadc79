"""The public scale of labels, on which every objective is trained.

Labels are scaled to [-1, 1], and DPBoost's loss is the square loss, as in its paper.

Gradient ``g = ŷ - y``, hessian 1.  At the first tree ŷ = 0, so |g| is at most
``G_STAR = 1`` whatever the label.  Raw scores of the model relate to ŷ by
``raw = centre + scale · ŷ``: for classes ``raw = ŷ``, read through the sigmoid
of 2ŷ (or the softmax of ŷ), whose slope at 0 is that of (1 + ŷ) / 2; for
regression by the public label bounds.  Raw scores of the objectives with a
logarithmic link are logarithms of predictions; ŷ = 0 is the largest label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.objective import OBJECTIVES, Objective
from lgb_dp.losses.times import FORMS, TIMES, check_times, clipped_times


@dataclass(frozen=True)
class LabelScale:
    """Labels and raw scores as of [-1, 1]; `InvalidArgumentError` for bounds without a logarithm."""

    objective: str  # name of one of `OBJECTIVES`
    n_outputs: int  # trees per iteration
    low: float  # of several targets an array of as many
    high: float
    sigmoid: float = 2.0  # slope of "binary" and "multiclassova" models, from raw scores to probabilities
    of_objective: Mapping[str, float] = field(default_factory=dict)  # its own parameter, if it has one

    def __post_init__(self) -> None:
        if not self.has_log_link:
            return
        if self.low < 0 or (self.low == 0 and self.entry.lowest_is_positive):
            accepted = "be positive" if self.entry.lowest_is_positive else "not be negative"
            raise InvalidArgumentError(
                f"label_bounds = ({self.low:g}, {self.high:g}) must {accepted} for {self.objective!r}"
            )

    @property
    def entry(self) -> Objective:
        """Facts of the objective."""
        return OBJECTIVES[self.objective]

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers, not classes."""
        return self.entry.is_regression

    @property
    def has_log_link(self) -> bool:
        """Whether models predict exp(raw score)."""
        return self.entry.has_log_link

    @property
    def is_binary(self) -> bool:
        """Whether labels are two classes."""
        return not self.is_regression and self.n_outputs == 1

    @property
    def centre(self) -> float:
        """Raw score of ŷ = 0."""
        if self.has_log_link:
            return math.log(self.high)
        return (self.low + self.high) / 2 if self.is_regression else 0.0

    @property
    def scale(self) -> float:
        """Raw score units per unit of ŷ."""
        is_linear = self.is_regression and not self.has_log_link
        return (self.high - self.low) / 2 if is_linear else 1.0

    def targets(self, label: NDArray[np.float64], output: int) -> NDArray[np.float64]:
        """Labels in [-1, 1] for one output; for classes one-against-rest."""
        if not self.is_regression and self.n_outputs > 1:
            return np.where(label == output, 1.0, -1.0)
        middle = (self.low + self.high) / 2
        return np.clip((label - middle) / ((self.high - self.low) / 2), -1.0, 1.0)

    def check(self, label: NDArray[np.float64]) -> None:
        """Raise an InvalidArgumentError unless the labels fit the objective and the public bounds."""
        if self._are_times(label):
            check_times(label, self.low, self.high)
            return
        if self._fit(label).all():
            return
        if not self.is_regression and self.n_outputs > 1:
            raise InvalidArgumentError(
                f"label must be in 0, …, num_class - 1 = {self.n_outputs - 1} for {self.objective!r}"
            )
        if self.is_binary:
            raise InvalidArgumentError(
                f"label must be {self.low:g} or {self.high:g} for 'binary'; "
                "other values can be given as label_bounds"
            )
        if self.entry.has_targets:
            pairs = np.column_stack([self.low, self.high]).tolist()
            raise InvalidArgumentError(f"label must lie within label_bounds = {pairs}")
        raise InvalidArgumentError(f"label must lie within label_bounds = ({self.low:g}, {self.high:g})")

    def clipped(self, label: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Labels that fit, and which rows count; a function of each row alone.

        Targets of regression outside the public bounds become the nearer bound.  A row whose label is none of
        the classes, or is missing, does not count: its label here is the lowest.
        """
        if self._are_times(label):
            return clipped_times(label, self.low, self.high)
        if self.is_regression:
            label = np.clip(label, self.low, self.high)
        counts = self._fit(label)
        if self.entry.has_targets:
            return np.where(counts[:, None], label, self.low), counts
        return np.where(counts, label, 0.0 if self.n_outputs > 1 else self.low), counts

    def _are_times(self, label: NDArray[Any]) -> bool:
        """Whether labels are times to events; an InvalidArgumentError if the objective takes others."""
        are_times = label.dtype == TIMES
        shape = (self.n_outputs,) if self.entry.has_targets else ()
        if (are_times != self.entry.labels_are_times or label.shape[1:] != shape) and len(label):
            what = f"it takes num_class={self.n_outputs} columns" if shape else "it takes one number per row"
            what = FORMS if self.entry.labels_are_times else what
            raise InvalidArgumentError(f"label does not fit objective={self.objective!r}: {what}")
        return are_times

    def _fit(self, label: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each row's label fits."""
        if self.entry.has_targets:
            return np.asarray(np.all((label >= self.low) & (label <= self.high), axis=1))
        if self.n_outputs > 1:
            return np.isin(label, np.arange(self.n_outputs))
        if self.is_binary:
            return np.isin(label, (self.low, self.high))
        return (label >= self.low) & (label <= self.high)

    @property
    def metric_range(self) -> tuple[float, float]:
        """Smallest and largest label as LightGBM's metrics see them: targets, or numbers of classes."""
        return (self.low, self.high) if self.is_regression else (0.0, max(1.0, self.n_outputs - 1.0))

    @property
    def model_objective(self) -> str:
        """Objective line of the model file."""
        line = self.entry.model_line or "{0}"
        return line.format(self.objective, self.n_outputs, self.sigmoid)

    def metric_params(self) -> Mapping[str, Any]:
        """The same as parameters, for LightGBM's metrics."""
        name, *settings = self.model_objective.split()
        return {"objective": name, **dict(one.split(":") for one in settings), **self.of_objective}
