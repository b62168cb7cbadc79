"""An odd modulus, with the constants of Montgomery arithmetic, and how residues are stored.

A residue is one row of 64-bit words.  The residue x is stored as ``x·R mod n`` with ``R = 2^(52·⌈bits/52⌉)``
(2^104 at least), fully reduced, so that equal residues are equal bytes on every path.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues.lanes import LIMB_BITS
from gbdt_kernels.residues.limbs import WORD_BITS, n_limbs, n_words, to_limbs, to_rows

MIN_LIMBS = 2
"""Limbs of a modulus at least: R exceeds a word, so that `modular.Reduction` can take words one by one."""

MAX_LIMBS = 1000
"""Limbs of a modulus up to which no sum of the kernels overflows (see `montgomery`, `montgomery_ifma`)."""

Rows = NDArray[np.uint64]


class Modulus:
    """An odd modulus of at least 3, with what Montgomery arithmetic needs to know of it.

    `value` may be a secret: `repr` and errors do not show it. It has `n_limbs` limbs of 52 bits, two at
    least, and its rows `width` words. `radix` is R, a power of two above it; `words` and `limbs` are the
    modulus itself, and `inverse` is ``-1 / n mod 2⁶⁴``. `one` and `radix_squared`, rows of shape (1, width),
    are ``R mod n``, which stands for 1, and ``R² mod n``, which stands for R.
    """

    def __init__(self, value: int) -> None:
        if value < 3 or value % 2 == 0:
            raise ValueError("a modulus must be odd and at least 3")
        bits = value.bit_length()
        self.value = value
        self.n_limbs = max(MIN_LIMBS, n_limbs(bits))
        if self.n_limbs > MAX_LIMBS:
            raise ValueError(f"a modulus has at most {LIMB_BITS * MAX_LIMBS} bits, not {bits}")
        self.width = n_words(bits)
        self.radix = 1 << (LIMB_BITS * self.n_limbs)
        self.words = to_rows([value], self.width)[0]
        self.limbs = to_limbs(value, self.n_limbs)
        self.inverse = np.uint64(-pow(value, -1, 1 << WORD_BITS) % (1 << WORD_BITS))
        self.one = to_rows([self.radix % value], self.width)
        self.radix_squared = to_rows([self.radix * self.radix % value], self.width)

    def __repr__(self) -> str:
        """Size only."""
        return f"Modulus({self.value.bit_length()} bits)"

    @property
    def constants(self) -> tuple[Any, ...]:
        """The arguments of every kernel."""
        return self.words, self.limbs, self.n_limbs, self.inverse

    @property
    def steps(self) -> int:
        """Elementary steps of a product, as `threads.blocks` counts them."""
        return self.n_limbs * self.n_limbs // 2 + 1

    def row(self, value: int) -> Rows:
        """The Montgomery form of one integer, as an array of one row."""
        return to_rows([value * self.radix % self.value], self.width)


def as_rows(rows: Rows, modulus: Modulus) -> Rows:
    """C-ordered rows of the modulus's width: the kernels read memory unchecked."""
    rows = np.ascontiguousarray(rows, dtype=np.uint64)
    if rows.ndim != 2 or rows.shape[1] != modulus.width:
        raise ValueError(f"rows have shape (n, {modulus.width}) for {modulus!r}, not {rows.shape}")
    return rows


def as_short_rows(rows: Rows, n_limbs: int, modulus: Modulus) -> Rows:
    """C-ordered rows of so many limbs, in no more words than the modulus's."""
    rows = np.ascontiguousarray(rows, dtype=np.uint64)
    if rows.ndim != 2 or not 0 < rows.shape[1] <= modulus.width or not 0 < n_limbs <= modulus.n_limbs:
        raise ValueError(f"rows of {n_limbs} limbs and of shape {rows.shape} are too long for {modulus!r}")
    return rows
