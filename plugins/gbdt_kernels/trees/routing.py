"""Send rows down trees: to the children of one level, or to the leaves.

Trees are complete.  Node ``i`` of a tree has children ``2i + 1`` (left) and
``2i + 2``; a table of one byte per bin code says which codes go left, so that
numeric, categorical and missing values take the same path.
"""

from __future__ import annotations

import numpy as np
from numba import uintp
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run
from gbdt_kernels.trees.binning import Codes, DenseCodes, SparseCodes

_ROWS_AT_ONCE = 512
"""Rows whose codes stay in the fastest cache while they go down."""


@kernel
def _entry_code(indptr, indices, codes, zero_codes, row, feature):
    """Code (uint8) of one value of a CSR matrix, by bisection."""
    low, high = indptr[row], indptr[row + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < feature:
            low = middle + 1
        else:
            high = middle
    if low < indptr[row + 1] and indices[low] == feature:
        return codes[low]
    return zero_codes[feature]


@kernel
def _codes_dense(codes, rows, starts, feature, out):
    """Code of each row's value of its node's split feature: ``out`` is uint8 of shape (len(rows),)."""
    for node in range(len(starts) - 1):
        for k in range(starts[node], starts[node + 1]):
            out[k] = codes[rows[k], feature[node]]


@kernel
def _codes_sparse(indptr, indices, codes, zero_codes, rows, starts, feature, out):
    """As `_codes_dense`, of a CSR matrix of codes."""
    for node in range(len(starts) - 1):
        for k in range(starts[node], starts[node + 1]):
            out[k] = _entry_code(indptr, indices, codes, zero_codes, rows[k], feature[node])


@kernel
def _partition(rows, starts, code, goes_left, rows_out, starts_out):
    """Rows (int32) of each node by child, in their order; `code` (uint8) stands beside each row."""
    for node in range(len(starts) - 1):
        n_left = 0
        for k in range(starts[node], starts[node + 1]):
            n_left += goes_left[node, code[k]]
        left = starts[node]
        right = starts[node] + n_left
        starts_out[2 * node] = left
        starts_out[2 * node + 1] = right
        for k in range(starts[node], starts[node + 1]):
            if goes_left[node, code[k]]:
                rows_out[left] = rows[k]
                left += 1
            else:
                rows_out[right] = rows[k]
                right += 1
    starts_out[-1] = starts[-1]


def partition_level(
    matrix: Codes,
    rows: NDArray[np.int32],
    starts: NDArray[np.int64],
    feature: NDArray[np.int32],
    goes_left: NDArray[np.uint8],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Divide every node's rows between its two children, keeping their order.

    `rows` are row numbers, node by node, and `starts`, shape (n_nodes + 1,), says where each node's begin;
    both are returned for the children. `goes_left` has shape (n_nodes, 256).
    """
    code = np.empty(len(rows), dtype=np.uint8)
    if isinstance(matrix, DenseCodes):
        _codes_dense(matrix.codes, rows, starts, feature, code)
    else:
        _codes_sparse(
            matrix.indptr, matrix.indices, matrix.codes, matrix.zero_codes, rows, starts, feature, code
        )
    rows_out = np.empty_like(rows)
    starts_out = np.empty(2 * len(starts) - 1, dtype=np.int64)
    _partition(rows, starts, code, goes_left, rows_out, starts_out)
    return rows_out, starts_out


@kernel
def _send_down(codes, n_features, feature, bits, depth, first, place):
    """Send rows from `first` on down a tree, all one level at a time.

    `codes` and `bits` are flat; ``place`` is uint16, a row's node within its level.  Unsigned indices spare
    numba its check for counting from the end.
    """
    for level in range(depth):
        base = uintp((1 << level) - 1)
        at = uintp(first * n_features)
        for j in range(len(place)):
            node = base + uintp(place[j])
            code = uintp(codes[at + uintp(feature[node])])
            left = (np.int64(bits[node * uintp(32) + (code >> uintp(3))]) >> np.int64(code & uintp(7))) & 1
            place[j] = np.uint16(2 * np.int64(place[j]) + 1 - left)
            at += uintp(n_features)


def left_bits(goes_left: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Tables of one byte per code, shape (..., 256), with one bit per code, shape (..., 32)."""
    return np.packbits(goes_left, axis=-1, bitorder="little")


@kernel
def _add_trees_dense(codes, n_features, feature, bits, leaf_value, depth, first, last, score):
    """As `add_trees`, rows `first` to `last` - 1; `score` is float64, `codes` flat, `bits` flat per tree."""
    place = np.empty(_ROWS_AT_ONCE, dtype=np.uint16)
    for start in range(first, last, _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, last - start)
        for tree in range(len(feature)):
            place[:n] = 0
            _send_down(codes, n_features, feature[tree], bits[tree], depth, start, place[:n])
            for j in range(n):
                score[start + j] += leaf_value[tree, place[j]]


@kernel
def _add_trees_sparse(
    indptr, indices, codes, zero_codes, feature, bits, leaf_value, depth, first, last, score
):
    """As `_add_trees_dense`, of a CSR matrix of codes; one row at a time is made dense."""
    row_codes = zero_codes.copy()
    place = np.empty(1, dtype=np.uint16)
    for row in range(first, last):
        for e in range(indptr[row], indptr[row + 1]):
            row_codes[indices[e]] = codes[e]
        for tree in range(len(feature)):
            place[0] = 0
            _send_down(row_codes, len(row_codes), feature[tree], bits[tree], depth, 0, place)
            score[row] += leaf_value[tree, place[0]]
        for e in range(indptr[row], indptr[row + 1]):
            row_codes[indices[e]] = zero_codes[indices[e]]


def add_trees(
    matrix: Codes,
    feature: NDArray[np.int32],
    goes_left: NDArray[np.uint8],
    leaf_value: NDArray[np.float64],
    score: NDArray[np.float64],
    n_threads: int = 0,
) -> None:
    """Add the leaf values of complete trees, one after the other, to the rows' scores, in place.

    `feature`, shape (n_trees, 2**depth - 1), has the split feature of each node, level by level; `goes_left`
    has shape (n_trees, 2**depth - 1, 256) and `leaf_value` (n_trees, 2**depth).
    """
    depth = leaf_value.shape[1].bit_length() - 1
    bits = left_bits(goes_left).reshape(len(feature), 32 * feature.shape[1])

    def work(_: int, first: int, last: int) -> None:
        trees = (feature, bits, leaf_value, depth, first, last, score)
        if isinstance(matrix, DenseCodes):
            _add_trees_dense(matrix.codes.reshape(-1), matrix.codes.shape[1], *trees)
        else:
            _add_trees_sparse(matrix.indptr, matrix.indices, matrix.codes, matrix.zero_codes, *trees)

    n_nodes = leaf_value.shape[1].bit_length() * len(feature)
    entries = matrix.entries_per_row if isinstance(matrix, SparseCodes) else 0
    run(work, blocks(matrix.n_rows, n_threads, n_nodes + entries))
