"""Many powers of one base modulo a square p², by a table of the base's powers.

A unit modulo p² is ``a·(1 + p s)`` in exactly one way with a and s below p: a is the unit modulo p, and
``s = t / a mod p`` for the unit ``a + p t``.  In a product the numbers s only add up, because
``(1 + p s)(1 + p s') = 1 + p (s + s')``.  So a table keeps a and s, each half as long as the unit; a power
multiplies the short numbers a modulo p², which takes half the time of products of units, adds the numbers s
as integers, and multiplies by ``1 + p·Σs`` once, at its end.

Exponents may be secret; run times and memory traces depend on them.  That is fine where the holder of the
exponents owns the machine, and only there.
"""

from __future__ import annotations

import gmpy2
import numpy as np

from gbdt_kernels.compilation import kernel
from gbdt_kernels.residues.digit_tables import digit_powers, table_rows
from gbdt_kernels.residues.lanes import LIMB_BITS, prefetch
from gbdt_kernels.residues.limbs import WORD_BITS, add_rows, n_limbs, rows_below, to_rows, widened
from gbdt_kernels.residues.modular import Reduction, encode, invert, multiply, over_rows
from gbdt_kernels.residues.modulus import Modulus, Rows
from gbdt_kernels.residues.paths import path_kernels

WINDOW_BITS = 10
"""Bits of an exponent that one table row serves.

A table takes 27 MB for each prime of a 2048-bit Paillier key, 61 MB for one of 3072 bits, and 12 or 27 MB for
an Okamoto–Uchiyama key.  A bit more would double that for a tenth fewer products.
"""

_POWERS_AT_ONCE = 4096
_ROWS_AHEAD = 8
_LINE = 64
_LOW_HALF = (1 << 32) - 1


@kernel
def _sums(table, order, low, high, out, start, stop):
    """Row i of `out` sums ``table[order[i]]``, without overflow; `low`, `high` (uint64) are scratch."""
    width, n_places = table.shape[1], order.shape[1]
    for i in range(start, stop):
        for j in range(width):
            low[j] = np.uint64(0)
            high[j] = np.uint64(0)
        for place in range(n_places):
            ahead = place + _ROWS_AHEAD if place + _ROWS_AHEAD < n_places else n_places - 1
            for byte in range(0, 8 * width, _LINE):
                prefetch(table, 8 * width * order[i, ahead] + byte)
            row = table[order[i, place]]
            # Halves of words gather in words, without carries.
            for j in range(width):
                low[j] += row[j] & np.uint64(_LOW_HALF)
                high[j] += row[j] >> np.uint64(32)
        carry = np.uint64(0)
        for j in range(width):
            first = low[j] + carry
            second = high[j] + (first >> np.uint64(32))
            out[i, j] = (second << np.uint64(32)) | (first & np.uint64(_LOW_HALF))
            carry = second >> np.uint64(32)
        for j in range(width, out.shape[1]):
            out[i, j] = carry
            carry = np.uint64(0)


