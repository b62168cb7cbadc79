"""The rows and labels that an estimator is given, checked as scikit-learn expects.

No message quotes a cell: shapes, types and argument names only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import column_or_1d

from gbdt_commons.tables.frames import is_table
from gbdt_commons.tables.numbers import check_type
from lgb_dp.checks import checked_numbers
from lgb_dp.data.tables import as_frame
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError


def as_matrix(X: Any) -> Any:
    """`X` with rows and features, as an array of numbers if it is a list or an array of something else.

    Raises `ArgumentTypeError` or `InvalidArgumentError` if it is not a matrix of numbers with a feature.
    """
    if scipy.sparse.issparse(X):
        X = X if X.format in ("csr", "csc") else X.tocsr()
    elif not is_table(X):
        check_type("X", X, ArgumentTypeError)
        if not isinstance(X, (np.ndarray, list, tuple)):
            X = np.asarray(X)
        if isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype.kind not in "biuf"):
            X = checked_numbers("X", X)
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) == 1:
        raise InvalidArgumentError(
            "Expected 2D array, got 1D array instead.  Reshape your data: X.reshape(-1, 1) if it has one "
            "feature, X.reshape(1, -1) if it is one row"
        )
    if len(shape) == 2 and shape[1] == 0:
        raise InvalidArgumentError(f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    return X


def as_target(y: Any, estimator: str, *, accepts_several: bool = False) -> Any:
    """`y`, flat if it is a matrix of one column, with scikit-learn's warning.

    Several targets, if they are accepted, are an array of shape (n_rows, n_targets).

    Raises
    ------
    InvalidArgumentError
        If it is missing, or has more than one column.
    """
    if y is None:
        raise InvalidArgumentError(f"{estimator} requires y to be passed, but the target y is None")
    if len(getattr(y, "shape", ())) < 2:
        return y
    if accepts_several and len(y.shape) == 2 and y.shape[1] > 1:
        return as_frame(y).to_numpy() if is_table(y) else y
    if y.shape[1:] != (1,):
        raise InvalidArgumentError(f"y should be a 1d array, got an array of shape {y.shape} instead")
    return as_frame(y)[:, 0].to_native() if is_table(y) else column_or_1d(y, warn=True)
