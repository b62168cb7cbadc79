"""scikit-learn's way of writing an objective or a metric, in XGBoost's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_hosts.xgboost.gradients import CustomObjective
from gbdt_hosts.xgboost.training import CustomMetric


def objective_of(function: Callable[..., Any]) -> CustomObjective:
    """XGBoost's `obj` of a function of labels, margins and, if there are any, `sample_weight`.

    Parameters
    ----------
    function : callable
        ``function(y_true, y_pred)`` returns gradients and hessians.

    Returns
    -------
    callable
    """

    def objective(margin: NDArray[Any], data: xgboost.DMatrix) -> Any:
        weight = data.get_weight()
        if weight.size:
            return function(data.get_label(), margin, sample_weight=weight)
        return function(data.get_label(), margin)

    return objective


def metric_of(function: Callable[..., Any]) -> CustomMetric:
    """XGBoost's `custom_metric` of a function of labels, predictions and, if there are any, `sample_weight`.

    Parameters
    ----------
    function : callable
        ``function(y_true, y_pred)`` returns a number; its name is the metric's.

    Returns
    -------
    callable
    """

    def metric(prediction: NDArray[Any], data: xgboost.DMatrix) -> tuple[str, float]:
        weight = data.get_weight()
        how = {"sample_weight": weight} if weight.size else {}
        return function.__name__, float(np.asarray(function(data.get_label(), prediction, **how)))

    return metric
