"""Rows with names, at the active party and at a passive one."""

import numpy as np
import pandas as pd

from xgb_fed import LocalParty, Plain, VerticalXGBClassifier

N = 60
RANDOM = np.random.default_rng(2)
VALUES = RANDOM.standard_normal((2 * N, 4)).astype(np.float32)
IDS = [f"p{k:03d}" for k in range(2 * N)]
FRAME = pd.DataFrame(VALUES, columns=["age", "income", "dose", "weight"], index=IDS)
Y = (VALUES.sum(axis=1) > 0).astype(int)
OWN, THEIRS = ["age", "income"], ["dose", "weight"]
SHUFFLED = RANDOM.permutation(N)
SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "cipher": Plain()}
TRAIN, NEW = FRAME.iloc[:N], FRAME.iloc[N:]


def bank(frame=TRAIN[THEIRS], **how):
    return LocalParty(frame, "bank", **how)


def fitted(X=TRAIN[OWN], party=None, cls=VerticalXGBClassifier, **how):
    return cls(**SMALL, **how).fit(X, Y[: len(X)], parties=[bank() if party is None else party])
