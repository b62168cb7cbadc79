"""Attacks on published federated trees: which rows can be read from them, by method of training.

The attacker sees the finished model and nothing else.  It knows the public ranges of the columns; a second
one is one of the three organisations, whose rows guide it.  It works back from counts and splits to boxes in
which the others' rows lie (the idea of TimberStrike), tree by tree, and guesses each value.  A second attack
tells members from other rows by their loss.  The worked examples are those of the documentation: nodes of one
row, sums of equal margins, exact cuts.

    python benchmarks/federated/reconstruction.py --sets breast_cancer adult --out results/reconstruction.json
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import xgboost
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import print_table, write_json
from benchmarks.federated.published_trees import (
    DEPTH,
    N_PARTIES,
    PARAMS,
    Case,
    Leaf,
    Published,
    bagged,
    case_of,
    exact,
    hessian_of,
    inside_of,
    private,
    simfl,
)

TOLERANCE = 0.05
"""Of a column's public range, within which a value counts as read."""
DEVIATIONS = 0.319
"""Of a column's standard deviations, likewise, by the measure of TimberStrike (arXiv:2506.07605)."""
MAX_NODE_ROWS, MAX_MARGINS = 30, 4
"""Of the nodes whose sums of hessians are decoded: all ways to make them are tried."""


# The attacks.


def counts_of(leaves: list[Leaf], guide: np.ndarray, n: int) -> np.ndarray:
    """Rows that each leaf is taken to have, n in all; without counts, in proportion to the guide's rows."""
    weights = np.array([leaf.weight if leaf.weight is not None else np.nan for leaf in leaves])
    if np.isnan(weights).any():
        weights = np.array([inside_of(guide, leaf).sum() + 0.1 for leaf in leaves])
    share = n * weights / max(weights.sum(), 1e-12)
    counts = np.floor(share).astype(int)
    missing = n - counts.sum()
    counts[np.argsort(counts - share)[:missing]] += 1
    return counts


