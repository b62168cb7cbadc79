"""Changes of certificate and allow-lists that a running server takes up, and the days that are left."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from gbdt_commons.errors import VeilboostError
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.transport.server import Server
from veilboost.plans.plan import read_served
from veilboost.plans.sections import Served

logger = logging.getLogger(__name__)
POLL = 1.0
"""Seconds between two looks at the files."""

DAY = 86_400.0
LISTS = ("allow", "party")
"""Entries of a file of settings that count from when it is written; others from the next start."""


class Changes:
    """Changes of the files of a running server.

    `trust` has credentials and allow-list of the rosters that its party signs; `served` are the settings as
    they were read from `file`; the lists of a server with options, which has none, stay as they are.
    """

    def __init__(
        self, server: Server, trust: tuple[Credentials, AllowList] | None, served: Served, file: str | None
    ) -> None:
        self._server, self._trust, self._served = server, trust, served
        self._file = None if file is None else Path(file)
        # None was seen yet: the file may have changed since, while the party's rows were read.
        self._seen: bytes | None = None
        self._said: set[str] = set()
        self._warned_at: float | None = None

    def look(self) -> None:
        """Take up what has changed, and log it; a fault is logged once, and nothing of it is taken up."""
        faults = set()
        for changed in (self._certificate, self._lists):
            try:
                for line in changed():
                    logger.info("%s", line)
            except (VeilboostError, OSError) as error:
                faults.add(str(error))
        for fault in faults - self._said:
            logger.warning("not taken up: %s", fault)
        self._said = faults
        tls, now = self._server.tls, time.monotonic()
        if tls is not None and (self._warned_at is None or now - self._warned_at > DAY):
            self._warned_at = now
            if ending := tls.ending():
                logger.warning("the certificate %s", ending)

    def _certificate(self) -> Iterator[str]:
        before = self._server.tls
        if before is None or (tls := before.renewed()) is before:
            return
        if self._trust is not None:
            own, others = self._trust
            own.take_up(tls.certificate)
            others.take_up(others.entries, tls.authority)
        self._server.renew(tls)
        self._warned_at = None
        yield f"took up the renewed certificate in {tls.folder}, {tls.days_left()} days left"

    def _lists(self) -> Iterator[str]:
        if self._file is None or (content := self._file.read_bytes()) == self._seen:
            return
        served = read_served(self._file)[1]
        if self._seen is None and vars(served) == vars(self._served):
            self._seen = content
            return
        if self._trust is not None:
            self._trust[1].take_up(getattr(served, "party", ()), self._trust[1].authority)
        self._server.allow(served.allow)
        self._seen = content
        yield f"took up {self._file}; allowed: {', '.join(served.allow) or 'none'}"
        if {**vars(served), **_lists_of(self._served)} != vars(self._served):
            yield f"other entries of {self._file} have changed; they count from the next start"


def _lists_of(served: Served) -> dict[str, list[str]]:
    return {name: getattr(served, name) for name in LISTS if hasattr(served, name)}
