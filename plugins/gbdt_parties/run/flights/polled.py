"""A connection over requests and answers, for a party that is served: each carries messages since the last.

The asking side's messages leave in a request when it hands them over, when they are long together, and when
it waits for a message; some requests are under way at a time, while this side goes on computing.  The
answering side goes on with them until it waits for another message, or is done, and answers.  In a round, a
request has the last flight of the one before, one has choices, and one each has the tables of some rows: the
other side makes its choices while this one makes its own, and corrections while other rows' tables travel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread

from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from gbdt_parties.run.engine import Computation, Steps
from gbdt_parties.run.flights.frames import FrameChannel

_LENGTH = 8
MAX_REQUEST_BYTES = 32 << 20
"""Of the messages of one request, unless there is one alone that is longer."""

MAX_UNDER_WAY = 4
"""Requests whose answers have not come; each holds its messages."""

MAX_MESSAGES = 1 << 16
"""Of one request: each takes some two hundred bytes beside its own."""


def unpacked(data: bytes | memoryview) -> list[memoryview]:
    """Messages that `length_prefixed` joined, as views; a ProtocolError if they are too many, or cut off."""
    view, at, messages = memoryview(data), 0, list[memoryview]()
    while at < len(view):
        start = at + _LENGTH
        at = start + int.from_bytes(view[at:start], "little")
        if start > len(view) or at > len(view):
            raise ProtocolError("a message of a run of two parties is cut off")
        if len(messages) == MAX_MESSAGES:
            raise ProtocolError(f"more than {MAX_MESSAGES} messages of a run of two parties at once")
        messages.append(view[start:at])
    return messages


def uncounted(n_bytes: int) -> None:
    """Count no bytes."""


class Asking:
    """The asking side's end; it implements `frames.FrameChannel`.

    ``ask(request, is_last)`` sends a request, and gives the answer, which is empty unless it is the last one
    of those that belong together; it raises a PartyUnavailableError if that is lost.  One thread at a time
    calls it.  `sent` and `received` count the bytes of each message.
    """

    def __init__(
        self,
        begin: Callable[[bytes, bool], Callable[[], bytes | memoryview]],
        sent: Callable[[int], object] = uncounted,
        received: Callable[[int], object] = uncounted,
    ) -> None:
        self._begin, self._sent, self._received = begin, sent, received
        self._outbox: list[bytes] = []
        self._n_bytes = 0
        self._inbox: deque[memoryview] = deque()
        self._under_way: deque[Future[list[memoryview]]] = deque()

    def send(self, message: bytes) -> None:
        """See `frames.FrameChannel`."""
        self._sent(len(message))
        is_long = self._n_bytes + len(message) > MAX_REQUEST_BYTES
        if self._outbox and (is_long or len(self._outbox) == MAX_MESSAGES):
            self._leave(False)
        self._outbox.append(message)
        self._n_bytes += len(message)

    def hand_over(self) -> None:
        """See `frames.FrameChannel`; it waits for the answer to the request before."""
        if self._outbox:
            self._leave(True)

    def finish(self) -> None:
        """Let what was said leave, the last of the connection."""
        self.hand_over()
        while self._under_way:
            self._collect()

    def receive(self) -> memoryview:
        """Wait for the other side's next message."""
        while not self._inbox and self._under_way:
            self._collect()
        if not self._inbox:
            self._leave(True)
            self._collect()
        if not self._inbox:
            raise PartyUnavailableError("the other party has ended the connection")
        message = self._inbox.popleft()
        self._received(len(message))
        return message

    def _collect(self) -> None:
        """Wait for the answer to the first request that is under way."""
        self._inbox.extend(self._under_way.popleft().result())

    def _leave(self, is_last: bool) -> None:
        """Send a request with all that was said, after the answer to the one before."""
        while len(self._under_way) >= MAX_UNDER_WAY:
            self._collect()
        said, self._outbox, self._n_bytes = self._outbox, [], 0
        answer: Future[list[memoryview]] = Future()
        wait = self._begin(length_prefixed(said), is_last)

        def ask() -> None:
            try:
                answer.set_result(unpacked(wait()))
            except BaseException as error:
                answer.set_exception(error)

        self._under_way.append(answer)
        try:
            # A daemon: an interrupted process does not wait for the other side.
            Thread(target=ask, name="veilboost_asking", daemon=True).start()
        except RuntimeError:  # there are no more threads
            ask()


class Answering:
    """The answering side's end: a computation that goes on whenever messages come that it waits for.

    ``steps_of(channel)`` gives its steps, which send messages by the channel, and yield where they wait for
    one.  `error` is that by which the computation has ended, if it `is_over`.
    """

    def __init__(self, steps_of: Callable[[FrameChannel], Steps[None]]) -> None:
        self._lock = Lock()
        self._outbox: list[bytes] = []
        self._computation = Computation(steps_of(self))
        self.error: BaseException | None = None
        self.is_over = False

    def answer(self, request: bytes | memoryview, is_last: bool = True) -> bytes:
        """Go on with the messages of a request; all that was said since, unless other requests belong to it.

        A PartyUnavailableError if the computation is over, a ProtocolError if the request is malformed.
        """
        with self._lock:
            if self.is_over:
                raise PartyUnavailableError("the connection is over")
            messages = deque(unpacked(request))
            self._go_on()
            while messages and not self.is_over:
                self._computation.tell(messages.popleft())
                self._go_on()
            if not is_last:
                return b""
            said, self._outbox = self._outbox, []
            return length_prefixed(said)

    def _go_on(self) -> None:
        try:
            self.is_over = self._computation.question() is None
        except BaseException as error:
            self.error, self.is_over = error, True

    def send(self, message: bytes) -> None:
        """See `frames.FrameChannel`."""
        self._outbox.append(message)

    def hand_over(self) -> None:
        """See `frames.FrameChannel`: the next answer has it."""

    def close(self) -> None:
        """End the computation where it waits next."""
        with self._lock:
            self._computation.close()
            self.is_over = True
