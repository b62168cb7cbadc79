"""XGBoost's parameters as horizontal training takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xgb_fed.boosting.params import Settings, without_vertical_only


def horizontal_settings(params: Mapping[str, Any]) -> Settings:
    """Read settings from XGBoost's parameters.

    Raises
    ------
    UnsupportedParameterError
        For parameters, or values of them, that horizontal training does not support.
    """
    return without_vertical_only(Settings.from_params(params))
