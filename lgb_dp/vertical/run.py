"""A run with columns apart, at either party: agreed on, kept, computed over one connection after the other.

The active party has the labels, and asks; the other one answers.  Both keep what they have signed, with the
keys, in the store of their ledger: there, too, are the records of the exchange.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.errors import VeilboostError
from gbdt_commons.files import is_out_of_room
from gbdt_commons.quoting import quoted
from gbdt_commons.store import Store, bytes_kind, json_kind
from gbdt_kernels.trees import DenseCodes, SparseCodes
from gbdt_parties.agreed import TEXT_BYTES
from gbdt_parties.channel import Channel as Session
from gbdt_parties.errors import ProtocolError, RunLostError, places_of
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.messages import Abort, Done, Finish, Message
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.engine import Steps, carried_out
from gbdt_parties.run.flights.frames import FrameChannel
from gbdt_parties.run.flights.polled import Answering, Asking
from gbdt_parties.run.log import RunLog, runs_of
from gbdt_parties.secure_sum.messages import (
    NEW_RUN,
    ConfirmRoster,
    Endorsed,
    Introduced,
    ProposeRoster,
    pack,
    unpack,
)
from gbdt_parties.secure_sum.roster import SESSION_BYTES, Introduction, Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.session import SessionHandler
from lgb_dp.accounting.unit import ONE_ROW
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import FederatedCheckpointError, InvalidArgumentError
from lgb_dp.federated.ledger import PartyLedger
from lgb_dp.vertical.columns import agreed_bins, declaration
from lgb_dp.vertical.prediction.answering import AskedRows
from lgb_dp.vertical.prediction.questions import OpenQuestions, QuestionSession, check_selection
from lgb_dp.vertical.replica import PartyRows, Replica, check_settings, model_text
from lgb_dp.vertical.task import ColumnTask, Flights, OpenColumns, statement

logger = logging.getLogger(__name__)

MODELS = bytes_kind("models of columns apart")
RUN = json_kind("number of the run")
"""Record of a checkpoint: its run, which the ledger's store has with the keys; empty once it has ended."""

OWN_RUNS = "columns apart of this party"
"""The part of the ledger's store with runs of the party with the labels."""

KeepModel = Callable[[bytes, DPBooster, ColumnTask], None]

REQUESTS = (ProposeRoster, ConfirmRoster, Flights, Finish, Abort)
"""Requests of an open session."""


@dataclass(frozen=True)
class ColumnSide:
    """All of a party but its rows; messages are kept if auditable, for `lgb_dp.vertical.replay`."""

    name: str
    credentials: Credentials
    allowed: AllowList
    ledger: PartyLedger
    auditable: bool


def digest_of_rows(codes: DenseCodes | SparseCodes, label: NDArray[np.float64] | None = None) -> str:
    """Digest of rows in their order, which must be those of a run's beginning when it is taken up."""
    digest = hashlib.sha256()
    for name in (field.name for field in fields(codes)):
        array = getattr(codes, name)
        digest.update(repr(array.shape).encode() + array.tobytes())
    if label is not None:
        digest.update(label.tobytes())
    return digest.hexdigest()


def record_of(
    request: str, description: str, rows: str, agreement: Agreement, auditable: bool
) -> dict[str, Any]:
    """Record of a run that both parties have signed, with a digest of this party's rows."""
    return {
        "auditable": auditable,
        "request": request,
        "description": description,
        "rows": rows,
        "agreement": agreement.to_dict(),
    }


def taken_up(side: ColumnSide, run: bytes, kept: Mapping[str, Any]) -> Agreement:
    """The agreement of a run that is kept; everything is checked again."""
    agreed = kept["agreement"]
    agreement = Agreement(side.name, side.credentials, side.allowed, run, agreed)
    agreement.take_up(agreed, statement(kept["request"], kept["description"]), 2, 2)
    return agreement


# The party with columns alone.


