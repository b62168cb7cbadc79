"""The evaluation that travels in a model's text, of classes or of a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lgb_dp.evaluation.evaluation import PrivateEvaluation
from lgb_dp.evaluation.regression import RegressionEvaluation
from lgb_dp.evaluation.several_classes import MulticlassEvaluation

ModelEvaluation = PrivateEvaluation | MulticlassEvaluation | RegressionEvaluation


def evaluation_from(told: Mapping[str, Any]) -> ModelEvaluation:
    """The evaluation that `to_dict` of any kind gave.

    Raises
    ------
    KeyError, TypeError, ValueError
        If something is missing, or is not what `to_dict` gives.
    """
    if "residuals" in told:
        return RegressionEvaluation.from_dict(told)
    return (MulticlassEvaluation if "classes" in told else PrivateEvaluation).from_dict(told)
