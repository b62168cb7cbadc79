"""Bounded score of each held-out row for a trial of the search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from lgb_dp.data.classes import as_labels, class_numbers

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
        loss = _error_losses(
            model, np.clip((np.clip(y, low, high) - model.predict(X)) / worst, -1.0, 1.0), worst
        )
    steps = np.floor((1.0 - np.nan_to_num(loss, nan=1.0).clip(0, 1)) * SCORE_STEPS)
    return np.asarray(steps.astype(np.int64))


def _error_losses(model: Any, error: NDArray[np.float64], worst: float) -> NDArray[np.float64]:
    """Losses in [0, 1] of errors in [-1, 1], which are in units of `worst`: by what the model predicts.

    Squared errors tell which model's mean is the better one with a logarithmic link, too.
    """
    alpha = float(model.booster_.params.get("alpha", 0.9))
    size = np.abs(error)
    if model.objective_ == "regression_l1":
        return size
    if model.objective_ == "quantile":
        return np.asarray(np.where(error > 0, alpha, 1.0 - alpha) * size / max(alpha, 1.0 - alpha))
    if model.objective_ == "huber":
        t = min(alpha / worst, 1.0)
        return np.asarray(np.where(size <= t, size**2 / 2, t * (size - t / 2)) / (t * (1.0 - t / 2)))
    return np.asarray(error**2)
