"""The base of the vertical estimators: parameters, predictions with the parties' help, files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import numpy as np
import xgboost
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.tables.frames import index_of, is_table
from gbdt_hosts.xgboost.evaluation import CustomMetric
from gbdt_hosts.xgboost.gradients import CustomObjective
from gbdt_parties.channel import Party
from gbdt_parties.errors import InvalidDataError
from xgb_fed.ciphers.base import Scheme
from xgb_fed.errors import InvalidArgumentError, NoPartiesWarning
from xgb_fed.estimators.base import FederatedXGBModel, named_evaluation_sets, normalised
from xgb_fed.estimators.conventions import check_matrix
from xgb_fed.vertical.explaining.contributions import Explanation
from xgb_fed.vertical.model.model import VerticalModel
from xgb_fed.vertical.protocol.row_names import RowIdentity
from xgb_fed.vertical.training.task import ActiveData
from xgb_fed.vertical.training.train import train


def objective_of(function: Callable[..., Any]) -> CustomObjective:
    """XGBoost's `obj` of ``function(y_true, y_pred)``, with `sample_weight` if there are weights."""

    def objective(margin: NDArray[Any], data: xgboost.DMatrix) -> Any:
        weight = data.get_weight()
        if weight.size:
            return function(data.get_label(), margin, sample_weight=weight)
        return function(data.get_label(), margin)

    return objective


def metric_of(function: Callable[..., Any]) -> CustomMetric:
    """XGBoost's `custom_metric` of a function of labels, predictions and, if there are any, `sample_weight`.

    ``function(y_true, y_pred)`` returns a number; its name is the metric's.
    """

    def metric(prediction: NDArray[Any], data: xgboost.DMatrix) -> tuple[str, float]:
        weight = data.get_weight()
        how = {"sample_weight": weight} if weight.size else {}
        return function.__name__, float(np.asarray(function(data.get_label(), prediction, **how)))

    return metric


A = TypeVar("A")

_UNWEIGHTED_BINS = "bins are quantiles of the rows as given, whatever they weigh, at every party"
EXPECTED_FAILED_CHECKS: Mapping[str, str] = {
    "check_sample_weight_equivalence_on_dense_data": _UNWEIGHTED_BINS,
    "check_sample_weight_equivalence_on_sparse_data": _UNWEIGHTED_BINS,
}
"""Checks of scikit-learn's suite that fail on purpose, each with its reason."""


class VerticalFitArguments(TypedDict, total=False):
    """Keywords of every `fit`; `VerticalXGBClassifier.fit` says what each is."""

    parties: Sequence[Party] | None
    sample_weight: Any
    eval_set: Sequence[tuple[Any, Any]] | None
    sample_weight_eval_set: Sequence[Any] | None
    verbose: bool | int
    checkpoint: str | os.PathLike[str] | None
    patience: float
    base_margin: Any
    xgb_model: Any


