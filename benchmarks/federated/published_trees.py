"""Models of three organisations by each method of training, as an attacker sees them: boxes and counts."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer

import lgb_dp
import xgb_fed
from benchmarks.private.peer_data import split
from lgb_dp import federated
from xgb_fed.horizontal.simfl import boosting_state

N_PARTIES, ETA, PENALTY, DEPTH = 3, 0.3, 1.0, 5
PARAMS = {"objective": "binary:logistic", "eta": ETA, "lambda": PENALTY, "max_depth": DEPTH, "nthread": 1}


@dataclass(frozen=True)
class Leaf:
    """A leaf: the box that it stands for, and how many rows it says that it has, in any unit."""

    low: np.ndarray
    high: np.ndarray
    weight: float | None


@dataclass(frozen=True)
class Case:
    """Rows of three organisations, the first of which attacks, and rows that nobody trained on."""

    name: str
    X: list[np.ndarray]
    y: list[np.ndarray]
    X_test: np.ndarray
    y_test: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Published:
    """What a method publishes.

    Parameters
    ----------
    trees : list of list of Leaf
        Those that tell of the targets' rows.
    margin : callable
        Of the whole model.
    thresholds : set of (column, value)
    targets : tuple of int
        Parties whose rows the trees tell of.
    tells_counts : bool
        Whether the leaves' counts are exact.
    """

    trees: list[list[Leaf]]
    margin: object
    thresholds: set[tuple[int, float]]
    targets: tuple[int, ...]
    tells_counts: bool = True


def case_of(name: str, n_rows: int) -> Case:
    """A data set dealt to the organisations at random, numeric columns only."""
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        data = split(name)
        X, y = data.X[:, data.n_categories == 0], data.y
    random = np.random.default_rng(5)
    order = random.permutation(len(y))[: (N_PARTIES + 1) * n_rows]
    parts = np.array_split(order, N_PARTIES + 1)
    X = np.nan_to_num(X).astype(np.float32).astype(float)
    X_of, y_of = [X[part] for part in parts], [y[part].astype(float) for part in parts]
    return Case(name, X_of[:-1], y_of[:-1], X_of[-1], y_of[-1], X.min(axis=0), X.max(axis=0))


# Published models.


def xgboost_leaves(tree: dict, case: Case, merged: np.ndarray | None = None, least: int = 1) -> list[Leaf]:
    """Leaves of a tree in XGBoost's JSON format; nodes with less than `least` of some rows are merged."""
    leaves: list[Leaf] = []

    def visit(node: int, low: np.ndarray, high: np.ndarray, rows: np.ndarray | None) -> None:
        left, right = tree["left_children"][node], tree["right_children"][node]
        f, cut = tree["split_indices"][node], tree["split_conditions"][node]
        parts = (None, None)
        if rows is not None and left != -1:
            parts = (rows[rows[:, f] < cut], rows[rows[:, f] >= cut])
        if left == -1 or (rows is not None and min(map(len, parts)) < least):
            leaves.append(Leaf(low, high, tree["sum_hessian"][node]))
            return
        below, above = high.copy(), low.copy()
        below[f], above[f] = min(high[f], cut), max(low[f], cut)
        visit(left, low, below, parts[0])
        visit(right, above, high, parts[1])

    visit(0, case.low, case.high, merged)
    return leaves


def raw_trees(booster: xgboost.Booster) -> list[dict]:
    return json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]


def thresholds_of(trees: list[dict]) -> set[tuple[int, float]]:
    return {
        (f, float(np.float32(cut)))
        for tree in trees
        for f, cut, left in zip(
            tree["split_indices"], tree["split_conditions"], tree["left_children"], strict=True
        )
        if left != -1
    }


def bagged(case: Case, n_rounds: int) -> Published:
    """In each round every party adds a tree to the model so far; all are published (as Flower does)."""
    margins = [np.zeros(len(y)) for y in case.y]
    test, trees, own = np.zeros(len(case.y_test)), [], []
    for _ in range(n_rounds):
        grown = []
        for X, y, margin in zip(case.X, case.y, margins, strict=True):
            rows = xgboost.DMatrix(X, y, base_margin=margin)
            grown.append(xgboost.train({**PARAMS, "base_score": 0.5}, rows, 1))
        for booster in grown:
            for k, X in enumerate(case.X):
                margins[k] += _added(booster, X) / N_PARTIES
            test += _added(booster, case.X_test) / N_PARTIES
        trees += [raw_trees(booster)[0] for booster in grown]
        own.append(xgboost_leaves(raw_trees(grown[1])[0], case))
    return Published(own, (margins, test), thresholds_of(trees), (1,))


def _added(booster: xgboost.Booster, X: np.ndarray) -> np.ndarray:
    rows = xgboost.DMatrix(X, base_margin=np.zeros(len(X)))
    return booster.predict(rows, output_margin=True)


