"""Rows on the workers of a cluster, whatever happens to these."""

import os
import signal
import time

import dask
import pytest
from distributed import Client

from dask_party import dask_party, recorded, replayed
from dask_training import close_worker, local_cluster
from gbdt_parties import messages
from xgb_fed.vertical.protocol.messages import FindSplits, Gradients, RouteRows, SplitNodes, TellSides


@pytest.fixture
def threads():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        local_cluster(2) as cluster,
        Client(cluster) as client,
    ):
        yield cluster, client


@pytest.mark.parametrize("kind", [Gradients, FindSplits, SplitNodes, RouteRows, TellSides])
def test_a_lost_worker_changes_no_message(threads, kind):
    cluster, client = threads
    requests = recorded("okamoto-uchiyama")[0]
    numbers = [k for k, request in enumerate(requests) if isinstance(messages.read(request).message, kind)]
    lost = numbers[len(numbers) // 2]
    with dask_party(client, (60,) * 5, timeout=120) as party:
        answers = replayed(
            party, "okamoto-uchiyama", lambda k, _: close_worker(cluster) if k == lost else None
        )
    assert answers == recorded("okamoto-uchiyama")[1]
    assert len(cluster.scheduler.workers) == 1


@pytest.mark.slow
def test_a_killed_worker_changes_no_message():
    with local_cluster(2, processes=True) as cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        killed = []

        def kill(number, message):
            if isinstance(message, FindSplits) and len(message.assignment) and not killed:
                killed.extend(list(client.run(os.getpid).values())[:1])
                os.kill(killed[0], signal.SIGKILL)

        with dask_party(client, (60,) * 5, timeout=120) as party:
            assert replayed(party, "okamoto-uchiyama", kill) == recorded("okamoto-uchiyama")[1]
    assert killed


def test_a_worker_that_takes_over_is_told_all_it_lacks_in_parts(threads, monkeypatch):
    monkeypatch.setattr("xgb_fed.dask.rows.BYTES_AT_ONCE", 1000)
    cluster, client = threads
    with dask_party(client, (60,) * 5, timeout=120) as party:

        def lose(number, message):
            if isinstance(message, FindSplits) and len(cluster.workers) == 2:
                close_worker(cluster)

        assert replayed(party, "okamoto-uchiyama", lose) == recorded("okamoto-uchiyama")[1]


def test_without_workers_the_party_refuses_in_time(threads):
    cluster, client = threads
    party = dask_party(client, (150, 150), timeout=120)

    def lose(number, message):
        if isinstance(message, SplitNodes) and cluster.workers:
            for held in party.held:
                held.cluster.timeout = 2.5
            close_worker(cluster, 1)
            close_worker(cluster, 0)

    start = time.monotonic()
    answers = replayed(party, "plain", lose)
    assert time.monotonic() - start < 100
    refusals = [messages.read(answer).message for answer in answers]
    reasons = [refusal.reason for refusal in refusals if isinstance(refusal, messages.Refusal)]
    assert reasons[0] == "the cluster has no worker, and none came within timeout=2.5 s"
    assert set(reasons[1:]) <= {"no such session", "this party has no splits of that model"}
