"""A clock that is wrong, set back, or ahead; a restart; an operator."""

import json

import pytest

from gbdt_parties.errors import InvalidDataError
from gbdt_parties.quota import HOUR, MAX_TIME, HourlyQuota


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
    path = tmp_path / "questions.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    before = path.read_bytes()
    with pytest.raises(InvalidDataError, match="count of the last hour's requests is damaged") as caught:
        quota()
    assert str(tmp_path) not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("ahead", [1.0, 1e6, MAX_TIME / 2, MAX_TIME - 1_800_000_000.0])
def test_attack_by_times_beyond_now_which_count(quota, tmp_path, clocks, ahead):
    (tmp_path / "questions.json").write_text(json.dumps([clocks.wall + ahead]))
    one = quota()
    assert sum(one.take() for _ in range(50)) == 2