class ColumnRun:
    """One session of a run at the party with columns alone.

    The store is that of one caller's runs, in the ledger's; the memory is the caller's.
    ``keep(run, booster, task)`` keeps the model of a run that has ended.  A RunLostError if the run is said
    to be known, and is not; other errors say why it is refused.
    """

    def __init__(
        self,
        side: ColumnSide,
        codes: DenseCodes | SparseCodes,
        bins: PublicBins,
        store: Store,
        keep: KeepModel,
        message: OpenColumns,
        memory: MemoryAllowance,
    ) -> None:
        if len(message.run) != SESSION_BYTES:
            raise ProtocolError(f"run must have {SESSION_BYTES} bytes")
        self._side, self._codes, self._bins = side, codes, bins
        self._keep, self.run, self._request = keep, message.run, message.request
        self._log = RunLog(store, message.run)
        self._rooms = [memory.reserve(len(message.request) * TEXT_BYTES, "the settings of a run")]
        self._task = ColumnTask.from_json(message.request)
        self._description = json.dumps(declaration(bins), sort_keys=True)
        if self._task.name == side.name:
            raise InvalidArgumentError(f"name={side.name!r} is that of both parties")
        self._task.check_here(f"party {quoted(self._task.name)!r}")
        if self._task.n_rows != codes.n_rows:
            raise InvalidArgumentError(
                f"the run is about {self._task.n_rows} rows and party {side.name!r} has {codes.n_rows}: both "
                "must have the same rows, in the same order"
            )
        self._rows = PartyRows(codes, None, agreed_bins(self._task, self._description, side.name), side.name)
        # Columns whose names are the same are refused, too.
        check_settings(self._task, self._rows)
        needed = self._task.needed_bytes(len(bins.names))
        self._rooms.append(memory.reserve(needed, f"trees_per_round={self._task.per_round} of a run"))
        self._agreement, self._is_signed = self._taken_up(message.n_known == NEW_RUN)
        self._channel: Answering | None = None
        # Over, for a run with which the other party cannot go on: it has its model, or nothing was signed.
        self._has_model, self.is_over = False, not self._is_signed

    def _taken_up(self, is_new: bool) -> tuple[Agreement, bool]:
        side = self._side
        if is_new and self._log.has_begun:
            raise ProtocolError("a run of this number has begun already")
        if is_new:
            # Before anything is signed; what it costs is checked again with every charge.
            side.ledger.check_run(self.run, self._task.granted, ONE_ROW, self._task.budget)
            return Agreement(side.name, side.credentials, side.allowed, self.run), False
        kept = self._log.begun()
        if kept["request"] != self._request or kept["description"] != self._description:
            raise ProtocolError("the run has other settings or columns than when it began")
        if kept["rows"] != digest_of_rows(self._codes):
            raise ProtocolError("this party has other rows than when the run began")
        return taken_up(side, self.run, kept), True

    def introduced(self) -> Introduced:
        """Introduce this party."""
        return Introduced(self._agreement.introduction.to_bytes(), self._description, int(self._is_signed))

    def answer(self, message: Message) -> Message:
        """Answer a request."""
        if isinstance(message, ProposeRoster):
            if message.task:
                raise ProtocolError("the settings of a run with columns apart are those of its request")
            agreed = statement(self._request, self._description)
            return Endorsed(self._agreement.endorse(Roster.from_bytes(message.roster), agreed, 2, 2))
        if isinstance(message, ConfirmRoster):
            self._confirm(message)
        elif isinstance(message, Flights):
            return Flights(self._flights(message), 0)
        elif isinstance(message, Finish):
            self._finish()
        return Done()

    def _confirm(self, message: ConfirmRoster) -> None:
        self._agreement.confirm(unpack(message.signatures))
        rows = digest_of_rows(self._codes)
        self._log.begin(
            record_of(self._request, self._description, rows, self._agreement, self._side.auditable)
        )
        self._is_signed, self.is_over = True, False

    def _flights(self, message: Flights) -> bytes:
        channel = self.begin()
        try:
            return channel.answer(message.content, not message.more)
        finally:
            self._check_room()

    def begin(self) -> Answering:
        """The connection, which is over at the end of the run; one in a session."""
        if self._channel is None:
            self._agreement.check_signed()
            self._channel = Answering(self._trained)
        return self._channel

    def _trained(self, channel: FrameChannel) -> Steps[None]:
        try:
            replica = Replica(self._task, self._rows, self._agreement)
            booster = yield from replica.trained(self._log, self._side.ledger, channel)
            self._keep(self.run, booster, self._task)
            self._has_model = True
        except Exception as error:
            if not isinstance(error, VeilboostError):
                logger.error("a run with columns apart failed: %s", places_of(error))
            raise

    @property
    def error(self) -> BaseException | None:
        """The error by which the computation has ended."""
        return None if self._channel is None else self._channel.error

    def _check_room(self) -> None:
        """Raise the error of a computation that had no room for its files, which is worth waiting for."""
        if isinstance(self.error, OSError) and is_out_of_room(self.error):
            raise self.error

    def _finish(self) -> None:
        # A computation that has ended needs no connection; one that has not would wait for a message.
        self.stop()
        self._check_room()
        if not self._has_model:
            raise ProtocolError("the run has not ended yet")
        self.is_over = True
        if not self._log.is_auditable:
            # The other party has the model, and with seed and nonces the noise can be drawn again.
            self._log.end(stays_known=True)

    def stop(self) -> None:
        """End the connection, if there is one, and the computation."""
        if self._channel is not None:
            self._channel.close()


