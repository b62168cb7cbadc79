"""Calibration of a finished private model by the table of its held-out rows, which costs nothing more."""

from __future__ import annotations

import lightgbm

from gbdt_hosts.lightgbm import guarantee_in, moved_text, with_guarantee
from lgb_dp.boosting.booster import MADE_UP_ROWS, DPBooster, evaluation_of
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError
from lgb_dp.evaluation.evaluation import PrivateEvaluation


def calibrate(booster: lightgbm.Booster) -> DPBooster:
    """A model whose log-odds are a F + b instead of F, with Platt's two numbers from its own evaluation.

    They are fitted to the released table of held-out rows, and shrunk towards no change by its noise.  Leaf
    values are multiplied by a, and b is added to those of the first tree: the model stays native, and its
    evaluation is that of the new log-odds.  All of it is post-processing, so that the guarantee stays, too.

    Parameters
    ----------
    booster : lightgbm.Booster
        Of two classes, with the evaluation of a run with `validation_fraction`; it is not changed.

    Returns
    -------
    DPBooster

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If `booster` is no booster, or has no such evaluation.
    NoGuaranteeError, AlteredModelError
        As `privacy_of`.
    """
    if not isinstance(booster, lightgbm.Booster):
        raise ArgumentTypeError(f"booster must be a lightgbm.Booster, got {type(booster).__name__}")
    evaluation = evaluation_of(booster)
    if not isinstance(evaluation, PrivateEvaluation):
        raise InvalidArgumentError(
            "booster cannot be calibrated: it has no evaluation of two classes; pass validation_fraction"
        )
    factor, shift = evaluation.platt()
    text = booster.model_to_string(num_iteration=-1)
    told = {**(guarantee_in(text) or {}), "evaluation": evaluation.moved(factor, shift).to_dict()}
    run = told.get(MADE_UP_ROWS)
    if isinstance(run, dict):  # runs that repeat this one are moved as it is
        twice = "a calibration after another one"
        told[MADE_UP_ROWS] = twice if "moved" in run else {**run, "moved": [factor, shift]}
    return DPBooster(model_str=with_guarantee(moved_text(text, factor, shift), told))
