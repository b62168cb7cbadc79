"""Gradients and hessians of XGBoost's objectives, in the float32 steps that XGBoost takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.exponentials import exponentials
from gbdt_parties.errors import InvalidDataError

Vector = NDArray[np.float32]
MIN_HESSIAN = np.float32(1e-16)
OBJECTIVES = ("binary:logistic", "reg:squarederror", "multi:softprob")


_LEAST_MAXIMUM = np.finfo(np.float32).tiny
"""XGBoost's search for the largest margin of a row starts here, in gradients; in predictions it does not."""


def sigmoid(margin: Vector) -> Vector:
    """Probability of a margin."""
    one = np.float32(1)
    return np.asarray(one / (exponentials(np.minimum(-margin, np.float32(88.7))) + one))


def softmax(margin: Vector, least_maximum: float = -np.inf) -> Vector:
    """Probabilities of the margins of all classes, shape (n_rows, n_classes).

    The largest margin of a row, or `least_maximum` if that is larger, is subtracted from all.
    """
    largest = np.maximum(margin.max(axis=1, keepdims=True), np.float32(least_maximum))
    e = exponentials(margin - largest)
    # XGBoost adds up in double, class by class, and divides by the float32 of that.
    total = np.cumsum(e.astype(np.float64), axis=1)[:, -1:]
    return np.asarray(e / total.astype(np.float32))


@dataclass(frozen=True)
class Objective:
    """One of XGBoost's objectives.

    Parameters
    ----------
    name : {"binary:logistic", "reg:squarederror", "multi:softprob"}
    n_classes : int
        Number of margins per row: that of the classes for softprob, else 1.
    scale_pos_weight : float
        Factor on rows of label 1; logistic only.
    """

    name: str
    n_classes: int = 1
    scale_pos_weight: float = 1.0

    @property
    def has_floor(self) -> bool:
        """Whether XGBoost keeps hessians from being smaller than `MIN_HESSIAN`."""
        return self.name != "reg:squarederror"

    def check_labels(self, y: NDArray[np.float32]) -> None:
        """Raise `InvalidDataError` for labels that the objective does not accept."""
        if not np.isfinite(y).all():
            raise InvalidDataError("y has missing or infinite labels")
        if self.name == "binary:logistic" and not ((y >= 0) & (y <= 1)).all():
            raise InvalidDataError("y must be in [0, 1] for binary:logistic")
        if self.name == "multi:softprob" and not (np.isin(y, np.arange(self.n_classes))).all():
            raise InvalidDataError(f"y must be classes 0 to {self.n_classes - 1} for multi:softprob")

    def gradients(self, margin: Vector, y: Vector, weight: Vector) -> tuple[Vector, Vector]:
        """First and second derivatives of the loss.

        Parameters
        ----------
        margin : ndarray of float32, shape (n_rows, n_classes)
        y, weight : ndarray of float32, shape (n_rows,)

        Returns
        -------
        g, h : ndarray of float32, shape (n_rows, n_classes)
        """
        if self.name == "reg:squarederror":
            w = weight[:, None]
            return (margin - y[:, None]) * w, np.ones_like(margin) * w
        if self.name == "binary:logistic":
            p, w = sigmoid(margin), weight[:, None]
            if self.scale_pos_weight != 1:
                w = np.where(y[:, None] == 1, w * np.float32(self.scale_pos_weight), w)
            h = np.maximum(p * (np.float32(1) - p), MIN_HESSIAN)
            return (p - y[:, None]) * w, h * w
        p, w = softmax(margin, float(_LEAST_MAXIMUM)), weight[:, None]
        is_class = y[:, None].astype(np.int64) == np.arange(self.n_classes)
        g = np.where(is_class, p - np.float32(1), p) * w
        h = np.maximum(np.float32(2) * p * (np.float32(1) - p) * w, MIN_HESSIAN)
        return g, h

    def to_margin(self, base_score: Vector) -> Vector:
        """Margins of XGBoost's `base_score`, one per class."""
        if self.name != "binary:logistic":
            return base_score
        one, least = np.float32(1), np.float32(1e-6)
        # XGBoost keeps this far from probabilities 0 and 1, which labels of one class would give.
        p = np.clip(base_score, least, one - least)
        return np.asarray(-np.log((one / p - one).astype(np.float64)).astype(np.float32))

    def to_prediction(self, margin: Vector) -> Vector:
        """What XGBoost predicts for margins: a mean, P(label 1), or a probability for each class."""
        if self.name == "multi:softprob":
            return softmax(margin)
        return sigmoid(margin)[:, 0] if self.name == "binary:logistic" else margin[:, 0]
