"""scikit-learn estimators of private training across organisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_parties.traffic import Traffic
from lgb_dp.data.arguments import checked_label_bounds
from lgb_dp.data.classes import as_labels, class_numbers, known_classes
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError
from lgb_dp.estimators.habits import ROWS_APART, refuses_habits
from lgb_dp.estimators.of_parties import PartiesModel
from lgb_dp.estimators.rows import as_matrix
from lgb_dp.estimators.survival import OfTimes, checked_times
from lgb_dp.federated.coordinator import train
from lgb_dp.federated.party import Party
from lgb_dp.losses.survival import AFT
from lgb_dp.newton.settings import AUTOMATIC_ROUNDS


@inherits_parameters(before="n_jobs")
class FederatedDPLGBMModel(PartiesModel):
    """Base class of the federated private classifier and regressor.

    Parameters
    ----------
    epsilon, delta : float
        Budget, as for `lgb_dp.NewtonBoost`, of what up to `colluding` parties learn about a row of another.
    min_parties : int, optional
        Parties that must take part in every sum; one more than `colluding` by default.
    colluding : int
        Parties whose noise counts as known.
    max_attempts : int, optional
        Releases that the noise is planned for; 6 per cent more than the iterations by default.
    parties_per_person : int
        Parties that may have rows of one person.

    Attributes
    ----------
    traffic_ : Traffic
        Messages and bytes by sender.
    """

    traffic_: Traffic
    _automatic_trees = AUTOMATIC_ROUNDS

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        min_parties: int | None = None,
        colluding: int = 1,
        max_attempts: int | None = None,
        parties_per_person: int = 1,
        **others: Any,
    ) -> None:
        super().__init__(epsilon, **others)
        self.min_parties = min_parties
        self.colluding = colluding
        self.max_attempts = max_attempts
        self.parties_per_person = parties_per_person

    def _train(self, parties: Sequence[Any], objective: dict[str, Any]) -> None:
        traffic = Traffic()
        booster = train(
            self._parameters(**objective),
            parties,
            self._rounds(),
            callbacks=self._trainers(),
            min_parties=self.min_parties,
            colluding=self.colluding,
            max_attempts=self.max_attempts,
            parties_per_person=self.parties_per_person,
            traffic=traffic,
        )
        self.booster_, self.traffic_ = booster, traffic


def _as_parties(parties: Any, encode: Any, **declared: Any) -> list[Any]:
    """Parties, and pairs of rows and labels as parties of this process."""
    if not isinstance(parties, Sequence):
        raise ArgumentTypeError(f"parties must be a sequence, got {type(parties).__name__}")
    given = {name: value for name, value in declared.items() if value is not None}
    found: list[Any] = []
    for number, one in enumerate(parties):
        if isinstance(one, tuple) and len(one) == 2:
            X, y = one
            one = Party(as_matrix(X), encode(y), name=f"party {number}", **given)
        elif given:
            raise InvalidArgumentError(f"{next(iter(given))} is for pairs (X, y); a Party has its own")
        found.append(one)
    return found


@inherits_parameters()
class FederatedDPLGBMClassifier(ClassifierMixin, FederatedDPLGBMModel):
    """Differentially private LightGBM classifier of rows that several organisations have."""

    classes_: NDArray[Any]

    @refuses_habits(ROWS_APART)
    def fit(
        self,
        parties: Sequence[Any],
        *,
        classes: Sequence[Any] | None = None,
        bounds: Any = None,
        categories: Any = None,
    ) -> FederatedDPLGBMClassifier:
        """Train.

        Parameters
        ----------
        parties : sequence of Party or (X, y)
            A `Party` has the numbers of classes, from 0 on, as labels; pairs are for one process.
        classes : sequence, optional
            All possible labels, public; 0 and 1 unless given.
        bounds, categories
            Public knowledge of the features, for pairs.
        """
        known, _ = known_classes(np.empty(0), [0, 1] if classes is None else classes)
        members = _as_parties(
            parties, lambda y: class_numbers(as_labels(y), known), bounds=bounds, categories=categories
        )
        objective: dict[str, Any] = {"objective": "binary"}
        if len(known) > 2:
            objective = {"objective": "multiclass", "num_class": len(known)}
        self._train(members, objective)
        self.classes_ = known
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, for which no other party is needed.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
        """
        result = self._predicted(X)
        return result if result.ndim == 2 else np.column_stack([1 - result, result])

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)

        Returns
        -------
        ndarray, shape (n_rows,)
            Members of `classes_`.
        """
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


@inherits_parameters()
class FederatedDPLGBMRegressor(RegressorMixin, FederatedDPLGBMModel):
    """Differentially private LightGBM regressor of rows that several organisations have."""

    _read_labels: Callable[[Any], NDArray[Any]] = staticmethod(np.asarray)

    def _objective(self) -> dict[str, Any]:
        return {"objective": "regression"}

    @refuses_habits(ROWS_APART)
    def fit(
        self,
        parties: Sequence[Any],
        *,
        label_bounds: tuple[float, float] | None = None,
        bounds: Any = None,
        categories: Any = None,
    ) -> FederatedDPLGBMRegressor:
        """Train.

        Parameters
        ----------
        parties : sequence of Party or (X, y)
            Pairs are for one process.
        label_bounds : (low, high), optional
            Public bounds of the targets, for pairs, which need them.
        bounds, categories
            Public knowledge of the features, for pairs.
        """
        members = _as_parties(
            parties,
            self._read_labels,
            label_bounds=checked_label_bounds(label_bounds),
            bounds=bounds,
            categories=categories,
        )
        self._train(members, self._objective())
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted targets, for which no other party is needed.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows,)
        """
        return self._predicted(X)


@inherits_parameters()
class FederatedDPLGBMSurvival(OfTimes, FederatedDPLGBMRegressor):
    """Differentially private time to an event, of rows that several organisations have."""

    _read_labels = staticmethod(checked_times)

    def _objective(self) -> dict[str, Any]:
        return {"objective": AFT(self.distribution, self.scale)}
