"""How often in an hour: a kept count that neither a restart nor a clock set back makes smaller."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from gbdt_commons.store import Kind, Store

HOUR = 3600.0

MAX_TIME = 1e11
"""Seconds since 1970 at most, 3,000 years: seconds later are no other number from about 1e16 on."""


def _times(content: bytes) -> list[float]:
    times = json.loads(content)
    if not isinstance(times, list) or not all(map(_is_time, times)):
        raise ValueError("not a list of times")
    return [float(when) for when in times]


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= MAX_TIME  # type: ignore[operator]


TAKEN = Kind[list[float]]("times of the last hour", lambda times: json.dumps(times).encode(), _times)
"""Records of times; an operator who removes one resets the count."""


@dataclass(frozen=True)
class CallerLimits:
    """Limits that a served party sets on each of its callers; services add their own.

    `questions_per_hour` are alignments, other questions, and openings of sessions on rows that are not
    aligned: many of them are a way to probe. `sessions_per_hour` are training runs and predictions; a lost
    connection takes another one. Rows and sessions may hold `max_memory` bytes together. `max_models` models,
    or runs, are kept; an operator removes those not needed.
    """

    questions_per_hour: int = 120
    sessions_per_hour: int = 240
    max_memory: int = 8 << 30
    max_models: int = 1000


class HourlyQuota:
    """Counts occurrences of the last hour in a store, by the `key` of the subject.

    Time is the later of the wall clock and the last entry when the count was read, and from then on at least
    as much later as this process has run. So a wall clock that is set back forgets nothing, and entries that
    were made while it was ahead expire after an hour of running time. Raises StoreError if the record is
    damaged; it stays as it is.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        max_per_hour: int,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._key, self._max_per_hour = store, key, max_per_hour
        self._wall, self._monotonic = wall, monotonic
        self._entries = store.get(TAKEN, key) or []
        self._base = max([wall(), *self._entries])
        self._begun = monotonic()

    def take(self) -> bool:
        """Count one occurrence more; False, and nothing counted, if there were too many in the last hour."""
        now = max(self._wall(), self._base + self._monotonic() - self._begun)
        # A jump ahead stays: later readings are never before it.
        self._base, self._begun = now, self._monotonic()
        recent = [when for when in self._entries if now - HOUR < when]
        if len(recent) >= self._max_per_hour:
            return False
        self._store.put(TAKEN, self._key, [*recent, now])
        self._entries = [*recent, now]
        return True
