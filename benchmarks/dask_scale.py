"""NewtonBoost on a Dask cluster of this machine against one process with as many threads.

Rounds alternate between both, and a ratio is the median over pairs; loading is timed apart, and kernels are
compiled before.  A cost model is fitted to the measured sizes and numbers of workers: seconds per round =
``call + worker * n_workers + row * rows / threads``.  Columns cost nothing: few are read.

    python benchmarks/dask_scale.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import lightgbm
import numpy as np
from distributed import Client, LocalCluster

import lgb_dp
import lgb_dp.dask
import report

N_COLUMNS = 30
SIZES = (1_000, 100_000, 1_000_000)
PARAMS = {"objective": "binary", "verbosity": -1, "max_depth": 5}


class Rounds:
    """A callback that notes when each round begins."""

    before_iteration = True

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, env: Any) -> None:
        self.times.append(time.perf_counter())

    @property
    def per_round(self) -> float:
        """Seconds of a round that nothing else held up: the tenth percentile; the first ones are left out."""
        return float(np.quantile(np.diff(self.times[2:]), 0.1))


def made_rows(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, N_COLUMNS))
    return X, (X[:, 0] + rng.normal(size=n_rows) > 0).astype(float)


def in_one_process(X: np.ndarray, y: np.ndarray, n_rounds: int, n_threads: int) -> dict[str, float]:
    rounds, start = Rounds(), time.perf_counter()
    data = lgb_dp.Dataset(X, y, bounds=(-4, 4), max_bin=255)
    trainer = lgb_dp.NewtonBoost(1.0, 1e-7)
    lightgbm.train({**PARAMS, "num_threads": n_threads}, data, n_rounds, callbacks=[trainer, rounds])
    return {"seconds": time.perf_counter() - start, "per_round": rounds.per_round}


def on_cluster(client: Client, X: Any, y: Any, n_rounds: int) -> dict[str, float]:
    rounds, start = Rounds(), time.perf_counter()
    data = lgb_dp.dask.DaskDataset(X, y, bounds=(-4, 4), max_bin=255)
    trainer = lgb_dp.NewtonBoost(1.0, 1e-7)
    lgb_dp.dask.train(client, PARAMS, data, n_rounds, callbacks=[trainer, rounds])
    return {"seconds": time.perf_counter() - start, "per_round": rounds.per_round}


def stock(client: Client, X: Any, y: Any, n_rounds: int) -> dict[str, float]:
    """`lightgbm.dask` on the same rows."""
    params = {"n_estimators": n_rounds, "num_leaves": 32, "max_bin": 255, "verbose": -1}
    start = time.perf_counter()
    lightgbm.DaskLGBMClassifier(client=client, **params).fit(X, y)
    return {"seconds": time.perf_counter() - start}


def memory_of_workers(client: Client) -> int:
    """Bytes resident, of all workers together."""

    def resident() -> int:
        import psutil

        return psutil.Process().memory_info().rss

    return sum(client.run(resident).values())


def measured(n_workers: int, n_rows: int, n_rounds: int, n_repeats: int, with_stock: bool) -> dict[str, Any]:
    X, y = made_rows(n_rows)
    cluster = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
    )
    with cluster, Client(cluster) as client:
        chunk = -(-n_rows // (4 * n_workers))
        rows = client.persist(
            [da.from_array(X, chunks=(chunk, N_COLUMNS)), da.from_array(y, chunks=(chunk,))]
        )
        on_cluster(client, *rows, 5)  # compiles
        before = memory_of_workers(client)
        peaks: list[int] = []
        pairs = []
        for _ in range(n_repeats):
            one = in_one_process(X, y, n_rounds, n_workers)
            many = on_cluster(client, *rows, n_rounds)
            peaks.append(memory_of_workers(client))
            pairs.append((one, many))
        result = {
            "workers": n_workers,
            "rows": n_rows,
            "rounds": n_rounds,
            "one process, ms per round": 1e3 * statistics.median(one["per_round"] for one, _ in pairs),
            "cluster, ms per round": 1e3 * statistics.median(many["per_round"] for _, many in pairs),
            "one process, s": statistics.median(one["seconds"] for one, _ in pairs),
            "cluster, s": statistics.median(many["seconds"] for _, many in pairs),
            "ratio of seconds": statistics.median(many["seconds"] / one["seconds"] for one, many in pairs),
            "ratio of rounds": statistics.median(many["per_round"] / one["per_round"] for one, many in pairs),
            "bytes of workers before": before,
            "bytes of workers after": max(peaks),
        }
        if with_stock:
            result["lightgbm.dask, s"] = stock(client, *rows, n_rounds)["seconds"]
    return result


def cost_model(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Least squares of relative errors; see the module's docstring."""
    features = np.array([[1.0, r["workers"], r["rows"] / r["workers"]] for r in results])
    seconds = np.array([r["cluster, ms per round"] / 1e3 for r in results])
    weights = 1 / seconds
    found = np.linalg.lstsq(features * weights[:, None], seconds * weights, rcond=None)[0]
    call, worker, row = np.maximum(found, 0).tolist()
    return {"call": call, "worker": worker, "row": row}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-stock", action="store_true", help="leave lightgbm.dask out")
    parser.add_argument("--json", type=Path, default=Path("dask_scale.json"))
    options = parser.parse_args()
    results = []
    for n_rows in options.sizes:
        for n_workers in options.workers:
            row = measured(n_workers, n_rows, options.rounds, options.repeats, not options.no_stock)
            results.append(row)
            print(json.dumps(row), flush=True)
    model = cost_model(results)
    large = model["call"] + model["worker"] * 50 + model["row"] * 10**9 / (50 * 16)
    print("| workers | rows | one process, ms per round | cluster, ms per round | ratio of seconds |")
    print("|---|---|---|---|---|")
    for row in results:
        one, many = row["one process, ms per round"], row["cluster, ms per round"]
        print(
            f"| {row['workers']} | {row['rows']} | {one:.2f} | {many:.2f} | {row['ratio of seconds']:.2f} |"
        )
    print(
        f"cost model: {model}; 10^9 rows × 100 columns on 50 workers of 16 threads: {large:.3f} s per round"
    )
    options.json.write_text(
        json.dumps({"machine": report.machine(1), "results": results, "cost model": model}, indent=2)
    )


if __name__ == "__main__":
    main()
