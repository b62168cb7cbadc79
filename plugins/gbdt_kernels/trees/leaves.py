"""The leaf of every row, for trees whose splits are known before the data is read.

All nodes of a block of rows are decided first, each as a set of bits, one per row.  Merging the decisions of
two children into their parent's is then a bitwise operation on 512 rows, and so is comparing with a threshold
where the codes are kept as bit planes.  That beats sending rows down one by one as long as a tree has few
nodes; below `LEVELS_TOGETHER` levels, rows go on alone, by codes that are read back from the planes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types, uintp
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

from gbdt_kernels.compilation import kernel, part
from gbdt_kernels.trees.planes import ROWS_PER_BLOCK, WORDS_PER_BLOCK

_ROWS_AT_ONCE = ROWS_PER_BLOCK
_WORDS = WORDS_PER_BLOCK
LEVELS_TOGETHER = 8
_CLEARED = np.where((np.arange(256)[:, None] >> np.arange(8)) & 1, np.uint64(0), ~np.uint64(0)).reshape(-1)
"""All ones where a bit of a number below 256 is 0, else zeros; eight words per number."""

# Vectors of 512 bits, which LLVM divides where a processor has shorter ones.  numba has no type for them, and
# finds the same instructions in loops over eight words only by luck.

intrinsic: Any = numba_intrinsic  # its types count the first argument, which callers leave out
_INT64 = ir.IntType(64)
_BLOCK = ir.VectorType(_INT64, _WORDS)
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
    """Write 64 unsigned numbers whose bits are in every eighth of `words` from `at` on, lowest first."""

    def generate(context, builder, signature, arguments):
        element = ir.IntType(numbers.dtype.bitwidth)
        vector = ir.VectorType(element, 64)
        number = cgutils.alloca_once(builder, vector)
        nothing = ir.Constant(vector, None)
        builder.store(nothing, number)
        with cgutils.for_range(builder, arguments[2]) as loop:
            place = builder.add(arguments[1], builder.mul(loop.index, ir.Constant(_INT64, _WORDS)))
            word = builder.load(_element(context, builder, signature.args[0], arguments[0], place))
            is_set = builder.bitcast(word, ir.VectorType(ir.IntType(1), 64))
            bit = builder.shl(ir.Constant(element, 1), builder.trunc(loop.index, element))
            added = builder.select(is_set, _splat(builder, bit, vector), nothing)
            builder.store(builder.or_(builder.load(number), added), number)
        target = _vector(context, builder, signature.args[3], arguments[3], arguments[4], vector)
        builder.store(builder.load(number), target, align=numbers.dtype.bitwidth // 8)
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


@part
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


@part
def _spread_leaves(words, n_levels, block):
    """Write the leaf numbers (uint16) of a block of rows."""
    at = ((1 << (n_levels - 1)) - 1) * _WORDS
    for w in range(_WORDS):
        _spread(words, at + w, n_levels, block, 64 * w)


@part
def _copy_leaves(block, start, first, last, leaf):
    """Copy the leaf numbers of the rows from `start` on, as far as they are `first` to `last` - 1."""
    first = first if first > start else start
    last = last if last < start + _ROWS_AT_ONCE else start + _ROWS_AT_ONCE
    for row in range(first, last):
        leaf[row] = block[row - start]


@part
def _read_ranks(planes, b, is_read, ranks):
    """Write the ranks (uint8) of a block's codes, the rows of one feature after those of another."""
    bits, plane_offsets, n_blocks = planes
    for f in range(len(is_read)):
        if not is_read[f]:
            continue
        n_planes = plane_offsets[f + 1] - plane_offsets[f]
        at = (plane_offsets[f] * n_blocks + b * n_planes) * _WORDS
        for w in range(_WORDS):
            _spread(bits, at + w, n_planes, ranks, f * _ROWS_AT_ONCE + 64 * w)


