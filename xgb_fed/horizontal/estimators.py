"""scikit-learn estimators over SimFL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xgboost
from gbdt_parties.errors import InvalidDataError
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from xgb_fed.horizontal.shared_model import read_rows
from xgb_fed.horizontal.simfl import train_simfl


class _HorizontalXGBModel(BaseEstimator):
    """What the classifier and the regressor share.

    Parameters
    ----------
    n_estimators : int
        Boosting rounds of all parties together.
    max_depth, learning_rate, max_bin, reg_lambda, reg_alpha, gamma, min_child_weight, max_delta_step, \
subsample, colsample_bytree, base_score, eval_metric
        XGBoost's, with its defaults; `base_score` is the mean label of all parties by default.
    n_hashes : int, optional
        Hashes L of a row; min(40, d − 1) by default, or fewer where a party allows only fewer.
    window : float, optional
        Width of the hashes' slabs in standard deviations; √(2d) for d columns that vary by default.
    known_features : int
        Features of a row that other parties may know; lowers L.
    early_stopping_rounds : int, optional
    random_state : int, optional
        Fixes hash functions, ties and sampled rows and columns.
    verbose : bool or int
        Whether, or every how many rounds, to print metrics.
    """

    _objective: ClassVar[str]

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int = 6,
        learning_rate: float = 0.3,
        max_bin: int = 256,
        reg_lambda: float = 1.0,
        reg_alpha: float = 0.0,
        gamma: float = 0.0,
        min_child_weight: float = 1.0,
        max_delta_step: float = 0.0,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        base_score: float | None = None,
        eval_metric: Any = None,
        n_hashes: int | None = None,
        window: float | None = None,
        known_features: int = 0,
        early_stopping_rounds: int | None = None,
        random_state: int | None = None,
        verbose: bool | int = False,
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
        self.eval_metric = eval_metric
        self.n_hashes = n_hashes
        self.window = window
        self.known_features = known_features
        self.early_stopping_rounds = early_stopping_rounds
        self.random_state = random_state
        self.verbose = verbose

    _OF_HASHING = ("n_hashes", "window", "known_features")
    _OF_THE_LOOP = ("n_estimators", "early_stopping_rounds", "verbose")

    def fit(
        self,
        X: None = None,
        y: None = None,
        *,
        parties: Sequence[Any] = (),
        eval_set: Sequence[tuple[Any, ...]] | None = None,
        callbacks: Sequence[Any] = (),
    ) -> Any:
        """Train.

        Parameters
        ----------
        X, y : None
            For scikit-learn's sake; rows come with the parties.
        parties : sequence
            Pairs (X, y), triples (X, y, sample_weight), or `HorizontalParty` objects; at least two.
        eval_set : sequence of (X, y) or (X, y, sample_weight), optional
            Rows of the coordinator's own.
        callbacks : sequence of xgboost.callback.TrainingCallback

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For data or parameters that cannot be trained; names them.
        ProtocolError
            If a party refuses, or breaks the protocol.
        """
        if X is not None or y is not None:
            raise ValueError("fit takes rows as parties=[(X1, y1), (X2, y2), ...]")
        apart = {*self._OF_HASHING, *self._OF_THE_LOOP}
        params = {name: value for name, value in self.get_params().items() if name not in apart}
        model = train_simfl(
            {**params, "objective": self._objective},
            parties,
            self.n_estimators,
            **{name: getattr(self, name) for name in self._OF_HASHING},
            hash_seed=self.random_state,
            evals=[(tuple(rows), f"validation_{k}") for k, rows in enumerate(eval_set or ())],
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=self.verbose,
            callbacks=callbacks,
        )
        self._booster = model.booster
        self.n_features_in_ = model.booster.num_features()
        if model.booster.feature_names:
            self.feature_names_in_ = np.array(model.booster.feature_names, dtype=object)
        self.traffic_ = model.traffic
        self.evals_result_ = model.evals_result
        self.best_iteration, self.best_score = model.best_iteration, model.best_score
        if model.classes is not None:
            self.classes_ = model.classes
        return self

    def get_booster(self) -> xgboost.Booster:
        """The native model."""
        check_is_fitted(self, "traffic_")
        return self._booster

    def save_model(self, path: str | Path) -> None:
        """Write the native model in XGBoost's format."""
        self.get_booster().save_model(path)

    def _raw_predictions(self, X: Any, output_margin: bool) -> NDArray[np.float32]:
        booster = self.get_booster()
        rows, names = read_rows(X, "X")
        if rows.shape[1] != self.n_features_in_:
            raise InvalidDataError(f"X has {rows.shape[1]} columns; the model has {self.n_features_in_}")
        if names and booster.feature_names and names != booster.feature_names:
            raise InvalidDataError(f"X has columns {names}; the model has {booster.feature_names}")
        data = xgboost.DMatrix(rows, feature_names=booster.feature_names)
        last = 0 if self.best_iteration is None else self.best_iteration + 1
        return np.asarray(booster.predict(data, output_margin=output_margin, iteration_range=(0, last)))


class HorizontalXGBClassifier(ClassifierMixin, _HorizontalXGBModel):
    """Classifier of rows that several parties hold.

    See the base class for parameters.
    After fitting: `classes_`, `traffic_`, `evals_result_`, `best_iteration`.
    """

    _objective = "binary:logistic"

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Probabilities, shape (n_rows, n_classes)."""
        p = self._raw_predictions(X, output_margin=False)
        return np.column_stack([1 - p, p]) if p.ndim == 1 else p

    def predict(self, X: Any, output_margin: bool = False) -> NDArray[Any]:
        """Most probable classes, shape (n_rows,), or margins."""
        if output_margin:
            return self._raw_predictions(X, output_margin=True)
        p = self.predict_proba(X)
        return np.asarray(self.classes_[p.argmax(axis=1)])


class HorizontalXGBRegressor(RegressorMixin, _HorizontalXGBModel):
    """Regressor, by squared error, of rows that several parties hold.  See the base class for parameters."""

    _objective = "reg:squarederror"

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Predicted means, shape (n_rows,)."""
        return self._raw_predictions(X, output_margin=False)
