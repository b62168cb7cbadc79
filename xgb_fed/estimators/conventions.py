"""scikit-learn's conventions for rows and labels, checked before training looks at them.

No message quotes a cell: shapes, types and argument names only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import column_or_1d

from gbdt_commons.tables.frames import is_table
from gbdt_commons.tables.numbers import check_type, is_missing
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.labels import label_array
from xgb_fed.errors import ArgumentTypeError


def check_matrix(X: Any, *, needs_columns: bool) -> None:
    """Check the shape of `X`; its numbers, and tables, are left to those who read them.

    Raises `ArgumentTypeError` or `InvalidDataError` if it is a vector, has no columns where it needs some, or
    is of a type that is not known.
    """
    if is_table(X) or (scipy.sparse.issparse(X) and X.shape[1]):
        return
    if not scipy.sparse.issparse(X):
        check_type("X", X, ArgumentTypeError)
    values = X if scipy.sparse.issparse(X) else np.asarray(X)
    if values.ndim == 1:
        raise InvalidDataError(
            "Expected 2D array, got 1D array instead.  Reshape your data: X.reshape(-1, 1) if it has one "
            "column, X.reshape(1, -1) if it is one row"
        )
    if needs_columns and values.ndim == 2 and values.shape[1] == 0:
        raise InvalidDataError(f"X has 0 feature(s) (shape={values.shape}) while a minimum of 1 is required.")


def checked_target(y: Any, estimator: str) -> Any:
    """`y`, flat, with scikit-learn's warning for a matrix of one column; else `InvalidDataError`."""
    if y is None:
        raise InvalidDataError(f"{estimator} requires y to be passed, but the target y is None")
    check_type("y", y, InvalidDataError)
    values = np.asarray(y)
    if values.ndim < 2:
        return y
    if values.shape[1:] != (1,):
        raise InvalidDataError(f"y should be a 1d array, got an array of shape {values.shape} instead")
    return column_or_1d(values, warn=True)


def check_finite(y: Any) -> None:
    """Raise `InvalidDataError` unless targets are finite numbers; text is judged by those who read it."""
    if is_missing(label_array(y, "y")).any():
        raise InvalidDataError("y has missing or infinite values")


def check_classes(y: Any) -> None:
    """Raise `InvalidDataError` unless labels of a vector are classes.

    They are none if they are numbers that are not finite, not whole and mostly different, or if all are the
    same.
    """
    check_finite(y)
    values = label_array(y, "y")
    is_whole = values.dtype.kind != "f" or (values == np.floor(values)).all()
    if not is_whole and len(np.unique(values)) > len(values) / 2:
        raise InvalidDataError(
            "Unknown label type: continuous.  Labels that differ from row to row are a regression's"
        )
    if len(values) and (values == values[0]).all():
        raise InvalidDataError("y has 1 class; at least 2 are needed")
