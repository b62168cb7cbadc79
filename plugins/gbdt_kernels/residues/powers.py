"""Powers of rows: one exponent for all by sliding windows, or one base with a table of its powers.

Powers take secret exponents; run times and memory traces depend on them.  That is fine where the holder of
the exponents owns the machine, and only there.
"""

from __future__ import annotations

import gmpy2
import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues.chains import chain_products
from gbdt_kernels.residues.limbs import n_words, widened
from gbdt_kernels.residues.modular import encode, multiply, over_rows
from gbdt_kernels.residues.modulus import Modulus, Rows, as_rows
from gbdt_kernels.residues.paths import path_kernels

_POWERS_AT_ONCE = 4096


def power(rows: Rows, exponent: int, modulus: Modulus, n_threads: int = 0) -> Rows:
    """The same power of every row, by sliding windows.

    Parameters
    ----------
    rows : ndarray of uint64, shape (n_rows, width)
    exponent : int
        Not negative.
    modulus : Modulus
    n_threads : int
        Threads at most; 0 means all available processors.
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
    """Steps "square so often, then multiply by odd power number d" (−1: do not) that make the power.

    The first step has no squarings: it starts from its odd power.
    """
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


WINDOW_BITS = 10
"""Bits of an exponent that one table row serves: a table of 12 MB for a 2048-bit Okamoto–Uchiyama key."""


class FixedBase:
    """Powers of one base: a table of ``base^(d·2^(10 w))`` for every digit d at every place w of an exponent.

    A power is then the product of one table row a digit: a chain.

    Parameters
    ----------
    base : int
    exponent_bits : int
        Longest exponent.
    modulus : Modulus
    """

    def __init__(self, base: int, exponent_bits: int, modulus: Modulus, n_threads: int = 0) -> None:
        self._modulus = modulus
        self._exponent_bits = exponent_bits
        self._places = max(1, -(-exponent_bits // WINDOW_BITS))
        first = [base % modulus.value]
        for _ in range(self._places - 1):
            first.append(int(gmpy2.powmod(first[-1], 1 << WINDOW_BITS, modulus.value)))
        table = np.empty((1 << WINDOW_BITS, self._places, modulus.width), dtype=np.uint64)
        table[0] = modulus.one
        step = encode(first, modulus, n_threads)
        for k in (1 << bit for bit in range(WINDOW_BITS)):
            low = table[:k].reshape(-1, modulus.width)
            table[k : 2 * k] = multiply(low, np.tile(step, (k, 1)), modulus, n_threads).reshape(
                table[:k].shape
            )
            step = multiply(step, step, modulus, n_threads)
        self._rows = table.reshape(-1, modulus.width)

    def __repr__(self) -> str:
        """Size only: base and modulus may be secrets."""
        return f"FixedBase({self._exponent_bits} exponent bits, {self._modulus!r})"

    def powers(self, exponents: Rows, n_threads: int = 0) -> Rows:
        """One power for each exponent, given as a row of words."""
        out = np.empty((len(exponents), self._modulus.width), dtype=np.uint64)
        for first in range(0, len(exponents), _POWERS_AT_ONCE):
            part = exponents[first : first + _POWERS_AT_ONCE]
            order = self._digits(part) * self._places + np.arange(self._places)
            starts = np.arange(len(part) + 1) * self._places
            chain_products(
                self._rows,
                order.reshape(-1),
                starts,
                self._modulus,
                out=out[first : first + len(part)],
                n_threads=n_threads,
            )
        return out

    def _digits(self, exponents: Rows) -> NDArray[np.int64]:
        """Digits of exponents, least significant first, shape (n_exponents, n_places)."""
        words = widened(exponents, max(exponents.shape[1], n_words(WINDOW_BITS * self._places)) + 1)
        word, shift = np.divmod(WINDOW_BITS * np.arange(self._places), 64)
        low = words[:, word] >> shift.astype(np.uint64)
        # A shift by all 64 bits would be undefined: two shifts.
        high = (words[:, word + 1] << (63 - shift).astype(np.uint64)) << np.uint64(1)
        digits = (low | high) & np.uint64((1 << WINDOW_BITS) - 1)
        end, rest = divmod(WINDOW_BITS * self._places, 64)
        if (words[:, end] >> np.uint64(rest)).any() or words[:, end + 1 :].any():
            raise ValueError(f"exponents have at most {WINDOW_BITS * self._places} bits")
        return np.asarray(digits.astype(np.int64))
