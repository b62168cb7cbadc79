"""Processes of either side end anywhere: the run goes on, and nothing is answered twice."""

import random

import pytest

from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.run.engine import carried_out
from gbdt_parties.run.flights.kept import Charge, Connection, RoundAttempt
from two_party_flights import Killed, Party, check_outcome, layout_of, meet, survive

pytest.importorskip("nacl")

LAYOUTS = [layout_of(), layout_of(65, owners=(1, 0, 0), ring_bits=64)]


def new_parties(layouts=LAYOUTS):
    return [Party(place, layouts) for place in (0, 1)]


@pytest.fixture(scope="module")
def n_events():
    """Events of either side in a run without interruptions."""
    parties = new_parties()
    assert survive(parties, []) == 0
    return [party.events.n_events for party in parties]


def test_a_run_without_interruptions_takes_one_attempt_per_round():
    parties = new_parties()
    survive(parties, [])
    for party in parties:
        kept = party.process().kept
        assert [(one.round, one.number) for one in kept.all(RoundAttempt)] == [(0, 1), (1, 2)]
        assert party.n_paid == len(kept.all(Charge)) == 2
        assert len(kept.all(Connection)) == 1


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("part", range(4))
def test_the_process_of_one_side_ends(n_events, place, part):
    """Somewhere in each quarter of its events; see the next test for all of them."""
    first, last = n_events[place] * part // 4 + 1, n_events[place] * (part + 1) // 4
    assert (
        survive(new_parties(), [(place, random.Random(part).randint(first, last))], both=part % 2 == 0) == 1
    )


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("place", [0, 1])
def test_the_process_of_one_side_ends_at_every_event(n_events, place, both):
    for event in range(1, n_events[place] + 1):
        assert survive(new_parties(), [(place, event)], both) == 1


@pytest.mark.slow
def test_processes_end_again_and_again(n_events):
    rng = random.Random(1)
    for _ in range(25):
        kills = [(place, rng.randint(1, n_events[place])) for place in rng.choices((0, 1), k=4)]
        survive(new_parties(), kills, both=rng.random() < 0.5)


def killed_after(parties, place, what, nth):
    """A connection in which a process ends right after a kind of event, for the n-th time."""
    party, events = parties[place], parties[place].events

    def happens(found, before=events.happens):
        before(found)
        events.seen = getattr(events, "seen", 0) + (found == what)
        if events.seen == nth:
            raise Killed(what)

    events.happens = happens
    outcomes = meet(parties)
    del events.happens
    assert isinstance(outcomes[place].error, Killed)
    assert isinstance(outcomes[1 - place].error, PartyUnavailableError)
    return party


def test_a_last_flight_that_was_lost_is_sent_again_byte_for_byte():
    """The side with tables has opened the round, and the other one has not: the two generals."""
    parties = new_parties(LAYOUTS[:1])
    # Commits: connection, attempt, charge, opening.
    killed_after(parties, 0, "after a commit", 4)
    a, b = (party.process().kept for party in parties)
    assert (a.n_opened, b.n_opened) == (1, 0)
    assert b.pending.digest == a.opening.digest
    # Without a channel nothing can be sent, and with one it is what was kept.
    outcomes = meet(parties)
    assert outcomes[0].sums == outcomes[1].sums
    assert [one.error for one in outcomes] == [None, None]
    again = [message for message in outcomes[0].channel.sent if message[4] == 5]
    assert [message[16:] for message in again] == [a.opening.last]
    check_outcome(parties)
    assert [party.n_paid for party in parties] == [1, 1]


@pytest.mark.parametrize("owners", [(), (0,), (1,)])
def test_rounds_with_trees_of_one_side_or_none(owners):
    """A last flight without shares is a signature alone; it is sent again, too."""
    parties = new_parties([layout_of(owners=owners), layout_of(n=1)])
    killed_after(parties, 0, "after a commit", 4)
    assert [party.process().kept.n_opened for party in parties] == [1, 0]
    survive(parties, [])
    assert [party.n_paid for party in parties] == [2, 2]


def test_an_attempt_whose_other_side_cannot_open_it_is_abandoned_and_stays_charged():
    parties = new_parties(LAYOUTS[:1])
    # The side with points has charged, and its shares are lost.
    killed_after(parties, 1, "after a commit", 3)
    assert [party.process().kept.n_opened for party in parties] == [0, 0]
    assert [party.n_paid for party in parties] == [1, 1]
    outcomes = meet(parties)
    assert [one.error for one in outcomes] == [None, None]
    check_outcome(parties)
    assert [party.n_paid for party in parties] == [2, 2]
    for party in parties:
        first, second = party.process().kept.all(Charge)
        assert (first.number, second.number) == (1, 2)
        assert first.own != second.own


def test_masked_messages_that_were_lost_cost_nothing():
    parties = new_parties(LAYOUTS[:1])
    killed_after(parties, 0, "after a commit", 2)
    assert [party.n_paid for party in parties] == [0, 0]
    survive(parties, [])
    assert [party.n_paid for party in parties] == [1, 1]
    assert [one.number for one in parties[0].process().kept.all(RoundAttempt)] == [1, 2]


def test_numbers_of_attempts_are_above_those_of_both_sides():
    """One side has begun attempts that the other one has not heard of."""
    for place in (0, 1):
        parties = new_parties(LAYOUTS[:1])
        for number in (1, 2, 3):
            parties[place].process().kept.begin(RoundAttempt(0, number))
        survive(parties, [])
        numbers = [[one.number for one in party.process().kept.all(RoundAttempt)] for party in parties]
        assert numbers[place] == [1, 2, 3, 4]
        assert numbers[1 - place] == [4]


def test_rounds_that_are_over_need_no_connection():
    parties = new_parties()
    survive(parties, [])
    for party in parties:
        exchange = party.process()
        rounds = (exchange.round(number, one, None, None) for number, one in enumerate(party.layouts))
        sums = [carried_out(steps, None) for steps in rounds]
        assert [len(of_round) for of_round in sums] == [2, 3]
        with pytest.raises(PartyUnavailableError, match="no connection"):
            carried_out(exchange.end(), None)
