"""One side of a run, round by round: each is charged for before noise leaves, and opened once.

The trainer of either party asks for the sums of one round after the other.  Rounds that are over are answered
from the store, so that a trainer that is started again asks for all of them from the first one, and goes on
where the run was.

* *No two noised shares for one attempt.*  An attempt's number is kept before its first message, above those
  of all attempts on either side; it is charged at most once, and shares leave after it was charged.
* *No noise twice, and none that was chosen.*  All that is drawn for a value or an attempt comes from HKDF of
  the seed, with a digest as salt that stands for the run, the whole set-up of the session, and the value or
  the attempt with its layout and all sums before.  Messages of the set-up contain a fresh nonce of each side,
  and others that each has made after it knew the other one's: neither side can try nonces by itself.  One
  that breaks off sessions until it likes its noise is seen by the other one, each time.
* *Charges count where noise may have left*: the charge, and the shares, are one transaction before.
* *One opening.*  A round is opened in the transaction that keeps its sums; its number does not come back.
* *Both open the same.*  The side with tables opens first, and keeps the message by which the other one opens,
  before it sends it; the other one keeps its noised shares before it sends them.  So a side that has missed
  the last flight can do with that message, and nothing else, whatever else was lost.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from gbdt_commons.files import is_out_of_room
from gbdt_commons.key_stream import KeyStream, this_process
from gbdt_commons.store import Store
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import (
    PartyArgumentError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    SumRangeError,
)
from gbdt_parties.run.engine import Steps
from gbdt_parties.run.flights.connection import ROUND, Connected
from gbdt_parties.run.flights.frames import NO_STEP, STOPPED, FrameChannel, FrameKind, Link, check_process
from gbdt_parties.run.flights.kept import Charge, Kept, Opening, RoundAttempt
from gbdt_parties.run.flights.terms import SIGNATURE_BYTES, Terms
from gbdt_parties.two_party.layout import RoundLayout
from gbdt_parties.two_party.life import Failures, Unrepeatable
from gbdt_parties.two_party.names import DIGEST_BYTES, Step
from gbdt_parties.two_party.pads import Words
from gbdt_parties.two_party.rounds import PointSide, Tables, TableSide
from gbdt_parties.two_party.session import Draws
from gbdt_parties.two_party.sides import (
    CHOICES,
    LAST,
    SUMS,
    TABLES,
    Leaves,
    RoundSide,
    opened_sums,
    shares_in,
)

_ROUND = b"veilboost two-party round 1"
T = TypeVar("T")

Check = Callable[[bytes, Sequence[Words]], None]
"""Raises a SumRangeError if opened sums are out of the range that public numbers give."""

Pay = Callable[[], None]
"""Charges for one attempt; what it writes to the store is part of the attempt's transaction."""

KeepCharge = Callable[[bytes, bytes], None]
"""Charges for an attempt, and keeps the noised shares that are about to leave, and those that came."""


