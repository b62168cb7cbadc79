"""What a passive party's server answers, and to whom: alignments, trainings and predictions on its table.

Every active party has a folder of its own: its aligned rows, its splits of models, its journals.  Nobody can
name another one's models, rows or sessions.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Protocol
from urllib.parse import quote

import numpy as np
from gbdt_parties import messages
from gbdt_parties._files import make_folder, write_atomically
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.identity.alignment import Alignment, AlignRows, IntersectIds, Intersector, RowsAligned
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.identity.record import Record
from gbdt_parties.messages import Message
from gbdt_parties.transport.streams import RowSets
from numpy.typing import NDArray

from xgb_fed.boosting.features import Columns
from xgb_fed.vertical.journal import Journals
from xgb_fed.vertical.messages import OpenModel, OpenTraining, ResumeTraining
from xgb_fed.vertical.passive import MIN_ROWS, PassiveParty
from xgb_fed.vertical.splits import Splits

logger = logging.getLogger(__name__)
HOUR = 3600.0
MAX_SELECTIONS = 4
"""Selections of rows that are kept in memory for one active party."""
MAX_COPIES = 4
"""Times the table that one selection's row sets may have rows: training rows and evaluation sets."""
ABANDONED = 1800.0
"""Seconds without a request after which sessions need not be kept for other rows' sake."""
OPENING = (OpenTraining, OpenModel)
QUESTIONS = (OpenModel, IntersectIds, ResumeTraining)
"""Each of them lets an active party try something out: a model's answers, or ids."""


@dataclass(frozen=True)
class Limits:
    """What a passive party agrees to.

    Attributes
    ----------
    min_rows, max_rows : int
        Of a training, and of the sample of a tree: statistics of few rows say much about each.  An
        alignment is of `max_rows` ids at most.
    questions_per_hour : int
        Alignments, predictions and resumptions of one active party: many of them are a way to probe.
    consents_to_export : bool
        Whether it gives its splits to `export_booster`.
    allow_plain, allow_weak_key : bool
        Whether it trains without encryption, or under a key below 2048 bits.
    """

    min_rows: int = 100
    max_rows: int = 50_000_000
    questions_per_hour: int = 120
    consents_to_export: bool = False
    allow_plain: bool = False
    allow_weak_key: bool = False


class NamedRows(Protocol):
    """A party's table as its service needs it."""

    @property
    def columns(self) -> Columns:
        """All rows."""

    @property
    def ids(self) -> Sequence[str]:
        """A name for each row, all different."""

    @property
    def has_ids(self) -> bool:
        """Whether the names are the data's own: rows are then known to others only once aligned."""


class SplitsFolder(MutableMapping[bytes, Splits]):
    """A party's splits of models by model id, one file each.

    Parameters
    ----------
    directory : Path
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        make_folder(directory)

    def _path(self, model: bytes) -> Path:
        return self._directory / f"{model.hex()}.splits.json"

    def __getitem__(self, model: bytes) -> Splits:
        path = self._path(model)
        if not path.exists():
            raise KeyError(model)
        return Splits.load(path)

    def __setitem__(self, model: bytes, splits: Splits) -> None:
        splits.save(self._path(model))

    def __delitem__(self, model: bytes) -> None:
        self._path(model).unlink()

    def __iter__(self) -> Iterator[bytes]:
        return (bytes.fromhex(p.name.split(".")[0]) for p in sorted(self._directory.glob("*.splits.json")))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass
class Counterpart:
    """One active party: its folder, and handlers on the rows it named.

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
    handlers: OrderedDict[RowSets, PassiveParty] = field(default_factory=OrderedDict)
    used: set[bytes] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def ask(self, most: int) -> bool:
        """Count a question; False if there were so many in the last hour, before this process started too."""
        path, now = self.directory / "questions.json", time.time()
        asked = json.loads(path.read_text()) if path.exists() else []
        asked = [when for when in asked if now - HOUR < when <= now]
        if len(asked) >= most:
            return False
        write_atomically(path, json.dumps([*asked, now]))
        return True


