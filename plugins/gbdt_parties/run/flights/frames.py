"""Framed messages of one connection: each is taken if it is the one that is due, or refused by name.

A side that waits for a message yields its kind, and is sent it (`gbdt_parties.run.engine.carried_out`).
"""

from __future__ import annotations

import struct
from contextlib import suppress
from enum import IntEnum
from typing import Protocol

from gbdt_commons.key_stream import this_process
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import PartyRefusedError, ProtocolError
from gbdt_parties.messages import MAX_REASON
from gbdt_parties.run.engine import Steps
from gbdt_parties.run.record import MessageRecord
from gbdt_parties.two_party.names import Step

_HEADER = struct.Struct("<4sBBHII")
HEADER_BYTES = _HEADER.size
_MAGIC = b"VB2F"


class FrameKind(IntEnum):
    """Kinds of messages."""

    GREETING, POINTS, TREES, SEAL, AGAIN, BEGIN, ROUND, SHARES, END, VALUE = range(1, 11)
    REFUSAL = 255


NO_STEP = Step(0, 0, 0)
"""Of messages that belong to no attempt."""


STOPPED = "it had to stop"
"""Reason of a refusal that has nothing to do with the messages before."""


class FrameChannel(Protocol):
    """The way to the other party for the time of one connection, authenticated and in order."""

    def send(self, message: bytes) -> None:
        """Send without waiting for the other side, as flights cross; PartyUnavailableError if it is lost."""

    def hand_over(self) -> None:
        """Let what was said leave while this side computes; errors as of `send`."""


def check_process(process: object) -> None:
    """Refuse to go on in a copy of a process, which would make attempts twice."""
    if process != this_process():
        raise ProtocolError("a run of two parties cannot go on in a forked process")


def heading(message: bytes | memoryview) -> tuple[int, Step, int]:
    """Kind of a message, its step, and its number in its direction, from a whole header."""
    _, kind, flight, attempt, round_number, number = _HEADER.unpack_from(message)
    return kind, Step(round_number, attempt, flight), number


class Link:
    """Both directions of one connection.

    A message has a header of `HEADER_BYTES`: magic, kind, flight, attempt, round, and its number in its
    direction; all of them are known beforehand on the other side.

    Errors have the other party's name.  A record keeps a message that is about to be sent, and one that was
    received, before anything follows from it.
    """

    def __init__(self, channel: FrameChannel, name: str, record: MessageRecord | None = None) -> None:
        self._channel, self._name, self._record = channel, quoted(name), record
        self._process = this_process()
        self._n_sent = self._n_taken = 0

    def send(self, kind: FrameKind, body: bytes, step: Step = NO_STEP) -> None:
        """Send a message."""
        message = _HEADER.pack(_MAGIC, kind, step.flight, step.attempt, step.round, self._n_sent) + body
        self._n_sent += 1
        if self._record is not None:
            self._record.keep(message, b"")
        self._channel.send(message)

    def hand_over(self) -> None:
        """See `FrameChannel`."""
        self._channel.hand_over()

    def take(self, kind: FrameKind, n_bytes: int | None = None, step: Step = NO_STEP) -> Steps[bytes]:
        """Wait for a message, and copy its body, which must have so many bytes; errors as of `take_view`."""
        body = bytes((yield from self.take_view(kind, step)))
        if n_bytes is not None and len(body) != n_bytes:
            raise ProtocolError(f"a {kind.name.lower()} has {len(body)} bytes, not {n_bytes}")
        return body

    def take_view(self, kind: FrameKind, step: Step = NO_STEP) -> Steps[memoryview]:
        """Wait for a message, which may be long: its body is a view, which keeps the message.

        Raises `PartyRefusedError`, with the reason, if the other side refuses to go on, and `ProtocolError`
        for any other message, by its difference, or in a forked process.
        """
        message = yield kind
        check_process(self._process)
        if self._record is not None:
            self._record.keep(b"", bytes(message))
        if len(message) < HEADER_BYTES:
            raise ProtocolError(f"a message of {len(message)} bytes came, which is shorter than its header")
        magic, found, flight, attempt, round_number, number = _HEADER.unpack_from(message)
        body = memoryview(message)[HEADER_BYTES:].toreadonly()
        if magic != _MAGIC:
            raise ProtocolError("a message came that is not of a run of two parties")
        if found == FrameKind.REFUSAL:
            reason = quoted(bytes(body[: 4 * MAX_REASON]).decode(errors="replace"), MAX_REASON)
            raise PartyRefusedError(f"party {self._name!r} refuses: {reason}")
        for what, came, due in (
            ("round", round_number, step.round),
            ("attempt", attempt, step.attempt),
            ("flight", flight, step.flight),
            ("kind", found, kind),
            ("number", number, self._n_taken),
        ):
            if came != due:
                raise ProtocolError(f"a message of {what} {came} came where {what} {int(due)} was due")
        self._n_taken += 1
        return body

    def refuse(self, reason: str = STOPPED) -> None:
        """Tell the other side, if it is there, why this one does not go on."""
        with suppress(Exception):
            self.send(FrameKind.REFUSAL, quoted(reason, MAX_REASON).encode())
