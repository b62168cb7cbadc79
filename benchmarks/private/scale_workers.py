"""One learner on one data set, at several ε, in a process of its own: run by `private_scale.py`.

``python scale_workers.py LEARNER SOURCE DELTA SEED ε ε …`` prints one line of JSON per ε.  SOURCE is the npz
file of a split or ``generated:ROWS``.  Only NumPy and the learner's own library are imported, so that every
peer's environment can run this file.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.peak_memory import peak
from benchmarks.private import peer_workers

N_FEATURES = 30
N_TEST_ROWS = 100_000
MAX_ABS_VALUE = 5.0
"""Public bound of a standard normal column."""
_ROWS_AT_ONCE = 1_000_000
STOCK_TREES, STOCK_LEAVES = 500, 63


def log_odds(X: np.ndarray) -> np.ndarray:
    """What the labels of generated rows follow: six columns of thirty, two interactions among them."""
    return (
        2 * np.sin(X[:, 0])
        + X[:, 1] * X[:, 2]
        - (X[:, 3] > 1) * X[:, 4]
        + 0.5 * X[:, 5].astype(np.float64) ** 2
    )


def generated_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal columns, rounded to float32, and labels drawn from their log-odds."""
    random = np.random.default_rng(seed)
    X = np.empty((n_rows, N_FEATURES), dtype=np.float32)
    for first in range(0, n_rows, _ROWS_AT_ONCE):
        part = X[first : first + _ROWS_AT_ONCE]
        part[:] = random.standard_normal(part.shape)
    y = np.empty(n_rows)
    for first in range(0, n_rows, _ROWS_AT_ONCE):
        part = X[first : first + _ROWS_AT_ONCE]
        y[first : first + len(part)] = random.random(len(part)) < 1 / (1 + np.exp(-log_odds(part)))
    return X, y


def load(source: str) -> SimpleNamespace:
    """A split from a file, or generated training and test rows."""
    kind, _, rows = source.partition(":")
    if kind != "generated":
        return peer_workers.load(source)
    X, y = generated_rows(int(rows), 0)
    X_test, y_test = generated_rows(N_TEST_ROWS, 1)
    return SimpleNamespace(
        name="generated",
        task="binary",
        X=X,
        y=y,
        X_test=X_test,
        y_test=y_test,
        low=np.full(N_FEATURES, -MAX_ABS_VALUE),
        high=np.full(N_FEATURES, MAX_ABS_VALUE),
        n_categories=np.zeros(N_FEATURES, dtype=np.int64),
        label_bounds=np.array([0.0, 1.0]),
    )


def stock(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """LightGBM without privacy: 500 trees of 63 leaves, everything else its default."""
    import lightgbm as lgb

    categorical = np.flatnonzero(data.n_categories).tolist()
    train = lgb.Dataset(data.X, data.y, categorical_feature=categorical)
    params = {"objective": "binary", "num_leaves": STOCK_LEAVES, "verbosity": -1, "seed": seed}
    booster = lgb.train(params, train, STOCK_TREES)
    return booster, lambda: booster.predict(data.X_test), lambda: len(booster.model_to_string())


LEARNERS = {
    "NewtonBoost": peer_workers.newton,
    "DP-EBM": peer_workers.dp_ebm,
    "dp-xgboost": peer_workers.dp_xgboost,
    "LightGBM": stock,
}


def measured(learner: str, data: SimpleNamespace, epsilon: float, seed: int) -> dict[str, Any]:
    """What one fit gives and what it takes."""
    start = time.perf_counter()
    _, predict, size = LEARNERS[learner](data, epsilon, seed)
    fitted = time.perf_counter()
    prediction = np.asarray(predict(), dtype=float)
    predicted = time.perf_counter()
    of_truth = np.where(data.y_test == 1, prediction, 1 - prediction)
    return {
        "data": data.name,
        "rows": len(data.y),
        "learner": learner,
        "epsilon": epsilon,
        "seed": seed,
        "auc": peer_workers.auc(data.y_test, prediction),
        "log_loss": float(-np.mean(np.log(np.clip(of_truth, 1e-12, 1.0)))),
        "seconds": fitted - start,
        "predict_seconds": predicted - fitted,
        "test_rows": len(data.y_test),
        "bytes": size(),
        "peak_bytes": peak(),
    }


def main(learner: str, source: str, delta: str, seed: int, epsilons: list[float]) -> None:
    """Print a line per ε."""
    warnings.simplefilter("ignore")
    peer_workers.DELTA = float(delta)
    data = load(source)
    # Imports, compiled kernels and caches are not what is timed.
    few = SimpleNamespace(**{**vars(data), "X": data.X[:500], "y": data.y[:500]})
    LEARNERS[learner](few, 1.0, seed)[1]()
    for epsilon in epsilons:
        print(json.dumps(measured(learner, data, epsilon, seed)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), [float(e) for e in sys.argv[5:]])
