"""Checks of the rows, labels and bounds that a Dataset is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.read_only import read_only
from gbdt_commons.tables.frames import is_table
from gbdt_commons.tables.numbers import check_type
from lgb_dp.checks import checked_numbers, checked_vector
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError
from lgb_dp.losses.times import as_times
from lgb_dp.mechanisms.noise import MAX_ROWS

MAX_LABEL = 1e100
"""Of a label's absolute value in a regression: trees add up squares of labels."""

DECLARE_CATEGORIES = "declare the public values of these columns, as in categories={'city': [...]}"
"""The way out for those who pass LightGBM's `categorical_feature`."""


def checked_rows(rows: Any, n_rows: int) -> NDArray[np.int64]:
    """Row numbers, ascending."""
    rows = np.asarray(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InvalidArgumentError(
            f"used_indices must be row numbers, got an array of {rows.dtype} and shape {rows.shape}"
        )
    if rows.size and not (rows.min() >= 0 and rows.max() < n_rows):
        raise InvalidArgumentError(f"used_indices must lie in [0, {n_rows})")
    return np.sort(rows.astype(np.int64))


def checked_data(data: Any) -> Any:
    """A matrix with rows and features, a list as an array."""
    if isinstance(data, list) or (isinstance(data, np.ndarray) and data.dtype.kind not in "biuf"):
        data = checked_numbers("data", data)
    if isinstance(data, np.ndarray):
        check_type("data", data, ArgumentTypeError)
    elif not (is_table(data) or scipy.sparse.issparse(data)):
        raise ArgumentTypeError(
            "data must be a numpy array, a table of pandas, polars or pyarrow, or a sparse matrix, "
            f"got {type(data).__name__}"
        )
    if scipy.sparse.issparse(data) and data.dtype.kind not in "biuf":
        raise ArgumentTypeError(f"a sparse matrix must hold numbers, got {data.dtype.type.__name__}")
    if len(data.shape) != 2 or 0 in data.shape:
        raise InvalidArgumentError(f"data must have rows and features, got shape {data.shape}")
    if data.shape[0] >= MAX_ROWS:
        raise InvalidArgumentError(f"data has {data.shape[0]} rows; fewer than {MAX_ROWS} are supported")
    return data


def checked_label(label: Any, n_rows: int, *, must_be_finite: bool) -> NDArray[np.float64]:
    """One number per row, or several, or two times to an event, in a read-only array of its own."""
    if label is None:
        raise InvalidArgumentError("label must be one number per row, got None")
    if (times := as_times(label)) is not None:
        if len(times) != n_rows:
            raise InvalidArgumentError(f"label has {len(times)} rows of times; data has {n_rows} rows")
        return read_only(times)
    shape = np.shape(label)
    columns = [label] if len(shape) != 2 or shape[1] == 1 else checked_numbers("label", label).T
    checked = [checked_vector("label", one, n_rows, finite=must_be_finite) for one in columns]
    return read_only(checked[0] if len(checked) == 1 else np.stack(checked, axis=1))


def checked_label_bounds(bounds: Any) -> Any:
    """Two bounds, ascending, whose squares and sums are finite, or such a pair for each target."""
    if bounds is None:
        return None
    if len(bounds) and all(np.ndim(one) == 1 for one in bounds):
        return tuple(checked_label_bounds(one) for one in bounds)
    pair = low, *_, high = tuple(float(b) for b in bounds)
    is_wide = -MAX_LABEL <= low < high <= MAX_LABEL and (high - low) / 2 >= np.finfo(float).tiny
    if len(pair) != 2 or not is_wide:
        raise InvalidArgumentError(f"label_bounds must be ascending and within ±{MAX_LABEL:g}, got {pair}")
    return pair
