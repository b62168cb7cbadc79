"""XGBoost's parameters as horizontal training takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xgb_fed.boosting.params import Settings, without_vertical_only

AUTO = "auto"
"""Objective "binary:logistic", or "multi:softprob" where a party has more than two classes."""


def of_classes(params: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Parameters with XGBoost's name of the objective, and whether the parties' classes may change it."""
    is_auto = params.get("objective") == AUTO
    return {**params, "objective": "binary:logistic"} if is_auto else dict(params), is_auto


def horizontal_settings(params: Mapping[str, Any]) -> Settings:
    """Read settings from XGBoost's parameters.

    Raises
    ------
    UnsupportedParameterError
        For parameters, or values of them, that horizontal training does not support.
    """
    return without_vertical_only(Settings.from_params(params))
