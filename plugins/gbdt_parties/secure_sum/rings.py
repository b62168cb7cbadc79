"""Integers modulo a power of two in which masks cancel: words of 64 bits, or two of them with a carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import PartyArgumentError, SumRangeError

Words = NDArray[np.uint64]
OUT_OF_RANGE = (
    "the opened sum is out of range: a party added what it should not have, or somebody is not among those "
    "whose masks cancel"
)


class WordStream(Protocol):
    """A source of uniform words, such as `gbdt_commons.key_stream.KeyStream`."""

    def words(self, count: int) -> Words:
        """The next 64-bit words."""


@dataclass(frozen=True)
class Ring:
    """Vectors of integers modulo ``2**bits``, of 1 to 64 or 128 bits.

    A vector of n values is an array of uint64 of shape (n,), or of shape (n, 2) with the low word first.
    """

    bits: int

    def __post_init__(self) -> None:
        if not (1 <= self.bits <= 64 or self.bits == 128):
            raise PartyArgumentError(f"bits={self.bits} of a ring must be 1 to 64, or 128")

    @property
    def words_per_value(self) -> int:
        """Words that a value takes."""
        return 2 if self.bits == 128 else 1

    def _reduced(self, words: Words) -> Words:
        return words if self.bits >= 64 else words & np.uint64((1 << self.bits) - 1)

    def _shaped(self, words: Words) -> Words:
        return words.reshape(-1, 2) if self.bits == 128 else words

    def zeros(self, n: int) -> Words:
        """A vector of n zeros."""
        return self._shaped(np.zeros(n * self.words_per_value, dtype=np.uint64))

    def uniform(self, stream: WordStream, n: int) -> Words:
        """The next n values of a stream."""
        return self._shaped(self._reduced(stream.words(n * self.words_per_value)))

    def add(self, a: Words, b: Words) -> Words:
        """``a + b``, value by value."""
        if self.bits < 128:
            return self._reduced(a + b)
        total = a + b
        # A word has overflowed if it is less than what was added.
        total[:, 1] += total[:, 0] < a[:, 0]
        return total

    def subtract(self, a: Words, b: Words) -> Words:
        """``a - b``, value by value."""
        if self.bits < 128:
            return self._reduced(a - b)
        rest = a - b
        rest[:, 1] -= a[:, 0] < b[:, 0]
        return rest

    def from_integers(self, integers: NDArray[np.int64]) -> Words:
        """Integers of 64 bits as a vector, negative ones as their complement."""
        low = np.ascontiguousarray(integers, dtype=np.int64).ravel()
        if self.bits < 128:
            return self._reduced(low.view(np.uint64))
        return np.column_stack([low, low >> 63]).view(np.uint64)

    def to_bytes(self, vector: Words) -> bytes:
        """The words, little-endian."""
        return vector.astype("<u8", copy=False).tobytes()

    def from_bytes(self, data: bytes | memoryview) -> Words:
        """Vector that `to_bytes` wrote."""
        return self._shaped(np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False))

    def centred(self, vector: Words, bound: int) -> NDArray[Any]:
        """The values as integers between ``-2**(bits - 1)`` and ``2**(bits - 1) - 1``, checked for size.

        They are int64, or Python integers for 128 bits.  A SumRangeError says that one exceeds the bound in
        absolute value; the text quotes none of them.
        """
        if self.bits == 128:
            high = vector[:, 1].view(np.int64).astype(object)
            integers: NDArray[Any] = high * (1 << 64) + vector[:, 0].astype(object)
        else:
            unused = np.uint64(64 - self.bits)
            # Shifting back a signed word repeats its sign.
            integers = (vector << unused).view(np.int64) >> unused.astype(np.int64)
        # Not abs(), which leaves the smallest integer as it is.
        if len(integers) and not (-bound <= integers.min() and integers.max() <= bound):
            raise SumRangeError(OUT_OF_RANGE)
        return integers

    def check_bits(self, vector: Words, bits: int) -> None:
        """Check that the values modulo 2^128 are below ``2**bits``, up and down, as they are.

        There are 64 to 127 bits.  The text of the SumRangeError quotes no value.
        """
        low, high = vector[:, 0], vector[:, 1].view(np.int64)
        top = np.int64((1 << (bits - 64)) - 1)
        bottom = -top - 1  # with a low word of 0 it is -2**bits itself
        if ((high > top) | (high < bottom) | ((high == bottom) & (low == 0))).any():
            raise SumRangeError(OUT_OF_RANGE)


MODULO_64, MODULO_128 = Ring(64), Ring(128)
