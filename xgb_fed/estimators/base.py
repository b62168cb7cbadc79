"""The base of the scikit-learn estimators: what vertical and horizontal ones have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from xgboost.callback import TrainingCallback

from gbdt_hosts.scikit_learn import KeywordParameters
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.params import TREE_PARAMETERS
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError

_HANDED_ON = (*TREE_PARAMETERS, "base_score", "scale_pos_weight", "eval_metric", "random_state")
"""Parameters of every estimator that are handed on to XGBoost's settings as they are."""


class TrainedModel(Protocol):
    """Protocol of the trained models that the base class needs."""

    traffic: Traffic
    best_iteration: int | None
    best_score: float | None
    evals_result: dict[str, Any]


class FederatedXGBModel(KeywordParameters, BaseEstimator):
    """Base class of all estimators.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of boosting rounds.
    max_depth : int, optional
        Maximum depth of a tree, from 1 to 30; in vertical training, 0 means no maximum.  XGBoost's default
        is 6.
    learning_rate : float, optional
        Factor of every leaf value.  XGBoost's default is 0.3.
    max_bin : int, optional
        Maximum number of bins per column, from 2 to 65,535.  XGBoost's default is 256.
    reg_lambda, reg_alpha : float, optional
        L2 and L1 penalty of leaf values.  XGBoost's defaults are 1 and 0.
    gamma : float, optional
        Minimum loss change of a split.  XGBoost's default is 0.
    min_child_weight : float, optional
        Minimum sum of hessians in a child.  XGBoost's default is 1.
    max_delta_step : float, optional
        Maximum absolute leaf value before the learning rate.  XGBoost's default, 0, means no maximum.
    subsample : float, optional
        Fraction of the rows that a tree is grown on.  XGBoost's default is 1.
    colsample_bytree : float, optional
        Fraction of the columns that a tree is grown on.  XGBoost's default is 1.
    base_score : float, optional
        Prediction before the first tree.  Estimated from the labels by default.
    scale_pos_weight : float, optional
        Factor of the weights of rows of the second of two classes.  XGBoost's default is 1.
    early_stopping_rounds : int, optional
        Stop when the last metric of the last evaluation set has not improved for this many rounds.
    eval_metric : str or list of str, optional
        XGBoost's names of metrics.  The objective's own metric by default.  In vertical training also a
        function of labels and predictions, as scikit-learn's metrics are.
    callbacks : sequence of xgboost.callback.TrainingCallback, optional
        Called before and after every round.
    random_state : int, optional
        Seed of everything that is sampled.  Drawn from the operating system by default.
    **keywords : object
        XGBoost's other parameters, and other names of these.  `fit` accepts what changes nothing, such as
        ``tree_method="hist"`` or ``n_jobs``, and refuses the others by name.

    Attributes
    ----------
    traffic_ : Traffic
        Traffic that left each party.
    best_iteration, best_score : int and float
        Round and metric that early stopping found best.
    """

    n_features_in_: int
    _expected_failed_checks: ClassVar[Mapping[str, str]] = {}
    """Checks of scikit-learn's suite that fail on purpose, each with its reason."""

    model_: Any  # a TrainedModel; each kind of estimator declares its own

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int | None = None,
        learning_rate: float | None = None,
        max_bin: int | None = None,
        reg_lambda: float | None = None,
        reg_alpha: float | None = None,
        gamma: float | None = None,
        min_child_weight: float | None = None,
        max_delta_step: float | None = None,
        subsample: float | None = None,
        colsample_bytree: float | None = None,
        base_score: float | None = None,
        scale_pos_weight: float | None = None,
        early_stopping_rounds: int | None = None,
        eval_metric: str | Sequence[str] | Callable[..., Any] | None = None,
        callbacks: Sequence[TrainingCallback] | None = None,
        random_state: int | None = None,
        **keywords: Any,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.max_bin = max_bin
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.max_delta_step = max_delta_step
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.base_score = base_score
        self.scale_pos_weight = scale_pos_weight
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.random_state = random_state
        self._keep_keywords(keywords)

    def __sklearn_tags__(self) -> Any:
        """Tags, as scikit-learn 1.6 and later ask for them."""
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """Tags, as scikit-learn before 1.6 asks for them."""
        return {
            "allow_nan": True,
            "X_types": ["2darray", "sparse"],
            "_xfail_checks": dict(self._expected_failed_checks),
        }

    def _check_width(self, n_features: int) -> None:
        """Raise an InvalidDataError unless rows have as many columns as those of `fit`."""
        if n_features != self.n_features_in_:
            raise InvalidDataError(
                f"X has {n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input, the columns of fit"
            )

    def _parameters(self, *others: str) -> dict[str, Any]:
        """Return the parameters that are handed on as they are, keywords, and some others, by name."""
        for name in ("objective", "num_class"):
            if self._keywords.get(name) is not None:
                raise UnsupportedParameterError(
                    f"{name}={self._keywords[name]!r} is not supported; it follows from the labels"
                )
        own = {name: getattr(self, name) for name in (*_HANDED_ON, *others)}
        return {**self._keywords, **own}

    def _forget(self) -> None:
        """Undo an earlier fit, so that a fit that fails leaves nothing of it."""
        for name in ("model_", "parties_", "n_features_in_", "feature_names_in_", "classes_"):
            self.__dict__.pop(name, None)

    @property
    def _trained(self) -> TrainedModel:
        check_is_fitted(self, "model_")
        model: TrainedModel = self.model_
        return model

    @property
    def traffic_(self) -> Traffic:
        """Traffic that left each party during `fit`."""
        return self._trained.traffic

    @property
    def best_iteration(self) -> int:
        """Round that early stopping found best, from 0.

        Raises
        ------
        AttributeError
            If `fit` ran without early stopping.
        """
        best = self._trained.best_iteration
        if best is None:
            raise AttributeError("best_iteration is set by early stopping only; set early_stopping_rounds")
        return best

    @property
    def best_score(self) -> float:
        """Metric of the round that early stopping found best.

        Raises
        ------
        AttributeError
            If `fit` ran without early stopping.
        """
        best = self._trained.best_score
        if best is None:
            raise AttributeError("best_score is set by early stopping only; set early_stopping_rounds")
        return best

    def evals_result(self) -> dict[str, Any]:
        """Return the metrics of the evaluation sets.

        Returns
        -------
        dict
            Lists with one number per round, by evaluation set (``validation_0`` and so on) and metric.
        """
        return self._trained.evals_result


