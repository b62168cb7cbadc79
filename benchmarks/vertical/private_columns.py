"""Private training with columns apart: seconds, bytes and memory by rows, and accuracy by data set.

    VEILBOOST_DATA=... python benchmarks/vertical/private_columns.py [--quick] [--sections links accuracy]

*Time* trains `lgb_dp.vertical` on generated rows, both parties in one process, and SecureBoost
(`xgb_fed.VerticalXGBClassifier`, Okamoto-Uchiyama) on the same rows in the same run; each size has a process
of its own, whose peak is the memory of both parties.  A tree's figures are the difference between a long and
a short training run, so that binning and set-up do not count.  Processors' seconds are those of both parties,
which a busy machine lengthens less.  *Links* has a process for each party, TLS between them, and a relay in
place of a slow link (`column_links`).  *Accuracy* halves the columns at random, in three ways in turn, and
trains with the central simulation, whose sums are those of the protocol to the last bit; beside it pooled
`NewtonBoost` with its defaults on all columns.  Tables are printed; the same numbers go to the JSON file.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import lgb_dp
import xgb_fed
from lgb_dp.vertical import ColumnParty, VerticalDPLGBMClassifier, VerticalDPLGBMRegressor

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from benchmarks.common.peak_memory import peak, resident
from benchmarks.common.report import bytes_from, load_average, machine, print_table, say, write_json
from benchmarks.private.peer_data import Split, split
from benchmarks.vertical.column_links import links_section, trained
from vertical_oracle import central_training

ROWS, QUICK_ROWS = (10_000, 50_000, 100_000, 1_000_000), (10_000,)
N_FEATURES, DEPTH, BINS = 20, 4, 32
ROWS_OF_LINKS = 50_000
PRIVATE_TREES, PEER_TREES = (4, 20), (1, 3)
"""Trees of the short and of the long run."""

PARAMS = {"objective": "binary", "max_depth": DEPTH}

DELTA, DELTA_OF_TIME = 1e-5, 1e-7
"""Below one over the number of rows."""

N_HALVINGS = 3
EPSILONS = (0.1, 1.0)
SECTIONS = ("time", "links", "accuracy")
TO_REACH = {
    "adult": (0.880, 0.907),
    "give_credit": (0.853, 0.859),
    "default_credit": (0.733, 0.765),
    "codrna": (0.952, 0.975),
}
"""Least mean AUC by ε."""

REGRESSIONS = ("abalone", "winequality")
TREES_OF_REGRESSIONS = (200, 1000)

Known = dict[str, Any]


def per_tree(train: Callable[[int], int], trees: tuple[int, int]) -> NDArray[np.float64]:
    """Seconds, processor seconds and bytes of a tree, from runs of two lengths; `train` gives the bytes."""
    ends = []
    for n_trees in trees:
        begun = np.array([time.perf_counter(), time.process_time(), 0.0])
        n_bytes = train(n_trees)
        ends.append(np.array([time.perf_counter(), time.process_time(), n_bytes]) - begun)
    return np.asarray((ends[1] - ends[0]) / (trees[1] - trees[0]))


def generated(n_rows: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Rows of uniform columns, and labels of two classes."""
    rng = np.random.default_rng(n_rows)
    X = rng.uniform(-1, 1, (n_rows, N_FEATURES)).astype(np.float32)
    return X, (X[:, 0] + X[:, -1] + rng.normal(0, 0.5, n_rows) > 0).astype(float)


def timed(n_rows: int, has_peer: bool) -> dict[str, float]:
    """Figures of one size; run in a process of its own."""
    (X, y), half = generated(n_rows), N_FEATURES // 2
    before = resident()
    rows = lgb_dp.Dataset(X[:, :half], y, bounds=(-1, 1), max_bin=255).construct()
    bank = ColumnParty(X[:, half:], name="bank", bounds=(-1, 1))

    def private(n_trees: int) -> int:
        traffic = trained(PARAMS, rows, n_trees, bank, DELTA_OF_TIME)
        return traffic.bytes_from("labels") + traffic.bytes_from("bank")

    private(PRIVATE_TREES[0])  # compiles
    seconds, busy, n_bytes = per_tree(private, PRIVATE_TREES)
    found = {
        "rows": n_rows,
        "s per tree": seconds,
        "processors' s": busy,
        "bytes per row": n_bytes / n_rows,
        "peak over tables, MB": (peak() - before) / 1e6,
    }
    if has_peer:
        party = xgb_fed.LocalParty(X[:, half:], name="bank")

        def exact(n_trees: int) -> int:
            model = xgb_fed.VerticalXGBClassifier(
                n_estimators=n_trees, max_depth=DEPTH, max_bin=BINS, cipher=xgb_fed.OkamotoUchiyama()
            ).fit(X[:, :half], y, parties=[party])
            return sum(bytes_from(model.traffic_, one) for one in ("active", "bank"))

        seconds, busy, n_bytes = per_tree(exact, PEER_TREES)
        peer = {"s per tree": seconds, "processors' s": busy, "bytes per row": n_bytes / n_rows}
        found |= {f"SecureBoost: {name}": value for name, value in peer.items()}
    return found


def time_section(sizes: tuple[int, ...], peer_up_to: int) -> list[dict[str, float]]:
    """One line per number of rows."""
    results = []
    for n_rows in sizes:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            results.append(process.submit(timed, n_rows, n_rows <= peer_up_to).result())
    columns = list(results[0] | results[-1])
    title = f"trees of {1 << DEPTH} leaves, {N_FEATURES} columns, both parties on one machine"
    print_table(title, columns, [[one.get(name, math.nan) for name in columns] for one in results])
    say(
        "to reach on two idle processors: 0.15 s and 165 bytes at 100,000 rows, 1 s and 1,000 MB at 1,000,000"
    )
    return results


