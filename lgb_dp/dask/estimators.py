"""Scikit-learn estimators that are fitted to the rows of a cluster, as LightGBM's of these names are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dask.array
import lightgbm
import numpy as np
from dask.delayed import delayed
from distributed import Client
from distributed import default_client as _untyped_default_client
from numpy.typing import NDArray

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_hosts import dask as host
from lgb_dp.dask.dataset import DaskDataset
from lgb_dp.dask.training import TIMEOUT, train
from lgb_dp.data.classes import known_classes
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.estimators.habits import ON_CLUSTERS, ClusterFitArguments, refuses_habits
from lgb_dp.estimators.models import DPLGBMClassifier, DPLGBMRegressor
from lgb_dp.estimators.on_workers import OnWorkers
from lgb_dp.estimators.survival import DPLGBMSurvival


def predicted(model: Any, method: str, X: Any, keywords: dict[str, Any]) -> Any:
    """Predictions of a fitted local model's method, with keywords, for rows that may lie on a cluster.

    Of a dask collection they are a dask array, computed when it is asked for, whose number of rows is unknown
    for a data frame; of anything else, the method's own result.
    """
    if not host.is_collection(X):
        return getattr(model, method)(X, **keywords)
    if keywords.get("return_std"):
        raise UnsupportedParameterError("return_std=True is not supported for dask collections; compute X")
    example = getattr(model, method)(_first_row(host.made_up_rows(X)), **keywords)
    lengths = host.known_lengths(X)
    parts = host.partitions_of(X)
    arrays: Any = dask.array
    predict, sent = delayed(_predict), delayed(model)
    blocks = [
        arrays.from_delayed(
            predict(sent, method, part, keywords, example[:0]),
            shape=(np.nan if lengths is None else lengths[i], *example.shape[1:]),
            dtype=example.dtype,
        )
        for i, part in enumerate(parts)
    ]
    return arrays.concatenate(blocks, allow_unknown_chunksizes=True)


def _first_row(rows: Any) -> Any:
    return rows.iloc[:1] if hasattr(rows, "iloc") else rows[:1]


def _predict(model: Any, method: str, part: Any, keywords: dict[str, Any], nothing: Any) -> Any:
    """Predictions of a partition; LightGBM takes none without rows."""
    return getattr(model, method)(part, **keywords) if part.shape[0] else nothing


if TYPE_CHECKING:
    from typing_extensions import Unpack

_default_client: Any = _untyped_default_client


class _OnCluster(OnWorkers):
    """Mixin of both Dask estimators: training and prediction on a cluster.

    Parameters
    ----------
    n_jobs : int
        Threads of a worker; 0 takes as many as it was given.
    client : distributed.Client, optional
        The most recent one, by default.
    timeout : float
        Seconds: a worker or a scheduler that is silent for so long is taken to be lost.
    """

    def __init__(
        self, epsilon: float = 1.0, *, client: Client | None = None, timeout: float = TIMEOUT, **others: Any
    ) -> None:
        super().__init__(epsilon, **others)
        self.client = client
        self.timeout = timeout

    _own = ("client", "timeout")

    @property
    def client_(self) -> Any:
        """The client that `fit` uses."""
        if self.client is not None:
            return self.client
        try:
            return _default_client()
        except ValueError:
            raise InvalidArgumentError(
                "client must be a distributed.Client; got None, and no Dask client is running: start one, or "
                "pass client="
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        """Without the client, which belongs to this process."""
        return {**super().__getstate__(), "client": None}

    def _fit_on_cluster(
        self,
        X: Any,
        y: Any,
        n_classes: int,
        classes: NDArray[Any] | None,
        of_rows: dict[str, Any],
        provenance: Provenance,
        fitted: Mapping[str, Any],
    ) -> None:
        """Train, and set fitted attributes at the end; `of_rows` is all that users gave beside rows and
        labels.
        """
        of_rows["weight"] = of_rows.pop("sample_weight")
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        fit = self._fit_to(of_rows, n_classes, provenance)
        evaluation = fit.evaluation
        train_set = DaskDataset(X, y, **fit.declarations)
        train_set.classes, train_set.provenance = classes, fit.provenance
        valid_sets = [
            DaskDataset(rows, labels, weight=weight, public=evaluation.is_public)
            for rows, labels, weight, _ in evaluation.sets()
        ]
        for valid in valid_sets:
            valid.classes = classes
        results: dict[str, Any] = {}
        booster = train(
            self.client_,
            fit.params,
            train_set,
            fit.n_rounds,
            valid_sets=valid_sets,
            valid_names=evaluation.names,
            feval=evaluation.feval() or None,
            callbacks=[fit.trainer, *fit.callbacks, lightgbm.record_evaluation(results)],
            timeout=self.timeout,
        )
        if host.is_frame(X):
            fitted = {
                **fitted,
                "feature_names_in_": np.asarray([str(name) for name in X.columns], dtype=object),
            }
        fitted = {**fitted, "booster_": self._finished(booster)}
        self.__dict__.update(fitted, evals_result_=results, n_features_in_=int(X.shape[1]))


@inherits_parameters()
class DaskDPLGBMClassifier(_OnCluster, DPLGBMClassifier):
    """Differentially private LightGBM classifier on a Dask cluster, binary or multi-class."""

    @refuses_habits(ON_CLUSTERS, given=ClusterFitArguments)
    def fit(  # type: ignore[override]
        self, X: Any, y: Any, *, classes: Sequence[Any] | None = None, **given: Unpack[ClusterFitArguments]
    ) -> DaskDPLGBMClassifier:
        """Train.

        Parameters
        ----------
        X : dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_features)
        y : dask.array.Array or dask.dataframe.Series, shape (n_rows,)
        bounds : mapping or pair
            Public bounds, which must be given here.
        classes : sequence, optional
            All possible labels, public; 0 and 1 (or False and True) if they are left out.
        sample_weight, groups : dask.array.Array or dask.dataframe.Series, optional
        categories, weight_bound, rows_per_group, group_weight, paid_for, budget, feature_name, callbacks
            As for `lgb_dp.DPLGBMClassifier`.
        eval_set : sequence of (X, y)
            Dask collections of public rows, with `public_eval_set=True`.
        eval_names, eval_sample_weight, eval_metric, public_eval_set
            As for `lgb_dp.DPLGBMClassifier`.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
            Before a budget is touched.
        ClusterError
            As for `lgb_dp.dask.train`.
        """
        is_boolean = getattr(y, "dtype", None) == np.bool_
        known, provenance = known_classes(np.empty(0), classes, are_booleans=is_boolean)
        self._fit_on_cluster(X, y, len(known), known, {**given}, provenance, {"classes_": known})
        return self

    def to_local(self) -> DPLGBMClassifier:
        """The same model as an estimator of one process."""
        return self._as_local(DPLGBMClassifier)

    def predict(self, X: Any, **keywords: Any) -> Any:  # type: ignore[override]
        """Most probable class of each row: lazily of dask collections, at once of anything else.

        Parameters
        ----------
        X : dask array, dask data frame, or as for `lgb_dp.DPLGBMClassifier`
        **keywords : object
            As for `lgb_dp.DPLGBMClassifier.predict`.

        Returns
        -------
        dask array, or ndarray, shape (n_rows,)
        """
        return predicted(self.to_local(), "predict", X, keywords)

    def predict_proba(self, X: Any, **keywords: Any) -> Any:  # type: ignore[override]
        """Class probabilities: lazily of dask collections, at once of anything else.

        Parameters
        ----------
        X : dask array, dask data frame, or as for `lgb_dp.DPLGBMClassifier`
        **keywords : object
            As for `lgb_dp.DPLGBMClassifier.predict_proba`.

        Returns
        -------
        dask array, or ndarray, shape (n_rows, n_classes)
        """
        return predicted(self.to_local(), "predict_proba", X, keywords)


@inherits_parameters()
class DaskDPLGBMRegressor(_OnCluster, DPLGBMRegressor):
    """Differentially private LightGBM regressor on a Dask cluster.

    With ``method="newton"``, the keyword `objective` accepts LightGBM's "regression",
    "regression_l1", "huber" and "quantile" (with `alpha`), "poisson", "gamma" and "tweedie"
    (with `tweedie_variance_power`).
    """

    @refuses_habits(ON_CLUSTERS, given=ClusterFitArguments)
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        *,
        label_bounds: tuple[float, float] | None = None,
        **given: Unpack[ClusterFitArguments],
    ) -> DaskDPLGBMRegressor:
        """Train.

        Parameters
        ----------
        X : dask array or dask data frame, shape (n_rows, n_features)
        y : dask array or series, shape (n_rows,)
            Targets; those beyond `label_bounds` count as the bounds.
        label_bounds : (low, high)
            Public bounds of the targets, which must be given here.
        bounds, categories, sample_weight, weight_bound, groups, rows_per_group, group_weight, paid_for
            Public knowledge, weights and persons, as for `DaskDPLGBMClassifier.fit`.
        budget, eval_set, eval_names, eval_sample_weight, eval_metric, public_eval_set
            As for `DaskDPLGBMClassifier.fit`.
        feature_name, callbacks
            As for `DaskDPLGBMClassifier.fit`.

        Returns
        -------
        self

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
            Naming the argument that is not accepted.
        ClusterError
            If workers, partitions or the scheduler are lost for good.
        """
        if label_bounds is None:
            raise InvalidArgumentError("label_bounds must be given for rows on a cluster, got None")
        self._fit_on_cluster(X, y, 1, None, {**given, "label_bounds": label_bounds}, Provenance(), {})
        return self

    def to_local(self) -> DPLGBMRegressor:
        """The same model as an estimator of one process."""
        return self._as_local(DPLGBMRegressor)

    def predict(self, X: Any, **keywords: Any) -> Any:  # type: ignore[override]
        """Predicted target of each row: lazily of dask collections, at once of anything else.

        Parameters
        ----------
        X : dask array, dask data frame, or as for `lgb_dp.DPLGBMRegressor`
        **keywords : object
            As for `lgb_dp.DPLGBMRegressor.predict`.

        Returns
        -------
        dask array, or ndarray, shape (n_rows,)
        """
        return predicted(self.to_local(), "predict", X, keywords)


@inherits_parameters()
class DaskDPLGBMSurvival(DaskDPLGBMRegressor, DPLGBMSurvival):  # type: ignore[misc]
    """Differentially private time to an event on a Dask cluster, whose labels have two fields or columns."""

    def to_local(self) -> DPLGBMSurvival:
        """The same model as an estimator of one process."""
        return self._as_local(DPLGBMSurvival)

    def predict_survival_function(self, X: Any, times: Any, **kwargs: Any) -> Any:
        """As of `lgb_dp.DPLGBMSurvival`: lazily of dask collections, at once of anything else."""
        return predicted(self.to_local(), "predict_survival_function", X, {"times": times, **kwargs})

    def predict_quantile(self, X: Any, share: float, **kwargs: Any) -> Any:
        """As of `lgb_dp.DPLGBMSurvival`: lazily of dask collections, at once of anything else."""
        return predicted(self.to_local(), "predict_quantile", X, {"share": share, **kwargs})

    def score(self, X: Any, y: Any, **kwargs: Any) -> float:
        """As of `lgb_dp.DPLGBMSurvival`; dask collections are computed here."""
        return super().score(X, y.compute() if host.is_collection(y) else y, **kwargs)
