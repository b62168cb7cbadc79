"""Arrays of numbers, from whatever a user has them in; no error quotes a cell."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from numpy.exceptions import ComplexWarning
from numpy.typing import NDArray

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.tables.frames import Refusal, as_frame, as_series, column_names, is_table

_TIMES = (np.datetime64, np.timedelta64)
_OF_OTHER_TABLES = ("columns", "collect_schema", "__dataframe__", "__dask_graph__")
"""Attributes of tables and collections that are not read here, or not without computing them."""


def check_type(name: str, values: Any, error: Refusal) -> None:
    """Raise for what NumPy would make other cells of than it shows, and for types that are not known."""
    rows = values if isinstance(values, (list, tuple)) else [values]
    if any(isinstance(row, np.ma.MaskedArray) for row in rows):
        raise error(f"{name} is a masked array, whose mask would be lost; pass it as X.filled(numpy.nan)")
    if isinstance(values, np.ndarray):
        if values.dtype.names is not None:
            raise error(
                f"{name} is a structured array; make a matrix of it by "
                "numpy.lib.recfunctions.structured_to_unstructured, or a data frame"
            )
        return
    kind = type(values)
    known = isinstance(values, (Sequence, Number)) or is_table(values) or as_series(values) is not None
    is_other = any(hasattr(values, one) for one in _OF_OTHER_TABLES)
    if not known and (is_other or not hasattr(kind, "__array__")):
        raise error(
            f"{name} is a {kind.__name__}; arrays, lists, sparse matrices of SciPy and tables of pandas, "
            "polars and pyarrow in memory are accepted: convert it first"
        )


def read_numbers(
    name: str,
    values: Any,
    dtype: type[np.floating[Any]],
    error: Refusal,
    type_error: Refusal,
    remedy: str = "",
) -> NDArray[Any]:
    """Data of any shape as floats, without a copy where it is of the data type already.

    Every conversion of rows, labels, weights and scores goes through here: NumPy and pandas quote the first
    cell that they cannot convert, and their error would also travel as the context of one that replaces it.
    Missing values of pandas become NaN. `error` makes the error of complex numbers, NumPy's times, and text
    that does not read as a number, with the `remedy` at its end; `type_error` that of values that are neither
    numbers nor text, and of types that are not known.
    """
    check_type(name, values, type_error)
    own = getattr(values, "dtype", None)
    if isinstance(own, np.dtype) and own.kind == "c":
        raise error(f"Complex data not supported: {name} must hold real numbers")
    is_container = False
    try:
        with silent_arithmetic(), warnings.catch_warnings():
            # NumPy drops the imaginary part of a complex number among objects with a warning.
            warnings.simplefilter("error", ComplexWarning)
            if not _holds_times(values):
                if _is_of_pandas(values):
                    return np.asarray(values.to_numpy(dtype=dtype, na_value=np.nan))
                return np.asarray(values, dtype=dtype)
    except TypeError:
        is_container = True
    except Exception:  # whatever a cell's own conversion raises
        pass
    if is_container:
        raise type_error(
            f"{name} must hold numbers only, got {_data_type(values)}; each argument must be a string that "
            "reads as a number, or a number"
        )
    raise error(f"{name} must hold numbers only, got {_data_type(values)}{remedy}")


def _is_of_pandas(values: Any) -> bool:
    found = nw.dependencies
    return bool(found.is_pandas_like_dataframe(values) or found.is_pandas_like_series(values))


def _holds_times(values: Any) -> bool:
    """Whether times are among the values; NumPy would turn them into counts of their unit."""
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "mM":
        return True
    if nw.dependencies.is_pandas_like_dataframe(values):
        kinds = [getattr(one, "kind", "") for one in values.dtypes]
        return any(_holds_times(values.iloc[:, k]) for k, kind in enumerate(kinds) if kind and kind in "OmM")
    if not isinstance(values, np.ndarray) and is_table(values):
        return any(known.is_temporal() for known in as_frame(values, TypeError).schema.values())
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        cells = np.asarray(values).ravel().tolist()
    elif isinstance(values, (list, tuple)):
        cells = list(values)
    elif not isinstance(values, np.ndarray) and (series := as_series(values)) is not None:
        return series.dtype.is_temporal()
    else:
        return False
    return any(_holds_times(c) if isinstance(c, (list, tuple)) else isinstance(c, _TIMES) for c in cells)


def _data_type(values: Any) -> str:
    """The type of data in words that do not depend on any cell, as the width of NumPy's texts does."""
    if is_table(values):
        frame = as_frame(values, TypeError)
        types = zip(column_names(frame), frame.schema.values(), strict=True)
        other = [name for name, known in types if not (known.is_numeric() or known == nw.Boolean)]
        return f"a {type(values).__name__} whose columns {other} are of other types"
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype):
        return f"an array of {dtype.type.__name__}"
    return f"a {type(values).__name__}"


def is_missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are None, of a library's own missing values, or not finite."""
    if labels.dtype.kind == "f":
        return np.asarray(~np.isfinite(labels))
    if labels.dtype.kind != "O":
        return np.zeros(len(labels), dtype=bool)
    return np.array([_is_missing_value(label) for label in labels.tolist()], dtype=bool)


def _is_missing_value(label: Any) -> bool:
    can_be_nan = isinstance(label, (float, np.floating, np.datetime64))
    is_nan = can_be_nan and not np.isfinite(label)
    return label is None or bool(is_nan) or type(label).__name__ in ("NAType", "NaTType")


def is_number(label: Any) -> bool:
    """Whether a label is a number or a truth value."""
    return isinstance(label, (int, float, np.bool_, np.integer, np.floating))


def canonical(data: Any, kind: type, name: str, error: Refusal) -> Any:
    """A sparse matrix by rows or by columns, each one's entries ascending, none twice; `data` stays as it is.

    The matrix's own flags are not believed: they are stale once its arrays were written into, and a row with
    two entries of one column would count twice. `kind` is SciPy's ``csr_matrix`` or ``csc_matrix``; `error`
    makes the error, which has the `name`, of arrays that do not describe a matrix.
    """
    try:
        # Before the conversion, which would write where wrong numbers of rows or columns point.
        if data.format == "lil":
            data = data.tocsr()
        elif data.format in ("dia", "dok"):
            data = data.tocoo()
        if data.format == "coo":
            data = type(data)((data.data, (data.row, data.col)), shape=data.shape)
        else:
            data = type(data)(data)
            data.check_format(full_check=True)
        found = kind(data)
    except Exception:  # whatever SciPy raises, and it may quote an entry
        found = None
    if found is None:
        raise error(f"{name} must be a valid sparse matrix with two dimensions")
    ascends = np.diff(found.indices) > 0
    starts = found.indptr[1:-1]
    ascends[starts[(starts > 0) & (starts < len(found.indices))] - 1] = True
    if not ascends.all():
        found = found.copy()
        found.has_sorted_indices = found.has_canonical_format = False
        found.sum_duplicates()
    return found
