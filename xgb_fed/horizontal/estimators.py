"""scikit-learn estimators of models that parties with different rows of the same columns train together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import xgboost
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.loop import LoopOptions
from xgb_fed.errors import InvalidArgumentError, NoPartiesWarning, UnsupportedParameterError
from xgb_fed.estimators.base import FederatedXGBModel, class_probabilities, named_evaluation_sets, normalised
from xgb_fed.estimators.conventions import check_classes, check_finite, check_matrix, checked_target
from xgb_fed.estimators.habits import ROWS_APART, refuses_habits
from xgb_fed.horizontal.common.model import AUTO, HorizontalModel, horizontal_settings, of_classes, read_rows
from xgb_fed.horizontal.common.rows import MIN_SIMILAR
from xgb_fed.horizontal.exact.task import MIN_ROWS_PER_NODE
from xgb_fed.horizontal.parties import as_parties
from xgb_fed.horizontal.simfl.turn_taking import TurnTaking
from xgb_fed.horizontal.train_exact import train_exact
from xgb_fed.horizontal.train_simfl import train_simfl


def train_tfl(
    params: Mapping[str, Any],
    parties: Sequence[Any],
    num_boost_round: int = 10,
    *,
    rounds_per_turn: int = 1,
    evals: Sequence[tuple[tuple[Any, ...], str]] = (),
    early_stopping_rounds: int | None = None,
    verbose_eval: bool | int = True,
    callbacks: Sequence[Any] = (),
) -> HorizontalModel:
    """Train by TFL: parties take turns on their own rows and gradients (Zhao et al., 2018, without noise).

    Parameters
    ----------
    params, parties, num_boost_round, evals, early_stopping_rounds, verbose_eval, callbacks
        As for `train_simfl`.
    rounds_per_turn : int
        Rounds that a party grows before the next one's turn.

    Returns
    -------
    HorizontalModel
    """
    options = LoopOptions(num_boost_round, early_stopping_rounds, verbose_eval, callbacks, bool(evals))
    return _in_turns(params, parties, options, evals, rounds_per_turn)


def _in_turns(
    params: Mapping[str, Any], parties: Any, options: LoopOptions, evals: Any, turn: int = 1, least: int = 2
) -> HorizontalModel:
    """Train in turns of `turn` rounds, without gradients of other parties: SimFL, if there is one alone."""
    params, is_auto = of_classes(params)
    settings, n_rounds = horizontal_settings(params), options.num_boost_round
    is_class = settings.objective != "reg:squarederror"
    members = as_parties(parties, categorical_labels=is_class, at_least=least)
    return TurnTaking(settings, members, evals, turn, max_rounds=n_rounds, is_auto=is_auto).run(options)


ARGUMENTS_OF: dict[str, dict[str, Any]] = {
    "exact": {"cuts": "grid", "min_rows_per_node": MIN_ROWS_PER_NODE, "min_parties": 2},
    "simfl": {"n_hashes": None, "min_similar": MIN_SIMILAR, "known_features": 0},
}
"""Arguments that one method alone has, with their defaults."""


def check_arguments(model: Any) -> None:
    """Check that an estimator has a known method, and only arguments that the method knows.

    Raises
    ------
    InvalidArgumentError, UnsupportedParameterError
        Naming the argument.
    """
    if model.method not in ARGUMENTS_OF:
        raise InvalidArgumentError(f"method={model.method!r} must be one of {sorted(ARGUMENTS_OF)}")
    for method, arguments in ARGUMENTS_OF.items():
        for name, default in arguments.items():
            value = getattr(model, name)
            if method != model.method and (type(value) is not type(default) or value != default):
                raise UnsupportedParameterError(f"{name}={value!r} is for method={method!r} only")
    if model.method == "exact" and model.callbacks:
        raise UnsupportedParameterError(
            "callbacks are not supported with method='exact', in which every party works out for itself when "
            "training ends; use early_stopping_rounds"
        )


Self = TypeVar("Self", bound="_HorizontalXGB")


class _HorizontalXGB(FederatedXGBModel):
    """Base class of the horizontal classifier and regressor.

    Parameters
    ----------
    method : {"exact", "simfl"}, default="exact"
        How the parties train. "exact": XGBoost's own trees on the rows of all parties, which reveal only sums
        (`train_exact`). "simfl": the paper's heuristic (`train_simfl`; Li, Wen and He, 2020), in which all
        messages are in clear.
    cuts : {"grid", "exact"} or sequence of array-like, default="grid"
        Where columns are cut, for "exact"; see `train_exact`.
    min_rows_per_node : int, default=10
        Rows of all parties that both sides of a split must have, for "exact".
    min_parties : int, default=2
        Parties that must take part, for "exact".
    n_hashes : int, optional
        Number L of hashes per row, for "simfl".  By default min(40, n_features - 1), or fewer where a party
        allows fewer.
    min_similar : int, default=3
        Minimum number of rows whose gradients a party given as (X, y) sends as one sum, for "simfl".
    known_features : int, default=0
        Number of features of a row that other parties may know, for "simfl".  It lowers the number of
        hashes.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if the parties' rows are data frames.
    model_ : HorizontalModel
        The trained model.
    """

    _objective: ClassVar[str]
    model_: HorizontalModel

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        method: str = "exact",
        cuts: Any = "grid",
        min_rows_per_node: int = MIN_ROWS_PER_NODE,
        min_parties: int = 2,
        n_hashes: int | None = None,
        min_similar: int = MIN_SIMILAR,
        known_features: int = 0,
        **others: Any,
    ) -> None:
        super().__init__(n_estimators, **others)
        self.method = method
        self.cuts = cuts
        self.min_rows_per_node = min_rows_per_node
        self.min_parties = min_parties
        self.n_hashes = n_hashes
        self.min_similar = min_similar
        self.known_features = known_features

    @refuses_habits(ROWS_APART)
    def fit(
        self: Self,
        X: Any = None,
        y: Any = None,
        *,
        parties: Sequence[Any] = (),
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        verbose: bool | int = False,
    ) -> Self:
        """Train on the rows of all parties.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), optional
            Rows of this party, which is the first one if there are others.  Without `y`, a list of parties,
            which are then all of them.
        y : array-like of shape (n_rows,), optional
            Their labels.
        parties : sequence
            Pairs (X, y), triples (X, y, sample_weight), or `HorizontalParty` objects.  Left out, the model is
            trained on this party's rows alone, with a `NoPartiesWarning`.
        eval_set : sequence of (X, y), optional
            Rows to compute metrics on, not trained on.  With ``method="exact"`` the first party given as
            (X, y) holds them, and those of other parties (`ExactTerms.held_out`) count with them.
        sample_weight_eval_set : sequence of array-like, optional
            Weights of the rows of each evaluation set.
        verbose : bool or int, default=False
            Whether to print the metrics, or after how many rounds each time.

        Returns
        -------
        self

        Raises
        ------
        InvalidArgumentError, UnsupportedParameterError
            For parameters that cannot be trained with; the text names them.
        InvalidDataError
            For rows or labels that cannot be trained on.
        ProtocolError
            If a party refuses, or breaks the protocol.
        PartyUnavailableError
            If a party is dead or out of reach.
        """
        self._forget()
        if y is None and isinstance(X, (list, tuple)) and not len(parties):
            X, parties = None, X  # all rows come with the parties
        if X is None and y is not None:
            raise InvalidArgumentError("X must be given with y")
        if X is not None:
            check_matrix(X, needs_columns=True)
            y = checked_target(y, type(self).__name__)
        evals = named_evaluation_sets(eval_set, sample_weight_eval_set)
        params = {**self._parameters(), "objective": self._objective}
        if X is not None and not len(parties):
            model = self._train_alone(params, X, y, evals, verbose)
        else:
            members = parties if X is None else [(X, y), *parties]
            model = self._train_together(params, members, evals, verbose)
        self.model_ = model
        self.n_features_in_ = model.booster.num_features()
        if model.booster.feature_names:
            self.feature_names_in_ = np.array(model.booster.feature_names, dtype=object)
        if model.classes is not None:
            self.classes_ = model.classes
        return self

    def _train_alone(
        self, params: dict[str, Any], X: Any, y: Any, evals: Any, verbose: bool | int
    ) -> HorizontalModel:
        (check_classes if is_classifier(self) else check_finite)(y)
        warnings.warn(
            "fit was called without parties: the model is trained on this party's rows alone",
            NoPartiesWarning,
            stacklevel=4,
        )
        options = LoopOptions(
            self.n_estimators, self.early_stopping_rounds, verbose, self.callbacks or (), bool(evals)
        )
        return _in_turns(params, [(X, y)], options, evals, least=1)

    def _train_together(
        self, params: dict[str, Any], parties: Sequence[Any], evals: Any, verbose: bool | int
    ) -> HorizontalModel:
        check_arguments(self)
        if self.method == "exact":
            return train_exact(
                params,
                parties,
                self.n_estimators,
                cuts=self.cuts,
                min_rows_per_node=self.min_rows_per_node,
                min_parties=self.min_parties,
                evals=evals,
                early_stopping_rounds=self.early_stopping_rounds,
                verbose_eval=verbose,
                random_state=self.random_state,
            )
        return train_simfl(
            params,
            parties,
            self.n_estimators,
            n_hashes=self.n_hashes,
            min_similar=self.min_similar,
            known_features=self.known_features,
            hash_seed=self.random_state,
            evals=evals,
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=verbose,
            callbacks=self.callbacks or (),
        )

    def get_booster(self) -> xgboost.Booster:
        """Return the native model, which every party has.

        Returns
        -------
        xgboost.Booster
        """
        check_is_fitted(self, "model_")
        return self.model_.booster

    @property
    def feature_importances_(self) -> NDArray[np.float32]:
        """Fraction of all splits that are on each column, shape (n_features,); sums to 1.

        Gains, which XGBoost's estimators take by default, are removed from the models of SimFL.
        """
        booster = self.get_booster()
        splits = booster.get_score(importance_type="weight")
        names = booster.feature_names or [f"f{k}" for k in range(self.n_features_in_)]
        return normalised([float(np.sum(splits.get(name, 0.0))) for name in names])

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the native model, in the format that XGBoost chooses by the file's ending.

        Parameters
        ----------
        path : str or path
            File.
        """
        self.get_booster().save_model(path)

    def apply(self, X: Any, *, iteration_range: tuple[int, int] | None = None) -> NDArray[np.int32]:
        """Find the leaf that each row falls into in each tree.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features)
        iteration_range : (int, int), optional
            First round, and the one after the last; (0, 0) means all.  Those up to the best one by default.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_trees)
        """
        leaves = self._predict(X, iteration_range, pred_leaf=True)
        return leaves.reshape(len(leaves), -1).astype(np.int32)

    def _predict(self, X: Any, iteration_range: tuple[int, int] | None, **how: bool) -> NDArray[Any]:
        booster = self.get_booster()
        check_matrix(X, needs_columns=True)
        rows, names = read_rows(X, "X")
        if names and booster.feature_names and names != booster.feature_names:
            if missing := [name for name in booster.feature_names if name not in names]:
                raise InvalidDataError(f"X has no columns {missing}, which the model has; X has {names}")
            rows = rows[:, [names.index(name) for name in booster.feature_names]]
        self._check_width(rows.shape[1])
        data = xgboost.DMatrix(rows)
        if iteration_range is None:
            best = self.model_.best_iteration
            iteration_range = (0, 0 if best is None else best + 1)
        # The names are the model's, though a DMatrix does not take all of them.
        how |= {"validate_features": False}
        return np.asarray(booster.predict(data, iteration_range=iteration_range, **how))