class ColumnSessions(SessionHandler[ColumnRun | QuestionSession]):
    """Sessions of one caller, who names its runs in the ledger's store, at the party with columns alone.

    ``side(caller, run, is_new)`` gives the party's `ColumnSide` for a run, and `asked` the rows for questions
    about them.  ``keep(caller, run, booster, task)`` keeps the model of a run that has ended, and
    ``over(caller, run)`` is called when the other party cannot go on with it.  Sessions in `used` were opened
    before; the caller's memory has no limit by default.
    """

    opening = (OpenColumns, OpenQuestions)
    closing = (Finish, Abort)
    max_sessions = 2
    """One of a run and one of questions: each ends an older one of its kind alone."""

    def __init__(
        self,
        name: str,
        side: Callable[[str, bytes, bool], ColumnSide],
        codes: DenseCodes | SparseCodes,
        bins: PublicBins,
        caller: str,
        keep: Callable[[str, bytes, DPBooster, ColumnTask], None],
        asked: Callable[[], AskedRows],
        over: Callable[[str, bytes], None],
        used: set[bytes] | None = None,
        memory: MemoryAllowance | None = None,
    ) -> None:
        super().__init__(used)
        self.name, self._asked = name, asked
        self._memory = MemoryAllowance(sys.maxsize) if memory is None else memory
        self._side_of, self.codes, self.bins, self.known_caller = side, codes, bins, caller
        self._keep, self._over = partial(keep, caller), partial(over, caller)

    def open(self, message: Message, session: bytes) -> tuple[ColumnRun | QuestionSession, Message]:
        """Take up a run, or questions about rows."""
        if isinstance(message, OpenQuestions):
            check_selection(self.codes.n_rows)
            questions = QuestionSession(self._asked(), message)
            self.end_sessions(lambda kept: isinstance(kept, QuestionSession))
            return questions, questions.opened()
        assert isinstance(message, OpenColumns)
        # One computation at a time: the connection of an earlier session is lost.
        self.end_sessions(lambda kept: isinstance(kept, ColumnRun))
        side = self._side_of(self.known_caller, message.run, message.n_known == NEW_RUN)
        store = runs_of(side.ledger.store, self.known_caller)
        try:
            run = ColumnRun(side, self.codes, self.bins, store, self._keep, message, self._memory)
        except Exception:
            if not RunLog(store, message.run).has_begun:
                self._over(message.run)
            raise
        return run, run.introduced()

    def closed(self, kept: ColumnRun | QuestionSession) -> None:
        """End the run's connection; the run may be taken up again."""
        if isinstance(kept, ColumnRun):
            kept.stop()
            if kept.is_over:
                self._over(kept.run)

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self.end_sessions(lambda kept: True)

    def run_of(self, session: bytes) -> ColumnRun:
        """The run of an open session, for the other party in this process."""
        kept = self.sessions[session].kept
        assert isinstance(kept, ColumnRun)
        return kept


# The party with the labels.


