"""Cross-validations with private trainers."""

import warnings

import lightgbm as lgb

import lgb_dp
from small_training import binary_data

X, Y = binary_data()


def cv(data, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
        return lgb.cv(
            {"objective": "binary", "verbosity": -1, "max_depth": 2},
            data,
            2,
            callbacks=[lgb_dp.DPBoost(0.5)],
            return_cvbooster=True,
            **kwargs,
        )["cvbooster"].boosters
