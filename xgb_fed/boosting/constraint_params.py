"""The forms in which XGBoost takes `monotone_constraints` and `interaction_constraints`, read into one.

A column is a name or a number; which columns there are is found out later.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gbdt_commons.quoting import shown
from gbdt_parties.agreed import read_json
from xgb_fed.errors import InvalidArgumentError

Column = int | str
"""Name of a column, or its number among the columns of all parties."""

Monotone = tuple[tuple[Column, int], ...]
Interactions = tuple[tuple[Column, ...], ...]


def read_monotone_constraints(value: Any) -> Monotone | None:
    """Columns and the signs of their constraints; None if nothing is constrained.

    ``{"age": 1}``, one number per column as in ``(1, 0, -1)``, and such numbers as text are accepted; raises
    `InvalidArgumentError` for anything else.
    """
    pairs: list[tuple[Any, Any]] | None = None
    if isinstance(value, str) and value.strip()[:1] in ("(", "[") and value.strip()[-1:] in (")", "]"):
        parts = [part.strip() for part in value.strip()[1:-1].split(",")]
        try:
            pairs = list(enumerate(int(part) for part in parts if part))
        except ValueError:
            pairs = None
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
        pairs = list(enumerate(value))
    if pairs is None or not all(_is_column(column) and _is_sign(sign) for column, sign in pairs):
        raise InvalidArgumentError(
            f"monotone_constraints={shown(value)} must be 1, 0 or -1 for each column, such as (1, 0), "
            "'(1,0)' or {'age': 1}"
        )
    return tuple((_column(column), int(sign)) for column, sign in pairs) or None


def read_interaction_constraints(value: Any) -> Interactions | None:
    """Groups of columns that may split the nodes of one path; None if nothing is constrained.

    They come as ``[["age", "income"], ["bank:0", "bank:3"]]``, or as JSON text.  An empty list means, as in
    XGBoost, that no two columns may interact; an empty text that all may.  Raises `InvalidArgumentError` for
    anything else.
    """
    groups = value
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            groups = read_json(value)
        except ValueError:
            groups = None
    if not _is_list(groups) or not all(_is_list(g) and all(map(_is_column, g)) for g in groups):
        raise InvalidArgumentError(
            f"interaction_constraints={shown(value)} must be lists of columns, such as [['age', 'income']] "
            "or '[[0, 1], [2, 3]]'"
        )
    return tuple(tuple(map(_column, group)) for group in groups)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset))


def _is_column(value: Any) -> bool:
    return isinstance(value, (str, numbers.Integral)) and not isinstance(value, bool)


def _is_sign(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) in (-1, 0, 1)


def _column(value: Any) -> Column:
    return value if isinstance(value, str) else int(value)