def kept_run(checkpoint: Store, runs: Store) -> RunLog | None:
    """The log of a checkpoint's run, in the store of the ledger that it began with; None before that."""
    number = checkpoint.get(RUN, "")
    if not number:
        return None
    log = RunLog(runs, bytes.fromhex(number))
    if not log.has_begun:
        raise FederatedCheckpointError(
            "checkpoint is of a run that the ledger does not know: pass the folder= that it began with, or "
            "another checkpoint for another run"
        )
    return log


class ActiveRun:
    """A run at the party with the labels, over as many connections as it takes.

    The store is the checkpoint's, which may be in the ledger's.
    """

    def __init__(
        self,
        side: ColumnSide,
        task: ColumnTask,
        codes: DenseCodes | SparseCodes,
        label: NDArray[np.float64],
        store: Store,
    ) -> None:
        self._side, self._task, self._codes, self._label, self._store = side, task, codes, label, store
        self._request, self._runs = task.to_json(), runs_of(side.ledger.store, OWN_RUNS)

    @property
    def model(self) -> DPBooster | None:
        """The model, once all rounds are over; the other party may have to be told so yet."""
        text = self._store.get(MODELS, "")
        return None if text is None else DPBooster(model_str=text.decode())

    @property
    def has_ended(self) -> bool:
        """Whether both parties have the model, and the keys of the run are of no use any more."""
        number = self._store.get(RUN, "")
        return self.model is not None and not (number and RunLog(self._runs, bytes.fromhex(number)).has_begun)

    def connected(self, session: Session, channel: Callable[[], Asking]) -> DPBooster:
        """Begin, or go on with, the run over a new connection.

        The session is not open yet; `channel` gives the connection, once both parties have signed.  After a
        PartyUnavailableError the run can go on; a PartyRefusedError or ProtocolError says that the other
        party refuses, or deviates.
        """
        log = kept_run(self._store, self._runs)
        if log is None:
            log, agreement, description = self._agree(session)
        else:
            kept = log.begun()
            agreement, description = taken_up(self._side, log.run, kept), kept["description"]
            try:
                answer = session.ask(OpenColumns(log.run, self._request, 0), Introduced)
            except RunLostError:
                booster = self.model
                if booster is None:
                    raise
                # It has ended there, and the answer that said so was lost.
                return self._ended(log, booster)
            known = Introduction.from_bytes(answer.introduction) in agreement.roster.introductions
            if answer.description != description or not known:
                raise ProtocolError(
                    f"party {session.name!r} has other columns or keys than when the run began"
                )
        bins = agreed_bins(self._task, description, session.name)
        rows = PartyRows(self._codes, self._label, bins, session.name)
        way = channel()
        steps = Replica(self._task, rows, agreement).trained(log, self._side.ledger, way)
        booster = carried_out(steps, way.receive)
        way.finish()
        # First: once it is told, the other party cannot go on with the run.
        self._store.put(MODELS, "", model_text(booster).encode())
        session.ask(Finish(), Done)
        return self._ended(log, booster)

    def _ended(self, log: RunLog, booster: DPBooster) -> DPBooster:
        if not log.is_auditable:
            log.end()
        self._store.put(RUN, "", "")
        return booster

    def _agree(self, session: Session) -> tuple[RunLog, Agreement, str]:
        run = os.urandom(SESSION_BYTES)
        agreement = Agreement(self._side.name, self._side.credentials, self._side.allowed, run)
        answer = session.ask(OpenColumns(run, self._request, NEW_RUN), Introduced)
        agreed_bins(self._task, answer.description, session.name)
        introduced = Introduction.from_bytes(answer.introduction)
        if introduced.name != session.name:
            raise ProtocolError(f"party {session.name!r} introduces itself as another one")
        agreed = statement(self._request, answer.description)
        roster = Roster(run, agreed, (agreement.introduction, introduced))
        own = agreement.endorse(roster, agreed, 2, 2)
        theirs = session.ask(ProposeRoster("", roster.to_bytes()), Endorsed).signature
        agreement.confirm([own, theirs])
        session.ask(ConfirmRoster(pack([own, theirs])), Done)
        # Last: a run that is kept here is known there.
        log, rows = RunLog(self._runs, run), digest_of_rows(self._codes, self._label)
        log.begin(record_of(self._request, answer.description, rows, agreement, self._side.auditable))
        self._store.put(RUN, "", run.hex())
        return log, agreement, answer.description
