"""
Private training on a cluster that loses a worker
=================================================

This example starts worker processes, so it is shown here without its output.  Run it with::

    python examples/dask_private.py

Two workers of a cluster on this machine hold the rows; the client holds none.  In the middle of training one
of the workers is killed.  The other one takes over its rows, and the model is that of one process, byte for
byte, given the same noise.

.. image:: /pictures/dask.svg
   :alt: The client sends splits, workers answer integers; a lost worker's rows go to others
"""

# sphinx_gallery_thumbnail_path = "pictures/dask.svg"

import os
import signal
import warnings

import dask.array as da
import lightgbm as lgb
import numpy as np
from distributed import Client, LocalCluster
from sklearn.metrics import roc_auc_score

import lgb_dp
import lgb_dp.dask

PARAMETERS = {"objective": "binary", "verbosity": -1}
ROUNDS = 200


def made_rows(n_rows):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, 10))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows) > 0).astype(float)


def private_trainer():
    """The noise is fixed, so that two models can be compared; never do that with data that matters."""
    return lgb_dp.NewtonBoost(epsilon=1.0, delta=1e-6, random_state=0)


def killing_a_worker(client, iteration):
    """A callback that kills one of the workers before an iteration."""

    def kill(env):
        if env.iteration == iteration:
            address, process = next(iter(client.run(os.getpid).items()))
            print(f"Killing the worker at {address} before iteration {iteration}.")
            os.kill(process, signal.SIGKILL)

    kill.before_iteration = True
    return kill


def main():
    warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
    X, y = made_rows(40_000)
    public = {"bounds": (-1, 1), "max_bin": 255}

    one_process = lgb.train(PARAMETERS, lgb_dp.Dataset(X, y, **public), ROUNDS, callbacks=[private_trainer()])

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    with cluster, Client(cluster) as client:
        Xd, yd = da.from_array(X, chunks=(5_000, 10)), da.from_array(y, chunks=(5_000,))
        rows = lgb_dp.dask.DaskDataset(Xd, yd, **public)
        callbacks = [private_trainer(), killing_a_worker(client, 100)]
        booster = lgb_dp.dask.train(client, PARAMETERS, rows, ROUNDS, callbacks=callbacks)

    print(booster.privacy)
    X_test, y_test = made_rows(45_000)
    print(f"AUC: {roc_auc_score(y_test[40_000:], booster.predict(X_test[40_000:])):.3f}")
    same = booster.model_to_string() == one_process.model_to_string()
    print(f"The same model as in one process, byte for byte: {same}")


if __name__ == "__main__":
    main()
