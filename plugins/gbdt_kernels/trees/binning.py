"""Map feature values to bins with public edges.

A numeric value goes to the first bin whose upper edge is not below it, so bin
``b`` holds ``edges[b-1] < x <= edges[b]`` and the split "x <= edges[b]" sends
bins ``0..b`` left.  A categorical value goes to the position of its category.
NaN and unknown categories go to the missing bin, whose code is the feature's
number of bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.read_only import read_only
from gbdt_kernels.compilation import kernel, part
from gbdt_kernels.threads import blocks, run
from gbdt_kernels.trees.layout import offsets

ROWS_PER_BLOCK = 4096
ZERO_THRESHOLD = float(np.float32(1e-35))
"""LightGBM predicts values this close to zero as zero, and reads a category as the integer toward zero."""


@kernel
def _find_present(codes, first, last, present):
    """Note which codes rows `first` to `last` - 1 have: ``present`` is bool of shape (n_features, 256)."""
    for row in range(first, last):
        for f in range(codes.shape[1]):
            present[f, codes[row, f]] = True


def present_codes(codes: NDArray[np.uint8], n_threads: int = 0) -> NDArray[np.bool_]:
    """Codes that rows have of each feature, shape (n_features, 256); codes are uint8, rows by features."""
    n_rows, n_features = codes.shape
    parts = blocks(n_rows, n_threads, n_features)
    found = np.zeros((len(parts), n_features, 256), dtype=np.bool_)
    run(lambda part, first, last: _find_present(codes, first, last, found[part]), parts)
    return np.asarray(found.any(axis=0))


@dataclass(frozen=True)
class DenseCodes:
    """Binned matrix, shape (n_rows, n_features) in C order, one byte per value; its array is read-only."""

    codes: NDArray[np.uint8]

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", read_only(self.codes))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def entries_per_row(self) -> int:
        """Stored codes of a row, on average (the cost of reading it)."""
        return int(self.codes.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self.codes.nbytes

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Codes of each feature that rows have, shape (n_features, 256)."""
        return present_codes(self.codes)

    def take(self, rows: NDArray[Any]) -> DenseCodes:
        """The given rows, copied."""
        return DenseCodes(self.codes[rows])

    def head(self, n_rows: int) -> DenseCodes:
        """The first rows, not copied."""
        return DenseCodes(self.codes[:n_rows])


