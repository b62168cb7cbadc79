"""The scikit-learn regressor over columns that several parties hold of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_parties.channel import Party
from xgb_fed.boosting.objectives import REGRESSIONS
from xgb_fed.errors import CorruptDataError, UnsupportedParameterError
from xgb_fed.estimators.conventions import checked_target
from xgb_fed.estimators.habits import COLUMNS_APART, refuses_habits
from xgb_fed.vertical.estimators.base import VerticalFitArguments, VerticalXGBModel, margins_of_sets
from xgb_fed.vertical.model.model import VerticalModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


@inherits_parameters()
class VerticalXGBRegressor(RegressorMixin, VerticalXGBModel):
    """XGBoost regressor over columns that several organisations hold of the same rows.

    One party, the active one, has the targets and calls `fit`; the others answer with encrypted sums.

    Parameters
    ----------
    objective : str or callable, optional
        "reg:squarederror" by default; any other of XGBoost's for numbers, such as "count:poisson",
        "reg:tweedie", "reg:absoluteerror", "reg:quantileerror" or "survival:cox".  Parameters such as
        `tweedie_variance_power` are XGBoost's.  A function of labels and margins that returns gradients and
        hessians, which must not be negative, takes its place.

    See Also
    --------
    train : The same as a function.
    HorizontalXGBRegressor : For organisations with different rows of the same columns.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from xgb_fed import LocalParty, OkamotoUchiyama, VerticalXGBRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> clinic = LocalParty(X[:, 5:], "clinic")
    >>> model = VerticalXGBRegressor(n_estimators=2, max_depth=2, max_bin=8, cipher=OkamotoUchiyama())
    >>> model = model.fit(X[:, :5], y, parties=[clinic])
    >>> model.predict(X[:, :5]).shape
    (442,)
    """

    @refuses_habits(COLUMNS_APART, given=VerticalFitArguments)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        base_margin_eval_set: Sequence[Any] | None = None,
        **given: Unpack[VerticalFitArguments],
    ) -> VerticalXGBRegressor:
        """Train with the passive parties.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            The active party's columns.
        y : array-like of float, shape (n_rows,)
            Finite targets.
        parties, checkpoint, patience, verbose, xgb_model
            As for `VerticalXGBClassifier.fit`.
        sample_weight, base_margin, eval_set, sample_weight_eval_set, base_margin_eval_set
            Weights, margins and evaluation sets, as for `VerticalXGBClassifier.fit`.

        Returns
        -------
        self
        """
        sets = self._begin(given)
        objective = "reg:squarederror" if callable(self.objective) else self.objective or "reg:squarederror"
        if objective not in REGRESSIONS:
            raise UnsupportedParameterError(
                f"objective={objective!r} must be one of {', '.join(REGRESSIONS)} for a regressor"
            )
        y = checked_target(y, type(self).__name__)
        self._fit(X, y, given, sets, objective, None, margins_of_sets(base_margin_eval_set, len(sets)))
        return self

    def predict(
        self,
        X: Any,
        parties: Sequence[Party] | None = None,
        *,
        output_margin: bool = False,
        iteration_range: tuple[int, int] | None = None,
        hide_paths: bool = False,
        base_margin: Any = None,
    ) -> NDArray[np.float32]:
        """Predict values.

        Parameters
        ----------
        X, parties, iteration_range, hide_paths, base_margin
            As for `VerticalXGBClassifier.predict_proba`.
        output_margin : bool, default=False
            Return margins, which are the values themselves for many objectives.

        Returns
        -------
        ndarray of float32, shape (n_rows,)
        """
        return self._predict(
            X,
            parties,
            iteration_range,
            output_margin=output_margin,
            hide_paths=hide_paths,
            base_margin=base_margin,
        )

    def _check_loaded(self, model: VerticalModel, directory: Path) -> None:
        if model.objective.name not in REGRESSIONS:
            raise CorruptDataError(f"{directory} does not hold a regressor")
