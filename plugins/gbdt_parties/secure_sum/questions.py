"""Computations that stop at every question until the sum over all parties is there.

Every party of a run carries out the same computation on rows of its own.  All of them see the same sums, so
that each works out the next question, and the model at the end, for itself.  A computation is a generator of
questions, or, where a host library calls back, a thread.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar

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


@dataclass(frozen=True)
class _Ended(Generic[T]):
    """Outcome of a computation: its result, or an error."""

    result: T
    error: BaseException | None = None


class Computation(ABC, Generic[Q, T]):
    """A computation that asks questions one after the other and ends in a result."""

    _stop: Q | _Ended[T] | None = None

    @abstractmethod
    def _next(self) -> Q | _Ended[T]:
        """Wait for the next question, or the end."""

    @abstractmethod
    def _answer(self, answer: Any) -> None:
        """Let the computation go on."""

    def question(self) -> Q | None:
        """The question to be answered next, None at the end; raises what the computation raised."""
        if self._stop is None:
            self._stop = self._next()
        if not isinstance(self._stop, _Ended):
            return self._stop
        if self._stop.error is not None:
            raise self._stop.error
        return None

    def tell(self, answer: Any) -> None:
        """Answer the question; the computation goes on."""
        self._stop = None
        self._answer(answer)

    def result(self) -> T:
        """The result; a ProtocolError before the end."""
        if self.question() is not None or not isinstance(self._stop, _Ended):
            raise ProtocolError("training has not ended yet")
        return self._stop.result


class GeneratorComputation(Computation[Q, T]):
    """A generator that yields questions, is sent answers, and returns the result."""

    def __init__(self, steps: Generator[Q, Any, T]) -> None:
        self._steps, self._told = steps, None

    def _next(self) -> Q | _Ended[T]:
        try:
            return self._steps.send(self._told)
        except StopIteration as end:
            return _Ended(end.value)
        except BaseException as error:
            # An opened sum cannot be taken back: the run has failed for good.  A generator that was
            # interrupted would seem to have ended.
            return _Ended(None, error)  # type: ignore[arg-type]

    def _answer(self, answer: Any) -> None:
        # It goes on when the next question is asked for.
        self._told = answer


class _StoppedError(Exception):
    """Ends the thread of a computation that no caller waits for any more."""


class ThreadComputation(Computation[Q, T]):
    """A function in a thread of its own, which runs only while a caller waits for its next question.

    Parameters
    ----------
    function : callable
        Carries out the computation; is given the function that answers its questions.
    """

    def __init__(self, function: Callable[[Callable[[Q], Any]], T]) -> None:
        self._asked: SimpleQueue[Q | _Ended[T]] = SimpleQueue()
        self._told: SimpleQueue[Any] = SimpleQueue()
        # The context, so that an observer of releases observes those of this run; not this object, so that
        # the thread ends with it.
        Thread(target=copy_context().run, args=(_run, function, self._asked, self._told), daemon=True).start()
        weakref.finalize(self, self._told.put, None)

    def _next(self) -> Q | _Ended[T]:
        return self._asked.get()

    def _answer(self, answer: Any) -> None:
        self._told.put(answer)


def _run(
    function: Callable[[Callable[[Q], Any]], T],
    asked: SimpleQueue[Q | _Ended[T]],
    told: SimpleQueue[Any],
) -> None:
    def ask(question: Q) -> Any:
        asked.put(question)
        answer = told.get()
        if answer is None:
            raise _StoppedError
        return answer

    try:
        asked.put(_Ended(function(ask)))
    except _StoppedError:
        pass
    except BaseException as error:
        asked.put(_Ended(None, error))  # type: ignore[arg-type]
