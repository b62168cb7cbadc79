"""Scikit-learn estimators that train private LightGBM models."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.training import PrivateTrainer
from lgb_dp.checks import Auto, checked_choice
from lgb_dp.data.bins import Bounds, Spacing, is_data_frame
from lgb_dp.data.dataset import Dataset
from lgb_dp.data.provenance import Provenance
from lgb_dp.dpboost.trainer import DPBoost
from lgb_dp.errors import InvalidArgumentError, NotPrivateWarning, PrivacyLeakWarning
from lgb_dp.mboost.trainer import MBoost
from lgb_dp.newton.settings import AUTOMATIC_ROUNDS
from lgb_dp.newton.trainer import NewtonBoost

_DPBOOST_SETTINGS: Mapping[str, Any] = {"n_estimators": 20, "learning_rate": 0.2, "max_depth": 4}
"""What "auto" means for DPBoost.

Chosen by ε between 0.5 and 4 on eight public data sets of 4,000 to 120,000 rows, where it beats the
paper's 50 trees of depth 6 at rate 0.1.  Gradients are clipped rather than filtered: with labels of ±1 a
gradient beyond g* is a misclassified row, the one to learn from.
"""

_MBOOST_SETTINGS: Mapping[str, Any] = {"n_estimators": 1, "learning_rate": 0.5, "max_depth": 3}
"""What "auto" means for MBoost: at ε up to 1, one tree beats boosted ones on most sets
(docs/experiments/mloss.md)."""

_BINS: Mapping[str, tuple[int, Spacing]] = {
    "newton": (255, "mixed"),
    "dpboost": (32, "linear"),
    "mboost": (10, "linear"),
}
"""What max_bin="auto" means: NewtonBoost does not pay for candidates, the others do."""

_SEARCH_NOTE = (
    "a search or cross-validation around the estimator reads the data once per fit; "
    "epsilon covers one fit only"
)
_CLASSES_LEAK = "the classes were read from the data, which leaks them; pass public `classes`"


class _DPLGBMModel(BaseEstimator):
    """What the classifier and the regressor share.

    Parameters
    ----------
    epsilon : float
        Total privacy budget in nats, under adding or removing one row.
    delta : float
        δ of the guarantee; far below one over the number of rows.  For "newton": the others have none.
    method : {"newton", "dpboost", "mboost"}
        Private trainer: `lgb_dp.NewtonBoost`, the recommended one, `lgb_dp.DPBoost`, or for classes
        `lgb_dp.MBoost`, whose models should be small (one to three trees).
    n_estimators : "auto" or int
        Boosting iterations.
    learning_rate : "auto" or float
        In (0, 1].
    max_depth : "auto" or int
        Levels of splits; trees are complete.
    reg_lambda : float
        L2 regularisation of leaf values.
    max_bin : "auto" or int
        Bins of a numeric feature.
    trees_per_ensemble : int
        For "dpboost": trees that share one ensemble's rows.
    leaf_share : float
        For "dpboost": share of a tree's budget that goes to its leaves.
    gdf : bool
        For "dpboost": leave rows with large gradients out of a tree, as the paper does, instead of clipping.
    alpha : float or "calibrated"
        MBoost's α.
    n_jobs : int
        Threads; 0 means all available processors.
    random_state : int, optional
        For tests: fixes the noise, which voids the guarantee.
    verbose : int
        LightGBM's verbosity.

    Notes
    -----
    What "auto" chooses follows from public facts and from what was released: no setting reads the data.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        method: Literal["newton", "dpboost", "mboost"] = "newton",
        n_estimators: int | Auto = "auto",
        learning_rate: float | Auto = "auto",
        max_depth: int | Auto = "auto",
        reg_lambda: float = 0.1,
        max_bin: int | Auto = "auto",
        trees_per_ensemble: int = 50,
        leaf_share: float = 0.3,
        gdf: bool = False,
        alpha: float | Literal["calibrated"] = "calibrated",
        n_jobs: int = 0,
        random_state: int | None = None,
        verbose: int = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.reg_lambda = reg_lambda
        self.max_bin = max_bin
        self.trees_per_ensemble = trees_per_ensemble
        self.leaf_share = leaf_share
        self.gdf = gdf
        self.alpha = alpha
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _trainer(self) -> PrivateTrainer:
        if self.method != "dpboost" and (self.gdf or self.trees_per_ensemble != 50):
            raise InvalidArgumentError(
                f"gdf and trees_per_ensemble are settings of method='dpboost', got method={self.method!r}"
            )
        if self.method != "mboost" and self.alpha != "calibrated":
            raise InvalidArgumentError(
                f"alpha is a setting of method='mboost', got alpha={self.alpha!r} and method={self.method!r}"
            )
        if self.method == "newton":
            return NewtonBoost(self.epsilon, self.delta, random_state=self.random_state)
        if self.method == "mboost":
            return MBoost(
                self.epsilon, alpha=self.alpha, leaf_share=self.leaf_share, random_state=self.random_state
            )
        return DPBoost(
            self.epsilon,
            trees_per_ensemble=self.trees_per_ensemble,
            leaf_share=self.leaf_share,
            gdf=self.gdf,
            random_state=self.random_state,
        )

    def _settings(self) -> dict[str, Any]:
        """Number of rounds, learning rate and depth; what is left out, the trainer chooses."""
        asked = {name: getattr(self, name) for name in ("n_estimators", "learning_rate", "max_depth")}
        chosen = {name: value for name, value in asked.items() if not isinstance(value, str)}
        unknown = {name: value for name, value in asked.items() if name not in chosen and value != "auto"}
        if unknown:
            raise InvalidArgumentError(f"{next(iter(unknown))} must be 'auto' or a number, got {unknown}")
        if self.method == "newton":
            return {"n_estimators": AUTOMATIC_ROUNDS, **chosen}
        return {**(_MBOOST_SETTINGS if self.method == "mboost" else _DPBOOST_SETTINGS), **chosen}

    def _fit(
        self,
        X: Any,
        target: NDArray[np.float64],
        objective: Mapping[str, Any],
        label_bounds: tuple[float, float] | None,
        eval_target: Callable[[Any], NDArray[np.float64]],
        *,
        bounds: Bounds | None,
        categories: Mapping[Any, Sequence[Any]] | None,
        sample_weight: Any,
        weight_bound: float | None,
        eval_set: Sequence[tuple[Any, Any]] | None,
        eval_metric: Any,
        public_eval_set: bool,
        callbacks: Sequence[Callable[..., Any]] | None,
        leaks: tuple[str, ...] = (),
    ) -> None:
        checked_choice("method", self.method, tuple(_BINS))
        trainer = self._trainer()
        X = _as_matrix(X)
        max_bin, spacing = _BINS[self.method]
        train_set = Dataset(
            X,
            target,
            bounds=bounds,
            label_bounds=label_bounds,
            max_bin=max_bin if isinstance(self.max_bin, str) else self.max_bin,
            spacing=spacing,
            categories=categories,
            weight=sample_weight,
            weight_bound=weight_bound,
        )
        train_set.disclose(Provenance(leaks))
        if _is_searched():
            train_set.disclose(Provenance(notes=(_SEARCH_NOTE,)))
            warnings.warn(_SEARCH_NOTE, NotPrivateWarning, stacklevel=3)
        valid_sets: list[lightgbm.Dataset] = [
            Dataset(_as_matrix(X_eval), eval_target(y_eval), reference=train_set, public=public_eval_set)
            for X_eval, y_eval in eval_set or []
        ]
        settings = self._settings()
        n_rounds = settings.pop("n_estimators")
        params = {
            **objective,
            **settings,
            "lambda_l2": self.reg_lambda,
            "num_threads": self.n_jobs,
            "verbosity": self.verbose,
        }
        if eval_metric is not None:
            params["metric"] = eval_metric
        self.evals_result_: dict[str, Any] = {}
        booster = lightgbm.train(
            params,
            train_set,
            n_rounds,
            valid_sets=valid_sets,
            callbacks=[
                trainer,
                *(callbacks or []),
                lightgbm.record_evaluation(self.evals_result_),
            ],
        )
        self.n_features_in_ = X.shape[1]
        if is_data_frame(X):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.booster_ = booster

    @property
    def privacy_(self) -> PrivacyReport:
        """The guarantee of the fitted model."""
        check_is_fitted(self, "booster_")
        assert isinstance(self.booster_, DPBooster)
        return self.booster_.privacy

    @property
    def feature_importances_(self) -> NDArray[Any]:
        """How often each feature is split on."""
        check_is_fitted(self, "booster_")
        return np.asarray(self.booster_.feature_importance())

    def _predict_native(self, X: Any, **kwargs: Any) -> NDArray[Any]:
        check_is_fitted(self, "booster_")
        X = _as_matrix(X)
        if X.shape[1] != self.n_features_in_:
            raise InvalidArgumentError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return np.asarray(self.booster_.predict(X, **kwargs))


