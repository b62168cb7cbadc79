"""An auditor's repetition of one party's side of a connection, to the byte.

The auditor has the party's seed and data, its kept lists, and the messages that it received; all nonces are
among the lists.  Sessions, attempts and signatures follow from these alone: the draws from HKDF of seed and
nonce, Ed25519 signatures from key and text, and what comes before the connection from the lists as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from gbdt_commons.store import MemoryStore, Store
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.two_party.exchange.driver import Exchange
from gbdt_parties.two_party.exchange.kept import Kept


class _Record:
    """A channel with the messages of another one; it implements `frames.Channel`.

    Parameters
    ----------
    received : iterable of bytes
        Messages to receive, after which the connection is lost.

    Attributes
    ----------
    sent : list of bytes
    """

    def __init__(self, received: Iterable[bytes]) -> None:
        self._received, self.sent = iter(received), list[bytes]()

    def send(self, message: bytes) -> None:
        """Keep a message."""
        self.sent.append(message)

    def receive(self) -> bytes:
        """The next message of the record."""
        for message in self._received:
            return message
        raise PartyUnavailableError("the record of this connection ends here")


def replay(
    kept: Kept,
    connection: int,
    received: Iterable[bytes],
    begin: Callable[[Store, Callable[[], bytes]], Exchange[Any]],
    train: Callable[[Exchange[Any]], object],
) -> list[bytes]:
    """Messages that a party's process sent in one connection, or must have sent if it was honest.

    A process that crashed has sent the first of them.

    Parameters
    ----------
    kept : Kept
        The party's lists.
    connection : int
        Which one, from 0 on.
    received : iterable of bytes
        All messages that the party received in it.
    begin : callable
        ``begin(store, nonces)`` gives the party's side, on a store and with nonces of the auditor.
    train : callable
        Asks for rounds, with the party's data, as the party does.

    Returns
    -------
    list of bytes
    """
    connections, attempts = kept.connections(), kept.attempts()
    before = connections[connection]
    after = connections[connection + 1 :][:1]
    made = attempts[before.n_attempts : after[0].n_attempts if after else None]
    nonces: Iterator[bytes] = chain([before.nonce], (attempt.nonce for attempt in made))

    def next_nonce() -> bytes:
        for nonce in nonces:
            return nonce
        raise PartyUnavailableError("the record of this connection has no other attempt")

    store, channel = MemoryStore(), _Record(received)
    exchange = begin(store, next_nonce)
    exchange.kept = kept.before(before, store)
    try:
        exchange.connect(channel)
        train(exchange)
    except PartyUnavailableError:
        pass
    return channel.sent
