"""The party with the labels asks about rows, and keeps the answers.

An answer is kept under the row's name and a digest of all that the question was made of, both under a key of
the store (`rows`).  The same question about a row is answered from there; another one goes to the other
party, which refuses it, and sees that the row's table is another one.  Before masked tables leave, a digest
of them is kept, so that an answer that was counted, and lost, can be asked for again.

*An answer that is in no table* means that the other party deviated.  Telling it so would tell it in part
what the answer was, so the error stays here.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.store import Kind, Store, bytes_kind
from gbdt_parties.run.flights.kept import KeptFailures
from gbdt_parties.two_party.answers import AskingSide, entries_of
from gbdt_parties.two_party.names import DIGEST_BYTES
from gbdt_parties.two_party.session import Session
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical.prediction.answering import ASKING_PLACE, RowQuestion, opened
from lgb_dp.vertical.prediction.answers import (
    LEVELS,
    N_POINTS,
    AnswerKind,
    answer_tables,
    predictions,
    read_answers,
)
from lgb_dp.vertical.prediction.consent import OPEN
from lgb_dp.vertical.prediction.models import JointModel
from lgb_dp.vertical.prediction.rows import ROW_BYTES, as_kept

KEPT = bytes_kind("kept answers about rows")
"""Records by party, model and place of a row's question: the answer, as a number of 8 bytes."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A question whose tables may have left, and whose answer has not come.

    The digest is `RowQuestion.with_tables`, the places are of the answers that will be kept, one after the
    other, and `own` are this side's shares.
    """

    digest: bytes
    places: bytes
    own: NDArray[np.uint64]

    def to_bytes(self) -> bytes:
        """Everything, of lengths that follow from the whole one."""
        return self.digest + self.places + self.own.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Asked:
        """Read what `to_bytes` wrote."""
        n, left = divmod(len(data) - DIGEST_BYTES, ROW_BYTES + 8)
        if n < 0 or left:
            raise ValueError("it is cut off")
        end = DIGEST_BYTES + n * ROW_BYTES
        own = np.frombuffer(data[end:], dtype="<u8").astype(np.uint64)
        return cls(data[:DIGEST_BYTES], data[DIGEST_BYTES:end], own)


PENDING = Kind("question about rows under way", Asked.to_bytes, Asked.from_bytes)
"""Record by party and model."""


class Answerer(Protocol):
    """The other party's side, as `answering.AnsweringParty` has it, here or at the end of a connection."""

    def set_up(self, stage: int, message: bytes) -> bytes:
        """Exchange messages of a session's set-up."""

    def choices(self, question: RowQuestion) -> bytes:
        """Begin a question."""

    def shares(self, masked_tables: bytes) -> bytes:
        """Answer it, once it is counted."""

    def again(self, model: JointModel, asked: bytes) -> bytes | None:
        """Give the answer to a question again, to the same tables."""

    def given(self, question: RowQuestion) -> NDArray[np.float64]:
        """Answer openly, by consent."""


