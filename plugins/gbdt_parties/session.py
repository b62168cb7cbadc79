"""A party's side of a session: requests in order, each answered once; a refusal is an answer too."""

from __future__ import annotations

import logging
from threading import Lock

from gbdt_kernels.errors import VeilboostError

from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError, places_of
from gbdt_parties.messages import Message

logger = logging.getLogger(__name__)


class SessionHandler:
    """Answers one session at a time.  Subclasses give `opens`, `answer` and `forget`."""

    opens: type[Message]
    """The message that starts a session."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._session_id = b""
        self._next = 0
        self._used: set[bytes] = set()

    def __getstate__(self) -> dict[str, object]:
        """Without the lock."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """With a new lock."""
        self.__dict__.update(state)
        self._lock = Lock()

    def answer(self, message: Message) -> Message:
        """Answer a request of the open session."""
        raise ProtocolError(f"{type(message).__name__} is not a request")

    def forget(self) -> None:
        """Drop what belongs to the session."""

    def handle(self, request: bytes) -> bytes:
        """Answer a request in bytes.  A refusal ends the session: nothing is left half done."""
        with self._lock:
            session, sequence = b"\0" * 16, 0
            try:
                envelope = messages.read(request)
                session, sequence = envelope.session, envelope.sequence
                self._take_turn(envelope)
                reply = self.answer(envelope.message)
            except VeilboostError as error:
                self._end(session)
                reply = messages.Refusal(str(error), 0)
            except Exception as error:
                # A request that no check foresaw: the other side learns no more than that.
                logger.error("a request failed: %s", places_of(error))
                self._end(session)
                reply = messages.Refusal("internal error", 0)
            return messages.write(session, sequence, reply)

    def _end(self, session: bytes) -> None:
        if session == self._session_id:
            self._session_id = b""
            self.forget()

    def _take_turn(self, envelope: messages.Envelope) -> None:
        if isinstance(envelope.message, self.opens):
            if envelope.sequence != 0 or envelope.session in self._used:
                raise ProtocolError("a session was opened out of order, or twice")
            self._used.add(envelope.session)
            self.forget()
            self._session_id, self._next = envelope.session, 1
            return
        if not self._session_id or envelope.session != self._session_id:
            raise ProtocolError("no such session")
        if envelope.sequence != self._next:
            raise ProtocolError(f"message {envelope.sequence} out of order; {self._next} is next")
        self._next += 1
