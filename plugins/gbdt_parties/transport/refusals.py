"""A log of refusals that stays short however often somebody is refused."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from threading import Lock

PERIOD = 60.0
"""Seconds during which a repeated refusal is counted and not logged again."""
MAX_KEYS = 64
"""Different refusals that are logged one by one within a period; further ones are only counted."""


class RefusalLog:
    """Logs the first refusal of a caller for a reason, and counts those of the next `PERIOD` seconds.

    The counts are logged when the period is over, with the next refusal or when the log is closed: at most
    ``2·MAX_KEYS + 1`` lines per period, for any callers. The `clock` never goes back; `record` is called with
    caller, reason and count whenever a line is logged.
    """

    def __init__(
        self,
        logger: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
        record: Callable[[str, str, int], None] = lambda who, reason, count: None,
    ) -> None:
        self._logger, self._clock, self._record = logger, clock, record
        self._lock = Lock()
        self._since = clock()
        self.repeated: Counter[tuple[str, str]] = Counter()
        self._unnamed = 0

    def add(self, who: str, reason: str) -> None:
        """Log a refusal, or count it."""
        with self._lock:
            if self._clock() - self._since > PERIOD:
                self._summarise()
            if (who, reason) in self.repeated:
                self.repeated[who, reason] += 1
            elif len(self.repeated) < MAX_KEYS:
                self.repeated[who, reason] = 0
                self._logger.warning("refused %s: %s", who, reason)
                self._record(who, reason, 1)
            else:
                self._unnamed += 1

    def close(self) -> None:
        """Log what was only counted so far."""
        with self._lock:
            self._summarise()

    def _summarise(self) -> None:
        for (who, reason), count in self.repeated.items():
            if count:
                self._logger.warning(
                    "refused %s %d more times in the last %.0f s: %s", who, count, PERIOD, reason
                )
                self._record(who, reason, count)
        if self._unnamed:
            self._logger.warning("%d more refusals in the last %.0f s", self._unnamed, PERIOD)
            self._record("others", "for other reasons", self._unnamed)
        self.repeated.clear()
        self._unnamed = 0
        self._since = self._clock()
