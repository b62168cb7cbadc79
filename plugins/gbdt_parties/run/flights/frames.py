"""Framed messages of one connection: each is taken if it is the one that is due, or refused by name."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import Protocol

from gbdt_commons.quoting import quoted
from gbdt_parties.errors import PartyRefusedError, ProtocolError
from gbdt_parties.messages import MAX_REASON
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
        """Send a message; it must not wait for a side that sends, too, since flights cross.

        Raises
        ------
        PartyUnavailableError
            If the connection is lost.
        """

    def hand_over(self) -> None:
        """Let what was said leave while this side computes; what it says next may come later.

        Raises
        ------
        PartyUnavailableError
            If the connection is lost.
        """

    def finish(self) -> None:
        """Let what was said leave: it is the last of the connection; errors as of `hand_over`."""

    def receive(self) -> bytes | memoryview:
        """Wait for the other side's next message, for a limited time; nothing else may change its bytes.

        Raises
        ------
        PartyUnavailableError
            If the connection is lost, or the time is over.
        """


def heading(message: bytes | memoryview) -> tuple[int, Step, int]:
    """Kind of a message, its step, and its number in its direction, from a whole header."""
    _, kind, flight, attempt, round_number, number = _HEADER.unpack_from(message)
    return kind, Step(round_number, attempt, flight), number


class Link:
    """Both directions of one connection.

    A message has a header of `HEADER_BYTES`: magic, kind, flight, attempt, round, and its number in its
    direction; all of them are known beforehand on the other side.

    Parameters
    ----------
    channel : FrameChannel
    name : str
        The other party's, for errors.
    said, heard : callable
        Keep a message that is about to be sent, and one that was received, before anything follows from it.
    """

    def __init__(
        self,
        channel: FrameChannel,
        name: str,
        said: Callable[[bytes], None] = lambda _: None,
        heard: Callable[[bytes | memoryview], None] = lambda _: None,
    ) -> None:
        self._channel, self._name, self._said, self._heard = channel, quoted(name), said, heard
        self._n_sent = self._n_taken = 0

    def send(self, kind: FrameKind, body: bytes, step: Step = NO_STEP) -> None:
        """Send a message."""
        header = _HEADER.pack(_MAGIC, kind, step.flight, step.attempt, step.round, self._n_sent)
        self._n_sent += 1
        self._said(header + body)
        self._channel.send(header + body)

    def hand_over(self) -> None:
        """See `FrameChannel`."""
        self._channel.hand_over()

    def finish(self) -> None:
        """See `FrameChannel`."""
        self._channel.finish()

    def take(self, kind: FrameKind, n_bytes: int | None = None, step: Step = NO_STEP) -> bytes:
        """Wait for a message, and copy its body.

        Parameters
        ----------
        kind : FrameKind
        n_bytes : int, optional
            Length of its body; by default the caller checks it.
        step : Step

        Raises
        ------
        PartyRefusedError, ProtocolError
            As of `take_view`; likewise for a body of another length.
        """
        body = bytes(self.take_view(kind, step))
        if n_bytes is not None and len(body) != n_bytes:
            raise ProtocolError(f"a {kind.name.lower()} has {len(body)} bytes, not {n_bytes}")
        return body

    def take_view(self, kind: FrameKind, step: Step = NO_STEP) -> memoryview:
        """Wait for a message, which may be long: its body is a view, which keeps the message.

        Raises
        ------
        PartyRefusedError
            If the other side refuses to go on, and says why.
        ProtocolError
            If the message is any other than this one; the text says in what it differs.
        """
        message = self._channel.receive()
        self._heard(message)
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
