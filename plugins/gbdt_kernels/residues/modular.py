"""Products, inverses and reductions modulo an odd number, on whole arrays of residues in Montgomery form.

The work is done by the kernels that `paths` chooses, on several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues.lanes import LANES, LIMB_BITS
from gbdt_kernels.residues.limbs import WORD_BITS, add_rows, from_rows, to_rows, widened
from gbdt_kernels.residues.modulus import Modulus, Rows, as_rows, as_short_rows
from gbdt_kernels.residues.paths import path_kernels
from gbdt_kernels.threads import blocks, run


def over_rows(n_rows: int, steps: int, n_threads: int, work: Callable[[int, int], None]) -> None:
    """Call ``work(start, stop)`` for blocks of whole batches of rows."""
    parts = blocks(-(-n_rows // LANES), n_threads, LANES * steps)
    run(lambda _, start, stop: work(LANES * start, min(LANES * stop, n_rows)), parts)


def multiply(
    a: Rows,
    b: Rows,
    modulus: Modulus,
    n_threads: int = 0,
    out: Rows | None = None,
    b_limbs: int | None = None,
) -> Rows:
    """Products of rows; an operand of one row multiplies every row of the other.

    ``multiply(a, b)`` is ``a·b/R mod n``, the product in Montgomery form. It is right also if one operand is
    not reduced but below R. With `b_limbs` it is ``a·b/2^(52 b_limbs) mod n``, in so many of the modulus's
    `n_limbs` parts of the time. Rows of `b` may then have fewer words; `b_limbs`, at most `n_limbs`, holds
    every one of them, and `a` is below the modulus.

    `out`, shape (n_rows, width), is where to write instead of to a new array; it may be `a` or `b`, unless
    that is one row for many.
    """
    if b_limbs is None:
        a, b, b_limbs = as_rows(a, modulus), as_rows(b, modulus), modulus.n_limbs
    else:
        a, b = as_rows(a, modulus), as_short_rows(b, b_limbs, modulus)
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        raise ValueError(f"cannot multiply {len(a)} rows by {len(b)}")
    n_rows = 0 if 0 in (len(a), len(b)) else max(len(a), len(b))
    if out is None:
        out = np.empty((n_rows, modulus.width), dtype=np.uint64)
    elif out.shape != (n_rows, modulus.width) or out.dtype != np.uint64 or not out.flags.c_contiguous:
        raise ValueError(f"out must be C-ordered words of shape {(n_rows, modulus.width)}")
    a_step, b_step = int(len(a) > 1), int(len(b) > 1)
    products = path_kernels().products

    def work(start: int, stop: int) -> None:
        products(a, a_step, b, b_step, b_limbs, *modulus.constants, out, start, stop)

    over_rows(n_rows, modulus.steps, n_threads, work)
    return out


def encode(values: Iterable[Any], modulus: Modulus, n_threads: int = 0) -> Rows:
    """Integers in ``[0, 2^(64 width))`` and below R as residues in Montgomery form."""
    return multiply(to_rows(values, modulus.width), modulus.radix_squared, modulus, n_threads)


def decode(rows: Rows, modulus: Modulus, n_threads: int = 0) -> list[int]:
    """Residues in Montgomery form as integers in ``[0, n)``."""
    return from_rows(multiply(rows, to_rows([1], modulus.width), modulus, n_threads))


class Reduction:
    """Residues of wide integers, ``x·factor mod n`` in Montgomery form.

    x is cut in pieces of w words with ``2^(64 w) <= R``; piece k is multiplied by ``2^(64 w k)·R·factor``,
    which leaves it reduced and in Montgomery form. Wide rows have `wide` words; the factor may be invertible
    or not.
    """

    def __init__(self, wide: int, modulus: Modulus, factor: int = 1) -> None:
        self._modulus = modulus
        self._piece = min(modulus.width, LIMB_BITS * modulus.n_limbs // WORD_BITS)
        self._wide = wide
        scale = factor * modulus.radix % modulus.value
        self._constants = [modulus.row(scale << (WORD_BITS * at)) for at in range(0, wide, self._piece)]

    def __call__(self, rows: Rows, n_threads: int = 0) -> Rows:
        """Reduce rows of the wide width."""
        if rows.shape[1] != self._wide:
            raise ValueError(f"rows have {rows.shape[1]} words, not {self._wide}")
        total = np.zeros((len(rows), self._modulus.width), dtype=np.uint64)
        for k, constant in enumerate(self._constants):
            piece = widened(rows[:, k * self._piece : (k + 1) * self._piece], self._modulus.width)
            total = add_rows(total, multiply(piece, constant, self._modulus, n_threads), self._modulus.words)
        return total


def invert(rows: Rows, modulus: Modulus, n_threads: int = 0) -> Rows:
    """Inverses of all rows for three products per row and one inversion.

    A tree of pairwise products, inverted at the root: with ``p = 1/(x y)``, ``1/x = p y`` and ``1/y = p x``.
    `ZeroDivisionError` names the first row that is not invertible.
    """
    rows = as_rows(rows, modulus)
    if len(rows) == 0:
        return rows
    try:
        return _invert_tree(rows, modulus, n_threads)
    except ZeroDivisionError:
        first = next(i for i, row in enumerate(from_rows(rows)) if gmpy2.gcd(row, modulus.value) != 1)
        raise ZeroDivisionError(f"row {first} is not invertible") from None


def _invert_tree(rows: Rows, modulus: Modulus, n_threads: int) -> Rows:
    if len(rows) == 1:
        # The row is x·R, its inverse in Montgomery form R / x = R² / (x·R).
        inverse = int(gmpy2.invert(from_rows(rows)[0], modulus.value))
        return to_rows([modulus.radix * modulus.radix * inverse % modulus.value], modulus.width)
    out = np.empty_like(rows)
    paired = len(rows) // 2 * 2
    left, right = rows[0:paired:2], rows[1:paired:2]
    pairs = multiply(left, right, modulus, n_threads)
    inverses = _invert_tree(np.concatenate([pairs, rows[paired:]]), modulus, n_threads)
    out[0:paired:2] = multiply(inverses[: len(pairs)], right, modulus, n_threads)
    out[1:paired:2] = multiply(inverses[: len(pairs)], left, modulus, n_threads)
    out[paired:] = inverses[len(pairs) :]
    return out


def power(rows: Rows, exponent: int, modulus: Modulus, n_threads: int = 0) -> Rows:
    """The same power of every row, by sliding windows; the exponent is not negative.

    Run times and memory traces depend on the exponent, which may be secret: its holder owns the machine.
    """
    rows = as_rows(rows, modulus)
    if exponent < 0:
        raise ValueError("the exponent is negative; invert the rows first")
    if exponent == 0:
        return np.repeat(modulus.one, len(rows), axis=0)
    squarings, digits = _sliding_windows(exponent)
    n_odd = int(digits.max()) + 1
    out = np.empty_like(rows)
    powers = path_kernels().powers

    def work(start: int, stop: int) -> None:
        powers(rows, squarings, digits, n_odd, *modulus.constants, out, start, stop)

    over_rows(len(rows), modulus.steps * exponent.bit_length(), n_threads, work)
    return out


def shift(rows: Rows, bits: int, modulus: Modulus, n_threads: int = 0) -> Rows:
    """The power ``2^bits`` of every row: what a shift of the plaintext is on ciphertexts."""
    return power(rows, 1 << bits, modulus, n_threads)


def _window_bits(exponent_bits: int) -> int:
    """The window that takes fewest products: 2^(w-1) odd powers and one product every w + 1 bits."""
    return min(range(1, 9), key=lambda w: (1 << (w - 1)) + exponent_bits / (w + 1))


def _sliding_windows(exponent: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Steps "square so often, then multiply by odd power d" (−1: do not); the first squares nothing."""
    window = _window_bits(exponent.bit_length()) if exponent & (exponent - 1) else 1
    squarings: list[int] = []
    digits: list[int] = []
    pending = 0
    at = exponent.bit_length() - 1
    while at >= 0:
        if not exponent >> at & 1:
            pending += 1
            at -= 1
            continue
        low = max(at - window + 1, 0)
        while not exponent >> low & 1:
            low += 1
        odd = exponent >> low & ((1 << (at - low + 1)) - 1)
        squarings.append(pending + at - low + 1 if squarings else 0)
        digits.append(odd >> 1)
        pending = 0
        at = low - 1
    if pending:
        squarings.append(pending)
        digits.append(-1)
    return np.array(squarings), np.array(digits)
