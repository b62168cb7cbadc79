"""Every field of the status, changed by one in between or by a peer that lies: refused, or without effect.

A connection begins with both sides' status, each signed with the whole set-up, and every attempt and the end
of a run with another one, which is compared.  Whatever is changed there, no round is opened twice, no noised
share leaves that is not charged, and an honest peer goes on afterwards.
"""

import copy
from dataclasses import fields, replace
from functools import cache, partial

import pytest

from gbdt_parties.errors import AuthenticationError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.run.flights.connection import STATUS_BYTES, Status
from gbdt_parties.run.flights.frames import HEADER_BYTES, FrameKind, heading
from gbdt_parties.run.flights.kept import Charge, RoundAttempt
from gbdt_parties.two_party.sides import LAST
from two_party_flights import LEDGER, Party, layout_of, meet, survive, watched

pytest.importorskip("nacl")

FIELDS = [one.name for one in fields(Status)]
MOST = (1 << 16) - 1
OF_BYTES = {"chain", "pending", "latest", "signature"}
BEHIND = "one side ahead", 1, "round"
"""There is no lower one."""


class Releasing(Party):
    """A party of two rounds, before which either side releases a value."""

    def __init__(self, place):
        super().__init__(place, [layout_of(), layout_of()])
        self.sent = []

    def train(self, exchange):
        for owner in (0, 1):
            yield from exchange.value(
                owner, 8, lambda content: None, self.release if owner == self.place else None
            )
        return (yield from super().train(exchange))

    def release(self, stream):
        self.store.append(LEDGER, "values", 1)
        return stream.words(1).tobytes()


class Lost:
    """A channel that is lost before a message of some kind is sent for the n-th time."""

    def __init__(self, channel, kind, flight, nth):
        self._channel, self._which, self._left = channel, (kind, flight), nth
        self.receive, self.hand_over = channel.receive, channel.hand_over

    def send(self, message):
        kind, step, _ = heading(message)
        self._left -= (kind, step.flight) == self._which
        if self._left == 0:
            raise PartyUnavailableError("the connection is lost")
        self._channel.send(message)


LOSSES = {
    "new": (FrameKind.GREETING, 0, 1),
    "one round open": (FrameKind.BEGIN, 0, 2),
    "one side ahead": (FrameKind.SHARES, LAST, 1),
}
"""States of a run, by the message of the side with tables at which the connection before was lost."""


@cache
def stopped_at(state):
    parties, loss = [Releasing(place) for place in (0, 1)], LOSSES[state]
    connect(parties, change=lambda k, channel: channel if k else Lost(channel, *loss))
    return parties


def parties_at(state):
    """Both parties in a state of the run, which is made once."""
    parties = []
    for stopped in stopped_at(state):
        party = Releasing(stopped.place)
        party.store, party.inputs = copy.deepcopy(stopped.store), dict(stopped.inputs)
        party.sent = list(stopped.sent)
        parties.append(party)
    return parties


def connect(parties, processes=None, change=None):
    outcomes = meet(parties, processes, change, watched)
    for party, outcome in zip(parties, outcomes, strict=True):
        party.sent += outcome.channel.sent
    return outcomes


VALUES = {
    "lower": lambda true: true - 1,
    "higher": lambda true: true + 1,
    "highest": lambda true: MOST,
    "flipped": lambda true: bytes([true[0] ^ 1]) + true[1:],
    "ones": lambda true: b"\xff" * len(true),
}


def openings(party):
    kept = party.process().kept
    return [kept.opened(k) for k in range(kept.n_opened)]


def check(party, opened):
    """Nothing of a party's was opened twice, or left without a charge."""
    kept = party.process().kept
    assert openings(party)[: len(opened)] == opened
    shares = [one for one in party.sent if one[4] == FrameKind.SHARES]
    assert {heading(one)[1].attempt for one in shares} <= {one.number for one in kept.all(Charge)}
    assert len(kept.all(Charge)) == party.n_paid
    # One body at most for each attempt and flight, on whatever connection.
    bodies = {(heading(one)[1], one[HEADER_BYTES:]) for one in shares}
    assert len(bodies) == len({step for step, _ in bodies})
    again = {one[HEADER_BYTES:] for one in party.sent if one[4] == FrameKind.AGAIN}
    assert again <= {one.last for one in openings(party)}
    assert party.store.size(LEDGER, "values") <= 1


def is_refused(state, liar, name, value, kept):
    """Whether a side must refuse a status that is true but for one field, by what it has kept."""
    is_ahead = state == "one side ahead"
    made = partial(kept.has, RoundAttempt if liar == 0 else Charge)
    rules = {
        "round": lambda: True,
        "attempt": lambda: value > 7,
        # By what it must have done before that charge.
        "charged": lambda: value != 0 and not made(value),
        # Of those that it is about to release itself.
        "n_values": lambda: state == "new" and value > 1 - liar,
        # The sums of the other side's last round, or its signature, come with the last flight again.
        "chain": lambda: not (is_ahead and liar == 0),
        "pending": lambda: is_ahead and liar == 1,
        "latest": lambda: is_ahead and liar == 0,
        "signature": lambda: state == "one round open",
    }
    return rules[name]()


