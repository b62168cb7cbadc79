"""The base of the scikit-learn estimators that train on data of several parties."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.checks import Auto, checked_integer
from lgb_dp.errors import InvalidArgumentError, NotPrivateWarning
from lgb_dp.estimators.enclosing_fits import surroundings
from lgb_dp.estimators.rows import as_matrix
from lgb_dp.newton.trainer import NewtonBoost


class PartiesModel(BaseEstimator):
    """Base class of the private estimators on data of several parties.

    Parameters
    ----------
    epsilon, delta : float
        Budget, as for `lgb_dp.NewtonBoost`.
    n_estimators : "auto" or int
        Boosting iterations.
    learning_rate : "auto" or float
        In (0, 1].
    max_depth : "auto" or int
        Levels of splits; trees are complete.
    reg_lambda : float
        L2 regularisation of leaf values.
    n_jobs : int
        Threads; 0 means all available processors.

    Attributes
    ----------
    booster_ : DPBooster
        A native LightGBM model, with the guarantee inside.
    """

    booster_: DPBooster
    _automatic_trees: int
    """Trees of an estimator that leaves their number open."""

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        n_estimators: int | Auto = "auto",
        learning_rate: float | Auto = "auto",
        max_depth: int | Auto = "auto",
        reg_lambda: float = 0.1,
        n_jobs: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.reg_lambda = reg_lambda
        self.n_jobs = n_jobs

    def _parameters(self, **objective: Any) -> dict[str, Any]:
        """Parameters for `lightgbm.train`; those left open are the trainer's to choose."""
        automatic = {"learning_rate": self.learning_rate, "max_depth": self.max_depth}
        chosen = {name: value for name, value in automatic.items() if value != "auto"}
        return {**objective, **chosen, "lambda_l2": self.reg_lambda, "num_threads": self.n_jobs}

    def _rounds(self) -> int:
        rounds = self._automatic_trees if self.n_estimators == "auto" else self.n_estimators
        return checked_integer("n_estimators", rounds, 1)

    def _trainers(self) -> list[NewtonBoost]:
        """The trainer of a fit, unless its callers do what no party's report covers (`InvalidArgumentError`).

        They must neither fit several models nor learn from rows themselves.
        """
        around = surroundings(self)
        if around.leaks:
            raise InvalidArgumentError(f"training of several parties must be private: {around.leaks[0]}")
        for text in around.notes:
            warnings.warn(text, NotPrivateWarning, stacklevel=5)
        return [NewtonBoost(self.epsilon, self.delta)]

    @property
    def privacy_(self) -> PrivacyReport:
        """The guarantee of the model."""
        check_is_fitted(self, "booster_")
        return self.booster_.privacy

    @property
    def n_features_in_(self) -> int:
        """Number of features of the model."""
        check_is_fitted(self, "booster_")
        return int(self.booster_.num_feature())

    def _predicted(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "booster_")
        return np.asarray(self.booster_.predict(as_matrix(X)))
