"""The scikit-learn classifier over columns that several parties hold of the same rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_commons.sealed import read_sealed, write_sealed
from gbdt_parties.channel import Party
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.labels import codes_of, encode_labels
from xgb_fed.boosting.objectives import CLASS_OBJECTIVES, PROBABILITIES, SOFTMAX
from xgb_fed.errors import CorruptDataError, UnsupportedParameterError
from xgb_fed.estimators.base import class_probabilities
from xgb_fed.estimators.conventions import check_classes, checked_target
from xgb_fed.estimators.habits import COLUMNS_APART, refuses_habits
from xgb_fed.vertical.estimators.base import VerticalFitArguments, VerticalXGBModel, margins_of_sets
from xgb_fed.vertical.model.model import VerticalModel

if TYPE_CHECKING:
    from typing_extensions import Unpack

CLASSES_FILE = "active.classes.json"
_MAX_CLASS_BYTES = 1 << 16
"""Bytes of a class at most, as a file says it."""


@inherits_parameters()
class VerticalXGBClassifier(ClassifierMixin, VerticalXGBModel):
    """XGBoost classifier over columns that several organisations hold of the same rows.

    One party, the active one, has the labels and calls `fit`; the others answer with encrypted sums.

    Parameters
    ----------
    objective : str or callable, optional
        "binary:logistic", "binary:logitraw" or "binary:hinge" for two classes, "multi:softprob" or
        "multi:softmax" for any number; chosen by the number of classes by default.  A function of labels and
        margins that returns gradients and hessians, which must not be negative, takes its place.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.

    See Also
    --------
    train : The same as a function.
    HorizontalXGBClassifier : For organisations with different rows of the same columns.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from xgb_fed import LocalParty, OkamotoUchiyama, VerticalXGBClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> bank = LocalParty(X[:, 10:], "bank")
    >>> model = VerticalXGBClassifier(n_estimators=2, max_depth=2, max_bin=8, cipher=OkamotoUchiyama())
    >>> model = model.fit(X[:, :10], y, parties=[bank])
    >>> model.predict_proba(X[:, :10]).shape
    (569, 2)
    """

    @refuses_habits(COLUMNS_APART, given=VerticalFitArguments)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        base_margin_eval_set: Sequence[Any] | None = None,
        **given: Unpack[VerticalFitArguments],
    ) -> VerticalXGBClassifier:
        """Train with the passive parties.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), or None
            The active party's columns.
        y : array-like of shape (n_rows,)
            Labels of any kind, of at least two classes.
        parties : sequence of Party
            Passive parties, with their columns of the same rows in the same order.  Left out, the model is
            trained on this party's columns alone, with a `NoPartiesWarning`.
        sample_weight : array-like of shape (n_rows,), optional
        eval_set : sequence of (X, y), optional
            Rows to compute metrics on; passive parties hold their columns of these rows too.
        sample_weight_eval_set : sequence of array-like, optional
            Weights of the rows of each evaluation set.
        verbose : bool or int, default=False
            Whether to print the metrics, or after how many rounds each time.
        checkpoint : str or path, optional
            Directory for the progress, from which the same call continues after a crash; see `train`.
        patience : float, default=0
            Seconds to wait for a party that is unavailable; see `train`.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margins before the first tree.
        base_margin_eval_set : sequence of array-like, optional
            Margins of each evaluation set's rows before the first tree.
        xgb_model : VerticalModel, estimator or xgboost.Booster, optional
            A model to continue, as in `train`; of a classifier, one of the same classes.

        Returns
        -------
        self

        Raises
        ------
        InvalidArgumentError, UnsupportedParameterError
            For parameters that cannot be trained with; the text names them.
        InvalidDataError
            For rows or labels that cannot be trained on.
        RowMismatchError
            If the index of a data frame names other rows than a party's, or another order.
        ProtocolError
            If a party refuses, or breaks the protocol.
        PartyUnavailableError
            If a party is dead or silent, and not back within `patience` seconds.
        """
        sets = self._begin(given)
        if not (self.objective is None or callable(self.objective) or self.objective in CLASS_OBJECTIVES):
            raise UnsupportedParameterError(
                f"objective={self.objective!r} must be one of {', '.join(CLASS_OBJECTIVES)} for a classifier"
            )
        y = checked_target(y, type(self).__name__)
        check_classes(y)
        classes, codes = encode_labels(y)
        binary = len(classes) == 2
        objective = self.objective
        if objective is None or callable(objective):
            objective = "binary:logistic" if binary else "multi:softprob"
        if objective not in SOFTMAX and not binary:
            raise InvalidDataError(f"y has {len(classes)} classes; objective={objective!r} is for 2")
        coded = [
            ((Xe, codes_of(classes, ye, f"eval_set[{k}]"), weight), name)
            for k, ((Xe, ye, weight), name) in enumerate(sets)
        ]
        self._fit(
            X,
            codes,
            given,
            coded,
            objective,
            len(classes) if objective in SOFTMAX else None,
            margins_of_sets(base_margin_eval_set, len(sets)),
        )
        self.classes_ = classes
        return self

    def predict_proba(
        self,
        X: Any,
        parties: Sequence[Party] | None = None,
        *,
        iteration_range: tuple[int, int] | None = None,
        hide_paths: bool = False,
        base_margin: Any = None,
    ) -> NDArray[np.float32]:
        """Predict the probability of every class.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), or None
            The active party's columns.
        parties : sequence of Party, optional
            Passive parties with their columns of these rows (`LocalParty.with_rows`).  Those of `fit` by
            default, and then X must hold the rows of `fit`.
        iteration_range : (int, int), optional
            First round, and the one after the last; (0, 0) means all.  Those up to the best one by default.
        hide_paths : bool, default=False
            Do not let passive parties learn which rows reach which split.  They must consent to explanations,
            because the active party then learns every row's side at each of their splits.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margins before the first tree.

        Returns
        -------
        ndarray of float32, shape (n_rows, n_classes)
        """
        check_is_fitted(self, "model_")
        if self.model_.objective.name not in PROBABILITIES:
            raise UnsupportedParameterError(
                f"objective={self.model_.objective.name!r} has no probabilities; "
                f"{' and '.join(PROBABILITIES)} have"
            )
        return class_probabilities(
            self._predict(X, parties, iteration_range, hide_paths=hide_paths, base_margin=base_margin)
        )

    def predict(
        self,
        X: Any,
        parties: Sequence[Party] | None = None,
        *,
        output_margin: bool = False,
        iteration_range: tuple[int, int] | None = None,
        hide_paths: bool = False,
        base_margin: Any = None,
    ) -> NDArray[Any]:
        """Predict the most probable class of every row.

        Parameters
        ----------
        X, parties, iteration_range, hide_paths, base_margin
            As for `predict_proba`.
        output_margin : bool, default=False
            Return margins instead.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels; or margins, of shape (n_rows, n_classes) for "multi:softprob".
        """
        p = self._predict(
            X,
            parties,
            iteration_range,
            output_margin=output_margin,
            hide_paths=hide_paths,
            base_margin=base_margin,
        )
        if output_margin:
            return p
        if self.model_.objective.name == "multi:softmax":
            return np.asarray(self.classes_[p.astype(np.intp)])
        # As XGBoost's classifier, which takes logitraw's margins for probabilities here.
        return np.asarray(self.classes_[p.argmax(axis=1) if p.ndim == 2 else (p > 0.5).astype(np.intp)])

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the active party's part of the model and its classes; each passive party writes its own part.

        Parameters
        ----------
        path : str or path
            Directory; made if need be.
        """
        super().save_model(path)
        content = {"dtype": self.classes_.dtype.str, "classes": self.classes_.tolist()}
        write_sealed(Path(path) / CLASSES_FILE, content)

    def _check_loaded(self, model: VerticalModel, directory: Path) -> None:
        path = directory / CLASSES_FILE
        try:
            content = read_sealed(path)
            dtype = np.dtype(content["dtype"])
            if dtype.itemsize > _MAX_CLASS_BYTES or not isinstance(content["classes"], list):
                raise ValueError("classes")
            classes = np.array(content["classes"], dtype=dtype)
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            raise CorruptDataError(f"{path} does not hold a classifier's classes") from None
        if classes.shape != (max(2, model.n_classes),):
            raise CorruptDataError(f"{path} does not name the model's classes")
        self.classes_ = classes
