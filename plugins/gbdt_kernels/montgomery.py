"""Montgomery arithmetic with 64-bit words and their 128-bit products: the portable path.

``R = 2^(52 n_limbs)`` as on the vectorised path, so reduction takes whole words first and the remaining
bits last: ``R = 2^(64 w + s)`` with s < 64, where w is the number of words of n or one less.

Bounds.  With a, b < n < R the sum ``(a b + m n) / R`` is below 2 n, so one
conditional subtraction reduces it (also if one operand is only below R).  Row i
of the scanning keeps ``sums < 2 n 2⁶⁴``, which fits two words more than n.

The public kernels work on rows ``start`` to ``stop``; wrappers in `modular`
give each thread its own rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from gbdt_kernels.lanes import LIMB_BITS

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@intrinsic
def _multiply_add(typing_context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """``a·b + c + d`` as (low, high) words; it is at most 2¹²⁸ − 1."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        x, y, u, v = [builder.zext(argument, wide) for argument in arguments]
        total = builder.add(builder.add(builder.mul(x, y), u), v)
        low = builder.trunc(total, ir.IntType(64))
        high = builder.trunc(builder.lshr(total, ir.Constant(wide, 64)), ir.IntType(64))
        return context.make_tuple(builder, signature.return_type, [low, high])

    return types.UniTuple(types.uint64, 2)(*[types.uint64] * 4), generate


@njit(nogil=True, cache=True)
def _add_and_reduce(a, factor, words, inverse, sums):
    """``sums = (sums + a·factor) / 2⁶⁴ mod n``."""
    n_words = len(words)
    low, up = _multiply_add(a[0], factor, sums[0], _ZERO)
    m = low * inverse
    _, carry = _multiply_add(m, words[0], low, _ZERO)
    for j in range(1, n_words):
        low, up = _multiply_add(a[j], factor, sums[j], up)
        sums[j - 1], carry = _multiply_add(m, words[j], low, carry)
    sums[n_words - 1], sums[n_words] = _multiply_add(_ONE, up, carry, sums[n_words])


@njit(nogil=True, cache=True)
def _add_and_reduce_two(a, factor0, factor1, words, inverse, sums):
    """``sums = (sums + a·(factor0 + 2⁶⁴ factor1)) / 2¹²⁸ mod n``: `_add_and_reduce` twice, in one pass."""
    n_words = len(words)
    a_before, n_before = a[0], words[0]
    a_now, n_now = a[1], words[1]
    low, up0 = _multiply_add(a_before, factor0, sums[0], _ZERO)
    m0 = low * inverse
    _, carry0 = _multiply_add(m0, n_before, low, _ZERO)
    low, up0 = _multiply_add(a_now, factor0, sums[1], up0)
    low, carry0 = _multiply_add(m0, n_now, low, carry0)
    low, up1 = _multiply_add(a_before, factor1, low, _ZERO)
    m1 = low * inverse
    _, carry1 = _multiply_add(m1, n_before, low, _ZERO)
    a_rest, words_rest, sums_rest = a[2:], words[2:], sums[2:n_words]
    for j in range(len(sums_rest)):
        a_next, n_next = a_rest[j], words_rest[j]
        low, up0 = _multiply_add(a_next, factor0, sums_rest[j], up0)
        low, carry0 = _multiply_add(m0, n_next, low, carry0)
        low, up1 = _multiply_add(a_now, factor1, low, up1)
        low, carry1 = _multiply_add(m1, n_now, low, carry1)
        sums[j] = low
        a_now, n_now = a_next, n_next
    low, top = _multiply_add(_ONE, up0, carry0, sums[n_words])
    low, up1 = _multiply_add(a_now, factor1, low, up1)
    sums[n_words - 2], carry1 = _multiply_add(m1, n_now, low, carry1)
    sums[n_words - 1], sums[n_words] = _multiply_add(_ONE, up1, carry1, top)


@njit(nogil=True, cache=True)
def _add(a, factor, sums):
    """``sums = sums + a·factor``."""
    n_words = len(a)
    carry = _ZERO
    for j in range(n_words):
        sums[j], carry = _multiply_add(a[j], factor, sums[j], carry)
    sums[n_words], carry = _multiply_add(_ONE, sums[n_words], carry, _ZERO)
    sums[n_words + 1] += carry


