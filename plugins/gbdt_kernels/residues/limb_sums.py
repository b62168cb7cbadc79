"""Sums of long integers in rows of words, modulo a power of two: for the cipher that encrypts nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.residues.limbs import check_rows, check_starts

Rows = NDArray[np.uint64]


@kernel
def _chain_sums(source, order, starts, out):
    """Add each chain's rows to its row of ``out``, uint64 of shape (n_chains, width)."""
    for chain in range(len(starts) - 1):
        total = out[chain]
        for k in range(starts[chain], starts[chain + 1]):
            row = source[order[k]]
            carry = np.uint64(0)
            for j in range(len(total)):
                partial = total[j] + row[j]
                with_carry = partial + carry
                carry = np.uint64(partial < row[j]) | np.uint64(with_carry < partial)
                total[j] = with_carry


@kernel
def _differences(a, b, out):
    """``a - b`` modulo 2^(64 width), uint64 of shape (n_rows, width)."""
    for i in range(len(out)):
        borrow = np.uint64(0)
        for j in range(out.shape[1]):
            partial = a[i, j] - b[i, j]
            out[i, j] = partial - borrow
            borrow = np.uint64(a[i, j] < b[i, j]) | np.uint64(partial < borrow)


@kernel
def _shifted(a, words, bits, out):
    """Shift rows by whole words and fewer than 64 bits more; ``out`` starts as zeros."""
    for i in range(len(out)):
        for j in range(out.shape[1] - 1, words - 1, -1):
            low = a[i, j - words - 1] >> (64 - bits) if bits and j > words else np.uint64(0)
            out[i, j] = (a[i, j - words] << bits) | low


def chain_sums(source: Rows, order: NDArray[np.integer[Any]], starts: NDArray[np.int64]) -> Rows:
    """Sum of each chain of rows ``source[order[starts[c]:starts[c + 1]]]``; 0 for an empty one."""
    check_rows("order", order, len(source))
    check_starts(starts, len(order))
    out = np.zeros((len(starts) - 1, source.shape[1]), dtype=np.uint64)
    _chain_sums(source, order, starts, out)
    return out


def differences(a: Rows, b: Rows) -> Rows:
    """``a − b``, row by row."""
    out = np.empty_like(a)
    _differences(a, np.broadcast_to(b, a.shape), out)
    return out


def shifted(a: Rows, bits: int) -> Rows:
    """``a·2^bits``, row by row."""
    out = np.zeros_like(a)
    words, rest = divmod(bits, 64)
    _shifted(a, words, np.uint64(rest), out)
    return out
