"""A connection: a fresh session, signed by both sides, and where each of them is in the run.

Four messages each way, in step: greeting with status, points, trees, and a signature of all of these, so that
no one in between has made any of them.  Then both sides know both states, and compare them:

* Both are at one round, with one digest of the roster and all sums so far.  Attempts that were begun are
  abandoned, and stay charged; the next one has a number above all of either side.
* One side has opened the round that is pending on the other one, in the same attempt.  It sends again the
  bytes of the last flight, which it has kept, and both have opened the round.
* Anything else: one of the stores is an older copy, or another run's, and the run stops.  The round that it
  would do again is open on the other side, and the sums would differ by the noise of two attempts alone.

An older copy of a store is noticed before a round is open, too, by what the other side has of it: values that
were released, and charged attempts.  It would release them again, or have left out their charges.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import NoReturn

from gbdt_commons.quoting import quoted
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.engine import Steps
from gbdt_parties.run.flights.frames import FrameKind, Link
from gbdt_parties.run.flights.kept import Kept, Opening
from gbdt_parties.run.flights.terms import SIGNATURE_BYTES, Terms
from gbdt_parties.two_party.life import Failures
from gbdt_parties.two_party.names import DIGEST_BYTES, Step
from gbdt_parties.two_party.session import Draws, Session

ROUND, SET_UP, END = b"round", b"set-up", b"end"
"""Purposes of signatures."""

NOTHING = bytes(DIGEST_BYTES)
_STATUS = struct.Struct(f"<IHHI{DIGEST_BYTES}s{DIGEST_BYTES}s{DIGEST_BYTES}s{SIGNATURE_BYTES}s")
STATUS_BYTES = _STATUS.size
_DOMAIN, _DRAWS = b"veilboost two-party set-up 1", b"veilboost two-party draws of a run 1"


@dataclass(frozen=True)
class Status:
    """Where a side is in the run, as it tells the other one.

    It has the next round, the latest attempt of all and the latest one that was charged, or 0, and the number
    of values that either side has released.  The chain is a digest of the roster and of all opened sums.
    `pending` is the digest of the attempt whose last flight is missing, `latest` of the one that opened the
    last round, and the signature is of this round; zeros stand for none.
    """

    round: int
    attempt: int
    charged: int
    n_values: int
    chain: bytes
    pending: bytes
    latest: bytes
    signature: bytes

    @classmethod
    def of(cls, kept: Kept) -> Status:
        """The state that is kept."""
        opening, pending, n = kept.opening, kept.pending, kept.n_opened
        return cls(
            n,
            kept.last_attempt,
            kept.last_charge,
            kept.n_values,
            kept.chain(n),
            pending.digest if pending else NOTHING,
            opening.digest if opening else NOTHING,
            opening.signature if opening else bytes(SIGNATURE_BYTES),
        )

    def to_bytes(self) -> bytes:
        """`STATUS_BYTES` bytes."""
        return _STATUS.pack(*astuple(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Status:
        """Read what `to_bytes` wrote."""
        return cls(*_STATUS.unpack(data))


def _signed(opening: Opening, result: bytes) -> tuple[bytes, bytes]:
    """Purpose and digest of a signature of a round, which stands for all before, and of a result with it."""
    if not result:
        return ROUND, opening.signed
    return END, hashlib.sha256(length_prefixed([opening.signed, result])).digest()


class Connected:
    """One side of a connection, which `open` must open, and `catch_up` come next.

    The nonce of the session is kept already.  `set_up` is a digest of the messages that opened the session,
    `last_attempt` the latest attempt on either side.
    """

    def __init__(self, link: Link, terms: Terms, kept: Kept, nonce: bytes, failures: Failures) -> None:
        self.link, self._terms, self._kept = link, terms, kept
        self.session = Session(terms.run, terms.own, terms.other, terms.seed, failures, nonce)
        self._said = self._theirs = Status.of(kept)
        self.set_up, self.last_attempt = b"", 0

    def open(self) -> Steps[None]:
        """Open the session.

        A TransferCheckError if the other side's transfers are not consistent, or were not three times before;
        an AuthenticationError if it has not signed its messages.
        """
        link, terms, session, own = self.link, self._terms, self.session, self._said
        said: list[bytes] = []

        def crossed(kind: FrameKind, body: bytes) -> Steps[bytes]:
            link.send(kind, body)
            heard = yield from link.take(kind, len(body))
            said.extend(terms.in_order(body, heard))
            return heard

        heard = yield from crossed(FrameKind.GREETING, session.greeting + own.to_bytes())
        self._theirs = Status.from_bytes(heard[-STATUS_BYTES:])
        points = session.take_greeting(heard[:-STATUS_BYTES])
        trees = session.take_points((yield from crossed(FrameKind.POINTS, points)))
        session.take_trees((yield from crossed(FrameKind.TREES, trees)))
        self.set_up = hashlib.sha256(length_prefixed([_DOMAIN, session.digest, *said])).digest()
        link.send(FrameKind.SEAL, terms.sign(SET_UP, self.set_up))
        seal = yield from link.take(FrameKind.SEAL, SIGNATURE_BYTES)
        terms.check_signature(SET_UP, self.set_up, seal)
        self.last_attempt = max(own.attempt, self._theirs.attempt)

    def draws(self, *purpose: bytes) -> Draws:
        """Draws of this side for one value or attempt, which follow from its seed and the whole set-up."""
        parts = [_DRAWS, self._terms.run, self.session.digest, self.set_up, *purpose]
        return self.session.draws(hashlib.sha256(length_prefixed(parts)).digest())

    def catch_up(self, open_with: Callable[[bytes], None], has_made: Callable[[int], bool]) -> Steps[None]:
        """Compare both sides' states, and send or take again what one of them has missed.

        ``open_with(last)`` opens the round that is pending here, with the message of the last flight.
        ``has_made(attempt)`` says whether all is kept here that this side must have done before the other one
        charged for an attempt.  A ProtocolError stops the run if the two stores are not of one history.
        """
        own, theirs = Status.of(self._kept), self._theirs
        if theirs.attempt > self._terms.max_attempts:
            raise ProtocolError(
                f"the other side claims to have begun attempt {theirs.attempt}; all {self._terms.n_rounds} "
                f"rounds have {self._terms.max_attempts} attempts together"
            )
        if theirs.charged and not has_made(theirs.charged):
            self._stop(f"attempt {theirs.charged} is charged there, and was not made, or charged, here")
        if theirs.round == own.round:
            if theirs.chain != own.chain:
                self._stop(f"the sums of the {own.round} rounds before, or the roster, are other ones there")
            self._check_status(theirs)
        elif theirs.round == own.round - 1 and theirs.pending == own.latest:
            opening = self._kept.opened(theirs.round)
            if theirs.chain != self._kept.chain(theirs.round) or not opening.last:
                self._stop(f"it has lost round {theirs.round}, which is open here")
            self.link.send(FrameKind.AGAIN, opening.last)
        elif theirs.round == own.round + 1 and theirs.latest == own.pending != NOTHING:
            open_with((yield from self.link.take(FrameKind.AGAIN)))
        else:
            self._stop(f"it is at round {theirs.round}, and this side at round {own.round}")

    def check_release(self, number: int) -> None:
        """Stop the run if a value that this side is about to release is one that the other side has."""
        if number < self._theirs.n_values:
            self._stop(f"value {number} was released before, and is not kept here")

    def _check_status(self, theirs: Status, result: bytes = b"") -> None:
        """Check and keep the other side's signature of the last round, and of its result if there is one."""
        opening = self._kept.opening
        if opening is not None:
            self._terms.check_signature(*_signed(opening, result), theirs.signature)
            self._kept.countersign(theirs.signature)

    def send_status(self, kind: FrameKind, step: Step, result: bytes = b"") -> None:
        """Tell the other side where this one is, and a digest of its result if there is one, signed."""
        status, opening = Status.of(self._kept), self._kept.opening
        if result and opening is not None:
            status = replace(status, signature=self._terms.sign(*_signed(opening, result)))
        self.link.send(kind, result + status.to_bytes(), step)

    def take_status(self, kind: FrameKind, step: Step, result: bytes = b"") -> Steps[None]:
        """Check that the other side is where this one is, with the same sums and the same result, signed."""
        own = Status.of(self._kept)
        body = yield from self.link.take(kind, len(result) + STATUS_BYTES, step)
        theirs = Status.from_bytes(body[len(result) :])
        # The step, which has the attempt, was compared; one side charges before the other one.
        if replace(theirs, attempt=own.attempt, charged=own.charged, signature=own.signature) != own:
            self._stop("it has opened other sums, or fewer")
        self._check_status(theirs, body[: len(result)])
        if body[: len(result)] != result:
            raise ProtocolError(
                f"party {quoted(self._terms.name)!r} has another result of all rounds than this side"
            )

    def _stop(self, reason: str) -> NoReturn:
        raise ProtocolError(
            f"the run with party {quoted(self._terms.name)!r} stops, since the stores of both sides are not "
            f"of one history: {reason}; begin a new run, unless the newer store is found again"
        )
