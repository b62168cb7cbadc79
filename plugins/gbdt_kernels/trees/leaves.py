"""The leaf of every row, for trees whose splits are known before the data is read.

All nodes of a block of rows are decided first, each as a set of bits, one per row.  Merging the decisions of
two children into their parent's is then a bitwise operation on 512 rows, and so is comparing with a threshold
where the codes are kept as bit planes.  That beats sending rows down one by one as long as a tree has few
nodes; below `_LEVELS_TOGETHER` levels, rows go on alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.trees.binning import DenseCodes, SparseCodes
from gbdt_kernels.trees.layout import offsets
from gbdt_kernels.trees.planes import ROWS_PER_BLOCK, WORDS_PER_BLOCK, BitPlanes, aligned_words, bit_planes
from gbdt_kernels.trees.routing import left_bits, send_down

_ROWS_AT_ONCE = ROWS_PER_BLOCK
_WORDS = WORDS_PER_BLOCK
_LEVELS_TOGETHER = 8

# Vectors of 512 bits, which LLVM divides where a processor has shorter ones.  numba has no type for them, and
# finds the same instructions in loops over eight words only by luck.

intrinsic: Any = numba_intrinsic  # its types count the first argument, which callers leave out
_INT64 = ir.IntType(64)
_BLOCK = ir.VectorType(_INT64, _WORDS)
_NUMBERS = ir.VectorType(ir.IntType(16), 64)
_ZERO = ir.Constant(_BLOCK, None)


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    """A vector of equal elements."""
    unknown = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(unknown, scalar, ir.Constant(ir.IntType(32), 0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, unknown, places)


def _element(context: Any, builder: Any, array_type: Any, array: Any, place: Any) -> Any:
    """Pointer to an element of a contiguous array."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [place])


def _vector(context: Any, builder: Any, array_type: Any, array: Any, place: Any, vector: Any) -> Any:
    """Pointer to the elements of a contiguous array from a place on, as a vector."""
    element = _element(context, builder, array_type, array, place)
    return builder.bitcast(element, vector.as_pointer())


@intrinsic
def _flip_above(_context, planes, at, n_planes, cleared, threshold, words, to):
    """Invert ``words[to : to + 8]`` where a code is above a threshold.

    `planes` has the codes' bits, lowest first, eight words each from `at` on; ``cleared[8 * threshold + k]``
    is all ones where bit k of the threshold is 0.  From bit to bit, "above" becomes the majority of itself,
    the code's bit and the threshold's cleared one.
    """

    def generate(context, builder, signature, arguments):
        bit = cgutils.alloca_once(builder, _BLOCK)
        builder.store(_ZERO, bit)
        first = builder.mul(arguments[4], ir.Constant(_INT64, 8))
        with cgutils.for_range(builder, arguments[2]) as loop:
            place = builder.add(arguments[1], builder.mul(loop.index, ir.Constant(_INT64, _WORDS)))
            source = _vector(context, builder, signature.args[0], arguments[0], place, _BLOCK)
            own = builder.load(source, align=8)
            other = _element(
                context, builder, signature.args[3], arguments[3], builder.add(first, loop.index)
            )
            clear = _splat(builder, builder.load(other), _BLOCK)
            so_far = builder.load(bit)
            either = builder.and_(builder.or_(so_far, own), clear)
            builder.store(builder.or_(builder.and_(so_far, own), either), bit)
        target = _vector(context, builder, signature.args[5], arguments[5], arguments[6], _BLOCK)
        builder.store(builder.xor(builder.load(target, align=8), builder.load(bit)), target, align=8)
        return context.get_dummy_value()

    return types.void(planes, types.intp, types.intp, cleared, types.intp, words, types.intp), generate


@intrinsic
def _fetch(_context, words, at, n):
    """Begin to read `n` cache lines of words from memory."""

    def generate(context, builder, signature, arguments):
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer, number, number, number]),
            "llvm.prefetch.p0",
        )
        to_read, level_2, data = (ir.Constant(number, value) for value in (0, 2, 1))
        with cgutils.for_range(builder, arguments[2]) as loop:
            place = builder.add(arguments[1], builder.mul(loop.index, ir.Constant(_INT64, _WORDS)))
            line = _element(context, builder, signature.args[0], arguments[0], place)
            builder.call(prefetch, [builder.bitcast(line, pointer), to_read, level_2, data])
        return context.get_dummy_value()

    return types.void(words, types.intp, types.intp), generate


@intrinsic
def _merge(_context, words, left, right, goes_right):
    """Take ``words[right : right + 8]`` where the bits from `goes_right` on are set, and keep `left`'s."""

    def generate(context, builder, signature, arguments):
        left, right, chosen = (
            _vector(context, builder, signature.args[0], arguments[0], place, _BLOCK)
            for place in arguments[1:]
        )
        kept = builder.load(left, align=8)
        differs = builder.xor(kept, builder.load(right, align=8))
        away = builder.and_(differs, builder.load(chosen, align=8))
        builder.store(builder.xor(kept, away), left, align=8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.intp, types.intp), generate


