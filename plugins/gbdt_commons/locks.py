"""A lock that an object carries with it, whatever copies, pickles or forks the object."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock


class OwnLock:
    """A reentrant lock of one object in one process.

    A deep copy of the object, and what a pickle of it becomes, get a free lock of their own.  So does a
    forked child, where the thread that held the lock does not exist.
    """

    def __init__(self) -> None:
        self._of_process = {os.getpid(): RLock()}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; one thread at a time does, which may do so again."""
        # `setdefault` is one step: two threads of a child agree on the lock.
        with self._of_process.setdefault(os.getpid(), RLock()):
            yield

    def __reduce__(self) -> tuple[type[OwnLock], tuple[()]]:
        return OwnLock, ()
