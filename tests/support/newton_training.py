"""Training runs of NewtonBoost for tests."""

import lightgbm as lgb
import numpy as np

import lgb_dp
from growers import grower_of
from lgb_dp.newton.releases.trees import Round
from small_training import binary_data, dataset

X, Y = binary_data(600)
DELTA = 1e-5
QUIET = {"objective": "binary", "verbosity": -1}


def boosted(data=None, epsilon=20.0, n_rounds=60, params=None, callbacks=(), valid_sets=None, **kwargs):
    trainer = lgb_dp.NewtonBoost(epsilon, DELTA, **kwargs)
    data = dataset(X, Y) if data is None else data
    return lgb.train(
        {**QUIET, **(params or {})}, data, n_rounds, valid_sets=valid_sets, callbacks=[trainer, *callbacks]
    )


def training_scores(booster):
    """Where the training rows stand, by the grower's own account."""
    grower = grower_of(booster)
    released = grower.released[: len(grower.trees)]
    question = Round(grower.iteration, None, grower.beginning.prior, released)
    rows = grower.releases.rows.current_rows(question)
    return (
        rows.score
        if question.last == rows.last
        else rows.score + np.tile(released[-1].value, (2, 1))[rows.leaf]
    )


def live_booster(n_rounds, data=None, params=QUIET, **kwargs):
    """A booster in training, of which no round was trained yet."""
    booster = lgb.Booster(params, dataset(X, Y) if data is None else data)
    env = lgb.callback.CallbackEnv(booster, params, 0, 0, n_rounds, None)
    lgb_dp.NewtonBoost(5.0, DELTA, **kwargs)(env)
    return booster