@intrinsic
def _spread(_context, words, at, n_bits, numbers, to):
    """Write 64 numbers (uint16) whose bits are in every eighth of `words` from `at` on, lowest first."""

    def generate(context, builder, signature, arguments):
        number = cgutils.alloca_once(builder, _NUMBERS)
        nothing = ir.Constant(_NUMBERS, None)
        builder.store(nothing, number)
        with cgutils.for_range(builder, arguments[2]) as loop:
            place = builder.add(arguments[1], builder.mul(loop.index, ir.Constant(_INT64, _WORDS)))
            word = builder.load(_element(context, builder, signature.args[0], arguments[0], place))
            is_set = builder.bitcast(word, ir.VectorType(ir.IntType(1), 64))
            bit = builder.shl(ir.Constant(ir.IntType(16), 1), builder.trunc(loop.index, ir.IntType(16)))
            added = builder.select(is_set, _splat(builder, bit, _NUMBERS), nothing)
            builder.store(builder.or_(builder.load(number), added), number)
        target = _vector(context, builder, signature.args[3], arguments[3], arguments[4], _NUMBERS)
        builder.store(builder.load(number), target, align=2)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.intp, numbers, types.intp), generate


@intrinsic
def _fill(_context, words, to, bits):
    """Write the same bits to ``words[to : to + 8]``."""

    def generate(context, builder, signature, arguments):
        target = _vector(context, builder, signature.args[0], arguments[0], arguments[1], _BLOCK)
        builder.store(_splat(builder, arguments[2], _BLOCK), target, align=8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.uint64), generate


@intrinsic
def _copy(_context, words, source, to):
    """Copy ``words[source : source + 8]`` to ``words[to : to + 8]``."""

    def generate(context, builder, signature, arguments):
        source, target = (
            _vector(context, builder, signature.args[0], arguments[0], place, _BLOCK)
            for place in arguments[1:]
        )
        builder.store(builder.load(source, align=8), target, align=8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.intp), generate


@kernel
def _merge_levels(words, n_levels):
    """Turn the decisions of complete levels, node after node, into the bits of leaf numbers.

    A node with k levels below it and its own takes the places of the last level's nodes under it, whose
    decisions are no longer needed: bits 0 to k - 1, and its own decision as bit k.
    """
    last_level = (1 << (n_levels - 1)) - 1
    for k in range(1, n_levels):
        n_nodes = 1 << (n_levels - 1 - k)
        for i in range(n_nodes):
            own = (n_nodes - 1 + i) * _WORDS
            left = (last_level + (i << k)) * _WORDS
            half = (1 << (k - 1)) * _WORDS
            for _ in range(k):
                _merge(words, left, left + half, own)
                left += _WORDS
            _copy(words, own, left)


@kernel
def _write_leaves(words, n_levels, start, first, last, block, leaf):
    """Write the leaf numbers of a block of rows from `start` on, as far as they are `first` to `last` - 1."""
    at = ((1 << (n_levels - 1)) - 1) * _WORDS
    for w in range(_WORDS):
        _spread(words, at + w, n_levels, block, 64 * w)
    first, last = max(first, start), min(last, start + _ROWS_AT_ONCE)
    leaf[first:last] = block[first - start : last - start]


@kernel
def _find_cuts(feature, goes_left, present, present_offsets, begins_right, cuts, cut_offsets):
    """After which of the codes that rows have, by rank, a node's direction changes.

    `begins_right` (uint64 of shape (n_nodes,)) is all ones where the first of them goes right.
    """
    n_cuts = 0
    for node in range(len(begins_right)):
        first, last = present_offsets[feature[node]], present_offsets[feature[node] + 1]
        direction = goes_left[node, present[first]] if first < last else np.uint8(1)
        begins_right[node] = np.uint64(0) if direction else ~np.uint64(0)
        for place in range(first + 1, last):
            if goes_left[node, present[place]] != direction:
                direction = goes_left[node, present[place]]
                cuts[n_cuts] = place - first - 1
                n_cuts += 1
        cut_offsets[node + 1] = n_cuts


@kernel
def _cleared_bits():
    """All ones where a bit of a number below 256 is 0, else zeros; eight words per number."""
    cleared = np.empty(256 * 8, dtype=np.uint64)
    for number in range(256):
        for bit in range(8):
            cleared[8 * number + bit] = np.uint64(0) if (number >> bit) & 1 else ~np.uint64(0)
    return cleared


@kernel
def _is_first(feature, n_features):
    """Whether a node is the first one that splits its feature."""
    is_seen = np.zeros(n_features, dtype=np.bool_)
    is_first = np.empty(len(feature), dtype=np.bool_)
    for node in range(len(feature)):
        is_first[node] = not is_seen[feature[node]]
        is_seen[feature[node]] = True
    return is_first


