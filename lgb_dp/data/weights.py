"""Row weights: checked against their public bound, and quantised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.read_only import read_only
from lgb_dp.checks import Interval, checked_number, checked_vector
from lgb_dp.errors import InvalidArgumentError


def checked_weight(weight: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Weights as float64, finite and not negative, one per row and read-only; None stays None."""
    if weight is None:
        return None
    values = checked_vector("weight", weight, n_rows)
    if (values < 0).any():
        raise InvalidArgumentError("weight must not be negative")
    return read_only(values)


def check_weight_bound(weight: NDArray[np.float64], bound: float | None) -> None:
    """Raise an InvalidArgumentError unless the weights have a public bound and keep to it."""
    if bound is None:
        raise InvalidArgumentError("weight_bound must be given as a public bound of weight, got None")
    # Below its lowest end, the steps per unit of weight would overflow.
    checked_number("weight_bound", bound, Interval(WEIGHT_STEPS / np.finfo(float).max, math.inf, "[)"))
    if (weight > bound).any():
        raise InvalidArgumentError(f"weight must lie in [0, weight_bound = {bound}]")


WEIGHT_STEPS = 2**10
"""Integer steps of a row weight between 0 and its public bound; an unweighted row is one step of one."""


def quantise_group_means(
    weight: NDArray[np.float64] | None, bound: float | None, group: NDArray[np.int64]
) -> tuple[NDArray[np.int32], int]:
    """Row weights over the number of rows of their group, as integers, and the integer of one whole row.

    Each is rounded down, ⌊w / k⌋ for a group of k rows with w ≤ `WEIGHT_STEPS`: the k of them sum to at most
    `WEIGHT_STEPS`, so that a person weighs no more than one row. Groups are numbers from 0 on; other
    arguments are those of `quantise_weights`.
    """
    n_rows = len(group)
    steps, whole = quantise_weights(
        np.ones(n_rows) if weight is None else weight, 1.0 if weight is None else bound, n_rows
    )
    return (steps // np.bincount(group)[group]).astype(np.int32), whole


def quantise_weights(
    weight: NDArray[np.float64] | None, bound: float | None, n_rows: int
) -> tuple[NDArray[np.int32], int]:
    """Row weights in ``[0, bound]``, 1 for None, as integers rounded down, and the largest possible one."""
    if weight is None or bound is None:
        return np.ones(n_rows, dtype=np.int32), 1
    steps = np.nan_to_num(np.floor(weight * (WEIGHT_STEPS / bound)), nan=0.0)
    return steps.clip(0, WEIGHT_STEPS).astype(np.int32), WEIGHT_STEPS
