"""How much memory a caller may make this party hold: reserved before anything is allocated."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable
from threading import Lock

from gbdt_parties.errors import ProtocolError

SPARE = 0.25
"""Fraction of all bytes within which there is room for what can be done without."""


class Room:
    """Reserved bytes, which are given back when the last reference to this object is gone."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes


class MemoryAllowance:
    """Bytes that one caller's sessions may hold together; `free` gives back those not needed any more."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.free: Callable[[], None] = lambda: None
        self._lock = Lock()
        self._reserved = 0
        self._returned: deque[int] = deque()

    def __reduce__(self) -> tuple[type[MemoryAllowance], tuple[int]]:
        """A copy has nothing reserved."""
        return MemoryAllowance, (self.max_bytes,)

    @property
    def reserved(self) -> int:
        """Bytes reserved at present."""
        with self._lock:
            while self._returned:
                self._reserved -= self._returned.popleft()
            return self._reserved

    def reserve(self, n_bytes: int, what: str) -> Room:
        """Reserve bytes while the result is referred to; `ProtocolError` if sessions would hold too much."""
        if self.reserved + n_bytes > self.max_bytes:
            self.free()
            # Objects that ended sessions refer to in circles.
            gc.collect()
        in_use = self.reserved
        with self._lock:
            if self._reserved + n_bytes > self.max_bytes:
                raise ProtocolError(
                    f"{what} would take {n_bytes >> 20} MiB; this party holds at most "
                    f"{self.max_bytes >> 20} MiB for one active party; {in_use >> 20} MiB are in use"
                )
            self._reserved += n_bytes
        return self._room(n_bytes)

    def reserve_spare(self, n_bytes: int) -> Room | None:
        """Reserve bytes that can be done without; None if more than `SPARE` of all would be in use then."""
        in_use = self.reserved
        with self._lock:
            if max(in_use, self._reserved) + n_bytes > SPARE * self.max_bytes:
                return None
            self._reserved += n_bytes
        return self._room(n_bytes)

    def _room(self, n_bytes: int) -> Room:
        room = Room(n_bytes)
        # A finalizer may run in a thread that holds the lock, so it only leaves a note.
        weakref.finalize(room, self._returned.append, n_bytes)
        return room