class DPLGBMClassifier(ClassifierMixin, _DPLGBMModel):  # noqa: D101
    __doc__ = (_DPLGBMModel.__doc__ or "").replace(
        "What the classifier and the regressor share.",
        "Differentially private LightGBM classifier, binary or multi-class.",
    )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        bounds: Bounds | None = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        classes: Sequence[Any] | None = None,
        sample_weight: Any = None,
        weight_bound: float | None = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_metric: Any = None,
        public_eval_set: bool = False,
        callbacks: Sequence[Callable[..., Any]] | None = None,
    ) -> DPLGBMClassifier:
        """Train.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
        bounds, categories
            Public knowledge of the features, as for `lgb_dp.Dataset`.
        classes : sequence, optional
            All possible labels, public.  Left out, they are 0 and 1 (or False and True); if the data has
            others, they are read from it, with a warning, and the report says not private.
        sample_weight, weight_bound
            Row weights and their public bound.
        eval_set, eval_metric, callbacks
            As for LightGBM's estimators.
        public_eval_set : bool
            Whether the rows of `eval_set` are public.
        """
        y = np.asarray(y).reshape(-1)
        self.classes_, from_data = _known_classes(y, classes)
        leaks = (_CLASSES_LEAK,) if from_data else ()
        n_classes = len(self.classes_)
        objective = (
            {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}
        )
        self._fit(
            X,
            self._encode(y),
            objective,
            None,
            self._encode,
            bounds=bounds,
            categories=categories,
            sample_weight=sample_weight,
            weight_bound=weight_bound,
            eval_set=eval_set,
            eval_metric=eval_metric,
            public_eval_set=public_eval_set,
            callbacks=callbacks,
            leaks=leaks,
        )
        return self

    def _encode(self, y: Any) -> NDArray[np.float64]:
        y = np.asarray(y).reshape(-1)
        code = np.searchsorted(self.classes_, y).clip(0, len(self.classes_) - 1)
        if (self.classes_[code] != y).any():
            raise InvalidArgumentError(
                f"y holds a label that is not among the classes {self.classes_.tolist()}"
            )
        return np.asarray(code, dtype=np.float64)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, shape (n_rows, n_classes)."""
        probability = self._predict_native(X)
        return np.column_stack([1 - probability, probability]) if probability.ndim == 1 else probability

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[proba.argmax(axis=1)])


class DPLGBMRegressor(RegressorMixin, _DPLGBMModel):  # noqa: D101
    __doc__ = (_DPLGBMModel.__doc__ or "").replace(
        "What the classifier and the regressor share.", "Differentially private LightGBM regressor."
    )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        bounds: Bounds | None = None,
        label_bounds: tuple[float, float] | None = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        sample_weight: Any = None,
        weight_bound: float | None = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_metric: Any = None,
        public_eval_set: bool = False,
        callbacks: Sequence[Callable[..., Any]] | None = None,
    ) -> DPLGBMRegressor:
        """Train; `label_bounds` are the public bounds of `y`, the rest as for the classifier."""

        def as_is(values: Any) -> NDArray[np.float64]:
            return np.asarray(values, dtype=np.float64).reshape(-1)

        self._fit(
            X,
            as_is(y),
            {"objective": "regression"},
            label_bounds,
            as_is,
            bounds=bounds,
            categories=categories,
            sample_weight=sample_weight,
            weight_bound=weight_bound,
            eval_set=eval_set,
            eval_metric=eval_metric,
            public_eval_set=public_eval_set,
            callbacks=callbacks,
        )
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted target of each row."""
        return self._predict_native(X)


def _is_searched() -> bool:
    """Whether scikit-learn's search or cross-validation is calling.

    It clones estimators and leaves no other trace, so the callers are asked.
    """
    frame = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("sklearn.model_selection"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _as_matrix(X: Any) -> Any:
    """`X`, converted to an array if it is a list."""
    return np.asarray(X) if isinstance(X, (list, tuple)) else X


def _known_classes(y: NDArray[Any], classes: Sequence[Any] | None) -> tuple[NDArray[Any], bool]:
    """Sorted classes, and whether they had to be read from the data."""
    if classes is not None:
        known = np.unique(np.asarray(classes))
        if len(known) < 2:
            raise InvalidArgumentError(f"classes must hold at least two labels, got {classes!r}")
        return known, False
    assumed = np.array([False, True]) if y.dtype == bool else np.array([0, 1])
    if y.dtype.kind in "biuf" and np.isin(y, assumed).all():
        return assumed, False
    known = np.unique(y)
    if len(known) < 2:
        raise InvalidArgumentError(f"y must hold at least two classes, got {known.tolist()}; or pass classes")
    warnings.warn(_CLASSES_LEAK, PrivacyLeakWarning, stacklevel=3)
    return known, True
