"""Parties behind Flower's nodes, as the coordinator asks them.

A node says which party it has.  The party's certificate signs each session behind it, and it is believed once
that has signed a roster, too; until then, another node that says the same is tried if this one fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Lock

from gbdt_commons.quoting import quoted
from gbdt_parties import messages
from gbdt_parties.errors import AuthenticationError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.messages import NO_SESSION, Done, Message, Refusal
from gbdt_parties.secure_sum import messages as wire
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import AllowList, check_signature
from veilboost.flower.carrier import Carrier

logger = logging.getLogger(__name__)
SECONDS_BETWEEN_LOOKS = 0.5
"""Between two looks whether a reply has come.  Flower's own are three seconds apart."""

BATCH_BYTES = 256 << 20
"""Of opened sums that wait for the next question; an eighth of what Flower's messages may have."""


class Nodes:
    """Which node has which party, by its word; one is lost after `timeout` silent seconds."""

    def __init__(self, carrier: Carrier, timeout: float) -> None:
        self._carrier, self._timeout = carrier, timeout
        self._carrying, self._searching = Lock(), Lock()
        self._asked: dict[str, tuple[int, float]] = {}
        self._named: dict[int, str] = {}
        self._ignored: dict[int, str] = {}

    def ask(self, node: int, name: str, requests: Sequence[bytes], given_up: Event) -> Sequence[bytes]:
        """The answers of a party behind a node to requests that travel together.

        Raises PartyUnavailableError if the node does not reply in time, or replies that it cannot answer; it
        is asked for its name again.
        """
        try:
            return self._answers(node, name, requests, given_up)
        except PartyUnavailableError:
            self.forget(node)
            raise

    def forget(self, node: int) -> None:
        """Ask a node for its name again, and those that are new, before the party is asked behind it."""
        with self._searching:
            self._named.pop(node, None)

    def ignore(self, node: int, name: str, reason: str) -> None:
        """Believe a node no more: it does not have the party that it says it has."""
        logger.warning("node %d is ignored, which says that it is party %r: %s", node, name, reason)
        with self._searching:
            self._named.pop(node, None)
            self._ignored[node] = reason

    def claiming(self, name: str) -> list[int]:
        """Nodes that say that they have a party, as far as is known now."""
        with self._searching:
            return [node for node, one in self._named.items() if one == name]

    def found(self, name: str, given_up: Event) -> list[int]:
        """Nodes that say that they have a party, new ones asked at once; PartyUnavailableError if none."""
        end, failed = time.monotonic() + self._timeout, dict[int, str]()
        while not (found := self.claiming(name)):
            with self._searching:
                self._look(failed)
            if time.monotonic() >= end and not self.claiming(name):
                said = {**self._ignored, **failed}
                why = "".join(f"; node {node}: {quoted(reason)}" for node, reason in said.items())
                raise PartyUnavailableError(f"party {name!r} is behind no node that answers{why}")
            if not self.claiming(name) and given_up.wait(SECONDS_BETWEEN_LOOKS):
                raise PartyUnavailableError(f"party {name!r}: the question was given up")
        return found

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

    def _look(self, failed: dict[int, str]) -> None:
        """Ask new nodes for their names, and take note of those that have come, and of those that fail."""
        now = time.monotonic()
        # A node that has not said its name in time is asked again: the platform keeps no reply for longer.
        self._asked = {number: one for number, one in self._asked.items() if now < one[1]}
        waited_for = {node for node, _ in self._asked.values()}
        with self._carrying:
            for node in self._carrier.nodes():
                if node not in {*self._named, *waited_for, *failed, *self._ignored}:
                    # One that is gone again is no answer about the others.
                    with suppress(PartyUnavailableError):
                        number = self._carrier.push(node, (), self._timeout)
                        self._asked[number] = node, now + self._timeout
            for number, reply in self._carrier.pull(list(self._asked)).items():
                node, _ = self._asked.pop(number)
                if reply.failure:
                    failed[node] = reply.failure
                else:
                    self._named[node] = reply.name


