"""The evaluation that travels in a model's text, of two classes or of a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lgb_dp.evaluation.evaluation import PrivateEvaluation
from lgb_dp.evaluation.regression import RegressionEvaluation

ModelEvaluation = PrivateEvaluation | RegressionEvaluation


def evaluation_from(told: Mapping[str, Any]) -> ModelEvaluation:
    """The evaluation that `to_dict` of either kind gave.

    Raises
    ------
    KeyError, TypeError, ValueError
        If something is missing, or is not what `to_dict` gives.
    """
    kind = RegressionEvaluation if "residuals" in told else PrivateEvaluation
    return kind.from_dict(told)
