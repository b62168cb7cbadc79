"""Checks of row numbers: the kernels read memory unchecked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_rows(name: str, rows: NDArray[np.integer[Any]], n_rows: int) -> None:
    """Raise IndexError unless all row numbers are of rows that exist: the kernels read memory unchecked."""
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < n_rows:
        raise IndexError(f"{name} names rows outside 0 to {n_rows - 1}")


def check_starts(starts: NDArray[np.int64], length: int) -> None:
    """Raise ValueError unless `starts` ascends within an array of so many places."""
    if starts.dtype.kind != "i":
        raise ValueError(f"starts must be signed integers, not {starts.dtype}")
    if len(starts) == 0 or starts[0] < 0 or (np.diff(starts) < 0).any() or starts[-1] > length:
        raise ValueError(f"starts must ascend from 0 at least to {length} at most")
