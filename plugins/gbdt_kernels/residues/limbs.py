"""Long non-negative integers as rows of an array: little-endian 64-bit words, least significant first.

Rows are what crosses the wire and what every kernel takes and returns.  The
vectorised path also wants a modulus in 52-bit limbs.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel, part
from gbdt_kernels.residues.lanes import LIMB_BITS, LIMB_MASK

WORD_BITS = 64


def n_words(bits: int) -> int:
    """Words that hold so many bits; one at least."""
    return max(1, -(-bits // WORD_BITS))


def n_limbs(bits: int) -> int:
    """Limbs that hold so many bits; one at least."""
    return max(1, -(-bits // LIMB_BITS))


def to_rows(values: Iterable[Any], width: int) -> NDArray[np.uint64]:
    """Integers as rows of `width` words; `OverflowError` if one is negative or does not fit."""
    packed = bytearray().join(operator.index(value).to_bytes(8 * width, "little") for value in values)
    return np.frombuffer(packed, dtype="<u8").reshape(-1, width).astype(np.uint64)


def from_rows(rows: NDArray[np.uint64]) -> list[int]:
    """Rows of words as integers."""
    packed = np.ascontiguousarray(rows, dtype="<u8").tobytes()
    size = 8 * rows.shape[1]
    return [int.from_bytes(packed[at : at + size], "little") for at in range(0, len(packed), size)]


def to_limbs(value: int, count: int) -> NDArray[np.uint64]:
    """One integer as 52-bit limbs."""
    return np.array([value >> (LIMB_BITS * j) & LIMB_MASK for j in range(count)], dtype=np.uint64)


def widened(rows: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
    """The same integers in rows of at least as many words."""
    out = np.zeros((len(rows), width), dtype=np.uint64)
    out[:, : rows.shape[1]] = rows
    return out


@part
def _below(row, bound):
    """Whether a row of words is below another."""
    for j in range(len(bound) - 1, -1, -1):
        if row[j] != bound[j]:
            return row[j] < bound[j]
    return False


def rows_below(rows: NDArray[np.uint64], bound: int) -> NDArray[np.bool_]:
    """Which rows are smaller than `bound`, which must fit a row."""
    words = to_rows([bound], rows.shape[1])[0]
    is_below, is_equal = np.zeros(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.bool_)
    for word, column in zip(words[::-1], rows.T[::-1], strict=True):
        is_below |= is_equal & (column < word)
        is_equal &= column == word
        if not is_equal.any():
            break
    return is_below


@kernel
def _add_rows(a, b, modulus, out):
    """``(a + b) mod modulus`` of reduced rows, uint64 of shape (n_rows, width)."""
    for i in range(len(out)):
        carry = np.uint64(0)
        for j in range(len(modulus)):
            partial = a[i, j] + carry
            carry = np.uint64(partial < carry)
            total = partial + b[i, j]
            carry += np.uint64(total < partial)
            out[i, j] = total
        if carry or not _below(out[i], modulus):
            borrow = np.uint64(0)
            for j in range(len(modulus)):
                word = out[i, j]
                difference = word - modulus[j]
                out[i, j] = difference - borrow
                borrow = np.uint64(word < modulus[j]) | np.uint64(difference < borrow)


def add_rows(a: NDArray[np.uint64], b: NDArray[np.uint64], modulus: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sums of reduced rows, reduced by the modulus given as one row."""
    out = np.empty_like(a)
    _add_rows(a, b, modulus, out)
    return out


def check_rows(name: str, rows: NDArray[np.integer[Any]], n_rows: int) -> None:
    """Raise IndexError unless all row numbers are of rows that exist: the kernels read memory unchecked."""
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < n_rows:
        raise IndexError(f"{name} names rows outside 0 to {n_rows - 1}")


def check_starts(starts: NDArray[np.int64], length: int) -> None:
    """Raise ValueError unless `starts` ascends within an array of so many places."""
    if starts.dtype.kind != "i":
        raise ValueError(f"starts must be signed integers, not {starts.dtype}")
    if len(starts) == 0 or starts[0] < 0 or (np.diff(starts) < 0).any() or starts[-1] > length:
        raise ValueError(f"starts must ascend from 0 at least to {length} at most")