def named_evaluation_sets(
    eval_set: Sequence[tuple[Any, Any]] | None, weights: Sequence[Any] | None
) -> list[tuple[tuple[Any, Any, Any], str]]:
    """Pair evaluation sets, each (X, y), with their weights and with XGBoost's names for them.

    Raises `InvalidArgumentError` if there is not one weight per set, or a set is not a pair.
    """
    sets = list(eval_set or ())
    own = [None] * len(sets) if weights is None else list(weights)
    if len(own) != len(sets):
        raise InvalidArgumentError(f"sample_weight_eval_set has {len(own)} entries, eval_set has {len(sets)}")
    for k, rows in enumerate(sets):
        if not (isinstance(rows, (tuple, list)) and len(rows) == 2):
            raise InvalidArgumentError(f"eval_set[{k}] must be a pair (X, y)")
    return [
        ((*rows, weight), f"validation_{k}") for k, (rows, weight) in enumerate(zip(sets, own, strict=True))
    ]


def class_probabilities(p: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bring predictions into shape (n_rows, n_classes); of two classes XGBoost gives the second's only."""
    return p if p.ndim == 2 else np.stack([1 - p, p], axis=1)


def normalised(gains: Sequence[float]) -> NDArray[np.float32]:
    """Divide importances by their sum; all are 0 if no tree has a split."""
    values = np.array(gains, dtype=np.float32)
    scale = np.float32(max(float(values.sum()), float(np.finfo(np.float32).tiny)))
    return np.asarray(values / scale)
