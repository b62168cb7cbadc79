"""Estimators that are fitted to Spark data frames, with the column names of Spark's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import lightgbm
import numpy as np
from lightgbm.callback import CallbackEnv
from numpy.typing import NDArray
from pyspark.sql.types import BooleanType
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.public.inherited_parameters import inherits_parameters
from lgb_dp.accounting.budget import Budget
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.checks import POSITIVE, checked_number, checked_numbers
from lgb_dp.data.classes import as_labels, class_numbers, known_classes
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.estimators.base import DPLGBMModel
from lgb_dp.estimators.habits import ON_SPARK, SparkFitArguments, refuses_habits
from lgb_dp.estimators.models import DPLGBMClassifier, DPLGBMRegressor
from lgb_dp.estimators.on_workers import OnWorkers
from lgb_dp.estimators.survival import DPLGBMSurvival, refuse_metrics
from lgb_dp.newton.trainer import NewtonBoost
from lgb_dp.spark.predicting import with_predictions
from lgb_dp.spark.rows import TIMEOUT, SparkRows, check_frame
from lgb_dp.spark.training import TREES_PER_ROUND, NewtonBoostInRounds

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Model = TypeVar("_Model", bound="_OnSpark")


class _OnSpark(OnWorkers):
    """Base of the Spark estimators.

    Parameters
    ----------
    n_jobs : int
        Threads of a task; 0 takes one.
    featuresCol : str or list of str
        A column of vectors or of arrays of numbers, or the columns themselves.
    labelCol : str
    weightCol, groupsCol : str, optional
        Weights, and persons, who may be anywhere in the data frame.
    predictionCol : str
        Column that `transform` adds.
    trees_per_round : int
        Trees that share gradients, and one Spark job.  With 1, models are those of one process.
    timeout : float
        Seconds that one job may take.
    """

    _own = (
        *("featuresCol", "labelCol", "weightCol", "groupsCol", "predictionCol", "probabilityCol"),
        *("trees_per_round", "timeout"),
    )

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        featuresCol: str | Sequence[str] = "features",
        labelCol: str | Sequence[str] = "label",
        weightCol: str | None = None,
        groupsCol: str | None = None,
        predictionCol: str = "prediction",
        trees_per_round: int = TREES_PER_ROUND,
        timeout: float = TIMEOUT,
        **others: Any,
    ) -> None:
        super().__init__(epsilon, **others)
        self.featuresCol = featuresCol
        self.labelCol = labelCol
        self.weightCol = weightCol
        self.groupsCol = groupsCol
        self.predictionCol = predictionCol
        self.trees_per_round = trees_per_round
        self.timeout = timeout

    def _trainer(self, settings: Mapping[str, Any], budget: Budget | None) -> PrivateTrainer:
        trainer = super()._trainer(settings, budget)
        if not isinstance(trainer, NewtonBoost):
            return trainer
        names = ("epsilon", "delta", "validation_fraction", "by", "random_state", "budget")
        own = {name: getattr(trainer, name) for name in names}
        return NewtonBoostInRounds(**own, trees_per_round=self.trees_per_round)

    def _roles(self) -> dict[str, Any]:
        """Columns to train on, by the arguments that name them."""
        names = ("featuresCol", "labelCol", "weightCol", "groupsCol")
        if isinstance(self.labelCol, str) == isinstance(self, DPLGBMSurvival):
            raise InvalidArgumentError(
                f"labelCol={self.labelCol!r} must be a column's name, or two names for times to events"
            )
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _fitted(
        self: _Model,
        df: Any,
        n_classes: int,
        classes: NDArray[Any] | None,
        target: Callable[[Any], NDArray[np.float64]],
        of_rows: dict[str, Any],
        provenance: Provenance,
        fitted: Mapping[str, Any],
    ) -> _Model:
        """A copy of this estimator that is fitted to a data frame."""
        check_frame(df, self._roles())
        timeout = checked_number("timeout", self.timeout, POSITIVE)
        fit = self._fit_to(of_rows, n_classes, provenance)
        n_threads = fit.params["num_threads"] or 1
        of_frame = (fit.declarations, fit.provenance, classes, n_threads, timeout)
        rows, results = SparkRows(df, self._roles(), *of_frame), dict[str, Any]()

        def take_over(env: CallbackEnv) -> None:
            fit.trainer(env, rows.of_run)

        take_over.before_iteration = True  # type: ignore[attr-defined]
        try:
            booster = lightgbm.train(
                fit.params,
                rows.declared,
                fit.n_rounds,
                valid_sets=self._valid_sets(fit.evaluation, rows.declared, target),
                valid_names=None if fit.evaluation.names is None else list(fit.evaluation.names),
                feval=fit.evaluation.feval() or None,
                callbacks=[take_over, *fit.callbacks, lightgbm.record_evaluation(results)],
            )
        finally:
            rows.close()
        model = copy(self)
        found = {
            **fitted,
            "booster_": self._finished(booster),
            "evals_result_": results,
            "n_features_in_": rows.n_features,
        }
        if not isinstance(self.featuresCol, str):
            found["feature_names_in_"] = np.asarray(self.featuresCol, dtype=object)
        model.__dict__.update(found)
        return model

    def _transformed(self, df: Any, outputs: Mapping[str, str]) -> Any:
        check_is_fitted(self, "booster_")
        check_frame(df, {"featuresCol": self.featuresCol})
        return with_predictions(df, self.to_local(), self.featuresCol, outputs)

    @abstractmethod
    def to_local(self) -> DPLGBMModel:
        """The same model as an estimator of one process."""


@inherits_parameters()
class SparkDPLGBMClassifier(_OnSpark, DPLGBMClassifier):
    """Differentially private LightGBM classifier on a Spark data frame, binary or multi-class.

    Parameters
    ----------
    probabilityCol : str
        Column of arrays that `transform` adds.
    """

    def __init__(self, epsilon: float = 1.0, *, probabilityCol: str = "probability", **others: Any) -> None:
        super().__init__(epsilon, **others)
        self.probabilityCol = probabilityCol

    @refuses_habits(ON_SPARK, given=SparkFitArguments)
    def fit(  # type: ignore[override]
        self, df: Any, *, classes: Sequence[Any] | None = None, **given: Unpack[SparkFitArguments]
    ) -> SparkDPLGBMClassifier:
        """Train.

        Parameters
        ----------
        df : pyspark.sql.DataFrame
        bounds : mapping or pair
            Public bounds, which must be given here.
        classes : sequence, optional
            All possible labels, public; 0 and 1 (or False and True) if they are left out.
        categories, weight_bound, rows_per_group, group_weight, paid_for, budget, feature_name, callbacks
            As for `lgb_dp.DPLGBMClassifier`.
        eval_set, eval_names, eval_sample_weight, eval_metric, public_eval_set
            As for `lgb_dp.DPLGBMClassifier`: public rows in this process.

        Returns
        -------
        SparkDPLGBMClassifier
            A fitted copy; this estimator stays as it is.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
            Before a budget is touched.
        ClusterError
            If a job fails, takes longer than `timeout`, or a partition's rows have changed.
        """
        check_frame(df, self._roles())
        is_boolean = isinstance(df.schema[self.labelCol].dataType, BooleanType)
        known, provenance = known_classes(np.empty(0), classes, are_booleans=is_boolean)

        def encode(values: Any) -> NDArray[np.float64]:
            return class_numbers(as_labels(values), known)

        return self._fitted(df, len(known), known, encode, {**given}, provenance, {"classes_": known})

    def transform(self, df: Any) -> Any:
        """A Spark data frame with the most probable class and the probabilities of each row.

        Parameters
        ----------
        df : pyspark.sql.DataFrame
            With the feature columns.

        Returns
        -------
        pyspark.sql.DataFrame
            With `predictionCol` and `probabilityCol`, computed when it is asked for.
        """
        outputs = {"predict": self.predictionCol, "predict_proba": self.probabilityCol}
        return self._transformed(df, outputs)

    def to_local(self) -> DPLGBMClassifier:
        """The same model as an estimator of one process."""
        return self._as_local(DPLGBMClassifier)


@inherits_parameters()
class SparkDPLGBMRegressor(_OnSpark, DPLGBMRegressor):
    """Differentially private LightGBM regressor on a Spark data frame.

    The keyword `objective` accepts LightGBM's "regression", "regression_l1", "huber" and "quantile" (with
    `alpha`), "poisson", "gamma" and "tweedie" (with `tweedie_variance_power`).
    """

    @refuses_habits(ON_SPARK, given=SparkFitArguments)
    def fit(  # type: ignore[override]
        self, df: Any, *, label_bounds: tuple[float, float] | None = None, **given: Unpack[SparkFitArguments]
    ) -> SparkDPLGBMRegressor:
        """Train.

        Parameters
        ----------
        df : pyspark.sql.DataFrame
        label_bounds : (low, high)
            Public bounds of the targets, which must be given here; those beyond count as the bounds.
        bounds, categories, weight_bound, rows_per_group, group_weight, paid_for, budget, feature_name
            As for `SparkDPLGBMClassifier.fit`.
        callbacks, eval_set, eval_names, eval_sample_weight, eval_metric, public_eval_set
            As for `SparkDPLGBMClassifier.fit`.

        Returns
        -------
        SparkDPLGBMRegressor
            A fitted copy; this estimator stays as it is.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
            Before a budget is touched.
        ClusterError
            If a job fails, takes longer than `timeout`, or a partition's rows have changed.
        """
        if label_bounds is None:
            raise InvalidArgumentError("label_bounds must be given for rows on a cluster, got None")

        def as_is(values: Any) -> NDArray[np.float64]:
            return checked_numbers("y", values).reshape(-1)

        given_too = {**given, "label_bounds": label_bounds}
        return self._fitted(df, 1, None, as_is, given_too, Provenance(), {})

    def transform(self, df: Any) -> Any:
        """A Spark data frame with the predicted target of each row.

        Parameters
        ----------
        df : pyspark.sql.DataFrame
            With the feature columns.

        Returns
        -------
        pyspark.sql.DataFrame
            With `predictionCol`, computed when it is asked for.
        """
        return self._transformed(df, {"predict": self.predictionCol})

    def to_local(self) -> DPLGBMRegressor:
        """The same model as an estimator of one process."""
        return self._as_local(DPLGBMRegressor)


@inherits_parameters()
class SparkDPLGBMSurvival(SparkDPLGBMRegressor, DPLGBMSurvival):
    """Differentially private time to an event on a Spark data frame, observed or censored.

    Parameters
    ----------
    labelCol : (str, str)
        Columns of the times after and by which the event came, as for `DPLGBMSurvival.fit`.
    """

    def __init__(
        self, epsilon: float = 1.0, *, labelCol: Sequence[str] = ("lower", "upper"), **others: Any
    ) -> None:
        super().__init__(epsilon, labelCol=labelCol, **others)

    @refuses_habits(ON_SPARK, given=SparkFitArguments)
    def fit(  # type: ignore[override]
        self, df: Any, *, label_bounds: tuple[float, float] | None = None, **given: Unpack[SparkFitArguments]
    ) -> SparkDPLGBMSurvival:
        """Train.

        Parameters
        ----------
        df : pyspark.sql.DataFrame
        label_bounds : (low, high)
            Public times, as for `DPLGBMSurvival.fit`.
        **given : object
            As for `SparkDPLGBMRegressor.fit`; evaluation sets are refused, as by `DPLGBMSurvival.fit`.

        Returns
        -------
        SparkDPLGBMSurvival
            A fitted copy; this estimator stays as it is.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
            Before a budget is touched.
        ClusterError
            As for `SparkDPLGBMRegressor.fit`.
        """
        refuse_metrics(given)
        model = super().fit(df, label_bounds=label_bounds, **given)
        assert isinstance(model, SparkDPLGBMSurvival)
        return model

    def to_local(self) -> DPLGBMSurvival:
        """The same model as an estimator of one process."""
        return self._as_local(DPLGBMSurvival)
