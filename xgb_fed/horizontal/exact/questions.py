"""Questions that all parties of an exact training run answer by secure sums, as each party puts them itself.

A run is a generator of questions: it is sent the sums over all parties and goes on to the next questions.
Those that do not depend on each other's answers are one flight: one vector, masked and signed once.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees.wide_sums import as_floats, fixed_point
from gbdt_parties.errors import SumRangeError
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128, OUT_OF_RANGE, Ring, Words

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ExactQuestion:
    """A question, the same at all parties, and this party's own answer, private until it is masked.

    Sums are modulo 2^64 or 2^128; that over all parties is below ``2**bits``, up and down.
    """

    what: str
    ring: Ring
    values: Words
    bits: int

    @property
    def text(self) -> bytes:
        """The question, the same for all parties."""
        return f"{self.what}; {len(self.values)} values modulo 2^{self.ring.bits}, 2^{self.bits}".encode()

    def values_in(self, ring: Ring) -> Words:
        """The answer of this party in a ring that holds it."""
        return self.values if ring is self.ring else ring.from_integers(self.values.view(np.int64))

    def checked(self, total: Words) -> NDArray[Any]:
        """The opened sum: int64 of shape (n,) modulo 2^64, words of shape (n, 2) modulo 2^128.

        The total is in this question's ring, or in one that holds it; a SumRangeError says that it is out of
        range.
        """
        if self.ring is MODULO_128:
            self.ring.check_bits(total, self.bits)
            return total
        ring = MODULO_64 if total.ndim == 1 else MODULO_128
        return ring.centred(total, (1 << self.bits) - 1).astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Flight:
    """Questions that are asked together, and answered by one vector with one signature.

    A party's answer is masked and signed for the digest of all texts, each with its length, in this order,
    and for the number of all values and their ring.  So it is not the answer to a part of the flight, to the
    same questions in another order, or to those of two flights.  The sum of the vectors is the sums of the
    questions, one after the other: it tells what they would tell one by one.  Questions without values are
    not put: the sum of no values is known.
    """

    questions: Sequence[ExactQuestion]

    @cached_property
    def _put(self) -> list[ExactQuestion]:
        return [one for one in self.questions if len(one.values)]

    @cached_property
    def ring(self) -> Ring:
        """The ring that holds all values."""
        return MODULO_128 if any(one.ring is MODULO_128 for one in self._put) else MODULO_64

    @property
    def n_values(self) -> int:
        """Length of every party's vector."""
        return sum(len(one.values) for one in self._put)

    @property
    def n_bytes(self) -> int:
        """Length of every party's vector in bytes."""
        return 8 * self.ring.words_per_value * self.n_values

    @property
    def parts(self) -> tuple[bytes, ...]:
        """Texts of the questions: signed with every answer."""
        return tuple(one.text for one in self._put)

    @property
    def values(self) -> Words:
        """The answer of this party to all of them."""
        answers = [one.values_in(self.ring) for one in self._put]
        return answers[0] if len(answers) == 1 else np.concatenate(answers)

    def checked(self, total: Words) -> list[NDArray[Any]]:
        """The opened sums of all questions, as `ExactQuestion.checked`."""
        ends = np.cumsum([len(one.values) for one in self.questions])
        parts = np.split(total, ends[:-1])
        return [
            one.checked(part if len(part) else one.values)
            for one, part in zip(self.questions, parts, strict=True)
        ]


Asking = Generator[tuple[ExactQuestion, ...], list[NDArray[Any]], T]
"""A computation that asks questions, some of them together, and returns a T."""


def together(*askings: Asking[Any]) -> Asking[list[Any]]:
    """Several computations side by side, whose questions of the same step are asked together; their results.

    Each is asked the same questions in the same order as alone, and all of them to their ends.
    """
    results: list[Any] = [None] * len(askings)
    waiting: dict[int, tuple[ExactQuestion, ...]] = {}

    def go_on(place: int, answers: list[NDArray[Any]] | None) -> None:
        try:
            # None starts a generator.
            waiting[place] = askings[place].send(answers)  # type: ignore[arg-type]
        except StopIteration as end:
            waiting.pop(place, None)
            results[place] = end.value

    for place in range(len(askings)):
        go_on(place, None)
    while waiting:
        asked = list(waiting.items())
        answers = yield tuple(question for _, questions in asked for question in questions)
        for place, questions in asked:
            go_on(place, answers[: len(questions)])
            answers = answers[len(questions) :]
    return results


def in_flights(asking: Asking[T], max_bytes: int) -> Generator[Flight, list[NDArray[Any]], T]:
    """The same computation, whose questions have no longer answers of one party; long ones become several."""
    questions = next(asking)
    while True:
        flight = Flight(questions)
        if flight.n_bytes <= max_bytes:
            totals = yield from _answers(flight)
        else:
            totals = []
            for question in questions:
                parts = []
                for piece in _pieces(question, max_bytes):
                    parts += yield from _answers(Flight([piece]))
                totals.append(np.concatenate(parts))
        try:
            questions = asking.send(totals)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def _answers(flight: Flight) -> Generator[Flight, list[NDArray[Any]], list[NDArray[Any]]]:
    """Ask the questions of a flight, unless it is known that they add up to nothing."""
    return (yield flight) if flight.n_values else flight.checked(flight.ring.zeros(0))


def _pieces(question: ExactQuestion, max_bytes: int) -> list[ExactQuestion]:
    """A question as several with no longer answers than that, of at least a value."""
    size, n_values = max(1, max_bytes // (8 * question.ring.words_per_value)), len(question.values)
    if n_values <= size:
        return [question]
    return [
        replace(question, what=f"{question.what}, part {k}", values=question.values[start : start + size])
        for k, start in enumerate(range(0, n_values, size))
    ]


COUNT_BITS = 40
"""Counts of rows, parties and bins are below 2 to the power of this."""


def ask_counts(what: str, counts: NDArray[np.int64]) -> Asking[NDArray[np.int64]]:
    """Ask for sums of counts; a SumRangeError says that one is negative."""
    (total,) = yield (ExactQuestion(what, MODULO_64, MODULO_64.from_integers(counts), COUNT_BITS),)
    if (total < 0).any():
        raise SumRangeError(OUT_OF_RANGE)
    return total


def ask_words(what: str, words: Words, bits: int) -> Asking[Words]:
    """Ask for sums of fixed-point numbers, given and returned as words of shape (..., 2)."""
    (total,) = yield (ExactQuestion(what, MODULO_128, words.reshape(-1, 2), bits),)
    return total.reshape(words.shape)


def ask_numbers(what: str, values: NDArray[np.float64], scale: int, bits: int) -> Asking[NDArray[np.float64]]:
    """Ask for sums of numbers, exact to `scale` binary digits after the point."""
    total = yield from ask_words(what, fixed_point(values, scale), bits)
    return as_floats(total, scale)
