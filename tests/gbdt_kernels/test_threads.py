"""Blocks of work, and running them."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels import threads


@settings(max_examples=200, deadline=None)
@given(n_items=st.integers(0, 10**7), n_threads=st.integers(0, 8), cost=st.integers(1, 10**4))
def test_blocks_cover_the_range_in_order_and_are_worth_a_thread(n_items, n_threads, cost):
    parts = threads.blocks(n_items, n_threads, cost)
    assert 1 <= len(parts) <= (n_threads or threads.available_threads())
    assert parts[0][0] == 0
    assert parts[-1][1] == n_items
    assert all(left[1] == right[0] for left, right in pairwise(parts))
    assert all(start < stop for start, stop in parts) or n_items == 0
    assert len(parts) == 1 or n_items * cost >= len(parts) * threads.MIN_BLOCK
    lengths = [stop - start for start, stop in parts]
    assert max(lengths) - min(lengths) <= 1


def test_large_work_gets_all_threads():
    assert len(threads.blocks(10**6, 3, 10)) == 3
    assert len(threads.blocks(10**6, 0, 10)) == threads.available_threads()


@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_run_does_every_part_once(n_parts):
    done = []
    parts = [(10 * i, 10 * i + 7) for i in range(n_parts)]
    threads.run(lambda i, start, stop: done.append((i, start, stop)), parts)
    assert sorted(done) == [(i, *part) for i, part in enumerate(parts)]


def test_parts_run_at_the_same_time():
    barrier = threading.Barrier(2, timeout=60)
    threads.run(lambda *_: barrier.wait(), [(0, 1), (1, 2)])


@pytest.mark.parametrize("n_parts", [1, 3])
def test_run_passes_on_the_error_of_a_part(n_parts):
    def fail(index, start, stop):
        if start == n_parts - 1:
            raise KeyError(index)

    with pytest.raises(KeyError):
        threads.run(fail, [(i, i + 1) for i in range(n_parts)])


def test_an_interrupt_waits_for_the_other_threads(monkeypatch):
    """`wait` is interrupted once; the other block is done all the same before `run` raises."""
    done, waited = [], []
    wait = threads.wait

    def interrupted(futures):
        waited.append(1)
        if len(waited) == 1:
            raise KeyboardInterrupt
        return wait(futures)

    def work(index, start, stop):
        if index:
            time.sleep(0.3)
        done.append(index)

    monkeypatch.setattr(threads, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threads.run(work, [(0, 1), (1, 2)])
    assert sorted(done) == [0, 1]


def test_run_may_be_entered_by_several_threads():
    done = []
    parts = [(0, 1), (1, 2)]
    with ThreadPoolExecutor(4) as callers:
        list(callers.map(lambda _: threads.run(lambda *a: done.append(a), parts), range(40)))
    assert len(done) == 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_run_works_in_a_forked_child():
    parts = [(0, 1), (1, 2)]
    threads.run(lambda *_: None, parts)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        done = []
        threads.run(lambda *a: done.append(a), parts)
        os._exit(0 if len(done) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
