"""The base of the scikit-learn estimators: settings, how a fit becomes a call of `lightgbm.train`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lgb_dp.accounting.budget import Budget
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.params import training_parameters
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.checks import AUTO, Auto, checked_choice, checked_integer, checked_max_bin
from lgb_dp.data.bins import Spacing, is_data_frame
from lgb_dp.data.dataset import Dataset, LabelOverflow
from lgb_dp.data.provenance import Provenance
from lgb_dp.dpboost.trainer import DPBoost
from lgb_dp.errors import InvalidArgumentError, NotPrivateWarning
from lgb_dp.estimators.rows import as_matrix
from lgb_dp.estimators.tags import EXPECTED_FAILED_CHECKS
from lgb_dp.mboost.trainer import MBoost
from lgb_dp.newton.settings import AUTOMATIC_ROUNDS
from lgb_dp.newton.trainer import NewtonBoost
from lgb_dp.surroundings import surroundings

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


class DPLGBMModel(BaseEstimator):
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
    label_overflow : {"clip", "raise"}
        What becomes of a label that does not fit, as for `lgb_dp.Dataset`.  "clip" moves targets to the
        nearer of the label's bounds and gives rows whose label is missing or none of the classes no weight;
        "raise" raises an error, whose occurrence is a function of the private labels.
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
        label_overflow: LabelOverflow = "clip",
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
        self.label_overflow = label_overflow
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn 1.6 and later ask."""
        tags: Any = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """What scikit-learn before 1.6 asks."""
        return {
            "non_deterministic": self.random_state is None,
            "allow_nan": True,
            "X_types": ["2darray", "sparse"],
            "poor_score": True,  # the noise of a small data set's model
            "_xfail_checks": dict(EXPECTED_FAILED_CHECKS),
        }

    def _trainer(self, budget: Budget | None) -> PrivateTrainer:
        if self.method != "dpboost" and (self.gdf or self.trees_per_ensemble != 50):
            raise InvalidArgumentError(
                f"gdf and trees_per_ensemble are settings of method='dpboost', got method={self.method!r}"
            )
        if self.method == "newton":
            return NewtonBoost(self.epsilon, self.delta, random_state=self.random_state, budget=budget)
        if self.method == "mboost":
            return MBoost(
                self.epsilon, random_state=self.random_state, budget=budget, **self._mboost_settings()
            )
        return DPBoost(
            self.epsilon,
            trees_per_ensemble=self.trees_per_ensemble,
            leaf_share=self.leaf_share,
            gdf=self.gdf,
            random_state=self.random_state,
            budget=budget,
        )

    def _mboost_settings(self) -> dict[str, Any]:
        return {"leaf_share": self.leaf_share}

    def check_settings(self) -> None:
        """Raise the error of the first setting that `fit` would not accept; no data is needed."""
        self._read_settings()

    def _read_settings(self, budget: Budget | None = None) -> tuple[PrivateTrainer, int, dict[str, Any], int]:
        """The trainer, its number of rounds and parameters, and the number of bins."""
        checked_choice("method", self.method, tuple(_BINS))
        checked_choice("label_overflow", self.label_overflow, get_args(LabelOverflow))
        trainer, settings = self._trainer(budget), self._settings()
        n_rounds = checked_integer("n_estimators", settings.pop("n_estimators"), 1)
        params = {
            **settings,
            "lambda_l2": self.reg_lambda,
            "num_threads": self.n_jobs,
            "verbosity": self.verbose,
        }
        max_bin = _BINS[self.method][0]
        if not (isinstance(self.max_bin, str) and self.max_bin == AUTO):
            max_bin = checked_max_bin(self.max_bin)
        training_parameters({"objective": "binary", **params}, max_bin)
        return trainer, n_rounds, params, max_bin

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
        budget: Budget | None,
        eval_set: Sequence[tuple[Any, Any]] | None,
        eval_metric: Any,
        public_eval_set: bool,
        callbacks: Sequence[Callable[..., Any]] | None,
        provenance: Provenance | None = None,
        **of_rows: Any,
    ) -> None:
        """Train on a Dataset of which `of_rows` are the arguments that users gave about the rows."""
        trainer, n_rounds, params, max_bin = self._read_settings(budget)
        around = surroundings()
        for text in (*around.leaks, *around.notes):
            warnings.warn(text, NotPrivateWarning, stacklevel=3)
        X = as_matrix(X)
        if of_rows.get("bounds") is None and of_rows.get("categories") is None and X.shape[0] == 1:
            raise InvalidArgumentError("bounds must be given: none can be read from 1 sample")
        train_set = Dataset(
            X,
            target,
            label_bounds=label_bounds,
            label_overflow=self.label_overflow,
            max_bin=max_bin,
            spacing=_BINS[self.method][1],
            **of_rows,
        )
        train_set.disclose(around).disclose(provenance or Provenance())
        valid_sets: list[lightgbm.Dataset] = [
            Dataset(as_matrix(X_eval), eval_target(y_eval), reference=train_set, public=public_eval_set)
            for X_eval, y_eval in eval_set or []
        ]
        if eval_metric is not None:
            params["metric"] = eval_metric
        evals_result: dict[str, Any] = {}
        booster = lightgbm.train(
            {**objective, **params},
            train_set,
            n_rounds,
            valid_sets=valid_sets,
            callbacks=[
                trainer,
                *(callbacks or []),
                lightgbm.record_evaluation(evals_result),
            ],
        )
        self.evals_result_ = evals_result
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
        X = as_matrix(X)
        if X.shape[1] != self.n_features_in_:
            raise InvalidArgumentError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return np.asarray(self.booster_.predict(X, **kwargs))
