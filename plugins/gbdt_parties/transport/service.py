"""What a party's server answers, and to whom: alignments, and sessions about the rows that a caller names.

Every caller has a folder of its own, and nobody can name another caller's rows or sessions.  What the
sessions are about is up to the services that are built on this one.
"""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from gbdt_parties import messages
from gbdt_parties._files import make_folder, write_atomically
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.identity.alignment import Alignment, AlignRows, IntersectIds, Intersector, RowsAligned
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.identity.record import Record
from gbdt_parties.messages import Message
from gbdt_parties.session import SessionHandler
from gbdt_parties.transport.refusals import RefusalLog
from gbdt_parties.transport.streams import RowSets

logger = logging.getLogger(__name__)
HOUR = 3600.0
MAX_SELECTIONS = 4
"""Selections of rows that are kept in memory for one caller."""

MAX_COPIES = 4
"""Times the table that one selection's row sets may have rows: training rows and evaluation sets."""

ABANDONED = 1800.0
"""Seconds without a request after which sessions need not be kept for other rows' sake."""


@dataclass
class Caller:
    """One caller: its folder, and handlers on the rows it named.

    Attributes
    ----------
    directory : Path
    intersector : Intersector
    handlers : OrderedDict
        By the row sets they are about, the one used last at the end.
    used : set of bytes
        Sessions that were opened.
    lock : Lock
    """

    directory: Path
    intersector: Intersector
    handlers: OrderedDict[RowSets, SessionHandler[Any]] = field(default_factory=OrderedDict)
    used: set[bytes] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def may_ask(self, max_per_hour: int) -> bool:
        """Count a question; False if there were too many in the last hour, also before a restart."""
        path, now = self.directory / "questions.json", time.time()
        asked = json.loads(path.read_text()) if path.exists() else []
        asked = [when for when in asked if now - HOUR < when <= now]
        if len(asked) >= max_per_hour:
            return False
        write_atomically(path, json.dumps([*asked, now]))
        return True

    def rows_file(self, digest: bytes) -> Path:
        """Where the ids of a row set are kept."""
        return self.directory / "rows" / f"{digest.hex()}.ids"


