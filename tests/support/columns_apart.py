"""Two parties with different columns of the same few rows, for tests of runs, servers and restarts."""

import numpy as np

import lgb_dp
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.train import train

N = 301
_rng = np.random.default_rng(11)
X = _rng.uniform(-1, 1, (N, 4))
Y = (X[:, 0] + X[:, 2] + _rng.normal(0, 0.3, N) > 0).astype(float)
IDS = [f"row-{k}" for k in range(N)]
PARAMS = {"objective": "binary", "num_threads": 1, "max_depth": 2}
BUDGET = (40.0, 1e-5)


def bank(x=X[:, 2:], **kw):
    return ColumnParty(x, name="bank", bounds=(-1, 1), max_bin=64, **kw)


def own_rows(rows=slice(None)):
    return lgb_dp.Dataset(X[rows, :2], Y[rows], bounds=(-1, 1), max_bin=64)


def trained(party, n_trees=4, epsilon=30.0, rows=slice(None), per_round=2, **kw):
    trainer = lgb_dp.NewtonBoost(epsilon, 1e-5)
    return train(
        PARAMS,
        own_rows(rows),
        n_trees,
        parties=[party],
        callbacks=[trainer],
        trees_per_round=per_round,
        **kw,
    )


def text_of(booster):
    return booster.model_to_string(num_iteration=-1)
