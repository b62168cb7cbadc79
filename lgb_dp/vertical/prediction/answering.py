"""The party with columns alone answers questions about rows.

*It learns nothing of the rows*: of masked tables it can read one entry, less the other side's share
(`gbdt_parties.two_party.answers`).  It sees which rows are asked about, when, and for which kind of answer.

*The other party learns one answer about a row*, or with tables that are not those of the protocol, and over
several questions where there is consent to them, the row's point: that is fixed by the row and the model.  A
row that changes between several questions by table has a point for each.
A question is counted in the transaction that keeps its last message, before that leaves.  A question that is
broken off before has given nothing but choices, which are uniform (`gbdt_parties.two_party.extension`).
One that is lost afterwards is answered again by the bytes that were kept, to the same tables alone.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from gbdt_commons.locks import OwnLock
from gbdt_commons.store import Store, bytes_kind
from gbdt_kernels.trees import Codes
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.flights.kept import KeptFailures
from gbdt_parties.run.log import THIS_PROCESS
from gbdt_parties.two_party.answers import MAX_ROWS, AnsweringSide
from gbdt_parties.two_party.life import Failures, Unrepeatable
from gbdt_parties.two_party.names import DIGEST_BYTES, Seat
from gbdt_parties.two_party.session import Session
from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical.prediction.answers import N_POINTS, AnswerKind, nearest_points
from lgb_dp.vertical.prediction.consent import OPEN, AnsweredRows, Consent
from lgb_dp.vertical.prediction.models import MODELS, JointModel, digest_of, text_of
from lgb_dp.vertical.prediction.rows import ROW_BYTES, as_kept, named_by_ids, named_by_place

SENT = bytes_kind("shares that answered a question about rows")
"""Records by model and digest of the question with its masked tables: of every answer, since each asking side
can lose its own.  They take fewer bytes than the counts of their rows."""

_ASKING = "the party that asks"
ASKING_PLACE, ANSWERING_PLACE = 0, 1


def opened(run: bytes, place: int, failures: Failures) -> Session:
    """One side of a session of transfers for questions; the connection of the parties authenticates it.

    The run is 32 bytes that the asking side has drawn, and the place `ASKING_PLACE` or `ANSWERING_PLACE`.
    """
    seats = [Seat(k, hashlib.sha256(b"seat %d of " % k + run).digest()) for k in (0, 1)]
    return Session(run, seats[place], seats[1 - place], os.urandom(DIGEST_BYTES), failures)


@dataclass(frozen=True, eq=False)
class RowQuestion:
    """A question about named rows, public to both; `InvalidArgumentError` if none, or too many."""

    model: JointModel
    answer: AnswerKind
    rows: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.rows) <= MAX_ROWS:
            raise InvalidArgumentError(
                f"{len(self.rows)} rows of a question: it is about 1 to {MAX_ROWS} rows; ask in parts"
            )

    def to_bytes(self) -> bytes:
        """A digest of everything that both must agree on."""
        model, scale = self.model, self.model.scale
        numbers = struct.pack(f"<{2 + len(model.points)}d", scale.low, scale.high, *model.points)
        texts = [model.digest.encode(), self.answer.value.encode(), numbers, *self.rows]
        return hashlib.sha256(length_prefixed(texts)).digest()

    def with_tables(self, masked_tables: bytes) -> bytes:
        """A digest of the question and its masked tables, under which the answer is kept.

        It tells nothing of the rows: the tables are under pads that are drawn for one session.
        """
        return hashlib.sha256(self.to_bytes() + masked_tables).digest()


class PartyAnswers(Unrepeatable):
    """Everything that a party with columns alone keeps in order to answer: models, counts, shares it sent.

    A copy would answer about each row once more, so that it refuses to be copied or pickled.

    By default the store is in memory only, so that a restart forgets the models, and nothing is answered.
    """

    def __init__(self, consent: Consent | None = None, store: Store | None = None) -> None:
        self.answered = AnsweredRows(Consent() if consent is None else consent, store)
        self.store = self.answered.store
        self.lock = OwnLock()
        """Held while a question is answered: one at a time."""
        self._models: dict[str, tuple[JointModel, str]] = {}

    def selection_of(self, rows: str) -> bytes:
        """A name of a table with a digest, the same after a restart; it says nothing of the digest."""
        return as_kept(self.store, b"table", [rows.encode()])[0]

    def remember(
        self,
        booster: lightgbm.Booster,
        bins: PublicBins,
        label_bounds: tuple[float, float] | None,
        caller: str = THIS_PROCESS,
    ) -> str:
        """Keep a model that this party has trained with the other one, and no other; gives its digest.

        The bins are of this party's columns, the last ones of the model; without public bounds, labels are 0
        and 1. The caller is the party whose run it was: no other one gets answers, though it may have the
        model, too. `InvalidArgumentError` if a model has other columns, or a tree of columns of both parties.
        """
        text, bounds = text_of(booster), (0.0, 1.0) if label_bounds is None else label_bounds
        model = JointModel(text, int(booster.num_feature()) - len(bins.names), bounds)
        model.check_columns(bins)
        self.store.put(MODELS, model.digest, [text, model.n_first, list(bounds), caller])
        return model.digest

    def forget(self, text: str) -> None:
        """Answer no question about a model any more, given by its text; its counts stay."""
        digest = digest_of(text)
        self.store.delete(MODELS, digest)
        self._models.pop(digest, None)

    def model(self, digest: str, name: str, caller: str = THIS_PROCESS) -> JointModel:
        """A model by its digest, for the caller whose run it was, or for this process.

        `InvalidArgumentError` if the party has trained none with the caller; that of another one is refused
        in the same words.
        """
        if digest not in self._models:
            kept = self.store.get(MODELS, digest)
            if kept is not None:
                text, n_first, (low, high), trained_with = kept
                self._models[digest] = JointModel(text, n_first, (low, high)), trained_with
        model, trained_with = self._models.get(digest, (None, ""))
        if model is None or caller not in (trained_with, THIS_PROCESS):
            # Not among how many: others may have trained them.
            raise InvalidArgumentError(
                f"booster is not a model that party {name!r} has trained: it has kept none of the digest "
                f"{digest[:16]}"
            )
        return model


def _place(model: JointModel, asked: bytes) -> str:
    """Key of the shares that answer a question, given by `RowQuestion.with_tables`."""
    return f"{model.digest} {asked.hex()}"


@dataclass(frozen=True, eq=False)
class AskedRows(Unrepeatable):
    """Rows of a party with columns alone, about which it can be asked; codes are private."""

    name: str  # the party's
    bins: PublicBins
    codes: Codes = field(repr=False)
    row_names: list[bytes] = field(repr=False)  # by which questions about the rows are counted (`rows`)
    answers: PartyAnswers  # the party's, for all its rows
    selection: bytes  # names the selection; empty where ids name the rows
    caller: str = THIS_PROCESS  # failed checks, and questions of an hour, are counted against it alone

    @classmethod
    def of(
        cls,
        name: str,
        bins: PublicBins,
        codes: Codes,
        ids: Sequence[Any] | None,
        answers: PartyAnswers,
        selection: bytes | None = None,
        caller: str = THIS_PROCESS,
    ) -> AskedRows:
        """Rows that are named by their ids, or by their places in a selection: one of their own by default.

        `InvalidArgumentError` if there is not one id for each row; `InvalidDataError` if an id is not a
        canonical text, or is there twice.
        """
        if ids is not None:
            return cls(name, bins, codes, named_by_ids(ids, codes.n_rows), answers, b"", caller)
        selection = os.urandom(ROW_BYTES) if selection is None else selection
        return cls(name, bins, codes, named_by_place(selection, codes.n_rows), answers, selection, caller)


class AnsweringParty:
    """The answering side of questions about some rows, message by message.

    A session of transfers is set up in three messages each way, and serves one question after the other:
    ``set_up`` for the stages 0, 1 and 2, then ``choices`` and ``shares`` for each.  Nothing else passes
    between the parties.
    """

    def __init__(self, rows: AskedRows) -> None:
        self.kept, self._rows = rows.answers, rows
        self._places = {name: place for place, name in enumerate(rows.row_names)}
        self._session: Session | None = None
        self._due, self._number = b"", 0
        self._open: tuple[RowQuestion, AnsweringSide] | None = None

    def set_up(self, stage: int, message: bytes) -> bytes:
        """Take a message of a session's set-up, and give this side's; stage 0 begins another session.

        `TransferCheckError` if checks on transfers with the asking party have failed too often;
        `ProtocolError` if the message is not the one that is due.
        """
        if stage == 0:
            self._open, self._number = None, 0
            failures = KeptFailures(self.kept.store, f"{_ASKING}: {self._rows.caller}")
            self._session = opened(message[:DIGEST_BYTES], ANSWERING_PLACE, failures)
            self._due = self._session.take_greeting(message[DIGEST_BYTES:])
            return self._session.greeting
        session, due = self._checked_session(), self._due
        if stage == 1:
            self._due = session.take_points(message)
        else:
            session.take_trees(message)
        return due

    def _checked_session(self) -> Session:
        if self._session is None:
            raise ProtocolError("a question came before its session was set up")
        return self._session

    def choices(self, question: RowQuestion) -> bytes:
        """Make the first message about a question; an earlier one is broken off.

        `InvalidArgumentError` if the question is refused, or is about rows that are not here; `ProtocolError`
        if there is no session.
        """
        session = self._checked_session()
        points = nearest_points(self._scores(question), question.model.points)
        self._number += 1
        side = AnsweringSide(session, self._number, question.to_bytes(), points, N_POINTS)
        self._open = question, side
        return side.choices()

    def shares(self, masked_tables: bytes) -> bytes:
        """Take the other side's message; gives the last one, once the question is counted.

        `InvalidArgumentError` if as much was asked in the meantime that the question is refused;
        `ProtocolError` if no question is open, or the message has another length; `OSError` if there is no
        room to keep the answer: it does not leave.
        """
        if self._open is None:
            raise ProtocolError("masked tables came where no question is open")
        (question, side), self._open = self._open, None
        shares = side.shares(masked_tables)
        with self.kept.store.transaction():
            self.kept.answered.take(question.model.digest, question.answer, question.rows)
            place = _place(question.model, question.with_tables(masked_tables))
            self.kept.store.put(SENT, place, shares)
        return shares

    def again(self, model: JointModel, asked: bytes) -> bytes | None:
        """The shares that answered a question by these tables (`RowQuestion.with_tables`), or None."""
        return self.kept.store.get(SENT, _place(model, asked))

    def given(self, question: RowQuestion) -> NDArray[np.float64]:
        """Points or scores, openly, by consent, once counted; `InvalidArgumentError` as of `choices`."""
        if question.answer not in OPEN:
            raise InvalidArgumentError(f"answer={question.answer.value!r} is given by table")
        score = self._scores(question)
        if question.answer is AnswerKind.POINT:
            score = nearest_points(score, question.model.points).astype(np.float64)
        return self.kept.answered.give(question.model.digest, question.answer, question.rows, score)

    def _scores(self, question: RowQuestion) -> NDArray[np.float64]:
        """F_B of the rows of a question that is not refused, which counts for this hour."""
        kept, model = self.kept, question.model
        kept.answered.consent.check(question.answer)
        kept.answered.begin(self._rows.caller)
        unknown = sum(name not in self._places for name in question.rows)
        if unknown:
            raise InvalidArgumentError(f"{unknown} of {len(question.rows)} rows are not in this selection")
        kept.answered.check(model.digest, question.answer, question.rows)
        places = np.array([self._places[name] for name in question.rows])
        return model.other_part(self._rows.codes.take(places), self._rows.bins)
