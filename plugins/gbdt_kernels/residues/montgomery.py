"""Montgomery arithmetic on four numbers at once, with any vector unit: the portable path.

Lane k of every register belongs to number k.  A *batch* is a scratch array of 32-byte groups; group j holds
half-limb j (26 bits) of all four numbers, so that ``R = 2^(52 n_limbs)`` is a whole number of half-limbs, as
on the path of AVX-512 IFMA, whose results these kernels give byte for byte.  `_multiply` does operand
scanning with Montgomery reduction, two half-limbs of one operand a pass, and carries at the end only.

Bounds.  A product of half-limbs is below 2⁵², and a half-limb gathers at most ``4 n_limbs`` of them and one
carry: it fits 64 bits up to 1,000 limbs, which `modulus` enforces.  With a, b < n < R the sum
``(a b + m n) / R`` is below 2 n, so one conditional subtraction reduces it (also if one operand is only
below R).

The public kernels work on rows ``start`` to ``stop``; wrappers in `modular`
give each thread its own rows.
"""

from __future__ import annotations

import numpy as np

from gbdt_kernels.compilation import kernel, part
from gbdt_kernels.residues.lanes import (
    FEW_LANES,
    HALF_BITS,
    HALF_MASK,
    LANES,
    above_half,
    add,
    all_set,
    load_few,
    low_half,
    madd_halves,
    sign,
    splat_few,
    store,
    subtract,
    where,
)

_GROUP = 8 * FEW_LANES
_SPANS = LANES // FEW_LANES


@kernel
def _load_lane(source, row, n_halves, batch, lane):
    """Bring one row of words into one lane of a batch."""
    low, above = source[row, 0], np.uint64(0)
    word, held = 1, 64
    for j in range(n_halves):
        if held < HALF_BITS:
            above = source[row, word] if word < source.shape[1] else np.uint64(0)
            word += 1
            batch[FEW_LANES * j + lane] = (low | above << np.uint64(held)) & np.uint64(HALF_MASK)
            low = above >> np.uint64(HALF_BITS - held)
            held += 64 - HALF_BITS
        else:
            batch[FEW_LANES * j + lane] = low & np.uint64(HALF_MASK)
            low >>= np.uint64(HALF_BITS)
            held -= HALF_BITS


@kernel
def _store_lane(batch, lane, n_halves, out, row):
    """Write one lane of a batch to a row of words."""
    value, held, word = np.uint64(0), 0, 0
    for j in range(n_halves):
        half = batch[FEW_LANES * j + lane]
        value |= half << np.uint64(held)
        held += HALF_BITS
        if held >= 64:
            out[row, word] = value
            word += 1
            held -= 64
            value = half >> np.uint64(HALF_BITS - held)
    if word < out.shape[1]:
        out[row, word] = value


