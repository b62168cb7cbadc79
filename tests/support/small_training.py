"""Small data sets and fits that the tests of lgb_dp share."""

import lightgbm as lgb
import numpy as np

import lgb_dp


def binary_data(n=400, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).clip(-3, 3)
    return X, (X[:, 0] + 0.5 * X[:, 1] > 0).astype(float)


def dataset(X, y, **kwargs):
    return lgb_dp.Dataset(X, label=y, **{"bounds": (-3, 3), "max_bin": 8, **kwargs})


def train(data, callback, n_rounds=3, valid_sets=None, callbacks=(), **params):
    params = {"objective": "binary", "learning_rate": 0.3, "max_depth": 2, "verbosity": -1, **params}
    return lgb.train(params, data, n_rounds, valid_sets=valid_sets, callbacks=[callback, *callbacks])


def leaf_values(booster, tree=0):
    text = booster.model_to_string()
    lines = [line for line in text.splitlines() if line.startswith("leaf_value=")]
    return np.array(lines[tree].removeprefix("leaf_value=").split(), dtype=float)


def field(booster, name, tree=0):
    lines = [line for line in booster.model_to_string().splitlines() if line.startswith(name + "=")]
    return np.array(lines[tree].partition("=")[2].split(), dtype=float)
