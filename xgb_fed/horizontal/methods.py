"""The methods of horizontal training, and which arguments of the estimators are whose."""

from __future__ import annotations

from typing import Any

from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError
from xgb_fed.horizontal.common.rows import MIN_SIMILAR
from xgb_fed.horizontal.exact.task import MIN_ROWS_PER_NODE

ARGUMENTS_OF: dict[str, dict[str, Any]] = {
    "exact": {"cuts": "grid", "min_rows_per_node": MIN_ROWS_PER_NODE, "min_parties": 2},
    "simfl": {"n_hashes": None, "min_similar": MIN_SIMILAR, "known_features": 0},
}
"""Arguments that one method alone has, with their defaults."""


def check_arguments(model: Any) -> None:
    """Check that an estimator has a known method, and only arguments that the method knows.

    Raises
    ------
    InvalidArgumentError, UnsupportedParameterError
        Naming the argument.
    """
    if model.method not in ARGUMENTS_OF:
        raise InvalidArgumentError(f"method={model.method!r} must be one of {sorted(ARGUMENTS_OF)}")
    for method, arguments in ARGUMENTS_OF.items():
        for name, default in arguments.items():
            value = getattr(model, name)
            if method != model.method and (type(value) is not type(default) or value != default):
                raise UnsupportedParameterError(f"{name}={value!r} is for method={method!r} only")
    if model.method == "exact" and model.callbacks:
        raise UnsupportedParameterError(
            "callbacks are not supported with method='exact', in which every party works out for itself when "
            "training ends; use early_stopping_rounds"
        )
