"""Labels of every objective for estimators."""

import numpy as np

from xgb_fed import LocalParty

RNG = np.random.default_rng(0)
N = 240
X = RNG.normal(size=(N, 5)).astype(np.float32)
SCORE = X[:, 0] + X[:, 3] * X[:, 1] + RNG.normal(size=N) / 3
QID = np.repeat(np.arange(12), 20)
RELEVANCE = np.digitize(SCORE, [-1, 1])
SMALL = {"n_estimators": 3, "max_depth": 3, "max_bin": 16}


def party(**kwargs):
    return LocalParty(X[:, 3:], "bank", **kwargs)
