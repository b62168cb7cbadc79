"""Entries of secret tables at secret points, opened to the side with the tables: a question about some rows.

Functionality: A has a table T_i of numbers below 2^48 for every row i, B has a point p_i; afterwards A has
T_i[p_i], and B nothing.

Source: `lookups`, with B's share opened to A.

1. B → A: transfers chosen with points.
2. A → B: masked tables.
3. B → A: shares.

* *A has its entries*: its share and B's add up to the entry modulo 2^48 (`lookups`).
* *A learns no more*: B's share is sent modulo 2^48, so that it is the entry less A's own share, and A has
  both.  Its higher bits would tell the point.  B's transfers look uniform.
* *B learns nothing*: of masked tables it can read one entry, less A's share (`lookups`).
* *Lengths are public*: they follow from the numbers of rows and points.
* *A that deviates* puts other numbers into its tables, at most one to tell each point from the others: it
  then has the points.  So they must be all that it may ever learn, and fixed for a row.
* *Nothing repeats*: a question is a round of its session, and no round or attempt begins twice.
* *Nothing is lost*: a side that keeps its shares and its message can send the message again after its session
  is over; the other side, which has kept its own last message, gives that again, and computes nothing.
"""

from __future__ import annotations

import hmac

import numpy as np

from gbdt_kernels.transfers.columns import choice_words
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.extension import Batch
from gbdt_parties.two_party.life import Unrepeatable
from gbdt_parties.two_party.lookups import LookupReceiver, LookupSender, bits_of, keys_of
from gbdt_parties.two_party.names import DIGEST_BYTES, Step
from gbdt_parties.two_party.pads import Pads, Words
from gbdt_parties.two_party.session import Session
from gbdt_parties.two_party.sides import Leaves, checked_numbers

RING_BITS = 48
MAX_ROWS = 1 << 16
"""Of one question."""

_CHOICES, _TABLES = 1, 2
_MASK = np.uint64((1 << RING_BITS) - 1)


def _check_rows(n_rows: int) -> None:
    if not 1 <= n_rows <= MAX_ROWS:
        raise PartyArgumentError(f"n_rows={n_rows} of a question must be 1 to {MAX_ROWS}")


def entries_of(own: Words, shares: bytes) -> Words:
    """Each row's entry, by `AskingSide.own_shares` and the last message; `ProtocolError` if too long."""
    n_rows, n_parts = len(own), RING_BITS // 16
    if len(shares) != n_rows * RING_BITS // 8:
        raise ProtocolError(f"shares of {n_rows} answers have {len(shares)} bytes")
    words = np.zeros((n_rows, 4), dtype="<u2")
    words[:, :n_parts] = np.frombuffer(shares, dtype="<u2").reshape(n_rows, n_parts)
    return np.asarray(words.view("<u8")[:, 0].astype(np.uint64) + own & _MASK)


class _Question(Unrepeatable):
    """Common to both sides: sizes, the session's round, and which message is due."""

    def __init__(self, session: Session, number: int, question: bytes, n_rows: int, n_points: int) -> None:
        self._n_words = bits_of(n_points) * -(-n_rows // 64)
        session.begin(number, 0)
        self._session, self._n_rows, self._n_points, self._stage = session, n_rows, n_points, 0
        self._batch = Batch(Step(number, 0, _CHOICES), 0)
        sizes = n_rows.to_bytes(4, "little") + n_points.to_bytes(2, "little")
        self._head = self._batch.digest(session.digest, b"question", sizes, question)

    def _pads(self, context: bytes) -> Pads:
        return Pads(context, Step(self._batch.step.round, 0, _TABLES), b"answers")

    def _turn(self, stage: int) -> None:
        if self._stage != stage:
            raise ProtocolError(f"message {stage + 1} of a question is not due, or was there before")
        self._stage += 1


class AskingSide(_Question):
    """The side with tables, which learns the entries, in an open session.

    No round of the session had the number of the question.  `question` is what both sides must agree on: the
    model, the rows and the kind of answer.  The tables, shape (n_rows, n_points), are below 2**48.  Once this
    side's message is made, `own_shares` has its shares: to be kept where the message is.
    """

    def __init__(self, session: Session, number: int, question: bytes, tables: Words) -> None:
        if tables.ndim != 2 or tables.dtype != np.uint64 or (tables > _MASK).any():
            raise PartyArgumentError("tables of a question must be uint64 below 2**48, a row for each row")
        _check_rows(len(tables))
        super().__init__(session, number, question, *tables.shape)
        self._tables, self.own_shares = tables, np.empty(0, dtype=np.uint64)

    def masked_tables(self, choices: bytes) -> bytes:
        """Take the other side's first message; gives this side's only one.

        Raises `TransferCheckError` if the transfers are not consistent, and the session is then over.  Raises
        `ProtocolError` if the other side answers another question, or the message has another length.
        """
        with self._session.life.held():
            self._turn(0)
            if not hmac.compare_digest(choices[:DIGEST_BYTES], self._head):
                raise ProtocolError("the other side answers another question than this side's")
            sender = self._session.sender
            rows = sender.extend(self._batch, self._n_words, choices[DIGEST_BYTES:])
            lookup = LookupSender(
                self._pads(self._session.sending), sender.difference, self._n_points, RING_BITS
            )
            keys = keys_of(rows, self._n_points)
            shares, message = lookup.answer(keys, 0, self._tables[:, :, None])
            self.own_shares = shares[:, 0]
            return bytes(message)

    def entries(self, shares: bytes) -> Words:
        """The entries, (n_rows,), from the other's last message; `ProtocolError` for another length."""
        with self._session.life.held():
            self._turn(1)
            return entries_of(self.own_shares, shares)


class AnsweringSide(_Question):
    """The side with points, which learns nothing; session, number and question are as of `AskingSide`.

    A nonce is given by an auditor who repeats the answer; that of any answer is to be recorded.
    """

    def __init__(
        self,
        session: Session,
        number: int,
        question: bytes,
        points: Leaves,
        n_points: int,
        nonce: bytes | None = None,
    ) -> None:
        _check_rows(len(points))
        self._points = checked_numbers("points", points, len(points), n_points)
        super().__init__(session, number, question, len(points), n_points)
        self._draws = session.draws(nonce)
        self.nonce, self._keys = self._draws.nonce, np.empty((0, 2), dtype=np.uint64)

    def choices(self) -> bytes:
        """Make the first message; raises `ProtocolError` if it was made before."""
        with self._session.life.held():
            self._turn(0)
            words = np.empty(self._n_words, dtype=np.uint64)
            choice_words(self._points, bits_of(self._n_points), False, words)
            spare = self._draws.stream(b"spare choices", self._session.digest, self._batch.to_bytes())
            rows, message = self._session.receiver.extend(self._batch, words, spare)
            self._keys = keys_of(rows, self._n_points)
            return self._head + message

    def shares(self, masked_tables: bytes) -> bytes:
        """Take the other side's message; gives this side's last one, which opens the entries.

        The caller counts the question before it is sent.  Raises `ProtocolError` if the message has another
        length.
        """
        with self._session.life.held():
            self._turn(1)
            pads = self._pads(self._session.receiving)
            lookup = LookupReceiver(pads, self._n_points, 1, RING_BITS)
            words = lookup.take(self._keys, 0, self._points, masked_tables).astype("<u8")
            return np.ascontiguousarray(words.view("<u2")[:, : RING_BITS // 16]).tobytes()