class VerticalXGBModel(FederatedXGBModel):
    """Base class of the vertical estimators.

    Parameters
    ----------
    cipher : Scheme, optional
        ``Paillier(2048)`` by default; ``OkamotoUchiyama()`` is faster.
    tree_mode : {"default", "mix", "layered"}, default="default"
        Which party searches for splits at which level.  "default" is lossless: the trees are those of XGBoost
        on the pooled columns.  In "mix", parties take turns in growing whole trees; in "layered", passive
        parties search at the first levels and the active party at the last.
    trees_per_party : int, default=1
        Number of rounds in a party's turn; for "mix" only.
    active_depth : int, default=2
        Number of last levels that are the active party's; for "layered" only.
    multi_output : bool, default=False
        Grow one tree per round with a value for each class in every leaf (SecureBoost-MO).  For
        "multi:softprob" only.
    goss : (float, float), optional
        Fractions of the rows, those with the largest gradients and others, that a tree is grown on.
    rows_by_index : bool, default=False
        Take each row's position in the parties' data from the index of the data frame X.  Cross-validation
        and grid search need that, because they pass on some of the rows.
    client : distributed.Client, optional
        Of the active party's own Dask cluster, whose workers then encrypt and decrypt.  It must use TLS,
        because they are sent the secret key.

    Attributes
    ----------
    n_features_in_ : int
        Number of the active party's columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X is a data frame.
    model_ : VerticalModel
        The active party's part of the model.
    parties_ : list of Party
        The passive parties; not pickled.
    """

    model_: VerticalModel
    _expected_failed_checks = EXPECTED_FAILED_CHECKS
    _rows_of_parties: RowIdentity | None = None

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        objective: str | Callable[..., Any] | None = None,
        cipher: Scheme | None = None,
        tree_mode: str = "default",
        trees_per_party: int = 1,
        active_depth: int = 2,
        multi_output: bool = False,
        goss: tuple[float, float] | None = None,
        rows_by_index: bool = False,
        client: Any = None,
        **others: Any,
    ) -> None:
        super().__init__(n_estimators, **others)
        self.objective = objective
        self.cipher = cipher
        self.tree_mode = tree_mode
        self.trees_per_party = trees_per_party
        self.active_depth = active_depth
        self.multi_output = multi_output
        self.goss = goss
        self.rows_by_index = rows_by_index
        self.client = client

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the parties, as a pickle of the model holds no party's rows, and the client."""
        kept_here = ("parties_", "_rows_of_parties")
        state = {name: value for name, value in super().__getstate__().items() if name not in kept_here}
        return {**state, "client": None}

    @contextmanager
    def _encryption(self) -> Iterator[Scheme | None]:
        """The cipher, on the workers of a cluster if there is a client."""
        if self.client is None:
            yield self.cipher
            return
        # Loaded where it is asked for: Dask is optional.
        with import_module("xgb_fed.dask").ClusterCipher(self.client, self.cipher) as cipher:
            yield cipher

    def _positions(self, X: Any) -> Any:
        """Return the index of a data frame as the rows' positions in the parties' data, if asked for."""
        if not self.rows_by_index:
            return None
        index = index_of(X)
        if index is None:
            raise InvalidDataError("rows_by_index=True needs a data frame: its index gives the row positions")
        return index.to_numpy()

    def _begin(self, given: VerticalFitArguments) -> list[tuple[tuple[Any, Any, Any], str]]:
        """Forget what was fitted, but a model to continue; gives evaluation sets as ``((X, y, weight),
        name)``.
        """
        given["xgb_model"] = getattr(given["xgb_model"], "model_", given["xgb_model"])
        self._forget()
        return named_evaluation_sets(given["eval_set"], given["sample_weight_eval_set"])

    def _fit(
        self,
        X: Any,
        y: Any,
        given: VerticalFitArguments,
        eval_set: Sequence[tuple[tuple[Any, Any, Any], str]],
        objective: str,
        num_class: int | None,
        eval_info: Sequence[Mapping[str, Any]],
        **info: Any,
    ) -> None:
        """Train, and set attributes at the end; `info`, `eval_info` are other arguments of `ActiveData`."""
        parties, checkpoint = given["parties"], given["checkpoint"]
        if parties is None:
            warnings.warn(
                "fit was called without parties: the model is trained on this party's columns alone",
                NoPartiesWarning,
                stacklevel=4,
            )
        parties = list(parties or ())
        if X is not None:
            check_matrix(X, needs_columns=not parties)
        others = ("tree_mode", "trees_per_party", "active_depth", "multi_output", "goss")
        params = {**self._parameters(*others), "objective": objective, "num_class": num_class}
        if callable(self.eval_metric):
            params["eval_metric"] = None
        evals = [
            (ActiveData(*rows, **own), name) for (rows, name), own in zip(eval_set, eval_info, strict=True)
        ]
        with self._encryption() as cipher:
            model = train(
                params,
                ActiveData(
                    X, y, given["sample_weight"], self._positions(X), base_margin=given["base_margin"], **info
                ),
                parties,
                self.n_estimators,
                evals=evals,
                cipher=cipher,
                early_stopping_rounds=self.early_stopping_rounds,
                verbose_eval=given["verbose"],
                callbacks=self.callbacks or (),
                checkpoint=None if checkpoint is None else Path(checkpoint),
                patience=given["patience"],
                obj=objective_of(self.objective) if callable(self.objective) else None,
                custom_metric=metric_of(self.eval_metric) if callable(self.eval_metric) else None,
                xgb_model=given["xgb_model"],
            )
        self._keep(model, parties)
        columns = model.own_columns(X) if model.splits.names else None
        self._rows_of_parties = None if columns is None else RowIdentity.of(X, columns)
        if is_table(X):
            self.feature_names_in_ = np.array(model.splits.names, dtype=object)

    def _keep(self, model: VerticalModel, parties: Sequence[Party]) -> None:
        self.model_ = model
        self.parties_ = list(parties)
        self.n_features_in_ = len(model.splits.names)
        self._rows_of_parties = None

    @property
    def feature_importances_(self) -> NDArray[np.float32]:
        """Total gain of each column of the active party, then of each passive party as a whole; sums to 1."""
        check_is_fitted(self, "model_")
        by_name = self.model_.importances("total_gain")
        own = [by_name.get(name, 0.0) for name in self.model_.splits.names]
        others = [
            sum(gain for name, gain in by_name.items() if name.startswith(f"{party}: split "))
            for party in self.model_.parties
        ]
        return normalised(own + others)

    def _predict(
        self, X: Any, parties: Sequence[Party] | None, iteration_range: tuple[int, int] | None, **how: Any
    ) -> NDArray[Any]:
        return self._asked(partial(VerticalModel.predict, **how), X, parties, iteration_range)

    def _asked(
        self,
        ask: Callable[..., A],
        X: Any,
        parties: Sequence[Party] | None,
        iteration_range: tuple[int, int] | None,
    ) -> A:
        """Ask the model about rows by one of its methods, with all arguments checked."""
        check_is_fitted(self, "model_")
        if X is not None:
            check_matrix(X, needs_columns=False)
            if not is_table(X):  # of which the model names the missing and the unknown
                self._check_width(X.shape[1] if hasattr(X, "shape") else np.asarray(X).shape[1])
        has_kept = parties is None and bool(self.model_.parties)
        rows = self._checked_rows(X) if has_kept and not self.rows_by_index else None
        answer = ask(
            self.model_,
            X,
            parties=self._parties(parties),
            iteration_range=iteration_range,
            rows=self._positions(X),
        )
        if rows is not None:
            self._rows_of_parties = rows
        return answer

    def _checked_rows(self, X: Any) -> RowIdentity | None:
        """The rows of a question to the parties that are kept, which must be those of the one before.

        These parties have their columns of certain rows: those of `fit`, or, after `load_model`, those that
        were predicted first.
        """
        columns = self.model_.own_columns(X)
        if columns is None:
            return None
        rows = RowIdentity.of(X, columns)
        if self._rows_of_parties is not None:
            self._rows_of_parties.check(rows, "X")
        return rows

    def _parties(self, parties: Sequence[Party] | None) -> Sequence[Party]:
        if parties is None and not hasattr(self, "parties_"):
            if not self.model_.parties:
                return ()
            raise InvalidArgumentError("parties must be given: a pickled model does not hold them")
        return self.parties_ if parties is None else parties

    def apply(
        self,
        X: Any,
        parties: Sequence[Party] | None = None,
        *,
        iteration_range: tuple[int, int] | None = None,
    ) -> NDArray[np.int32]:
        """Find the leaf that each row falls into in each tree.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), or None
            The active party's columns.
        parties : sequence of Party, optional
            Passive parties with their columns of these rows.  Those of `fit` by default.
        iteration_range : (int, int), optional
            First round, and the one after the last; (0, 0) means all.  Those up to the best one by default.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_trees)
        """
        return self._predict(X, parties, iteration_range, pred_leaf=True)

    def explain(
        self,
        X: Any,
        parties: Sequence[Party] | None = None,
        *,
        iteration_range: tuple[int, int] | None = None,
    ) -> Explanation:
        """Find what each column contributes to the margin of every row.

        The Tree SHAP values are those of XGBoost's ``pred_contribs=True`` on the pooled columns.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), or None
            The active party's columns.
        parties : sequence of Party, optional
            Passive parties with their columns of these rows; they must consent to explanations.  Those of
            `fit` by default.
        iteration_range : (int, int), optional
            First round, and the one after the last; (0, 0) means all.  Those up to the best one by default.

        Returns
        -------
        Explanation

        Raises
        ------
        ConsentError
            Naming a party that does not consent to explanations.

        See Also
        --------
        VerticalModel.decision_paths : The nodes that each row visits.
        """
        return self._asked(VerticalModel.explain, X, parties, iteration_range)

    def get_score(
        self, parties: Sequence[Party] | None = None, *, importance_type: str = "weight"
    ) -> dict[str, float]:
        """Find the importance of every column that splits, as the booster's `get_score` gives it.

        Parameters
        ----------
        parties : sequence of Party, optional
            Passive parties, which must consent to explanations.  Those of `fit` by default.
        importance_type : {"weight", "gain", "cover", "total_gain", "total_cover"}, default="weight"

        Returns
        -------
        dict
            By the active party's column names, ``"bank: column 3"``, or ``"bank"`` for all of its columns.

        Raises
        ------
        ConsentError
            Naming a party that does not consent to explanations.
        """
        check_is_fitted(self, "model_")
        return self.model_.get_score(self._parties(parties), importance_type=importance_type)

    def export_booster(self, parties: Sequence[Party] | None = None) -> xgboost.Booster:
        """Make a native model, if every party consents to reveal its splits.

        Parameters
        ----------
        parties : sequence of Party, optional
            Those of `fit` by default.

        Returns
        -------
        xgboost.Booster

        Raises
        ------
        ConsentError
            If a party does not consent.

        See Also
        --------
        VerticalModel.export_booster
        """
        check_is_fitted(self, "model_")
        return self.model_.export_booster(self._parties(parties))

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the active party's part of the model; each passive party writes its own.

        Parameters
        ----------
        path : str or path
            Directory; made if need be.
        """
        check_is_fitted(self, "model_")
        self.model_.save(Path(path))

    def load_model(self, path: str | os.PathLike[str], parties: Sequence[Party] = ()) -> None:
        """Read what `save_model` wrote.

        Parameters
        ----------
        path : str or path
            Directory.
        parties : sequence of Party
            Passive parties that hold the other splits, for predictions.

        Raises
        ------
        CorruptDataError
            If the directory does not hold a model of this kind of estimator.
        """
        model = VerticalModel.load(Path(path))
        self._check_loaded(model, Path(path))
        self._keep(model, parties)

    def _check_loaded(self, model: VerticalModel, directory: Path) -> None:
        raise NotImplementedError


def margins_of_sets(base_margins: Sequence[Any] | None, n_sets: int) -> list[dict[str, Any]]:
    """Name every evaluation set's margins; `InvalidArgumentError` if only some sets have them."""
    own = [None] * n_sets if base_margins is None else list(base_margins)
    if len(own) != n_sets:
        raise InvalidArgumentError(f"base_margin_eval_set has {len(own)} entries, eval_set has {n_sets}")
    return [{"base_margin": margin} for margin in own]
