"""scikit-learn estimators over `train`, with XGBoost's names and defaults."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from gbdt_parties._files import write_atomically
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.traffic import Traffic
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from xgb_fed.ciphers.base import Scheme
from xgb_fed.errors import CorruptDataError, UnsupportedParameterError
from xgb_fed.vertical.model import VerticalModel
from xgb_fed.vertical.task import ActiveData
from xgb_fed.vertical.training import train

CLASSES_FILE = "active.classes.json"


class _VerticalXGB(BaseEstimator):
    """What the classifier and the regressor share."""

    def __init__(
        self,
        *,
        n_estimators: int = 100,
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
        objective: str | None = None,
        base_score: float | None = None,
        scale_pos_weight: float | None = None,
        early_stopping_rounds: int | None = None,
        eval_metric: Any = None,
        callbacks: Sequence[Any] | None = None,
        random_state: int | None = None,
        cipher: Scheme | None = None,
        tree_mode: str = "default",
        trees_per_party: int = 1,
        active_depth: int = 2,
        multi_output: bool = False,
        goss: tuple[float, float] | None = None,
        rows_by_index: bool = False,
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
        self.objective = objective
        self.base_score = base_score
        self.scale_pos_weight = scale_pos_weight
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.random_state = random_state
        self.cipher = cipher
        self.tree_mode = tree_mode
        self.trees_per_party = trees_per_party
        self.active_depth = active_depth
        self.multi_output = multi_output
        self.goss = goss
        self.rows_by_index = rows_by_index

    def _positions(self, X: Any) -> Any:
        """Positions of rows in the parties' data: none, or the index of a data frame."""
        if not self.rows_by_index:
            return None
        if not hasattr(X, "index") or not hasattr(X, "columns"):
            raise InvalidDataError("rows_by_index=True needs a data frame: its index gives the row positions")
        return X.index.to_numpy()

    def __getstate__(self) -> dict[str, Any]:
        """Without the parties: a pickle of the model holds nobody's rows."""
        return {name: value for name, value in super().__getstate__().items() if name != "parties_"}

    def _params(self, objective: str, num_class: int | None) -> dict[str, Any]:
        others = (
            "n_estimators",
            "early_stopping_rounds",
            "callbacks",
            "cipher",
            "objective",
            "rows_by_index",
        )
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in others}
        return {**params, "objective": objective, "num_class": num_class}

    def _forget(self) -> None:
        """Unfit: a fit that fails leaves nothing of the one before."""
        for name in ("model_", "parties_", "n_features_in_", "classes_"):
            self.__dict__.pop(name, None)

    def _fit(
        self,
        X: Any,
        y: NDArray[Any],
        parties: Sequence[Any],
        sample_weight: Any,
        eval_set: Sequence[tuple[Any, Any]],
        sample_weight_eval_set: Sequence[Any] | None,
        verbose: bool | int,
        objective: str,
        num_class: int | None,
        **survival: Any,
    ) -> None:
        """Train; attributes are set only when all went well."""
        weights = sample_weight_eval_set or [None] * len(eval_set)
        if len(weights) != len(eval_set):
            raise ValueError(f"sample_weight_eval_set has {len(weights)} entries, eval_set {len(eval_set)}")
        evals = [
            (ActiveData(Xe, ye, we), f"validation_{k}")
            for k, ((Xe, ye), we) in enumerate(zip(eval_set, weights, strict=True))
        ]
        parties = list(parties)
        model = train(
            self._params(objective, num_class),
            ActiveData(X, y, sample_weight, self._positions(X)),
            parties,
            self.n_estimators,
            evals=evals,
            cipher=self.cipher,
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=verbose,
            callbacks=self.callbacks or (),
            **survival,
        )
        self.model_ = model
        self.parties_ = parties
        self.n_features_in_ = len(model.splits.names)

    @property
    def traffic_(self) -> Traffic:
        """What left each party during `fit`."""
        check_is_fitted(self, "model_")
        return self.model_.traffic

    @property
    def best_iteration(self) -> int:
        """Best round of early stopping."""
        check_is_fitted(self, "model_")
        if self.model_.best_iteration is None:
            raise AttributeError(
                "best_iteration is set by early stopping; early_stopping_rounds was not given"
            )
        return self.model_.best_iteration

    def evals_result(self) -> dict[str, Any]:
        """Metrics of the evaluation sets, round by round."""
        check_is_fitted(self, "model_")
        return self.model_.evals_result

    @property
    def feature_importances_(self) -> NDArray[np.float32]:
        """Gain of the active party's columns, then of each passive party as a whole; sums to 1."""
        check_is_fitted(self, "model_")
        by_name = self.model_.importances("total_gain")
        own = [by_name.get(name, 0.0) for name in self.model_.splits.names]
        others = [
            sum(gain for name, gain in by_name.items() if name.startswith(f"{party}: split "))
            for party in self.model_.parties
        ]
        gains = np.array(own + others, dtype=np.float32)
        return gains / max(float(gains.sum()), np.finfo(np.float32).tiny)

    def _predict(
        self, X: Any, parties: Any, iteration_range: tuple[int, int] | None, **how: Any
    ) -> NDArray[Any]:
        check_is_fitted(self, "model_")
        parties = self._parties(parties)
        rows = self._positions(X)
        return self.model_.predict(X, parties, iteration_range=iteration_range, rows=rows, **how)

    def _parties(self, parties: Any) -> Any:
        if parties is None and not hasattr(self, "parties_"):
            raise ValueError("parties must be given: a pickled model does not know them")
        return self.parties_ if parties is None else parties

    def apply(
        self, X: Any, parties: Any = None, iteration_range: tuple[int, int] | None = None
    ) -> NDArray[np.int32]:
        """Leaf of every row in every tree, shape (n_rows, n_trees)."""
        return self._predict(X, parties, iteration_range, pred_leaf=True)

    def export_booster(self, parties: Any = None) -> xgboost.Booster:
        """A native booster, if every party consents; see `VerticalModel.export_booster`."""
        check_is_fitted(self, "model_")
        return self.model_.export_booster(self._parties(parties))

    def save_model(self, directory: str | Path) -> None:
        """Write the active party's part; each passive party keeps its own."""
        check_is_fitted(self, "model_")
        self.model_.save(directory)

    def load_model(self, directory: str | Path, parties: Sequence[Any] = ()) -> None:
        """Read what `save_model` wrote; `parties` answer for their splits."""
        model = VerticalModel.load(directory)
        self._check_loaded(model, Path(directory))
        self.model_ = model
        self.parties_ = list(parties)
        self.n_features_in_ = len(model.splits.names)

    def _check_loaded(self, model: VerticalModel, directory: Path) -> None:
        raise NotImplementedError


