"""A histogram holds, for every bin of every feature, two exact integer sums over a node's rows.

Column 0 sums the quantised gradients, column 1 the quantised weights (ones for
unweighted data); or each sums the weights of one of two classes.  Integers make
the sums independent of row order and of the number of threads, and let a
sibling's histogram be had by exact subtraction.
"""

from __future__ import annotations

import numpy as np
from numba import uintp
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel, part
from gbdt_kernels.threads import blocks, run
from gbdt_kernels.trees.binning import Codes, DenseCodes, SparseCodes
from gbdt_kernels.trees.columns import Columns, SparseColumns
from gbdt_kernels.trees.layout import BinLayout
from gbdt_kernels.trees.planes import ROWS_PER_BLOCK

_ROWS_AT_ONCE = 16 * ROWS_PER_BLOCK


@part
def _share(starts, node, part, n_parts):
    """The rows of a node that one of `n_parts` threads takes."""
    length = starts[node + 1] - starts[node]
    return starts[node] + length * part // n_parts, starts[node] + length * (part + 1) // n_parts


@kernel
def _accumulate_dense(codes, rows, starts, built, part, n_parts, gradient, weight, places, out):
    """Add the rows of the nodes `built` to ``out``, int64 of shape (n_nodes, n_places, 2).

    `codes` is uint8 of shape (n_rows, n_features), `rows` int32, `starts` int64 of shape (n_nodes + 1,),
    `gradient` and `weight` int32 of shape (n_rows,), quantised; `places` is ``BinLayout.place``.
    """
    n_features, n_codes = uintp(codes.shape[1]), uintp(places.shape[1])
    flat_codes, flat_places = codes.reshape(-1), places.reshape(-1)
    for node in built:
        first, last = _share(starts, node, part, n_parts)
        histogram = out[node]
        for k in range(first, last):
            row = rows[k]
            g = np.int64(gradient[row])
            w = np.int64(weight[row])
            # Unsigned indices spare numba its check for counting from the end.
            at, of_feature = uintp(row) * n_features, uintp(0)
            for f in range(n_features):
                place = uintp(flat_places[of_feature + uintp(flat_codes[at + f])])
                histogram[place, 0] += g
                histogram[place, 1] += w
                of_feature += n_codes


@kernel
def _accumulate_entries(
    indptr, indices, codes, rows, starts, built, part, n_parts, gradient, weight, places, out
):
    """As `_accumulate_dense`, with the stored entries of a CSR matrix of codes (uint8)."""
    for node in built:
        first, last = _share(starts, node, part, n_parts)
        histogram = out[node]
        for k in range(first, last):
            row = rows[k]
            g = np.int64(gradient[row])
            w = np.int64(weight[row])
            for e in range(indptr[row], indptr[row + 1]):
                place = places[indices[e], codes[e]]
                histogram[place, 0] += g
                histogram[place, 1] += w


@kernel
def _give_rest_to_zero(histogram, total, bin_offsets, places, zero_codes):
    """Rows without an entry for a feature have value zero: they are the node less the entries."""
    for f in range(len(zero_codes)):
        gradient_rest = total[0]
        weight_rest = total[1]
        for place in range(bin_offsets[f], bin_offsets[f + 1]):
            gradient_rest -= histogram[place, 0]
            weight_rest -= histogram[place, 1]
        zero = places[f, zero_codes[f]]
        histogram[zero, 0] += gradient_rest
        histogram[zero, 1] += weight_rest


@kernel
def _subtract(parents, built, out):
    """Histograms of the siblings of the nodes `built`: what their parents have beyond these."""
    for k in range(len(built)):
        own, sibling, parent = out[built[k]], out[built[k] ^ 1], parents[k]
        for place in range(len(parent)):
            sibling[place, 0] = parent[place, 0] - own[place, 0]
            sibling[place, 1] = parent[place, 1] - own[place, 1]


@kernel
def _sum_segments(rows, starts, gradient, weight, out):
    """Sums over each node's rows: ``out`` is int64 of shape (n_nodes, 2)."""
    for node in range(len(starts) - 1):
        gradient_sum = np.int64(0)
        weight_sum = np.int64(0)
        for k in range(starts[node], starts[node + 1]):
            gradient_sum += gradient[rows[k]]
            weight_sum += weight[rows[k]]
        out[node, 0] = gradient_sum
        out[node, 1] = weight_sum


