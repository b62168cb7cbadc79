"""Montgomery arithmetic on eight numbers at once, with AVX-512 IFMA.

Lane k of every register belongs to number k.  A *batch* is a scratch array of 64-byte groups; group j holds
limb j (52 bits) of all eight numbers; groups past the last limb are 0.  `_multiply` does operand scanning
with Montgomery reduction, two limbs of one operand a pass, and leaves carries in the upper 12 bits until
the end.

Bounds.  A limb gathers at most ``4 n_limbs`` halves of products, each below
2⁵², and carries below 2¹²: it fits 64 bits up to `modulus.MAX_LIMBS`.  With a, b < n < R
the sum ``(a b + m n) / R`` is below 2 n, so one conditional subtraction reduces it.
It stays below 2 n if only one operand is below n and the other below R.

The kernels have the signatures of `montgomery`, and give the same bytes.
"""

from __future__ import annotations

import numpy as np

from gbdt_kernels.compilation import kernel
from gbdt_kernels.residues.lanes import (
    LANES,
    LIMB_BITS,
    LIMB_MASK,
    above_limb,
    add,
    all_set,
    even_pairs,
    even_words,
    from_packed,
    high_halves,
    load,
    load_first,
    low_halves,
    low_limb,
    madd_high,
    madd_low,
    odd_pairs,
    odd_words,
    prefetch,
    sign,
    splat,
    store,
    store_first,
    subtract,
    to_packed,
    where,
)

_GROUP = 8 * LANES
_BLOCK = _GROUP * LANES
_LINE = 64
_PACKED = LIMB_BITS * LANES // 8


