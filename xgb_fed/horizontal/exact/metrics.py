"""Metrics that are means over rows, so that parties' held-out rows need only be added up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.evaluation import EvaluationSet, MetricBooster
from gbdt_hosts.xgboost.targets import Targets
from xgb_fed.boosting.objectives import Vector, XGBoostObjective
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import UnsupportedParameterError

_EPSILON = 1e-16
"""XGBoost's, beside probabilities 0 and 1."""

Losses = Callable[[Vector, Vector], NDArray[np.float64]]


def _logloss(p: Vector, y: Vector) -> NDArray[np.float64]:
    own = np.where(y == 1, p, 1 - p).astype(np.float64)
    return np.asarray(-np.log(np.maximum(own, _EPSILON)))


def _error(p: Vector, y: Vector) -> NDArray[np.float64]:
    return np.asarray((p > 0.5) != (y == 1), dtype=np.float64)


def _mlogloss(p: Vector, y: Vector) -> NDArray[np.float64]:
    own = np.take_along_axis(p, y.astype(np.int64)[:, None], axis=1)[:, 0].astype(np.float64)
    return np.asarray(-np.log(np.maximum(own, _EPSILON)))


def _merror(p: Vector, y: Vector) -> NDArray[np.float64]:
    return np.asarray(p.argmax(axis=1) != y, dtype=np.float64)


def _square(p: Vector, y: Vector) -> NDArray[np.float64]:
    return np.asarray(np.square((p - y).astype(np.float64)))


def _absolute(p: Vector, y: Vector) -> NDArray[np.float64]:
    return np.asarray(np.abs((p - y).astype(np.float64)))


def _poisson_nloglik(p: Vector, y: Vector) -> NDArray[np.float64]:
    mean = np.maximum(p.astype(np.float64), _EPSILON)
    constant = np.array([math.lgamma(count + 1) for count in y.tolist()])
    return np.asarray(constant + mean - np.log(mean) * y)


_OF_CLASSES: dict[str, Losses | None] = {"mlogloss": _mlogloss, "merror": _merror}
_OF_MEANS: dict[str, Losses | None] = {"rmse": _square, "mae": _absolute}

TWEEDIE = "tweedie-nloglik"

METRICS: dict[str, dict[str, Losses | None]] = {
    "binary:logistic": {"logloss": _logloss, "error": _error},
    "multi:softprob": _OF_CLASSES,
    "multi:softmax": _OF_CLASSES,
    "reg:squarederror": _OF_MEANS,
    "count:poisson": {"poisson-nloglik": _poisson_nloglik, **_OF_MEANS},
    "reg:squaredlogerror": {"rmsle": None, **_OF_MEANS},
    "reg:pseudohubererror": {"mphe": None, **_OF_MEANS},
    "reg:gamma": {"gamma-nloglik": None, "gamma-deviance": None, "mae": _absolute},
    "reg:tweedie": {TWEEDIE: None, **_OF_MEANS},
    "reg:logistic": {**_OF_MEANS, "logloss": None},
    "binary:logitraw": {"logloss": None, "error": None},
    "binary:hinge": {"error": None},
    "survival:aft": {"aft-nloglik": None, "interval-regression-accuracy": None},
}
"""Loss of every row by objective, of those that exact training supports, and metric; None where XGBoost
computes the mean of a party's rows.  The objective's own metric is first."""

_ROOTS = ("rmse", "rmsle")
"""Metrics that are roots of means."""


def metric_names(objective: str, eval_metric: Any) -> list[str]:
    """The metrics that are asked for, or the objective's own; each once, as XGBoost takes them.

    An UnsupportedParameterError names the metric that is not a mean over rows, or not of the objective.
    """
    known = METRICS[objective]
    if eval_metric is None:
        return [next(iter(known))]
    names: Sequence[str] = [eval_metric] if isinstance(eval_metric, str) else list(eval_metric)
    for name in names:
        if name not in known:
            raise UnsupportedParameterError(
                f"eval_metric={name!r} is not supported in exact training for objective={objective!r}; "
                f"{sorted(known)} are"
            )
    return list(dict.fromkeys(names))


def metrics_of(settings: Settings) -> list[str]:
    """The metrics of a run (`metric_names`), with the variance power where XGBoost's name has it."""
    power = np.float32(settings.objective_parameters.get("tweedie_variance_power", 1.5))
    names = metric_names(settings.objective, settings.eval_metric)
    return [f"{name}@{power:g}" if name == TWEEDIE else name for name in names]


def metric_of(name: str, mean: float) -> float:
    """A metric of the mean loss."""
    return math.sqrt(mean) if name in _ROOTS else mean


def sums_of_losses(
    names: Sequence[str], objective: XGBoostObjective, targets: Targets, margin: Vector, prediction: Vector
) -> NDArray[np.float64]:
    """The sum of rows' weights, and of their losses times weights for each metric, shape (1 + n_metrics,)."""
    weight, y = np.asarray(targets.weight, dtype=np.float64), targets.label
    losses = {name: METRICS[objective.name].get(name) for name in names}
    rows = [np.ones(len(y)), *(np.zeros(len(y)) if f is None else f(prediction, y) for f in losses.values())]
    sums = (np.stack(rows, axis=1) * weight[:, None]).sum(axis=0)
    of_xgboost = [k for k, f in enumerate(losses.values(), start=1) if f is None]
    if of_xgboost and len(y):
        sets = [EvaluationSet("own", targets)]
        params = {**objective.of_xgboost, "eval_metric": [names[k - 1] for k in of_xgboost]}
        line = MetricBooster(params, sets, lambda: [margin], lambda: 0).evaluate(0)
        for k, part in zip(of_xgboost, line.split("\t")[1:], strict=True):
            value = float(part.rpartition(":")[2])
            sums[k] = sums[0] * (value**2 if names[k - 1] in _ROOTS else value)
    return np.asarray(sums)


class History:
    """Metrics of all rounds; early stopping by the last metric, a loss, of the last set."""

    def __init__(self, names: list[str], n_sets: int, early_stopping_rounds: int | None) -> None:
        self.names, self.n_sets = names, n_sets
        self._patience = early_stopping_rounds if n_sets else None
        self.results: dict[str, dict[str, list[float]]] = {
            f"validation_{k}": {name: [] for name in self.names} for k in range(n_sets)
        }

    def add(self, losses: NDArray[np.float64]) -> None:
        """Take up a round's mean losses."""
        for of_set, row in zip(self.results.values(), losses.tolist(), strict=True):
            for name, mean in zip(self.names, row, strict=True):
                of_set[name].append(metric_of(name, mean))

    @property
    def _deciding(self) -> list[float]:
        return self.results[f"validation_{self.n_sets - 1}"][self.names[-1]]

    @property
    def best(self) -> tuple[int, float]:
        """Round and metric."""
        scores = self._deciding
        return int(np.argmin(scores)), min(scores)

    @property
    def _since_best(self) -> int:
        """Rounds since the best one; -1 before the first."""
        return len(self._deciding) - 1 - self.best[0] if self._deciding else -1

    @property
    def is_over(self) -> bool:
        """Whether the metric has not improved for long enough."""
        return self._patience is not None and self._since_best >= self._patience

    @property
    def may_end_next(self) -> bool:
        """Whether training is over if the next round does not improve the metric."""
        return self._patience is not None and self._since_best + 1 >= self._patience
