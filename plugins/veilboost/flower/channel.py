"""Parties behind Flower's nodes, as the coordinator asks them.

A node answers every message of the platform in a new process.  So each of them holds whatever such a process
needs: the message that opens a session, all sums so far, and one question.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Protocol

from gbdt_commons.quoting import quoted
from gbdt_parties import messages
from gbdt_parties.errors import PartyArgumentError, PartyUnavailableError, ProtocolError
from gbdt_parties.messages import Done, Message, Refusal
from gbdt_parties.secure_sum.messages import BEGINNING, NEW_RUN, AskSum, BeginRounds, OpenRun, OpenSum
from gbdt_parties.secure_sum.roster import SESSION_BYTES

SECONDS_BETWEEN_LOOKS = 0.5
"""Between two looks whether a reply has come.  Flower's own are three seconds apart."""


@dataclass(frozen=True)
class Reply:
    """Reply of a node to one message of the platform.

    Parameters
    ----------
    name : str
        The party's, as the node says; signatures decide whether it is.
    answers : sequence of bytes
        To our requests, up to the first refusal.
    failure : str
        Reason why there are none; empty if there is none.
    """

    name: str
    answers: Sequence[bytes]
    failure: str = ""


class Carrier(Protocol):
    """Messages to nodes and their replies; threads take turns."""

    def nodes(self) -> Iterable[int]:
        """Numbers of the nodes that are connected."""

    def push(self, node: int, requests: Sequence[bytes], seconds: float) -> str:
        """Send a message that is worth so many seconds; gives its number.

        Raises
        ------
        PartyRefusedError
            If the platform does not take it, for its length.
        PartyUnavailableError
            If the node is not there any more.
        """

    def pull(self, numbers: Sequence[str]) -> Mapping[str, Reply]:
        """The replies that have come, by the numbers of the messages."""


class Nodes:
    """Which node has which party; a node that starts again is another one.

    Parameters
    ----------
    carrier : Carrier
    timeout : float
        Seconds without a reply after which a node is lost.
    """

    def __init__(self, carrier: Carrier, timeout: float) -> None:
        self._carrier, self._timeout = carrier, timeout
        self._carrying, self._searching = Lock(), Lock()
        self._asked: dict[str, int] = {}
        self._named: dict[int, str] = {}

    def ask(self, name: str, requests: Sequence[bytes], given_up: Event) -> Sequence[bytes]:
        """The answers of a party to requests that travel together.

        Raises
        ------
        PartyUnavailableError
            If no node has the party, or its node does not reply in time, or replies that it cannot answer.
        """
        node = self._node_of(name)
        try:
            return self._answers(node, name, requests, given_up)
        except PartyUnavailableError:
            with self._searching:
                self._named.pop(node, None)
            raise

    def _answers(self, node: int, name: str, requests: Sequence[bytes], given_up: Event) -> Sequence[bytes]:
        with self._carrying:
            number = self._carrier.push(node, requests, self._timeout)
        end = time.monotonic() + self._timeout
        while True:
            with self._carrying:
                reply = self._carrier.pull([number]).get(number)
            if reply is not None and reply.failure:
                raise PartyUnavailableError(f"party {name!r} behind node {node}: {quoted(reply.failure)}")
            if reply is not None:
                return reply.answers
            if time.monotonic() >= end:
                raise PartyUnavailableError(
                    f"party {name!r}: no reply from node {node} in {self._timeout:g} s"
                )
            if given_up.wait(SECONDS_BETWEEN_LOOKS):
                raise PartyUnavailableError(f"party {name!r}: the question was given up")

    def _node_of(self, name: str) -> int:
        """The node of a party; those that are new are asked for their names, all at the same time."""
        with self._searching:
            end, failed = time.monotonic() + self._timeout, dict[int, str]()
            while name not in self._named.values():
                self._look(failed)
                if name in self._named.values():
                    break
                if time.monotonic() >= end:
                    why = "".join(f"; node {node}: {quoted(said)}" for node, said in failed.items())
                    raise PartyUnavailableError(f"party {name!r} is behind no node that answers{why}")
                time.sleep(SECONDS_BETWEEN_LOOKS)
            found = [node for node, one in self._named.items() if one == name]
            if len(found) > 1:
                raise PartyArgumentError(f"nodes {found} all say that they are party {name!r}")
            return found[0]

    def _look(self, failed: dict[int, str]) -> None:
        """Ask new nodes for their names, and take note of those that have come, and of those that fail."""
        with self._carrying:
            for node in self._carrier.nodes():
                if node not in {*self._named, *self._asked.values(), *failed}:
                    # One that is gone again is no answer about the others.
                    with suppress(PartyUnavailableError):
                        self._asked[self._carrier.push(node, (), self._timeout)] = node
            for number, reply in self._carrier.pull(list(self._asked)).items():
                node = self._asked.pop(number)
                if reply.failure:
                    failed[node] = reply.failure
                else:
                    self._named[node] = reply.name