def known(data: Split, columns: NDArray[np.int64]) -> Known:
    """Public declarations of some columns."""
    numbers = {k: int(data.n_categories[c]) for k, c in enumerate(columns)}
    return {
        "bounds": {k: (data.low[c], data.high[c]) for k, c in enumerate(columns) if not numbers[k]},
        "categories": {k: range(n) for k, n in numbers.items() if n},
    }


def simulated(
    params: Known,
    rows: lgb_dp.Dataset,
    n_trees: int,
    *,
    parties: list[ColumnParty],
    callbacks: list[lgb_dp.NewtonBoost],
    trees_per_round: int,
    **_: Any,
) -> Any:
    """As `lgb_dp.vertical.train`, with both parties' inputs added up in one place."""
    trainer = callbacks[0].with_settings()
    return central_training(params, rows, n_trees, parties[0], trainer, trees_per_round)


def apart(data: Split, epsilon: float, n_trees: int, run: int) -> NDArray[np.float64]:
    """Predictions of test rows by a model of two parties, trained by the central simulation."""
    order = np.random.default_rng(run % N_HALVINGS).permutation(data.X.shape[1])
    own, other = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    bank = ColumnParty(data.X[:, other], name="bank", **known(data, other))
    both = data.X_test[:, np.concatenate([own, other])]
    settings: dict[str, Any] = {"delta": DELTA, "n_estimators": n_trees}
    with patch("lgb_dp.vertical.estimators.train", simulated):
        if data.task == "binary":
            model = VerticalDPLGBMClassifier(epsilon, **settings)
            model.fit(data.X[:, own], data.y, parties=[bank], **known(data, own))
            return np.asarray(model.predict_proba(both)[:, 1])
        regressor = VerticalDPLGBMRegressor(epsilon, **settings)
        declared = {"label_bounds": data.label_bounds, **known(data, own)}
        return regressor.fit(data.X[:, own], data.y, parties=[bank], **declared).predict(both)


def pooled(data: Split, epsilon: float) -> NDArray[np.float64]:
    """The same by the pooled trainer with its defaults, on all columns."""
    declared = known(data, np.arange(data.X.shape[1]))
    if data.task == "regression":
        declared |= {"label_bounds": data.label_bounds, "label_overflow": "clip"}
    rows = lgb_dp.Dataset(data.X, data.y, max_bin=255, spacing="mixed", **declared)
    params = {"objective": data.task, "verbosity": -1, "lambda_l2": 0.1}
    trainer = lgb_dp.NewtonBoost(epsilon, DELTA)
    return np.asarray(lightgbm.train(params, rows, 1000, callbacks=[trainer]).predict(data.X_test))


def score(data: Split, prediction: NDArray[np.float64]) -> float:
    """AUC, or root mean squared error."""
    if data.task == "binary":
        return float(roc_auc_score(data.y_test, prediction))
    return float(np.sqrt(np.mean((prediction - data.y_test) ** 2)))


def accuracy_section(runs: int, sets: list[str], epsilons: tuple[float, ...]) -> list[dict[str, Any]]:
    """Means over runs, one line per data set, ε and number of trees."""
    results = []
    for name in sets:
        data = split(name)
        for epsilon in epsilons:
            reference = [score(data, pooled(data, epsilon)) for _ in range(runs)]
            for n_trees in (200,) if data.task == "binary" else TREES_OF_REGRESSIONS:
                values = [score(data, apart(data, epsilon, n_trees, run)) for run in range(runs)]
                limits = TO_REACH.get(name)
                if data.task == "binary":
                    least = limits[EPSILONS.index(epsilon)] if limits and epsilon in EPSILONS else None
                    is_reached = least is None or np.mean(values) >= least
                else:
                    least = 1.05 * float(np.mean(reference))
                    is_reached = np.mean(values) <= least
                results.append(
                    {
                        "data": data.name,
                        "epsilon": epsilon,
                        "trees": n_trees,
                        "measure": "AUC" if data.task == "binary" else "RMSE",
                        "apart": float(np.mean(values)),
                        "error": float(np.std(values) / np.sqrt(runs)),
                        "pooled, 1000 trees": float(np.mean(reference)),
                        "to reach": least,
                        "reached": "-" if least is None else "yes" if is_reached else "no",
                    }
                )
    columns = list(results[0])
    title = f"test rows, means of {runs} runs, columns halved at random"
    print_table(title, columns, [[one.get(name, math.nan) for name in columns] for one in results])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--peer-up-to", type=int, default=100_000, help="rows that SecureBoost trains on")
    parser.add_argument("--sets", nargs="+", default=[*TO_REACH, *REGRESSIONS])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("out/private_columns.json"))
    parser.add_argument(
        "--quick", action="store_true", help="10,000 rows; one run of default_credit and abalone"
    )
    args = parser.parse_args()
    sizes, sets, runs = tuple(args.rows), args.sets, args.runs
    epsilons: tuple[float, ...] = EPSILONS
    if args.quick:
        sizes, sets, runs, epsilons = QUICK_ROWS, ["default_credit", "abalone"], 1, (1.0,)
    content: dict[str, Any] = {"machine": machine(2)}
    say(str(content["machine"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
        if "time" in args.sections:
            content["time"] = time_section(sizes, args.peer_up_to)
        if "links" in args.sections:
            n_rows = min(ROWS_OF_LINKS, max(sizes))
            content["links"] = links_section(*generated(n_rows), PARAMS, DELTA_OF_TIME, PRIVATE_TREES)
        if "accuracy" in args.sections:
            content["accuracy"] = accuracy_section(runs, sets, epsilons)
    say(f"load average at the end: {load_average():.2f}")
    write_json(args.json, content)


if __name__ == "__main__":
    main()