class VerticalXGBClassifier(ClassifierMixin, _VerticalXGB):
    """XGBoost classifier over columns that several organisations hold of the same rows.

    Parameters
    ----------
    n_estimators, max_depth, learning_rate, max_bin, reg_lambda, reg_alpha, gamma, min_child_weight, \
    max_delta_step, subsample, colsample_bytree, base_score, scale_pos_weight, early_stopping_rounds, \
    eval_metric, callbacks, random_state
        XGBoost's, with its defaults.
    objective : {"binary:logistic", "multi:softprob"}, optional
        By the number of classes if not given.
    cipher : Scheme, optional
        ``Paillier(2048)`` by default; ``OkamotoUchiyama()`` is faster.
    tree_mode : {"default", "mix", "layered"}
        "default" is lossless: the trees are those of XGBoost on the pooled columns.
    trees_per_party : int
        Rounds of a party's turn in "mix".
    active_depth : int
        The active party's last levels in "layered"; the others are the passive parties'.
    multi_output : bool
        One tree a round with a value for each class in every leaf (SecureBoost-MO).
    goss : (float, float), optional
        Shares of rows with the largest gradients, and of others, that a tree is grown on.
    rows_by_index : bool
        The index of the data frame X gives each row's position in the parties' data.  That is what
        cross-validation and grid search need, which pass on some of the rows.

    Attributes
    ----------
    classes_ : ndarray
    model_ : VerticalModel
    traffic_ : Traffic
    """

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        parties: Sequence[Any],
        sample_weight: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        verbose: bool | int = False,
        checkpoint: str | Path | None = None,
        patience: float = 0.0,
    ) -> VerticalXGBClassifier:
        """Train with the passive parties.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), or None
            The active party's columns.
        y : array-like of shape (n_rows,)
            Labels of any kind, two classes at least.
        parties : sequence of Party
            They hold their columns of the same rows in the same order.
        sample_weight : array-like of shape (n_rows,), optional
        eval_set : sequence of (X, y)
            Parties hold their columns of these rows too.
        sample_weight_eval_set : sequence, optional
        verbose : bool or int
            Whether, or every how many rounds, to print metrics.
        checkpoint : path, optional
            Directory of the progress, from which the same call goes on after a crash; see `train`.
        patience : float
            Seconds to wait for a party that is unavailable; see `train`.
        """
        self._forget()
        if self.objective not in (None, "binary:logistic", "multi:softprob"):
            raise UnsupportedParameterError(
                f"objective={self.objective!r} must be 'binary:logistic' or 'multi:softprob' for a classifier"
            )
        eval_set = eval_set or ()
        classes, codes = _encode(y)
        binary = len(classes) == 2
        objective = self.objective or ("binary:logistic" if binary else "multi:softprob")
        if objective == "binary:logistic" and not binary:
            raise InvalidDataError(f"y has {len(classes)} classes; objective='binary:logistic' is for 2")
        coded = [(Xe, _code(classes, ye, f"eval_set[{k}]")) for k, (Xe, ye) in enumerate(eval_set)]
        num_class = len(classes) if objective == "multi:softprob" else None
        self._fit(
            X,
            codes,
            parties,
            sample_weight,
            coded,
            sample_weight_eval_set,
            verbose,
            objective,
            num_class,
            checkpoint=checkpoint,
            patience=patience,
        )
        self.classes_ = classes
        return self

    def predict_proba(
        self, X: Any, parties: Any = None, iteration_range: tuple[int, int] | None = None
    ) -> NDArray[np.float32]:
        """Probability of every class.

        Parameters
        ----------
        X : matrix or None
        parties : sequence of Party, optional
            With their columns of these rows (`LocalParty.with_rows`); those of `fit` by default.
        iteration_range : (int, int), optional
        """
        p = self._predict(X, parties, iteration_range)
        return p if p.ndim == 2 else np.stack([1 - p, p], axis=1)

    def predict(
        self,
        X: Any,
        parties: Any = None,
        output_margin: bool = False,
        iteration_range: tuple[int, int] | None = None,
    ) -> NDArray[Any]:
        """The most probable class, or margins."""
        if output_margin:
            return self._predict(X, parties, iteration_range, output_margin=True)
        p = self.predict_proba(X, parties, iteration_range)
        return np.asarray(self.classes_[p.argmax(axis=1)])

    def save_model(self, directory: str | Path) -> None:
        """Write the active party's part and its classes; each passive party keeps its own."""
        super().save_model(directory)
        content = {"dtype": self.classes_.dtype.str, "classes": self.classes_.tolist()}
        write_atomically(Path(directory) / CLASSES_FILE, json.dumps(content))

    def _check_loaded(self, model: VerticalModel, directory: Path) -> None:
        path = directory / CLASSES_FILE
        try:
            content = json.loads(path.read_text())
            classes = np.array(content["classes"], dtype=np.dtype(content["dtype"]))
        except (OSError, ValueError, KeyError, TypeError):
            raise CorruptDataError(f"{path} does not hold a classifier's classes") from None
        if classes.shape != (max(2, model.n_classes),):
            raise CorruptDataError(f"{path} does not name the model's classes")
        self.classes_ = classes


