"""An auditor's repetition of one party's side of a run, to the byte.

The auditor has the party's seed and data, its kept events, and the messages that it received; the nonces of
sessions are among the events.  Sessions, values, attempts and signatures follow from these alone: the draws
from HKDF of seed and set-up, Ed25519 signatures from key and text, and what comes before a connection from
the events before it.

*If they agree*, the party has sent the messages of an honest party with that seed and those data, in
every connection, and kept the events of one.  Its seed and the messages of the set-up determine its noise.
*The record cannot be made up*: the other party signs the digest of all messages of a round, in both
directions, and the repetition checks these signatures as the party did.  Without the other party's key no
other messages pass for those of a round that is over.
*The noise was not chosen*: a party must send its nonce before it knows which messages the other one makes of
it, and these are in the set-up, too (`driver`).
*Not covered*: connections that a party broke off before it liked its noise, and left out of its record (the
other party has them in its own); the end of a connection that was lost; messages after the last round, which
were not signed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest
from struct import error as StructError
from typing import NoReturn

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import MemoryStore, Store
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.run.engine import Steps, carried_out
from gbdt_parties.run.flights.driver import Exchange
from gbdt_parties.run.flights.frames import HEADER_BYTES, STOPPED, FrameKind, heading
from gbdt_parties.run.flights.kept import (
    EVENTS,
    Charge,
    Connection,
    Kept,
    Opening,
    RoundAttempt,
    Signature,
    Value,
)
from gbdt_parties.run.record import KeptExchange, summary
from gbdt_parties.run.replay import Compared, DifferenceError, Replay

Begin = Callable[[Store], Exchange]
"""Gives the party's side, on a store of the auditor."""

Train = Callable[[Exchange], Steps[object]]
"""Asks for values and rounds, with the party's data, as the party does."""


class ComparedFlights:
    """A channel that gives what a party heard, and compares all that is said with what it said.

    The exchanges are those of one connection, in the order in which the party sent and received them; `done`
    counts what agrees.
    """

    def __init__(self, exchanges: Iterator[KeptExchange], connection: int, done: Compared) -> None:
        self._exchanges, self._connection, self._done = exchanges, connection, done
        self._is_over, self._difference = False, ""

    def send(self, message: bytes) -> None:
        """Compare a message with the next one of the record."""
        if self._is_over:
            return
        kept = next(self._exchanges, None)
        if kept is None and heading(message)[0] == FrameKind.REFUSAL:
            self._differs(message, "refuses what the record says was received")
        if kept is None or has_stopped(kept.sent):
            self._end()
        if kept.sent != summary(message):
            self._differs(message if kept.was_refused else kept.sent, _DIFFERS)
        self._done.n_messages += 1
        self._done.n_bytes += len(message)

    def hand_over(self) -> None:
        """Nothing to compare."""

    def receive(self) -> bytes:
        """The next message that the party heard."""
        kept = None if self._is_over else next(self._exchanges, None)
        if kept is None or has_stopped(kept.sent):
            self._end()
        if not kept.was_refused:
            self._differs(kept.sent, _UNREACHED)
        return kept.received

    def check_end(self) -> None:
        """Check that nothing else was said or heard, but that the party had to stop."""
        if self._difference:
            # A refusal that differs was made while another error was on its way.
            raise DifferenceError(self._difference)
        for kept in () if self._is_over else self._exchanges:
            if kept.was_refused:
                self._differs(kept.received, "was received, and is not one that was waited for")
            if not has_stopped(kept.sent):
                self._differs(kept.sent, _UNREACHED)

    def _end(self) -> NoReturn:
        """The process, or the connection, ended here."""
        self._is_over = True
        raise PartyUnavailableError("the record of this connection ends here")

    def _differs(self, message: bytes, how: str) -> NoReturn:
        self._is_over = True
        self._difference = f"{_name(message, self._connection)} {how}"
        raise DifferenceError(self._difference)


_DIFFERS = "is not what follows from the party's keys, rows and received messages"
_UNREACHED = "was sent, and does not follow from the messages that are kept"


def has_stopped(kept: bytes) -> bool:
    """Whether a summary is of the refusal of a party that had to stop, as when it was interrupted."""
    body = STOPPED.encode()
    return kept == summary(kept[:HEADER_BYTES] + body) and heading(kept)[0] == FrameKind.REFUSAL


def _name(message: bytes, connection: int) -> str:
    """A message by its place in a run."""
    try:
        kind, step, number = heading(message)
        name = FrameKind(kind).name.lower()
    except (ValueError, StructError):
        return f"a message of connection {connection} that is no message of a run"
    place = f" of round {step.round}, attempt {step.attempt}, flight {step.flight}," if step.attempt else ""
    return f"message {number} ({name}){place} in connection {connection}"


def replay(
    kept: Kept, connection: int, channel: ComparedFlights, begin: Begin, train: Train
) -> tuple[Store, bool]:
    """Repeat a party's process in one connection: its events afterwards, and whether it came to its end.

    The channel gives all messages that the party received, and then raises a PartyUnavailableError.  It gets
    those that an honest party sent; a process that crashed has sent the first ones.
    """
    before, (begun, *_) = kept.connection(connection)
    assert isinstance(begun, Connection)
    store = MemoryStore()
    exchange = begin(store)
    for event in before:
        store.append(EVENTS, "", event)

    try:
        carried_out(exchange.over(channel, train, begun.nonce), channel.receive)
    except VeilboostError:
        # The connection is lost, or either party has refused: that was said, or heard.
        return store, False
    return store, True


_NAMES = {
    Connection: "connection",
    Value: "value",
    RoundAttempt: "attempt",
    Charge: "charge",
    Opening: "round",
    Signature: "signature of round",
}


def _check_events(kept: Kept, connection: int, again: Store) -> None:
    """Check that a connection has added the events that its repetition adds.

    A repetition may keep one thing more: it goes on from the last message to the next one, and the party's
    process may have ended between them.
    """
    events, grown = kept.connection(connection)
    before, made = Counter(map(type, events)), [*again.entries(EVENTS, "")][len(events) :]
    for one, other in zip_longest(grown, made[: len(grown)]):
        name = f"{_NAMES[type(one)]} {before[type(one)]}, kept in connection {connection},"
        before[type(one)] += 1
        if other is None:
            raise DifferenceError(f"{name} is not reached by the messages that are kept of it")
        if one != other:
            raise DifferenceError(f"{name} {_DIFFERS}")


def compared(kept: Kept, begin: Begin, train: Train) -> Replay:
    """Repeat a party's side of a whole run, and compare it with the party's record."""
    done, agreed, has_ended, difference = Compared(), Counter[type](), False, None
    try:
        for number in range(kept.n_connections):
            channel = ComparedFlights(kept.record.of_process(number), number, done)
            store, has_ended = replay(kept, number, channel, begin, train)
            channel.check_end()
            _check_events(kept, number, store)
            agreed.update(map(type, kept.connection(number)[1]))
            done.n_connections += 1
    except DifferenceError as error:
        difference, has_ended = str(error), False
    return done.report(agreed[Opening], agreed[RoundAttempt], has_ended, difference)