class NodeParty:
    """A party behind a node; speaks the same bytes as one behind a server.

    Sums that it has missed wait for the next question and travel with it. The name is that in the party's
    certificate, which one of the `authority`'s PEM certificates has signed.
    """

    def __init__(self, nodes: Nodes, name: str, authority: bytes) -> None:
        self.name = name
        self._nodes, self.given_up = nodes, Event()
        self._certificates = AllowList(None, authority)
        self._shown = b""
        self._node: int | None = None
        self._trusted: int | None = None
        self._has_begun = False
        self._n_late = 0
        self._waiting: list[bytes] = []

    def interrupt(self) -> None:
        """Give up the question that is under way, and all later ones, from another thread."""
        self.given_up.set()

    def handle(self, request: bytes) -> bytes:
        """Send a request, wait for the answer.

        Raises PartyUnavailableError if the party cannot be asked or does not answer in time,
        PartyRefusedError or ProtocolError if the platform does not take the message, the answers are none, or
        another run has ended the beginning of this one.
        """
        if self.given_up.is_set():
            raise PartyUnavailableError(f"party {self.name!r}: the question was given up")
        envelope = messages.read(request)
        message, version = envelope.message, envelope.version
        if isinstance(message, wire.OpenRun):
            return self._opened(request, message)
        if isinstance(message, wire.OpenSum) and sum(map(len, self._waiting)) + len(request) < BATCH_BYTES:
            self._waiting.append(request)
            return messages.write(envelope.session, envelope.sequence, Done(), version)
        requests, self._waiting = [*self._waiting, request], []
        answer, answered = self._asked(self._node, requests)
        if isinstance(message, wire.ProposeRoster):
            self._check_signed(message, answered)
        if isinstance(message, wire.BeginRounds) and isinstance(answered, Done):
            self._has_begun = True
        if not isinstance(answered, Refusal):
            return answer
        if answered.code == NO_SESSION and not self._has_begun:
            raise self._of_another_run()
        # The refusal of a sum that has waited is that of the question behind it.
        return messages.write(envelope.session, envelope.sequence, answered, version)

    def _asked(self, node: int | None, requests: Sequence[bytes]) -> tuple[bytes, Message]:
        """The answer to the last of several requests, or the refusal of one before it."""
        if node is None:
            raise ProtocolError(f"party {self.name!r} was asked before a session was opened")
        answers = self._nodes.ask(node, self.name, requests, self.given_up)
        if not 0 < len(answers) <= len(requests):
            raise ProtocolError(
                f"party {self.name!r} gave {len(answers)} answers to {len(requests)} requests"
            )
        try:
            message = messages.read(answers[-1]).message
        except ProtocolError as error:
            raise ProtocolError(f"party {self.name!r}: {quoted(str(error))}") from None
        if len(answers) < len(requests) and not isinstance(message, Refusal):
            raise ProtocolError(
                f"party {self.name!r} gave {len(answers)} answers to {len(requests)} requests"
            )
        return answers[-1], message

    def _of_another_run(self) -> PartyUnavailableError | PartyRefusedError:
        """The loss of a session in which a run begins, which another opening has ended.

        One of this run's that was given up, and came late, costs one more beginning.  Of two runs that begin
        at once, each would go on ending the sessions of the other.
        """
        if self._n_late:
            self._n_late -= 1
            return PartyUnavailableError(f"party {self.name!r} has taken an opening that was given up")
        return PartyRefusedError(
            f"party {self.name!r} has begun another run since, or was restarted: start one run at a time"
        )

    # Which node to believe.

    def _opened(self, request: bytes, message: wire.OpenRun) -> bytes:
        """Open a session behind a node that shows the party's certificate, and has its signature."""
        self._waiting, self._has_begun = [], message.n_known != wire.NEW_RUN
        found = self._nodes.found(self.name, self.given_up)
        node = self._trusted if self._trusted in found else found[0]
        assert node is not None
        try:
            answer, answered = self._asked(node, [request])
            if not isinstance(answered, Refusal):
                self._check_introduced(answered, messages.address(request)[0])
        except PartyUnavailableError:
            self._n_late += 1
            raise
        except PartyRefusedError:
            raise
        except ProtocolError as error:
            raise self._not_behind(node, str(error)) from None
        if isinstance(answered, Refusal) and node != self._trusted:
            # It has no signature, since a server refuses callers before it knows whose run it is, and any
            # node can say so.  So it is a loss: it is logged and waited for, and named at the end.
            raise self._refused(node, answered.reason)
        self._node = node
        if self._has_begun:
            self._trusted = node
        return answer

    def _not_behind(self, node: int, reason: str) -> PartyUnavailableError:
        """Ignore a node; the error makes a run begin again, or go on, behind another one."""
        self._nodes.ignore(node, self.name, reason)
        return PartyUnavailableError(f"party {self.name!r} is not behind node {node}: {reason}")

    def _refused(self, node: int, reason: str) -> PartyUnavailableError:
        """Try other nodes first, if there are any; this one may be the party's."""
        self._nodes.forget(node)
        return PartyUnavailableError(f"party {self.name!r} behind node {node} refuses: {quoted(reason)}")

    def _check_introduced(self, answered: Message, session: bytes) -> None:
        """Check that a certificate of the party is shown, and has signed all that is said in the session."""
        if not isinstance(answered, wire.Introduced):
            raise ProtocolError(f"{type(answered).__name__} is no introduction")
        self._shown = Introduction.from_bytes(answered.introduction).certificates
        self._certificates.check(self._shown, self.name)
        check_signature(self._shown, answered.digest(session), answered.proof, self.name)

    def _check_signed(self, proposed: wire.ProposeRoster, answered: Message) -> None:
        """Check that the party has signed, whose node is believed from now on.

        A refusal is believed if no other node is left that says it has the party: this one had its signature
        of the session, but may be a relay that alters what it passes on. Raises PartyUnavailableError if
        another node is to be tried, in a run that begins again.
        """
        node = self._node
        assert node is not None
        if isinstance(answered, wire.Endorsed):
            try:
                digest = Roster.from_bytes(proposed.roster).digest
                check_signature(self._shown, digest, answered.signature, self.name)
            except AuthenticationError as error:
                raise self._not_behind(node, str(error)) from None
            self._trusted = node
        elif node != self._trusted:
            said = answered.reason if isinstance(answered, Refusal) else type(answered).__name__
            lost = self._refused(node, said)
            if self._nodes.claiming(self.name):
                raise lost
