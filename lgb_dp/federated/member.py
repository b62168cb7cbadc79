"""A party of a private training run, as the coordinator knows it: its session, and how far it has come."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import Future
from time import monotonic
from typing import TypeVar

from gbdt_parties.channel import Channel, Party
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from gbdt_parties.messages import Done, Message
from gbdt_parties.secure_sum.messages import OpenSum
from gbdt_parties.secure_sum.roster import SESSION_BYTES
from gbdt_parties.traffic import Traffic
from lgb_dp.federated.messages import Introduced, OpenFederated

COORDINATOR = "coordinator"
"""Its name in tables of traffic."""

SECONDS_TO_ASK_AGAIN = 1.0
"""A party that is lost within this time is connected to and asked once more: a connection broke, or a server
was restarted.  One that was silent for longer has kept all parties waiting already."""

MAX_DOUBLINGS = 6
"""Of the rounds between two tries to reach a party that was lost: at most 64 rounds pass."""

M = TypeVar("M", bound=Message)


class Member:
    """One party.

    Parameters
    ----------
    party : Party
    traffic : Traffic

    Attributes
    ----------
    place : int
        In the roster.
    introduction : bytes
        Empty until it has introduced itself.
    declaration : str
        JSON.
    n_opened : int
        Sums that the party has opened, as far as the coordinator knows.
    failures : int
        How often it was lost since it last answered.
    lost_in : int
        Round in which it was lost last.
    coming : Future, optional
        An attempt to reach it, while training goes on without it.
    """

    def __init__(self, party: Party, traffic: Traffic) -> None:
        self.party, self._traffic = party, traffic
        self.place, self.introduction, self.declaration = 0, b"", ""
        self.n_opened, self.failures, self.lost_in = 0, 0, -1
        self.coming: Future[None] | None = None
        self._channel: Channel | None = None

    @property
    def name(self) -> str:
        """The party's name."""
        return self.party.name

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is in another process, which works while others are asked."""
        return hasattr(self.party, "interrupt")

    @property
    def is_connected(self) -> bool:
        """Whether it has a session, and is up to date but for the last round."""
        return self._channel is not None and self.coming is None

    def connect(self, run: bytes, task: str) -> None:
        """Open a session.

        Raises
        ------
        PartyUnavailableError
            If the party cannot be reached, or cannot take part in this run any more.
        """
        channel = Channel(self.party, os.urandom(SESSION_BYTES), self._traffic, COORDINATOR)
        introduced = channel.ask(OpenFederated(run, task), Introduced)
        if self.introduction and self.introduction != introduced.introduction:
            raise PartyUnavailableError(f"party {self.name!r} has lost its keys of this run")
        self.introduction, self.declaration = introduced.introduction, introduced.declaration
        self.n_opened, self._channel = introduced.n_opened, channel

    def reach(self, run: bytes, task: str, history: Sequence[bytes]) -> None:
        """Open a session, and send the sums that the party has missed."""
        self._channel = None
        self.connect(run, task)
        try:
            self.catch_up(history)
        except PartyUnavailableError:
            self._channel = None
            raise

    def catch_up(self, history: Sequence[bytes]) -> None:
        """Send the sums that the party has missed."""
        assert self._channel is not None
        while self.n_opened < len(history):
            self._channel.ask(OpenSum(history[self.n_opened]), Done)
            self.n_opened += 1

    def ask(self, run: bytes, task: str, history: Sequence[bytes], message: Message, answer: type[M]) -> M:
        """Ask; if the party is lost, connect to it once more and ask the same.

        Parameters
        ----------
        run, task
            As they were opened.
        history : sequence of bytes
            Sums that the party must have opened before it is asked, also in a new session.
        message : Message
        answer : type
            Of the answer that is expected.

        Raises
        ------
        PartyUnavailableError
            If the party is lost again, or was silent.
        """
        asked = monotonic()
        if self._channel is not None:
            try:
                self.catch_up(history)
                return self._channel.ask(message, answer)
            except PartyUnavailableError:
                self._channel = None
                if monotonic() - asked > SECONDS_TO_ASK_AGAIN:
                    raise
        try:
            self.reach(run, task, history)
            assert self._channel is not None
            return self._channel.ask(message, answer)
        except PartyUnavailableError:
            self._channel = None
            raise

    def lose(self, n_opened: int) -> None:
        """Note that the party was lost in a round."""
        self._channel, self.lost_in = None, n_opened
        self.failures += 1

    def is_due(self, n_opened: int) -> bool:
        """Whether a party that was lost is to be tried again in a round: ever more rarely."""
        pause = 2 ** min(self.failures - 1, MAX_DOUBLINGS) if self.failures else 0
        return n_opened >= self.lost_in + pause

    def declared(self) -> dict[str, str]:
        """Declaration of the party about its columns: a digest of each part.

        Raises
        ------
        ProtocolError
            If it cannot be read.
        """
        try:
            declaration = json.loads(self.declaration)
            return {str(part): str(digest) for part, digest in declaration.items()}
        except (ValueError, AttributeError, RecursionError):
            raise ProtocolError(f"party {self.name!r} sent a declaration that cannot be read") from None