@part
def _spread_modulus(limbs, n_halves, batch):
    """Write the modulus to every lane of a batch."""
    for j in range(n_halves):
        half = (limbs[j // 2] >> np.uint64(HALF_BITS * (j % 2))) & np.uint64(HALF_MASK)
        for lane in range(FEW_LANES):
            batch[FEW_LANES * j + lane] = half


@part
def _reduce(sums, modulus, n_halves, out):
    """Carry, and subtract the modulus in the lanes that reach it: hardly ever one if R is far above it."""
    carry = splat_few(np.uint64(0))
    borrow = splat_few(np.uint64(0))
    for j in range(n_halves):
        total = add(load_few(sums, _GROUP * j), carry)
        carry = above_half(total)
        half = low_half(total)
        store(out, _GROUP * j, half)
        borrow = sign(add(subtract(half, load_few(modulus, _GROUP * j)), borrow))
    below = sign(add(carry, borrow))
    if not all_set(below):
        _subtract_modulus(below, modulus, n_halves, out)


@part
def _subtract_modulus(below, modulus, n_halves, batch):
    """Subtract the modulus in the lanes that are not below it."""
    borrow = splat_few(np.uint64(0))
    for j in range(n_halves):
        half = load_few(batch, _GROUP * j)
        difference = add(subtract(half, load_few(modulus, _GROUP * j)), borrow)
        borrow = sign(difference)
        store(batch, _GROUP * j, where(below, half, low_half(difference)))


@kernel
def _two_halves(a, b0, b1, modulus, n_halves, inverses, sums):
    """``sums = (sums + a·(b0 + 2²⁶ b1)) / 2⁵² mod n``, its half-limbs not carried.

    Products by b1 land one place above those by b0; the result moves down two places, so that place j − 2 is
    written when all that lands on place j is known.
    """
    zero = splat_few(np.uint64(0))
    a_before, a_now = load_few(a, 0), load_few(a, _GROUP)
    n_before, n_now = load_few(modulus, 0), load_few(modulus, _GROUP)
    place = madd_halves(load_few(sums, 0), a_before, b0)
    m0 = low_half(madd_halves(zero, place, inverses))
    carry = above_half(madd_halves(place, m0, n_before))
    place = madd_halves(madd_halves(add(load_few(sums, _GROUP), carry), a_now, b0), a_before, b1)
    place = madd_halves(place, m0, n_now)
    m1 = low_half(madd_halves(zero, place, inverses))
    carry = above_half(madd_halves(place, m1, n_before))
    for j in range(2, n_halves):
        a_next, n_next = load_few(a, _GROUP * j), load_few(modulus, _GROUP * j)
        x = madd_halves(madd_halves(load_few(sums, _GROUP * j), a_next, b0), a_now, b1)
        y = madd_halves(madd_halves(carry, n_next, m0), n_now, m1)
        store(sums, _GROUP * (j - 2), add(x, y))
        carry = zero
        a_now, n_now = a_next, n_next
    store(sums, _GROUP * (n_halves - 2), madd_halves(madd_halves(carry, a_now, b1), n_now, m1))
    store(sums, _GROUP * (n_halves - 1), zero)


@kernel
def _multiply(a, b, used, modulus, inverse, sums, out):
    """Products by ``2^(-26 used)``, b of so many half-limbs; `out` may be a or b, `sums` is scratch."""
    n_halves = len(modulus) // FEW_LANES
    inverses = splat_few(inverse)
    for j in range(n_halves):
        store(sums, _GROUP * j, splat_few(np.uint64(0)))
    for i in range(0, used, 2):
        b0, b1 = load_few(b, _GROUP * i), load_few(b, _GROUP * (i + 1))
        _two_halves(a, b0, b1, modulus, n_halves, inverses, sums)
    _reduce(sums, modulus, n_halves, out)


@kernel
def products(a, a_step, b, b_step, used, words, limbs, n_limbs, inverse, out, start, stop):
    """``out[i] = a[i·a_step]·b[i·b_step] / 2^(52 used) mod n``: a step of 0 repeats the one row.

    Rows of b have `used` limbs; they may have fewer words than those of a.
    """
    n_halves = 2 * n_limbs
    scratch = np.zeros((4, FEW_LANES * n_halves), dtype=np.uint64)
    modulus, x, y, sums = scratch[0], scratch[1], scratch[2], scratch[3]
    _spread_modulus(limbs, n_halves, modulus)
    for first in range(start, stop, FEW_LANES):
        for lane in range(FEW_LANES):
            row = first + lane if first + lane < stop else stop - 1
            _load_lane(a, row * a_step, n_halves, x, lane)
            if first == start or b_step:
                _load_lane(b, row * b_step, 2 * used, y, lane)
        _multiply(x, y, 2 * used, modulus, inverse, sums, x)
        for lane in range(FEW_LANES if stop - first > FEW_LANES else stop - first):
            _store_lane(x, lane, n_halves, out, first + lane)


@kernel
def chains(source, order, bounds, targets, spans, words, limbs, n_limbs, inverse, out, rests):
    """Montgomery product of the rows ``order[bounds[c]:bounds[c + 1]]``, one at least, of each chain c.

    It goes to ``out[targets[c]]``, or to ``rests[-1 - targets[c]]`` if that is negative.  `spans` cuts
    the chains into as many parts as the longest register has lanes; a lane here takes two parts, with one
    product per step.
    """
    n_halves = 2 * n_limbs
    scratch = np.zeros((4, FEW_LANES * n_halves), dtype=np.uint64)
    modulus, x, y, sums = scratch[0], scratch[1], scratch[2], scratch[3]
    _spread_modulus(limbs, n_halves, modulus)
    parts = spans[::_SPANS]
    chain = np.empty(FEW_LANES, dtype=np.int64)
    place = np.empty(FEW_LANES, dtype=np.int64)
    for lane in range(FEW_LANES):
        chain[lane] = parts[lane]
        place[lane] = bounds[chain[lane]]
    for lane in range(FEW_LANES):
        if chain[lane] < parts[lane + 1]:
            _load_lane(source, np.int64(order[place[lane]]), n_halves, x, lane)
            place[lane] += 1
    while True:
        busy = False
        for lane in range(FEW_LANES):
            while chain[lane] < parts[lane + 1] and place[lane] == bounds[chain[lane] + 1]:
                target = targets[chain[lane]]
                if target >= 0:
                    _store_lane(x, lane, n_halves, out, target)
                else:
                    _store_lane(x, lane, n_halves, rests, -1 - target)
                chain[lane] += 1
                if chain[lane] < parts[lane + 1]:
                    _load_lane(source, np.int64(order[place[lane]]), n_halves, x, lane)
                    place[lane] += 1
            if chain[lane] < parts[lane + 1]:
                _load_lane(source, np.int64(order[place[lane]]), n_halves, y, lane)
                place[lane] += 1
                busy = True
        if not busy:
            return
        _multiply(x, y, n_halves, modulus, inverse, sums, x)


@kernel
def powers(bases, squarings, digits, n_odd, words, limbs, n_limbs, inverse, out, start, stop):
    """Powers of rows: each step squares so often, then multiplies by odd power number d (−1: by none)."""
    n_halves = 2 * n_limbs
    scratch = np.zeros((4, FEW_LANES * n_halves), dtype=np.uint64)
    modulus, x, y, sums = scratch[0], scratch[1], scratch[2], scratch[3]
    _spread_modulus(limbs, n_halves, modulus)
    odd = np.zeros((n_odd, len(x)), dtype=np.uint64)
    for first in range(start, stop, FEW_LANES):
        for lane in range(FEW_LANES):
            _load_lane(bases, first + lane if first + lane < stop else stop - 1, n_halves, x, lane)
        for place in range(len(x)):
            odd[0, place] = x[place]
        _multiply(x, x, n_halves, modulus, inverse, sums, y)
        for k in range(1, n_odd):
            _multiply(y, odd[k - 1], n_halves, modulus, inverse, sums, odd[k])
        for place in range(len(x)):
            x[place] = odd[digits[0], place]
        for step in range(1, len(digits)):
            for _ in range(squarings[step]):
                _multiply(x, x, n_halves, modulus, inverse, sums, x)
            if digits[step] >= 0:
                _multiply(x, odd[digits[step]], n_halves, modulus, inverse, sums, x)
        for lane in range(FEW_LANES if stop - first > FEW_LANES else stop - first):
            _store_lane(x, lane, n_halves, out, first + lane)


@kernel
def table_products(table, order, used, words, limbs, n_limbs, inverse, out, start, stop):
    """Products of rows of a table: ``out[i]`` is that of ``table[order[i]]``, reduced as in `products`.

    Rows of the table have `used` limbs; they may have fewer words than those of `out`.
    """
    n_halves = 2 * n_limbs
    scratch = np.zeros((4, FEW_LANES * n_halves), dtype=np.uint64)
    modulus, x, y, sums = scratch[0], scratch[1], scratch[2], scratch[3]
    _spread_modulus(limbs, n_halves, modulus)
    for first in range(start, stop, FEW_LANES):
        for lane in range(FEW_LANES):
            row = first + lane if first + lane < stop else stop - 1
            _load_lane(table, order[row, 0], n_halves, x, lane)
        for place in range(1, order.shape[1]):
            for lane in range(FEW_LANES):
                row = first + lane if first + lane < stop else stop - 1
                _load_lane(table, order[row, place], 2 * used, y, lane)
            _multiply(x, y, 2 * used, modulus, inverse, sums, x)
        for lane in range(FEW_LANES if stop - first > FEW_LANES else stop - first):
            _store_lane(x, lane, n_halves, out, first + lane)
