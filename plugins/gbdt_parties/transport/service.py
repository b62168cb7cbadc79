"""Answers of a party's server, and its callers: alignments, and sessions about the rows that a caller names.

Every caller has a folder of its own, and none can name another caller's rows or sessions. The subject of
the sessions is up to the services that are built on this one.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.errors import StoreError
from gbdt_commons.files import make_folder
from gbdt_commons.store import Store, bytes_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment_messages import REQUESTS as ALIGNMENT_REQUESTS
from gbdt_parties.identity.alignment_messages import OpenAlignment
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.identity.intersector import Intersector
from gbdt_parties.identity.record import Record
from gbdt_parties.identity.row_ids import check_ids
from gbdt_parties.memory import MemoryAllowance, Room
from gbdt_parties.messages import Message
from gbdt_parties.quota import TAKEN, CallerLimits, HourlyQuota
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.session import Reply, SessionHandler
from gbdt_parties.transport.refusals import RefusalLog
from gbdt_parties.transport.streams import RowSets

logger = logging.getLogger(__name__)
STORE_FILE = "party.store"
"""In a party's folder: its state about all callers."""

CALLER = bytes_kind("caller")
"""Records of the names of callers."""

MAX_ALIGNMENTS = 64
"""Alignments whose rows are kept for one caller; the one used longest ago is forgotten first."""
MAX_SELECTIONS = 4
"""Selections of rows that are kept in memory for one caller."""

MAX_COPIES = 4
"""Times the table that one selection's row sets may have rows: training rows and evaluation sets."""

ABANDONED = 1800.0
"""Seconds without a request after which sessions need not be kept if others lack room or memory."""


L = TypeVar("L", bound=CallerLimits)


@dataclass
class Caller:
    """One caller: its folder, its part of the store, and handlers on the rows it named.

    `handlers` are by the row sets they are about, the one used last at the end; `used` are sessions that were
    opened. The quota of `questions` counts alignments and other messages that let the caller try something
    out, such as which rows there are, that of `openings` sessions. `memory` is what the caller's rows and
    sessions may hold together, `rooms` that of each handler's rows. The locks `parsing` and `aligning` are
    held while a request is taken apart, and while an alignment is worked on: one at a time.
    """

    directory: Path
    store: Store
    intersector: Intersector
    questions: HourlyQuota
    openings: HourlyQuota
    memory: MemoryAllowance
    handlers: OrderedDict[RowSets, SessionHandler[Any]] = field(default_factory=OrderedDict)
    rooms: dict[RowSets, Room] = field(default_factory=dict)
    used: set[bytes] = field(default_factory=set)
    lock: RLock = field(default_factory=RLock)
    parsing: Lock = field(default_factory=Lock)
    aligning: Lock = field(default_factory=Lock)

    def rows_file(self, digest: bytes) -> Path:
        """Where the ids of a row set are kept."""
        return self.directory / "rows" / f"{digest.hex()}.ids"


def part_of(store: Store, caller: str) -> Store:
    """The records of one caller in a party's store."""
    return store.part(f"for {caller}")


class UnknownRowsError(ProtocolError):
    """A request names rows that are not aligned: a guess."""


