"""What a worker's memory holds for a training run."""

import asyncio
import tracemalloc
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import lgb_dp
from gbdt_hosts.dask.partitions import load_partition
from gbdt_hosts.dask.workers import StatePlugin
from lgb_dp.dask.messages import SentTrees
from lgb_dp.dask.worker_rows import RowsOfWorker
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import NewtonLoss
from lgb_dp.newton.releases.partitions import RowRules
from lgb_dp.newton.releases.trees import PublicTree, Round

N_ROWS, N_COLUMNS = 160_000, 30


def worker_and_rows(n_partitions):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N_ROWS, N_COLUMNS))
    y = (X[:, 0] > 0).astype(float)
    bins = lgb_dp.Dataset(X[:1], y[:1], bounds=(-1, 1), max_bin=255).construct().bins
    loss, scale = NewtonLoss("binary", 1.0, 0.1), LabelScale("binary", 1, 0.0, 1.0)
    types = (f"{N_COLUMNS} columns of float64",)
    worker = RowsOfWorker(RowRules(bins, types, scale, loss, "raise", None, None, None, 1.0, 1))
    worker.begin(1)
    parts = zip(np.array_split(X, n_partitions), np.array_split(y, n_partitions), strict=True)
    return worker, list(enumerate(parts))


def load_and_ask(worker, parts):
    for index, (X, y) in parts:
        worker.store(index, X, y, None, None)
    lease = (1, list(range(len(parts))))
    tree = PublicTree(np.arange(3, dtype=np.int32), np.ones((3, 256), np.uint8), np.full(3, -1))
    for message in (
        {"ask": "adopt", "keep": [], "leases": [lease], "seed": bytes(32)},
        {"ask": "counts", "leases": [1]},
        {"ask": "features", "leases": [1]},
        {"ask": "sums", "leases": [1], **SentTrees().message(Round(1, tree, np.zeros(1), []))},
    ):
        assert not worker.answer_or_failure(message).keys() & {"failed", "wrong", "unknown"}


@pytest.mark.parametrize("n_partitions", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_a_worker_needs_little_more_than_a_byte_per_value(n_partitions):
    """The values themselves are left out.  Codes and bit planes are there at once for one partition only."""
    worker, parts = worker_and_rows(1)
    load_and_ask(worker, [(0, [part[:9] for part in parts[0][1]])])  # imports, and loads kernels
    worker, parts = worker_and_rows(n_partitions)
    tracemalloc.start()
    try:
        load_and_ask(worker, parts)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    small = 300_000  # what does not grow with the rows
    assert held < 1.01 * N_ROWS * N_COLUMNS + 23 * N_ROWS + small
    assert peak < 1.3 * N_ROWS * N_COLUMNS + 40 * N_ROWS + small


@pytest.mark.parametrize("is_sparse", [(True, False, True), (False, True, True), (True, True, False)])
def test_side_door_dense_blocks_beside_sparse_ones_keep_their_rows(is_sparse):
    """Before, codes of dense blocks were dropped, and a row more gave rows behind it others' leaves."""
    rng = np.random.default_rng(1)
    X = rng.choice([0.0, 0.5, -0.5], (600, 4))
    y = (X[:, 0] > 0).astype(float)
    blocks = list(zip(np.split(X, [200, 400]), np.split(y, [200, 400]), strict=True))
    mixed = [
        (csr_matrix(block) if sparse else block, label)
        for sparse, (block, label) in zip(is_sparse, blocks, strict=True)
    ]
    assert sums_of(mixed) == sums_of(blocks)


def sums_of(blocks):
    bins = lgb_dp.Dataset(np.zeros((1, 4)), [0], bounds=(-1, 1), max_bin=8).construct().bins
    loss, scale = NewtonLoss("binary", 1.0, 0.1), LabelScale("binary", 1, 0.0, 1.0)
    types = ("4 columns of float64",)
    worker = RowsOfWorker(RowRules(bins, types, scale, loss, "raise", None, None, None, 1.0, 1))
    worker.begin(1)
    for index, (X, y) in enumerate(blocks):
        worker.store(index, X, y, None, None)
    lease = (1, list(range(len(blocks))))
    worker.answer_or_failure({"ask": "adopt", "keep": [], "leases": [lease], "seed": bytes(32)})
    goes_left = np.tile(np.arange(256) < 4, (3, 1)).astype(np.uint8)
    tree = PublicTree(np.array([0, 1, 2], dtype=np.int32), goes_left, np.full(3, -1))
    question = {"ask": "sums", "leases": [1], **SentTrees().message(Round(1, tree, np.zeros(1), []))}
    return worker.answer_or_failure(question)


class OfAnotherVersion:
    def __reduce__(self):
        return import_module, ("lgb_dp.of_another_version",)


def test_side_door_a_worker_that_cannot_make_the_state_fails_no_task(monkeypatch):
    """Before, the task that got the rows failed, and oldest supported Dask logs a failed task's arguments."""
    plugin = StatePlugin("a run", OfAnotherVersion())
    worker = SimpleNamespace(handlers={}, plugins={"a run": plugin}, state=SimpleNamespace(nthreads=1))
    plugin.setup(worker)
    monkeypatch.setattr("gbdt_hosts.dask.workers.get_worker", lambda: worker)
    assert load_partition("a run", 0, np.ones((1, 1)), np.ones(1), None, None) is None
    answer = asyncio.run(worker.handlers["a run"]({"ask": "loaded"}))
    assert answer["failed"].startswith("ModuleNotFoundError")
    plugin.teardown(worker)