class PassiveService:
    """A passive party's answers.

    Parameters
    ----------
    table : NamedRows
    directory : path
        Where aligned rows, splits of models, journals and the record are kept.
    name : str
        This party's, in the record.
    limits : Limits
    """

    def __init__(self, table: NamedRows, directory: str | Path, name: str, limits: Limits) -> None:
        self._table, self._name, self._limits = table, name, limits
        self._directory = Path(directory)
        make_folder(self._directory)
        self._record = Record(self._directory / "record.jsonl")
        self._counterparts: dict[str, Counterpart] = {}
        self._lock = Lock()

    def handle(self, caller: Identity, row_sets: RowSets, request: bytes) -> bytes:
        """Answer a request of an active party about some rows, and record both."""
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
            logger.warning("refused %s: %s", caller.name, envelope.message.reason)
        self._record.add(self._name, caller.name, envelope, len(answer))
        return answer

    def _answer(
        self, caller: Identity, row_sets: RowSets, envelope: messages.Envelope, request: bytes
    ) -> bytes:
        counterpart, message = self._counterpart(caller), envelope.message
        self._admit(caller, counterpart, message)
        if isinstance(message, (IntersectIds, AlignRows)):
            answer = self._align(counterpart, message)
        elif self._table.has_ids and not row_sets:
            answer = messages.Refusal("rows of this party are named by aligned ids", messages.OTHER_REASON)
        elif (handler := self._handler(counterpart, row_sets, isinstance(message, OPENING))) is None:
            answer = messages.Refusal("no such session", messages.NO_SESSION)
        else:
            return handler.handle(request)
        return messages.write(envelope.session, envelope.sequence, answer)

    def _admit(self, caller: Identity, counterpart: Counterpart, message: Message) -> None:
        """Refuse what the limits do not allow, before anything else is done."""
        limits = self._limits
        if isinstance(message, OpenTraining):
            if not limits.min_rows <= message.n_rows <= limits.max_rows:
                raise ProtocolError(
                    f"this party trains on {limits.min_rows} to {limits.max_rows} rows, not {message.n_rows}"
                )
            logger.info("%s starts a training on %d rows", caller.name, message.n_rows)
        elif isinstance(message, QUESTIONS):
            with counterpart.lock:
                if not counterpart.ask(limits.questions_per_hour):
                    raise ProtocolError(
                        f"more than {limits.questions_per_hour} alignments and predictions in an hour"
                    )
            logger.info("%s: %s", caller.name, type(message).__name__)

    def _counterpart(self, caller: Identity) -> Counterpart:
        with self._lock:
            if caller.name not in self._counterparts:
                directory = self._directory / f"for-{quote(caller.name, safe='')}"
                make_folder(directory / "rows")
                self._counterparts[caller.name] = Counterpart(
                    directory, Intersector(self._table.ids, self._limits.max_rows)
                )
            return self._counterparts[caller.name]

    def _align(self, counterpart: Counterpart, message: Message) -> Message:
        with counterpart.lock:
            if isinstance(message, IntersectIds):
                return counterpart.intersector.blind(message)
            assert isinstance(message, AlignRows)
            alignment = counterpart.intersector.accept(message)
            alignment.save(_rows_file(counterpart, alignment.digest))
        logger.info("%d rows aligned", len(alignment.ids))
        return RowsAligned(alignment.digest)

    def _handler(self, counterpart: Counterpart, row_sets: RowSets, opens: bool) -> PassiveParty | None:
        """The handler of these rows; None if there is none and the request does not open a session."""
        with counterpart.lock:
            handlers = counterpart.handlers
            if row_sets not in handlers:
                if not opens:
                    return None
                self._make_room(handlers)
                columns = self._selected(counterpart, row_sets)
                handlers[row_sets] = PassiveParty(
                    columns[0],
                    columns[1:],
                    SplitsFolder(counterpart.directory / "models"),
                    allow_export=self._limits.consents_to_export,
                    allow_plain=self._limits.allow_plain,
                    allow_weak_key=self._limits.allow_weak_key,
                    journals=Journals(counterpart.directory / "models"),
                    min_rows=max(self._limits.min_rows, MIN_ROWS),
                    used=counterpart.used,
                )
            handlers.move_to_end(row_sets)
            return handlers[row_sets]

    @staticmethod
    def _make_room(handlers: OrderedDict[RowSets, PassiveParty]) -> None:
        """Forget the rows that were used least recently, but none with a session under way."""
        if len(handlers) < MAX_SELECTIONS:
            return
        idle = next((rows for rows, handler in handlers.items() if handler.is_idle(ABANDONED)), None)
        if idle is None:
            raise ProtocolError(f"sessions on {MAX_SELECTIONS} selections of rows are open; end one first")
        del handlers[idle]

    def _selected(self, counterpart: Counterpart, row_sets: RowSets) -> list[Columns]:
        """Columns of the rows that a request is about, and of its evaluation sets."""
        table = self._table.columns
        if not row_sets:
            return [table]
        if len(set(row_sets)) != len(row_sets):
            raise ProtocolError("the same rows are named twice")
        positions = [self._positions(counterpart, digest) for digest in row_sets]
        if sum(map(len, positions)) > MAX_COPIES * table.n_rows:
            raise ProtocolError(f"row sets have more than {MAX_COPIES} times the rows of this party")
        return [table.take(rows) for rows in positions]

    def _positions(self, counterpart: Counterpart, digest: bytes) -> NDArray[np.int64]:
        path = _rows_file(counterpart, digest)
        if not path.exists():
            raise ProtocolError("no such rows; align them first")
        alignment = Alignment.load(path)
        if alignment.digest != digest:
            raise ProtocolError("this party's aligned rows are damaged; align them again")
        return alignment.positions(self._table.ids)


def _rows_file(counterpart: Counterpart, digest: bytes) -> Path:
    return counterpart.directory / "rows" / f"{digest.hex()}.ids"
