"""scikit-learn estimators of private training on the columns of two parties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_commons.store import MemoryStore
from gbdt_parties.identity.certificates import TLS
from lgb_dp.data.arguments import checked_label_bounds
from lgb_dp.data.classes import as_labels, class_numbers, known_classes
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.estimators.habits import COLUMNS_APART, refuses_habits
from lgb_dp.estimators.of_parties import PartiesModel
from lgb_dp.estimators.rows import as_matrix, as_target
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.predicting import predicted
from lgb_dp.vertical.prediction.answering import AskedRows
from lgb_dp.vertical.report import MaskedTraffic
from lgb_dp.vertical.train import TREES_PER_ROUND, train

if TYPE_CHECKING:
    from typing_extensions import Unpack

AUTOMATIC_TREES = 200
"""Trees of an estimator: every one takes time and bytes for each row, and noise is that of two parties."""


class ColumnFitArguments(TypedDict, total=False):
    """Keywords of both `fit`s, which say what each is."""

    ids: Sequence[str] | None
    bounds: Any
    categories: Any
    name: str | None
    tls: TLS | str | Path | None
    allowed: Sequence[str] | None
    trust_authority: bool
    checkpoint: str | Path | None
    folder: str | Path | None
    budget: tuple[float, float] | None
    auditable: bool
    patience: float


@inherits_parameters(before="n_jobs")
class VerticalDPLGBMModel(PartiesModel):
    """Base class of the private classifier and regressor on the columns of two parties.

    Answers about rows, which are outside of ε, are kept with the fit, and so are in its pickles: to publish
    the private model, save `booster_`.

    Parameters
    ----------
    epsilon, delta : float
        Budget, as for `lgb_dp.NewtonBoost`, towards the world and towards the other party; `privacy_` states
        who is protected from whom.
    n_estimators : "auto" or int
        Trees of both parties together; 200 unless given.  Of three and more classes each has as many.
    learning_rate : "auto" or float
        Times `trees_per_round` at most 1.5.
    max_depth : "auto" or int
        Levels of splits, 1 to 6; trees are complete.
    trees_per_round : int
        Trees that share gradients.

    Attributes
    ----------
    booster_ : DPBooster
        A native LightGBM model of the columns of both parties, with the guarantee inside.
    traffic_ : MaskedTraffic
        Messages and bytes in either direction.
    """

    traffic_: MaskedTraffic
    _automatic_trees = AUTOMATIC_TREES

    def __init__(
        self, epsilon: float = 1.0, *, trees_per_round: int = TREES_PER_ROUND, **others: Any
    ) -> None:
        super().__init__(epsilon, **others)
        self.trees_per_round = trees_per_round

    def _train(
        self, X: Any, y: Any, objective: Mapping[str, Any], run: dict[str, Any], **declared: Any
    ) -> None:
        declared.update((name, run.pop(name)) for name in ("bounds", "categories"))
        rows = Dataset(as_matrix(X), y, label_overflow="clip", max_bin=255, spacing="mixed", **declared)
        traffic = MaskedTraffic()
        booster = train(
            self._parameters(**objective),
            rows,
            self._rounds(),
            callbacks=self._trainers(),
            trees_per_round=self.trees_per_round,
            traffic=traffic,
            **run,
        )
        self.booster_, self.traffic_, self._answers = booster, traffic, MemoryStore()

    def _asked(self, X: Any, parties: Any, ids: Sequence[str] | None, answer: str) -> NDArray[np.float64]:
        """Answers about rows whose other columns a party has; they are kept as long as this fit is."""
        check_is_fitted(self, "booster_")
        return predicted(self.booster_, as_matrix(X), parties, answer, self._answers, ids)


@inherits_parameters()
class VerticalDPLGBMClassifier(ClassifierMixin, VerticalDPLGBMModel):
    """Differentially private LightGBM classifier on the columns of two parties.

    Three and more classes are each told from all others, by LightGBM's objective "multiclassova".
    """

    classes_: NDArray[Any]

    @refuses_habits(COLUMNS_APART, given=ColumnFitArguments)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        parties: Sequence[Any],
        classes: Sequence[Any] | None = None,
        **given: Unpack[ColumnFitArguments],
    ) -> VerticalDPLGBMClassifier:
        """Train.

        Parameters
        ----------
        X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
            Columns of the party with the labels.
        y : array-like, shape (n_rows,)
        parties : sequence of ColumnParty or RemoteParty
            The other party, one, with the same rows in the same order, unless both have ids.
        ids : sequence of str, optional
            Of the rows of `X`: those that the other party has, too, are trained on.
        classes : sequence, optional
            All possible labels, public, at most 64; 0 and 1 unless given.
        bounds, categories
            Public knowledge of the columns of `X`, as for `lgb_dp.Dataset`.
        name, tls, allowed, trust_authority, checkpoint, folder, budget, auditable, patience
            As of `lgb_dp.vertical.train`: this party's identity, which a party behind a server needs, its
            progress, and its ledger of all fits.

        Raises
        ------
        InvalidArgumentError
            If there are fewer classes than two, or more than 64.
        UnsupportedParameterError
            If there are other parties than one.
        """
        known, _ = known_classes(np.empty(0), [0, 1] if classes is None else classes)
        labels = class_numbers(as_labels(as_target(y, type(self).__name__)), known)
        objective: dict[str, Any] = {"objective": "binary"}
        if len(known) > 2:
            objective = {"objective": "multiclassova", "num_class": len(known)}
        self._train(X, labels, objective, {**given, "parties": parties})
        self.classes_ = known
        return self

    def predict_proba(
        self,
        X: Any,
        *,
        parties: Sequence[ColumnParty | AskedRows] | None = None,
        ids: Sequence[str] | None = None,
        answer: str = "rounded",
    ) -> NDArray[np.float64]:
        """Class probabilities, shape (n_rows, n_classes).

        Those of three and more classes are the model's, each against all others, over their sum.

        Parameters
        ----------
        X : ndarray or table, shape (n_rows, n_features)
            Columns of both parties, those of the party with the labels first; with `parties` those alone.
        parties : sequence, optional
            The other party's rows, ``[bank.with_rows(X_bank, ids=ids)]``: see `lgb_dp.vertical.predict`, and
            there the limits.  Probabilities are then rounded.  They are outside of ε.  A model of three and
            more classes predicts where all columns are, without `parties`.
        ids : sequence of str, optional
            Of the rows of `X`, in the other party's order; needed for rows with ids behind a server.
        answer : {"rounded", "point", "score"}
            Asked of the party; the latter two by its consent.
        """
        if parties is None:
            result = self._predicted(X)
        elif answer == "label":
            raise InvalidArgumentError("answer='label' has no probabilities; predict gives labels")
        else:
            result = self._asked(X, parties, ids, answer)
        if result.ndim == 2:
            whole = result.sum(axis=1, keepdims=True)
            # Scores far below zero have probabilities that are 0 in float64, of all classes at worst.
            equal = np.full_like(result, 1 / result.shape[1])
            return np.asarray(np.divide(result, whole, out=equal, where=whole > 0))
        return np.column_stack([1 - result, result])

    def predict(
        self,
        X: Any,
        *,
        parties: Sequence[ColumnParty | AskedRows] | None = None,
        ids: Sequence[str] | None = None,
        answer: str = "label",
    ) -> NDArray[Any]:
        """Most probable classes, shape (n_rows,).

        Parameters
        ----------
        X, parties, ids
            As for `predict_proba`.  A row has one question by default: `predict_proba`, asked first, answers
            this one, too, but not the other way round.
        answer : {"label", "rounded", "point", "score"}
            Asked of the party; the latter two by its consent.
        """
        if parties is None or answer != "label":
            chosen = self.predict_proba(X, parties=parties, ids=ids, answer=answer).argmax(axis=1)
        else:
            chosen = self._asked(X, parties, ids, answer).astype(np.int64)
        return np.asarray(self.classes_[chosen])


@inherits_parameters()
class VerticalDPLGBMRegressor(RegressorMixin, VerticalDPLGBMModel):
    """Differentially private LightGBM regressor on the columns of two parties."""

    @refuses_habits(COLUMNS_APART, given=ColumnFitArguments)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        parties: Sequence[Any],
        label_bounds: tuple[float, float] | None = None,
        **given: Unpack[ColumnFitArguments],
    ) -> VerticalDPLGBMRegressor:
        """Train.

        Parameters
        ----------
        X, parties, ids, bounds, categories
            As for `VerticalDPLGBMClassifier.fit`.
        y : array-like, shape (n_rows,)
        label_bounds : (low, high)
            Public bounds of the targets; required.
        name, tls, allowed, trust_authority, checkpoint, folder, budget, auditable, patience
            As for `VerticalDPLGBMClassifier.fit`.
        """
        if label_bounds is None:
            raise InvalidArgumentError("label_bounds must be given: bounds read from the targets would leak")
        low_and_high = checked_label_bounds(label_bounds)
        self._train(
            X,
            as_target(y, type(self).__name__),
            {"objective": "regression"},
            {**given, "parties": parties},
            label_bounds=low_and_high,
        )
        return self

    def predict(
        self,
        X: Any,
        *,
        parties: Sequence[ColumnParty | AskedRows] | None = None,
        ids: Sequence[str] | None = None,
        answer: str = "rounded",
    ) -> NDArray[np.float64]:
        """Predicted targets, shape (n_rows,).

        Parameters
        ----------
        X, parties, ids, answer
            As for `VerticalDPLGBMClassifier.predict_proba`; with `parties`, targets are rounded to a
            thousandth of `label_bounds`.
        """
        return self._predicted(X) if parties is None else self._asked(X, parties, ids, answer)
