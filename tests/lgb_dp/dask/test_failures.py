"""Whatever happens to workers, the model and its ledger are the same, and nothing hangs."""

import os
import random
import signal
import threading
import time
from importlib import import_module

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client

import lgb_dp
import lgb_dp.dask
from dask_training import (
    N_ROUNDS,
    PUBLIC,
    X,
    Y,
    close_worker,
    entries,
    even,
    in_one_process,
    local_cluster,
    on_cluster,
    pinned,
)
from gbdt_hosts import dask as host
from newton_training import QUIET

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")
TIMEOUT = 4.0
LONG = 120.0
"""Seconds after which a worker is given up of which a busy machine has let nothing be heard."""


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2, processes=True) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=LONG)
        client.run(import_module, "lgb_dp.dask")
        yield client


def signalled(client, which, number=signal.SIGKILL):
    """Send a signal to one of the workers, by its position, or to all of them."""
    pids = list(client.run(os.getpid).values())
    for pid in pids if which is None else [pids[which % len(pids)]]:
        os.kill(pid, number)
    return pids


@pytest.fixture
def hurry(monkeypatch):
    """Shortens the timeouts of a run's clusters once something is lost; until then, all may take its time."""
    clusters, make = [], host.Cluster.__init__

    def noted(self, *args, **how):
        make(self, *args, **how)
        clusters.append(self)

    def shorten(seconds):
        assert clusters
        for cluster in clusters:
            cluster.timeout = seconds

    monkeypatch.setattr(host.Cluster, "__init__", noted)
    return shorten


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
    assert_undisturbed(on_cluster(client, even(6), callbacks=[pinned(), kill], timeout=LONG))


def test_a_stopped_worker_is_given_up_after_our_own_timeout(client, hurry):
    stopped = []

    def stop():
        stopped.append(signalled(client, 1, signal.SIGSTOP)[1])
        hurry(TIMEOUT)

    start = time.monotonic()
    try:
        assert_undisturbed(on_cluster(client, even(6), callbacks=[pinned(), at_round(5, stop)], timeout=LONG))
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert time.monotonic() - start < 150  # not Dask's five minutes


# Workers that are threads of this process come and go at once.


@pytest.fixture
def threads():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        local_cluster(2) as cluster,
        Client(cluster) as client,
    ):
        yield cluster, client


def test_workers_that_leave_and_join_change_nothing(threads):
    cluster, client = threads
    steps = [
        at_round(3, lambda: cluster.scale(3)),
        at_round(6, lambda: close_worker(cluster, 0)),
        at_round(12, lambda: close_worker(cluster, 1)),
    ]
    assert_undisturbed(on_cluster(client, even(9), callbacks=[pinned(), *steps], timeout=LONG))


def test_without_workers_training_ends_in_time_with_a_usable_booster(threads, hurry):
    cluster, client = threads
    trainer, start = pinned(), []

    def close():
        hurry(1.5)
        start.append(time.monotonic())
        for k in range(2):
            close_worker(cluster, k)

    with pytest.raises(lgb_dp.WorkersLostError, match=r"within timeout=1\.5 s.*booster_"):
        on_cluster(client, even(3), callbacks=[trainer, at_round(5, close)], timeout=LONG)
    assert time.monotonic() - start[0] < LONG / 2
    booster = trainer.booster_
    assert booster.num_trees() == 5
    assert np.isfinite(booster.predict(X)).all()
    assert entries(booster.privacy) == {"label counts": 1, "leaf sums": 6}  # the sixth was charged
    assert booster.privacy.epsilon == pytest.approx(5.0)  # what was granted


def test_without_a_scheduler_training_ends_in_time_with_a_usable_booster(threads, hurry):
    cluster, client = threads
    trainer, start = pinned(), []

    def stop():
        hurry(1.5)
        start.append(time.monotonic())
        cluster.sync(cluster.scheduler.close)

    with pytest.raises(lgb_dp.SchedulerLostError, match=r"within timeout=1\.5 s"):
        on_cluster(client, even(3), callbacks=[trainer, at_round(5, stop)], timeout=LONG)
    assert time.monotonic() - start[0] < LONG / 2
    assert trainer.booster_.num_trees() == 5
    assert entries(trainer.booster_.privacy)["label counts"] == 1


def test_partitions_that_are_computed_differently_are_an_error(threads):
    cluster, client = threads
    X_of_now = da.from_array(X, chunks=(160, 4)).map_blocks(
        lambda block: block + np.random.default_rng().normal()
    )
    data = lgb_dp.dask.DaskDataset(X_of_now, da.from_array(Y, chunks=(160,)), **PUBLIC)
    callbacks = [pinned(), at_round(2, lambda: close_worker(cluster))]
    with pytest.raises(lgb_dp.PartitionError, match="first time"):
        lgb_dp.dask.train(client, QUIET, data, 5, callbacks=callbacks, timeout=LONG)


def test_a_partition_that_cannot_be_computed_is_an_error_without_its_values(threads):
    _, client = threads

    def broken(block):
        raise ValueError("row 1234.5678")

    data = lgb_dp.dask.DaskDataset(
        da.from_array(X, chunks=(160, 4)).map_blocks(broken, dtype=float, meta=np.empty((0, 0))),
        da.from_array(Y, chunks=(160,)),
        **PUBLIC,
    )
    with pytest.raises(lgb_dp.PartitionError, match=r"partition \d.*computed \(ValueError\)") as caught:
        lgb_dp.dask.train(client, QUIET, data, 5, callbacks=[pinned()], timeout=LONG)
    assert "1234" not in str(caught.value)


def await_two_workers(cluster, client):
    """Wait until Dask has restarted killed workers; those that it gives up, if it is slow, are replaced."""
    for _ in range(3):
        try:
            client.wait_for_workers(2, timeout=60)
            return
        except TimeoutError:
            cluster.scale(len(cluster.worker_spec) + 1)
    raise AssertionError("Dask starts no workers")


@pytest.mark.slow
def test_fifty_kills_at_drawn_moments_change_nothing(cluster):
    n_rounds, moments = 200, random.Random(5)
    with Client(cluster) as client:
        for _ in range(50):
            await_two_workers(cluster, client)
            victim = moments.choice(list(client.run(os.getpid, on_error="ignore").values()))
            timer = threading.Timer(moments.uniform(0, 2), os.kill, (victim, signal.SIGKILL))
            timer.start()
            assert_undisturbed(on_cluster(client, even(6), n_rounds, timeout=120), n_rounds)
            timer.join()
