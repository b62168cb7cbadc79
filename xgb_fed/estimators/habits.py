"""Keywords of `fit` of XGBoost's and LightGBM's estimators that ours do not have, with the way out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gbdt_commons.public.foreign_keywords import refuses_keywords
from xgb_fed.errors import UnsupportedParameterError

_SETTING = "it is a setting of the estimator, as in XGBoost since 2.0"
_RANKING = "only VerticalXGBRanker ranks"
_NAMES = "pass data frames, whose columns have names"

COLUMNS_APART: Mapping[str, str] = {
    **dict.fromkeys(("early_stopping_rounds", "eval_metric", "callbacks"), _SETTING),
    **dict.fromkeys(("group", "eval_group", "qid", "eval_qid"), _RANKING),
    **dict.fromkeys(("feature_name", "feature_names"), _NAMES),
    "feature_weights": "every column is sampled with the same chance",
    "class_weight": "pass sample_weight",
    "categorical_feature": "pass data frames with columns of categories, and enable_categorical=True",
    "init_score": "pass base_margin",
    "init_model": "pass xgb_model",
    "eval_sample_weight": "pass sample_weight_eval_set",
    "eval_class_weight": "pass sample_weight_eval_set",
    "eval_init_score": "pass base_margin_eval_set",
    "eval_names": "sets are validation_0 and so on",
    "eval_at": "name metrics as in eval_metric='ndcg@5', a setting of the estimator",
    **dict.fromkeys(("eval_X", "eval_y"), "pass eval_set"),
}
RANKED: Mapping[str, str] = {
    **COLUMNS_APART,
    "group": "pass qid, the query of each row",
    "eval_group": "pass eval_qid, the query of each row",
    **dict.fromkeys(("base_margin_eval_set", "eval_init_score"), "metrics start from no margins"),
}
_FROM_NOTHING = "training on rows of several parties starts without trees and margins"
ROWS_APART: Mapping[str, str] = {
    **COLUMNS_APART,
    "sample_weight": "pass triples, as in parties=[(X, y, sample_weight), ...]",
    "class_weight": "pass triples, as in parties=[(X, y, sample_weight), ...]",
    "categorical_feature": "only vertical training has columns of categories",
    **dict.fromkeys(("base_margin", "init_score", "xgb_model", "init_model"), _FROM_NOTHING),
    **dict.fromkeys(("base_margin_eval_set", "eval_init_score"), "metrics start from no margins"),
}

refuses_habits = partial(
    refuses_keywords, error=UnsupportedParameterError, defaults={"verbose": False, "patience": 0.0}
)
"""Decorate a `fit` by its table."""
