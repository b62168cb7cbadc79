"""The objectives of XGBoost: gradients, hessians, and what margins mean.

XGBoost itself computes all predictions, and the gradients of all but the most common objectives
(`gbdt_hosts.xgboost.gradients`).  Squared error, logistic loss and softmax are written out here in the
float32 steps that XGBoost takes: the same bits a hundred times faster, since XGBoost has no call for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.gradients import XGBoostGradients
from gbdt_hosts.xgboost.margins import margins_of, predictions_of, words_of
from gbdt_hosts.xgboost.targets import Targets
from gbdt_hosts.xgboost.versions import leaves_are_quantiles, pairs_follow_seed
from gbdt_kernels.exponentials import exponentials
from gbdt_parties.errors import InvalidDataError

Vector = NDArray[np.float32]
MIN_HESSIAN = np.float32(1e-16)

LOGISTIC = ("binary:logistic", "binary:logitraw", "reg:logistic")
SOFTMAX = ("multi:softprob", "multi:softmax")
BINARY = (*LOGISTIC[:2], "binary:hinge")
CLASS_OBJECTIVES = (*BINARY, *SOFTMAX)
"""Objectives for labels that are classes, numbered from 0."""

HORIZONTAL = ("binary:logistic", "reg:squarederror", "multi:softprob")
"""Objectives of horizontal training."""

PROBABILITIES = ("binary:logistic", "multi:softprob")
"""Objectives whose predictions are probabilities."""

_RANKING = ("lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization")
RANKING: Mapping[str, tuple[str, ...]] = {
    "rank:pairwise": (*_RANKING, "lambdarank_score_normalization"),
    "rank:ndcg": (*_RANKING, "lambdarank_score_normalization", "ndcg_exp_gain"),
    "rank:map": (*_RANKING, "lambdarank_score_normalization"),
}
ADAPTIVE = ("reg:absoluteerror", "reg:quantileerror")
"""Objectives whose best constant is a quantile; see `leaves_are_quantiles` for their leaves."""

OBJECTIVES: Mapping[str, tuple[str, ...]] = {
    "reg:squarederror": (),
    "reg:squaredlogerror": (),
    "reg:pseudohubererror": ("huber_slope",),
    "reg:absoluteerror": (),
    "reg:quantileerror": ("quantile_alpha",),
    "reg:gamma": (),
    "reg:tweedie": ("tweedie_variance_power",),
    "reg:logistic": (),
    "count:poisson": (),
    "binary:logistic": (),
    "binary:logitraw": (),
    "binary:hinge": (),
    "multi:softprob": (),
    "multi:softmax": (),
    "survival:cox": (),
    "survival:aft": ("aft_loss_distribution", "aft_loss_distribution_scale"),
    **RANKING,
}
"""Every objective that vertical training supports, and its own parameters."""

SHARED_PARAMETERS: Mapping[str, tuple[str, ...]] = {"count:poisson": ("max_delta_step",)}
"""Parameters of trees that an objective reads, too."""

ROWS_ALONE = tuple(name for name in OBJECTIVES if name not in (*RANKING, *ADAPTIVE, "survival:cox"))
"""Objectives by which a row's gradient, and a leaf's value by sums of these, depend on no other row."""

REGRESSIONS = tuple(name for name in OBJECTIVES if name not in (*CLASS_OBJECTIVES, *RANKING, "survival:aft"))
"""Objectives of a regressor: labels are numbers, one per row."""

Gradients = Callable[[Vector, int], tuple[Vector, Vector]]
"""Gradients and hessians, each of shape (n_rows, n_classes), for margins and what draws depend on."""

_LEAST_MAXIMUM = np.finfo(np.float32).tiny
"""XGBoost's search for the largest margin of a row starts here, in gradients."""


def sigmoid(margin: Vector) -> Vector:
    """Probability of a margin."""
    one = np.float32(1)
    return np.asarray(one / (exponentials(np.minimum(-margin, np.float32(88.7))) + one))


def softmax(margin: Vector, least_maximum: float = -np.inf) -> Vector:
    """Probabilities, (n_rows, n_classes), less the row's largest margin or `least_maximum`."""
    largest = np.maximum(margin.max(axis=1, keepdims=True), np.float32(least_maximum))
    e = exponentials(margin - largest)
    # XGBoost adds up in double, class by class, and divides by the float32 of that.
    total = np.cumsum(e.astype(np.float64), axis=1)[:, -1:]
    return np.asarray(e / total.astype(np.float32))


