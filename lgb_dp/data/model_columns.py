"""How the columns of a table become the features of a model, read from the model's text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gbdt_hosts.lightgbm import columns_in
from lgb_dp.data.tables import TIMES, TableColumns
from lgb_dp.errors import AlteredModelError

_SCALARS = (str, int, float, type(None))


def columns_of_model(text: str) -> TableColumns:
    """Columns that private training has written into a model's text; empty for a model of LightGBM's own.

    The text may be somebody else's, so that whatever is read from it is checked here, once.

    Raises
    ------
    AlteredModelError
        If it is not what private training writes.
    """
    try:
        return _checked(columns_in(text))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        pass
    # Outside of the except block: the other error may quote the file at length.
    raise AlteredModelError("the model's text does not say how columns become features; it was altered")


def _checked(values: Mapping[str, Any]) -> TableColumns:
    if not set(values) <= {"names", "categories", "codes", "times"}:
        raise ValueError("unknown entries")
    columns = TableColumns.from_dict(values)
    names = columns.names or ()
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("names")
    if not all(isinstance(value, _SCALARS) for known in columns.categories.values() for value in known):
        raise ValueError("categories")
    for value in (value for known in columns.categories.values() for value in known):
        float(value) if isinstance(value, int) else None  # an OverflowError if no cell could hold it
    if not all(type(code) is int for codes in columns.codes.values() for code in codes):
        raise ValueError("codes")
    if not set(columns.times.values()) <= set(TIMES):
        raise ValueError("times")
    features = [*columns.categories, *columns.codes, *columns.times]
    if min(features, default=0) < 0 or (names and max(features, default=0) >= len(names)):
        raise ValueError("features")
    return columns
