"""Work that is done while a party waits for the other side's next message, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol


class Prepares(Protocol):
    """A key that can make randomness ahead."""

    def prepare(self, wanted: int) -> bool:
        """Make some of it; False once there is enough for `wanted` rows."""


class Meanwhile:
    """Does what it is given, in order, and prepares a key's randomness in the time that is left.

    Parameters
    ----------
    key : Prepares
    """

    def __init__(self, key: Prepares) -> None:
        self._key = key
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="xgb_fed_meanwhile")
        self._given: list[Future[None]] = []
        self._wanted = 0

    def give(self, work: Callable[[], None]) -> None:
        """Have something done whose end `finish` waits for."""
        self._given.append(self._worker.submit(work))

    def finish(self) -> None:
        """Wait until all that was given is done, and stop preparing.

        Raises
        ------
        Exception
            Exception that one of them raised.
        """
        self._rest()
        given, self._given = self._given, []
        for one in given:
            one.result()

    def drop(self) -> None:
        """Give up what was given and has not begun, wait for what has, and stop preparing."""
        for one in self._given:
            one.cancel()
        self._given = []
        self._rest()

    def prepare(self, wanted: int) -> None:
        """Prepare a key's randomness for so many rows from now on, up to the next `finish` or `drop`."""
        self._rest()
        self._wanted = wanted
        if wanted:
            self._worker.submit(self._prepare_some)

    def _prepare_some(self) -> None:
        """Prepare a little and queue up again, behind what was given in between."""
        if self._wanted and self._key.prepare(self._wanted):
            self._worker.submit(self._prepare_some)

    def _rest(self) -> None:
        """Prepare nothing any more; what is under way ends first."""
        self._wanted = 0
        self._worker.submit(lambda: None).result()

    def close(self) -> None:
        """End, after what is under way."""
        self._wanted = 0
        self._worker.shutdown(cancel_futures=True)
