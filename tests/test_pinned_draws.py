"""Tests draw the same bytes whenever they run, whatever draws beside them."""

import os
import secrets
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pinned_draws import pinned_draws


def drawn():
    return [os.urandom(4), secrets.token_bytes(4), np.random.default_rng().bytes(4)]


def test_all_sources_follow_from_the_name():
    found = []
    for name in ("a", "a", "b"):
        with pinned_draws(name):
            found.append(drawn())
    assert found[0] == found[1]
    assert len({one for draws in found for one in draws}) == 6


@pytest.mark.parametrize("first", [0, 1])
def test_threads_draw_the_same_in_any_order(first):
    found, turns = [None, None], [threading.Event(), threading.Event()]

    def draw(number):
        turns[number].wait(60)
        found[number] = [drawn() for _ in range(3)]

    with pinned_draws("a"):
        threads = [threading.Thread(target=draw, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for number in (first, 1 - first):
            turns[number].set()
            threads[number].join(60)
        last = drawn()
    with pinned_draws("a"):
        assert last == drawn()
    with pinned_draws("a > test_threads_draw_the_same_in_any_order.<locals>.draw 2"):
        assert found[1] == [drawn() for _ in range(3)]
    assert found[0] != found[1]


def test_tasks_draw_the_same_on_any_number_of_threads():
    found = []
    for n_threads in (1, 4):
        with pinned_draws("a"), ThreadPoolExecutor(n_threads) as pool:
            pool.submit(lambda: None)
            found.append(list(pool.map(lambda _: drawn(), range(8))))
    assert found[0] == found[1]
    assert len({one for draws in found[0] for one in draws}) == 3 * 8


def test_threads_from_before_do_not_disturb_and_none_is_kept():
    with pinned_draws("a"):
        expected = drawn()
    with ThreadPoolExecutor(1) as pool:
        with pinned_draws("b"):
            drawing = pool.submit(drawn)
        with pinned_draws("a"):
            drawing.result()
            assert drawn() == expected
            thread = threading.Thread(target=drawn)
            thread.start()
            thread.join(60)
    gone = weakref.ref(thread)
    del thread
    assert gone() is None


def test_a_thread_that_cannot_start_is_as_before(monkeypatch):
    with pinned_draws("a"):
        thread = threading.Thread(target=drawn)
        thread.start()
        thread.join(60)
        with pytest.raises(RuntimeError, match="once"):
            thread.start()
    assert "run" not in vars(thread)
