"""One private learner on one split, at several ε: runs inside the learner's own environment.

``python peer_workers.py LEARNER SPLIT.npz SEED ε ε …`` prints one line of JSON per ε.  Only NumPy and the
learner's own library are imported, so that every environment can run this file.
"""

from __future__ import annotations

import itertools
import json
import math
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    return (trees, lambda: total / n_trees * scale + data.label_bounds[0], lambda: len(pickle.dumps(trees)))


LADDER_STEP = 1e-6
"""Smallest size over the width of the bounds that the logarithms of `standardised` tell from zero."""


def standardised(data: SimpleNamespace, X: np.ndarray) -> np.ndarray:
    """Features of the linear models and networks, in [-1, 1], by public knowledge alone.

    Categories are columns of zeros and ones.  A number gives its place between its bounds and a logarithm of
    its distance from zero (or from the nearest bound), as `spacing="mixed"` does for our bins, since extremes
    as bounds leave the linear column of a heavy tail without any spread.
    """
    columns = []
    for f, n in enumerate(data.n_categories.tolist()):
        if n:
            columns.append((X[:, [f]] == np.arange(n)).astype(float))
            continue
        low, high = float(data.low[f]), float(data.high[f])
        width = max(high - low, 1e-12)
        x = np.clip(np.where(np.isnan(X[:, [f]]), low, X[:, [f]]), low, high)
        away = (x - min(max(low, 0.0), high)) / (width * LADDER_STEP)
        columns += [
            2 * (x - low) / width - 1,
            np.sign(away) * np.log1p(np.abs(away)) / np.log1p(1 / LADDER_STEP),
        ]
    return np.hstack(columns)


@dataclass(frozen=True)
class Network:
    """Shape of a network, and the rates of Adam to choose from; no hidden layer if the width is 0."""

    width: int
    rates: Sequence[float]


LINEAR = Network(width=0, rates=(0.03, 0.1, 0.3, 1.0))
PERCEPTRON = Network(width=64, rates=(0.003, 0.01, 0.03, 0.1))
CLIPS = (0.1, 1.0)
"""Norms of a row's gradient to choose from: PrivTab's, and that of De et al. (2022)."""
N_STEPS = 100
"""Steps over all rows; on held-out training rows 50 were worse, and 200 little better."""
ROWS_AT_ONCE = 1 << 14
"""Rows whose activations are held at a time."""
SHARE_OF_PAST = 0.9
"""Largest weight of the past in the exponential average of the parameters."""


def _descended(
    X: Any, y: Any, kind: Network, trial: tuple[float, float], noise: float, is_binary: bool
) -> Callable[[Any], np.ndarray]:
    """Scores of a network after full-batch gradient descent by Opacus.

    Every step clips each row's gradient and adds normal noise of σ clips to the sum, so that n steps are
    √n / σ-GDP under adding or removing a row.  The number of rows is taken to be public.  As De et al. (2022)
    advise, the batch is as large as can be, the rate constant, and the result the exponential average of the
    parameters.  Ghost clipping finds the norms without the gradients of the rows.
    """
    import torch
    from opacus import PrivacyEngine

    d, width = X.shape[1], kind.width
    clip, rate = trial
    if width:
        net: Any = torch.nn.Sequential(torch.nn.Linear(d, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
    else:
        net = torch.nn.Sequential(torch.nn.Linear(d, 1))
        torch.nn.init.zeros_(net[0].weight)
        torch.nn.init.zeros_(net[0].bias)
    averaged = [p.detach().clone() for p in net.parameters()]
    rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=len(X))
    engine: Any = PrivacyEngine()
    private, optimizer, criterion, _ = engine.make_private(
        module=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=rate),
        criterion=torch.nn.BCEWithLogitsLoss() if is_binary else torch.nn.MSELoss(),
        data_loader=rows,
        noise_multiplier=noise,
        max_grad_norm=clip,
        poisson_sampling=False,
        grad_sample_mode="ghost",
    )
    starts = range(0, len(X), ROWS_AT_ONCE)
    for step in range(N_STEPS):
        for start in starts:
            optimizer.zero_grad()
            some = slice(start, start + ROWS_AT_ONCE)
            optimizer.signal_skip_step(do_skip=start != starts[-1])
            criterion(private(X[some])[:, 0], y[some]).backward()  # a loss per row, not a matrix
            optimizer.step()
        past = min(SHARE_OF_PAST, step / (step + 1))
        for mean, p in zip(averaged, net.parameters(), strict=True):
            mean.lerp_(p.detach(), 1 - past)
    with torch.no_grad():
        for mean, p in zip(averaged, net.parameters(), strict=True):
            p.copy_(mean)
    private.remove_hooks()

    def scores(rows: Any) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(net(rows)[:, 0].numpy(), dtype=float)

    return scores