def boxes_of(trees: list[list[Leaf]], case: Case, n: int, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes for n rows that fit the trees' counts: each tree's leaves are dealt to the rows they fit best."""
    guide = np.sort(own, axis=0)
    low, high = np.repeat(case.low[None], n, axis=0), np.repeat(case.high[None], n, axis=0)

    def mass(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What part of the guide's rows lies between, column by column."""
        inside = np.stack(
            [
                np.searchsorted(guide[:, f], b[:, f], "right") - np.searchsorted(guide[:, f], a[:, f], "left")
                for f in range(guide.shape[1])
            ],
            axis=1,
        )
        return np.where(a <= b, inside + 0.1, 1e-6)

    for leaves in trees:
        slots = np.repeat(np.arange(len(leaves)), counts_of(leaves, own, n))
        before = np.log(mass(low, high)).sum(axis=1)
        cost = np.empty((n, len(leaves)))
        for k, leaf in enumerate(leaves):
            cost[:, k] = before - np.log(mass(np.maximum(low, leaf.low), np.minimum(high, leaf.high))).sum(
                axis=1
            )
        rows, given = linear_sum_assignment(cost[:, slots])
        for row, k in zip(rows, slots[given], strict=True):
            a, b = np.maximum(low[row], leaves[k].low), np.minimum(high[row], leaves[k].high)
            fits = a <= b
            low[row], high[row] = np.where(fits, a, low[row]), np.where(fits, b, high[row])
    return low, high


def guesses(low: np.ndarray, high: np.ndarray, case: Case, own: np.ndarray) -> np.ndarray:
    """Rows of the guide, one for each box, that need be moved least to lie in it, and moved into it."""
    width = np.maximum(case.high - case.low, 1e-12)
    guide = own[: max(len(low), len(case.X[0]))]
    moved = np.clip(guide[None], low[:, None], high[:, None])
    boxes, rows = linear_sum_assignment((np.abs(moved - guide[None]) / width).sum(axis=2))
    return moved[boxes, rows]


def share_read(guessed: np.ndarray, true: np.ndarray, room: np.ndarray) -> float:
    """Share of values within their column's room, guesses being matched to rows as well as they can be."""
    right = (np.abs(guessed[:, None] - true[None]) <= room).mean(axis=2)
    rows, columns = linear_sum_assignment(-right)
    return float(right[rows, columns].mean())


def membership(published: Published, case: Case) -> float:
    """AUC of telling the targets' rows from rows that nobody trained on, by their loss."""
    margins, test = published.margin
    members = np.concatenate([_loss(margins[k], case.y[k]) for k in published.targets])
    others = _loss(test, case.y_test)
    return float(roc_auc_score(np.r_[np.ones(len(members)), np.zeros(len(others))], -np.r_[members, others]))


def _loss(margin: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, np.where(y > 0, -margin, margin))


def alone(published: Published, true: np.ndarray) -> float:
    """Share of the targets' rows that are alone in a leaf that tells so: a record with its label."""
    found = np.zeros(len(true), dtype=bool)
    for leaves in published.trees:
        for leaf in leaves:
            inside = inside_of(true, leaf)
            if published.tells_counts and leaf.weight is not None and inside.sum() == 1:
                found |= inside
    return float(found.mean())


def somebodys(published: Published, case: Case) -> float:
    """Share of the model's thresholds that are a value of somebody's row, exactly."""
    values = [set(np.float32(np.concatenate(case.X)[:, f]).tolist()) for f in range(len(case.low))]
    return float(np.mean([cut in values[f] for f, cut in published.thresholds]))


def knapsack(case: Case) -> tuple[float, int]:
    """Share of small nodes whose exact sum of hessians says how many rows of each earlier leaf they have.

    Rows of one leaf have one margin, so that few hessians make up the sum of a node of a second tree.
    """
    X, y = np.concatenate(case.X), np.concatenate(case.y)
    settings = {**PARAMS, "base_score": 0.5, "max_depth": 2, "min_child_weight": 0}
    booster = xgboost.train(settings, xgboost.DMatrix(X, y), 1)
    margin = booster.predict(xgboost.DMatrix(X), output_margin=True)
    levels, leaf_of_row = np.unique(margin, return_inverse=True)
    hessians = [round(float(h) * 2**80) for h in hessian_of(levels.astype(np.float64))]
    second = xgboost.train({**settings, "max_depth": DEPTH}, xgboost.DMatrix(X, y, base_margin=margin), 1)
    nodes = second.predict(xgboost.DMatrix(X, base_margin=margin), pred_leaf=True).ravel().astype(int)
    decoded, n_nodes = 0, 0
    for node in np.unique(nodes):
        counts = np.bincount(leaf_of_row[nodes == node], minlength=len(levels))
        if counts.sum() > MAX_NODE_ROWS or len(levels) > MAX_MARGINS:
            continue
        n_nodes += 1
        total = sum(int(c) * h for c, h in zip(counts, hessians, strict=True))
        ways = [w for w in _ways(int(counts.sum()), len(levels)) if _sum(w, hessians) == total]
        decoded += ways == [tuple(counts.tolist())]
    return decoded / max(n_nodes, 1), n_nodes


def _sum(counts: tuple[int, ...], hessians: list[int]) -> int:
    return sum(c * h for c, h in zip(counts, hessians, strict=True))


def _ways(n: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """All ways to deal n rows to leaves."""
    for bars in combinations(range(n + kinds - 1), kinds - 1):
        places = (-1, *bars, n + kinds - 1)
        yield tuple(b - a - 1 for a, b in pairwise(places))


def attacked(case: Case, n_rounds: int) -> list[dict]:
    """The table of a data set."""
    methods = {
        "bagged trees (as Flower's)": lambda: bagged(case, n_rounds),
        "SimFL as it was (counts in trees)": lambda: simfl(case, n_rounds, counts=True),
        "SimFL now": lambda: simfl(case, n_rounds, counts=False),
        "exact, nodes of 1 row": lambda: exact(case, n_rounds, 1),
        "exact, nodes of 10 rows": lambda: exact(case, n_rounds, 10),
        "private, epsilon = 1": lambda: private(case, 10 * n_rounds, 1.0),
    }
    random, rows = np.random.default_rng(2), []
    drawn = random.uniform(case.low, case.high, (N_PARTIES * len(case.y[0]), len(case.low)))
    own = np.concatenate([case.X[0]] + [random.permuted(case.X[0], axis=0) for _ in range(N_PARTIES)])
    guides = {"ranges": drawn, "own rows": own}
    for name, publish in methods.items():
        published = publish()
        true = np.concatenate([case.X[k] for k in published.targets])
        row = {"method": name}
        rooms = {"": TOLERANCE * (case.high - case.low), " by sd": DEVIATIONS * true.std(axis=0)}
        for title, guide in guides.items():
            # Without the model: the guide itself, or its middle, matched just as well.
            middle = np.repeat(np.median(guide, axis=0)[None], len(true), axis=0)
            without = (guide[: len(true)], middle)
            guessed = [
                guesses(*boxes_of(published.trees[:n], case, len(true), guide), case, guide)
                for n in (1, min(5, n_rounds), n_rounds)
            ]
            for measure, room in rooms.items():
                row |= {
                    f"read{measure}, {title}": max(share_read(one, true, room) for one in guessed),
                    f"chance{measure}, {title}": max(share_read(one, true, room) for one in without),
                }
        rows.append(
            row
            | {
                "members": membership(published, case),
                "alone": alone(published, true),
                "somebody's cuts": somebodys(published, case),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["breast_cancer"])
    parser.add_argument("--rows", type=int, default=250, help="of each organisation, at most")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="100 rows, 5 rounds")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    n_rows, n_rounds = (100, 5) if args.quick else (args.rows, args.rounds)
    results = {}
    for name in args.sets:
        case = case_of(name, n_rows)
        rows = attacked(case, n_rounds)
        decoded, n_nodes = knapsack(case)
        results[name] = {"methods": rows, "knapsack": {"decoded": decoded, "nodes": n_nodes}}
        print_table(
            f"{name}: {len(case.y[1])} rows of each of {N_PARTIES}, {n_rounds} rounds; values within "
            f"{TOLERANCE:.0%} of the range, or by sd within {DEVIATIONS} standard deviations",
            list(rows[0]),
            [[round(v, 3) if isinstance(v, float) else v for v in row.values()] for row in rows],
        )
        print(
            f"exact sums of hessians of {n_nodes} nodes with up to {MAX_NODE_ROWS} rows: {decoded:.0%} say "
            "how many rows of each earlier leaf are in them"
        )
    if args.out is not None:
        write_json(args.out, results)


if __name__ == "__main__":
    main()
