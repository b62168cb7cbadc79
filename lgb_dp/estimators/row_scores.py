"""Bounded score of each held-out row for a trial of the search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from lgb_dp.data.classes import as_labels, class_numbers
from lgb_dp.losses.objective import OBJECTIVES

SCORE_STEPS = 2**14
"""Integer steps of a row's score between 0 and 1."""

_WORST_LOG_LIKELIHOOD = 4.0
"""Log-likelihoods below minus this count as this, so that a row's score is in [0, 1]."""

_WORST_ERROR = 0.25
"""Errors beyond this share of the label's bounds count as this."""


def row_scores(model: Any, X: Any, y: NDArray[Any], fit_params: Mapping[str, Any]) -> NDArray[np.int64]:
    """Score of every row in steps, each in [0, SCORE_STEPS]: adding a row moves the sum by no more."""
    if not len(y):
        return np.zeros(0, dtype=np.int64)
    if is_classifier(model):
        code = class_numbers(as_labels(y), model.classes_)
        of_class = model.predict_proba(X)[np.arange(len(y)), np.nan_to_num(code).astype(np.int64)]
        probability = np.where(np.isnan(code), 0.0, of_class)
        loss = -np.log(np.maximum(probability, 1e-300)) / _WORST_LOG_LIKELIHOOD
    else:
        low, high = fit_params["label_bounds"]
        worst = _WORST_ERROR * (high - low)
        error = np.clip((np.clip(y, low, high) - model.predict(X)) / worst, -1.0, 1.0)
        own = float(model.booster_.params.get("alpha", 0.9))
        loss = OBJECTIVES[model.objective_].error(error, worst, own)
    steps = np.floor((1.0 - np.nan_to_num(loss, nan=1.0).clip(0, 1)) * SCORE_STEPS)
    return np.asarray(steps.astype(np.int64))
