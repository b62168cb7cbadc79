"""Evaluation sets and metrics of an estimator's fit, in the forms that LightGBM's estimators take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm
from numpy.typing import NDArray

from lgb_dp.errors import InvalidArgumentError


@dataclass(frozen=True)
class FitEvaluation:
    """Evaluation sets and metrics of a fit.

    `eval_set` is a sequence of (X, y), or one pair; `eval_X` and `eval_y` are the same, as LightGBM 4.7 names
    it. Names are ``valid_0`` and so on by default; there is one weight and initial score per set. A callable
    in `metric` takes labels and predictions, and weights if it has a third argument. `is_public` says whether
    the rows are.
    """

    eval_set: Any = None
    eval_X: Any = None
    eval_y: Any = None
    names: Sequence[str] | None = None
    sample_weight: Sequence[Any] | None = None
    init_score: Sequence[Any] | None = None
    metric: Any = None
    is_public: bool = False

    @classmethod
    def taken_from(cls, given: dict[str, Any]) -> FitEvaluation:
        """Take the arguments about evaluation out of those of `fit`."""
        sets = {name: given.pop(name, None) for name in ("eval_set", "eval_X", "eval_y")}
        names = ("names", "sample_weight", "init_score", "metric")
        others = {name: given.pop(f"eval_{name}", None) for name in names}
        return cls(**sets, **others, is_public=given.pop("public_eval_set"))

    def sets(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Rows, labels, weights and initial scores of every evaluation set.

        Raises InvalidArgumentError if sets are given in two ways, are not pairs, or one argument is shorter
        than another.
        """
        pairs = self._pairs()
        weights = self._of_each("eval_sample_weight", self.sample_weight, len(pairs))
        scores = self._of_each("eval_init_score", self.init_score, len(pairs))
        self._of_each("eval_names", self.names, len(pairs))
        for (X, y), weight, score in zip(pairs, weights, scores, strict=True):
            yield X, y, weight, score

    def _pairs(self) -> list[tuple[Any, Any]]:
        if (self.eval_X is None) != (self.eval_y is None):
            raise InvalidArgumentError("eval_X and eval_y must be given together")
        if self.eval_X is None:
            pairs = [self.eval_set] if isinstance(self.eval_set, tuple) else list(self.eval_set or ())
            if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in pairs):
                raise InvalidArgumentError("eval_set must be a list of pairs (X, y)")
            return pairs
        if self.eval_set is not None:
            raise InvalidArgumentError("eval_set must be None where eval_X and eval_y are given")
        if not isinstance(self.eval_X, tuple):
            return [(self.eval_X, self.eval_y)]
        if not isinstance(self.eval_y, tuple) or len(self.eval_y) != len(self.eval_X):
            raise InvalidArgumentError("eval_y must be a tuple as long as eval_X")
        return list(zip(self.eval_X, self.eval_y, strict=True))

    @staticmethod
    def _of_each(name: str, values: Sequence[Any] | None, n_sets: int) -> Sequence[Any]:
        if values is None:
            return [None] * n_sets
        if len(values) != n_sets:
            raise InvalidArgumentError(f"{name} has {len(values)} entries, for {n_sets} evaluation sets")
        return values

    def metric_names(self) -> Any:
        """LightGBM's names of metrics, None if none is named."""
        if self.metric is None or isinstance(self.metric, str):
            return self.metric
        listed = [self.metric] if callable(self.metric) else list(self.metric)
        return [metric for metric in listed if not callable(metric)] or None

    def feval(self) -> list[Callable[..., Any]]:
        """Custom metrics as `lightgbm.train` takes them."""
        listed = self.metric if isinstance(self.metric, (list, tuple)) else [self.metric]
        return [_as_feval(metric) for metric in listed if callable(metric)]


def _as_feval(metric: Callable[..., Any]) -> Callable[[NDArray[Any], lightgbm.Dataset], Any]:
    n_arguments = len(inspect.signature(metric).parameters)
    if n_arguments not in (2, 3):
        raise InvalidArgumentError(
            f"a custom eval_metric must take labels, predictions and perhaps weights, got a function of "
            f"{n_arguments} arguments"
        )

    def feval(predictions: NDArray[Any], data: lightgbm.Dataset) -> Any:
        arguments = (data.get_label(), predictions, data.get_weight())
        return metric(*arguments[:n_arguments])

    return feval
