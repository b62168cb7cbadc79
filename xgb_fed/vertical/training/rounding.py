"""Refusals of data for which the rounding of XGBoost's sums would decide the trees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.objectives import MIN_HESSIAN
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import UnsupportedParameterError

_FLOOR_ROOM = 1e7
"""How far `reg_lambda` or `min_child_weight` must be above all rows' smallest hessians together."""


def check_weight_of_rows(settings: Settings, weight: NDArray[np.float32] | None) -> None:
    """Refuse what is not lossless: rows without weight, several classes, and no `min_child_weight`.

    XGBoost floors the hessians of such rows at 1e-16, and the rounding of its float64 sums then decides
    between candidates that differ in them only.
    """
    if weight is None or settings.n_classes == 1 or settings.min_child_weight > 0:
        return
    if weight.min() < np.finfo(np.float64).eps * np.float64(weight.max()):
        raise UnsupportedParameterError(
            f"min_child_weight=0 is not supported for {settings.objective} with weights of "
            f"{weight.min():g} beside {weight.max():g}: set min_child_weight, or leave those rows out"
        )


def check_floor(settings: Settings, n_rows: int) -> None:
    """Refuse what is not lossless: saturated rows in nodes that neither penalty nor minimum holds back.

    A row whose probability is 0 or 1 in float32 has a gradient of 0 and, in XGBoost, a hessian of 1e-16.
    A node of such rows alone has the sum H = n·1e-16 there, by which everything else is divided unless
    `reg_lambda` or `min_child_weight` is far above.
    """
    least = _FLOOR_ROOM * float(MIN_HESSIAN) * n_rows
    if max(settings.reg_lambda, settings.min_child_weight) < least:
        raise UnsupportedParameterError(
            f"reg_lambda={settings.reg_lambda:g} with min_child_weight={settings.min_child_weight:g} is "
            f"not supported for {settings.objective} on {n_rows} rows: one of them must be at "
            f"least {least:g}, or leaf values would depend on how XGBoost rounds hessians near 0"
        )