@kernel
def read_codes(planes, present, is_read, first_block, ranks, codes):
    """Write the codes of rows from a block's first one on: ``codes`` is uint8, shape (n_features, n_rows).

    `planes` and `present` are ``BitPlanes.arrays`` and ``BitPlanes.codes``.  Each feature in `is_read` (bool)
    has 512 places in `ranks` (uint8), which is scratch.
    """
    codes_of_ranks, code_offsets = present
    n_features, n_rows = codes.shape
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        _read_ranks(planes, first_block + start // _ROWS_AT_ONCE, is_read, ranks)
        n = n_rows - start if n_rows - start < _ROWS_AT_ONCE else _ROWS_AT_ONCE
        for f in range(n_features):
            for j in range(n):
                codes[f, start + j] = codes_of_ranks[code_offsets[f] + ranks[f * _ROWS_AT_ONCE + j]]


@part
def _send_down(ranks, present, feature, bits, n_levels, block):
    """Send a block's rows on from a level of a tree to its leaves, all one level at a time.

    `bits` is flat, 32 bytes per node from that level on.  Unsigned indices spare numba its check for counting
    from the end.
    """
    codes, code_offsets = present
    n_above = uintp((1 << n_levels) - 1)
    base = n_above
    while base < len(feature):
        for j in range(_ROWS_AT_ONCE):
            node = base + uintp(block[j])
            f = uintp(feature[node])
            rank = uintp(ranks[f * uintp(_ROWS_AT_ONCE) + uintp(j)])
            code = uintp(codes[uintp(code_offsets[f]) + rank])
            byte = np.int64(bits[(node - n_above) * uintp(32) + (code >> uintp(3))])
            left = (byte >> np.int64(code & uintp(7))) & 1
            block[j] = np.uint16(2 * np.int64(block[j]) + 1 - left)
        base = uintp(2) * base + uintp(1)


@kernel
def find_cuts(feature, goes_left, present, begins_right, cuts, cut_offsets):
    """After which of the codes that rows have, by rank, a node's direction changes.

    `begins_right` (uint64 of shape (n_nodes,)) is all ones where the first of them goes right.  The changes
    of a node are ``cuts[cut_offsets[node] : cut_offsets[node + 1]]`` (uint8), at most 255.
    """
    codes, code_offsets = present
    n_cuts = 0
    for node in range(len(begins_right)):
        cut_offsets[node] = n_cuts
        first, last = code_offsets[feature[node]], code_offsets[feature[node] + 1]
        direction = goes_left[node, codes[first]] if first < last else np.uint8(1)
        begins_right[node] = np.uint64(0) if direction else ~np.uint64(0)
        for place in range(first + 1, last):
            if goes_left[node, codes[place]] != direction:
                direction = goes_left[node, codes[place]]
                cuts[n_cuts] = place - first - 1
                n_cuts += 1
    cut_offsets[len(begins_right)] = n_cuts


@kernel
def leaves_dense(planes, feature, all_cuts, n_levels, is_first, first, last, words, block, leaf):
    """As `DenseColumns.leaves` of `gbdt_kernels.trees.columns`, for the first `n_levels` levels of a tree.

    `all_cuts` are the arrays that `find_cuts` wrote; `is_first` says of each node whether none before it
    splits its feature.  `words`, and `block` of 512 numbers (uint16), are scratch.
    """
    bits, plane_offsets, n_blocks = planes
    begins_right, cuts, cut_offsets = all_cuts
    for start in range(first - first % _ROWS_AT_ONCE, last, _ROWS_AT_ONCE):
        b = start // _ROWS_AT_ONCE
        for node in range(len(begins_right)):
            _fill(words, node * _WORDS, begins_right[node])
            first_plane = plane_offsets[feature[node]]
            n_planes = plane_offsets[feature[node] + 1] - first_plane
            at = (first_plane * n_blocks + b * n_planes) * _WORDS
            if is_first[node]:
                _fetch(bits, at + n_planes * _WORDS, n_planes)
            for c in range(cut_offsets[node], cut_offsets[node + 1]):
                _flip_above(bits, at, n_planes, _CLEARED, cuts[c], words, node * _WORDS)
        _merge_levels(words, n_levels)
        _spread_leaves(words, n_levels, block)
        _copy_leaves(block, start, first, last, leaf)


@kernel
def deeper_leaves(planes, present, feature, bits, n_levels, is_read, first, last, ranks, block, leaf):
    """Send rows on from the leaves that `leaves_dense` wrote to those of the whole tree.

    `bits` is that of `_send_down`, `is_read` and `ranks` are those of `read_codes`.
    """
    for start in range(first - first % _ROWS_AT_ONCE, last, _ROWS_AT_ONCE):
        _read_ranks(planes, start // _ROWS_AT_ONCE, is_read, ranks)
        for j in range(_ROWS_AT_ONCE):
            block[j] = 0  # rows of other threads go anywhere
        low = first if first > start else start
        high = last if last < start + _ROWS_AT_ONCE else start + _ROWS_AT_ONCE
        for row in range(low, high):
            block[row - start] = leaf[row]
        _send_down(ranks, present, feature, bits, n_levels, block)
        _copy_leaves(block, start, first, last, leaf)


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
def leaves_sparse(indptr, rows, codes, zero_codes, feature, goes_left, first, last, leaf):
    """As `SparseColumns.leaves` of `gbdt_kernels.trees.columns`."""
    n_internal = len(feature)
    n_levels = 1
    while n_levels < LEVELS_TOGETHER and (1 << n_levels) <= n_internal:
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
        _spread_leaves(words, n_levels, block)
        _copy_leaves(block, start, first, last, leaf)
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