@inherits_parameters()
class HorizontalXGBClassifier(ClassifierMixin, _HorizontalXGB):
    """XGBoost classifier of rows that several organisations hold, with the same columns.

    The guide to horizontal training says what each method hides from whom.  The objective is
    "binary:logistic", or "multi:softprob" if a party has more than two classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of all parties, sorted.

    See Also
    --------
    train_exact, train_simfl : The same as functions.
    VerticalXGBClassifier : For organisations with different columns of the same rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from xgb_fed import HorizontalXGBClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HorizontalXGBClassifier(n_estimators=20, max_depth=3, random_state=0)
    >>> model = model.fit(parties=[(X[:200], y[:200]), (X[200:400], y[200:400]), (X[400:], y[400:])])
    >>> model.predict_proba(X).shape
    (569, 2)
    """

    _objective = AUTO

    def predict_proba(self, X: Any, *, iteration_range: tuple[int, int] | None = None) -> NDArray[np.float32]:
        """Predict the probability of every class.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features)
        iteration_range : (int, int), optional
            First round, and the one after the last; (0, 0) means all.  Those up to the best one by default.

        Returns
        -------
        ndarray of float32, shape (n_rows, n_classes)

        Raises
        ------
        InvalidDataError
            If the columns are not the model's.
        """
        return class_probabilities(self._predict(X, iteration_range))

    def predict(
        self, X: Any, *, output_margin: bool = False, iteration_range: tuple[int, int] | None = None
    ) -> NDArray[Any]:
        """Predict the most probable class of every row.

        Parameters
        ----------
        X, iteration_range
            As for `predict_proba`.
        output_margin : bool, default=False
            Return margins instead.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels; or margins, of shape (n_rows, n_classes) if there are more than two classes.

        Raises
        ------
        InvalidDataError
            If the columns are not the model's.
        """
        if output_margin:
            return self._predict(X, iteration_range, output_margin=True)
        p = self.predict_proba(X, iteration_range=iteration_range)
        return np.asarray(self.classes_[p.argmax(axis=1)])


