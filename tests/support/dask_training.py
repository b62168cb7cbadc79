"""Rows in Dask collections, and the model that one process trains on them, for tests."""

from functools import cache

import dask
import dask.array as da
import lightgbm as lgb
import numpy as np
from distributed import LocalCluster
from distributed.utils import get_mp_context

import lgb_dp
import lgb_dp.dask
from newton_training import DELTA, QUIET
from small_training import binary_data

X, Y = binary_data(640)
N_ROUNDS = 25
# Else a LocalCluster gives workers up that it restarts while the machine is busy.
dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"})
# Workers that are processes are forked off one that has imported what they need, which takes seconds.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
get_mp_context().set_forkserver_preload(["distributed", "lgb_dp.dask", "xgb_fed.dask"])
PUBLIC = {"bounds": (-3, 3), "max_bin": 16}


def local_cluster(n_workers=2, *, processes=False, security=None):
    """Single-thread workers on this machine."""
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=processes,
        protocol="tls" if security else "tcp",
        security=security,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )


def pinned(epsilon=5.0, **kwargs):
    """The same noise every time."""
    return lgb_dp.NewtonBoost(epsilon, DELTA, random_state=4, **kwargs)


@cache
def in_one_process(n_rounds=N_ROUNDS):
    data = lgb_dp.Dataset(X, Y, **PUBLIC)
    return lgb.train(QUIET, data, n_rounds, callbacks=[pinned()]).model_to_string()


def collections(lengths, X=X, Y=Y):
    """Rows in partitions of the given lengths."""
    return da.from_array(X, chunks=(lengths, X.shape[1])), da.from_array(Y, chunks=(lengths,))


def on_cluster(client, lengths, n_rounds=N_ROUNDS, callbacks=None, **kwargs):
    data = lgb_dp.dask.DaskDataset(*collections(lengths), **PUBLIC)
    callbacks = [pinned()] if callbacks is None else callbacks
    return lgb_dp.dask.train(client, QUIET, data, n_rounds, callbacks=callbacks, **kwargs)


def entries(report):
    """How often each kind of release was charged."""
    return {row["release"]: row["count"] for row in report.ledger}


def even(n_partitions):
    """Lengths of nearly equal partitions of all rows."""
    return tuple(np.diff(np.linspace(0, len(X), n_partitions + 1).astype(int)).tolist())


def close_worker(cluster, position=0):
    """Close a worker without notice."""
    worker = list(cluster.workers.values())[position]
    cluster.sync(worker.close, nanny=False, executor_wait=False)
