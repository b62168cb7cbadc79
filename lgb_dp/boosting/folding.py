"""Folding a finished private model: a smaller file, and raw scores that change by at most a tolerance."""

from __future__ import annotations

from typing import Any

import lightgbm

from gbdt_hosts.lightgbm import folded_text, guarantee_in, with_guarantee
from lgb_dp.boosting.booster import DPBooster, evaluation_of, privacy_of
from lgb_dp.checks import NOT_NEGATIVE, checked_number
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError


def fold(booster: lightgbm.Booster, tolerance: float = 0.0) -> DPBooster:
    """A smaller model that says nearly the same.

    Subtrees whose leaves differ little become one leaf, leaf values are rounded to numbers that take few
    digits in the file, gains keep three digits, and the values and weights of inner nodes and the weights of
    leaves, which no prediction reads, become 0.  All of that is post-processing, so that the guarantee stays
    what it is, and stays inside the model; so does its evaluation where no prediction changes.

    Parameters
    ----------
    booster : lightgbm.Booster
        With a privacy guarantee; it is not changed.
    tolerance : float
        By how much a raw score may change for any row, in raw score units (log-odds for a classifier, the
        label's unit for the square loss).  It bounds the sum, over the trees of an output, of the largest
        change of a leaf value, and holds for predictions from all iterations together, and from the first
        ones.  At 0 no prediction changes.

    Returns
    -------
    DPBooster
        Native like any other.

    Raises
    ------
    ArgumentTypeError
        If `booster` is not a booster, or `tolerance` not a number.
    InvalidArgumentError
        If `tolerance` is negative or not finite, or the model has linear trees, which an initial model may
        have brought along.
    NoGuaranteeError, AlteredModelError
        As `privacy_of`.
    """
    if not isinstance(booster, lightgbm.Booster):
        raise ArgumentTypeError(f"booster must be a lightgbm.Booster, got {type(booster).__name__}")
    tolerance = checked_number("tolerance", tolerance, NOT_NEGATIVE)
    privacy_of(booster)
    text: Any = booster.model_to_string(num_iteration=-1)
    try:
        folded = folded_text(text, tolerance)
    except ValueError as error:
        raise InvalidArgumentError(f"booster cannot be folded: {error}") from None
    told = guarantee_in(text) or {}
    if tolerance > 0 or evaluation_of(booster) is None:
        told.pop("evaluation", None)
    result = DPBooster(model_str=with_guarantee(folded, told))
    result.best_iteration = booster.best_iteration
    return result