def simfl(case: Case, n_rounds: int, counts: bool) -> Published:
    """SimFL; `counts` as it once was, with sums of hessians in the trees and single rows' gradients."""
    kept: list[dict] = []
    least = 1 if counts else 3
    write_tree = boosting_state.write_tree

    def writing(tree):
        written = write_tree(tree)
        raw = json.loads(written)["learner"]["gradient_booster"]["model"]["trees"][0]
        kept.append({**raw, "sum_hessian": list(map(float, tree.sum_hessian))})
        return written

    boosting_state.write_tree = writing
    try:
        model = xgb_fed.train_simfl(
            PARAMS,
            [
                xgb_fed.HorizontalParty(
                    X, y, f"p{k}", categorical_labels=True, min_similar=1 if counts else 3
                )
                for k, (X, y) in enumerate(zip(case.X, case.y, strict=True))
            ],
            N_PARTIES * n_rounds,
            min_similar=least,
            verbose_eval=False,
        )
    finally:
        boosting_state.write_tree = write_tree
    published = raw_trees(model.booster)
    grown = (kept if counts else [{**t, "sum_hessian": [None] * len(t["left_children"])} for t in published])[
        : len(published)
    ]
    trees = [xgboost_leaves(tree, case) for tree in grown[1::N_PARTIES]]
    return Published(trees, _margins(model.booster, case), thresholds_of(published), (1,))


def exact(case: Case, n_rounds: int, least: int) -> Published:
    """Trees equal to pooled XGBoost's; the attacker takes its own rows off the counts."""
    rows = xgboost.DMatrix(np.concatenate(case.X), np.concatenate(case.y))
    booster = xgboost.train({**PARAMS, "base_score": 0.5, "min_child_weight": 0}, rows, n_rounds)
    raw, pooled = raw_trees(booster), np.concatenate(case.X)
    trees = []
    for k, tree in enumerate(raw):
        margin = (
            booster.predict(xgboost.DMatrix(case.X[0]), output_margin=True, iteration_range=(0, k))
            if k
            else np.zeros(len(case.y[0]))
        )
        hessian = hessian_of(margin)
        leaves = xgboost_leaves(tree, case, pooled, least)
        trees.append(
            [
                Leaf(leaf.low, leaf.high, max(0.0, leaf.weight - hessian[inside_of(case.X[0], leaf)].sum()))
                for leaf in leaves
            ]
        )
    return Published(trees, _margins(booster, case), thresholds_of(raw), tuple(range(1, N_PARTIES)))


def private(case: Case, n_rounds: int, epsilon: float) -> Published:
    """NewtonBoost on noised, masked sums; structures are drawn from public randomness."""
    bounds = {f: (case.low[f], case.high[f]) for f in range(len(case.low))}
    parties = [
        federated.Party(X, y, name=f"p{k}", bounds=bounds)
        for k, (X, y) in enumerate(zip(case.X, case.y, strict=True))
    ]
    booster = federated.train(
        {"objective": "binary", "num_threads": 1, "verbosity": -1},
        parties,
        n_rounds,
        callbacks=[lgb_dp.NewtonBoost(epsilon, 1e-5)],
    )
    trees, thresholds = [], set()
    for info in booster.dump_model()["tree_info"]:
        leaves: list[Leaf] = []

        def visit(node, low, high, leaves=leaves):
            if "split_feature" not in node:
                leaves.append(Leaf(low, high, float(max(1, node.get("leaf_count", 1)))))
                return
            f, cut = node["split_feature"], float(node["threshold"])
            thresholds.add((f, float(np.float32(cut))))
            below, above = high.copy(), low.copy()
            below[f], above[f] = min(high[f], cut), max(low[f], cut)
            visit(node["left_child"], low, below)
            visit(node["right_child"], above, high)

        visit(info["tree_structure"], case.low, case.high)
        trees.append(leaves)
    margins = (
        [booster.predict(X, raw_score=True) for X in case.X],
        booster.predict(case.X_test, raw_score=True),
    )
    return Published(trees, margins, thresholds, tuple(range(1, N_PARTIES)), tells_counts=False)


def _margins(booster: xgboost.Booster, case: Case) -> tuple[list[np.ndarray], np.ndarray]:
    names = booster.feature_names
    predicted = [
        booster.predict(xgboost.DMatrix(X, feature_names=names), output_margin=True)
        for X in (*case.X, case.X_test)
    ]
    return predicted[:-1], predicted[-1]


def hessian_of(margin: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-margin))
    return p * (1 - p)


def inside_of(X: np.ndarray, leaf: Leaf) -> np.ndarray:
    return ((leaf.low <= X) & ((leaf.high > X) | (leaf.high >= X.max(axis=0)))).all(axis=1)