class NodeParty:
    """A party behind a node; speaks the same bytes as one behind a server.

    Opened sums wait for the next question and travel with it, each time all of them.

    Parameters
    ----------
    nodes : Nodes
    name : str
        The party's, as in its certificate.
    """

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.name = name
        self._nodes, self._given_up = nodes, Event()
        self._opening: OpenRun | None = None
        self._sums: list[OpenSum] = []

    def interrupt(self) -> None:
        """Give up the question that is under way, if any, from another thread."""
        self._given_up.set()

    def handle(self, request: bytes) -> bytes:
        """Send a request, wait for the answer.

        Raises
        ------
        PartyUnavailableError
            If the party cannot be asked, or does not answer in time.
        PartyRefusedError, ProtocolError
            If the platform does not take the message, or the answer is none.
        """
        self._given_up.clear()
        envelope = messages.read(request)
        return messages.write(envelope.session, envelope.sequence, self._answer(envelope.message))

    def _answer(self, message: Message) -> Message:
        if isinstance(message, OpenRun):
            self._opening, self._sums = message, []
            answer = self._asked([message])
            if message.n_known == NEW_RUN:
                self._opening = replace(message, n_known=BEGINNING)
            return answer
        if self._opening is None:
            raise ProtocolError(f"{type(message).__name__} before a session was opened")
        if isinstance(message, OpenSum):
            self._sums.append(message)
            return Done()
        if isinstance(message, AskSum) and message.opened:
            self._sums.append(OpenSum(message.opened))
            message = replace(message, opened=b"")
        if self._opening.n_known != BEGINNING:
            self._opening = replace(self._opening, n_known=len(self._sums))
        answer = self._asked([self._opening, *self._sums, message])
        if isinstance(message, BeginRounds) and isinstance(answer, Done):
            self._opening = replace(self._opening, n_known=0)
        return answer

    def _asked(self, asked: Sequence[Message]) -> Message:
        """The answer to the last of several requests, or the refusal of one before it."""
        session = os.urandom(SESSION_BYTES)
        requests = [messages.write(session, number, message) for number, message in enumerate(asked)]
        answers = self._nodes.ask(self.name, requests, self._given_up)
        if not 0 < len(answers) <= len(requests):
            raise ProtocolError(
                f"party {self.name!r} gave {len(answers)} answers to {len(requests)} requests"
            )
        try:
            last = messages.read(answers[-1])
        except ProtocolError as error:
            raise ProtocolError(f"party {self.name!r}: {quoted(str(error))}") from None
        is_refusal = isinstance(last.message, Refusal)
        if (last.session, last.sequence) != (session, len(answers) - 1) or (
            len(answers) < len(requests) and not is_refusal
        ):
            raise ProtocolError(f"party {self.name!r} answered another message than the one it was sent")
        return last.message