@dataclass(frozen=True)
class XGBoostObjective:
    """One of XGBoost's objectives, a name of `OBJECTIVES`, with its own parameters.

    `n_classes` is the number of margins per row: that of the classes for softmax and softprob, else 1.
    Logistic loss alone has `scale_pos_weight`, a factor on rows of label 1.
    """

    name: str
    n_classes: int = 1
    scale_pos_weight: float = 1.0
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def has_floor(self) -> bool:
        """Whether hessians may be as small as `MIN_HESSIAN`, the floor that XGBoost sets for most."""
        return self.name not in ("reg:squarederror", *ADAPTIVE)

    @property
    def is_closed_form(self) -> bool:
        """Whether `gradients` has the formulas of this objective."""
        return self.name == "reg:squarederror" or self.name in LOGISTIC or self.name in SOFTMAX

    @property
    def alpha(self) -> float | None:
        """Which quantile of its rows' residuals XGBoost makes a leaf's value; None if it is no quantile."""
        if self.name not in ADAPTIVE or not leaves_are_quantiles():
            return None
        return float(np.float32(np.ravel(self.parameters.get("quantile_alpha", 0.5))[0]))

    @property
    def n_draws(self) -> int:
        """Random numbers of the stream of XGBoost's `seed` that the gradients of a round take."""
        return int(pairs_follow_seed() and self.parameters.get("lambdarank_pair_method") == "mean")

    @property
    def of_xgboost(self) -> dict[str, Any]:
        """XGBoost's parameters that make it this objective."""
        params: dict[str, Any] = {"objective": self.name, **self.parameters}
        if self.n_classes > 1:
            params["num_class"] = self.n_classes
        if self.scale_pos_weight != 1:
            params["scale_pos_weight"] = self.scale_pos_weight
        return params

    def to_dict(self) -> dict[str, Any]:
        """For JSON; the arguments to make an equal one."""
        content = {key: value for key, value in self.__dict__.items() if key != "parameters"}
        return {**content, "parameters": self.parameters} if self.parameters else content

    def check_labels(self, y: NDArray[np.float32], argument: str = "y") -> None:
        """`InvalidDataError` for labels that the objective refuses before XGBoost's own checks."""
        if not np.isfinite(y).all():
            raise InvalidDataError(f"{argument} has missing or infinite labels")
        if self.name in LOGISTIC and not ((y >= 0) & (y <= 1)).all():
            raise InvalidDataError(f"{argument} must be in [0, 1] for {self.name}; write classes as 0 and 1")
        if self.name == "binary:hinge" and not ((y == 0) | (y == 1)).all():
            raise InvalidDataError(f"{argument} must be 0 or 1 for {self.name}")
        if self.name in SOFTMAX and not (np.isin(y, np.arange(self.n_classes))).all():
            raise InvalidDataError(f"{argument} must be classes 0 to {self.n_classes - 1} for {self.name}")

    def check_range(self, y: NDArray[np.float32], argument: str = "y") -> None:
        """Let XGBoost check labels: raises `InvalidDataError` with its words for those that it refuses.

        Of every objective of `ROWS_ALONE` but ``survival:aft`` the accepted labels are an interval.
        """
        self.check_labels(y, argument)
        ends = Targets(np.array([y.min(), y.max()], dtype=np.float32))
        try:
            self.gradients_of(ends)(np.zeros((2, self.n_classes), dtype=np.float32), 0)
        except ValueError as error:
            raise InvalidDataError(f"{argument} for {self.name}: {words_of(error)}") from None

    def gradients_of(self, targets: Targets, seed: int = 0) -> Gradients:
        """The function that gives the gradients of certain rows.

        It takes margins, shape (n_rows, n_classes), and the number on which draws depend: how many random
        numbers of the stream were taken before if the objective takes any (`n_draws`), else the round's.  The
        seed is that of this stream, XGBoost's `seed`.  It raises ValueError, with XGBoost's words, for labels
        that XGBoost refuses.
        """
        if not self.is_closed_form:
            return XGBoostGradients(self.of_xgboost, targets, seed if self.n_draws else None)
        weight = targets.weight
        if weight is None:
            weight = np.ones(targets.n_rows, dtype=np.float32)
        return lambda margin, _: self.gradients(margin, targets.label, weight)

    def gradients(self, margin: Vector, y: Vector, weight: Vector) -> tuple[Vector, Vector]:
        """First and second derivatives in closed form, (n_rows, n_classes); labels are (n_rows,)."""
        if self.name == "reg:squarederror":
            w = weight[:, None]
            return (margin - y[:, None]) * w, np.ones_like(margin) * w
        if self.name in LOGISTIC:
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
        if self.n_classes > 1:
            return base_score
        if self.name not in ("binary:logistic", "reg:logistic"):
            return margins_of(self.of_xgboost, base_score)
        one, least = np.float32(1), np.float32(1e-6)
        # As new XGBoost keeps from probabilities 0 and 1, which labels of one class would give; 2.0 refuses.
        p = np.clip(base_score, least, one - least)
        return np.asarray(-np.log((one / p - one).astype(np.float64)).astype(np.float32))

    def to_prediction(self, margin: Vector) -> Vector:
        """Predictions of XGBoost for margins: a mean, P(label 1), a class, a probability for each class."""
        return predictions_of(self.of_xgboost, margin)
