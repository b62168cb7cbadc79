"""LightGBM's parameter names and defaults, asked of the installed version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import lightgbm
import numpy as np
from lightgbm.basic import _ConfigAliases

from gbdt_hosts.lightgbm.text import parameter_lines


@lru_cache(maxsize=1)
def main_names() -> dict[str, str]:
    """LightGBM's own name of each parameter, by that name and by its aliases."""
    _ConfigAliases.get("verbosity")  # the table is read when first asked
    table = _ConfigAliases.aliases or {}
    return {alias: main for main, aliases in table.items() for alias in (main, *aliases)}


def resolve_aliases(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by LightGBM's main names, which win; `ValueError` if two aliases differ."""
    resolved: dict[str, Any] = {}
    for name, value in params.items():
        main = main_names().get(name, name)
        given = params.get(main, value)
        if main in resolved and main not in params and resolved[main] != value:
            raise ValueError(f"params give {main!r} twice, as {resolved[main]!r} and as {name}={value!r}")
        resolved[main] = given
    return resolved


@lru_cache(maxsize=1)
def default_parameters() -> dict[str, str]:
    """Every parameter of the installed LightGBM with its default, both as the model file writes them."""
    data = lightgbm.Dataset(np.zeros((2, 1)), label=np.array([0, 1]), params={"verbosity": -1})
    booster = lightgbm.Booster({"verbosity": -1}, data)
    defaults = parameter_lines(booster.model_to_string())
    defaults["verbosity"] = "1"
    defaults.update({"objective": "regression", "metric": "", "num_iterations": "100"})
    return defaults
