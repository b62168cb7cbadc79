"""XGBoost's own estimate of the base score, its metrics and its callbacks, without its trees."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_hosts.xgboost.targets import Targets


def intercept(params: Mapping[str, Any], targets: Targets, is_custom: bool = False) -> NDArray[np.float32]:
    """The base score that the installed XGBoost estimates from labels: one number, or one per class.

    It is read from a booster of one stump on a constant column. A user's own objective may take the place of
    that in `params`: XGBoost then estimates nothing. `ValueError` has XGBoost's words, if it refuses the
    labels.
    """
    data = targets.matrix()
    booster = xgboost.Booster({**params, "max_depth": 1, "verbosity": 0}, cache=[data])
    booster.update(data, 0, _no_gradients if is_custom else None)
    text = json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"]
    values = json.loads(text) if text.startswith("[") else [float(text)]
    return np.array(values, dtype=np.float32)


def _no_gradients(margin: NDArray[Any], _: xgboost.DMatrix) -> tuple[NDArray[Any], NDArray[Any]]:
    """In place of a user's objective, which may count its calls."""
    return np.zeros_like(margin), np.ones_like(margin)


CustomMetric = Callable[[NDArray[Any], xgboost.DMatrix], tuple[str, float]]
"""XGBoost's `custom_metric`: predictions and data set to the metric's name and value."""


class EvaluationSet:
    """Rows that XGBoost's own metrics are computed on, by their margins."""

    def __init__(self, name: str, targets: Targets) -> None:
        self.name = name
        self.data = targets.matrix()

    def with_margin(self, margin: NDArray[np.float32]) -> xgboost.DMatrix:
        """Return the set with these margins, of shape (n_rows, n_classes)."""
        self.data.set_base_margin(np.ascontiguousarray(margin).reshape(-1))
        return self.data


class MetricBooster(xgboost.Booster):
    """A booster without trees that evaluates given margins; XGBoost's callbacks take it for the model.

    `params` are objective, classes and metrics. `margins` returns the present margins of every set,
    `n_rounds` the number of rounds so far. `set_learning_rate` receives a learning rate that a callback sets
    for the rounds to come; without it, callbacks cannot. A user's own metric is computed beside those of
    `params`, of predictions, or with `of_margins` of margins.

    `lines` has lines of metrics by round; lines that are there already are not computed again.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        sets: Sequence[EvaluationSet],
        margins: Callable[[], Sequence[NDArray[np.float32]]],
        n_rounds: Callable[[], int],
        set_learning_rate: Callable[[Any], None] | None = None,
        custom_metric: CustomMetric | None = None,
        of_margins: bool = False,
    ) -> None:
        # XGBoost learns the number of columns from a data set in its cache.
        known = [own.data for own in sets[:1]]
        super().__init__({**params, "base_score": 0.5, "verbosity": 0}, cache=known)
        self._sets, self._margins, self._n_rounds = sets, margins, n_rounds
        self._set_learning_rate = set_learning_rate
        self._custom_metric, self._of_margins = custom_metric, of_margins
        self.lines: dict[int, str] = {}

    def set_param(self, params: Any, value: Any = None) -> None:
        """Pass on a learning rate that a callback sets, and refuse all that would have no effect.

        `NotImplementedError` for any other parameter, once the booster is made.
        """
        if not hasattr(self, "_n_rounds"):
            super().set_param(params, value)
            return
        given = [(params, value)] if isinstance(params, str) else params
        for name, one in given.items() if isinstance(given, Mapping) else given:
            if self._set_learning_rate is None or name not in ("learning_rate", "eta"):
                raise NotImplementedError(
                    f"a callback cannot change {name} of this federated training run"
                    + (", only its learning rate" if self._set_learning_rate is not None else "")
                )
            self._set_learning_rate(one)

    def save_model(self, fname: Any) -> None:
        """Refuse, by `NotImplementedError`: there are no trees to save."""
        raise NotImplementedError("a callback cannot save a federated model")

    def evaluate(self, round_number: int) -> str:
        """XGBoost's line of metrics: round number, then ``set-metric:value`` after tabs."""
        if not self._sets:
            return f"[{round_number}]"
        if round_number not in self.lines:
            data = [
                (own.with_margin(margin), own.name)
                for own, margin in zip(self._sets, self._margins(), strict=True)
            ]
            line = super().eval_set(data, round_number, self._custom_metric, self._of_margins)
            self.lines[round_number] = str(line)
        return self.lines[round_number]

    def eval_set(self, evals: Any, iteration: int = 0, feval: Any = None, output_margin: bool = True) -> str:
        """Return the same line; XGBoost's callbacks call it with the sets that they name."""
        return self.evaluate(iteration)

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds of the federated training run."""
        return self._n_rounds()


class Callbacks:
    """XGBoost's callbacks around a foreign loop; metrics are printed after every `verbose` rounds."""

    def __init__(
        self,
        model: MetricBooster,
        sets: Sequence[EvaluationSet],
        callbacks: Sequence[xgboost.callback.TrainingCallback],
        early_stopping_rounds: int | None,
        verbose: bool | int,
    ) -> None:
        own = list(callbacks)
        if verbose and sets:
            own.append(xgboost.callback.EvaluationMonitor(period=1 if verbose is True else int(verbose)))
        if early_stopping_rounds is not None:
            own.append(xgboost.callback.EarlyStopping(rounds=early_stopping_rounds))
        self._container = xgboost.callback.CallbackContainer(own, output_margin=True)
        # Up to 3.0 it holds a set, so that early stopping may keep the last round from callbacks behind it.
        self._container.callbacks = list(dict.fromkeys(own))
        self._sets, self.model = sets, model
        self._evals = [(one.data, one.name) for one in sets]
        # XGBoost does not pass it on; callbacks do not see the training rows.
        self._no_rows = xgboost.DMatrix(np.zeros((1, 1), dtype=np.float32))

    @property
    def history(self) -> dict[str, Any]:
        """Metrics by set, as XGBoost's ``evals_result``."""
        return dict(self._container.history)

    def before_training(self) -> None:
        """Before the first round."""
        self._container.before_training(self.model)

    def before_round(self, number: int) -> bool:
        """Before a round; True means stop."""
        return bool(self._container.before_iteration(self.model, number, self._no_rows, self._evals))

    def after_round(self, number: int) -> bool:
        """After a round; True means stop."""
        return bool(self._container.after_iteration(self.model, number, self._no_rows, self._evals))

    def after_training(self) -> None:
        """After the last round."""
        self._container.after_training(self.model)

    @property
    def best(self) -> tuple[int, float] | None:
        """Best round and its score, if early stopping watched."""
        number, score = self.model.attr("best_iteration"), self.model.attr("best_score")
        return None if number is None or score is None else (int(number), float(score))
