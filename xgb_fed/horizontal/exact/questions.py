"""Questions that all parties of an exact training run answer by secure sums, as each party puts them itself.

A run is a generator of questions: it is sent the sum over all parties and goes on to the next question.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees.wide_sums import as_floats, fixed_point
from gbdt_parties.errors import SumRangeError
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128, OUT_OF_RANGE, Ring, Words

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Question:
    """A question, and this party's own answer to it.

    Parameters
    ----------
    what : str
        The question; the same at all parties.
    ring : Ring
    values : ndarray of uint64
        Private, until it is masked.
    bits : int
        The sum over all parties is below ``2**bits``, up and down.
    """

    what: str
    ring: Ring
    values: Words
    bits: int

    @property
    def n_values(self) -> int:
        """Length of every party's vector."""
        return len(self.values)

    @property
    def parts(self) -> tuple[bytes]:
        """Text of the question, the same for all parties."""
        return (f"{self.what}; {self.n_values} values modulo 2^{self.ring.bits}, 2^{self.bits}".encode(),)

    def checked(self, total: Words) -> NDArray[Any]:
        """The opened sum: int64 of shape (n,) modulo 2^64, words of shape (n, 2) modulo 2^128.

        Raises
        ------
        SumRangeError
            If it is out of range.
        """
        if self.ring is MODULO_64:
            return self.ring.centred(total, 1 << self.bits)
        self.ring.check_bits(total, self.bits)
        return total


Asking = Generator[Question, NDArray[Any], T]
"""A computation that asks questions and returns a T."""


def in_parts(asking: Asking[T], max_bytes: int) -> Asking[T]:
    """The same computation, whose questions have no longer answers than that; a long one becomes several.

    A question without values, such as about the cells of columns without any value, is not put:
    the sum of no values is known.

    Parameters
    ----------
    asking : generator
    max_bytes : int
        Of one party's answer.
    """
    question = next(asking)
    while True:
        size = max(1, max_bytes // (8 * question.ring.words_per_value))
        parts = []
        for k, start in enumerate(range(0, len(question.values), size)):
            what = question.what if len(question.values) <= size else f"{question.what}, part {k}"
            parts.append((yield replace(question, what=what, values=question.values[start : start + size])))
        try:
            total = np.concatenate(parts) if parts else question.checked(question.values)
            question = asking.send(total)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


COUNT_BITS = 40
"""Counts of rows, parties and bins are below 2 to the power of this."""


def ask_counts(what: str, counts: NDArray[np.int64]) -> Asking[NDArray[np.int64]]:
    """Ask for sums of counts, which are checked not to be negative.

    Raises
    ------
    SumRangeError
        If one is.
    """
    total = yield Question(what, MODULO_64, MODULO_64.from_integers(counts), COUNT_BITS)
    if (total < 0).any():
        raise SumRangeError(OUT_OF_RANGE)
    return total


def ask_words(what: str, words: Words, bits: int) -> Asking[Words]:
    """Ask for sums of fixed-point numbers, given and returned as words of shape (..., 2)."""
    total = yield Question(what, MODULO_128, words.reshape(-1, 2), bits)
    return total.reshape(words.shape)


def ask_numbers(what: str, values: NDArray[np.float64], scale: int, bits: int) -> Asking[NDArray[np.float64]]:
    """Ask for sums of numbers, exact to `scale` binary digits after the point."""
    total = yield from ask_words(what, fixed_point(values, scale), bits)
    return as_floats(total, scale)