def segment_sums(
    rows: NDArray[np.int32], starts: NDArray[np.int64], gradient: NDArray[np.int32], weight: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Exact sums of gradient and weight, shape (n_nodes, 2), over each node's rows.

    `rows` are row numbers, node by node, and `starts`, shape (n_nodes + 1,), says where each node's begin.
    """
    out = np.empty((len(starts) - 1, 2), dtype=np.int64)
    _sum_segments(rows, starts, gradient, weight, out)
    return out


def _build(
    matrix: Codes,
    rows: NDArray[np.int32],
    starts: NDArray[np.int64],
    built: NDArray[np.int64],
    gradient: NDArray[np.int32],
    weight: NDArray[np.int32],
    layout: BinLayout,
    out: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Fill the histograms of the nodes `built`, each thread with a part of every node's rows."""
    n_rows = int((starts[built + 1] - starts[built]).sum())
    parts = blocks(n_rows, n_threads, matrix.entries_per_row)
    own = [out] + [np.zeros_like(out) for _ in parts[1:]]

    def work(part: int, _start: int, _stop: int) -> None:
        place = (rows, starts, built, part, len(parts), gradient, weight, layout.place, own[part])
        if isinstance(matrix, DenseCodes):
            _accumulate_dense(matrix.codes, *place)
        else:
            _accumulate_entries(matrix.indptr, matrix.indices, matrix.codes, *place)

    run(work, parts)
    for other in own[1:]:
        out += other
    if isinstance(matrix, SparseCodes):
        totals = segment_sums(rows, starts, gradient, weight)
        for node in built:
            _give_rest_to_zero(
                out[node], totals[node], layout.counted.bin_offsets, layout.place, matrix.zero_codes
            )


def level_histograms(
    matrix: Codes,
    rows: NDArray[np.int32],
    starts: NDArray[np.int64],
    gradient: NDArray[np.int32],
    weight: NDArray[np.int32],
    layout: BinLayout,
    parents: NDArray[np.int64] | None = None,
    n_threads: int = 0,
) -> NDArray[np.int64]:
    """Histograms of all nodes of one level, shape (n_nodes, n_places, 2).

    The places are the bins of ``layout.counted``.

    With `parents`, the histograms of the level above, only the smaller of two siblings is summed up; the
    other follows by exact subtraction. `rows` are row numbers, node by node, those of nodes ``2k`` and
    ``2k + 1``, which are siblings, side by side; `starts`, shape (n_nodes + 1,), says where each node's
    begin. `gradient` and `weight` are quantised statistics, indexed by row number.
    """
    n_nodes = len(starts) - 1
    out = np.zeros((n_nodes, layout.counted.n_total_bins, 2), dtype=np.int64)
    if parents is None:
        _build(matrix, rows, starts, np.arange(n_nodes), gradient, weight, layout, out, n_threads)
        return out
    sizes = np.diff(starts).reshape(-1, 2)
    first_child = 2 * np.arange(n_nodes // 2)
    smaller = first_child + (sizes[:, 1] < sizes[:, 0])
    _build(matrix, rows, starts, smaller, gradient, weight, layout, out, n_threads)
    _subtract(parents, smaller, out)
    return out


@kernel
def _count_rows(codes, weight, bin_offsets, out):
    """Add the rows' weights to the places of their codes, shape (n_features, n_rows), in ``out``, int64."""
    for f in range(len(codes)):
        for row in range(len(weight)):
            out[bin_offsets[f] + codes[f, row]] += np.int64(weight[row])


@kernel
def _count_entries(rows, codes, weight, out):
    """As `_count_rows`, of one feature's entries; returns the sum of their weights."""
    total = np.int64(0)
    for e in range(len(rows)):
        out[codes[e]] += weight[rows[e]]
        total += weight[rows[e]]
    return total


def feature_counts(
    columns: Columns, weight: NDArray[np.int32], bin_offsets: NDArray[np.int64], n_threads: int = 0
) -> NDArray[np.int64]:
    """Exact sums of the rows' weights in every bin of every feature, which lie as in `BinLayout`."""
    if isinstance(columns, SparseColumns):
        return _sparse_counts(columns, weight, bin_offsets)
    n_blocks = -(-len(weight) // _ROWS_AT_ONCE)
    parts = blocks(n_blocks, n_threads, _ROWS_AT_ONCE * (len(bin_offsets) - 1))
    own = np.zeros((len(parts), bin_offsets[-1]), dtype=np.int64)

    def work(part: int, first: int, last: int) -> None:
        for block in range(first, last):
            of_block = weight[block * _ROWS_AT_ONCE : (block + 1) * _ROWS_AT_ONCE]
            codes = columns.codes(block * (_ROWS_AT_ONCE // ROWS_PER_BLOCK), len(of_block))
            _count_rows(codes, of_block, bin_offsets, own[part])

    run(work, parts)
    return np.asarray(own.sum(axis=0))


def _sparse_counts(
    columns: SparseColumns, weight: NDArray[np.int32], bin_offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    out = np.zeros(bin_offsets[-1], dtype=np.int64)
    whole = int(weight.sum(dtype=np.int64))
    for f, zero_code in enumerate(columns.zero_codes):
        own = out[bin_offsets[f] : bin_offsets[f + 1]]
        entries = slice(columns.indptr[f], columns.indptr[f + 1])
        counted = _count_entries(columns.rows[entries], columns.codes[entries], weight, own)
        own[zero_code] += whole - counted
    return out
