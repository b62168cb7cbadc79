"""Leaf values that are quantiles of residuals, as XGBoost's absolute and quantile errors have them.

(XGBoost, ``src/common/stats.h`` and ``src/objective/adaptive.cc``, versions 2.0 to 3.2.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.targets import Targets

Vector = NDArray[np.float32]


def quantile(values: Vector, alpha: float) -> float:
    """Quantile of some numbers, in XGBoost's definition and precision.

    Parameters
    ----------
    values : ndarray of float32, not empty
    alpha : float
        From 0 to 1.
    """
    ordered, n = np.sort(values), len(values)
    if alpha <= 1 / (n + 1):
        return float(ordered[0])
    if alpha >= n / (n + 1):
        return float(ordered[-1])
    place = alpha * (n + 1) - 1
    below = int(np.floor(place))
    rise = np.float64(ordered[below + 1] - ordered[below])
    return float(np.float32(ordered[below] + (place - below) * rise))


def weighted_quantile(values: Vector, weight: Vector, alpha: float) -> float:
    """Quantile of weighted numbers: the first at which the running weight reaches its part of the total."""
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weight[order], dtype=np.float32)
    place = int(np.searchsorted(running, np.float32(np.float64(running[-1]) * alpha)))
    return float(values[order[min(place, len(order) - 1)]])


def leaf_quantiles(
    leaf: NDArray[np.integer], rows: NDArray[np.bool_], margin: Vector, targets: Targets, alpha: float
) -> dict[int, float]:
    """The value of every leaf that has rows.

    Parameters
    ----------
    leaf : ndarray of int, shape (n_rows,)
    rows : ndarray of bool, shape (n_rows,)
        The rows that the tree was grown on.
    margin : ndarray of float32, shape (n_rows,)
        Before the tree.
    targets : Targets
    alpha : float

    Returns
    -------
    dict
        By leaf, before the learning rate.
    """
    chosen = np.flatnonzero(rows)
    chosen = chosen[np.argsort(leaf[chosen], kind="stable")]
    residual, numbers = (targets.label - margin)[chosen], leaf[chosen]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    parts = np.split(np.arange(len(chosen)), starts[1:]) if len(chosen) else []
    if targets.weight is None:
        return {int(numbers[part[0]]): quantile(residual[part], alpha) for part in parts}
    weight = targets.weight[chosen]
    return {int(numbers[part[0]]): weighted_quantile(residual[part], weight[part], alpha) for part in parts}
