"""Computations that stop at every question until the sum over all parties is there.

Every party of a run carries out the same computation on rows of its own.  All of them see the same sums, so
that each works out the next question, and the model at the end, for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from typing import Any, Generic, Protocol, TypeVar

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_parties.errors import ProtocolError
from gbdt_parties.secure_sum.rings import Ring


class Question(Protocol):
    """A question about the rows of all parties, as one party has worked it out."""

    @property
    def parts(self) -> Sequence[bytes]:
        """The question, the same at all parties: signed with every answer."""

    @property
    def ring(self) -> Ring:
        """Integers that are added."""

    @property
    def n_values(self) -> int:
        """Length of every party's vector."""


Q = TypeVar("Q", bound=Question)
T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""A computation that stops wherever it waits for something, is sent it, and returns a result."""


def drive(run: Steps[T], answer: Callable[[Any], Steps[Any]]) -> Steps[T]:
    """A run that yields questions and is sent their answers; it stops wherever an answer waits."""
    told = None
    while True:
        try:
            question = run.send(told)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        told = yield from answer(question)


def carried_out(steps: Steps[T], wait: Callable[[], Any]) -> T:
    """The result of steps, which are sent what `wait` gives, and in which its errors are raised."""
    go_on, told = steps.send, None
    while True:
        try:
            with silent_arithmetic():
                go_on(told)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            go_on, told = steps.send, wait()
        except BaseException as error:
            go_on, told = steps.throw, error


class Computation(Generic[Q, T]):
    """A generator that yields questions, is sent answers, and returns the result."""

    def __init__(self, steps: Generator[Q, Any, T]) -> None:
        # The context, so that an observer of releases observes those of this run.
        self._steps, self._context = steps, copy_context()
        self._question: Q | None = None
        self._told: Any = None
        self._error: BaseException | None = None
        self._result: T | None = None
        self._has_ended = False

    def question(self) -> Q | None:
        """The question to be answered next, None at the end; raises what the computation raised."""
        if self._question is None and not self._has_ended:
            try:
                with silent_arithmetic():
                    self._question = self._context.run(self._steps.send, self._told)
            except StopIteration as end:
                self._result, self._has_ended = end.value, True
            except BaseException as error:
                # An opened sum cannot be taken back: the run has failed for good.
                self._error, self._has_ended = error, True
        if self._error is not None:
            raise self._error
        return self._question

    def tell(self, answer: Any) -> None:
        """Answer the question; the computation goes on when the next one is asked for."""
        self._question, self._told = None, answer

    def close(self) -> None:
        """End the computation where it waits."""
        self._steps.close()
        self._question, self._has_ended = None, True

    def result(self) -> T:
        """The result; a ProtocolError before the end."""
        if self.question() is not None:
            raise ProtocolError("training has not ended yet")
        return self._result  # type: ignore[return-value]
