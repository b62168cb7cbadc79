"""Are federated trees those of stock XGBoost on pooled data?  Node by node, and every leaf to 1e-6.

    python benchmarks/lossless.py [--rounds 25] [--cipher plain|ou|paillier] [--only NAME ...]

By default it trains with `Plain`, whose integers are those that the ciphers encrypt; the tests show that
ciphers give the same model.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import xgboost

import vertical_data
import xgb_fed
from gbdt_hosts.xgboost.model import read_trees
from report import machine, print_table, say, write_json
from vertical_data import VerticalProblem

TIE = 1e-6
PROBLEMS = ("default_credit", "give_credit", "a9a", "abalone", "covtype")
SCHEMES = {"plain": xgb_fed.Plain, "ou": xgb_fed.OkamotoUchiyama, "paillier": xgb_fed.Paillier}


def pooled(problem: VerticalProblem, params: dict[str, Any], rounds: int) -> xgboost.Booster:
    data = xgboost.QuantileDMatrix(problem.X, label=problem.y, max_bin=params["max_bin"])
    return xgboost.train(params, data, rounds)


def federated(problem: VerticalProblem, params: dict[str, Any], rounds: int, scheme: Any) -> xgboost.Booster:
    party = xgb_fed.LocalParty(problem.passive, "passive", allow_export=True)
    model = xgb_fed.train(
        params, xgb_fed.ActiveData(problem.active, problem.y), [party], rounds, cipher=scheme
    )
    return model.export_booster([party])


def own_gain(tree: dict[str, Any], node: int, params: dict[str, Any]) -> float:
    """G² / (H + λ) of a node left whole, from its weight −G / (H + λ)."""
    return float(
        tree["base_weights"][node] ** 2 * (tree["sum_hessian"][node] + params.get("reg_lambda", 1.0))
    )


def compare(ours: dict[str, Any], theirs: dict[str, Any], params: dict[str, Any]) -> tuple[list[str], float]:
    """Nodes that differ, in words, and the largest relative difference of leaves."""
    differing: list[str] = []
    worst = 0.0
    pairs = [(0, 0)]
    while pairs:
        a, b = pairs.pop()
        leaf_a, leaf_b = ours["left_children"][a] < 0, theirs["left_children"][b] < 0
        gain_a, gain_b = ours["loss_changes"][a], theirs["loss_changes"][b]
        split_a, split_b = (
            (t["split_indices"][k], t["split_conditions"][k], t["default_left"][k])
            for t, k in ((ours, a), (theirs, b))
        )
        if leaf_a and leaf_b:
            x, y = ours["split_conditions"][a], theirs["split_conditions"][b]
            worst = max(worst, abs(x - y) / max(abs(y), 1e-12))
        elif leaf_a != leaf_b or split_a != split_b:
            # XGBoost subtracts the node's own gain in float32: that sets the scale of rounding.
            scale = max(abs(gain_b), own_gain(theirs, b, params))
            tie = "tie" if abs(gain_a - gain_b) <= TIE * scale else "NO TIE"
            differing.append(f"node {b}: {split_a} gains {gain_a!r}, XGBoost {split_b} {gain_b!r}: {tie}")
        else:
            for side in ("left_children", "right_children"):
                pairs.append((ours[side][a], theirs[side][b]))
    return differing, worst


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--cipher", choices=SCHEMES, default="plain")
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--json", type=Path, default=Path("out/lossless.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
    rows, notes = [], []
    for name in arguments.only:
        problem: VerticalProblem = getattr(vertical_data, name)()
        params: dict[str, Any] = {"objective": problem.objective, "max_depth": 5, "max_bin": 32}
        if problem.n_classes > 1:
            params["num_class"] = problem.n_classes
        begin = time.perf_counter()
        ours = read_trees(federated(problem, params, arguments.rounds, SCHEMES[arguments.cipher]()))
        seconds = time.perf_counter() - begin
        theirs = read_trees(pooled(problem, params, arguments.rounds))
        equal, worst = 0, 0.0
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            differing, difference = compare(a, b, params)
            equal += not differing
            worst = max(worst, difference)
            notes += [f"{problem.title}, tree {number}, {text}" for text in differing]
        shape = f"{problem.X.shape[0]:,} x {problem.X.shape[1]}"
        rows.append((problem.title, shape, f"{equal} of {len(theirs)}", worst, seconds))
        say(f"{problem.title}: {equal} of {len(theirs)} trees")
    columns = ("data", "rows x columns", "identical trees", "largest leaf difference", "seconds")
    print_table(f"pooled xgboost {xgboost.__version__} against federated ({arguments.cipher})", columns, rows)
    for note in notes:
        say(note)
    results = [dict(zip(columns, row, strict=True)) for row in rows]
    write_json(arguments.json, {"machine": machine(2), "results": results, "differing nodes": notes})


if __name__ == "__main__":
    main()