class AskingParty:
    """The asking side of questions about one model to one party: with its own store, and the other's name."""

    def __init__(self, model: JointModel, other: Answerer, store: Store, name: str) -> None:
        self._model, self._other, self._store, self._name = model, other, store, name
        self._key = f"{model.digest} {name}"

    def predict(
        self, score: NDArray[np.float64], answer: AnswerKind, names: Sequence[bytes]
    ) -> NDArray[np.float64]:
        """Predictions of different rows with the given names, and F_A as scores."""
        scale, points = self._model.scale, self._model.points
        self._finish()
        if answer in OPEN:
            places = self._places(names, [_key(answer, b"")] * len(names))
            found = self._answers(answer, names, places, None)
            return predictions(score + _checked_part(found, answer, points), scale)
        tables = answer_tables(score, points, answer, scale)
        places = self._places(names, [_key(answer, row.tobytes()) for row in tables])
        if answer is AnswerKind.LABEL:
            self._keep_labels(score, names, places)
        found = self._answers(answer, names, places, tables)
        return read_answers(found.astype(np.uint64), answer, scale)

    def _keep_labels(
        self, score: NDArray[np.float64], names: Sequence[bytes], places: Sequence[bytes]
    ) -> None:
        """Keep the labels of rows whose rounded probability is kept: it has the label in it."""
        tables = answer_tables(score, self._model.points, AnswerKind.ROUNDED, self._model.scale)
        rounded = self._places(names, [_key(AnswerKind.ROUNDED, row.tobytes()) for row in tables])
        levels = self._kept(rounded)
        known = np.flatnonzero(~np.isnan(levels)).tolist()
        labels = (levels[known] > LEVELS // 2).astype(np.float64)
        self._keep([places[k] for k in known], labels)

    def _answers(
        self,
        answer: AnswerKind,
        names: Sequence[bytes],
        places: Sequence[bytes],
        tables: NDArray[np.uint64] | None,
    ) -> NDArray[np.float64]:
        """Answers about all rows, those not kept from the other party."""
        found = self._kept(places)
        missing = np.flatnonzero(np.isnan(found))
        if len(missing):
            rows, of_rows = ([these[k] for k in missing.tolist()] for these in (names, places))
            question = RowQuestion(self._model, answer, tuple(rows))
            if tables is None:
                self._keep(of_rows, self._other.given(question))
            else:
                self._look_up(question, of_rows, tables[missing])
            found[missing] = self._kept(of_rows)
        return found

    def _look_up(self, question: RowQuestion, places: Sequence[bytes], tables: NDArray[np.uint64]) -> None:
        """Let entries of tables be looked up obliviously."""
        session = self.set_up()
        choices = self._other.choices(question)
        side = AskingSide(session, 1, question.to_bytes(), tables)
        masked = side.masked_tables(choices)
        asked = Asked(question.with_tables(masked), b"".join(places), side.own_shares)
        self._store.put(PENDING, self._key, asked)
        self._take(asked, self._other.shares(masked))

    def set_up(self) -> Session:
        """A session of transfers with the other party."""
        run = os.urandom(DIGEST_BYTES)
        session = opened(run, ASKING_PLACE, KeptFailures(self._store, self._name))
        points = session.take_greeting(self._other.set_up(0, run + session.greeting))
        trees = session.take_points(self._other.set_up(1, points))
        session.take_trees(self._other.set_up(2, trees))
        return session

    def _finish(self) -> None:
        """Ask again for the answer to a question under way, which the other party may have counted."""
        asked = self._store.get(PENDING, self._key)
        if asked is None:
            return
        shares = self._other.again(self._model, asked.digest)
        if shares is None:
            # The tables never came, so that nothing was counted.
            self._store.delete(PENDING, self._key)
        else:
            self._take(asked, shares)

    def _take(self, asked: Asked, shares: bytes) -> None:
        entries = entries_of(asked.own, shares).astype(np.float64)
        with self._store.transaction():
            self._keep(_parts(asked.places), entries)
            self._store.delete(PENDING, self._key)

    def _keep(self, places: Sequence[bytes], values: NDArray[np.float64]) -> None:
        with self._store.transaction():
            for place, value in zip(places, values.tolist(), strict=True):
                self._store.put(KEPT, f"{self._key} {place.hex()}", struct.pack("<d", value))

    def _kept(self, places: Sequence[bytes]) -> NDArray[np.float64]:
        """Kept answers, NaN where there is none."""
        found = np.full(len(places), np.nan)
        for k, place in enumerate(places):
            content = self._store.get(KEPT, f"{self._key} {place.hex()}")
            if content is not None:
                (found[k],) = struct.unpack("<d", content)
        return found

    def _places(self, names: Sequence[bytes], keys: Sequence[bytes]) -> list[bytes]:
        """Names under which answers are kept, of rows and digests of the questions about them."""
        joined = (name + key for name, key in zip(names, keys, strict=True))
        return as_kept(self._store, b"row and question", joined)


def _parts(joined: bytes) -> list[bytes]:
    return [joined[k : k + ROW_BYTES] for k in range(0, len(joined), ROW_BYTES)]


def _checked_part(
    found: NDArray[np.float64], answer: AnswerKind, points: Sequence[float]
) -> NDArray[np.float64]:
    """F_B from open answers."""
    if answer is AnswerKind.SCORE and np.isfinite(found).all():
        return found
    if answer is AnswerKind.POINT and np.isin(found, np.arange(N_POINTS)).all():
        return np.array(points)[found.astype(np.int64)]
    raise InvalidArgumentError(
        f"open answers must be points from 0 to {N_POINTS - 1}, or finite scores: the other party deviated"
    )


def _key(answer: AnswerKind, table: bytes) -> bytes:
    """Digest of a question about one row."""
    return hashlib.sha256(answer.value.encode() + b":" + table).digest()[:ROW_BYTES]