def lies():
    for state in LOSSES:
        for liar in (0, 1):
            for name in FIELDS:
                for how in ("flipped", "ones") if name in OF_BYTES else ("higher", "highest"):
                    yield state, liar, name, how
                if name not in OF_BYTES and state != "new" and (state, liar, name) != BEHIND:
                    yield state, liar, name, "lower"


@pytest.mark.parametrize(
    ("state", "liar", "name", "how"),
    [pytest.param(*lie, marks=() if k % 19 == 6 else pytest.mark.slow) for k, lie in enumerate(lies())],
)
def test_a_lie_about_where_a_side_is_is_refused_or_has_no_effect(state, liar, name, how):
    """It is signed by the one who tells it, whose process goes on with the truth."""
    parties = parties_at(state)
    honest, process = parties[1 - liar], parties[liar].process()
    true = Status.of(process.kept)
    value = VALUES[how](getattr(true, name))
    opened, told = openings(honest), []
    must_refuse = is_refused(state, liar, name, value, honest.process().kept)

    def of(kept, of=Status.of):
        status = of(kept)
        if kept is not process.kept or told:
            return status
        told.append(status)
        return replace(status, **{name: value})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Status, "of", of)
        processes = [party.process() for party in parties]
        processes[liar] = process
        outcomes = connect(parties, processes)
    assert told == [true]
    error = outcomes[1 - liar].error
    if must_refuse:
        assert isinstance(error, ProtocolError)
        assert not isinstance(error, PartyRefusedError)
        assert not any(
            one[4] in (FrameKind.SHARES, FrameKind.AGAIN) for one in outcomes[1 - liar].channel.sent
        )
    else:
        assert [one.error for one in outcomes] == [None, None]
    check(honest, opened)
    # With the truth the run goes on, or is over.
    survive(parties, [])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if k == 0 else pytest.mark.slow) for k, one in enumerate(FIELDS)]
)
def test_one_in_between_changes_no_field_of_a_greeting(name, place):
    """It cannot sign for the party whose status it changes: neither side has a session."""
    parties = parties_at("one side ahead")
    opened = [openings(party) for party in parties]
    outcomes = connect(parties, change=between(place, FrameKind.GREETING, name))
    assert any(isinstance(one.error, AuthenticationError) for one in outcomes)
    for party, outcome, of in zip(parties, outcomes, opened, strict=True):
        assert isinstance(outcome.error, AuthenticationError | PartyRefusedError)
        assert not any(
            one[4] in (FrameKind.SHARES, FrameKind.AGAIN, FrameKind.ROUND) for one in outcome.channel.sent
        )
        assert openings(party) == of
        check(party, of)


@pytest.mark.parametrize(
    ("kind", "name", "place"),
    [
        pytest.param(kind, name, place, marks=() if (k + place + kind) % 11 == 0 else pytest.mark.slow)
        for kind in (FrameKind.BEGIN, FrameKind.END)
        for k, name in enumerate(FIELDS)
        for place in (0, 1)
    ],
)
def test_a_status_that_is_changed_before_an_attempt_or_at_the_end_is_refused(kind, name, place):
    """But for the attempt, which the message's header says, too, and the charge, which one side has first."""
    parties = parties_at("one round open")
    opened = [openings(party) for party in parties]
    outcomes = connect(parties, change=between(place, kind, name))
    if name in ("attempt", "charged"):
        assert [one.error for one in outcomes] == [None, None]
    else:
        error = outcomes[1 - place].error
        assert isinstance(error, AuthenticationError if name == "signature" else ProtocolError)
        assert not isinstance(error, PartyRefusedError)
        if kind == FrameKind.BEGIN:
            assert not any(one[4] == FrameKind.SHARES for one in outcomes[1 - place].channel.sent)
    for party, of in zip(parties, opened, strict=True):
        check(party, of)
    survive(parties, [])


def between(place, kind, name):
    """Let one in between change a field of the first status of a kind that a party sends."""
    seen = []

    class Between:
        def __init__(self, channel):
            self._channel, self.receive = channel, channel.receive
            self.hand_over = channel.hand_over

        def send(self, message):
            if message[4] == kind:
                seen.append(message)
                if len(seen) == 1:
                    status = Status.from_bytes(message[-STATUS_BYTES:])
                    how = VALUES["flipped" if name in OF_BYTES else "higher"]
                    forged = replace(status, **{name: how(getattr(status, name))})
                    message = message[:-STATUS_BYTES] + forged.to_bytes()
            self._channel.send(message)

    return lambda k, channel: Between(channel) if k == place else channel