@kernel
def _batch(n_limbs):
    """Scratch for eight numbers, whole blocks of eight limbs, on a cache line's boundary."""
    n_words = (n_limbs + 2 + LANES - 1) // LANES * LANES * LANES
    memory = np.zeros(n_words + LANES, dtype=np.uint64)
    skip = (-memory.ctypes.data // 8) % LANES
    return memory[skip : skip + n_words]


@kernel
def _transposed(a0, a1, a2, a3, a4, a5, a6, a7):
    """8 × 8 words turned about their diagonal."""
    b0, b1 = even_words(a0, a1), odd_words(a0, a1)
    b2, b3 = even_words(a2, a3), odd_words(a2, a3)
    b4, b5 = even_words(a4, a5), odd_words(a4, a5)
    b6, b7 = even_words(a6, a7), odd_words(a6, a7)
    c0, c2 = even_pairs(b0, b2), odd_pairs(b0, b2)
    c1, c3 = even_pairs(b1, b3), odd_pairs(b1, b3)
    c4, c6 = even_pairs(b4, b6), odd_pairs(b4, b6)
    c5, c7 = even_pairs(b5, b7), odd_pairs(b5, b7)
    low = low_halves(c0, c4), low_halves(c1, c5), low_halves(c2, c6), low_halves(c3, c7)
    high = high_halves(c0, c4), high_halves(c1, c5), high_halves(c2, c6), high_halves(c3, c7)
    return low + high


@kernel
def _load_rows(source, rows, n_limbs, batch):
    """Bring eight rows of words into a batch."""
    size = 8 * source.shape[1]
    for block in range((n_limbs + LANES - 1) // LANES):
        first = _PACKED * block
        halves = max(0, min(_GROUP, size - first)) // 4
        turned = _transposed(
            from_packed(load_first(source, size * rows[0] + first, halves)),
            from_packed(load_first(source, size * rows[1] + first, halves)),
            from_packed(load_first(source, size * rows[2] + first, halves)),
            from_packed(load_first(source, size * rows[3] + first, halves)),
            from_packed(load_first(source, size * rows[4] + first, halves)),
            from_packed(load_first(source, size * rows[5] + first, halves)),
            from_packed(load_first(source, size * rows[6] + first, halves)),
            from_packed(load_first(source, size * rows[7] + first, halves)),
        )
        at = _BLOCK * block
        store(batch, at, turned[0])
        store(batch, at + _GROUP, turned[1])
        store(batch, at + 2 * _GROUP, turned[2])
        store(batch, at + 3 * _GROUP, turned[3])
        store(batch, at + 4 * _GROUP, turned[4])
        store(batch, at + 5 * _GROUP, turned[5])
        store(batch, at + 6 * _GROUP, turned[6])
        store(batch, at + 7 * _GROUP, turned[7])


@kernel
def _store_rows(batch, count, n_limbs, out, row):
    """Write the first `count` numbers of a batch to consecutive rows of words.

    A block is 52 bytes; the zeros after them, within the row, give way to the next block.
    """
    size = 8 * out.shape[1]
    for block in range((n_limbs + LANES - 1) // LANES):
        at = _BLOCK * block
        turned = _transposed(
            load(batch, at),
            load(batch, at + _GROUP),
            load(batch, at + 2 * _GROUP),
            load(batch, at + 3 * _GROUP),
            load(batch, at + 4 * _GROUP),
            load(batch, at + 5 * _GROUP),
            load(batch, at + 6 * _GROUP),
            load(batch, at + 7 * _GROUP),
        )
        first = size * row + _PACKED * block
        halves = max(0, min(_GROUP, size - _PACKED * block)) // 4
        for lane in range(count):
            store_first(out, first + size * lane, to_packed(turned[lane]), halves)


@kernel
def _load_lane(source, row, n_limbs, batch, lane):
    """Bring one row of words into one lane of a batch."""
    n_words = source.shape[1]
    for j in range(n_limbs):
        word, shift = LIMB_BITS * j // 64, LIMB_BITS * j % 64
        limb = source[row, word] >> np.uint64(shift)
        if shift > 64 - LIMB_BITS and word + 1 < n_words:
            limb |= source[row, word + 1] << np.uint64(64 - shift)
        batch[LANES * j + lane] = limb & np.uint64(LIMB_MASK)


@kernel
def _store_lane(batch, lane, n_limbs, out, row):
    """Write one lane of a batch to a row of words."""
    for word in range(out.shape[1]):
        j = 64 * word // LIMB_BITS
        down = 64 * word - LIMB_BITS * j
        value = batch[LANES * j + lane] >> np.uint64(down)
        up = LIMB_BITS - down
        while up < 64 and j + 1 < n_limbs:
            j += 1
            value |= batch[LANES * j + lane] << np.uint64(up)
            up += LIMB_BITS
        out[row, word] = value


@kernel
def _reduce(sums, limbs, n_limbs, out):
    """Carry, and subtract the modulus in the lanes that reach it: hardly ever one if R is far above it."""
    carry = splat(np.uint64(0))
    borrow = splat(np.uint64(0))
    for j in range(n_limbs):
        total = add(load(sums, _GROUP * j), carry)
        carry = above_limb(total)
        limb = low_limb(total)
        store(out, _GROUP * j, limb)
        borrow = sign(add(subtract(limb, splat(limbs[j])), borrow))
    below = sign(add(carry, borrow))
    if not all_set(below):
        _subtract_modulus(below, limbs, n_limbs, out)


@kernel
def _subtract_modulus(below, limbs, n_limbs, batch):
    """Subtract the modulus in the lanes that are not below it."""
    borrow = splat(np.uint64(0))
    for j in range(n_limbs):
        limb = load(batch, _GROUP * j)
        difference = add(subtract(limb, splat(limbs[j])), borrow)
        borrow = sign(difference)
        store(batch, _GROUP * j, where(below, limb, low_limb(difference)))


@kernel
def _two_limbs(a, b0, b1, limbs, n_limbs, inverse, sums):
    """``sums = (sums + a·(b0 + 2⁵² b1)) / 2¹⁰⁴ mod n``, its limbs not yet carried.

    Half-products of a limb by b1 land one place above those by b0, high halves one place above low ones; the
    result moves down two places, so that place j − 2 is written when all that lands on place j is known.
    """
    zero = splat(np.uint64(0))
    inverses = splat(inverse)
    a_before, a_now = load(a, 0), load(a, _GROUP)
    n_before, n_now = splat(limbs[0]), splat(limbs[1])
    place = madd_low(load(sums, 0), a_before, b0)
    m0 = madd_low(zero, place, inverses)
    carry = above_limb(madd_low(place, m0, n_before))
    place = madd_low(madd_high(load(sums, _GROUP), a_before, b0), a_now, b0)
    place = madd_low(place, a_before, b1)
    place = add(place, madd_low(madd_high(carry, m0, n_before), m0, n_now))
    m1 = madd_low(zero, place, inverses)
    carry = above_limb(madd_low(place, m1, n_before))
    for j in range(2, n_limbs):
        a_next, n_next = load(a, _GROUP * j), splat(limbs[j])
        x = madd_high(madd_low(load(sums, _GROUP * j), a_next, b0), a_now, b0)
        y = madd_high(madd_low(carry, n_next, m0), n_now, m0)
        x = madd_high(madd_low(x, a_now, b1), a_before, b1)
        y = madd_high(madd_low(y, n_now, m1), n_before, m1)
        store(sums, _GROUP * (j - 2), add(x, y))
        carry = zero
        a_before, a_now = a_now, a_next
        n_before, n_now = n_now, n_next
    x = madd_high(carry, a_now, b0)
    y = madd_high(zero, n_now, m0)
    x = madd_high(madd_low(x, a_now, b1), a_before, b1)
    y = madd_high(madd_low(y, n_now, m1), n_before, m1)
    store(sums, _GROUP * (n_limbs - 2), add(x, y))
    store(sums, _GROUP * (n_limbs - 1), madd_high(madd_high(zero, a_now, b1), n_now, m1))


@kernel
def _one_limb(a, b0, limbs, n_limbs, inverse, sums):
    """``sums = (sums + a·b0) / 2⁵² mod n``, its limbs not yet carried."""
    zero = splat(np.uint64(0))
    a_now, n_now = load(a, 0), splat(limbs[0])
    place = madd_low(load(sums, 0), a_now, b0)
    m0 = madd_low(zero, place, splat(inverse))
    carry = above_limb(madd_low(place, m0, n_now))
    for j in range(1, n_limbs):
        a_next, n_next = load(a, _GROUP * j), splat(limbs[j])
        x = madd_high(madd_low(load(sums, _GROUP * j), a_next, b0), a_now, b0)
        y = madd_high(madd_low(carry, n_next, m0), n_now, m0)
        store(sums, _GROUP * (j - 1), add(x, y))
        carry = zero
        a_now, n_now = a_next, n_next
    store(sums, _GROUP * (n_limbs - 1), madd_high(madd_high(carry, a_now, b0), n_now, m0))


@kernel
def _multiply(a, b, used, limbs, n_limbs, inverse, sums, out):
    """Products by ``2^(-52 used)``, b of so many limbs; `out` may be a or b, `sums` is scratch."""
    for j in range(n_limbs):
        store(sums, _GROUP * j, splat(np.uint64(0)))
    for i in range(0, used - 1, 2):
        _two_limbs(a, load(b, _GROUP * i), load(b, _GROUP * (i + 1)), limbs, n_limbs, inverse, sums)
    if used % 2:
        _one_limb(a, load(b, _GROUP * (used - 1)), limbs, n_limbs, inverse, sums)
    _reduce(sums, limbs, n_limbs, out)


@kernel
def products(a, a_step, b, b_step, used, words, limbs, n_limbs, inverse, out, start, stop):
    """``out[i] = a[i·a_step]·b[i·b_step] / 2^(52 used) mod n``, as `montgomery.products`."""
    x, y, sums = _batch(n_limbs), _batch(n_limbs), _batch(n_limbs)
    rows = np.empty(LANES, dtype=np.int64)
    for first in range(start, stop, LANES):
        for lane in range(LANES):
            rows[lane] = min(first + lane, stop - 1) * a_step
        _load_rows(a, rows, n_limbs, x)
        for lane in range(LANES):
            rows[lane] = min(first + lane, stop - 1) * b_step
        _load_rows(b, rows, used, y)
        _multiply(x, y, used, limbs, n_limbs, inverse, sums, x)
        _store_rows(x, min(LANES, stop - first), n_limbs, out, first)


@kernel
def chains(source, order, bounds, targets, spans, words, limbs, n_limbs, inverse, out, rests):
    """Products as `montgomery.chains`: lane k works through ``spans[k]`` to ``spans[k + 1]``, stepwise."""
    x, y, sums = _batch(n_limbs), _batch(n_limbs), _batch(n_limbs)
    rows = np.zeros(LANES, dtype=np.int64)
    chain = np.empty(LANES, dtype=np.int64)
    place = np.empty(LANES, dtype=np.int64)
    for lane in range(LANES):
        chain[lane] = spans[lane]
        place[lane] = bounds[chain[lane]]
    for lane in range(LANES):
        if chain[lane] < spans[lane + 1]:
            _load_lane(source, order[place[lane]], n_limbs, x, lane)
            place[lane] += 1
    while True:
        busy = False
        for lane in range(LANES):
            while chain[lane] < spans[lane + 1] and place[lane] == bounds[chain[lane] + 1]:
                target = targets[chain[lane]]
                if target >= 0:
                    _store_lane(x, lane, n_limbs, out, target)
                else:
                    _store_lane(x, lane, n_limbs, rests, -1 - target)
                chain[lane] += 1
                if chain[lane] < spans[lane + 1]:
                    _load_lane(source, order[place[lane]], n_limbs, x, lane)
                    place[lane] += 1
            if chain[lane] < spans[lane + 1]:
                rows[lane] = order[place[lane]]
                place[lane] += 1
                busy = True
        if not busy:
            return
        _load_rows(source, rows, n_limbs, y)
        _multiply(x, y, n_limbs, limbs, n_limbs, inverse, sums, x)


@kernel
def powers(bases, squarings, digits, n_odd, words, limbs, n_limbs, inverse, out, start, stop):
    """Powers of rows: each step squares so often, then multiplies by odd power number d (−1: by none)."""
    x, y, sums = _batch(n_limbs), _batch(n_limbs), _batch(n_limbs)
    odd = np.zeros((n_odd, len(x)), dtype=np.uint64)
    rows = np.empty(LANES, dtype=np.int64)
    for first in range(start, stop, LANES):
        for lane in range(LANES):
            rows[lane] = min(first + lane, stop - 1)
        _load_rows(bases, rows, n_limbs, x)
        for place in range(len(x)):
            odd[0, place] = x[place]
        _multiply(x, x, n_limbs, limbs, n_limbs, inverse, sums, y)
        for k in range(1, n_odd):
            _multiply(y, odd[k - 1], n_limbs, limbs, n_limbs, inverse, sums, odd[k])
        for place in range(len(x)):
            x[place] = odd[digits[0], place]
        for step in range(1, len(digits)):
            for _ in range(squarings[step]):
                _multiply(x, x, n_limbs, limbs, n_limbs, inverse, sums, x)
            if digits[step] >= 0:
                _multiply(x, odd[digits[step]], n_limbs, limbs, n_limbs, inverse, sums, x)
        _store_rows(x, min(LANES, stop - first), n_limbs, out, first)


@kernel
def _prefetch_row(table, row):
    """Have a row brought near."""
    size = 8 * table.shape[1]
    for byte in range(0, size, _LINE):
        prefetch(table, size * row + byte)
    prefetch(table, size * row + size - 1)


@kernel
def table_products(table, order, used, words, limbs, n_limbs, inverse, out, start, stop):
    """Products of rows of a table, as `montgomery.table_products`."""
    x, y, sums = _batch(n_limbs), _batch(n_limbs), _batch(n_limbs)
    rows = np.empty(LANES, dtype=np.int64)
    for first in range(start, stop, LANES):
        for lane in range(LANES):
            rows[lane] = order[min(first + lane, stop - 1), 0]
        _load_rows(table, rows, n_limbs, x)
        for place in range(1, order.shape[1]):
            for lane in range(LANES):
                rows[lane] = order[min(first + lane, stop - 1), place]
                # Far memory takes as long as a product: the next rows are fetched during this one.
                ahead = min(place + 1, order.shape[1] - 1)
                _prefetch_row(table, order[min(first + lane, stop - 1), ahead])
            _load_rows(table, rows, used, y)
            _multiply(x, y, used, limbs, n_limbs, inverse, sums, x)
        _store_rows(x, min(LANES, stop - first), n_limbs, out, first)
