"""A connection of two parties in one process."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from gbdt_parties.errors import PartyUnavailableError

_END = b""
"""No message is empty: each has a header."""


class Pipe:
    """One end of a connection between two threads; it implements `frames.Channel`.

    Parameters
    ----------
    inward, outward : SimpleQueue of bytes
    seconds : float
        Longest time to wait for a message.
    """

    def __init__(self, inward: SimpleQueue[bytes], outward: SimpleQueue[bytes], seconds: float) -> None:
        self._inward, self._outward, self._seconds = inward, outward, seconds

    def send(self, message: bytes) -> None:
        """See `frames.Channel`."""
        self._outward.put(message)

    def receive(self) -> bytes:
        """See `frames.Channel`."""
        try:
            message = self._inward.get(timeout=self._seconds)
        except Empty:
            raise PartyUnavailableError(f"the other party was silent for {self._seconds} seconds") from None
        if message == _END:
            # For the next call, too.
            self._inward.put(_END)
            raise PartyUnavailableError("the other party has ended the connection")
        return message

    def close(self) -> None:
        """End the connection for both sides, once what was sent has arrived."""
        self._outward.put(_END)
        self._inward.put(_END)


def pipes(seconds: float = 600.0) -> tuple[Pipe, Pipe]:
    """Both ends of a connection.

    Parameters
    ----------
    seconds : float
        Longest time that either waits for a message.
    """
    one, other = SimpleQueue[bytes](), SimpleQueue[bytes]()
    return Pipe(one, other, seconds), Pipe(other, one, seconds)
