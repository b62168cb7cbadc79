"""A connection of two parties in one process.

A side that is ahead of the other one waits where many bytes are on their way, so that whole flights do not
pile up in memory.  Where flights cross, both would wait for each other: a side goes on while the other one
waits to send.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Condition

from gbdt_parties.errors import PartyUnavailableError

MAX_WAITING_BYTES = 32 << 20
"""In one direction, where the other side does not wait to send."""


@dataclass(eq=False)
class _Direction:
    """Messages on their way, their bytes, and whether their sender waits."""

    messages: deque[bytes] = field(default_factory=deque)
    n_bytes: int = 0
    waits: bool = False


class Pipe:
    """One end of a connection between two threads; it implements `frames.Channel`.

    Parameters
    ----------
    changed : Condition
        Of both ends.
    over : list
        Not empty once either end is closed.
    inward, outward : _Direction
    seconds : float
        Longest time to wait for a message, and for the other side to take some.
    """

    def __init__(
        self, changed: Condition, over: list[bool], inward: _Direction, outward: _Direction, seconds: float
    ) -> None:
        self._changed, self._over = changed, over
        self._inward, self._outward, self._seconds = inward, outward, seconds

    def send(self, message: bytes) -> None:
        """See `frames.Channel`."""
        out = self._outward
        with self._changed:
            out.messages.append(message)
            out.n_bytes += len(message)
            out.waits = True
            self._changed.notify_all()
            try:
                if not self._changed.wait_for(self._may_go_on, self._seconds):
                    raise self._silence()
            finally:
                out.waits = False

    def _may_go_on(self) -> bool:
        return bool(self._outward.n_bytes <= MAX_WAITING_BYTES or self._inward.waits or self._over)

    def _silence(self) -> PartyUnavailableError:
        return PartyUnavailableError(f"the other party was silent for {self._seconds} seconds")

    def hand_over(self) -> None:
        """See `frames.Channel`: each message leaves at once."""

    def finish(self) -> None:
        """See `frames.Channel`: each message leaves at once."""

    def receive(self) -> bytes:
        """See `frames.Channel`."""
        inward = self._inward
        with self._changed:
            if not self._changed.wait_for(lambda: inward.messages or self._over, self._seconds):
                raise self._silence()
            if not inward.messages:
                raise PartyUnavailableError("the other party has ended the connection")
            message = inward.messages.popleft()
            inward.n_bytes -= len(message)
            self._changed.notify_all()
            return message

    def close(self) -> None:
        """End the connection for both sides, once what was sent has arrived."""
        with self._changed:
            self._over.append(True)
            self._changed.notify_all()


def pipes(seconds: float = 600.0) -> tuple[Pipe, Pipe]:
    """Both ends of a connection.

    Parameters
    ----------
    seconds : float
        Longest time that either waits for the other one.
    """
    changed, over = Condition(), list[bool]()
    there, back = _Direction(), _Direction()
    return Pipe(changed, over, back, there, seconds), Pipe(changed, over, there, back, seconds)
