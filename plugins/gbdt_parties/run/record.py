"""Messages of one side of a run as it keeps them for an auditor: received ones, and digests of sent ones.

Sent messages follow from the received ones, the side's rows and its kept seed (`gbdt_parties.run.replay`), so
that their beginnings, lengths and digests are enough, without session and number.  Received ones say nothing
that the side does not know anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from gbdt_commons.store import Store, bytes_kind
from gbdt_parties.messages import readdressed

EXCHANGES = bytes_kind("exchanges")
"""The summary of a message that was sent, and then one that was received; a process begins with nothing."""

HEAD_BYTES, SUMMARY_BYTES = 16, 56


def summary(sent: bytes) -> bytes:
    """The beginning of a message, which says its kind, its length in 8 bytes, and SHA-256; zeros of none."""
    if not sent:
        return bytes(SUMMARY_BYTES)
    sent = readdressed(sent)
    head = sent[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0")
    return head + len(sent).to_bytes(8, "little") + hashlib.sha256(sent).digest()


@dataclass(frozen=True)
class KeptExchange:
    """A message that a side received, and the `summary` of the one that it sent with it; or one of the two.

    None was received if it is empty; none was sent, or a request refused, if the summary is that of none.
    """

    sent: bytes
    received: bytes

    @property
    def was_refused(self) -> bool:
        """Whether the side refused what it received."""
        return self.sent == bytes(SUMMARY_BYTES)

    @property
    def n_bytes(self) -> int:
        """Length of the message that was sent."""
        return int.from_bytes(self.sent[HEAD_BYTES : HEAD_BYTES + 8], "little")


class MessageRecord:
    """The messages of one side of a run, in the store of the run; none waits for the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self) -> None:
        """Keep that a process begins: what it knows is what it finds in its store."""
        self._append(b"")

    def keep(self, sent: bytes, received: bytes) -> None:
        """Keep two messages; the next charge that waits for the disk waits for both."""
        self._append(summary(sent) + received)

    def _append(self, entry: bytes) -> None:
        with self._store.transaction(sync=False):
            self._store.append(EXCHANGES, "", entry)

    def of_process(self, process: int) -> Iterator[KeptExchange]:
        """Those of one process, from 0 on."""
        number = -1
        for exchange in self.entries():
            if exchange is None:
                number += 1
            elif number == process:
                yield exchange

    def entries(self) -> Iterator[KeptExchange | None]:
        """All of them, in order; None where a process begins."""
        for entry in self._store.entries(EXCHANGES, ""):
            yield KeptExchange(entry[:SUMMARY_BYTES], entry[SUMMARY_BYTES:]) if entry else None
