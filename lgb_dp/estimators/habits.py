"""Keywords of `fit` of LightGBM's and XGBoost's estimators that ours do not have, with the way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

from gbdt_commons.public.foreign_keywords import refuses_keywords
from lgb_dp.accounting.budget import Budget
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.data.arguments import DECLARE_CATEGORIES
from lgb_dp.data.bins import Bounds, Categories
from lgb_dp.data.groups import GroupWeight
from lgb_dp.errors import UnsupportedParameterError
from lgb_dp.losses.objective import NO_RANKING

NO_METRICS_OF_TIMES = (
    "metrics know no censored times; pass validation_fraction, or score public rows with the model"
)
_ONE_FIT = "such training starts without trees and scores"

WAYS_OUT: Mapping[str, str] = {
    "categorical_feature": DECLARE_CATEGORIES,
    "class_weight": "class counts are private; pass sample_weight with a public weight_bound",
    "eval_class_weight": "pass eval_sample_weight",
    "early_stopping_rounds": "pass callbacks=[lightgbm.early_stopping(rounds)] and a public eval_set",
    "verbose": "it is a setting of the estimator; callbacks=[lightgbm.log_evaluation()] prints metrics",
    "base_margin": "pass init_score",
    "base_margin_eval_set": "pass eval_init_score",
    "sample_weight_eval_set": "pass eval_sample_weight",
    "xgb_model": "pass init_model",
    "feature_weights": "splits are drawn by the private trainer",
    **dict.fromkeys(("group", "eval_group", "qid", "eval_qid", "eval_at"), NO_RANKING),
}
"""For rows in one process."""

ON_CLUSTERS: Mapping[str, str] = {
    **WAYS_OUT,
    **dict.fromkeys(("init_score", "base_margin", "init_model", "xgb_model"), _ONE_FIT),
    **dict.fromkeys(("eval_init_score", "base_margin_eval_set"), "metrics start from no scores"),
    **dict.fromkeys(("eval_X", "eval_y"), "pass eval_set"),
}
"""For rows of a Dask cluster."""

ON_SPARK: Mapping[str, str] = {
    **ON_CLUSTERS,
    **dict.fromkeys(("X", "y"), "pass df, whose columns featuresCol and labelCol name"),
    "sample_weight": "weightCol names the column of the weights",
    "groups": "groupsCol names the column of the persons",
    "params": "set parameters by set_params, or in the constructor",
}
"""For rows of a Spark data frame."""

_UNSEEN = "no party computes metrics of another's rows; predict public rows with the model"
OF_PARTIES: Mapping[str, str] = {
    **WAYS_OUT,
    **dict.fromkeys(("eval_set", "eval_names", "eval_metric", "eval_X", "eval_y"), _UNSEEN),
    **dict.fromkeys(("eval_sample_weight", "sample_weight_eval_set", "eval_class_weight"), _UNSEEN),
    **dict.fromkeys(("eval_init_score", "base_margin_eval_set"), _UNSEEN),
    **dict.fromkeys(("init_score", "base_margin", "init_model", "xgb_model"), _ONE_FIT),
    "early_stopping_rounds": "the number of trees is agreed before; it is n_estimators",
    "callbacks": "every party has a trainer of its own; its settings are those of the estimator",
    "verbose": "there is nothing to print",
    "feature_name": "pass tables, whose columns have names",
}
"""For rows or columns of several parties."""

ROWS_APART: Mapping[str, str] = {
    **OF_PARTIES,
    "budget": "every party has a ledger of its own",
    **dict.fromkeys(("X", "y"), "pass parties=[(X, y), ...]"),
    **dict.fromkeys(("sample_weight", "weight_bound"), "pass weight and weight_bound to every Party"),
}
COLUMNS_APART: Mapping[str, str] = {
    **OF_PARTIES,
    **dict.fromkeys(("sample_weight", "class_weight"), "columns apart have no weights"),
}


class SparkFitArguments(TypedDict, total=False):
    """Keywords of `fit` of every kind; `DPLGBMClassifier.fit` says what each is."""

    bounds: Bounds | None
    categories: Categories | None
    weight_bound: float | None
    rows_per_group: int | None
    group_weight: GroupWeight | None
    paid_for: Sequence[PrivacyReport]
    budget: Budget | None
    eval_set: Sequence[tuple[Any, Any]] | None
    eval_names: Sequence[str] | None
    eval_sample_weight: Sequence[Any] | None
    eval_metric: Any
    public_eval_set: bool
    feature_name: Any
    callbacks: Sequence[Callable[..., Any]] | None


class ClusterFitArguments(SparkFitArguments, total=False):
    """Keywords of `fit` on a Dask cluster and in one process."""

    sample_weight: Any
    groups: Any


class FitArguments(ClusterFitArguments, total=False):
    """Keywords of `fit` in one process."""

    init_score: Any
    public_init_score: bool
    eval_init_score: Sequence[Any] | None
    eval_X: Any
    eval_y: Any
    init_model: Any


_DEFAULTS = {
    **dict.fromkeys(("public_init_score", "public_eval_set", "trust_authority", "auditable"), False),
    **{"paid_for": (), "feature_name": "auto", "patience": 0.0},
}
"""Of keywords of `fit`, where they are not None."""

refuses_habits = partial(refuses_keywords, error=UnsupportedParameterError, defaults=_DEFAULTS)
"""Decorate a `fit` by its table."""
