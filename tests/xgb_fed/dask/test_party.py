"""A party on a cluster answers as a party in one process does, whatever happens to workers."""

import os
import signal
import time

import dask
import numpy as np
import pytest
from distributed import Client

import xgb_fed
from dask_party import CIPHERS, N_ACTIVE, PARAMS, ROWS, X, Y, chunked, dask_party, recorded, replayed
from dask_training import local_cluster
from gbdt_parties import messages
from vertical_training import text_of
from vertical_training import train as train_quietly
from xgb_fed.dask import DaskParty
from xgb_fed.vertical.protocol.messages import FindSplits, Gradients, RouteRows, SplitNodes, TellSides


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as cluster, Client(cluster) as client:
        yield client


@pytest.mark.parametrize("lengths", [(300,), (0, 1, 150, 0, 149), (60,) * 5])
@pytest.mark.parametrize("cipher", CIPHERS)
def test_messages_equal_those_of_a_local_party(client, cipher, lengths):
    with dask_party(client, lengths) as party:
        assert replayed(party, cipher) == recorded(cipher)[1]


def model_text(party, **kwargs):
    active = xgb_fed.ActiveData(X[ROWS, :N_ACTIVE], Y[ROWS], rows=ROWS)
    how = {"cipher": xgb_fed.OkamotoUchiyama(512, True), "verbose_eval": False, **kwargs}
    return text_of(xgb_fed.train(PARAMS, active, [party], 2, **how))


def test_the_model_of_selected_rows_equals_that_of_a_local_party(client):
    with DaskParty(client, chunked(X[:, N_ACTIVE:], (100, 200)), "bank") as party:
        assert model_text(party) == model_text(xgb_fed.LocalParty(X[:, N_ACTIVE:], "bank"))


def test_predictions_of_other_rows(client):
    local = xgb_fed.LocalParty(X[:, N_ACTIVE:], "bank")
    with DaskParty(client, chunked(X[:, N_ACTIVE:], (100, 200)), "bank") as party:
        model = train_quietly(PARAMS, X[:, :N_ACTIVE], Y, [party], 2)
        same = train_quietly(PARAMS, X[:, :N_ACTIVE], Y, [local], 2)
        others = X[::-3]
        with party.with_rows(chunked(others[:, N_ACTIVE:], (1, 99))) as other:
            found = model.predict(others[:, :N_ACTIVE], [other])
        expected = same.predict(others[:, :N_ACTIVE], [local.with_rows(others[:, N_ACTIVE:])])
    np.testing.assert_array_equal(found, expected)


def test_blocks_may_be_sparse(client):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    values = np.where(np.abs(X[:, N_ACTIVE:]) < 0.5, 0, np.nan_to_num(X[:, N_ACTIVE:]))
    blocks = chunked(values, (120, 180)).map_blocks(scipy_sparse.csr_matrix)
    local = xgb_fed.LocalParty(scipy_sparse.csr_matrix(values), "bank")
    with DaskParty(client, blocks, "bank") as party:
        texts = [text_of(train_quietly(PARAMS, X[:, :N_ACTIVE], Y, [p], 2)) for p in (local, party)]
    assert texts[0] == texts[1]


# Workers that are threads of this process come and go at once.


@pytest.fixture
def threads():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        local_cluster(2) as cluster,
        Client(cluster) as client,
    ):
        yield cluster, client


def closed(cluster, position=0):
    """Close a worker without notice."""
    worker = list(cluster.workers.values())[position]
    cluster.sync(worker.close, nanny=False, executor_wait=False)


@pytest.mark.parametrize("kind", [Gradients, FindSplits, SplitNodes, RouteRows, TellSides])
def test_a_lost_worker_changes_no_message(threads, kind):
    cluster, client = threads
    requests = recorded("okamoto-uchiyama")[0]
    numbers = [k for k, request in enumerate(requests) if isinstance(messages.read(request).message, kind)]
    lost = numbers[len(numbers) // 2]
    with dask_party(client, (60,) * 5, timeout=20) as party:
        answers = replayed(party, "okamoto-uchiyama", lambda k, _: closed(cluster) if k == lost else None)
    assert answers == recorded("okamoto-uchiyama")[1]
    assert len(cluster.scheduler.workers) == 1


def test_a_killed_worker_changes_no_message():
    with local_cluster(2, processes=True) as cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        killed = []

        def kill(number, message):
            if isinstance(message, FindSplits) and len(message.assignment) and not killed:
                killed.extend(list(client.run(os.getpid).values())[:1])
                os.kill(killed[0], signal.SIGKILL)

        with dask_party(client, (60,) * 5, timeout=60) as party:
            assert replayed(party, "okamoto-uchiyama", kill) == recorded("okamoto-uchiyama")[1]
    assert killed


def test_a_worker_that_takes_over_is_told_all_it_lacks_in_parts(threads, monkeypatch):
    monkeypatch.setattr("xgb_fed.dask.rows.BYTES_AT_ONCE", 1000)
    cluster, client = threads
    with dask_party(client, (60,) * 5, timeout=20) as party:

        def lose(number, message):
            if isinstance(message, FindSplits) and len(cluster.workers) == 2:
                closed(cluster)

        assert replayed(party, "okamoto-uchiyama", lose) == recorded("okamoto-uchiyama")[1]


def test_without_workers_the_party_refuses_in_time(threads):
    cluster, client = threads
    party = dask_party(client, (150, 150), timeout=20)
    for held in party._held:
        held._cluster.timeout = 2.5

    def lose(number, message):
        if isinstance(message, SplitNodes) and cluster.workers:
            closed(cluster, 1)
            closed(cluster, 0)

    start = time.monotonic()
    answers = replayed(party, "plain", lose)
    assert time.monotonic() - start < 30
    refusals = [messages.read(answer).message for answer in answers]
    reasons = [refusal.reason for refusal in refusals if isinstance(refusal, messages.Refusal)]
    assert reasons[0] == "the cluster has no worker, and none came within timeout=2.5 s"
    assert set(reasons[1:]) <= {"no such session", "this party has no splits of that model"}
