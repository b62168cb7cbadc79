"""Binned rows column after column, which is how the leaves of known trees are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import leaves as kernels
from gbdt_kernels.trees.binning import Codes, DenseCodes
from gbdt_kernels.trees.layout import offsets
from gbdt_kernels.trees.planes import ROWS_PER_BLOCK, WORDS_PER_BLOCK, BitPlanes, aligned_words, bit_planes
from gbdt_kernels.trees.routing import left_bits

Features = NDArray[np.int32]  # split feature of each node of a complete tree, level by level
Sides = NDArray[np.uint8]  # of these nodes, shape (n_nodes, 256), 1 where a bin code goes left
Leaves = NDArray[np.uint16]  # of rows, shape (n_rows,)


@dataclass(frozen=True)
class DenseColumns:
    """Binned matrix as bit planes, which take at most a byte per value."""

    planes: BitPlanes
    n_rows: int

    def codes(self, first_block: int, n_rows: int) -> NDArray[np.uint8]:
        """Codes, shape (n_features, n_rows), from the first row of a block of `ROWS_PER_BLOCK` on."""
        planes, n_features = self.planes, len(self.planes.plane_offsets) - 1
        codes = np.empty((n_features, n_rows), dtype=np.uint8)
        every = np.ones(n_features, dtype=np.bool_)
        kernels.read_codes(planes.arrays, planes.codes, every, first_block, _ranks(n_features), codes)
        return codes

    def leaves(self, feature: Features, goes_left: Sides, first: int, last: int, leaf: Leaves) -> None:
        """Write the leaf of a complete tree, of a node at least, for rows ``first`` to ``last - 1``."""
        planes, n_levels = self.planes, min(len(feature).bit_length(), kernels.LEVELS_TOGETHER)
        n_decided = (1 << n_levels) - 1
        decided = feature[:n_decided]
        is_first = np.zeros(n_decided, dtype=np.bool_)
        is_first[np.unique(decided, return_index=True)[1]] = True
        begins_right, cuts = np.empty(n_decided, dtype=np.uint64), np.empty(255 * n_decided, dtype=np.uint8)
        cut_offsets = np.empty(n_decided + 1, dtype=np.int64)
        block = np.empty(ROWS_PER_BLOCK, dtype=np.uint16)
        all_cuts = (begins_right, cuts, cut_offsets)
        kernels.find_cuts(decided, goes_left, planes.codes, *all_cuts)
        words = aligned_words(WORDS_PER_BLOCK << n_levels)
        kernels.leaves_dense(
            planes.arrays, decided, all_cuts, n_levels, is_first, first, last, words, block, leaf
        )
        if n_decided == len(feature):
            return
        is_read = np.zeros(len(planes.plane_offsets) - 1, dtype=np.bool_)
        is_read[feature[n_decided:]] = True
        bits = left_bits(goes_left[n_decided:]).reshape(-1)
        ranks = _ranks(len(is_read))
        kernels.deeper_leaves(
            planes.arrays, planes.codes, feature, bits, n_levels, is_read, first, last, ranks, block, leaf
        )


def _ranks(n_features: int) -> NDArray[np.uint8]:
    """Scratch for the ranks of a block's codes."""
    return np.empty(n_features * ROWS_PER_BLOCK, dtype=np.uint8)


@dataclass(frozen=True)
class SparseColumns:
    """Binned CSC matrix: codes of the stored entries; all others have the code of zero."""

    indptr: NDArray[np.int64]  # (n_features + 1,)
    rows: NDArray[np.int32]  # row of each entry, ascending within a column
    codes: NDArray[np.uint8]  # of each entry
    zero_codes: NDArray[np.uint8]  # of each feature
    n_rows: int

    def leaves(self, feature: Features, goes_left: Sides, first: int, last: int, leaf: Leaves) -> None:
        """As for `DenseColumns`."""
        kernels.leaves_sparse(
            self.indptr, self.rows, self.codes, self.zero_codes, feature, goes_left, first, last, leaf
        )


Columns: TypeAlias = DenseColumns | SparseColumns
"""Binned rows, column after column."""


def by_columns(matrix: Codes, n_threads: int = 0) -> Columns:
    """The same codes, copied, column after column."""
    if isinstance(matrix, DenseCodes):
        return DenseColumns(bit_planes(matrix.codes, n_threads), matrix.n_rows)
    n_features = len(matrix.zero_codes)
    order = np.argsort(matrix.indices, kind="stable")
    rows = np.repeat(np.arange(matrix.n_rows, dtype=np.int32), np.diff(matrix.indptr))
    indptr = offsets(np.bincount(matrix.indices, minlength=n_features))
    return SparseColumns(indptr, rows[order], matrix.codes[order], matrix.zero_codes, matrix.n_rows)