@kernel
def _leaves_dense(
    planes, plane_offsets, present, present_offsets, feature, goes_left, n_levels, first, last, words, leaf
):
    """As `DenseColumns.leaves`, down to a level: its nodes are the leaves."""
    n_nodes = (1 << n_levels) - 1
    begins_right = np.empty(n_nodes, dtype=np.uint64)
    cuts = np.empty(n_nodes * 255, dtype=np.uint8)
    cut_offsets = np.zeros(n_nodes + 1, dtype=np.int64)
    _find_cuts(feature, goes_left, present, present_offsets, begins_right, cuts, cut_offsets)
    cleared = _cleared_bits()
    is_first = _is_first(feature[:n_nodes], len(plane_offsets) - 1)
    n_blocks = len(planes) // (plane_offsets[-1] * _WORDS) if plane_offsets[-1] else 0
    block = np.empty(_ROWS_AT_ONCE, dtype=np.uint16)
    for start in range(first - first % _ROWS_AT_ONCE, last, _ROWS_AT_ONCE):
        b = start // _ROWS_AT_ONCE
        for node in range(n_nodes):
            _fill(words, node * _WORDS, begins_right[node])
            first_plane = plane_offsets[feature[node]]
            n_planes = plane_offsets[feature[node] + 1] - first_plane
            at = (first_plane * n_blocks + b * n_planes) * _WORDS
            if is_first[node]:
                _fetch(planes, at + n_planes * _WORDS, n_planes)
            for c in range(cut_offsets[node], cut_offsets[node + 1]):
                _flip_above(planes, at, n_planes, cleared, cuts[c], words, node * _WORDS)
        _merge_levels(words, n_levels)
        _write_leaves(words, n_levels, start, first, last, block, leaf)


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
    n_levels = 1
    while n_levels < _LEVELS_TOGETHER and (1 << n_levels) <= n_internal:
        n_levels += 1
    n_together = (1 << n_levels) - 1
    words = np.empty(n_together * _WORDS, dtype=np.uint64)
    block = np.empty(_ROWS_AT_ONCE, dtype=np.uint16)
    entry = np.empty(n_together, dtype=np.int64)
    begin = first - first % _ROWS_AT_ONCE
    for i in range(n_together):
        entry[i] = _first_entry(rows, indptr[feature[i]], indptr[feature[i] + 1], begin)
    for start in range(begin, last, _ROWS_AT_ONCE):
        for i in range(n_together):
            of_zero = goes_left[i, zero_codes[feature[i]]]
            _fill(words, i * _WORDS, np.uint64(0) if of_zero else ~np.uint64(0))
            e, end = entry[i], indptr[feature[i] + 1]
            while e < end and rows[e] < start + _ROWS_AT_ONCE:
                j = rows[e] - start
                differs = np.uint64(goes_left[i, codes[e]] != of_zero)
                words[i * _WORDS + (j >> 6)] ^= differs << np.uint64(j & 63)
                e += 1
            entry[i] = e
        _merge_levels(words, n_levels)
        _write_leaves(words, n_levels, start, first, last, block, leaf)
        if n_together == n_internal:
            continue
        for row in range(max(first, start), min(last, start + _ROWS_AT_ONCE)):
            node = n_together + np.int64(leaf[row])
            while node < n_internal:
                f = feature[node]
                e = _first_entry(rows, indptr[f], indptr[f + 1], row)
                code = codes[e] if e < indptr[f + 1] and rows[e] == row else zero_codes[f]
                node = 2 * node + 2 - goes_left[node, code]
            leaf[row] = node - n_internal


@dataclass(frozen=True)
class DenseColumns:
    """Binned matrix whose codes are also kept as bit planes.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_rows, n_features), C order
        Not copied.
    planes : BitPlanes
    """

    codes: NDArray[np.uint8]
    planes: BitPlanes

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
        depth = len(feature).bit_length()
        n_levels = min(depth, _LEVELS_TOGETHER)
        _leaves_dense(
            self.planes.bits,
            self.planes.plane_offsets,
            self.planes.present,
            self.planes.present_offsets,
            feature,
            goes_left,
            n_levels,
            first,
            last,
            aligned_words(_WORDS << n_levels),
            leaf,
        )
        if n_levels < depth:
            send_down(self.codes, feature, left_bits(goes_left), n_levels, first, last, leaf)


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


def by_columns(matrix: DenseCodes | SparseCodes, n_threads: int = 0) -> DenseColumns | SparseColumns:
    """The same codes, column after column.

    Parameters
    ----------
    matrix : DenseCodes or SparseCodes
        Kept in the result if dense.
    n_threads : int
        Threads at most; 0 means all available processors.
    """
    if isinstance(matrix, DenseCodes):
        return DenseColumns(matrix.codes, bit_planes(matrix.codes, n_threads))
    n_features = len(matrix.zero_codes)
    order = np.argsort(matrix.indices, kind="stable")
    rows = np.repeat(np.arange(matrix.n_rows, dtype=np.int32), np.diff(matrix.indptr))
    indptr = offsets(np.bincount(matrix.indices, minlength=n_features))
    return SparseColumns(indptr, rows[order], matrix.codes[order], matrix.zero_codes)
