"""Waiting for a party that was lost."""

import pytest

from gbdt_parties import patience as lost_parties
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.traffic import Traffic


class Clock:
    """Time that passes in pauses only."""

    def __init__(self):
        self.now, self.pauses = 0.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.pauses.append(seconds)


def test_tries_become_rarer_so_that_the_other_parties_quotas_last(monkeypatch):
    """Before, two tries per second used up 240 sessions of the other parties in two minutes."""
    clock, opened = Clock(), []
    monkeypatch.setattr(lost_parties, "time", clock)

    def lost():
        raise PartyUnavailableError("party 'clinic' is down")

    with pytest.raises(PartyUnavailableError, match="clinic"):
        lost_parties.Reconnector(600.0, lambda: opened.append(clock.now), Traffic())(lost)
    assert clock.pauses[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0]
    assert max(clock.pauses) == 20.0
    assert clock.now == 600.0
    assert len(opened) < 40


def test_a_party_that_is_back_soon_is_not_waited_for_long(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(lost_parties, "time", clock)

    def work():
        if clock.now < 3.0:
            raise PartyUnavailableError("party 'clinic' is down")
        return "done"

    assert lost_parties.Reconnector(600.0, lambda: None, Traffic())(work) == "done"
    assert clock.now == 3.5


@pytest.mark.parametrize(("answers", "given_up"), [(True, False), (False, True)])
def test_time_in_which_parties_answer_is_not_waiting(monkeypatch, answers, given_up):
    """Before, a second loss within one tree, later than `patience` after the first, ended the run at once."""
    clock, traffic, tries = Clock(), Traffic(), []
    monkeypatch.setattr(lost_parties, "time", clock)

    def work():
        tries.append(clock.now)
        if len(tries) == 2:
            clock.now += 1000.0
            traffic.last_answer = clock.now if answers else tries[-1]
        if len(tries) < 4:
            raise PartyUnavailableError("party 'clinic' is down")
        return "done"

    reconnecting = lost_parties.Reconnector(600.0, lambda: None, traffic)
    if given_up:  # it was silent for longer than patience
        with pytest.raises(PartyUnavailableError):
            reconnecting(work)
    else:
        assert reconnecting(work) == "done"


def test_a_party_that_is_lost_at_every_try_is_given_up(monkeypatch):
    clock, traffic, tries = Clock(), Traffic(), []
    monkeypatch.setattr(lost_parties, "time", clock)

    def work():
        tries.append(clock.now)
        clock.now += 1000.0
        traffic.last_answer = clock.now
        raise PartyUnavailableError("party 'clinic' is down")

    with pytest.raises(PartyUnavailableError):
        lost_parties.Reconnector(600.0, lambda: None, traffic)(work)
    assert len(tries) < 40
