"""Problems with categorical columns, at an active party and passive ones."""

import numpy as np
import pandas as pd

import xgb_fed
from vertical_training import train

BASE = {"objective": "binary:logistic", "max_depth": 4, "max_bin": 16}


def frames(n=240, seed=3):
    """Two parties' data frames; categories are not in the order of the alphabet, and some have no rows."""
    rng = np.random.default_rng(seed)
    region = pd.Categorical.from_codes(rng.integers(-1, 5, n), [*"nosew", "unused"])
    plan = pd.Categorical.from_codes(rng.integers(0, 3, n), [30, 10, 20])
    shop = pd.Categorical.from_codes(rng.integers(-1, 12, n), [f"shop {k}" for k in range(12)])
    own = pd.DataFrame({"region": region, "age": rng.normal(size=n)})
    theirs = pd.DataFrame({"income": rng.normal(size=n), "shop": shop, "plan": plan})
    effects = rng.normal(size=6)[region.codes] + rng.normal(size=13)[shop.codes] + own["age"]
    return own, theirs, (effects + rng.normal(size=n) * 0.3 > 0).astype(np.float32).to_numpy()


def fitted(own, theirs, y, **settings):
    bank = xgb_fed.LocalParty(theirs, "bank", allow_export=True, enable_categorical=True)
    return train({**BASE, "enable_categorical": True, **settings}, own, y, [bank], 2), bank