@inherits_parameters()
class HorizontalXGBRegressor(RegressorMixin, _HorizontalXGB):
    """XGBoost regressor of rows that several organisations hold, with the same columns.

    The guide to horizontal training says what each method hides from whom.  The objective is
    "reg:squarederror".

    See Also
    --------
    train_exact, train_simfl : The same as functions.
    VerticalXGBRegressor : For organisations with different columns of the same rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from xgb_fed import HorizontalXGBRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HorizontalXGBRegressor(n_estimators=20, max_depth=2, random_state=0)
    >>> model = model.fit(parties=[(X[:150], y[:150]), (X[150:300], y[150:300]), (X[300:], y[300:])])
    >>> model.predict(X).shape
    (442,)
    """

    _objective = "reg:squarederror"

    def predict(
        self, X: Any, *, output_margin: bool = False, iteration_range: tuple[int, int] | None = None
    ) -> NDArray[np.float32]:
        """Predict values.

        Parameters
        ----------
        X, iteration_range
            As for `HorizontalXGBClassifier.predict_proba`.
        output_margin : bool, default=False
            Without effect: with squared error, margins are values.

        Returns
        -------
        ndarray of float32, shape (n_rows,)

        Raises
        ------
        InvalidDataError
            If the columns are not the model's.
        """
        return self._predict(X, iteration_range, output_margin=output_margin)
