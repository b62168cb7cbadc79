"""Drawn schedules of faults and lies: no attempt has two answers, and the ledger holds every answer.

Trees are left out: a run of toy questions goes through the same coordinator, parties, ledgers and logs.
"""

from dataclasses import replace

import numpy as np
import pytest

from disturbed import Between, lost
from federated_training import charges, party, train
from gbdt_parties.errors import PartyError, PartyRefusedError, PartyUnavailableError
from gbdt_parties.secure_sum.messages import AskSum, OpenRun
from toy_federation import MU, answers_by_attempt, toy_runs

__all__ = ["toy_runs"]

N_SCHEDULES = 220
PARTS = 8
N_ROUNDS = 4


class Schedule:
    """What happens to every message, drawn from a seed."""

    def __init__(self, seed, folder):
        self.random = np.random.default_rng(seed)
        self.lies = seed % 3 == 0
        self.rate = self.random.uniform(0.02, 0.3)
        self.n_parties = int(self.random.integers(2, 5))
        self.folder = folder
        self.down = {}
        self.old = []
        self.members = [Between(self.make(place), self.fate(place)) for place in range(self.n_parties)]

    def make(self, place):
        return party(place, 4, folder=self.folder / str(place), budget=(30.0, 1e-5))

    def restart(self, place):
        self.members[place].party.close()
        self.members[place].party = self.make(place)

    def fate(self, place):
        def disturb(number, message, send):
            if self.down.get(place, 0) > 0:
                self.down[place] -= 1
                lost()
            is_spared = number < 5 or not isinstance(message, (AskSum, OpenRun))
            if is_spared or self.random.random() > self.rate:
                return send()
            kind = self.random.choice(FATES if self.lies else FATES[:5])
            return getattr(self, kind)(place, message, send)

        return disturb

    # Faults.

    def lose_request(self, place, message, send):
        lost()

    def lose_answer(self, place, message, send):
        send()
        lost()

    def killed_before(self, place, message, send):
        self.restart(place)
        return send()

    def killed_after(self, place, message, send):
        send()
        self.restart(place)
        lost()

    def stays_away(self, place, message, send):
        self.down[place] = int(self.random.integers(2, 12))
        lost()

    # Lies.

    def other_members(self, place, message, send):
        if not isinstance(message, AskSum):
            return send()
        everybody = [place, *(p for p in range(self.n_parties) if p != place)]
        members = sorted(everybody[: int(self.random.integers(1, self.n_parties + 1))])
        return send(replace(message, members=np.array(members, dtype=np.int32)))

    def same_number(self, place, message, send):
        if not isinstance(message, AskSum):
            return send()
        return send(replace(message, number=max(1, message.number - 1)))

    def replayed(self, place, message, send):
        self.old.append(message)
        return send(self.old[int(self.random.integers(len(self.old)))])


FATES = (
    "lose_request",
    "lose_answer",
    "killed_before",
    "killed_after",
    "stays_away",
    "other_members",
    "same_number",
    "replayed",
)


def outcome_of(schedule):
    try:
        train(schedule.members, N_ROUNDS, max_attempts=9)
    except PartyUnavailableError:
        return "unavailable"
    except PartyRefusedError as error:
        return "spent" if "the run was granted" in str(error) else f"refused: {error}"
    except PartyError as error:
        return f"broken: {error}"
    return "finished"


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
def test_under_every_schedule_entries_are_answers_and_no_attempt_has_two(part, tmp_path):
    outcomes = []
    for seed in range(part, N_SCHEDULES, PARTS):
        schedule = Schedule(seed, tmp_path / str(seed))
        outcome = outcome_of(schedule)
        assert schedule.lies or outcome in ("finished", "unavailable", "spent"), (seed, outcome)
        outcomes.append(outcome)
        for member in schedule.members:
            given = answers_by_attempt(member)
            assert all(len(contents) == 1 for contents in given.values()), seed
            entries = charges(member.party)
            assert sorted(entry["number"] for entry in entries) == sorted(given), seed
            assert sum(entry["mu"] ** 2 for entry in entries) <= MU**2 * 10.5
            member.party.close()
    assert outcomes.count("finished") > len(outcomes) / 3
    assert len(set(outcomes)) > 1


def test_a_party_that_comes_back_catches_up(tmp_path):
    schedule = Schedule(1, tmp_path)
    schedule.rate = 0.0
    started = []

    def away_for_a_while(number, message, send):
        if isinstance(message, AskSum) and message.round == 1 and not started:
            started.append(number)
            schedule.restart(2)
        if started and number < started[0] + 3:
            lost()
        return send()

    schedule.members[2].disturb = away_for_a_while
    model = train(schedule.members, 8)
    assert len(model.text) == 64
    rounds = [entry["round"] for entry in charges(schedule.members[2].party)]
    assert rounds[0] == 0
    assert 1 not in rounds
    assert 7 in rounds
    parties = [entry["parties"] for entry in charges(schedule.members[0].party)]
    assert sorted(set(parties)) == [schedule.n_parties - 1, schedule.n_parties]
