"""Training runs that continue a model."""

import lightgbm as lgb

import lgb_dp
from small_training import binary_data

X, Y = binary_data()
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2}


def fit(data, **kwargs):
    callback = lgb_dp.NewtonBoost(1.0, 1e-6)
    return lgb.train(QUIET, data, 3, callbacks=[callback], keep_training_booster=True, **kwargs)
