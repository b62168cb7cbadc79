"""NewtonBoost on a Dask cluster of this machine beside one process with as many threads, and `lightgbm.dask`.

One process and the cluster train at the same time and take turns after every few rounds, so that both meet
the same load of the machine; a ratio is the median over pairs of turns.  Loading is timed apart, and kernels
are compiled before.  Per size and number of workers, the tables say

- milliseconds per round, the tenth percentile over the turns,
- bytes that travel to and from one worker per round, as Dask serialises them,
- bytes per row by which the resident memory of the workers, which hold the data, grows while training, in the
  last round and at most, and
- the time and memory of `lightgbm.dask` on the same collections: its rounds by the difference between a short
  and a long fit.

A cost model is fitted to the measured rounds: seconds per round =
``call + worker * workers + row * rows / processors``.  Columns cost nothing: few are read.  The table shows
what it says of each measured case, and the last line what it says of 10^9 rows on 50 workers.

    python benchmarks/private/dask_scale.py
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask.array as da
import lightgbm
import numpy as np
import psutil
from distributed import Client, LocalCluster
from distributed.protocol import dumps
from scipy.optimize import nnls

import lgb_dp
import lgb_dp.dask
from gbdt_hosts.dask import DirectConnection

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common import report

N_COLUMNS = 30
SIZES = (1_000, 100_000, 1_000_000)
PARAMS = {"objective": "binary", "verbosity": -1, "max_depth": 5}
ROUNDS_PER_TURN = 10
FIRST_ROUND = 5
"""Rounds before the first turn: they load kernels and bring new memory in."""
STOCK_ROUNDS = (20, 120)


class Turns:
    """Lets several training runs of this process go on by turns.

    Parameters
    ----------
    n_runs : int
    """

    def __init__(self, n_runs: int) -> None:
        self._condition = threading.Condition()
        self._waiting = list(range(n_runs))

    def end(self, run: int) -> None:
        """Let the next run go on, and wait for another turn."""
        with self._condition:
            self._waiting.remove(run)
            self._waiting.append(run)
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._waiting[0] == run)

    def leave(self, run: int) -> None:
        """Take no more turns."""
        with self._condition:
            self._waiting.remove(run)
            self._condition.notify_all()


@dataclass(eq=False)
class TurnTaking:
    """A callback that trains by turns, and notes the seconds of a round in each."""

    turns: Turns
    run: int
    seconds: list[float] = field(default_factory=list)
    before_iteration: bool = True
    _start: float = 0.0

    def __call__(self, env: Any) -> None:
        number = env.iteration - FIRST_ROUND
        if number < 0 or number % ROUNDS_PER_TURN:
            return
        if number:
            self.seconds.append((time.perf_counter() - self._start) / ROUNDS_PER_TURN)
        self.turns.end(self.run)
        self._start = time.perf_counter()


def by_turns(runs: Sequence[Callable[[TurnTaking], None]]) -> list[list[float]]:
    """Seconds per round of training runs that take turns, turn by turn."""
    turns = Turns(len(runs))
    callbacks = [TurnTaking(turns, i) for i in range(len(runs))]

    def train(i: int) -> None:
        try:
            runs[i](callbacks[i])
        finally:
            turns.leave(i)

    threads = [threading.Thread(target=train, args=(i,)) for i in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [callback.seconds for callback in callbacks]


class Traffic:
    """Counts the bytes of questions to workers and of their answers while it is entered."""

    def __enter__(self) -> Traffic:
        self.n_bytes = self.n_questions = 0
        ask = self._ask = DirectConnection.ask

        async def counted(connection: DirectConnection, message: Any) -> Any:
            answer = await ask(connection, message)
            self.n_bytes += sum(len(frame) for part in (dict(message), answer) for frame in dumps(part))
            self.n_questions += 1
            return answer

        DirectConnection.ask = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        DirectConnection.ask = self._ask  # type: ignore[method-assign]


class ResidentMemory:
    """Resident memory of some processes together while it is entered, in bytes above that before.

    It is also a callback that notes how much is held at the last round.
    """

    before_iteration = True

    def __init__(self, pids: Sequence[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self.held = self.peak = 0

    def _above_before(self) -> int:
        return sum(process.memory_info().rss for process in self._processes) - self._before

    def __enter__(self) -> ResidentMemory:
        self._before = 0
        self._before = self._above_before()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._end.wait(0.02):
            self.peak = max(self.peak, self._above_before())

    def __call__(self, env: Any) -> None:
        if env.iteration == env.end_iteration - 1:
            self.held = self._above_before()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def made_rows(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, N_COLUMNS))
    return X, (X[:, 0] + rng.normal(size=n_rows) > 0).astype(float)


def in_one_process(X: Any, y: Any, n_rounds: int, n_threads: int, *callbacks: Any) -> None:
    data = lgb_dp.Dataset(X, y, bounds=(-4, 4), max_bin=255)
    params = {**PARAMS, "num_threads": n_threads}
    lightgbm.train(params, data, n_rounds, callbacks=[lgb_dp.NewtonBoost(1.0, 1e-7), *callbacks])


def on_cluster(client: Client, X: Any, y: Any, n_rounds: int, *callbacks: Any) -> None:
    data = lgb_dp.dask.DaskDataset(X, y, bounds=(-4, 4), max_bin=255)
    trainer = lgb_dp.NewtonBoost(1.0, 1e-7)
    lgb_dp.dask.train(client, PARAMS, data, n_rounds, callbacks=[trainer, *callbacks])


def seconds_of(function: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def stock(client: Client, X: Any, y: Any) -> dict[str, float]:
    """`lightgbm.dask` on the same rows."""

    def fit(n_rounds: int) -> None:
        params = {"n_estimators": n_rounds, "num_leaves": 32, "max_depth": 5, "max_bin": 255, "verbose": -1}
        lightgbm.DaskLGBMClassifier(client=client, **params).fit(X, y)

    short, long = STOCK_ROUNDS
    with ResidentMemory(list(client.run(os.getpid).values())) as memory:
        seconds = [seconds_of(fit, n_rounds) for n_rounds in STOCK_ROUNDS]
    return {
        "lightgbm.dask, ms per round": 1e3 * (seconds[1] - seconds[0]) / (long - short),
        "lightgbm.dask, bytes per row": memory.peak / len(X),
    }


def measured(n_workers: int, n_rows: int, n_rounds: int, with_stock: bool) -> dict[str, Any]:
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
        few = [da.from_array(part[:64], chunks=(16, *part.shape[1:])) for part in (X, y)]
        on_cluster(client, *few, 10)  # loads kernels
        with ResidentMemory(list(client.run(os.getpid).values())) as memory, Traffic() as traffic:
            loading = seconds_of(on_cluster, client, *rows, 20, memory)
        one, many = by_turns(
            [
                lambda turns: in_one_process(X, y, n_rounds, n_workers, turns),
                lambda turns: on_cluster(client, *rows, n_rounds, turns),
            ]
        )
        result = {
            "workers": n_workers,
            "rows": n_rows,
            "one process, ms per round": 1e3 * float(np.quantile(one, 0.1)),
            "cluster, ms per round": 1e3 * float(np.quantile(many, 0.1)),
            "ratio": statistics.median(b / a for a, b in zip(one, many, strict=True)),
            "loading and 20 rounds, s": loading,
            "bytes per round and worker": traffic.n_bytes / max(traffic.n_questions, 1),
            "bytes per row": memory.held / n_rows,
            "bytes per row, peak": memory.peak / n_rows,
            "load average": report.load_average(),
        }
        if with_stock:
            result |= stock(client, *rows)
    return result


def predictors(workers: int, rows: int, processors: int) -> list[float]:
    """What the cost model multiplies by its three coefficients."""
    return [1.0, workers, rows / processors]


def cost_model(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Least squares of relative errors, none below 0; see the module's docstring."""
    n_processors = os.cpu_count() or 1
    features = np.array(
        [predictors(r["workers"], r["rows"], min(r["workers"], n_processors)) for r in results]
    )
    seconds = np.array([r["cluster, ms per round"] / 1e3 for r in results])
    found = nnls(features / seconds[:, None], np.ones(len(seconds)))[0]
    for result, predicted in zip(results, features @ found, strict=True):
        result["cost model, ms per round"] = 1e3 * predicted
    call, worker, row = found.tolist()
    return {"call": call, "worker": worker, "row": row}