class VerticalXGBRegressor(RegressorMixin, _VerticalXGB):
    """XGBoost regressor over columns that several organisations hold of the same rows.

    Parameters are those of `VerticalXGBClassifier`; the objective is "reg:squarederror".
    """

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        parties: Sequence[Any],
        sample_weight: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        verbose: bool | int = False,
        checkpoint: str | Path | None = None,
        patience: float = 0.0,
    ) -> VerticalXGBRegressor:
        """Train with the passive parties; see `VerticalXGBClassifier.fit`."""
        self._forget()
        objective = self.objective or "reg:squarederror"
        self._fit(
            X,
            y,
            parties,
            sample_weight,
            eval_set or (),
            sample_weight_eval_set,
            verbose,
            objective,
            None,
            checkpoint=checkpoint,
            patience=patience,
        )
        return self

    def predict(
        self,
        X: Any,
        parties: Any = None,
        output_margin: bool = False,
        iteration_range: tuple[int, int] | None = None,
    ) -> NDArray[np.float32]:
        """Predicted values."""
        return self._predict(X, parties, iteration_range, output_margin=output_margin)

    def _check_loaded(self, model: VerticalModel, directory: Path) -> None:
        if model.objective.name != "reg:squarederror":
            raise CorruptDataError(f"{directory} holds a classifier")


def _encode(y: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Sorted classes, and each label's number."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InvalidDataError(f"y has shape {y.shape}; a vector of labels is accepted")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InvalidDataError("y has missing or infinite labels")
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InvalidDataError(f"y has {len(classes)} class; at least 2 are needed")
    return classes, codes.astype(np.float32)


def _code(classes: NDArray[Any], y: Any, argument: str) -> NDArray[np.float32]:
    """Numbers of labels among known classes."""
    y = np.asarray(y)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if (classes[codes] != y).any():
        raise InvalidDataError(f"{argument} has labels that y has not")
    return codes.astype(np.float32)
