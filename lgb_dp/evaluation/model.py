"""The evaluation that travels in a model's text, of classes, of a number or of times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lgb_dp.evaluation.evaluation import PrivateEvaluation
from lgb_dp.evaluation.regression import RegressionEvaluation
from lgb_dp.evaluation.several_classes import MulticlassEvaluation
from lgb_dp.evaluation.survival import SurvivalEvaluation

ModelEvaluation = PrivateEvaluation | MulticlassEvaluation | RegressionEvaluation | SurvivalEvaluation


def evaluation_from(told: Mapping[str, Any]) -> ModelEvaluation:
    """The evaluation that `to_dict` of any kind gave, of groups or of all rows.

    Raises
    ------
    KeyError, TypeError, ValueError
        If something is missing, or is not what `to_dict` gives.
    """
    if "groups" in told:
        groups = {str(name): _of_rows(one) for name, one in dict(told["groups"]).items()}
        (kind,) = {type(one) for one in groups.values()}
        return kind.of_groups(str(told["by"]), groups)  # type: ignore[arg-type]
    return _of_rows(told)


def _of_rows(told: Mapping[str, Any]) -> ModelEvaluation:
    if "times" in told:
        return SurvivalEvaluation.from_dict(told)
    if "width" in told:
        return RegressionEvaluation.from_dict(told)
    return (MulticlassEvaluation if "losses" in told else PrivateEvaluation).from_dict(told)