class RowService(ABC):
    """Serves a table's rows to callers that each see only their own sessions; every message is recorded.

    Parameters
    ----------
    ids : sequence of str
        A name for each row, all different.
    has_ids : bool
        Whether the names are the data's own: rows are then known to others only once aligned.
    directory : path
        Where callers' folders and the record are kept.
    name : str
        This party's, in the record.
    max_rows : int
        Ids that one alignment may be about.
    questions_per_hour : int
        Alignments and `questions` of one caller: many of them are a way to probe.
    """

    opening: tuple[type[Message], ...]
    """Messages that open a session."""
    questions: tuple[type[Message], ...]
    """Messages, besides alignments, that let a caller try something out: they are counted."""

    def __init__(
        self,
        ids: Sequence[str],
        has_ids: bool,
        directory: str | Path,
        name: str,
        max_rows: int,
        questions_per_hour: int,
    ) -> None:
        self._ids, self._has_ids, self._name = ids, has_ids, name
        self._max_rows, self._questions_per_hour = max_rows, questions_per_hour
        self._directory = make_folder(directory)
        self._record = Record(self._directory / "record.jsonl")
        self._refusals = RefusalLog(logger)
        self._callers: dict[str, Caller] = {}
        self._lock = Lock()

    @abstractmethod
    def admit(self, caller: str, message: Message) -> None:
        """Raise `ProtocolError` for a request that this party's limits do not allow."""

    @abstractmethod
    def new_handler(self, caller: Caller, positions: list[NDArray[np.int64]]) -> SessionHandler[Any]:
        """Make the handler of sessions about some rows.

        Parameters
        ----------
        caller : Caller
        positions : list of ndarray of int64
            Positions of the rows of each row set; none at all means all rows in their own order.
        """

    def handle(self, caller: Identity, row_sets: RowSets, request: bytes) -> bytes:
        """Answer a request of a caller about some rows, and record both."""
        try:
            envelope = messages.read(request)
        except ProtocolError as error:
            refusal = messages.Envelope(bytes(16), 0, messages.Refusal(str(error), messages.OTHER_REASON))
            return self._sent(caller, refusal, messages.write(bytes(16), 0, refusal.message))
        self._record.add_received(caller.name, self._name, envelope, len(request))
        try:
            answer = self._answer(caller, row_sets, envelope, request)
        except (InvalidDataError, ProtocolError) as error:
            refused = messages.Refusal(str(error), messages.OTHER_REASON)
            answer = messages.write(envelope.session, envelope.sequence, refused)
        return self._sent(caller, messages.read(answer), answer)

    def _sent(self, caller: Identity, envelope: messages.Envelope, answer: bytes) -> bytes:
        if isinstance(envelope.message, messages.Refusal):
            self._refusals.add(caller.name, envelope.message.reason)
        self._record.add(self._name, caller.name, envelope, len(answer))
        return answer

    def _answer(
        self, identity: Identity, row_sets: RowSets, envelope: messages.Envelope, request: bytes
    ) -> bytes:
        caller, message = self._caller(identity), envelope.message
        self.admit(identity.name, message)
        self._count_question(identity, caller, message)
        if isinstance(message, (IntersectIds, AlignRows)):
            answer = self._align(caller, message)
        elif self._has_ids and not row_sets:
            answer = messages.Refusal("rows of this party are named by aligned ids", messages.OTHER_REASON)
        elif (handler := self._handler(caller, row_sets, isinstance(message, self.opening))) is None:
            answer = messages.Refusal("no such session", messages.NO_SESSION)
        else:
            return handler.handle(request)
        return messages.write(envelope.session, envelope.sequence, answer)

    def _count_question(self, identity: Identity, caller: Caller, message: Message) -> None:
        if not isinstance(message, (IntersectIds, *self.questions)):
            return
        with caller.lock:
            if not caller.may_ask(self._questions_per_hour):
                raise ProtocolError(
                    f"more than {self._questions_per_hour} alignments and predictions in an hour"
                )
        logger.info("%s: %s", identity.name, type(message).__name__)

    def _caller(self, identity: Identity) -> Caller:
        with self._lock:
            if identity.name not in self._callers:
                directory = self._directory / f"for-{quote(identity.name, safe='')}"
                make_folder(directory / "rows")
                self._callers[identity.name] = Caller(directory, Intersector(self._ids, self._max_rows))
            return self._callers[identity.name]

    def _align(self, caller: Caller, message: IntersectIds | AlignRows) -> Message:
        with caller.lock:
            if isinstance(message, IntersectIds):
                return caller.intersector.blind(message)
            alignment = caller.intersector.accept(message)
            alignment.save(caller.rows_file(alignment.digest))
        logger.info("%d rows aligned", len(alignment.ids))
        return RowsAligned(alignment.digest)

    def _handler(self, caller: Caller, row_sets: RowSets, opens: bool) -> SessionHandler[Any] | None:
        """The handler of these rows; None if there is none and the request does not open a session."""
        with caller.lock:
            handlers = caller.handlers
            if row_sets not in handlers:
                if not opens:
                    return None
                self._make_room(handlers)
                handlers[row_sets] = self.new_handler(caller, self._positions(caller, row_sets))
            handlers.move_to_end(row_sets)
            return handlers[row_sets]

    @staticmethod
    def _make_room(handlers: OrderedDict[RowSets, SessionHandler[Any]]) -> None:
        """Forget the rows that were used least recently, but none with a session under way."""
        if len(handlers) < MAX_SELECTIONS:
            return
        idle = next((rows for rows, handler in handlers.items() if handler.is_idle(ABANDONED)), None)
        if idle is None:
            raise ProtocolError(f"sessions on {MAX_SELECTIONS} selections of rows are open; end one first")
        del handlers[idle]

    def _positions(self, caller: Caller, row_sets: RowSets) -> list[NDArray[np.int64]]:
        """Positions of the rows that a request is about, and of those of its evaluation sets."""
        if len(set(row_sets)) != len(row_sets):
            raise ProtocolError("the same rows are named twice")
        positions = [self._aligned(caller, digest) for digest in row_sets]
        if sum(map(len, positions)) > MAX_COPIES * len(self._ids):
            raise ProtocolError(f"row sets have more than {MAX_COPIES} times the rows of this party")
        return positions

    def _aligned(self, caller: Caller, digest: bytes) -> NDArray[np.int64]:
        path = caller.rows_file(digest)
        if not path.exists():
            raise ProtocolError("no such rows; align them first")
        alignment = Alignment.load(path)
        if alignment.digest != digest:
            raise ProtocolError("this party's aligned rows are damaged; align them again")
        return alignment.positions(self._ids)
