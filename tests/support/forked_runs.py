"""A coordinator that opens another last sum for one party, and then tries to let it end alone."""

import os
from dataclasses import replace

from gbdt_parties.channel import Channel
from gbdt_parties.messages import Done, read, write
from gbdt_parties.secure_sum.messages import (
    AskModel,
    AskSum,
    EndRun,
    FinishedModel,
    Introduced,
    Opened,
    OpenRun,
    OpenSum,
    pack,
)
from gbdt_parties.traffic import Traffic


class Fork:
    """The relays of such a coordinator.

    Parameters
    ----------
    parties : sequence of Party
    victim : int
        The place of the party that is shown the other sum.
    last : int
        Number of the last sum.
    another : callable
        ``another(place, question, answer, send)`` gives the number of an attempt and the party's contribution
        to it, besides the one in its answer; ``send`` asks the party.
    """

    def __init__(self, parties, victim, last, another):
        self.parties, self.victim, self.last, self.another = parties, victim, last, another
        self.relays = [_Relay(self, place) for place in range(len(parties))]
        self.opening, self.opened, self.other = None, {}, {}

    def open(self, place, n_known):
        """A new session of the run, which goes back to a sum if it is before those that the party has."""
        channel = Channel(self.parties[place], os.urandom(16), Traffic(), "eve")
        channel.ask(replace(self.opening, n_known=n_known), Introduced)
        return channel

    @property
    def other_sum(self):
        """All contributions to the last sum that the victim is shown."""
        (number,) = {number for number, _ in self.other.values()}
        contents = {place: content for place, (_, content) in self.other.items()}
        return Opened(self.last, number, contents).to_bytes()

    def replayed(self, place, last_sum):
        """A session of a party that is shown all sums from the first one, and some last one."""
        channel = self.open(place, 0)
        for number in range(self.last):
            channel.ask(OpenSum(self.opened[number]), Done)
        channel.ask(OpenSum(last_sum), Done)
        return channel

    def asked(self, place):
        """The end as a party signs it."""
        return self.open(place, self.last + 1).ask(AskModel(0), FinishedModel)

    def end(self, place, signatures):
        """Let a party end with signatures by place."""
        content = pack([signatures.get(k, b"") for k in range(len(self.parties))])
        self.open(place, self.last + 1).ask(EndRun(content), Done)

    def pretences(self, place, ends):
        """All signatures that there are, put together in ways that might do: each is to be refused."""
        own, others = ends[place].signature, {k: end.signature for k, end in ends.items() if k != place}
        return [
            {},
            {place: own},
            {place: own, **others},
            others,
            dict.fromkeys(ends, own),
            {place: own, **{k: bytes(64) for k in others}},
        ]


class _Relay:
    def __init__(self, fork, place):
        self.fork, self.place, self.number = fork, place, 0

    @property
    def name(self):
        return self.fork.parties[self.place].name

    def handle(self, request):
        envelope, fork = read(request), self.fork
        message = envelope.message

        def send(asked):
            if isinstance(asked, OpenRun):
                self.number = 0
            answer = fork.parties[self.place].handle(write(envelope.session, self.number, asked))
            self.number += 1
            return read(answer).message

        if isinstance(message, OpenRun):
            fork.opening = message
        if isinstance(message, AskSum) and message.opened:
            fork.opened[message.round - 1] = message.opened
        if isinstance(message, AskSum) and message.round == fork.last + 1 and self.place == fork.victim:
            message = replace(message, opened=fork.other_sum)
        answer = send(message)
        if isinstance(message, AskSum) and message.round == fork.last:
            fork.other[self.place] = fork.another(self.place, message, answer, send)
        return write(envelope.session, envelope.sequence, answer)
