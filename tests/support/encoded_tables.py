"""A table with a column of every kind that a model encodes, and a model of it."""

from datetime import date, datetime

import lightgbm
import numpy as np
import pandas as pd

import lgb_dp

DAYS = [date(2026, 3, 1), date(2026, 1, 1), date(2026, 2, 1)]
CATEGORIES = {
    "city": ["Rome", "Oslo", "Bern"],
    "level": [5, 3, 9],
    "change": [-1, 3],
    "is_new": [True, False],
    "day": DAYS,
}
BOUNDS = {"x": (-3, 3), "since": (datetime(2020, 1, 1), datetime(2026, 1, 1))}
TRAINED = [*CATEGORIES, "member", "since", "x"]


def mixed_table(n=400, seed=0):
    """Rows with one cell in ten missing, columns in another order than in training."""
    random = np.random.default_rng(seed)

    def drawn(values):
        cells = random.choice(len(values), n)
        return [None if random.random() < 0.1 else values[cell] for cell in cells]

    # Times that float32 has: ONNX takes no others.
    seconds = random.integers(1_577_836_800 // 4096 + 1, 1_767_225_600 // 4096, n) * 4096
    return pd.DataFrame(
        {
            "x": np.where(random.random(n) < 0.1, np.nan, random.normal(size=n).clip(-3, 3)),
            "since": pd.to_datetime(seconds, unit="s"),
            "member": random.random(n) < 0.5,
            **{name: pd.Series(drawn(values), dtype=object) for name, values in CATEGORIES.items()},
        }
    )


def model_of(table):
    """A model whose trees split on every column."""
    y = sum((table[name] == CATEGORIES[name][0]).astype(float) for name in CATEGORIES)
    y += table["member"] + (table["x"] > 0) + (table["since"] > datetime(2023, 1, 1))
    data = lgb_dp.Dataset(
        table[TRAINED], y, bounds=BOUNDS, categories=CATEGORIES, label_bounds=(0, 8), max_bin=16
    )
    params = {"objective": "regression", "verbose": -1, "num_leaves": 8}
    return lightgbm.train(params, data, 60, callbacks=[lgb_dp.NewtonBoost(100.0, 1e-5)])
