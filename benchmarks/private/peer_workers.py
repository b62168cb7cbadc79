"""One private learner on one split, at several ε: runs inside the learner's own environment.

``python peer_workers.py LEARNER SPLIT.npz SEED ε ε …`` prints one line of JSON per ε.  Only NumPy and the
learner's own library are imported, so that every environment can run this file.
"""

from __future__ import annotations

import json
import math
import pickle
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

DELTA = 1e-5


def load(path: str) -> SimpleNamespace:
    """A split that `peer_data` saved."""
    with np.load(path) as file:
        values = {key: file[key] for key in file}
    for key in ("name", "task"):
        values[key] = str(values[key])
    return SimpleNamespace(**values)


def one_hot(data: SimpleNamespace, X: np.ndarray) -> np.ndarray:
    """Categories as columns of zeros and ones; a missing number becomes its public lower bound."""
    columns = []
    for f, n in enumerate(data.n_categories.tolist()):
        if n:
            columns.append((X[:, [f]] == np.arange(n)).astype(float))
        else:
            columns.append(np.where(np.isnan(X[:, [f]]), data.low[f], X[:, [f]]))
    return np.hstack(columns)


def one_hot_bounds(data: SimpleNamespace) -> tuple[np.ndarray, np.ndarray]:
    low, high = [], []
    for f, n in enumerate(data.n_categories.tolist()):
        low += [0.0] * n if n else [float(data.low[f])]
        high += [1.0] * n if n else [float(data.high[f])]
    return np.array(low), np.array(high)


def _lgb_dataset(data: SimpleNamespace, **bins: Any) -> Any:
    import lgb_dp

    numeric = np.flatnonzero(data.n_categories == 0)
    return lgb_dp.Dataset(
        data.X,
        data.y,
        bounds={int(f): (float(data.low[f]), float(data.high[f])) for f in numeric},
        categories={int(f): range(data.n_categories[f]) for f in np.flatnonzero(data.n_categories)},
        label_bounds=tuple(data.label_bounds.tolist()),
        **bins,
    )


def _trained(data: SimpleNamespace, train: Any, params: dict[str, Any], rounds: int, trainer: Any) -> Any:
    import lightgbm

    objective = {"objective": data.task, "verbosity": -1}
    booster = lightgbm.train({**objective, **params}, train, rounds, callbacks=[trainer])
    return booster, lambda: booster.predict(data.X_test), lambda: len(booster.model_to_string())


