"""Reaction of the asking side to a lost party: it gives up other questions, waits, and reconnects."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait
from typing import Any, TypeVar

from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.traffic import Traffic

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
SECONDS_BETWEEN_TRIES = 0.5
"""Between the first two tries to reach a party that is unavailable; each further pause is twice as long."""
MAX_SECONDS_BETWEEN_TRIES = 20.0
"""Each try opens sessions with the other parties, too, which take only so many per hour."""


class Fanout:
    """One question to every party at once; when one is lost, the other questions are given up."""

    def __init__(self, pool: Executor, parties: Sequence[Any]) -> None:
        self._pool = pool
        self._interrupts = [party.interrupt for party in parties if hasattr(party, "interrupt")]

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Results in the order of the items; the first loss of a party is raised."""
        lost: list[PartyUnavailableError] = []

        def attempt(item: T) -> R:
            try:
                return work(item)
            except PartyUnavailableError as error:
                lost.append(error)
                for interrupt in self._interrupts:
                    interrupt()
                raise

        # The first runs here: the active party's own search, or the only question.
        others = [self._pool.submit(attempt, item) for item in items[1:]]
        try:
            results = [attempt(item) for item in items[:1]]
            return results + [future.result() for future in others]
        except PartyUnavailableError:
            # Later ones are the questions given up.
            raise lost[0] from None
        finally:
            wait(others)


class Wait:
    """One wait for lost parties: ever longer pauses between tries, until `patience`, in seconds, is
    exhausted.

    The time in which parties answer, as `traffic` has it, does not count. A first loss within `at_once`
    seconds is tried again without a pause, whatever the patience.
    """

    def __init__(self, patience: float, traffic: Traffic, at_once: float = 0.0) -> None:
        self._patience, self._traffic, self._at_once = patience, traffic, at_once
        self._give_up: float | None = None
        self._pause = SECONDS_BETWEEN_TRIES
        self._tried = time.monotonic()

    def pause(self, error: PartyUnavailableError) -> None:
        """Sleep before the next try; raises the error of the last one once patience is exhausted."""
        now = time.monotonic()
        if now - self._tried < self._at_once:
            self._at_once = 0.0
            return
        if self._give_up is None:
            self._give_up = now + self._patience
            logger.warning("%s", error)
        else:
            # A party that is lost again was there up to its last answer; pauses go on growing, so
            # that one that is lost at every try is given up all the same.
            self._give_up += max(0.0, self._traffic.last_answer - self._tried)
        if now >= self._give_up:
            raise error
        time.sleep(min(self._pause, self._give_up - now))
        self._pause = min(2 * self._pause, MAX_SECONDS_BETWEEN_TRIES)
        self._tried = time.monotonic()


class Reconnector:
    """Repeatable work that is done again, in new sessions, after a party was lost.

    Within one piece of work, it waits for `patience` seconds in all (`Wait`). `reopen` opens new sessions
    with all parties, with `must_reopen` before the first piece of work, too.
    """

    def __init__(
        self, patience: float, reopen: Callable[[], None], traffic: Traffic, must_reopen: bool = False
    ) -> None:
        self._patience, self._reopen, self._traffic = patience, reopen, traffic
        self._must_reopen = must_reopen

    def __call__(self, work: Callable[[], R]) -> R:
        """Result of the work; PartyUnavailableError if the party is not back within `patience` seconds."""
        wait = Wait(self._patience, self._traffic)
        while True:
            try:
                if self._must_reopen:
                    self._reopen()
                    self._must_reopen = False
                return work()
            except PartyUnavailableError as error:
                self._must_reopen = True
                wait.pause(error)
