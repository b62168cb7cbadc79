"""A clock that is wrong, set back, or ahead; a restart; an operator."""

import pytest

from gbdt_commons.errors import StoreError
from gbdt_commons.store import bytes_kind
from gbdt_parties.quota import HOUR, MAX_TIME, TAKEN, HourlyQuota
from kept_stores import restarted


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
    clock = lambda: clocks.wall, lambda: clocks.running
    return lambda: HourlyQuota(restarted(tmp_path), "questions", 3, *clock)


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
    store = restarted(tmp_path)
    assert len(store.get(TAKEN, "questions")) == 3
    store.delete(TAKEN, "questions")
    assert quota().take()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "7",
        "null",
        '{"a": 1}',
        '["x"]',
        "[NaN]",
        "[1e300]",
        "[-1]",
        "[true]",
        "[null]",
        "[[]]",
        f"[1{'0' * 400}]",
        f"[{'1' * 5000}]",
        "[" * 20000 + "]" * 20000,
        "�",
    ],
)
def test_attack_by_a_damaged_file_lifts_no_quota(quota, tmp_path, text):
    """Before, `[1e300]` was a time from which an hour cannot be taken away, and so counted nothing at all."""
    raw, damaged = bytes_kind(TAKEN.name), text.encode(errors="surrogateescape")
    restarted(tmp_path).put(raw, "questions", damaged)
    with pytest.raises(StoreError, match="last hour") as caught:
        quota()
    assert str(tmp_path) not in str(caught.value)
    assert restarted(tmp_path).get(raw, "questions") == damaged


@pytest.mark.parametrize("ahead", [1.0, 1e6, MAX_TIME / 2, MAX_TIME - 1_800_000_000.0])
def test_attack_by_times_beyond_now_which_count(quota, tmp_path, clocks, ahead):
    restarted(tmp_path).put(TAKEN, "questions", [clocks.wall + ahead])
    one = quota()
    assert sum(one.take() for _ in range(50)) == 2
