"""How often in an hour: a count on disk that neither a restart nor a clock set back makes smaller."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from gbdt_commons.files import write_atomically
from gbdt_parties.errors import InvalidDataError

logger = logging.getLogger(__name__)

HOUR = 3600.0

MAX_TIME = 1e11
"""Seconds since 1970 at most, 3,000 years: seconds later are no other number from about 1e16 on."""


class HourlyQuota:
    """Counts occurrences of the last hour in a file.

    Time is the later of the wall clock and the last entry when the file was read, and from then on at least
    as much later as this process has run.  So a wall clock that is set back forgets nothing, and entries that
    were made while it was ahead expire after an hour of running time.

    Parameters
    ----------
    path : Path
        Of the file; an operator who removes it resets the count.
    max_per_hour : int
    wall, monotonic : callable
        Clocks, in seconds.

    Raises
    ------
    InvalidDataError
        If the file is damaged; it stays as it is.
    OSError
        If it cannot be read.
    """

    def __init__(
        self,
        path: Path,
        max_per_hour: int,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._max_per_hour = path, max_per_hour
        self._wall, self._monotonic = wall, monotonic
        self._entries = _read(path) if path.exists() else []
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
        write_atomically(self._path, json.dumps([*recent, now]))
        self._entries = [*recent, now]
        return True


def _read(path: Path) -> list[float]:
    """The times in a file."""
    try:
        times = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(times, list) or not all(map(_is_time, times)):
            raise ValueError("not a list of times")
    except (ValueError, RecursionError):
        # The error goes to the caller, to whom the party's folders are of no concern.
        logger.error("%s does not hold the times of a quota", path)
        raise InvalidDataError(
            "the party's count of the last hour's requests is damaged; its operator can remove the file, "
            "which its log names"
        ) from None
    return [float(when) for when in times]


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= MAX_TIME  # type: ignore[operator]
