"""The events that one party keeps of its run with another one, from which the state of the run follows.

There are connections with their nonces, values that either party has released before the rounds, attempts
that were begun, attempts that were charged with the shares that left for them, opened sums, and the other
party's signatures of them.  So the state is

* IDLE: no attempt at the next round was begun;
* WORKING: the latest attempt is at the next round, and was not charged;
* CHARGED: it was charged.  Its shares leave afterwards, so that after a crash they may have left;
* OPENED: its sums are kept, and the next round is another one.

A crash in WORKING or CHARGED abandons the attempt, but for one case: if the other side has opened it, it has
this side's shares, and sends again those of its own that are missing here.  No sums without noise are kept,
and no noise: an auditor draws it again from the seed and the sessions' nonces.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from typing import Any, TypeVar

from gbdt_commons.store import Kind, Store, bytes_kind
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.flights.terms import Terms
from gbdt_parties.run.record import MessageRecord
from gbdt_parties.two_party.life import Failures

_OPENED = b"veilboost two-party opened 1"

T = TypeVar("T")


@dataclass(frozen=True)
class Connection:
    """A connection that is about to be made, with the nonce of its session."""

    nonce: bytes


@dataclass(frozen=True)
class Value:
    """A value that either party has released."""

    content: bytes


@dataclass(frozen=True)
class RoundAttempt:
    """An attempt that was begun; attempts are numbered through from 1 on, over all rounds."""

    round: int
    number: int


@dataclass(frozen=True)
class Charge:
    """An attempt that was charged, as it was before its first noised share left.

    Its digest is of the set-up of its session, its number, its layout, and all sums before; the transcript
    is one of all messages so far, those with the shares included.  `public` has the numbers that opened sums
    are checked by, `own` and `heard` the noised shares of both sides.
    """

    round: int
    number: int
    peer: str
    digest: bytes
    layout: bytes
    public: bytes
    transcript: bytes
    own: bytes
    heard: bytes


@dataclass(frozen=True)
class Opening:
    """A round that is over.

    Number and digest are those of its attempt.  It has the opened sums of all trees, as words of 8 bytes; the
    chain, a digest of the roster and of all sums up to these; the digest of the whole round, which both sign,
    with the signature of this party; and the message of the last flight, if this side sends it, to be sent
    again to a side that has missed it.
    """

    number: int
    digest: bytes
    layout: bytes
    sums: bytes
    chain: bytes
    signed: bytes
    signature: bytes
    last: bytes


@dataclass(frozen=True)
class Signature:
    """The other party's signature of a round that is over; of the last one, it may be that of the end."""

    content: bytes


Event = Connection | Value | RoundAttempt | Charge | Opening | Signature
_TYPES = {cls.__name__: cls for cls in (Connection, Value, RoundAttempt, Charge, Opening, Signature)}


def _written(event: Event) -> bytes:
    values = [value.hex() if isinstance(value, bytes) else value for value in astuple(event)]
    return json.dumps([type(event).__name__, *values]).encode()


def _read(content: bytes) -> Event:
    name, *values = json.loads(content)
    cls: Any = _TYPES[name]
    pairs = zip(fields(cls), values, strict=True)
    event: Event = cls(*(bytes.fromhex(value) if f.type == "bytes" else value for f, value in pairs))
    return event


EVENTS = Kind[Event]("events of two parties", _written, _read)
_FAILURES = bytes_kind("two-party failure")


class KeptFailures(Failures):
    """Failed checks on transfers with one party, over all its runs in a store."""

    def __init__(self, store: Store, peer: str) -> None:
        self._store, self._peer = store, peer

    @property
    def count(self) -> int:
        """Failures so far."""
        return self._store.size(_FAILURES, self._peer)

    @count.setter
    def count(self, value: int) -> None:
        with self._store.transaction():
            while self.count < value:
                self._store.append(_FAILURES, self._peer, b"")