@dataclass(frozen=True)
class SparseCodes:
    """Binned CSR matrix, read-only: codes of the stored entries; all others have the code of zero."""

    indptr: NDArray[np.int64]  # (n_rows + 1,)
    indices: NDArray[np.int32]  # feature of each entry, ascending within a row
    codes: NDArray[np.uint8]  # of each entry
    zero_codes: NDArray[np.uint8]  # code of the value zero of each feature, which unstored entries have

    def __post_init__(self) -> None:
        for name in ("indptr", "indices", "codes", "zero_codes"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def entries_per_row(self) -> int:
        """Stored codes of a row, on average (the cost of reading it)."""
        return max(1, len(self.codes) // max(1, self.n_rows))

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self.indptr.nbytes + self.indices.nbytes + self.codes.nbytes + self.zero_codes.nbytes

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Codes of each feature that rows have, and that of zero, shape (n_features, 256)."""
        present = np.zeros((len(self.zero_codes), 256), dtype=np.bool_)
        present[self.indices, self.codes] = True
        present[np.arange(len(present)), self.zero_codes] = True
        return present

    def take(self, rows: NDArray[Any]) -> SparseCodes:
        """The given rows, copied."""
        lengths = self.indptr[rows + 1] - self.indptr[rows]
        indptr = offsets(lengths)
        entries = np.repeat(self.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return SparseCodes(indptr, self.indices[entries], self.codes[entries], self.zero_codes)

    def head(self, n_rows: int) -> SparseCodes:
        """The first rows, not copied."""
        entries = slice(int(self.indptr[n_rows]))
        return SparseCodes(
            self.indptr[: n_rows + 1], self.indices[entries], self.codes[entries], self.zero_codes
        )


Codes: TypeAlias = DenseCodes | SparseCodes
"""Binned rows."""


@part
def _code(value, values, start, stop, is_categorical):
    """Bin of one value among ``values[start:stop]`` (upper edges, or sorted categories)."""
    missing = stop - start if is_categorical else stop - start + 1
    if np.isnan(value):
        return missing
    if is_categorical:
        value = np.trunc(value)
    elif abs(value) <= ZERO_THRESHOLD:
        value = 0.0
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    if is_categorical and (low == stop or values[low] != value):
        return missing
    return low - start


@kernel
def _bin_dense(block, values, value_offsets, is_categorical, codes):
    """Bins of a block of rows: float64 to uint8, both of shape (n_rows, n_features)."""
    for i in range(block.shape[0]):
        for f in range(block.shape[1]):
            codes[i, f] = _code(
                block[i, f], values, value_offsets[f], value_offsets[f + 1], is_categorical[f]
            )


@kernel
def _bin_entries(data, indices, values, value_offsets, is_categorical, codes):
    """Bins of entries: `data` float64, `indices` (their features) int32, `codes` uint8, all (n_entries,)."""
    for e in range(len(data)):
        f = indices[e]
        codes[e] = _code(data[e], values, value_offsets[f], value_offsets[f + 1], is_categorical[f])


def bin_dense(
    rows_of: Any,
    n_rows: int,
    values: NDArray[np.float64],
    value_offsets: NDArray[np.int64],
    is_categorical: NDArray[np.bool_],
    n_threads: int = 0,
) -> DenseCodes:
    """Bin a dense matrix in blocks of rows, so that no second copy of it is made.

    ``rows_of(start, stop)`` gives those rows as an array convertible to float64. `values` are upper edges
    (all but the last, which is infinite) or sorted categories, all features in turn; `value_offsets`, shape
    (n_features + 1,), says where each feature's lie.
    """
    codes = np.empty((n_rows, len(is_categorical)), dtype=np.uint8)

    def work(_: int, start: int, stop: int) -> None:
        for first in range(start, stop, ROWS_PER_BLOCK):
            last = min(first + ROWS_PER_BLOCK, stop)
            with silent_arithmetic():
                block = np.ascontiguousarray(rows_of(first, last), dtype=np.float64)
            _bin_dense(block, values, value_offsets, is_categorical, codes[first:last])

    run(work, blocks(n_rows, n_threads, len(is_categorical)))
    return DenseCodes(codes)


def bin_csr(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[Any],
    values: NDArray[np.float64],
    value_offsets: NDArray[np.int64],
    is_categorical: NDArray[np.bool_],
    n_threads: int = 0,
) -> SparseCodes:
    """Bin the stored entries of a CSR matrix with sorted indices; the matrix is never made dense.

    Parameters are those of `bin_dense`, with the three arrays of the CSR matrix.
    """
    # A copy: what the caller does to the matrix later must not reach rows that are already binned.
    indices = np.array(indices, dtype=np.int32, order="C")
    codes = np.empty(len(data), dtype=np.uint8)

    def work(_: int, start: int, stop: int) -> None:
        step = 1 << 16
        for first in range(start, stop, step):
            part = slice(first, min(first + step, stop))
            with silent_arithmetic():
                entries = np.ascontiguousarray(data[part], dtype=np.float64)
            _bin_entries(entries, indices[part], values, value_offsets, is_categorical, codes[part])

    run(work, blocks(len(data), n_threads))
    n_features = len(is_categorical)
    zero_codes = np.empty(n_features, dtype=np.uint8)
    every_feature = np.arange(n_features, dtype=np.int32)
    _bin_entries(np.zeros(n_features), every_feature, values, value_offsets, is_categorical, zero_codes)
    return SparseCodes(indptr.astype(np.int64), indices, codes, zero_codes)