N_TUNED = 2_500
"""Rows of the training part, at most, on which clip and rate are sought."""


def _network(data: SimpleNamespace, epsilon: float, seed: int, kind: Network) -> Any:
    """A network of the best of all pairs of a clip and a rate, found on training rows and not charged.

    Candidates are fitted to a part of the training rows, with the noise that the whole part's *mean* gradient
    has, and judged by the rest of that part.  Their random numbers are not those of the final fit.
    """
    import torch
    from opacus.accountants.analysis.gdp import delta_eps_mu
    from scipy.optimize import brentq

    torch.set_num_threads(1)  # the matrices are small
    seeds = np.random.SeedSequence([seed, round(1e6 * epsilon)]).generate_state(2).tolist()
    is_binary = data.task == "binary"
    low, high = (0.0, 1.0) if is_binary else data.label_bounds.tolist()
    centre, half = (0.0, 1.0) if is_binary else ((low + high) / 2, (high - low) / 2)

    # A linear model's rows are at most 1 long, so that one grid of rates fits all data sets.
    length = 1.0 if kind.width else math.sqrt(np.where(data.n_categories > 0, 1, 2).sum())

    def tensors(X: np.ndarray) -> Any:
        return torch.tensor(standardised(data, X) / length, dtype=torch.float32)

    X = tensors(data.X)
    y = torch.tensor((data.y - centre) / half, dtype=torch.float32)
    mu = brentq(lambda mu: delta_eps_mu(eps=epsilon, mu=mu) - DELTA, 1e-6, 100.0)
    noise = math.sqrt(N_STEPS) / mu
    torch.manual_seed(seeds[0])
    order = torch.randperm(len(X))[:N_TUNED]
    fitted, held_out = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]

    def quality(trial: tuple[float, float]) -> float:
        scale = noise * len(fitted) / len(X)
        found = _descended(X[fitted], y[fitted], kind, trial, scale, is_binary)(X[held_out])
        label = y[held_out].numpy()
        value = auc(label, found) if is_binary else -float(np.mean((found - label) ** 2))
        return value if math.isfinite(value) else -math.inf

    best = max(itertools.product(CLIPS, kind.rates), key=quality)
    torch.manual_seed(seeds[1])
    scores = _descended(X, y, kind, best, noise, is_binary)

    def predict() -> np.ndarray:
        found = scores(tensors(data.X_test))
        return 1 / (1 + np.exp(-found)) if is_binary else np.clip(found, -1, 1) * half + centre

    n_parameters = (X.shape[1] + 2) * kind.width + 1 if kind.width else X.shape[1] + 1
    return best, predict, lambda: 4 * n_parameters


