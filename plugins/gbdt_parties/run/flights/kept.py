"""The records that one party keeps of its runs: lists that only grow, from which the state of a run follows.

There are connections with their nonces, values that either party has released before the rounds, attempts
that were begun, attempts that were charged with the shares that left for them, opened sums, and the other
party's signatures of them.  So the state is

* IDLE: no attempt at the next round was begun;
* WORKING: the latest attempt is at the next round, and was not charged;
* CHARGED: it was charged.  Its shares leave afterwards, so that after a crash they may have left;
* OPENED: its sums are kept, and the next round is another one.

A crash in WORKING or CHARGED abandons the attempt, but for one case: if the other side has opened it, it has
this side's shares, and sends again those of its own that are missing here.  No sums without noise are kept,
and no noise: an auditor draws it again from the seed and the nonces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from gbdt_commons.store import Kind, Store, bytes_kind
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.flights.record import Record
from gbdt_parties.run.flights.terms import Terms
from gbdt_parties.two_party.life import Failures

_OPENED = b"veilboost two-party opened 1"

T = TypeVar("T")


@dataclass(frozen=True)
class Connection:
    """A connection that is about to be made, and how long all lists were before it.

    Parameters
    ----------
    nonce : bytes
        Of the session.
    n_attempts, n_charges, n_opened, n_signatures, n_values : int
    """

    nonce: bytes
    n_attempts: int
    n_charges: int
    n_opened: int
    n_signatures: int
    n_values: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of `LISTS`."""
        return self.n_attempts, self.n_charges, self.n_opened, self.n_signatures, self.n_values


@dataclass(frozen=True)
class Attempt:
    """An attempt that was begun.

    Parameters
    ----------
    round, number : int
        Attempts are numbered through from 1 on, over all rounds.
    nonce : bytes
        Of its draws.
    """

    round: int
    number: int
    nonce: bytes


@dataclass(frozen=True)
class Charge:
    """An attempt that was charged, as it was before its first noised share left.

    Parameters
    ----------
    round, number : int
    peer : str
    digest : bytes
        Of the attempt: its session, number, layout, and all sums before.
    layout : bytes
    transcript : bytes
        Digest of all messages so far, those with the shares included.
    own, heard : bytes
        Noised shares: of this side, about to leave, and of the other side.
    """

    round: int
    number: int
    peer: str
    digest: bytes
    layout: bytes
    transcript: bytes
    own: bytes
    heard: bytes


@dataclass(frozen=True)
class Opening:
    """A round that is over.

    Parameters
    ----------
    number : int
        Of its attempt.
    digest : bytes
        The attempt's.
    layout : bytes
    sums : bytes
        Opened sums of all trees, as words of 8 bytes.
    chain : bytes
        Digest of the roster and of all sums up to these.
    signed : bytes
        Digest of the whole round, which both sign.
    signature : bytes
        This party's.
    last : bytes
        The message of the last flight, if this side sends it: sent again to a side that has missed it.
    """

    number: int
    digest: bytes
    layout: bytes
    sums: bytes
    chain: bytes
    signed: bytes
    signature: bytes
    last: bytes


def _record(name: str, cls: Callable[..., T]) -> Kind[T]:
    """Records of a class with texts, bytes and integers, as JSON."""
    are_bytes = {f.name for f in fields(cls) if f.type == "bytes"}  # type: ignore[arg-type]

    def write(value: Any) -> bytes:
        return json.dumps({k: v.hex() if k in are_bytes else v for k, v in asdict(value).items()}).encode()

    def read(content: bytes) -> T:
        return cls(**{k: bytes.fromhex(v) if k in are_bytes else v for k, v in json.loads(content).items()})

    return Kind(name, write, read)


