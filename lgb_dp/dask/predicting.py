"""Lazy predictions: a dask array whose blocks a fitted estimator predicts from the partitions of the rows."""

from __future__ import annotations

from typing import Any

import dask.array
import numpy as np
from dask.delayed import delayed

from gbdt_hosts import dask as host


def predicted(model: Any, method: str, X: Any, keywords: dict[str, Any]) -> Any:
    """Predictions of a local model's method for rows that may lie on a cluster.

    Parameters
    ----------
    model : fitted estimator
    method : str
    X : dask array, dask data frame, or what the method takes
        Of anything but a dask collection, the method's own result is returned.
    keywords : dict
        The method's other arguments.

    Returns
    -------
    dask array, shape (n_rows,) or (n_rows, n_outputs)
        Computed when it is asked for; n_rows is unknown for a data frame.
    """
    if not host.is_collection(X):
        return getattr(model, method)(X, **keywords)
    example = getattr(model, method)(_first_row(host.made_up_rows(X)), **keywords)
    lengths = host.known_lengths(X)
    parts = host.partitions_of(X)
    arrays: Any = dask.array
    predict, sent = delayed(_predict), delayed(model)
    blocks = [
        arrays.from_delayed(
            predict(sent, method, part, keywords, example[:0]),
            shape=(np.nan if lengths is None else lengths[i], *example.shape[1:]),
            dtype=example.dtype,
        )
        for i, part in enumerate(parts)
    ]
    return arrays.concatenate(blocks, allow_unknown_chunksizes=True)


def _first_row(rows: Any) -> Any:
    return rows.iloc[:1] if hasattr(rows, "iloc") else rows[:1]


def _predict(model: Any, method: str, part: Any, keywords: dict[str, Any], nothing: Any) -> Any:
    """Predictions of a partition; LightGBM takes none without rows."""
    return getattr(model, method)(part, **keywords) if part.shape[0] else nothing