class RowService(ABC, Generic[L]):
    """Serves a table's rows to callers that each see only their own sessions; every message is recorded.

    `ids` name the rows, all different and canonical (see `row_ids`); with `has_ids` they are the data's own:
    rows are then known to others only once aligned. Store, callers' folders and the record are kept in the
    `directory`, which one process, and one service in it, uses at a time. `name` is this party's, in the
    record. One alignment may be about `max_rows` ids; 0 where there are none. Raises StoreError if the
    directory is in use, or its content is damaged or of another release.
    """

    role: str
    """Whose state the store has."""
    opening: tuple[type[Message], ...]
    """Messages that open a session."""
    requests: tuple[type[Message], ...]
    """Everything else that handlers answer; other messages belong to another method of training."""
    questions: tuple[type[Message], ...] = ()
    """Messages, besides alignments, that let a caller try something out: they are counted."""
    party: Any = None
    """Let go of with the service, if it is there."""

    def __init__(
        self,
        ids: Sequence[str],
        has_ids: bool,
        directory: str | Path,
        name: str,
        limits: L,
        max_rows: int = 0,
    ) -> None:
        if has_ids:
            check_ids(ids, "ids of the rows")
        self._ids, self.has_ids, self._name = ids, has_ids, name
        self.limits, self._max_rows = limits, max_rows
        self._directory = make_folder(directory)
        self._store = StoreFile(self._directory / STORE_FILE, self.role)
        self._record = Record(self._directory / "record.jsonl")
        self._refusals = RefusalLog(logger)
        self.callers: dict[str, Caller] = {}
        self._lock = Lock()

    def admit(self, caller: str, message: Message) -> None:
        """Raise `ProtocolError` for a request that this party's limits do not allow."""

    def check_room(self, n_kept: int, what: str) -> None:
        """Refuse to keep one more model, or run, of a caller."""
        if n_kept >= self.limits.max_models:
            raise ProtocolError(
                f"this party keeps at most {self.limits.max_models} {what}; its operator can remove some "
                "(veilboost models)"
            )

    @property
    def trust(self) -> tuple[Credentials, AllowList] | None:
        """Credentials that rosters are signed with, and the other signers; None where none are signed."""
        return None

    @property
    def row_bytes(self) -> int:
        """Bytes that a handler takes for each row that it is about; none if all are about the same rows."""
        return 0

    @abstractmethod
    def new_handler(self, caller: Caller, positions: list[NDArray[np.int64]]) -> SessionHandler[Any]:
        """Handler of sessions about rows at each row set's positions; none at all means all rows."""

    def handle(self, caller: Identity, row_sets: RowSets, request: bytes) -> bytes:
        """Answer a request of a caller about some rows, and record both; it is parsed here and only here."""
        try:
            known = self.known_caller(caller)
            with known.parsing:
                envelope = messages.read(request)
        except (InvalidDataError, ProtocolError, StoreError) as error:
            return self._sent(caller, Reply.unread(request, str(error)))
        self._record.add_received(caller.name, self._name, envelope, len(request))
        try:
            reply = self._answer(known, caller, row_sets, envelope)
        except (InvalidDataError, ProtocolError, StoreError) as error:
            reply = Reply.to(envelope, messages.refusal(str(error)))
        if not isinstance(reply.envelope.message, messages.Refusal):
            self.served(caller.name, envelope.message)
        return self._sent(caller, reply)

    def turned_away(self, caller: str, reason: str, count: int) -> None:
        """Record calls that the server refused before it read their requests."""
        self._record.add_turned_away(self._name, caller, reason, count)

    def _sent(self, caller: Identity, reply: Reply) -> bytes:
        if isinstance(reply.envelope.message, messages.Refusal):
            self._refusals.add(caller.name, reply.envelope.message.reason)
        self._record.add(self._name, caller.name, reply.envelope, len(reply.content))
        return reply.content

    def _answer(
        self, caller: Caller, identity: Identity, row_sets: RowSets, envelope: messages.Envelope
    ) -> Reply:
        message = envelope.message
        if not isinstance(message, (*ALIGNMENT_REQUESTS, *self.opening, *self.requests)):
            raise ProtocolError(
                f"{type(message).__name__} is of another method of training than this party's"
            )
        if isinstance(message, ALIGNMENT_REQUESTS) and len(self._ids) == 0:
            raise ProtocolError("rows of this party have no ids: they are not aligned")
        self.admit(identity.name, message)
        self._count(caller, message)
        answer: Message
        if isinstance(message, ALIGNMENT_REQUESTS):
            answer = self._align(caller, identity, envelope)
        elif self.has_ids and not row_sets:
            answer = messages.refusal("rows of this party are named by aligned ids")
        elif (handler := self._handler_for(caller, row_sets, message)) is None:
            answer = messages.Refusal("no such session", messages.NO_SESSION)
        else:
            reply = handler.reply(envelope)
            if isinstance(message, self.opening):
                self._forget_if_refused(caller, row_sets, handler)
            return reply
        return Reply.to(envelope, answer)

    def _count(self, caller: Caller, message: Message) -> None:
        """Refuse a message if there were too many of its kind in the last hour."""
        is_question = isinstance(message, (OpenAlignment, *self.questions))
        if not is_question and not isinstance(message, self.opening):
            return
        with caller.lock:
            if is_question:
                self._count_question(caller)
            if isinstance(message, self.opening) and not caller.openings.take():
                raise ProtocolError(f"more than {self.limits.sessions_per_hour} sessions in an hour")

    def _count_question(self, caller: Caller) -> None:
        if not caller.questions.take():
            most = self.limits.questions_per_hour
            raise ProtocolError(f"more than {most} alignments and predictions in an hour")

    def served(self, caller: str, message: Message) -> None:
        """Log a request that was not refused, if it is of a kind that is counted."""
        if isinstance(message, (OpenAlignment, *self.questions, *self.opening)):
            logger.info("%s: %s", caller, type(message).__name__)

    def close(self) -> None:
        """Let go of the directory, and of the party's: another service, or process, can use them then."""
        with self._lock:
            handlers = [handler for caller in self.callers.values() for handler in caller.handlers.values()]
        for handler in [*handlers, *filter(None, [self.party])]:
            handler.close()
        self._store.close()

    def reset_questions(self) -> None:
        """Forget what callers asked and opened in the last hour."""
        for key in self._store.keys(TAKEN):
            self._store.delete(TAKEN, key)

    def store_of(self, caller: str) -> Store:
        """The records of one caller."""
        return part_of(self._store, caller)

    def folder_of(self, caller: str) -> Path:
        """Where files that belong to one caller are kept."""
        return self._directory / f"for-{quote(caller, safe='')}"

    def known_caller(self, identity: Identity) -> Caller:
        """The state kept about a caller, from its first request on."""
        with self._lock:
            if identity.name not in self.callers:
                memory = MemoryAllowance(self.limits.max_memory)
                directory = self.folder_of(identity.name)
                make_folder(directory / "rows")
                if self._store.get(CALLER, identity.name) is None:
                    self._store.put(CALLER, identity.name, b"")
                asked, opened = f"questions of {identity.name}", f"sessions of {identity.name}"
                caller = self.callers[identity.name] = Caller(
                    directory,
                    self.store_of(identity.name),
                    Intersector(self._ids, self._max_rows, self._name, memory),
                    HourlyQuota(self._store, asked, self.limits.questions_per_hour),
                    HourlyQuota(self._store, opened, self.limits.sessions_per_hour),
                    memory,
                )
                memory.free = partial(self._free_memory, caller)
            return self.callers[identity.name]

    @staticmethod
    def _free_memory(caller: Caller) -> None:
        """End sessions of a caller that seem to be left over from a crash, and forget rows it does not use.

        This thread may hold a handler's lock, and waits for no other one.
        """
        if not caller.lock.acquire(blocking=False):
            return
        try:
            caller.intersector.end_abandoned(ABANDONED)
            for handler in caller.handlers.values():
                handler.end_abandoned(ABANDONED)
            while RowService._forget_idle(caller):
                pass
        finally:
            caller.lock.release()

    def _align(self, caller: Caller, identity: Identity, envelope: messages.Envelope) -> Message:
        # Masking many ids takes minutes, in which the caller's other requests go on.
        with caller.aligning:
            answer, alignment = caller.intersector.answer(
                envelope.session, envelope.message, identity.fingerprint
            )
        if alignment is None:
            return answer
        with caller.lock:
            path = caller.rows_file(alignment.digest)
            self._forget_oldest(path, {caller.rows_file(one) for sets in caller.handlers for one in sets})
            alignment.save(path)
        logger.info("%d rows aligned", len(alignment.ids))
        return answer

    @staticmethod
    def _forget_oldest(newest: Path, held: set[Path]) -> None:
        """Keep the alignments that are in use, those used last, and room for one more.

        A training run needs its rows again after this process was restarted: they count as used now.
        """
        for path in held:
            with suppress(FileNotFoundError):
                os.utime(path)
        others = set(newest.parent.glob("*.ids")) - held - {newest}
        used = {path: path.stat().st_mtime_ns for path in others}
        for path in sorted(used, key=used.__getitem__)[: max(0, len(used) + 1 - MAX_ALIGNMENTS)]:
            path.unlink(missing_ok=True)

    def _handler_for(self, caller: Caller, row_sets: RowSets, message: Message) -> SessionHandler[Any] | None:
        """The handler of the rows that a message is about; a wrong guess of rows is counted as a question."""
        with caller.lock:
            try:
                return self._handler(caller, row_sets, isinstance(message, self.opening))
            except UnknownRowsError:
                if not isinstance(message, self.questions):
                    self._count_question(caller)
                raise

    def _handler(self, caller: Caller, row_sets: RowSets, opens: bool) -> SessionHandler[Any] | None:
        """The handler of these rows; None if none exists and the request opens no session."""
        with caller.lock:
            handlers = caller.handlers
            if row_sets not in handlers:
                if not opens:
                    return None
                self._make_room(caller)
                positions = self._positions(caller, row_sets)
                size = self.row_bytes * sum(map(len, positions))
                room = caller.memory.reserve(size, "the rows of this selection")
                handlers[row_sets] = self.new_handler(caller, positions)
                caller.rooms[row_sets] = room
            handlers.move_to_end(row_sets)
            return handlers[row_sets]

    @staticmethod
    def _forget_if_refused(caller: Caller, row_sets: RowSets, handler: SessionHandler[Any]) -> None:
        """Forget rows on which no session is open: the opening of the last one was refused."""
        with caller.lock:
            if caller.handlers.get(row_sets) is handler and not handler.has_sessions:
                RowService._forget(caller, row_sets)

    @staticmethod
    def _make_room(caller: Caller) -> None:
        """Forget the rows that were used least recently, but none with a session under way."""
        if len(caller.handlers) >= MAX_SELECTIONS and not RowService._forget_idle(caller):
            raise ProtocolError(f"sessions on {MAX_SELECTIONS} selections of rows are open; end one first")

    @staticmethod
    def _forget_idle(caller: Caller) -> bool:
        """Forget the rows that were used least recently, if there are any without a session under way."""
        handlers = caller.handlers
        idle = next((rows for rows, handler in handlers.items() if handler.is_idle(ABANDONED)), None)
        if idle is None:
            return False
        RowService._forget(caller, idle)
        return True

    @staticmethod
    def _forget(caller: Caller, row_sets: RowSets) -> None:
        """Forget some rows with their handler, whose files the next one may need."""
        del caller.rooms[row_sets]
        caller.handlers.pop(row_sets).close()

    def _positions(self, caller: Caller, row_sets: RowSets) -> list[NDArray[np.int64]]:
        """Positions of the rows that a request is about, and of those of its evaluation sets."""
        if len(set(row_sets)) != len(row_sets):
            raise ProtocolError("the same rows are named twice")
        positions, n_rows = [], 0
        for digest in row_sets:
            positions.append(self.aligned(caller, digest))
            n_rows += len(positions[-1])
            if n_rows > MAX_COPIES * len(self._ids):
                raise ProtocolError(f"row sets have more than {MAX_COPIES} times the rows of this party")
        return positions

    def aligned(self, caller: Caller, digest: bytes) -> NDArray[np.int64]:
        """Positions of rows that a caller has aligned."""
        path = caller.rows_file(digest)
        if not path.exists():
            raise UnknownRowsError("no such rows; align them first")
        os.utime(path)
        alignment = Alignment.load(path)
        if alignment.digest != digest:
            raise ProtocolError("this party's aligned rows are damaged; align them again")
        return alignment.positions(self._ids)
