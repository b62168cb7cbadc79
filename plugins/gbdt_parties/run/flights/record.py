"""Messages of one connection as a party keeps them for an auditor: received ones, and digests of sent ones.

Messages that a party received are masked, or noised sums that it has anyway: they say nothing that its store
did not before.  Those that it sent follow from them, its rows, its seed and its nonces (`replay`), so that
their headers, lengths and digests are enough.

Messages are kept without waiting for the disk, in the order in which they come and go; the next charge waits
for all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gbdt_commons.store import Store, bytes_kind
from gbdt_parties.run.flights.frames import HEADER_BYTES

SAID, HEARD = bytes_kind("two-party said"), bytes_kind("two-party heard")


def summary(message: bytes) -> bytes:
    """A message's header, its length in 8 bytes, and its SHA-256."""
    return message[:HEADER_BYTES] + len(message).to_bytes(8, "little") + hashlib.sha256(message).digest()


class FlightRecord:
    """The messages of one connection in a party's store."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key = store, key

    def say(self, message: bytes) -> None:
        """Keep the summary of a message that is about to be sent."""
        with self._store.transaction(sync=False):
            self._store.append(SAID, self._key, summary(message))

    def hear(self, message: bytes | memoryview) -> None:
        """Keep a message that was received."""
        with self._store.transaction(sync=False):
            self._store.append(HEARD, self._key, bytes(message))

    def said(self) -> Iterator[bytes]:
        """Summaries of all messages that were sent."""
        return self._store.entries(SAID, self._key)

    def heard(self) -> Iterator[bytes]:
        """All messages that were received."""
        return self._store.entries(HEARD, self._key)

    @property
    def is_empty(self) -> bool:
        """Whether no message was kept."""
        return not self._store.size(SAID, self._key) and not self._store.size(HEARD, self._key)