class FixedBase:
    """Powers of one base modulo p²: a table of ``base^(d·2^(w k))`` for every digit d at every place k.

    A power is then the product of one table row per digit of w bits. The base is prime to p, and exponents
    have at most `exponent_bits` bits. p is `root`, odd and at least 3, a prime or not; `modulus` is p².
    """

    def __init__(self, base: int, exponent_bits: int, root: int, n_threads: int = 0) -> None:
        self.modulus = Modulus(root * root)
        self._exponent_bits = exponent_bits
        self._places = max(1, -(-exponent_bits // WINDOW_BITS))
        short = Modulus(root)
        self._limbs = short.n_limbs
        a, s = _split(self._table(base, n_threads), short, self.modulus, n_threads)
        self._factors, self._terms = _on_cache_lines(a), _on_cache_lines(s)
        # A product of table rows is the power times 2^(52 limbs); times this it is in Montgomery form.
        self._sum_limbs = n_limbs((self._places * root).bit_length())
        unit = self.modulus.radix**2 * pow(1 << (LIMB_BITS * self._limbs), -1, self.modulus.value)
        numbers = [unit, (unit * root) << (LIMB_BITS * self._sum_limbs)]
        rows = to_rows([number % self.modulus.value for number in numbers], self.modulus.width)
        self._unit, self._multiple = rows[:1], rows[1:]

    def __repr__(self) -> str:
        """Size only: base and modulus may be secrets."""
        return f"FixedBase({self._exponent_bits} exponent bits, {self.modulus!r})"

    def _table(self, base: int, n_threads: int) -> Rows:
        """The powers times 2^(52 limbs), what a product with one of them divides by."""
        modulus = self.modulus
        first = [base % modulus.value]
        for _ in range(self._places - 1):
            first.append(int(gmpy2.powmod(first[-1], 1 << WINDOW_BITS, modulus.value)))
        one = to_rows([(1 << (LIMB_BITS * self._limbs)) % modulus.value], modulus.width)
        return digit_powers(one, encode(first, modulus, n_threads), WINDOW_BITS, modulus, n_threads)

    def powers(self, exponents: Rows, n_threads: int = 0) -> Rows:
        """One power for each exponent, given as a row of words."""
        exponents = np.ascontiguousarray(exponents, dtype=np.uint64)
        may_be_longer = WORD_BITS * exponents.shape[1] > self._exponent_bits
        if may_be_longer and not rows_below(exponents, 1 << self._exponent_bits).all():
            raise ValueError(f"exponents have at most {self._exponent_bits} bits")
        out = np.empty((len(exponents), self.modulus.width), dtype=np.uint64)
        for first in range(0, len(exponents), _POWERS_AT_ONCE):
            part = slice(first, first + _POWERS_AT_ONCE)
            self._write_powers(exponents[part], out[part], n_threads)
        return out

    def _write_powers(self, exponents: Rows, out: Rows, n_threads: int) -> None:
        """Powers by exponents that are short enough."""
        modulus = self.modulus
        order = table_rows(exponents, WINDOW_BITS, self._places)
        products, sums = np.empty_like(out), np.empty_like(out)
        table_products = path_kernels().table_products

        def work(start: int, stop: int) -> None:
            table_products(self._factors, order, self._limbs, *modulus.constants, products, start, stop)
            low, high = np.empty((2, self._terms.shape[1]), dtype=np.uint64)
            _sums(self._terms, order, low, high, sums, start, stop)

        over_rows(len(order), modulus.steps * self._places, n_threads, work)
        multiples = multiply(self._multiple, sums, modulus, n_threads, b_limbs=self._sum_limbs)
        units = add_rows(multiples, np.repeat(self._unit, len(order), axis=0), modulus.words)
        multiply(products, units, modulus, n_threads, out)


def _split(units: Rows, short: Modulus, whole: Modulus, n_threads: int) -> tuple[Rows, Rows]:
    """The numbers a and s of units ``a·(1 + p s)`` modulo p², given as plain rows; `short` is modulo p.

    With ``a + p t`` for the unit, t is an exact quotient, found modulo a number prime to p and above it:
    modulo p + 2 the unit is ``a − 2 t``.
    """
    p = short.value
    beside = Modulus(p + 2)
    a = Reduction(whole.width, short, pow(short.radix, -1, p))(units, n_threads)
    half, radix = (p + 3) // 2, beside.radix
    t = add_rows(
        multiply(beside.row(half), widened(a, beside.width), beside, n_threads),
        Reduction(whole.width, beside, -half * pow(radix, -1, beside.value))(units, n_threads),
        beside.words,
    )[:, : short.width]
    in_montgomery_form = multiply(a, short.radix_squared, short, n_threads)
    return a, multiply(
        np.ascontiguousarray(t), invert(in_montgomery_form, short, n_threads), short, n_threads
    )


def _on_cache_lines(rows: Rows) -> Rows:
    """A copy that begins with a cache line, so that a row lies in as few as it can."""
    memory = np.empty(rows.size + 8, dtype=np.uint64)
    first = -memory.ctypes.data // 8 % 8
    copy = memory[first : first + rows.size].reshape(rows.shape)
    copy[:] = rows
    return copy
