"""Tables as the matrix that a model's trees read, for LightGBM without `lgb_dp`, ONNX and other languages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.tables.frames import is_table
from lgb_dp.boosting.booster import DPBooster, content_of, text_in
from lgb_dp.errors import ArgumentTypeError


def encode(table: Any, model: Any, *, accept_undeclared: Collection[str] = ()) -> NDArray[np.float64]:
    """The matrix of a table that plain LightGBM, ONNX and other languages predict as `DPBooster` does.

    The model's text says how: columns in the order of training, truth values as 0 and 1, times in seconds
    since 1970 (UTC), durations in seconds, and a category as the code that the model has for it.  That is its
    position in the declared list, or the value itself where integers from 0 on were declared for a column
    that is not of a category type.  NaN stands for missing values and for those not declared.

    Parameters
    ----------
    table : table, shape (n_rows, n_features)
        Of pandas, polars or pyarrow.
    model : path, str, lightgbm.Booster or fitted estimator
        A model file, the text of one, or a booster, as for `privacy_of`.
    accept_undeclared : sequence of str
        As for `DPBooster.predict`.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_features)
        ONNX models that take float32 round it: times then lose up to two minutes.

    Raises
    ------
    ArgumentTypeError
        If `table` or `model` is none of these.
    InvalidArgumentError
        If the table has other columns than in training, or columns of another kind or of other values.
    AlteredModelError
        If the model's text no longer says what its columns are.
    """
    if isinstance(table, np.ndarray) or not is_table(table):
        raise ArgumentTypeError(
            f"table must be one of pandas, polars or pyarrow, got {type(table).__name__}: a matrix has the "
            "model's codes already"
        )
    booster = getattr(model, "booster_", model)
    if not isinstance(booster, DPBooster):
        booster = DPBooster(model_str=text_in(content_of(booster)))
    rows: NDArray[np.float64] = booster.rows_of(table, accept_undeclared)(0, table.shape[0])
    return rows
