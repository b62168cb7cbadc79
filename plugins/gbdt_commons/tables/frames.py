"""Tables of pandas, polars and pyarrow: names, kinds and categories of their columns.

All of it follows from names, data types and declared categories.  Nothing is taken for a name because an
attribute is called so: of other libraries, and of other versions, such an attribute may hold the values.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final, Literal

import narwhals as nw
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Kind = Literal["number", "boolean", "datetime", "duration", "category", "text", "object", "other"]

MAX_NAME: Final = 256
"""Characters of a column's name."""

Refusal = Callable[[str], Exception]
"""Makes the error of a text, in the caller's own hierarchy."""


def is_table(data: Any) -> bool:
    """Whether `data` is a table of a library that narwhals knows; no such library need be installed."""
    return bool(nw.dependencies.is_into_dataframe(data)) or _is_record_batch(data)


def _is_record_batch(data: Any) -> bool:
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(data, arrow.RecordBatch)


def as_frame(data: Any, error: Refusal, argument: str = "data") -> nw.DataFrame[Any]:
    """A table (`is_table`) as narwhals sees it, with proper column names; `error` names the `argument`."""
    if _is_record_batch(data):
        data = sys.modules["pyarrow"].Table.from_batches([data])
    frame: nw.DataFrame[Any]
    try:
        frame = nw.from_native(data, eager_only=True)
        names = column_names(frame)
    except nw.exceptions.DuplicateError:
        is_pandas = nw.dependencies.is_pandas_like_dataframe(data)
        names = tuple(map(str, data.columns) if is_pandas else data.schema.names)
    check_names(names, error, argument)
    return frame


def column_names(frame: nw.DataFrame[Any]) -> tuple[str, ...]:
    """Names of the columns; the numbers that pandas gives to columns without names become texts."""
    return tuple(str(name) if isinstance(name, (int, np.integer)) else name for name in frame.columns)


def check_names(names: Sequence[Any], error: Refusal, argument: str) -> None:
    """Raise unless names of columns are different printable texts of 1 to `MAX_NAME` characters.

    They are public: models, messages and errors hold them.  This stands where names enter and where a message
    with names is written or read.  No other name is quoted: it may be what cells hold.
    """
    for place, name in enumerate(names):
        if not isinstance(name, str):
            fault = f"is not a text but of type {type(name).__name__}"
        elif not 1 <= len(name) <= MAX_NAME:
            fault = f"has {len(name)} characters"
        elif not name.isprintable():
            fault = "has a character that is not printable"
        else:
            continue
        raise error(
            f"{argument}: the name of column {place} {fault}; names are printable texts of 1 to {MAX_NAME} "
            "characters: rename the columns"
        )
    if len(set(names)) < len(names):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        raise error(f"{argument}: duplicate column names: {twice[:10]}; rename the columns")


def as_series(values: Any) -> nw.Series[Any] | None:
    """One column of a library that narwhals knows; None for anything else."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(values, arrow.Array):
        values = arrow.chunked_array([values])
    if not nw.dependencies.is_into_series(values):
        return None
    series: nw.Series[Any] = nw.from_native(values, series_only=True)
    return series


def holds_booleans(values: Any) -> bool:
    """Whether the data type of a column or of an array is that of truth values."""
    series = as_series(values)
    return getattr(values, "dtype", None) == np.bool_ if series is None else kind_of(series) == "boolean"


def rows_of_table(data: Any, rows: NDArray[np.int64], error: Refusal) -> Any:
    """Some rows of a table, in a table of the same library."""
    if nw.dependencies.is_pandas_like_dataframe(data):
        return data.iloc[rows]
    return as_frame(data, error)[rows].to_native()


def kind_of(series: nw.Series[Any]) -> Kind:
    """Kind of a column, by its data type alone."""
    return _kind(getattr(series.to_native(), "dtype", None), series.dtype)


def kinds_of(frame: nw.DataFrame[Any]) -> list[Kind]:
    """Kind of each column, by its data type alone."""
    native, types = frame.to_native(), list(frame.schema.values())
    own = native.dtypes if nw.dependencies.is_pandas_like_dataframe(native) else types
    return list(map(_kind, own, types))


def _kind(own: Any, dtype: Any) -> Kind:
    """Kind of a column by its library's data type, and the one that narwhals makes of it."""
    if isinstance(own, np.dtype) and own.kind == "O":  # narwhals tells objects from texts by the first cells
        return "object"
    if dtype == nw.Unknown and getattr(own, "kind", None) in ("b", "i", "u", "f"):  # pandas' sparse columns
        return "number"
    if dtype == nw.Boolean:
        return "boolean"
    if dtype.is_numeric():
        return "number"
    if dtype in (nw.Datetime, nw.Date):
        return "datetime"
    if dtype == nw.Duration:
        return "duration"
    if dtype in (nw.Categorical, nw.Enum):
        return "category"
    if dtype == nw.String:
        return "text"
    return "object" if dtype in (nw.Object, nw.Unknown) else "other"


def index_of(data: Any) -> Any:
    """The index of a data frame of pandas or a library like it; None for anything else."""
    return data.index if nw.dependencies.is_pandas_like_dataframe(data) else None


def types_of(data: Any, error: Refusal) -> tuple[str, ...]:
    """Names and data types of a table's columns; of anything else, the number and data type of its columns.

    Without the categories of a type, which partitions may list in another order.
    """
    if is_table(data):
        frame = as_frame(data, error)
        known = zip(column_names(frame), frame.schema.values(), strict=True)
        return tuple(f"{name}: {str(dtype).partition('(')[0]}" for name, dtype in known)
    if not (isinstance(data, np.ndarray) or scipy.sparse.issparse(data)) or data.ndim != 2:
        return (type(data).__name__,)
    return (f"{data.shape[1]} columns of {data.dtype.type.__name__}",)


def check_types(data: Any, declared: Sequence[str], error: Refusal) -> None:
    """Raise unless a partition has the `declared` types, as of `types_of`; names the first other one."""
    for mine, other in zip_longest(types_of(data, error), declared, fillvalue="nothing"):
        if mine != other:
            raise error(
                "its columns or data types differ from those of the collection: "
                f"got {mine!r} where {other!r} was declared"
            )


def plain_value(value: Any) -> Any:
    """A category as JSON has it: numbers, truth values and text as they are, anything else as its text."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]")  # others become integers of an unknown unit
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value if isinstance(value, (str, bool, int, float)) else str(value)


def categories_of_dtype(series: nw.Series[Any]) -> list[Any] | None:
    """The categories that a column's data type lists; None where the type does not (polars' Categorical)."""
    native = series.to_native()
    if nw.dependencies.is_pandas_like_series(native):
        return list(getattr(native.dtype, "categories", ())) or None
    return list(series.dtype.categories) if isinstance(series.dtype, nw.Enum) else None


def codes_of_dtype(series: nw.Series[Any]) -> NDArray[np.integer[Any]] | None:
    """The place of each cell among the categories of pandas; −1 where missing, None for others."""
    native = series.to_native()
    listed = nw.dependencies.is_pandas_like_series(native) and hasattr(native.dtype, "categories")
    return np.asarray(native.cat.codes) if listed else None


def categories_of_cells(series: nw.Series[Any]) -> list[Any]:
    """The distinct values of a category column, sorted: private knowledge, never public."""
    return sorted(map(plain_value, series.drop_nulls().unique().to_list()), key=str)
