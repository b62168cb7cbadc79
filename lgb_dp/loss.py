"""Square loss on labels scaled to [-1, 1], as in the paper, for every objective.

Gradient ``g = ŷ - y``, hessian 1.  At the first tree ŷ = 0, so |g| is at most
``G_STAR = 1`` whatever the label.  Raw scores of the model relate to ŷ by
``raw = centre + scale · ŷ``: for classes ``raw = ŷ``, read through the sigmoid
of 2ŷ (or the softmax of ŷ), whose slope at 0 is that of (1 + ŷ) / 2; for
regression by the public label bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

G_STAR = 1.0
"""Largest |gradient| at the start of training, the paper's g*."""

GRADIENT_STEPS = 2**20
"""Integer steps of a gradient between 0 and G_STAR."""

WEIGHT_STEPS = 2**10
"""Integer steps of a row weight between 0 and its public bound; an unweighted row is one step of one."""


@dataclass(frozen=True)
class LabelScale:
    """How labels and raw scores relate to [-1, 1].

    Parameters
    ----------
    objective : str
        "regression", "binary", "multiclass" or "multiclassova".
    n_outputs : int
        Trees per iteration.
    low, high : float
        Public bounds of the label.
    sigmoid : float
        Slope by which "binary" and "multiclassova" models turn raw scores into probabilities.
    """

    objective: str
    n_outputs: int
    low: float
    high: float
    sigmoid: float = 2.0

    @property
    def centre(self) -> float:
        """Raw score of ŷ = 0."""
        return (self.low + self.high) / 2 if self.objective == "regression" else 0.0

    @property
    def scale(self) -> float:
        """Raw score units per unit of ŷ."""
        return (self.high - self.low) / 2 if self.objective == "regression" else 1.0

    def targets(self, label: NDArray[np.float64], output: int) -> NDArray[np.float64]:
        """Labels in [-1, 1] for one output; for classes one-against-rest."""
        if self.n_outputs > 1:
            return np.where(label == output, 1.0, -1.0)
        middle = (self.low + self.high) / 2
        return np.clip((label - middle) / ((self.high - self.low) / 2), -1.0, 1.0)

    def check(self, label: NDArray[np.float64]) -> None:
        """Raise a ValueError where labels are not what the objective and the public bounds say."""
        if self.n_outputs > 1:
            if not np.isin(label, np.arange(self.n_outputs)).all():
                raise ValueError(
                    f"label must be in 0, …, num_class - 1 = {self.n_outputs - 1} for {self.objective!r}"
                )
        elif self.objective == "binary":
            if not np.isin(label, (self.low, self.high)).all():
                raise ValueError(
                    f"label must be {self.low:g} or {self.high:g} for 'binary'; label_bounds sets others"
                )
        elif not ((label >= self.low) & (label <= self.high)).all():
            raise ValueError(f"label must lie within label_bounds = ({self.low:g}, {self.high:g})")

    @property
    def model_objective(self) -> str:
        """Objective line of the model file."""
        return {
            "regression": "regression",
            "binary": f"binary sigmoid:{self.sigmoid:g}",
            "multiclass": f"multiclass num_class:{self.n_outputs}",
            "multiclassova": f"multiclassova num_class:{self.n_outputs} sigmoid:{self.sigmoid:g}",
        }[self.objective]

    def metric_params(self) -> Mapping[str, Any]:
        """The same as parameters, for LightGBM's metrics."""
        sigmoid = {"sigmoid": self.sigmoid} if self.objective in ("binary", "multiclassova") else {}
        classes = {"num_class": self.n_outputs} if self.n_outputs > 1 else {}
        return {"objective": self.objective, **sigmoid, **classes}


def quantise_weights(
    weight: NDArray[np.float64] | None, bound: float | None, n_rows: int
) -> tuple[NDArray[np.int32], int]:
    """Row weights as integers, rounded down, and the integer of the largest possible weight.

    Parameters
    ----------
    weight : ndarray of float64, shape (n_rows,), or None
        In ``[0, bound]``; None gives every row the weight 1.
    bound : float or None
        Public bound.
    n_rows : int
    """
    if weight is None or bound is None:
        return np.ones(n_rows, dtype=np.int32), 1
    steps = np.nan_to_num(np.floor(weight * (WEIGHT_STEPS / bound)), nan=0.0)
    return steps.clip(0, WEIGHT_STEPS).astype(np.int32), WEIGHT_STEPS


def quantise_gradients(gradient: NDArray[np.float64], weight: NDArray[np.int32]) -> NDArray[np.int32]:
    """Weighted gradients in integer steps, rounded toward zero.

    Parameters
    ----------
    gradient : ndarray of float64
        In [-G_STAR, G_STAR]; what lies outside is clipped, NaN counts as 0.
    weight : ndarray of int32
        Quantised weights.

    Returns
    -------
    ndarray of int32
        Never larger than ``GRADIENT_STEPS * weight`` in absolute value.
    """
    limit = GRADIENT_STEPS * weight.astype(np.float64)
    steps = np.nan_to_num(np.clip(gradient / G_STAR * limit, -limit, limit), nan=0.0)
    return np.trunc(steps).astype(np.int32)
