"""The asking side's view of a party: a name, and requests in bytes that are answered in bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Lock
from typing import Any, Protocol, TypeVar, cast

from gbdt_commons.quoting import quoted
from gbdt_parties import messages, protocol
from gbdt_parties.errors import (
    ConsentError,
    PartyArgumentError,
    PartyArgumentTypeError,
    PartyError,
    PartyRefusedError,
    ProtocolError,
    RunLostError,
    SessionLostError,
)
from gbdt_parties.messages import Message
from gbdt_parties.traffic import Traffic

ACTIVE = "active"
"""The active party's name in tables."""

_KINDS: dict[int, type[PartyError]] = {
    messages.NO_CONSENT: ConsentError,
    messages.NO_SESSION: SessionLostError,
    messages.NO_RUN: RunLostError,
}
"""Errors of a refusal, by its code."""

M = TypeVar("M", bound=Message)


class Party(Protocol):
    """Party that answers requests, in this process or elsewhere."""

    @property
    def name(self) -> str:
        """The party's name in messages and models."""

    def handle(self, request: bytes) -> bytes:
        """Send a request and wait for the answer.

        A party with an attribute `takes_parts` that is true also accepts a request as `Parts`, and sends what
        there is of it while the rest is being made.
        """


def check_parties(parties: Any) -> list[Party]:
    """Check that parties are parties and have different names, and hold servers to the others' allow-lists.

    A party of this process that has an `allow_list` would refuse others too late: in the roster, which all
    are sent with labels and column names. PartyArgumentError or PartyArgumentTypeError names the party.
    """
    if not isinstance(parties, Iterable):
        raise PartyArgumentTypeError(f"parties must be a sequence of parties, not {type(parties).__name__}")
    found: list[Party] = list(parties)
    for party in found:
        if not (hasattr(party, "handle") and hasattr(party, "name")):
            raise PartyArgumentTypeError(
                f"parties must be LocalParty objects or the like, not {type(party).__name__}"
            )
        if party.name == ACTIVE:
            raise PartyArgumentError(
                f"a party has the name {ACTIVE!r}, which is reserved for the active party"
            )
    names = [party.name for party in found]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise PartyArgumentError(f"parties have names in common: {doubled}; names must be unique")
    for known in (one.allow_list for one in found if hasattr(one, "allow_list")):
        for party in found:
            if known.entries is not None and hasattr(party, "accept_only"):
                party.accept_only(known)
    return found


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """Name the party that broke the protocol, in errors that do not."""
    try:
        yield
    except ProtocolError as error:
        raise ProtocolError(f"party {name!r}: {error}") from None


class Channel:
    """One 16-byte session with one party: numbers requests, checks answers, counts bytes of `sender`."""

    def __init__(self, party: Party, session: bytes, traffic: Traffic, sender: str = ACTIVE) -> None:
        self.party, self.sender = party, sender
        self.name = party.name
        self.session = session
        self._traffic = traffic
        self.next_number, self._version = 0, protocol.VERSION
        self._last = Event()
        self._last.set()
        self._lock = Lock()

    def ask(self, message: Message, answer: type[M]) -> M:
        """Send a request and give the answer, which must be of the right kind, session and number.

        A request of another thread waits for the answer to this one. Raises ConsentError if the party does
        not consent, SessionLostError if it was restarted since the session began, RunLostError if it does not
        know the run any more, PartyRefusedError, with its name and its reason, if it refuses for another one,
        and ProtocolError if the answer breaks the protocol.
        """
        with self._lock:
            while True:
                envelope = self._begun(message, is_alone=True)()
                found, is_older = envelope.message, envelope.version < self._version
                if not is_older or getattr(found, "code", None) != messages.NO_VERSION:
                    return self._checked(found, message, answer)
                self._version, self.next_number = envelope.version, self.next_number - 1

    def begin(self, message: Message, answer: type[M]) -> Callable[[], M]:
        """Send a request, also behind others that are not answered yet; what is given waits for the answer.

        It must be called once, and soon; errors are those of `ask`.  The first request of a session is asked.
        """
        with self._lock:
            wait = self._begun(message, is_alone=False)
        return lambda: self._checked(wait().message, message, answer)

    def _begun(self, message: Message, is_alone: bool) -> Callable[[], messages.Envelope]:
        """Send a request, alone or behind others; what is given waits for the answer."""
        number, party = self.next_number, cast("Any", self.party)
        made: Any = messages.write_parts(self.session, number, message, self._version)
        self._traffic.count(self.sender, self.name, message, len(made))
        request = made if getattr(party, "takes_parts", False) else bytes(made)
        before, done = self._last, Event()
        # A party that stands in front of another one, to see all that is said, has no such method.
        begins = not is_alone and hasattr(type(party), "begin")
        reply = party.begin(request) if begins else partial(party.handle, request)
        self.next_number, self._last = number + 1, done

        def wait() -> messages.Envelope:
            try:
                before.wait()
                return self._read(reply(), number)
            finally:
                done.set()

        return wait

    def _read(self, reply: bytes, number: int) -> messages.Envelope:
        """The answer to the request of a number."""
        try:
            envelope = messages.read(reply)
        except ProtocolError as error:
            raise ProtocolError(f"party {self.name!r}: {quoted(str(error))}") from None
        self._traffic.count(self.name, self.sender, envelope.message, len(reply))
        self._traffic.last_answer = time.monotonic()
        if (envelope.session, envelope.sequence) != (self.session, number):
            raise ProtocolError(f"party {self.name!r} answered another message than the one it was sent")
        return envelope

    def _checked(self, found: Message, message: Message, answer: type[M]) -> M:
        if isinstance(found, messages.Refusal):
            kind = _KINDS.get(found.code, PartyRefusedError)
            raise kind(f"party {self.name!r} refuses: {quoted(found.reason)}")
        if not isinstance(found, answer):
            raise ProtocolError(
                f"party {self.name!r} answered {type(message).__name__} with {type(found).__name__}, "
                f"not {answer.__name__}"
            )
        return found
