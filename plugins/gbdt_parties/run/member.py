"""A party of a run of secure sums, as the coordinator knows it: its session, and how far it has come."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import TypeVar

from gbdt_parties.channel import Channel, Party
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from gbdt_parties.messages import Message
from gbdt_parties.secure_sum.messages import NEW_RUN, Introduced, OpenRun
from gbdt_parties.secure_sum.roster import SESSION_BYTES
from gbdt_parties.traffic import Traffic

COORDINATOR = "coordinator"
"""Its name in tables of traffic."""

MAX_DOUBLINGS = 6
"""Of the rounds between two tries to reach a party that was lost: at most 64 rounds pass."""

M = TypeVar("M", bound=Message)


class Member:
    """One party, by its place in the roster.

    Introduction and description are empty until it has introduced itself.  It has opened `n_opened` sums, as
    far as the coordinator knows, was lost `failures` times since it last answered, and last in round
    `lost_in`. `coming` is an attempt to reach it while training goes on without it; a party that `forgot`
    does not know the run any more.
    """

    def __init__(self, place: int, party: Party, traffic: Traffic) -> None:
        self.place, self.party, self.name, self._traffic = place, party, party.name, traffic
        self.introduction, self.description = b"", ""
        self.n_opened, self.failures, self.lost_in = 0, 0, -1
        self.coming: Future[None] | None = None
        self.forgot = False
        self._channel: Channel | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is in another process, which works while others are asked."""
        return hasattr(self.party, "interrupt")

    @property
    def is_connected(self) -> bool:
        """Whether it has a session, and is up to date but for the last round."""
        return self._channel is not None and self.coming is None

    def open(self, opening: OpenRun) -> None:
        """Open a session of a run, new or known."""
        channel = Channel(self.party, os.urandom(SESSION_BYTES), self._traffic, COORDINATOR)
        answer = channel.ask(opening, Introduced)
        if opening.n_known == NEW_RUN:
            self.introduction, self.description = answer.introduction, answer.description
        elif answer.introduction != self.introduction or not 0 <= answer.n_opened <= opening.n_known:
            raise ProtocolError(f"party {self.name!r} does not take up the run where it left it")
        self.n_opened, self._channel = answer.n_opened, channel

    def ask(self, message: Message, answer: type[M]) -> M:
        """Ask in the open session."""
        if self._channel is None:
            raise PartyUnavailableError(f"party {self.name!r} has no session")
        try:
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
        return not self.forgot and n_opened >= self.lost_in + pause
