"""Tables of the powers of bases by every digit, and products of one power of each base."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.residues.modular import multiply, over_rows
from gbdt_kernels.residues.modulus import Modulus, Rows, as_rows
from gbdt_kernels.residues.paths import path_kernels

PRODUCTS_AT_ONCE = 4096
_BASES_AT_ONCE = 16


@kernel
def _table_rows(exponents, window, order):
    """Row i of `order` gets the table's row for each digit, of `window` bits, of exponent i."""
    n_words = exponents.shape[1]
    for i in range(len(order)):
        for place in range(order.shape[1]):
            word, shift = window * place // 64, window * place % 64
            digit = exponents[i, word] >> np.uint64(shift) if word < n_words else np.uint64(0)
            if shift + window > 64 and word + 1 < n_words:
                digit |= exponents[i, word + 1] << np.uint64(64 - shift)
            order[i, place] = np.int64(digit & np.uint64((1 << window) - 1)) + (place << window)


def table_rows(exponents: Rows, window: int, n_places: int) -> NDArray[np.int64]:
    """Rows of a table, shape (n, n_places), that the digits of exponents name, lowest digit first.

    `exponents` are rows of words, `window` the bits of a digit; digits beyond an exponent's words are 0.
    """
    order = np.empty((len(exponents), n_places), dtype=np.int64)
    _table_rows(exponents, window, order)
    return order


def digit_powers(first: Rows, bases: Rows, window: int, modulus: Modulus, n_threads: int = 0) -> Rows:
    """Powers of each base by every digit of `window` bits, times one number.

    `first`, shape (1, width), is that number, the power by digit 0. The bases, one a row, are in Montgomery
    form. The result has shape (n_bases * 2^window, width).
    """
    table = np.empty((len(bases), 1 << window, modulus.width), dtype=np.uint64)
    table[:, 0] = first
    for at in range(0, len(bases), _BASES_AT_ONCE):
        part, step = table[at : at + _BASES_AT_ONCE], bases[at : at + _BASES_AT_ONCE]
        for k in (1 << bit for bit in range(window)):
            low = part[:, :k].reshape(-1, modulus.width)
            products = multiply(low, np.repeat(step, k, axis=0), modulus, n_threads)
            part[:, k : 2 * k] = products.reshape(part[:, :k].shape)
            step = multiply(step, step, modulus, n_threads)
    return table.reshape(-1, modulus.width)


class DigitProducts:
    """Products ``Π bases[i]^d_i`` of Montgomery-form rows for digits of `window` bits."""

    def __init__(self, bases: Rows, window: int, modulus: Modulus, n_threads: int = 0) -> None:
        self._modulus, self._window, self._n_bases = modulus, window, len(bases)
        self._n_threads = n_threads
        self.table = digit_powers(modulus.one, as_rows(bases, modulus), window, modulus, n_threads)

    def __repr__(self) -> str:
        """Size only."""
        return f"DigitProducts({self._n_bases} bases, digits of {self._window} bits, {self._modulus!r})"

    def __call__(self, digits: Rows) -> Rows:
        """One product for each row of words, whose lowest bits are the first base's digit."""
        modulus = self._modulus
        digits = np.ascontiguousarray(digits, dtype=np.uint64)
        out = np.empty((len(digits), modulus.width), dtype=np.uint64)
        table_products = path_kernels().table_products
        for first in range(0, len(digits), PRODUCTS_AT_ONCE):
            part = out[first : first + PRODUCTS_AT_ONCE]
            order = table_rows(digits[first : first + PRODUCTS_AT_ONCE], self._window, self._n_bases)

            def work(start: int, stop: int, order: NDArray[np.int64] = order, part: Rows = part) -> None:
                table_products(self.table, order, modulus.n_limbs, *modulus.constants, part, start, stop)

            over_rows(len(order), modulus.steps * self._n_bases, self._n_threads, work)
        return out