@njit(nogil=True, cache=True)
def _reduce_bits(words, inverse, bits, sums):
    """``sums = sums / 2^bits mod n`` for fewer than 64 bits."""
    if bits == 0:
        return
    n_words = len(words)
    m = (sums[0] * inverse) & ((_ONE << np.uint64(bits)) - _ONE)
    _add(words, m, sums)
    for j in range(n_words + 1):
        sums[j] = (sums[j] >> np.uint64(bits)) | (sums[j + 1] << np.uint64(64 - bits))
    sums[n_words + 1] >>= np.uint64(bits)


@njit(nogil=True, cache=True)
def _subtract_modulus(words, sums, out):
    """Write `sums`, below twice the modulus, reduced."""
    n_words = len(words)
    borrow = _ZERO
    for j in range(n_words):
        difference = sums[j] - words[j]
        next_borrow = np.uint64(sums[j] < words[j]) | np.uint64(difference < borrow)
        out[j] = difference - borrow
        borrow = next_borrow
    if sums[n_words] < borrow:
        out[:] = sums[:n_words]


@njit(nogil=True, cache=True)
def _multiply(a, b, words, n_limbs, inverse, sums, out):
    """Montgomery product of two rows; `out` may be one of them, `sums` is scratch."""
    whole = LIMB_BITS * n_limbs // 64
    sums[:] = _ZERO
    for i in range(0, whole - 1, 2):
        _add_and_reduce_two(a, b[i], b[i + 1], words, inverse, sums)
    if whole % 2:
        _add_and_reduce(a, b[whole - 1], words, inverse, sums)
    for i in range(whole, len(words)):
        _add(a, b[i], sums)
    _reduce_bits(words, inverse, LIMB_BITS * n_limbs % 64, sums)
    _subtract_modulus(words, sums, out)


@njit(nogil=True, cache=True)
def products(a, a_step, b, b_step, words, limbs, n_limbs, inverse, out, start, stop):
    """``out[i] = a[i·a_step]·b[i·b_step] / R mod n``: a step of 0 repeats the one row."""
    sums = np.empty(len(words) + 2, dtype=np.uint64)
    for i in range(start, stop):
        _multiply(a[i * a_step], b[i * b_step], words, n_limbs, inverse, sums, out[i])


@njit(nogil=True, cache=True)
def chains(source, order, bounds, targets, spans, words, limbs, n_limbs, inverse, out, rests):
    """Montgomery product of the rows ``order[bounds[c]:bounds[c + 1]]``, one at least, of each chain c.

    It goes to ``out[targets[c]]``, or to ``rests[-1 - targets[c]]`` if that is negative.
    """
    sums = np.empty(len(words) + 2, dtype=np.uint64)
    for chain in range(spans[0], spans[-1]):
        target = targets[chain]
        product = out[target] if target >= 0 else rests[-1 - target]
        product[:] = source[order[bounds[chain]]]
        for place in range(bounds[chain] + 1, bounds[chain + 1]):
            _multiply(product, source[order[place]], words, n_limbs, inverse, sums, product)


@njit(nogil=True, cache=True)
def powers(bases, squarings, digits, n_odd, words, limbs, n_limbs, inverse, out, start, stop):
    """Powers of rows: each step squares so often, then multiplies by odd power number d (−1: by none)."""
    sums = np.empty(len(words) + 2, dtype=np.uint64)
    square = np.empty(len(words), dtype=np.uint64)
    odd = np.empty((n_odd, len(words)), dtype=np.uint64)
    for i in range(start, stop):
        odd[0] = bases[i]
        _multiply(odd[0], odd[0], words, n_limbs, inverse, sums, square)
        for k in range(1, n_odd):
            _multiply(square, odd[k - 1], words, n_limbs, inverse, sums, odd[k])
        power = out[i]
        power[:] = odd[digits[0]]
        for step in range(1, len(digits)):
            for _ in range(squarings[step]):
                _multiply(power, power, words, n_limbs, inverse, sums, power)
            if digits[step] >= 0:
                _multiply(power, odd[digits[step]], words, n_limbs, inverse, sums, power)
