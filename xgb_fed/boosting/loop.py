"""The loop over boosting rounds, with metrics, callbacks, early stopping and a progress bar.

Vertical and horizontal training differ in how a round is grown; everything around it is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm
from xgboost.callback import TrainingCallback

from gbdt_hosts.xgboost.evaluation import Callbacks, CustomMetric, EvaluationSet, MetricBooster
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError


@dataclass(frozen=True)
class LoopOptions:
    """The arguments of the training functions that concern the loop, checked.

    There are evaluation sets if `has_evals`; early stopping needs one, and looks at the last metric of the
    last set.  `custom_metric` is a user's own, computed beside XGBoost's.

    Raises `InvalidArgumentError` if `num_boost_round` is not an integer of at least 1, or early stopping has
    no evaluation set, and `UnsupportedParameterError` for ``EarlyStopping(save_best=True)``.
    """

    num_boost_round: int
    early_stopping_rounds: int | None = None
    verbose_eval: bool | int = False
    callbacks: Sequence[TrainingCallback] = ()
    has_evals: bool = False
    custom_metric: CustomMetric | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.num_boost_round, (int, np.integer)) and self.num_boost_round >= 1):
            raise InvalidArgumentError(
                f"num_boost_round={self.num_boost_round!r} must be an integer of at least 1"
            )
        if self.early_stopping_rounds is not None and not self.has_evals:
            raise InvalidArgumentError("early_stopping_rounds needs an evaluation set")
        if any(getattr(callback, "save_best", False) for callback in self.callbacks):
            raise UnsupportedParameterError(
                "EarlyStopping(save_best=True) is not supported; use iteration_range"
            )


@dataclass(frozen=True)
class LoopResult:
    """Metrics by set, metric and round; best round and metric, None without early stopping."""

    evals_result: dict[str, Any]
    best_iteration: int | None = None
    best_score: float | None = None


def boost(
    options: LoopOptions,
    params: Mapping[str, Any],
    sets: Sequence[EvaluationSet],
    margins: Callable[[], Sequence[NDArray[np.float32]]],
    grow: Callable[[int], None],
    *,
    description: str,
    known_metrics: dict[int, str] | None = None,
    set_learning_rate: Callable[[Any], None] | None = None,
    n_before: int = 0,
    of_margins: bool = False,
) -> LoopResult:
    """Grow rounds until there are enough of them or a callback asks to stop.

    `params` are XGBoost's objective, number of classes and metrics.  `margins` returns the present margins of
    every evaluation set; a custom metric is given these if `of_margins`, else predictions.  `grow` grows the
    round of a number; a model that is continued has `n_before` rounds already.

    The loop adds XGBoost's lines of metrics by round to `known_metrics`, and does not compute those again
    that it holds.  `set_learning_rate` takes the learning rates that callbacks set; without it, a callback
    that sets one is refused.
    """
    n_grown = 0
    metrics = MetricBooster(
        params,
        sets,
        margins,
        lambda: n_before + n_grown,
        set_learning_rate,
        options.custom_metric,
        of_margins,
    )
    if known_metrics is not None:
        metrics.lines = known_metrics
    callbacks = Callbacks(
        metrics, sets, options.callbacks, options.early_stopping_rounds, options.verbose_eval
    )
    callbacks.before_training()
    for number in tqdm(range(options.num_boost_round), desc=description, disable=None, leave=False):
        if callbacks.before_round(number):
            break
        grow(number)
        n_grown = number + 1
        if callbacks.after_round(number):
            break
    callbacks.after_training()
    return LoopResult(callbacks.history, *(callbacks.best or (None, None)))


def check_patience(patience: float) -> None:
    """Raise `InvalidArgumentError` unless the argument is a finite number of seconds of at least 0."""
    if not (isinstance(patience, Real) and math.isfinite(patience) and patience >= 0):
        raise InvalidArgumentError(f"patience={patience!r} must be a finite number of seconds of at least 0")
