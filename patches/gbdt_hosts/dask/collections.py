"""Dask's arrays and data frames: their partitions, and what is known of them before anything is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.base import is_dask_collection


def is_array(collection: Any) -> bool:
    """Whether something is a dask array."""
    return is_dask_collection(collection) and hasattr(collection, "chunks") and hasattr(collection, "dtype")


def is_frame(collection: Any) -> bool:
    """Whether something is a dask data frame, or one column of it."""
    return is_dask_collection(collection) and hasattr(collection, "divisions")


def is_collection(collection: Any) -> bool:
    """Whether something is a dask array or data frame."""
    return is_array(collection) or is_frame(collection)


def partitions_of(collection: Any) -> list[Any]:
    """The partitions of a collection, delayed; an array's are blocks of rows with all columns."""
    if is_frame(collection):
        return list(collection.to_delayed())
    if collection.ndim == 2 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    return list(collection.to_delayed().ravel())


def known_lengths(collection: Any) -> tuple[int, ...] | None:
    """Rows of each block of an array; None for a data frame, and where an array does not say."""
    if is_frame(collection) or np.isnan(collection.chunks[0]).any():
        return None
    return tuple(collection.chunks[0])


def made_up_rows(collection: Any) -> Any:
    """A few rows with the columns and data types of a collection, and none of its values."""
    if is_frame(collection):
        return collection._meta_nonempty
    return np.zeros((1, collection.shape[1]), dtype=collection.dtype)
