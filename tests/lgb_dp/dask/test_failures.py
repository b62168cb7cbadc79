"""Whatever happens to workers, the model and its ledger are the same, and nothing hangs."""

import os
import signal
import time
from importlib import import_module

import pytest
from distributed import Client

from dask_training import (
    N_ROUNDS,
    entries,
    even,
    in_one_process,
    local_cluster,
    on_cluster,
    pinned,
)

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")
TIMEOUT = 4.0


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2, processes=True) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        client.run(import_module, "lgb_dp.dask")
        yield client


def signalled(client, which, number=signal.SIGKILL):
    """Send a signal to one of the workers, by its position, or to all of them."""
    pids = list(client.run(os.getpid).values())
    for pid in pids if which is None else [pids[which % len(pids)]]:
        os.kill(pid, number)
    return pids


def at_round(number, act):
    """A callback that acts before a round."""

    def before(env):
        if env.iteration == number:
            act()

    before.before_iteration = True
    return before


def assert_undisturbed(booster, n_rounds=N_ROUNDS):
    assert booster.model_to_string() == in_one_process(n_rounds)
    assert entries(booster.privacy) == {"label counts": 1, "leaf sums": n_rounds}


def test_a_worker_killed_between_rounds_changes_nothing(client):
    kill = at_round(9, lambda: signalled(client, 0))
    assert_undisturbed(on_cluster(client, even(6), callbacks=[pinned(), kill], timeout=20))


def test_a_stopped_worker_is_given_up_after_our_own_timeout(client):
    stopped = []
    stop = at_round(5, lambda: stopped.append(signalled(client, 1, signal.SIGSTOP)[1]))
    start = time.monotonic()
    try:
        assert_undisturbed(on_cluster(client, even(6), callbacks=[pinned(), stop], timeout=TIMEOUT))
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert time.monotonic() - start < 60  # not Dask's five minutes
