"""Powers of rows with one exponent for all, by sliding windows.

Powers take secret exponents; run times and memory traces depend on them.  That is fine where the holder of
the exponents owns the machine, and only there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues.modular import over_rows
from gbdt_kernels.residues.modulus import Modulus, Rows, as_rows
from gbdt_kernels.residues.paths import path_kernels


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
