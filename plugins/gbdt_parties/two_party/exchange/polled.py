"""A connection over requests and answers, for a party that is served: each carries messages since the last.

The asking side sends what it has said when it waits for a message.  The answering side takes it, and answers
once its own thread waits for a message, or is done.  A round takes two requests, with choices and with
tables: the last flight of a round travels with the choices of the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition

from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import PartyUnavailableError, ProtocolError

_LENGTH = 8
MAX_REQUEST_BYTES = 32 << 20
"""Of the messages of one request, unless there is one alone that is longer."""


def unpacked(data: bytes | memoryview) -> list[memoryview]:
    """Messages that `length_prefixed` joined, as views of the text.

    Raises
    ------
    ProtocolError
        If the last one is cut off.
    """
    view, at, messages = memoryview(data), 0, list[memoryview]()
    while at < len(view):
        start = at + _LENGTH
        at = start + int.from_bytes(view[at:start], "little")
        if start > len(view) or at > len(view):
            raise ProtocolError("a message of a run of two parties is cut off")
        messages.append(view[start:at])
    return messages


class Asking:
    """The asking side's end; it implements `frames.Channel`.

    Parameters
    ----------
    ask : callable
        ``ask(request, is_last)`` sends a request, and gives the answer, which is empty unless it is the last
        one of those that are sent together; raises a PartyUnavailableError if it is lost.
    """

    def __init__(self, ask: Callable[[bytes, bool], bytes | memoryview]) -> None:
        self._ask = ask
        self._outbox: list[bytes] = []
        self._inbox: deque[memoryview] = deque()

    def send(self, message: bytes) -> None:
        """See `frames.Channel`."""
        self._outbox.append(message)

    def receive(self) -> memoryview:
        """See `frames.Channel`."""
        if not self._inbox:
            self.flush()
        if not self._inbox:
            raise PartyUnavailableError("the other party has ended the connection")
        return self._inbox.popleft()

    def flush(self) -> None:
        """Send what was said, without waiting for a message: before the end of the connection."""
        messages, self._outbox = deque(self._outbox), []
        while True:
            together, n_bytes = list[bytes](), 0
            while messages and (not together or n_bytes + len(messages[0]) <= MAX_REQUEST_BYTES):
                n_bytes += len(messages[0])
                together.append(messages.popleft())
            self._inbox.extend(unpacked(self._ask(length_prefixed(together), not messages)))
            if not messages:
                return


class Answering:
    """The answering side's end, between the thread that answers and the thread that computes.

    The latter uses it as `frames.Channel`, and closes it when it is done.

    Parameters
    ----------
    seconds : float
        Longest time to wait for a request, and for the messages of an answer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._changed = Condition()
        self._inbox: deque[memoryview] = deque()
        self._outbox: list[bytes] = []
        self._waits = self._is_over = False

    def answer(self, request: bytes | memoryview, is_last: bool = True) -> bytes:
        """Take a request, and wait for the messages to answer it with, unless others belong to it.

        Raises
        ------
        PartyUnavailableError
            If the computation is over, or takes too long.
        ProtocolError
            If the request is malformed.
        """
        messages = unpacked(request)
        with self._changed:
            if self._is_over:
                raise PartyUnavailableError("the connection is over")
            self._inbox.extend(messages)
            self._changed.notify_all()
            if not is_last:
                return b""
            if not self._changed.wait_for(self._is_ready, self._seconds):
                self._is_over = True
                self._changed.notify_all()
                raise PartyUnavailableError(f"no answer was ready within {self._seconds} seconds")
            said, self._outbox = self._outbox, []
            return length_prefixed(said)

    def _is_ready(self) -> bool:
        return self._is_over or (self._waits and not self._inbox)

    def send(self, message: bytes) -> None:
        """See `frames.Channel`."""
        with self._changed:
            if self._is_over:
                raise PartyUnavailableError("the connection is over")
            self._outbox.append(message)

    def receive(self) -> memoryview:
        """See `frames.Channel`."""
        with self._changed:
            self._waits = True
            self._changed.notify_all()
            has_come = self._changed.wait_for(lambda: self._inbox or self._is_over, self._seconds)
            self._waits = False
            if not self._inbox:
                self._is_over = True
                self._changed.notify_all()
                raise PartyUnavailableError(
                    "the other party has ended the connection"
                    if has_come
                    else f"the other party was silent for {self._seconds} seconds"
                )
            return self._inbox.popleft()

    def close(self) -> None:
        """End the connection; what was said before is in the last answer."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
