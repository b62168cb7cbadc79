"""What compiling each trainer's kernels costs: the first fit in a fresh environment against a second one.

    python benchmarks/common/first_fit.py [newton vertical ...] [--json out/first_fit.json]

Every trainer runs in a process of its own, with an empty cache of machine code, and then in another one with
what the first left there.  Times are seconds of processor time, so that a busy machine counts for little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

COLUMNS = ("trainer", "first fit", "second fit", "compiling", "kernels", "limit", "first fit, warm cache")
LIMITS = {"newton": 5.0, "dpboost": 5.0, "mboost": 5.0, "vertical": 10.0, "exact": 10.0, "simfl": 10.0}
"""Seconds that the first fit may take beyond the second one."""


def fits() -> dict[str, Callable[[], None]]:
    """A training run of each trainer, as its users write it, on few rows."""
    import lightgbm
    import numpy as np

    import lgb_dp
    import xgb_fed

    X = np.random.default_rng(0).normal(size=(2000, 6)).clip(-3, 3)
    y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(float)
    thirds = [(X[k:600:3], y[k:600:3]) for k in range(3)]

    def private(trainer: Any, rounds: int, **params: Any) -> None:
        data = lgb_dp.Dataset(X, label=y, bounds=(-3, 3), max_bin=10)
        quiet = {"objective": "binary", "verbosity": -1, **params}
        lightgbm.train(quiet, data, rounds, callbacks=[trainer])

    def vertical() -> None:
        model = xgb_fed.VerticalXGBClassifier(n_estimators=2, max_depth=3, max_bin=16)
        model.fit(X[:200, :3], y[:200], parties=[xgb_fed.LocalParty(X[:200, 3:], "bank")])

    def horizontal(method: str) -> None:
        xgb_fed.HorizontalXGBClassifier(n_estimators=2, max_depth=3, method=method).fit(parties=thirds)

    return {
        "newton": lambda: private(lgb_dp.NewtonBoost(epsilon=1.0, delta=1e-5), 20),
        "dpboost": lambda: private(lgb_dp.DPBoost(epsilon=1.0), 5),
        "mboost": lambda: private(lgb_dp.MBoost(epsilon=1.0), 2, max_depth=3),
        "vertical": vertical,
        "exact": lambda: horizontal("exact"),
        "simfl": lambda: horizontal("simfl"),
    }


def measure(trainer: str) -> dict[str, Any]:
    """Seconds of the first two fits in this process, and how many of our kernels were compiled."""
    from gbdt_kernels.compilation import recording_compilation

    warnings.simplefilter("ignore")
    fit = fits()[trainer]
    start = time.process_time()
    with recording_compilation() as names:
        fit()
    first = time.process_time()
    fit()
    seconds = {"first": first - start, "second": time.process_time() - first}
    return {**seconds, "kernels": sum(name.startswith("gbdt_kernels.") for name in names)}


def in_a_process(trainer: str, cache: str) -> dict[str, Any]:
    """`measure` in a new process with a cache directory."""
    command = [sys.executable, __file__, "--measure", trainer]
    variables = {**os.environ, "NUMBA_CACHE_DIR": cache}
    ran = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trainer", nargs="*", help=f"{', '.join(LIMITS)} (default: all)")
    parser.add_argument("--json", type=Path, default=Path("out/first_fit.json"))
    parser.add_argument("--measure", choices=LIMITS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return
    if unknown := set(args.trainer) - set(LIMITS):
        parser.error(f"unknown trainers: {', '.join(sorted(unknown))}")
    from benchmarks.common.report import machine, print_table, write_json

    rows, results = [], {}
    for trainer in args.trainer or LIMITS:
        with tempfile.TemporaryDirectory() as cache:
            fresh, warm = in_a_process(trainer, cache), in_a_process(trainer, cache)
        results[trainer] = {"fresh": fresh, "warm": warm}
        beyond = fresh["first"] - fresh["second"]
        rows.append(
            (
                trainer,
                fresh["first"],
                fresh["second"],
                beyond,
                fresh["kernels"],
                LIMITS[trainer],
                warm["first"],
            )
        )
    print_table("seconds of processor time", COLUMNS, rows)
    write_json(args.json, {"machine": machine(1), "trainers": results})


if __name__ == "__main__":
    main()
