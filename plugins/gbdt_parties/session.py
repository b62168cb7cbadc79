"""A party's side of its sessions: numbered requests, each answered exactly once.

A refusal is an answer too, and ends its session: nothing is left half done.
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

from gbdt_commons.errors import VeilboostError
from gbdt_commons.files import is_out_of_room
from gbdt_parties import messages, protocol
from gbdt_parties.errors import PartyUnavailableError, ProtocolError, RunLostError, places_of
from gbdt_parties.messages import Message

logger = logging.getLogger(__name__)
S = TypeVar("S")
"""State that a party keeps for each session."""


@dataclass
class _Session(Generic[S]):
    """An open session: what the party keeps for it, the next request's number, when the last one came."""

    kept: S
    next: int = 1
    last_request: float = field(default_factory=time.monotonic)


class Reply(NamedTuple):
    """An answer with its address, and its bytes, which need not be parsed again to be recorded."""

    envelope: messages.Envelope
    content: bytes

    @classmethod
    def to(cls, request: messages.Envelope, message: Message) -> Reply:
        """The answer to a request, in its version of the protocol."""
        content = messages.write(request.session, request.sequence, message, request.version)
        return cls(replace(request, message=message), content)

    @classmethod
    def unread(cls, request: bytes, reason: str) -> Reply:
        """The refusal of a request that could not be read."""
        refused = messages.unread(request, reason)
        return cls.to(messages.Envelope(*messages.address(request), refused, protocol.VERSION), refused)


class SessionHandler(ABC, Generic[S]):
    """Answers the requests of one or several sessions, in bytes, one request at a time.

    Subclasses say which messages open and end a session (`opening`, `closing`), how many sessions may be open
    side by side (`max_sessions`), and how requests are answered (`open`, `answer`). A session is opened only
    once: `used` are those that were opened before, here or at other handlers for the same caller.
    """

    opening: tuple[type[Message], ...]
    closing: tuple[type[Message], ...]
    max_sessions: int = 1
    """A further session ends the oldest one, which a caller that crashed may have left open."""

    def __init__(self, used: set[bytes] | None = None) -> None:
        self._lock = RLock()
        self.sessions: dict[bytes, _Session[S]] = {}
        self._used: set[bytes] = set() if used is None else used
        self._last_request = -math.inf
        self._is_answering = False

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, with a new lock."""
        self.__dict__.update(state)
        self._lock = RLock()

    @abstractmethod
    def open(self, message: Message, session: bytes) -> tuple[S, Message]:
        """Open a session: what to keep for it, and the answer to its first request."""

    def answer(self, kept: S, message: Message) -> Message:
        """Answer a further request of an open session; by default, its state does."""
        state: Any = kept
        answer: Message = state.answer(message)
        return answer

    def closed(self, kept: S) -> None:
        """Called after a session has ended, for whatever reason."""

    def close(self) -> None:
        """Let go of files: another handler, or process, can use them then."""

    @property
    def has_sessions(self) -> bool:
        """Whether a session is open, or a request is being answered."""
        if not self._lock.acquire(blocking=False):
            return True
        try:
            return bool(self.sessions) or self._is_answering
        finally:
            self._lock.release()

    def is_idle(self, seconds: float) -> bool:
        """Whether no session is open, or no request has come for some seconds."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._is_answering:
                return False
            return not self.sessions or time.monotonic() - self._last_request > seconds
        finally:
            self._lock.release()

    def handle(self, request: bytes) -> bytes:
        """Answer a request in bytes, refusing one that is no message; raises OSError as `reply`."""
        try:
            envelope = messages.read(request)
        except ProtocolError as error:
            reason = str(error)
        except Exception as error:
            reason = _unforeseen(error)
        else:
            return self.reply(envelope).content
        with self._lock:
            self._end(messages.address(request)[0])
        return Reply.unread(request, reason).content

    def reply(self, envelope: messages.Envelope) -> Reply:
        """Answer a request that has been parsed.

        Errors that veilboost names become refusals with their text. Of any other error the log says where it
        occurred, without values, and the caller only learns that there was one. Raises OSError if the disk is
        full or no more files can be opened for now: a passing fault, and worth waiting for.
        """
        with self._lock:
            session = envelope.session
            self._last_request = time.monotonic()
            self._is_answering = True
            try:
                return Reply.to(envelope, self._answer_in_turn(envelope))
            except RunLostError as error:
                answer = self._refuse(session, str(error), messages.NO_RUN)
            except PartyUnavailableError as error:
                # Another session may have what this one has lost.
                answer = self._refuse(session, str(error), messages.NO_SESSION)
            except VeilboostError as error:
                answer = self._refuse(session, str(error))
            except OSError as error:
                answer = self._refuse(session, f"this party cannot read or write its files: {error.strerror}")
                if is_out_of_room(error):
                    raise
            except Exception as error:
                answer = self._refuse(session, _unforeseen(error))
            finally:
                self._is_answering = False
            return Reply.to(envelope, answer)

    def end_sessions(self, which: Callable[[S], bool]) -> None:
        """End the open sessions that a condition holds for; to be called while a request is answered."""
        for session, opened in list(self.sessions.items()):
            if which(opened.kept):
                self._end(session)

    def end_abandoned(self, seconds: float) -> None:
        """End sessions without a request for some seconds; none if another thread is answering one."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            for number, session in list(self.sessions.items()):
                if time.monotonic() - session.last_request > seconds:
                    self._end(number)
        finally:
            self._lock.release()

    def _answer_in_turn(self, envelope: messages.Envelope) -> Message:
        message, number = envelope.message, envelope.session
        if isinstance(message, self.opening):
            if envelope.sequence != 0 or number in self._used:
                raise ProtocolError("a session was opened out of order, or twice")
            self._used.add(number)
            kept, answer = self.open(message, number)
            while len(self.sessions) >= self.max_sessions:
                self._end(next(iter(self.sessions)))
            self.sessions[number] = _Session(kept)
            return answer
        if number not in self.sessions:
            return messages.Refusal("no such session", messages.NO_SESSION)
        session = self.sessions[number]
        if envelope.sequence != session.next:
            raise ProtocolError(f"message {envelope.sequence} out of order; {session.next} is next")
        session.next += 1
        session.last_request = time.monotonic()
        answer = self.answer(session.kept, message)
        if isinstance(message, self.closing):
            self._end(number)
        return answer

    def _refuse(self, session: bytes, reason: str, code: int = messages.OTHER_REASON) -> Message:
        self._end(session)
        return messages.refusal(reason, code)

    def _end(self, session: bytes) -> None:
        ended = self.sessions.pop(session, None)
        if ended is not None:
            self.closed(ended.kept)


def _unforeseen(error: Exception) -> str:
    """All that a caller learns of an error without a name, whose places are in the log."""
    logger.error("a request failed: %s", places_of(error))
    return "internal error"