def _passes(error: BaseException) -> bool:
    """Whether an error ends by itself: to the other side, this one is lost meanwhile, and does not refuse."""
    is_full = isinstance(error, OSError) and is_out_of_room(error)
    return is_full or isinstance(error, PartyUnavailableError)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of one side to one attempt, as of `rounds.TableSide` or `rounds.PointSide` and in their order.

    The secret gives tables at the one side, and is the points of the other.
    """

    secret: Tables | Leaves = field(repr=False)
    leaves: Sequence[Leaves] = field(repr=False)
    noise: Sequence[Words] = field(repr=False)


@dataclass(frozen=True)
class Flights:
    """Messages of one attempt between a link and a side, `n_chunks` a flight that is about every row."""

    link: Link
    side: RoundSide
    step: Step
    n_chunks: int

    def send(self, flight: int) -> None:
        """Send a flight but for its shares, each message as soon as it is made.

        Of tables, the other side gets all but the last ones, which its shares follow, while others are made.
        """
        for k, message in enumerate(self.side.send(flight)):
            self.link.send(FrameKind.ROUND, message, self._at(flight))
            if flight == TABLES and k < self.n_chunks - 1:
                self.link.hand_over()

    def answer(self, flight: int) -> Steps[None]:
        """Take the flight before, and send the part of this one about the same rows after each message."""
        said = self.side.send(flight)
        for _ in range(self.n_chunks):
            self.side.take((yield from self.link.take_view(FrameKind.ROUND, self._at(flight - 1))))
            for message in islice(said, 1):
                self.link.send(FrameKind.ROUND, message, self._at(flight))
        next(said, None)  # which ends it

    def take(self, flight: int, *, has_rows: bool) -> Steps[None]:
        """Take a flight but for its shares."""
        for _ in range((flight == CHOICES) + has_rows * self.n_chunks):
            self.side.take((yield from self.link.take_view(FrameKind.ROUND, self._at(flight))))

    def send_shares(self, flight: int, shares: bytes) -> None:
        """Send the last message of a flight."""
        self.link.send(FrameKind.SHARES, shares, self._at(flight))

    def take_shares(self, flight: int) -> Steps[bytes]:
        """Take the last message of a flight."""
        return self.link.take(FrameKind.SHARES, step=self._at(flight))

    def _at(self, flight: int) -> Step:
        return replace(self.step, flight=flight)


class Exchange(ABC, Unrepeatable):
    """One side of a run, in steps that stop where a message is due.

    Charges are written to the file of the run's store.  `failures` are those of checks on transfers with the
    other party, over all runs.  `check` raises a SumRangeError if a round's opened sums are out of the range
    that its public numbers give, with room for both noises.  All messages are kept if `is_recorded`, for an
    auditor.
    """

    _own_party: int
    """Number of this side in the layouts' parties."""

    _side: Callable[..., RoundSide]
    """Makes this side of an attempt."""

    def __init__(
        self, terms: Terms, store: Store, failures: Failures, check: Check, is_recorded: bool = False
    ) -> None:
        self._terms, self._check, self._failures = terms, check, failures
        self.kept, self._process = Kept(store, terms), this_process()
        self._record = self.kept.record if is_recorded else None
        self._connected: Connected | None = None

    def over(
        self, channel: FrameChannel, train: Callable[[Exchange], Steps[T]], nonce: bytes | None = None
    ) -> Steps[T]:
        """One connection: a session with the other party, and the training that asks for values and rounds.

        A round that the other side has opened, and this one has not, is open before `train` begins. The nonce
        of the session is that of an auditor who repeats it, by default 32 bytes of the operating system. Any
        error ends the session; the other side hears of one that it should know about.

        Raises PartyUnavailableError if the connection is lost: training begins again over another one. Raises
        TransferCheckError, AuthenticationError, PartyRefusedError or ProtocolError if the other party refuses
        or deviates, or its store is not of this run's history.
        """
        check_process(self._process)
        link = Link(channel, self._terms.name, self._record)
        nonce = os.urandom(DIGEST_BYTES) if nonce is None else nonce
        connected: Connected | None = None
        try:
            self.kept.connect(nonce, self._record)
            connected = Connected(link, self._terms, self.kept, nonce, self._failures)
            yield from connected.open()
            yield from connected.catch_up(self._open_pending, self._has_made)
            self._connected = connected
            return (yield from train(self))
        except Exception as error:
            if not isinstance(error, PartyRefusedError) and not _passes(error):
                # Other texts may quote data, or sums that the other side has not opened.
                is_of_protocol = isinstance(error, ProtocolError) and not isinstance(error, SumRangeError)
                link.refuse(str(error) if is_of_protocol else STOPPED)
            raise
        finally:
            self._connected = None
            if connected is not None:
                connected.session.life.end("the connection has ended")

    def round(
        self,
        number: int,
        layout: RoundLayout,
        inputs: Callable[[Draws], Inputs],
        pay: Pay,
        public: bytes = b"",
    ) -> Steps[list[Words]]:
        """Sums of a round, the next one or one before: as they were opened, or of an attempt made now.

        Noise and dither of the inputs are drawn from `draws`, whose nonce is the attempt's digest. `pay`
        charges for the attempt, in the transaction before its first noised share leaves; if it raises an
        error, nothing has left. Sums are checked by the public numbers, also if they are opened after a
        restart. They have both noises, and are the same on both sides.

        Raises PartyUnavailableError if the connection is lost, or there is none, SumRangeError if the sums
        are out of range (the attempt is charged, and not opened), and OSError if there is no room to keep the
        attempt: nothing noised has left. Raises TransferCheckError, AuthenticationError, PartyRefusedError or
        ProtocolError if the other party deviates, or refuses; or if `number` or `layout` is none that is due,
        or no attempt is left.
        """
        check_process(self._process)
        if not 0 <= number <= self.kept.n_opened or number >= self._terms.n_rounds:
            raise ProtocolError(
                f"round {number} was asked for; {self.kept.n_opened} of {self._terms.n_rounds} are over"
            )
        own, other = layout.parties[self._own_party], layout.parties[1 - self._own_party]
        if (own, other) != (self._terms.own, self._terms.other):
            raise PartyArgumentError("the parties of the layout are not those of the run")
        if number == self.kept.n_opened:
            yield from self._attempt(self._connection(), layout, inputs, pay, public)
        opening, trees = self.kept.opened(number), range(len(layout.trees))
        if opening.layout != layout.to_bytes():
            raise ProtocolError(f"round {number} was opened with another layout")
        return list(shares_in(opening.sums, layout, trees).values())

    def value(
        self,
        number: int,
        n_bytes: int,
        check: Callable[[bytes], None],
        make: Callable[[KeyStream], bytes] | None,
    ) -> Steps[bytes]:
        """Value that one side releases, once, and both keep: the same bytes on every connection.

        Both sides ask for the same values, in the same order, on each connection, so that each is given again
        there. Its owner's `make` draws it from a stream of this party's seed and the set-up, and charges for
        it; it is kept with its charge before it leaves for the first time. The other side has no `make`, and
        `check` raises a ProtocolError if the content is not one that may be.

        Raises ProtocolError if it has another length, is refused by `check`, or was another one before; or,
        before anything is drawn, if the other side has it and this one has lost it. Other errors are those of
        `round`.
        """
        check_process(self._process)
        connected, kept = self._connection(), self.kept.value(number)
        if make is not None:
            if kept is None:
                connected.check_release(number)
                stream = connected.draws(b"value", number.to_bytes(4, "little")).stream(b"value")
                kept = self.kept.release(number, lambda: make(stream))
            connected.link.send(FrameKind.VALUE, kept)
            return kept
        content: bytes = yield from connected.link.take(FrameKind.VALUE, n_bytes)
        check(content)
        if kept is None:
            return self.kept.release(number, lambda: content)
        if content != kept:
            raise ProtocolError(
                f"party {self._terms.name!r} releases another value {number} than before: its store "
                "is an older copy, or it has drawn noise again"
            )
        return content

    def end(self, result: bytes = b"") -> Steps[None]:
        """Exchange signatures of the last round with the other side, after all rounds, and of their result.

        Raises ProtocolError if rounds are left here or there, or the other side has another result; other
        errors are those of `round`.
        """
        check_process(self._process)
        if self.kept.n_opened < self._terms.n_rounds:
            raise ProtocolError(f"{self.kept.n_opened} of {self._terms.n_rounds} rounds are over")
        connected, digest = self._connection(), hashlib.sha256(result).digest()
        connected.send_status(FrameKind.END, NO_STEP, digest)
        yield from connected.take_status(FrameKind.END, NO_STEP, digest)

    def _connection(self) -> Connected:
        if self._connected is None:
            raise PartyUnavailableError(f"there is no connection with party {self._terms.name!r}")
        return self._connected

    # One attempt.

    def _attempt(
        self,
        connected: Connected,
        layout: RoundLayout,
        inputs: Callable[[Draws], Inputs],
        pay: Pay,
        public: bytes,
    ) -> Steps[None]:
        number, k = self.kept.n_opened, connected.last_attempt + 1
        # WORKING: the number is spent before a message has it.
        self.kept.begin(RoundAttempt(number, k))
        connected.last_attempt = k
        step, text = Step(number, k, 0), layout.to_bytes()
        draws = connected.draws(b"attempt", step.to_bytes(), self.kept.chain(number), text)
        drawn = inputs(draws)
        given = drawn.secret, drawn.leaves, drawn.noise
        side = self._side(connected.session, layout, number, k, *given, draws.nonce)
        # Flights cross: nothing of the other side's is awaited before this one's is under way.
        connected.send_status(FrameKind.BEGIN, step)
        flights = Flights(connected.link, side, step, len(layout.chunks))
        flights.send(CHOICES)
        connected.link.hand_over()
        yield from connected.take_status(FrameKind.BEGIN, step)

        def charge(own: bytes, heard: bytes) -> None:
            record = Charge(
                number, k, self._terms.peer, draws.nonce, text, public, side.transcript, own, heard
            )
            self.kept.charge(record, pay)

        yield from self._play(flights, layout, charge)

    @abstractmethod
    def _play(self, flights: Flights, layout: RoundLayout, charge: KeepCharge) -> Steps[None]:
        """Take the other side's choices, and do everything up to the opening."""

    @abstractmethod
    def _has_made(self, attempt: int) -> bool:
        """Whether all is kept that this side does before the other one charges for an attempt."""

    @abstractmethod
    def _open_pending(self, message: bytes) -> None:
        """Open the round that is pending with the message of the last flight, which may be of another day."""

    def _opening(self, charge: Charge, transcript: bytes, sums: Sequence[Words], last: bytes) -> Opening:
        """The record of a round that is opened, without the message of the last flight, of shares `last`.

        The transcript is a digest of all other messages.  A SumRangeError if the sums are out of range.
        """
        self._check(charge.public, sums)
        words = b"".join(one.astype("<u8").tobytes() for one in sums)
        chain = self.kept.chain_with(charge.digest, charge.layout, words)
        parts = [_ROUND, charge.digest, transcript, last, chain]
        signed = hashlib.sha256(length_prefixed(parts)).digest()
        signature = self._terms.sign(ROUND, signed)
        return Opening(charge.number, charge.digest, charge.layout, words, chain, signed, signature, b"")


