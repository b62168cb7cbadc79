"""Are trees grown on secure sums those of XGBoost on pooled rows?  Node by node, in 2, 5 and 10 parties.

    python benchmarks/federated/horizontal_exact.py [--quick] [--rounds 25] [--only NAME ...]

Rows are dealt out at random, and once so that every party has one label only.  Cuts are the exact pooled
order statistics, which XGBoost is given as the reference of its bins.  Times are of all parties in one
process, each of which adds up and derives everything for itself.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import xgboost

import xgb_fed
from gbdt_hosts.xgboost.model import model_content
from xgb_fed.horizontal.exact.cuts import rows_of_cuts

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.data import load
from benchmarks.common.report import machine, print_table, say, write_json
from benchmarks.vertical import vertical_data

PROBLEMS = ("a9a", "codrna", "ijcnn1", "give_credit", "abalone", "covtype")
QUICK = ("a9a", "abalone")
NUMBERS = (2, 5, 10)
BY_LABEL = "one label each"
EXACT = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
"""What equal trees have in common, to the last bit; leaf values are among the conditions."""


def read(name: str) -> tuple[str, Any, np.ndarray, str]:
    """Title, rows, labels and objective."""
    if name in ("give_credit", "abalone", "covtype"):
        problem = getattr(vertical_data, name)()
        return problem.title, problem.X, problem.y, problem.objective
    binary = load(name)
    return binary.title, binary.X, binary.y, "binary:logistic"


def divisions(y: np.ndarray, objective: str, numbers: Sequence[int]) -> dict[str, list[np.ndarray]]:
    """Rows of each party, by what the division is called."""
    order = np.random.default_rng(0).permutation(len(y))
    found = {f"{n} parties": [np.sort(part) for part in np.array_split(order, n)] for n in numbers}
    if objective != "reg:squarederror":
        found[BY_LABEL] = [np.flatnonzero(y == label) for label in np.unique(y)]
    return found


def pooled(
    X: Any, y: np.ndarray, params: dict[str, Any], cuts: list[np.ndarray], rounds: int
) -> xgboost.Booster:
    """Stock XGBoost on all rows."""
    rows = rows_of_cuts(cuts)
    own = {**params, "max_bin": len(rows) + 1}
    reference = xgboost.QuantileDMatrix(rows, max_bin=own["max_bin"])
    data = xgboost.QuantileDMatrix(X, label=y, ref=reference, max_bin=own["max_bin"])
    return xgboost.train({**own, "tree_method": "hist"}, data, rounds)


def uploaded(traffic: xgb_fed.Traffic) -> float:
    """Bytes of masked sums that a party sends, on average."""
    flows = [flow.bytes for (_, _, kind), flow in traffic.flows.items() if kind == "Contributed"]
    return float(np.mean(flows))


def run(name: str, rounds: int, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    """One row of the table for each division."""
    title, X, y, objective = read(name)
    params: dict[str, Any] = {"objective": objective, "max_depth": 6}
    if objective == "multi:softprob":
        params |= {"num_class": len(np.unique(y)), "base_score": 0.5}
    rows = []
    for division, parts in divisions(y, objective, numbers).items():
        members = [(X[part], y[part]) for part in parts]
        began, worked = time.perf_counter(), time.process_time()
        model = xgb_fed.train_exact(
            {**params, "max_bin": 32}, members, rounds, cuts="exact", min_rows_per_node=1
        )
        seconds, work = time.perf_counter() - began, time.process_time() - worked
        assert model.cuts is not None
        reference = pooled(X, y, params, model.cuts, rounds)
        pairs = list(zip(model_content(model.booster).trees, model_content(reference).trees, strict=True))
        equal = sum(all(a[key] == b[key] for key in EXACT) for a, b in pairs)
        n = len(pairs)
        sent = uploaded(model.traffic) / n / 1000
        rows.append((title, division, len(parts), f"{equal} of {n}", seconds / n, work / n, sent))
        say(f"{title}, {division}: {equal} of {n} trees, {seconds / n:.3f} s per tree")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two data sets, 2 and 5 parties, 5 rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", nargs="+", choices=PROBLEMS)
    parser.add_argument("--json", type=Path, default=Path("out/horizontal_exact.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", xgb_fed.FewPartiesWarning)
    rounds = arguments.rounds or (5 if arguments.quick else 25)
    warm_up()
    rows: list[tuple[Any, ...]] = []
    for name in arguments.only or (QUICK if arguments.quick else PROBLEMS):
        rows += run(name, rounds, NUMBERS[:2] if arguments.quick else NUMBERS)
    columns = (
        "data",
        "rows of",
        "parties",
        "identical trees",
        "s per tree",
        "processor s per tree",
        "kB up per tree and party",
    )
    print_table(f"pooled xgboost {xgboost.__version__} against exact secure sums", columns, rows)
    results = [dict(zip(columns, row, strict=True)) for row in rows]
    write_json(arguments.json, {"machine": machine(2), "rounds": rounds, "results": results})


def warm_up() -> None:
    """Load kernels, so that the first figure does not hold their compilation."""
    X = scipy.sparse.random(40, 3, 0.5, format="csr", random_state=0)
    xgb_fed.train_exact({"objective": "binary:logistic"}, [(X, np.arange(40) % 2)] * 2, 1)


if __name__ == "__main__":
    main()
