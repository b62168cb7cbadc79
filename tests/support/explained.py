"""Models whose effects and importances several tests ask for."""

import atexit
from functools import cache

import numpy as np

import lgb_dp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 5)).clip(-3, 3)
X[:, 4] = RNG.integers(0, 3, 4000)
SCORE = 2 * X[:, 0] + X[:, 1] + (X[:, 4] == 2) + RNG.logistic(size=4000) / 2
NAMES = ["a", "b", "no use", "nothing", "kind"]


@cache
def estimator(kind="binary", **settings):
    """A fitted estimator of 40 trees: two features have effects, one a small one, two have none."""
    public = {"bounds": dict.fromkeys(range(4), (-3, 3)), "categories": {4: range(3)}, "feature_name": NAMES}
    settings = {"delta": 1e-6, "n_estimators": 40, "max_bin": 32, "n_jobs": 1, **settings}
    if kind == "regression":
        return lgb_dp.DPLGBMRegressor(4.0, **settings).fit(X, SCORE, label_bounds=(-9, 9), **public)
    y = np.digitize(SCORE, [0.0] if kind == "binary" else [-1.0, 1.0])
    return lgb_dp.DPLGBMClassifier(4.0, **settings).fit(X, y, classes=np.unique(y), **public)


atexit.register(estimator.cache_clear)
