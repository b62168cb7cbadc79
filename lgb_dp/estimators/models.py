"""The classifier and the regressor: what the labels mean, and what predictions look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_commons.tables.frames import holds_booleans
from gbdt_hosts.lightgbm.estimators import ClassifierKind, FittedAttribute, RegressorKind
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.calibration import calibrate
from lgb_dp.checks import Interval, checked_flag, checked_number, checked_numbers
from lgb_dp.data.classes import as_labels, class_numbers, known_classes, mapped_labels
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.estimators.base import DPLGBMModel
from lgb_dp.estimators.habits import WAYS_OUT, FitArguments, refuses_habits
from lgb_dp.estimators.rows import as_target
from lgb_dp.evaluation.regression import RegressionEvaluation
from lgb_dp.losses.objective import OBJECTIVES, SEVERAL_TARGETS

if TYPE_CHECKING:
    from typing_extensions import Unpack


@inherits_parameters(before="label_overflow")
class DPLGBMClassifier(DPLGBMModel, ClassifierKind):
    """Differentially private LightGBM classifier, binary or multi-class.

    Parameters
    ----------
    alpha : float or "calibrated"
        For "mboost": its α.
    calibrate : bool
        Whether to calibrate the model of two classes by the rows that `validation_fraction` holds out, at no
        further cost: see `lgb_dp.calibrate`.  A model without an evaluation, after early stopping, stays as
        it is.
    """

    _objectives = ("binary", "multiclass", "multiclassova")
    classes_: NDArray[Any] = FittedAttribute()  # type: ignore[assignment]

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        alpha: float | Literal["calibrated"] = "calibrated",
        calibrate: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(epsilon, **others)
        self.alpha = alpha
        self.calibrate = calibrate

    def _finished(self, booster: lightgbm.Booster) -> lightgbm.Booster:
        has_table = self.calibrate and isinstance(booster, DPBooster) and booster.evaluation is not None
        return calibrate(booster) if has_table else booster

    def _objective_params(self, asked: str | None, n_classes: int) -> dict[str, Any]:
        if asked is None:
            asked = "binary" if n_classes == 2 else "multiclass"
        if asked == "binary" and n_classes > 2:
            raise InvalidArgumentError(f"objective='binary' is for 2 classes, got {n_classes}")
        if checked_flag("calibrate", self.calibrate) and (asked != "binary" or self.validation_fraction == 0):
            raise InvalidArgumentError(
                "calibrate=True is for objective='binary' and rows that are held out by validation_fraction, "
                f"got {asked!r} and validation_fraction={self.validation_fraction!r}"
            )
        return {"objective": asked, **({} if asked == "binary" else {"num_class": n_classes})}

    @refuses_habits(WAYS_OUT, given=FitArguments)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        classes: Sequence[Any] | Mapping[Any, float] | None = None,
        **given: Unpack[FitArguments],
    ) -> DPLGBMClassifier:
        """Train.

        Parameters
        ----------
        X : array-like, table or sparse matrix, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
        bounds, categories
            Public knowledge of the features, as for `lgb_dp.Dataset`.
        classes : sequence or mapping, optional
            All possible labels, public, or the number that each is taken for, as in ``{"no": 0, "yes": 1}``,
            which predictions are then.  Left out, they are assumed to be 0 and 1 (or False and True), which
            the report notes; if the data has others, they are read from it, with a `PrivacyLeakWarning`, and
            the report says not private.
        sample_weight, weight_bound
            Row weights and their public bound.
        groups, rows_per_group, group_weight
            The person of each row, and how many rows of a person are used, as for `lgb_dp.Dataset`: the
            guarantee then covers persons.
        paid_for : sequence of PrivacyReport
            Cost of public-looking knowledge of these rows, such as `lgb_dp.private_bounds`' report:
            `privacy_` includes it.
        budget : Budget, optional
            Pays for the fit when it starts; refused where it does not suffice.  It is an argument of `fit`,
            as it belongs to the rows: parameters are copied by `clone` and pickled with the model.
        init_score, public_init_score
            Raw scores to start from, as for `lgb_dp.Dataset`; predictions do not include them.
        eval_set, eval_names, eval_sample_weight, eval_init_score, eval_metric, eval_X, eval_y
            As for LightGBM's estimators.  A function among the metrics takes labels and predictions, and
            weights if it has a third argument.
        public_eval_set : bool
            Whether the rows of the evaluation sets are public.
        feature_name : "auto" or sequence of str
        callbacks
            As for LightGBM's estimators.
        init_model : path, lightgbm.Booster or fitted estimator, optional
            Model to continue from; its guarantee is composed with that of the fit.  One without a guarantee
            voids that of the fit.
        """
        target, listed = mapped_labels(as_target(y, type(self).__name__), classes)
        labels = as_labels(target)
        known, provenance = known_classes(labels, listed, are_booleans=holds_booleans(target))

        def encode(values: Any) -> NDArray[np.float64]:
            return class_numbers(as_labels(mapped_labels(values, classes)[0]), known)

        numbers = class_numbers(labels, known)
        if self.label_overflow == "raise" and np.isnan(numbers).any():
            raise InvalidArgumentError("y holds a label that is not among the classes")
        self._fit(
            X, numbers, len(known), encode, {**given}, provenance=provenance, fitted={"classes_": known}
        )
        return self

    def __sklearn_tags__(self) -> Any:
        """Tags, as scikit-learn 1.6 and later ask for them."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # the noise of a small data set's model
        return tags

    @property
    def n_classes_(self) -> int:
        """Number of classes."""
        check_is_fitted(self, "booster_")
        return len(self.classes_)

    def predict_proba(
        self,
        X: Any,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        *,
        return_std: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Class probabilities.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib, **kwargs
            As for LightGBM's estimators: raw scores, leaves or SHAP values instead, of some iterations;
            `accept_undeclared` as for `DPBooster.predict`.
        return_std : bool
            Whether to give the standard deviation, too, that the noise of training leaves in each number: by
            twenty refits on made-up rows, as for `lgb_dp.effects`, which are kept for the next call.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
            Or another result that was asked for, in LightGBM's shape; with `return_std` two of that shape.
        """
        result = self._predict_native(
            X,
            raw_score=raw_score,
            start_iteration=start_iteration,
            num_iteration=num_iteration,
            pred_leaf=pred_leaf,
            pred_contrib=pred_contrib,
            return_std=return_std,
            **kwargs,
        )
        if raw_score or pred_leaf or pred_contrib:
            return result
        if return_std:
            mean, std = result
            return (mean, std) if mean.ndim == 2 else (_of_both(mean), np.column_stack([std, std]))
        return result if result.ndim == 2 else _of_both(result)

    def decision_function(self, X: Any, **kwargs: Any) -> Any:
        """Raw scores, as scikit-learn's classifiers give them.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        **kwargs : object
            Further arguments of `predict_proba`.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_classes)
            Log-odds of the second of two classes, and a score for each of more.
        """
        return self.predict_proba(X, raw_score=True, **kwargs)

    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib, **kwargs
            As of `predict_proba`, whose result is given where it is not probabilities.

        Returns
        -------
        ndarray, shape (n_rows,)
            Members of `classes_`; with `raw_score`, `pred_leaf` or `pred_contrib` the result of
            `predict_proba`.
        """
        if kwargs.get("return_std") and not raw_score:
            raise InvalidArgumentError("return_std=True is for predict_proba: a class has no deviation")
        result = self.predict_proba(
            X, raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib, **kwargs
        )
        if raw_score or pred_leaf or pred_contrib:
            return result
        return np.asarray(self.classes_[result.argmax(axis=1)])


