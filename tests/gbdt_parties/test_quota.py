"""A clock that is wrong, set back, or ahead; a restart; an operator."""

import json

import pytest

from gbdt_parties.quota import HOUR, HourlyQuota


class Clocks:
    def __init__(self):
        self.wall, self.running = 1_800_000_000.0, 100.0

    def on(self, seconds, wall=None):
        """Some time passes; the wall clock may say another."""
        self.running += seconds
        self.wall += seconds if wall is None else wall


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def quota(tmp_path, clocks):
    path = tmp_path / "questions.json"
    return lambda: HourlyQuota(path, 3, lambda: clocks.wall, lambda: clocks.running)


def test_so_many_in_any_hour(quota, clocks):
    one = quota()
    answers = []
    for _ in range(8):
        answers.append(one.take())
        clocks.on(HOUR / 5)
    assert answers == [True] * 3 + [False] * 2 + [True] * 3


@pytest.mark.parametrize("restarted", [False, True])
def test_attack_by_a_clock_stepped_back(quota, clocks, restarted):
    """However the wall clock is set back, an hour of running time lies between the first and the fourth."""
    one = quota()
    answered = 0
    for _ in range(50):
        answered += one.take()
        clocks.on(1, wall=-2 * HOUR)
        if restarted:
            one = quota()
    assert answered == 3


def test_entries_of_a_clock_that_was_ahead_are_kept_and_expire_with_running_time(quota, clocks):
    clocks.wall += 1000 * HOUR
    assert [quota().take() for _ in range(4)] == [True, True, True, False]
    clocks.wall -= 1000 * HOUR
    one = quota()
    assert not one.take()
    clocks.on(HOUR / 2)
    assert not one.take()
    clocks.on(HOUR / 2 + 1)
    assert one.take()


def test_a_jump_ahead_within_a_process_does_not_come_back(quota, clocks):
    one = quota()
    assert [one.take() for _ in range(4)] == [True, True, True, False]
    clocks.on(1, wall=2 * HOUR)
    assert [one.take() for _ in range(4)] == [True, True, True, False]
    clocks.on(1, wall=-2 * HOUR)
    assert not one.take()


def test_a_restart_forgets_none_and_an_operator_may(quota, tmp_path):
    assert [quota().take() for _ in range(4)] == [True, True, True, False]
    assert len(json.loads((tmp_path / "questions.json").read_text())) == 3
    (tmp_path / "questions.json").unlink()
    assert quota().take()