def dp_logistic_regression(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """Full-batch private gradient descent (linear regression where labels are numbers)."""
    return _network(data, epsilon, seed, LINEAR)


def dp_perceptron(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """One hidden layer, private Adam."""
    return _network(data, epsilon, seed, PERCEPTRON)


N_SYNTHETIC_BINS = 32
"""Public bins of a numeric column for synthetic data: half of equal width, half in geometric progression."""


def mst_lightgbm(data: SimpleNamespace, epsilon: float, seed: int) -> Any:
    """Stock LightGBM on as many rows as MST (dpmm) makes; columns are cut at public thresholds first."""
    import lightgbm as lgb
    import pandas as pd
    from dpmm.models.mst import MSTGM

    is_category = data.n_categories > 0

    def thresholds(low: float, high: float) -> np.ndarray:
        half = N_SYNTHETIC_BINS // 2
        origin = min(max(low, 0.0), high)
        sides = [side for side in (high - origin, low - origin) if side]
        ladder = np.geomspace(LADDER_STEP, 1.0, half // max(len(sides), 1) + 1)[:-1]
        edges = [
            np.linspace(low, high, half + 1)[1:-1],
            [origin],
            *(origin + side * ladder for side in sides),
        ]
        return np.unique(np.concatenate(edges))

    edges = [thresholds(float(low), float(high)) for low, high in zip(data.low, data.high, strict=True)]
    sizes = [n or len(e) + 1 for n, e in zip(data.n_categories.tolist(), edges, strict=True)]

    def codes(X: np.ndarray) -> np.ndarray:
        """Number of a category or a bin; the last number of a column is for missing values."""
        columns = []
        for f, size in enumerate(sizes):
            code = X[:, f] if is_category[f] else np.searchsorted(edges[f], X[:, f], side="right")
            columns.append(np.where(np.isnan(X[:, f]), size, code).astype(np.int64))
        return np.column_stack(columns)

    is_binary = data.task == "binary"
    low, high = data.label_bounds.tolist()
    n_labels = 2 if is_binary else N_SYNTHETIC_BINS
    place = np.clip((data.y - low) / (high - low), 0, 1)
    names = [str(f) for f in range(len(sizes))]
    table = pd.DataFrame(codes(data.X), columns=names)
    table["label"] = np.rint(place * (n_labels - 1)).astype(np.int64)
    model = MSTGM(epsilon=epsilon, delta=DELTA, n_iters=1000, n_jobs=1)
    model.set_random_state(np.random.RandomState())
    model.set_domain({**{name: size + 1 for name, size in zip(names, sizes, strict=True)}, "label": n_labels})
    model.fit(table)
    made = model.generate(n_records=len(table))
    y = low + (high - low) * made["label"].to_numpy() / (n_labels - 1)
    train = lgb.Dataset(made[names].to_numpy(), y, categorical_feature=np.flatnonzero(is_category).tolist())
    booster = lgb.train({"objective": data.task, "verbosity": -1, "num_threads": 2}, train, 100)
    return booster, lambda: booster.predict(codes(data.X_test)), lambda: len(booster.model_to_string())


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve, ties counted half."""
    _, group, counts = np.unique(score, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2
    n_positive = label.sum()
    n_negative = len(label) - n_positive
    above = rank[group][label == 1].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * n_negative))


def log_loss(label: np.ndarray, probability: np.ndarray) -> float:
    """Mean log-loss; probabilities count as at least 1e-6 and at most one less that."""
    p = np.clip(probability, 1e-6, 1 - 1e-6)
    return float(-np.mean(np.where(label == 1, np.log(p), np.log1p(-p))))


LEARNERS = {
    "NewtonBoost": newton,
    "DPBoost": dpboost,
    "DPBoost (paper)": dpboost_paper,
    "MBoost": mboost,
    "DP-EBM": dp_ebm,
    "diffprivlib RF": diffprivlib,
    "dp-xgboost": dp_xgboost,
    "OpenDP forest": opendp,
    "DP logistic regression": dp_logistic_regression,
    "DP perceptron": dp_perceptron,
    "MST + LightGBM": mst_lightgbm,
    "LightGBM": lightgbm,
}


def main(learner: str, path: str, seed: int, epsilons: list[float]) -> None:
    warnings.simplefilter("ignore")
    data = load(path)
    # Imports, compiled kernels and caches are not what is timed.
    varied = np.flatnonzero((data.low < data.high) | (data.n_categories > 1))[:2]
    columns = {key: getattr(data, key)[varied] for key in ("low", "high", "n_categories")}
    few = SimpleNamespace(**{**vars(data), **columns, "X": data.X[:500, varied], "y": data.y[:500]})
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
            result["log_loss"] = log_loss(data.y_test, prediction)
            result["accuracy"] = float(np.mean((prediction > 0.5) == (data.y_test == 1)))
        else:
            result["rmse"] = float(np.sqrt(np.mean((prediction - data.y_test) ** 2)))
        print(json.dumps({**result, "seconds": seconds, "bytes": fitted[2]()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), [float(e) for e in sys.argv[4:]])
