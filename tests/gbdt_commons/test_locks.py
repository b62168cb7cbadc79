"""A lock that a forked child need not wait for."""

import os
import signal
from types import SimpleNamespace

import pytest

import lgb_dp
from growers import grower_of
from threads_at_once import Inside, live


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_threads_that_fork_while_another_trains_leave_a_child_that_does_not_wait(monkeypatch):
    booster, seen = live(), SimpleNamespace(status=None)

    def fork():
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                booster.update()
            except lgb_dp.ForkedProcessError:
                os._exit(0)
            finally:
                os._exit(1)
        seen.status = os.waitpid(child, 0)[1]

    inside = Inside(fork)
    original = type(grower_of(booster)).grow_iteration
    monkeypatch.setattr(
        type(grower_of(booster)), "grow_iteration", lambda self: (inside(), original(self))[1]
    )
    booster.update()
    inside.end()
    assert seen.status == 0