def newton(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """Estimator's defaults: everything automatic."""
    import lgb_dp
    from lgb_dp.newton.settings import AUTOMATIC_ROUNDS

    train = _lgb_dataset(data, max_bin=255, spacing="mixed")
    trainer = lgb_dp.NewtonBoost(epsilon, DELTA)
    return _trained(data, train, {"lambda_l2": 0.1}, AUTOMATIC_ROUNDS, trainer)


def dpboost(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """The README's recommended settings."""
    import lgb_dp

    params = {"learning_rate": 0.2, "max_depth": 4, "lambda_l2": 0.1}
    trainer = lgb_dp.DPBoost(epsilon, leaf_share=0.3, gdf=False)
    return _trained(data, _lgb_dataset(data), params, 20, trainer)


def dpboost_paper(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """The paper's settings: 50 trees of depth 6 in one ensemble, rate 0.1, λ = 0.1."""
    import lgb_dp

    params = {"learning_rate": 0.1, "max_depth": 6, "lambda_l2": 0.1}
    return _trained(data, _lgb_dataset(data), params, 50, lgb_dp.DPBoost(epsilon, variant="paper"))


def mboost(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """The README's recommended settings."""
    import lgb_dp

    trainer_class = getattr(lgb_dp, "MBoost", None)
    if trainer_class is None or data.task != "binary":
        return None
    params = {"max_depth": 3, "learning_rate": 0.5}
    return _trained(data, _lgb_dataset(data, max_bin=10), params, 3, trainer_class(epsilon))


def lightgbm(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """LightGBM's defaults, 100 trees, no privacy."""
    import lightgbm as lgb

    train = lgb.Dataset(data.X, data.y, categorical_feature=np.flatnonzero(data.n_categories).tolist())
    booster = lgb.train({"objective": data.task, "verbosity": -1, "seed": seed}, train, 100)
    return booster, lambda: booster.predict(data.X_test), lambda: len(booster.model_to_string())


def dp_ebm(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """interpret's defaults (300 rounds, 32 bins, Gaussian DP composition)."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    is_category = data.n_categories > 0

    def table(X: np.ndarray) -> np.ndarray:
        filled = np.where(np.isnan(X), data.low, X)
        if not is_category.any():
            return filled
        columns = filled.astype(object)
        for f in np.flatnonzero(is_category):
            columns[:, f] = [f"c{int(v)}" if v == v else "missing" for v in X[:, f]]
        return columns

    settings = {
        "epsilon": epsilon,
        "delta": DELTA,
        "feature_types": ["nominal" if c else "continuous" for c in is_category],
        "privacy_bounds": {
            int(f): (float(data.low[f]), float(data.high[f])) for f in np.flatnonzero(~is_category)
        },
        "random_state": None,
    }
    if data.task == "binary":
        model = DPExplainableBoostingClassifier(**settings)
        model.fit(table(data.X), data.y.astype(int))
        predict = lambda: model.predict_proba(table(data.X_test))[:, 1]  # noqa: E731
    else:
        low, high = data.label_bounds.tolist()
        model = DPExplainableBoostingRegressor(**settings, privacy_target_min=low, privacy_target_max=high)
        model.fit(table(data.X), data.y)
        predict = lambda: model.predict(table(data.X_test))  # noqa: E731
    return model, predict, lambda: len(pickle.dumps(model))


def diffprivlib(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """diffprivlib's defaults: 10 random trees of depth 5."""
    from diffprivlib.models import RandomForestClassifier

    if data.task != "binary":
        return None
    model = RandomForestClassifier(epsilon=epsilon, bounds=one_hot_bounds(data), classes=[0, 1])
    model.fit(one_hot(data, data.X), data.y.astype(int))
    return (
        model,
        lambda: model.predict_proba(one_hot(data, data.X_test))[:, 1],
        lambda: len(pickle.dumps(model)),
    )


def dp_xgboost(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """Settings of the authors' example, 20 trees of depth 6 on a tenth of the rows each.

    Their `min_child_weight` of 500 allows no split of such a fraction of these data sets; here it is 50.
    """
    import dp_xgboost as xgb

    n_trees, fraction = 20, 0.1
    low, high = one_hot_bounds(data)
    bounds = {"feature_min": low.tolist(), "feature_max": np.maximum(high, low + 1e-6).tolist()}
    span = 1.0 if data.task == "binary" else float(np.ptp(data.label_bounds))
    start = 0.0 if data.task == "binary" else float(data.label_bounds[0])
    params = {
        "objective": "binary:logistic" if data.task == "binary" else "reg:squarederror",
        "tree_method": "approxDP",
        # ε of n trees on samples of a fraction of the rows: n log(1 + fraction (exp(ε_tree) - 1))
        "dp_epsilon_per_tree": math.log(1 + (math.exp(epsilon / n_trees) - 1) / fraction),
        "max_depth": 6,
        "learning_rate": 0.3,
        "lambda": 0.1,
        "base_score": 0.5,
        "subsample": fraction,
        "min_child_weight": 50,
        "nthread": 2,
        "verbosity": 0,
    }
    train = xgb.DMatrix(one_hot(data, data.X), label=(data.y - start) / span, **bounds)
    model = xgb.train(params, train, num_boost_round=n_trees)
    test = xgb.DMatrix(one_hot(data, data.X_test), **bounds)
    return model, lambda: model.predict(test) * span + start, lambda: len(pickle.dumps(model))


def opendp(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """Random decision forest of 10 trees of depth 5, OpenDP's Laplace noise on leaf counts, ε / 10 each."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    n_trees, depth = 10, 5
    random = np.random.default_rng()
    low, high = one_hot_bounds(data)
    X, X_test = one_hot(data, data.X), one_hot(data, data.X_test)
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    position = (data.y - data.label_bounds[0]) / np.ptp(data.label_bounds)
    # A row adds (position, 1 - position) in thousandths to its leaf: 1,000 steps in the L1 norm.
    steps = 1000
    noisy = dp.m.make_laplace(*space, scale=steps * n_trees / epsilon)
    trees, total = [], np.zeros(len(X_test))
    for _ in range(n_trees):
        feature = random.integers(0, X.shape[1], 2**depth - 1)
        threshold = random.uniform(low[feature], high[feature])

        def leaf_of(rows: np.ndarray, feature: Any = feature, threshold: Any = threshold) -> np.ndarray:
            node = np.zeros(len(rows), dtype=int)
            for _ in range(depth):
                go = rows[np.arange(len(rows)), feature[node]] > threshold[node]
                node = 2 * node + 1 + go
            return node - (2**depth - 1)

        leaf = leaf_of(X)
        share = np.floor(position * steps)
        counts = [
            np.bincount(leaf, weights=w, minlength=2**depth).astype(int) for w in (share, steps - share)
        ]
        up, down = np.maximum(np.array(noisy(np.concatenate(counts).tolist())).reshape(2, -1), 0)
        value = (up + steps) / (up + down + 2 * steps)
        trees.append((feature, threshold, value))
        total += value[leaf_of(X_test)]
    scale = np.ptp(data.label_bounds)
    return (
        trees,
        lambda: total / n_trees * scale + data.label_bounds[0],
        lambda: len(pickle.dumps(trees)),
    )


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve, ties counted half."""
    _, group, counts = np.unique(score, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2
    n_positive = label.sum()
    n_negative = len(label) - n_positive
    above = rank[group][label == 1].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * n_negative))


LEARNERS = {
    "NewtonBoost": newton,
    "DPBoost": dpboost,
    "DPBoost (paper)": dpboost_paper,
    "MBoost": mboost,
    "DP-EBM": dp_ebm,
    "diffprivlib RF": diffprivlib,
    "dp-xgboost": dp_xgboost,
    "OpenDP forest": opendp,
    "LightGBM": lightgbm,
}


def main(learner: str, path: str, seed: int, epsilons: list[float]) -> None:
    warnings.simplefilter("ignore")
    data = load(path)
    # Imports, compiled kernels and caches are not what is timed.
    few = SimpleNamespace(**{**vars(data), "X": data.X[:500], "y": data.y[:500]})
    LEARNERS[learner](few, 1.0, seed)
    for epsilon in epsilons:
        start = time.perf_counter()
        fitted = LEARNERS[learner](data, epsilon, seed)
        seconds = time.perf_counter() - start
        if fitted is None:
            return
        prediction = np.asarray(fitted[1](), dtype=float)
        result = {"data": data.name, "learner": learner, "epsilon": epsilon, "seed": seed}
        if data.task == "binary":
            result["auc"] = auc(data.y_test, prediction)
            result["accuracy"] = float(np.mean((prediction > 0.5) == (data.y_test == 1)))
        else:
            result["rmse"] = float(np.sqrt(np.mean((prediction - data.y_test) ** 2)))
        print(json.dumps({**result, "seconds": seconds, "bytes": fitted[2]()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), [float(e) for e in sys.argv[4:]])
