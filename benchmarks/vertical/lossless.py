"""Are federated trees those of stock XGBoost on pooled data?  Node by node, and every leaf to 1e-6.

    python benchmarks/vertical/lossless.py [--rounds 25] [--cipher plain|ou|paillier] [--only NAME ...]
    python benchmarks/vertical/lossless.py --objectives [--only OBJECTIVE ...]

With --objectives, every objective is trained on labels made from those of two data sets.  By default it
trains with `Plain`, whose integers are those that the ciphers encrypt; the tests show that ciphers give the
same model.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xgboost

import xgb_fed
from gbdt_hosts.xgboost.model import model_content

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import machine, print_table, say, write_json
from benchmarks.vertical import vertical_data
from benchmarks.vertical.objective_problems import DATA, NAMES, objective_problem
from benchmarks.vertical.vertical_data import VerticalProblem

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


def differences(
    ours: xgboost.Booster, theirs: xgboost.Booster, params: dict[str, Any]
) -> tuple[str, float, list[str]]:
    """How many trees are equal, the largest relative difference of leaves, and the nodes that differ."""
    equal, worst, notes = 0, 0.0, []
    pairs = list(zip(model_content(ours).trees, model_content(theirs).trees, strict=True))
    for number, (a, b) in enumerate(pairs):
        differing, difference = compare(a, b, params)
        equal += not differing
        worst = max(worst, difference)
        notes += [f"tree {number}, {text}" for text in differing]
    return f"{equal} of {len(pairs)}", worst, notes


Row = tuple[Any, ...]


def of_data(names: Sequence[str], rounds: int, scheme: Any) -> tuple[list[Row], list[str]]:
    """Rows of the table of data sets, each with the objective of its labels."""
    rows, notes = [], []
    for name in names:
        problem: VerticalProblem = getattr(vertical_data, name)()
        params: dict[str, Any] = {"objective": problem.objective, "max_depth": 5, "max_bin": 32}
        if problem.n_classes > 1:
            params["num_class"] = problem.n_classes
        begin = time.perf_counter()
        ours = federated(problem, params, rounds, scheme)
        seconds = time.perf_counter() - begin
        equal, worst, found = differences(ours, pooled(problem, params, rounds), params)
        notes += [f"{problem.title}, {text}" for text in found]
        shape = f"{problem.X.shape[0]:,} x {problem.X.shape[1]}"
        rows.append((problem.title, shape, equal, worst, seconds))
        say(f"{problem.title}: {equal} trees")
    return rows, notes


def of_objectives(names: Sequence[str], rounds: int, scheme: Any) -> tuple[list[Row], list[str]]:
    """Rows of the table of objectives."""
    rows, notes = [], []
    for name in names:
        for data in DATA:
            task = objective_problem(name, data)
            problem = task.problem
            party = xgb_fed.LocalParty(problem.passive, "passive", allow_export=True)
            active = xgb_fed.ActiveData(problem.active, **task.info)
            begin = time.perf_counter()
            model = xgb_fed.train(
                task.params, active, [party], rounds, cipher=scheme, obj=task.obj, verbose_eval=False
            )
            seconds = time.perf_counter() - begin
            ours = model.export_booster([party])
            equal, worst, found = differences(ours, task.pooled(rounds), task.params)
            notes += [f"{name}, {problem.title}, {text}" for text in found]
            rows.append((name, problem.title, equal, worst, seconds))
            say(f"{name}, {problem.title}: {equal} trees")
    return rows, notes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--cipher", choices=SCHEMES, default="plain")
    parser.add_argument("--objectives", action="store_true")
    parser.add_argument("--only", nargs="+", choices=(*PROBLEMS, *NAMES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
    names = [n for n in (NAMES if arguments.objectives else PROBLEMS) if n in (arguments.only or [n])]
    report = of_objectives if arguments.objectives else of_data
    rows, notes = report(names, arguments.rounds, SCHEMES[arguments.cipher]())
    first = ("objective", "labels from") if arguments.objectives else ("data", "rows x columns")
    columns = (*first, "identical trees", "largest leaf difference", "seconds")
    print_table(f"pooled xgboost {xgboost.__version__} against federated ({arguments.cipher})", columns, rows)
    for note in notes:
        say(note)
    results = [dict(zip(columns, row, strict=True)) for row in rows]
    file = arguments.json or Path(
        "out/lossless_objectives.json" if arguments.objectives else "out/lossless.json"
    )
    content = {"machine": machine(2), "xgboost": xgboost.__version__, "results": results}
    write_json(arguments.json or file, {**content, "differing nodes": notes})


if __name__ == "__main__":
    main()