CONNECTIONS = _record("two-party connection", Connection)
ATTEMPTS = _record("two-party attempt", Attempt)
CHARGES = _record("two-party charge", Charge)
OPENINGS = _record("two-party opening", Opening)
SIGNATURES = bytes_kind("two-party signature")
VALUES = bytes_kind("two-party value")
LISTS: tuple[Kind[Any], ...] = (ATTEMPTS, CHARGES, OPENINGS, SIGNATURES, VALUES)
"""All that a connection adds to, in the order of `Connection`'s numbers."""

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
    """The lists of one run.

    Parameters
    ----------
    store : Store
        Of the run; ledgers that are charged are kept in the same file.
    terms : Terms
    """

    def __init__(self, store: Store, terms: Terms) -> None:
        self.store, self._terms = store, terms

    # The state.

    def _size(self, kind: Kind[Any]) -> int:
        return self.store.size(kind, "")

    def _last(self, kind: Kind[T]) -> T | None:
        n = self._size(kind)
        return self.store.get(kind, "", n - 1) if n else None

    @property
    def n_opened(self) -> int:
        """Rounds that are over: the number of the next one."""
        return self._size(OPENINGS)

    @property
    def n_connections(self) -> int:
        """Connections that were made."""
        return self._size(CONNECTIONS)

    @property
    def n_charges(self) -> int:
        """Attempts that were charged."""
        return self._size(CHARGES)

    @property
    def last_attempt(self) -> int:
        """Number of the latest attempt, 0 if there was none."""
        last = self._last(ATTEMPTS)
        return last.number if last else 0

    @property
    def last_charge(self) -> int:
        """Number of the latest attempt that was charged, 0 if there was none."""
        last = self._last(CHARGES)
        return last.number if last else 0

    def has_begun(self, number: int) -> bool:
        """Whether an attempt was begun here."""
        return self._has(ATTEMPTS, number)

    def has_charged(self, number: int) -> bool:
        """Whether an attempt was charged here."""
        return self._has(CHARGES, number)

    def _has(self, kind: Kind[Any], number: int) -> bool:
        """Whether an attempt is in a list; its numbers ascend."""
        for place in reversed(range(self._size(kind))):
            found = self.store.get(kind, "", place)
            if found is not None and found.number <= number:
                return bool(found.number == number)
        return False

    @property
    def n_values(self) -> int:
        """Values that either party has released."""
        return self._size(VALUES)

    @property
    def pending(self) -> Charge | None:
        """The latest attempt, if it was charged, and its round is not over."""
        charge, last = self._last(CHARGES), self._last(ATTEMPTS)
        is_latest = charge is not None and last is not None and charge.number == last.number
        return charge if is_latest and charge is not None and charge.round == self.n_opened else None

    @property
    def opening(self) -> Opening | None:
        """The latest round that is over."""
        return self._last(OPENINGS)

    def opened(self, number: int) -> Opening:
        """A round that is over."""
        found = self.store.get(OPENINGS, "", number)
        if found is None:
            raise ProtocolError(f"round {number} is not over yet")
        return found

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
        return self.store.get(VALUES, "", number)

    # Its changes.

    def release(self, number: int, make: Callable[[], bytes]) -> bytes:
        """Keep a value, and the charge for it, which `make` writes, in one transaction.

        Raises
        ------
        ProtocolError
            If it is not the next one.
        """
        with self.store.transaction():
            if number != self.n_values:
                raise ProtocolError(f"value {number} is released where value {self.n_values} is next")
            content = make()
            self.store.append(VALUES, "", content)
        return content

    def connect(self, nonce: bytes) -> None:
        """Keep the nonce of a session before its first message."""
        self.store.append(CONNECTIONS, "", Connection(nonce, *map(self._size, LISTS)))

    def begin(self, attempt: Attempt) -> None:
        """Keep an attempt before its first message.

        Raises
        ------
        ProtocolError
            If its number is not above those of all attempts before, or above `Terms.max_attempts`, or its
            round is not the next one.
        """
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
            self.store.append(ATTEMPTS, "", attempt)

    def charge(self, charge: Charge, pay: Callable[[], None]) -> None:
        """Charge for an attempt, and keep its shares, in one transaction.

        Raises
        ------
        ProtocolError
            If it is not the latest attempt, or was charged before.
        """
        with self.store.transaction():
            last = self._last(ATTEMPTS)
            is_latest = last is not None and (last.round, last.number) == (charge.round, charge.number)
            if not is_latest or charge.round != self.n_opened or self.pending is not None:
                raise ProtocolError(
                    f"attempt {charge.number} at round {charge.round} is not the latest one, or was charged "
                    "before"
                )
            pay()
            self.store.append(CHARGES, "", charge)

    def open(self, opening: Opening, signature: bytes | None) -> None:
        """Keep the sums of the attempt that is pending, and the other party's signature if it is there.

        Raises
        ------
        ProtocolError
            If it is another attempt.
        """
        with self.store.transaction():
            pending = self.pending
            if pending is None or pending.digest != opening.digest:
                raise ProtocolError("sums were opened of another attempt than the one that was charged")
            self.store.append(OPENINGS, "", opening)
            if signature is not None:
                self.store.append(SIGNATURES, "", signature)

    def countersign(self, signature: bytes) -> None:
        """Keep the other party's signature of the latest round that is over, if it is not kept yet."""
        with self.store.transaction():
            if self._size(SIGNATURES) < self.n_opened:
                self.store.append(SIGNATURES, "", signature)

    # An auditor's.

    def connections(self) -> list[Connection]:
        """All connections that were made."""
        return list(self.store.entries(CONNECTIONS, ""))

    def attempts(self) -> list[Attempt]:
        """All attempts that were begun."""
        return list(self.store.entries(ATTEMPTS, ""))

    def charges(self) -> list[Charge]:
        """All attempts that were charged."""
        return list(self.store.entries(CHARGES, ""))

    def signatures(self) -> list[bytes]:
        """The other party's signatures of all rounds, but perhaps the last one."""
        return list(self.store.entries(SIGNATURES, ""))

    def record(self, connection: int) -> Record:
        """The messages of a connection, if they are kept."""
        return Record(self.store, str(connection))

    def in_store(self, store: Store) -> Kept:
        """The lists of the same run in another store."""
        return Kept(store, self._terms)

    def entry(self, kind: Kind[T], place: int) -> T | None:
        """An entry of one of the `LISTS`, or None."""
        return self.store.get(kind, "", place)

    def copy_before(self, connection: Connection, store: Store) -> None:
        """Copy the lists into another store as they were before a connection."""
        for kind, n in zip(LISTS, connection.sizes, strict=True):
            for place in range(n):
                store.append(kind, "", self.store.get(kind, "", place))

    def grown(self, number: int) -> list[tuple[Kind[Any], int, list[Any]]]:
        """Entries that a connection has added to each list, with the place of the first of them."""
        after = self.store.get(CONNECTIONS, "", number + 1)
        ends = [self._size(kind) for kind in LISTS] if after is None else after.sizes
        return [
            (kind, start, [self.store.get(kind, "", place) for place in range(start, end)])
            for kind, start, end in zip(LISTS, self.connections()[number].sizes, ends, strict=True)
        ]