class TableExchange(Exchange):
    """The side with tables, which is the first one of all layouts; it opens first."""

    _own_party, _side = 0, TableSide

    def _play(self, flights: Flights, layout: RoundLayout, charge: KeepCharge) -> Steps[None]:
        side, has_trees = flights.side, bool(layout.owned_by(self._terms.own.place))
        yield from flights.take(CHOICES, has_rows=True)
        flights.send(TABLES)
        # CHARGED, before the first shares leave; those of its own trees cannot be known yet.
        shares = side.shares(TABLES)
        charge(shares, b"")
        flights.send_shares(TABLES, shares)
        yield from flights.take(SUMS, has_rows=has_trees)
        side.take((yield from flights.take_shares(SUMS)))
        transcript, pending = side.transcript, self.kept.pending
        last = side.shares(LAST)
        assert pending is not None
        opening = self._opening(pending, transcript, side.opened, last)
        message = last + opening.signature
        # OPENED, with what opens it on the other side.
        self.kept.open(replace(opening, last=message), None)
        flights.send_shares(LAST, message)
        # The other side goes on to the next round while this one does.
        flights.link.hand_over()

    def _has_made(self, attempt: int) -> bool:
        return self.kept.has(Charge, attempt)

    def _open_pending(self, message: bytes) -> None:
        raise ProtocolError("the other side has opened a round before this one could")