class Kept:
    """The events of one run, in its store; ledgers that are charged are kept in the same file."""

    def __init__(self, store: Store, terms: Terms) -> None:
        self.store, self._terms = store, terms
        self._lists: dict[type, list[Any]] = defaultdict(list)
        self._n_read = 0

    def all(self, kind: type[T]) -> list[T]:
        """All events of one type: they are read once, and anew if a transaction has failed."""
        n_kept = self.store.size(EVENTS, "")
        if n_kept < self._n_read:
            self._lists.clear()
            self._n_read = 0
        for place in range(self._n_read, n_kept):
            event = self.store.get(EVENTS, "", place)
            self._lists[type(event)].append(event)
            self._n_read += 1
        return self._lists[kind]

    def _last(self, kind: type[T]) -> T | None:
        found = self.all(kind)
        return found[-1] if found else None

    def _add(self, event: Event) -> None:
        self.store.append(EVENTS, "", event)

    # The state.

    @property
    def n_opened(self) -> int:
        """Rounds that are over: the number of the next one."""
        return len(self.all(Opening))

    @property
    def n_connections(self) -> int:
        """Connections that were made."""
        return len(self.all(Connection))

    @property
    def last_attempt(self) -> int:
        """Number of the latest attempt, 0 without one."""
        last = self._last(RoundAttempt)
        return last.number if last else 0

    @property
    def last_charge(self) -> int:
        """Number of the latest attempt that was charged, 0 without one."""
        last = self._last(Charge)
        return last.number if last else 0

    def has(self, kind: type[RoundAttempt] | type[Charge], number: int) -> bool:
        """Whether an attempt was begun, or charged, here."""
        return any(one.number == number for one in reversed(self.all(kind)))

    @property
    def n_values(self) -> int:
        """Values that either party has released."""
        return len(self.all(Value))

    @property
    def pending(self) -> Charge | None:
        """The latest attempt, if it was charged, and its round is not over."""
        charge = self._last(Charge)
        is_latest = charge is not None and charge.number == self.last_attempt
        return charge if is_latest and charge is not None and charge.round == self.n_opened else None

    @property
    def opening(self) -> Opening | None:
        """The latest round that is over."""
        return self._last(Opening)

    def opened(self, number: int) -> Opening:
        """A round that is over."""
        if not 0 <= number < self.n_opened:
            raise ProtocolError(f"round {number} is not over yet")
        return self.all(Opening)[number]

    def chain(self, n_opened: int) -> bytes:
        """Digest of the roster and of the sums of so many rounds."""
        if n_opened == 0:
            return hashlib.sha256(length_prefixed([_OPENED, self._terms.run])).digest()
        return self.opened(n_opened - 1).chain

    def chain_with(self, digest: bytes, layout: bytes, sums: bytes) -> bytes:
        """The next digest of that kind, with those of an attempt at the next round."""
        parts = [_OPENED, self.chain(self.n_opened), digest, layout, sums]
        return hashlib.sha256(length_prefixed(parts)).digest()

    def value(self, number: int) -> bytes | None:
        """A value that was released before, by either party."""
        values = self.all(Value)
        return values[number].content if number < len(values) else None

    # Its changes.

    def release(self, number: int, make: Callable[[], bytes]) -> bytes:
        """Keep the next value, and the charge for it, which `make` writes, in one transaction."""
        with self.store.transaction():
            if number != self.n_values:
                raise ProtocolError(f"value {number} is released where value {self.n_values} is next")
            content = make()
            self._add(Value(content))
        return content

    def connect(self, nonce: bytes, record: MessageRecord | None = None) -> None:
        """Keep the nonce of a session before its first message; the record's next messages are its own."""
        with self.store.transaction():
            if record is not None:
                record.begin()
            self._add(Connection(nonce))

    def begin(self, attempt: RoundAttempt) -> None:
        """Keep an attempt at the next round, above all before, before its first message."""
        with self.store.transaction():
            if attempt.number > self._terms.max_attempts:
                raise ProtocolError(
                    f"attempt {attempt.number} would be made at round {attempt.round}; all "
                    f"{self._terms.n_rounds} rounds have {self._terms.max_attempts} attempts together"
                )
            if attempt.number <= self.last_attempt or attempt.round != self.n_opened:
                raise ProtocolError(
                    f"attempt {attempt.number} at round {attempt.round} is not after attempt "
                    f"{self.last_attempt}, which was made here, or not at round {self.n_opened}: no attempt "
                    "is made twice"
                )
            self._add(attempt)

    def charge(self, charge: Charge, pay: Callable[[], None]) -> None:
        """Charge once for the latest attempt, and keep its shares, in one transaction."""
        with self.store.transaction():
            last = self._last(RoundAttempt)
            is_latest = last is not None and (last.round, last.number) == (charge.round, charge.number)
            if not is_latest or charge.round != self.n_opened or self.pending is not None:
                raise ProtocolError(
                    f"attempt {charge.number} at round {charge.round} is not the latest one, or was charged "
                    "before"
                )
            pay()
            self._add(charge)

    def open(self, opening: Opening, signature: bytes | None) -> None:
        """Keep the sums of the attempt that is pending, and the other party's signature if it is there."""
        with self.store.transaction():
            pending = self.pending
            if pending is None or pending.digest != opening.digest:
                raise ProtocolError("sums were opened of another attempt than the one that was charged")
            self._add(opening)
            if signature is not None:
                self._add(Signature(signature))

    def countersign(self, signature: bytes) -> None:
        """Keep the other party's signature of the latest round that is over, if it is not kept yet."""
        with self.store.transaction():
            if len(self.all(Signature)) < self.n_opened:
                self._add(Signature(signature))

    # An auditor's.

    def connection(self, number: int) -> tuple[list[Event], list[Event]]:
        """The events before a connection, and those from it to the next one."""
        events = list(self.store.entries(EVENTS, ""))
        starts = [place for place, event in enumerate(events) if isinstance(event, Connection)]
        start, end, *_ = *starts[number:], len(events)
        return events[:start], events[start:end]

    @property
    def record(self) -> MessageRecord:
        """The messages of all connections, if they are kept."""
        return MessageRecord(self.store)
