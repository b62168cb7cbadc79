"""The estimator of times to events: labels that may be censored, medians, curves and quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_hosts.lightgbm.text import parameter_lines
from gbdt_kernels.concordance import concordance
from lgb_dp.accounting.budget import Budget
from lgb_dp.boosting.params import read_objective
from lgb_dp.checks import PROPER_SHARE, Auto, checked_number, checked_numbers
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.estimators.habits import NO_METRICS_OF_TIMES, WAYS_OUT, FitArguments, refuses_habits
from lgb_dp.estimators.models import DPLGBMRegressor
from lgb_dp.estimators.rows import as_matrix
from lgb_dp.losses.survival import AFT, log_survival, quantile_of
from lgb_dp.losses.times import FORMS, as_times

if TYPE_CHECKING:
    from typing_extensions import Unpack


class OfTimes:
    """Mixin of estimators of times: the law, and what follows from it and medians.

    Parameters
    ----------
    distribution : {"logistic", "normal", "extreme"}
        Law of the logarithm of a time around its median.
    scale : "auto" or float
        Public scale of that law, as for `lgb_dp.AFT`.
    """

    booster_: Any

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        distribution: Literal["logistic", "normal", "extreme"] = "logistic",
        scale: float | Auto = "auto",
        **others: Any,
    ) -> None:
        super().__init__(epsilon, **others)  # type: ignore[call-arg]
        self.distribution = distribution
        self.scale = scale

    def _log_median(self, X: Any, keywords: Mapping[str, Any]) -> NDArray[np.float64]:
        check_is_fitted(self, "booster_")
        return np.asarray(self.booster_.predict(as_matrix(X), raw_score=True, **keywords))

    def predict_survival_function(self, X: Any, times: Any, **kwargs: Any) -> NDArray[np.float64]:
        """Probability that the event comes after each of some times.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        times : array-like, shape (n_times,)
            Not negative.
        **kwargs : object
            Further arguments of `predict`.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_times)
        """
        at = checked_numbers("times", times).reshape(-1)
        if not (at >= 0).all():
            raise InvalidArgumentError("times must not be negative or missing")
        scores = self._log_median(X, kwargs)
        law, scale = self._law
        with np.errstate(divide="ignore"):
            return np.exp(log_survival(law, (np.log(at) - scores[:, None]) / scale))

    def predict_quantile(self, X: Any, share: float, **kwargs: Any) -> NDArray[np.float64]:
        """Time by which the event has come with a probability.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        share : float
            The probability, in (0, 1).
        **kwargs : object
            Further arguments of `predict`.

        Returns
        -------
        ndarray of float64, shape (n_rows,)
        """
        quantile = quantile_of(*self._law, checked_number("share", share, PROPER_SHARE))
        return np.asarray(np.exp(self._log_median(X, kwargs) + quantile))

    @property
    def _law(self) -> tuple[str, float]:
        """Law and scale of the fitted model, whatever the settings are now."""
        check_is_fitted(self, "booster_")
        text = self.booster_.model_to_string(num_iteration=1)
        name, scale = read_objective(parameter_lines(text)["objective"])
        assert scale is not None
        return name.removeprefix("aft_"), scale

    def score(self, X: Any, y: Any, **kwargs: Any) -> float:
        """Harrell's concordance: share of comparable pairs of rows whose medians are in the right order.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        y : as for `fit`
        **kwargs : object
            Further arguments of `predict`.

        Returns
        -------
        float
            1/2 for medians that tell nothing, which count half where they are equal.

        Raises
        ------
        InvalidArgumentError
            If no pair can be compared.
        """
        times = checked_times(y)
        n_pairs, n_ordered = concordance(times["lower"], times["upper"], self._log_median(X, kwargs))
        if not n_pairs:
            raise InvalidArgumentError("y has no two rows of which one's event is known to come first")
        return n_ordered / n_pairs


@inherits_parameters()
class DPLGBMSurvival(OfTimes, DPLGBMRegressor):
    """Differentially private time to an event, by accelerated failure time (`lgb_dp.AFT`).

    `predict` gives the median time.
    """

    _objectives = ()

    @property
    def predict_interval(self) -> NoReturn:
        """Absent: times have quantiles, and their residuals are not known."""
        raise AttributeError(
            "predict_interval is for numbers; predict_quantile gives the ends of an interval"
        )

    def _read_settings(self, budget: Budget | None = None) -> Any:
        AFT(self.distribution, self.scale)
        for name, accepted, why in (
            ("method", "newton", "the others have no loss of times"),
            ("objective", None, "it follows from distribution and scale"),
        ):
            if getattr(self, name) != accepted:
                raise UnsupportedParameterError(
                    f"{name}={getattr(self, name)!r} is not supported by {type(self).__name__}: {why}"
                )
        return super()._read_settings(budget)

    def _log_median(self, X: Any, keywords: Mapping[str, Any]) -> NDArray[np.float64]:
        return np.asarray(self.predict(X, raw_score=True, **keywords))

    def _objective_params(self, asked: str | None, n_classes: int) -> dict[str, Any]:
        return {"objective": AFT(self.distribution, self.scale)}

    @refuses_habits(WAYS_OUT, given=FitArguments)
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        *,
        label_bounds: tuple[float, float] | None = None,
        **given: Unpack[FitArguments],
    ) -> DPLGBMSurvival:
        """Train.

        Parameters
        ----------
        X : array-like, table or sparse matrix, shape (n_rows, n_features)
        y : structured array or table of two columns, or array-like of shape (n_rows, 2)
            A column of truth values, whether the event was observed, and one of times, of an event or else of
            the last time without one; or the times after and by which the event came, equal where it was
            observed, the second infinite where it was not, the first 0 where it came before; of a table these
            columns are named lower and upper.
        label_bounds : (low, high)
            Public times. Where a time is outside of them, no more than that is learned from it.
        bounds, categories, sample_weight, weight_bound, groups, rows_per_group, group_weight, paid_for
            Public knowledge, weights and persons, as for `DPLGBMClassifier.fit`.
        budget, init_score, public_init_score, feature_name, callbacks, init_model
            As for `DPLGBMClassifier.fit`.
        eval_set, eval_names, eval_sample_weight, eval_init_score, eval_X, eval_y, public_eval_set
            Refused, as is `eval_metric`: metrics do not know censored times. `score` takes public rows.

        Returns
        -------
        self

        Raises
        ------
        ArgumentTypeError, BudgetExceededError, InvalidArgumentError, UnsupportedParameterError
            Naming what is not accepted, before anything is released.
        """
        refuse_metrics(given)
        if label_bounds is None:
            raise InvalidArgumentError("label_bounds must be given: times read from private rows would leak")
        self._fit(X, checked_times(y), 1, checked_times, {**given, "label_bounds": label_bounds})
        return self


def refuse_metrics(given: Mapping[str, Any]) -> None:
    """Refuse arguments of a fit that ask for metrics of times."""
    for name in ("eval_set", "eval_X", "eval_metric"):
        if given.get(name) is not None:
            raise UnsupportedParameterError(f"{name} is not supported: {NO_METRICS_OF_TIMES}")


def checked_times(y: Any) -> NDArray[Any]:
    """Times of a label in one of the accepted forms, or an `InvalidArgumentError`."""
    times = as_times(y)
    if times is None:
        raise InvalidArgumentError(f"y must hold times to events, got shape {np.shape(y)}; {FORMS}")
    return times
