"""Locks that an object carries with it, and blocks that no interrupt leaves half entered."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from threading import RLock
from types import TracebackType
from typing import Any, ParamSpec

P = ParamSpec("P")


class OwnLock:
    """A reentrant lock of one object in one process.

    A deep copy of the object, and what a pickle of it becomes, get a free lock of their own.  So does a
    forked child, where the thread that held the lock does not exist.
    """

    def __init__(self) -> None:
        self._of_process = {os.getpid(): RLock()}

    def held(self) -> AbstractContextManager[Any]:
        """Hold the lock; one thread at a time does, which may do so again."""
        # `setdefault` is one step: two threads of a child agree on the lock.  No interrupt comes between the
        # lock's own entrance and the block, which there would be no leaving.
        return self._of_process.setdefault(os.getpid(), RLock())

    def __reduce__(self) -> tuple[type[OwnLock], tuple[()]]:
        return OwnLock, ()


class _Block(AbstractContextManager[None]):
    """A block whose beginning and end are those of a generator, which an interrupt of either closes.

    `contextmanager` leaves the generator as it is until the traceback of the interrupt is let go of: a
    handler of the interrupt finds locks held, and a transaction under way that nothing ends.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __enter__(self) -> None:
        try:
            self._manager.__enter__()
        except BaseException:
            self._manager.gen.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            ended: bool | None = self._manager.__exit__(kind, error, traceback)
            return ended
        except BaseException:
            self._manager.gen.close()
            raise


def block(function: Callable[P, Generator[None, None, None]]) -> Callable[P, AbstractContextManager[None]]:
    """Make blocks of a generator function, as `contextmanager` does, which an interrupt ends.

    Parameters
    ----------
    function : callable
        Yields once; what follows the yield ends the block, also if `GeneratorExit` is raised there.
    """
    manager = contextmanager(function)

    @wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[None]:
        return _Block(manager(*args, **kwargs))

    return made
