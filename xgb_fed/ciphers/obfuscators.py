"""Encryptions of zero, each used once, some of them made ahead."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.key_stream import this_process
from xgb_fed.ciphers.base import KeepsSecrets

AT_ONCE = 64
"""Obfuscators that `ObfuscatorPool.prepare_some` makes at most: several for each thread."""


class ObfuscatorPool(KeepsSecrets):
    """A bounded store of obfuscators made ahead of time; threads may share it.

    ``make(count)`` returns that many fresh obfuscators, one per row; at most `capacity` rows are kept.  A
    forked child drops what its parent prepared: an obfuscator used twice reveals the difference of two
    plaintexts.
    """

    def __init__(self, make: Callable[[int], NDArray[np.uint64]], capacity: int) -> None:
        self._make = make
        self.capacity = capacity
        self._keep(None)
        self._lock = Lock()

    def __repr__(self) -> str:
        """Counts only."""
        return f"ObfuscatorPool({len(self)} of {self.capacity} ready)"

    def __len__(self) -> int:
        """How many are ready."""
        ready = self._prepared
        return 0 if ready is None else len(ready)

    def _keep(self, rows: NDArray[np.uint64] | None) -> None:
        self._ready = (this_process(), rows)

    @property
    def _prepared(self) -> NDArray[np.uint64] | None:
        """The rows that this process, not its parent, has ready."""
        process, rows = self._ready
        return rows if process == this_process() else None

    def prepare(self, count: int) -> int:
        """Make up to `count` ahead, in idle time, and return how many are ready: `capacity` at most."""
        wanted = min(count, self.capacity - len(self))
        if wanted > 0:
            made = self._make(wanted)
            with self._lock:
                ready = self._prepared
                kept = made if ready is None else np.concatenate([ready, made])
                self._keep(kept[: self.capacity])
        return len(self)

    def prepare_some(self, wanted: int) -> bool:
        """Make a few ahead, in a fraction of a second; False once `wanted` or `capacity` are ready."""
        missing = min(wanted, self.capacity) - len(self)
        if missing > 0:
            self.prepare(min(missing, AT_ONCE))
        return missing > AT_ONCE

    def take(self, count: int) -> NDArray[np.uint64]:
        """Return obfuscators that were never used before: ready ones first, then fresh ones."""
        with self._lock:
            used = min(count, len(self))
            ready = self._prepared
            if ready is not None:
                self._keep(ready[used:].copy())
        if ready is None or used == 0:
            return self._make(count)
        if used == count:
            return ready[:count]
        return np.concatenate([ready[:used], self._make(count - used)])