def print_table(results: Sequence[dict[str, Any]]) -> None:
    columns = {
        "workers": "",
        "rows": ",",
        "one process, ms per round": ".2f",
        "cluster, ms per round": ".2f",
        "ratio": ".2f",
        "cost model, ms per round": ".2f",
        "bytes per round and worker": ",.0f",
        "bytes per row": ".0f",
        "bytes per row, peak": ".0f",
        "lightgbm.dask, ms per round": ".1f",
        "lightgbm.dask, bytes per row": ".0f",
    }
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for result in results:
        cells = [format(result[name], form) if name in result else "" for name, form in columns.items()]
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--no-stock", action="store_true", help="leave lightgbm.dask out")
    parser.add_argument("--json", type=Path, default=Path("dask_scale.json"))
    options = parser.parse_args()
    results = []
    for n_rows in options.sizes:
        for n_workers in options.workers:
            results.append(measured(n_workers, n_rows, options.rounds, not options.no_stock))
            print(json.dumps(results[-1]), flush=True)
    model = cost_model(results)
    print_table(results)
    large = float(np.dot(predictors(50, 10**9, 50 * 16), list(model.values())))
    print(f"cost model: {model}; 10^9 rows on 50 workers of 16 threads: {1e3 * large:.0f} ms per round")
    options.json.write_text(
        json.dumps({"machine": report.machine(1), "results": results, "cost model": model}, indent=2)
    )


if __name__ == "__main__":
    main()
