"""Training runs on private rows of which nothing may be seen; see `pinned_world`."""

import lightgbm as lgb
import numpy as np

import lgb_dp
from pinned_world import BOUNDS, LABEL_BOUNDS

BINARY, REGRESSION = {"objective": "binary"}, {"objective": "regression"}
MULTICLASS = {"objective": "multiclass", "num_class": 3}
DELTA = 1e-5
rng = np.random.default_rng(0)
PUBLIC_X = rng.uniform(-1, 1, (40, 4))
PUBLIC_Y = (PUBLIC_X[:, 0] > 0).astype(float)


def newton(**settings):
    return lgb_dp.NewtonBoost(2.0, DELTA, **settings)


def label_of(world, params):
    return {"binary": world.binary, "regression": world.number}.get(params["objective"], world.kind)


def dataset(world, params=BINARY, X=None, **settings):
    if params is REGRESSION:
        settings["label_bounds"] = LABEL_BOUNDS
    settings = {"bounds": BOUNDS, "max_bin": 8, **settings}
    return lgb_dp.Dataset(world.X if X is None else X, label_of(world, params), **settings)


def train(
    world, trainer, params=BINARY, n_rounds=4, callbacks=(), data=None, X=None, settings=None, **kwargs
):
    data = dataset(world, params, X, **(settings or {})) if data is None else data
    params = {"max_depth": 3, "verbosity": 1, **params}
    return lgb.train(params, data, n_rounds, callbacks=[trainer, *callbacks], **kwargs)


def a_cell(values, cell):
    """A copy of the values as objects, one of which cannot be converted."""
    values = np.array(values, dtype=object)
    values.flat[len(values) // 3] = cell
    return values


def a_number(values, number):
    """A copy of the values with one that is not accepted."""
    values = np.array(values, dtype=np.float64)
    values.flat[len(values) // 3] = number * len(values)
    return values


TRAINERS = {
    "NewtonBoost": (newton, (BINARY, REGRESSION, MULTICLASS)),
    "DPBoost tight": (lambda: lgb_dp.DPBoost(2.0), (BINARY, REGRESSION, MULTICLASS)),
    "DPBoost paper": (lambda: lgb_dp.DPBoost(2.0, variant="paper"), (BINARY, REGRESSION)),
    "SequentialBoost": (lambda: lgb_dp.SequentialBoost(2.0), (BINARY, REGRESSION)),
    "ParallelBoost": (lambda: lgb_dp.ParallelBoost(2.0), (BINARY, REGRESSION)),
    "MBoost": (lambda: lgb_dp.MBoost(2.0), (BINARY, MULTICLASS)),
    "RandomForestLaplace": (lambda: lgb_dp.RandomForestLaplace(2.0), (BINARY, MULTICLASS)),
    "RandomForestExponential": (lambda: lgb_dp.RandomForestExponential(2.0), (BINARY, MULTICLASS)),
}
