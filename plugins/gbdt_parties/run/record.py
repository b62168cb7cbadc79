"""Messages of one side of a run as it keeps them for an auditor: received ones, and digests of sent ones.

Sent messages follow from the received ones, the side's rows and its kept seed (`gbdt_parties.run.replay`), so
that their lengths and digests are enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from gbdt_commons.store import Store, bytes_kind
from gbdt_parties import messages
from gbdt_parties.messages import Message

EXCHANGES = bytes_kind("exchanges")
"""A message that was sent, as its summary, and then one that was received; a process begins with nothing."""

SUMMARY_BYTES = 40


def summary(sent: Message | None) -> bytes:
    """Length and SHA-256 of a message; zeros of none."""
    if sent is None:
        return bytes(SUMMARY_BYTES)
    content = messages.write(bytes(16), 0, sent)
    return len(content).to_bytes(8, "little") + hashlib.sha256(content).digest()


@dataclass(frozen=True)
class KeptExchange:
    """A message that a side received, and the one that it sent with it.

    Attributes
    ----------
    sent : bytes
        Its `summary`; of a request that was refused, that of none.
    received : Message
    """

    sent: bytes
    received: Message

    @property
    def n_bytes(self) -> int:
        """Length of the message that was sent."""
        return int.from_bytes(self.sent[:8], "little")


class Record:
    """The messages of one side of a run, in a store of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self) -> None:
        """Keep that a process begins: what it knows is what it finds in its store."""
        with self._store.transaction(sync=False):
            self._store.append(EXCHANGES, "", b"")

    def keep(self, sent: Message | None, received: Message) -> None:
        """Keep two messages, without waiting for the disk: the next charge waits for all of them."""
        with self._store.transaction(sync=False):
            self._store.append(EXCHANGES, "", summary(sent) + messages.write(bytes(16), 0, received))

    def entries(self) -> Iterator[KeptExchange | None]:
        """All of them, in order; None where a process begins."""
        for entry in self._store.entries(EXCHANGES, ""):
            sent, received = entry[:SUMMARY_BYTES], entry[SUMMARY_BYTES:]
            yield KeptExchange(sent, messages.read(received).message) if entry else None