@inherits_parameters()
class DPLGBMRegressor(DPLGBMModel, RegressorKind):
    """Differentially private LightGBM regressor.

    With ``method="newton"``, the keyword `objective` accepts LightGBM's "regression",
    "regression_l1", "huber" and "quantile" (with `alpha`), "poisson", "gamma" and "tweedie"
    (with `tweedie_variance_power`).
    """

    _objectives = tuple(
        name
        for name, one in OBJECTIVES.items()
        if one.is_regression and not (one.labels_are_times or one.has_targets)
    )

    @refuses_habits(WAYS_OUT, given=FitArguments)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        label_bounds: tuple[float, float] | Sequence[tuple[float, float]] | None = None,
        **given: Unpack[FitArguments],
    ) -> DPLGBMRegressor:
        """Train.

        Parameters
        ----------
        X : array-like, table or sparse matrix, shape (n_rows, n_features)
        y : array-like or table, shape (n_rows,) or (n_rows, n_targets)
            Targets; those beyond `label_bounds` count as the bounds, which the report notes.  Several share
            all releases, and are for "newton" and "regression" alone; a row that lacks one has no weight.
        label_bounds : (low, high) or sequence of (low, high), optional
            Public bounds of the targets: of all, or of each.  Left out, they are read from the data, with a
            `PrivacyLeakWarning`, and the report says not private.
        bounds, categories, sample_weight, weight_bound, groups, rows_per_group, group_weight, paid_for
            Public knowledge, weights and persons, as for `DPLGBMClassifier.fit`.
        eval_set, eval_names, eval_sample_weight, eval_init_score, eval_X, eval_y, public_eval_set
            Evaluation sets, as for `DPLGBMClassifier.fit`.
        eval_metric, budget, init_score, public_init_score, feature_name, callbacks, init_model
            As for `DPLGBMClassifier.fit`.

        Returns
        -------
        self

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
            Naming the argument that is not accepted.
        BudgetExceededError
            If `budget` does not suffice; nothing has been released then.
        """

        def as_is(values: Any) -> NDArray[np.float64]:
            return checked_numbers("y", as_target(values, type(self).__name__, accepts_several=True))

        target = as_is(y)
        n_targets = target.shape[1] if target.ndim == 2 else 1
        self._fit(X, target, n_targets, as_is, {**given, "label_bounds": label_bounds})
        return self

    def _objective_params(self, asked: str | None, n_classes: int) -> dict[str, Any]:
        if n_classes == 1:
            return super()._objective_params(asked, n_classes)
        given = self.method, asked or "regression", self.validation_fraction
        if given != ("newton", "regression", 0):
            raise UnsupportedParameterError(
                f"y has {n_classes} columns, for which method, objective and validation_fraction must be "
                f"'newton', 'regression' and 0, got {given}"
            )
        return {"objective": SEVERAL_TARGETS, "num_class": n_classes}

    def __sklearn_tags__(self) -> Any:
        """Tags, as scikit-learn 1.6 and later ask for them."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # the noise of a small data set's model
        tags.target_tags.multi_output = self.method == "newton" and bool(self._objectives)
        return tags

    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        *,
        return_std: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Predicted target of each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib, **kwargs
            As for LightGBM's estimators: leaves or SHAP values instead, of some iterations.
        return_std : bool
            As for `DPLGBMClassifier.predict_proba`.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_targets)
            Or another result that was asked for, in LightGBM's shape; with `return_std` two of that shape.
        """
        return self._predict_native(
            X,
            raw_score=raw_score,
            start_iteration=start_iteration,
            num_iteration=num_iteration,
            pred_leaf=pred_leaf,
            pred_contrib=pred_contrib,
            return_std=return_std,
            **kwargs,
        )

    def predict_interval(self, X: Any, alpha: float = 0.1) -> NDArray[np.float64]:
        """Intervals that hold the targets of new rows, except for a share `alpha` of them.

        Their width follows from the table of held-out rows, at no further cost; `label_bounds` clip targets.
        `RegressionEvaluation.half_width` has the proof, which is of the mean over training runs.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        alpha : float
            In (0, 1).

        Returns
        -------
        ndarray of float64, shape (n_rows, 2)
            Lower and upper ends; infinite where noise hides how far residuals reach.

        Raises
        ------
        AttributeError
            If no rows were held out.
        """
        alpha = checked_number("alpha", alpha, Interval(0, 1, "()"))
        evaluation, predicted = self.evaluation_, np.asarray(self.predict(X))
        assert isinstance(evaluation, RegressionEvaluation)
        return predicted[:, None] + evaluation.half_width(alpha) * np.array([-1.0, 1.0])


def _of_both(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of two classes, by that of the second."""
    return np.column_stack([1 - positive, positive])
