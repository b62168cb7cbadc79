"""The methods of horizontal training, and which arguments of the estimators are whose."""

from __future__ import annotations

from typing import Any, TypeVar

from gbdt_commons.docstrings import with_words_replaced
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError
from xgb_fed.horizontal.common.rows import MIN_SIMILAR
from xgb_fed.horizontal.exact.task import MIN_ROWS_PER_NODE

C = TypeVar("C", bound=type)
ARGUMENTS_OF: dict[str, dict[str, Any]] = {
    "exact": {"cuts": "grid", "min_rows_per_node": MIN_ROWS_PER_NODE, "min_parties": 2},
    "simfl": {"n_hashes": None, "min_similar": MIN_SIMILAR, "known_features": 0},
}
"""Arguments that one method alone has, with their defaults."""

METHODS = """\
method : {"exact", "simfl"}, default="exact"
    How the parties train. "exact": XGBoost's own trees on the rows of all parties, which reveal only sums
    (`train_exact`). "simfl": the paper's heuristic (`train_simfl`; Li, Wen and He, 2020), in which all
    messages are in clear.
cuts : {"grid", "exact"} or sequence of array-like, default="grid"
    Where columns are cut, for "exact"; see `train_exact`.
min_rows_per_node : int, default=10
    Rows of all parties that both sides of a split must have, for "exact".
min_parties : int, default=2
    Parties that must take part, for "exact".
n_hashes : int, optional
    Number L of hashes per row, for "simfl".  By default min(40, n_features - 1), or fewer where a party
    allows fewer.
min_similar : int, default=3
    Minimum number of rows whose gradients a party given as (X, y) sends as one sum, for "simfl".
known_features : int, default=0
    Number of features of a row that other parties may know, for "simfl".  It lowers the number of
    hashes."""


def with_methods(cls: C) -> C:
    """Insert `METHODS` into a class's docstring, at the word ``methods``."""
    cls.__doc__ = with_words_replaced(cls.__doc__, {"[methods]": METHODS})
    return cls


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
