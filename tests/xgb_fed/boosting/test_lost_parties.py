"""Waiting for a party that was lost."""

import pytest

from gbdt_parties.errors import PartyUnavailableError
from xgb_fed.boosting import lost_parties


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
        lost_parties.Steadily(600.0, lambda: opened.append(clock.now))(lost)
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

    assert lost_parties.Steadily(600.0, lambda: None)(work) == "done"
    assert clock.now == 3.5