class PointExchange(Exchange):
    """The side with points, which is the second one of all layouts; it opens with the last flight."""

    _own_party, _side = 1, PointSide

    def _play(self, flights: Flights, layout: RoundLayout, charge: KeepCharge) -> Steps[None]:
        side = flights.side
        yield from flights.take(CHOICES, has_rows=bool(layout.owned_by(self._terms.other.place)))
        yield from flights.answer(SUMS)
        heard = yield from flights.take_shares(TABLES)
        side.take(heard)
        # CHARGED, before the shares leave, with all that opens the round but the last flight.
        shares = side.shares(SUMS)
        charge(shares, heard)
        flights.send_shares(SUMS, shares)
        self._open_pending((yield from flights.take_shares(LAST)))

    def _has_made(self, attempt: int) -> bool:
        return self.kept.has(RoundAttempt, attempt)

    def _open_pending(self, message: bytes) -> None:
        charge = self.kept.pending
        assert charge is not None
        layout = RoundLayout.from_bytes(charge.layout)
        own, other = layout.owned_by(self._terms.own.place), layout.owned_by(self._terms.other.place)
        last, signature = message[:-SIGNATURE_BYTES], message[-SIGNATURE_BYTES:]
        theirs = shares_in(charge.heard, layout, own) | shares_in(last, layout, other)
        ours = shares_in(charge.own, layout, range(len(layout.trees)))
        opening = self._opening(charge, charge.transcript, opened_sums(layout, ours, theirs), last)
        self._terms.check_signature(ROUND, opening.signed, signature)
        self.kept.open(opening, signature)
