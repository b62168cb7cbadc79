"""The leaf of every row, for trees whose splits are known before the data is read.

All nodes of a block of rows are decided first, a feature's codes next to each other: comparing bytes runs at
32 rows an instruction, and so does merging two children's decisions into their parent's.  That beats sending
rows down one by one as long as a tree has few nodes; below `_LEVELS_TOGETHER` levels, rows go on alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.trees.binning import DenseCodes, SparseCodes
from gbdt_kernels.trees.layout import offsets

_ROWS_AT_ONCE = 1024
_LEVELS_TOGETHER = 6


@kernel
def _threshold_of(goes_left):
    """``(t, e)`` if the codes that go left are those up to t and e; (-1, 0) if they are no such set."""
    t = -1
    while t < 255 and goes_left[t + 1]:
        t += 1
    other = t
    for code in range(t + 1, 256):
        if goes_left[code]:
            if other != t:
                return -1, 0
            other = code
    return t, other


@kernel
def _compare(codes, threshold, other, goes_left):
    for j in range(len(codes)):
        goes_left[j] = np.uint8((codes[j] <= threshold) | (codes[j] == other))


@kernel
def _look_up(codes, table, goes_left):
    for j in range(len(codes)):
        goes_left[j] = table[codes[j]]


@kernel
def _merge(node, left, right, half):
    """Where a row goes left, its leaf in the left child's numbering; elsewhere the right's, plus `half`."""
    for j in range(len(node)):
        away = right[j] | half
        node[j] = np.uint8(away ^ ((away ^ left[j]) & -np.int64(node[j])))


@kernel
def _invert(node):
    for j in range(len(node)):
        node[j] ^= np.uint8(1)


@kernel
def _merge_levels(node, n_nodes):
    """Turn the decisions of complete levels into leaf numbers, in ``node[0]``."""
    first_leaf = n_nodes // 2
    for i in range(first_leaf, n_nodes):
        _invert(node[i])
    half = np.uint8(2)
    for i in range(first_leaf - 1, -1, -1):
        # A level's first node has a number of the form 2^k - 1; its right half starts at 2^(levels below).
        _merge(node[i], node[2 * i + 1], node[2 * i + 2], half)
        if (i & (i + 1)) == 0:
            half = np.uint8(half << np.uint8(1))


@kernel
def _leaves_dense(codes, feature, goes_left, first, last, leaf):
    n_internal = len(feature)
    n_together = min(n_internal, 2**_LEVELS_TOGETHER - 1)
    decided = np.empty((n_together, _ROWS_AT_ONCE), dtype=np.uint8)
    threshold = np.empty((n_together, 2), dtype=np.int64)
    for i in range(n_together):
        threshold[i, 0], threshold[i, 1] = _threshold_of(goes_left[i])
    for start in range(first, last, _ROWS_AT_ONCE):
        stop = min(last, start + _ROWS_AT_ONCE)
        n = stop - start
        for i in range(n_together):
            column = codes[feature[i], start:stop]
            if threshold[i, 0] >= 0:
                _compare(column, np.uint8(threshold[i, 0]), np.uint8(threshold[i, 1]), decided[i, :n])
            else:
                _look_up(column, goes_left[i], decided[i, :n])
        _merge_levels(decided[:, :n], n_together)
        leaf[start:stop] = decided[0, :n]
        if n_together == n_internal:
            continue
        for j in range(n):
            node = n_together + np.int64(leaf[start + j])
            while node < n_internal:
                node = 2 * node + 2 - goes_left[node, codes[feature[node], start + j]]
            leaf[start + j] = node - n_internal


@kernel
def _first_entry(rows, low, high, row):
    """Where among ``rows[low:high]``, ascending, the first one from `row` on is."""
    while low < high:
        middle = (low + high) >> 1
        if rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _leaves_sparse(indptr, rows, codes, zero_codes, feature, goes_left, first, last, leaf):
    n_internal = len(feature)
    n_together = min(n_internal, 2**_LEVELS_TOGETHER - 1)
    decided = np.empty((n_together, _ROWS_AT_ONCE), dtype=np.uint8)
    entry = np.empty(n_together, dtype=np.int64)
    for i in range(n_together):
        entry[i] = _first_entry(rows, indptr[feature[i]], indptr[feature[i] + 1], first)
    for start in range(first, last, _ROWS_AT_ONCE):
        stop = min(last, start + _ROWS_AT_ONCE)
        n = stop - start
        for i in range(n_together):
            decided[i, :n] = goes_left[i, zero_codes[feature[i]]]
            e, end = entry[i], indptr[feature[i] + 1]
            while e < end and rows[e] < stop:
                decided[i, rows[e] - start] = goes_left[i, codes[e]]
                e += 1
            entry[i] = e
        _merge_levels(decided[:, :n], n_together)
        leaf[start:stop] = decided[0, :n]
        if n_together == n_internal:
            continue
        for j in range(n):
            node = n_together + np.int64(leaf[start + j])
            while node < n_internal:
                f = feature[node]
                e = _first_entry(rows, indptr[f], indptr[f + 1], start + j)
                code = codes[e] if e < indptr[f + 1] and rows[e] == start + j else zero_codes[f]
                node = 2 * node + 2 - goes_left[node, code]
            leaf[start + j] = node - n_internal


@dataclass(frozen=True)
class DenseColumns:
    """Binned matrix by columns.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_features, n_rows), C order
    """

    codes: NDArray[np.uint8]

    def leaves(
        self,
        feature: NDArray[np.int32],
        goes_left: NDArray[np.uint8],
        first: int,
        last: int,
        leaf: NDArray[np.uint16],
    ) -> None:
        """Write the leaf of a complete tree that each of some rows falls into.

        Parameters
        ----------
        feature : ndarray of int32, shape (2**depth - 1,)
            Split feature of each node, level by level; at least one node.
        goes_left : ndarray of uint8, shape (2**depth - 1, 256)
            1 where a bin code goes left, 0 elsewhere.
        first, last : int
            Rows ``first`` to ``last - 1``.
        leaf : ndarray of uint16, shape (n_rows,)
            Written there.
        """
        _leaves_dense(self.codes, feature, goes_left, first, last, leaf)


@dataclass(frozen=True)
class SparseColumns:
    """Binned CSC matrix: codes of the stored entries; all others have the code of zero.

    Parameters
    ----------
    indptr : ndarray of int64, shape (n_features + 1,)
    rows : ndarray of int32, shape (n_entries,)
        Row of each entry, ascending within a column.
    codes : ndarray of uint8, shape (n_entries,)
    zero_codes : ndarray of uint8, shape (n_features,)
    """

    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    codes: NDArray[np.uint8]
    zero_codes: NDArray[np.uint8]

    def leaves(
        self,
        feature: NDArray[np.int32],
        goes_left: NDArray[np.uint8],
        first: int,
        last: int,
        leaf: NDArray[np.uint16],
    ) -> None:
        """As for `DenseColumns`."""
        _leaves_sparse(
            self.indptr, self.rows, self.codes, self.zero_codes, feature, goes_left, first, last, leaf
        )


def by_columns(matrix: DenseCodes | SparseCodes) -> DenseColumns | SparseColumns:
    """The same codes, column after column, copied."""
    if isinstance(matrix, DenseCodes):
        return DenseColumns(np.array(matrix.codes.T, order="C"))
    n_features = len(matrix.zero_codes)
    order = np.argsort(matrix.indices, kind="stable")
    rows = np.repeat(np.arange(matrix.n_rows, dtype=np.int32), np.diff(matrix.indptr))
    indptr = offsets(np.bincount(matrix.indices, minlength=n_features))
    return SparseColumns(indptr, rows[order], matrix.codes[order], matrix.zero_codes)
