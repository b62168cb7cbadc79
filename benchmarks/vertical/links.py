"""Vertical training over slow links, beside figures that SecretFlow published for its SecureBoost (SGB).

The sizes of data, the tree's depth, the number of bins and the cipher are those of SecretFlow's comparison
(docs/developer/benchmark/sgb_benchmark.md in its repository), which ran on two machines with eight cores
each, with the bandwidth and the latency set in each direction.  It stopped early: the figures are for at most
100 trees.  Data are generated here, both parties are processes of this machine, and the links are those of
`slow_link`.

A few trees are measured, and 100 trees are extrapolated: the time up to the end of the first tree, and 99
times the median of the others.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from xgboost.callback import TrainingCallback

import xgb_fed
from benchmarks.common.report import load_average, machine, print_table, say, write_json
from benchmarks.common.slow_link import SlowLink
from benchmarks.vertical.bank_process import Bank, Made, write_csv
from gbdt_kernels.residues import arithmetic_path

PARAMS = {
    "objective": "binary:logistic",
    "max_depth": 5,
    "max_bin": 10,
    "learning_rate": 0.3,
    "reg_lambda": 0.1,
    "base_score": 0.5,
    "random_state": 0,
}
N_TREES = 100
SAMPLINGS: dict[str, dict[str, Any]] = {"all rows": {}, "GOSS (0.2, 0.1)": {"goss": (0.2, 0.1)}}


@dataclass(frozen=True)
class Link:
    """A link: each direction's bandwidth in 10^6 bits per second, and its latency in milliseconds."""

    name: str
    mbit: float = math.inf
    one_way_ms: float = 0.0


LINKS = (
    Link("LAN"),
    Link("100 Mbit/s, 10 ms", 100, 10),
    Link("50 Mbit/s, 20 ms", 50, 20),
    Link("10 Mbit/s, 50 ms", 10, 50),
)
PUBLISHED = {(45_000, 17): (136, 195, 246, 602), (285_000, 30): (106, 183, 257, 851)}
"""SecretFlow's seconds on these links, by rows and columns."""


@dataclass(frozen=True)
class Measured:
    """What was measured for one data set, sampling and link."""

    n_rows: int
    n_columns: int
    sampling: str
    link: str
    cpu_seconds_per_tree: float
    """Processor time of both processes."""
    finished: list[float]
    """Seconds at the end of each tree."""
    seconds_per_tree: float
    bytes_per_tree: float
    seconds: float
    """For `N_TREES` trees, extrapolated."""
    transfer_seconds: float
    """Bytes over bandwidth, for as many trees."""
    published: int
    load_average: float


class Stopwatch(TrainingCallback):
    """Notes when each tree is finished."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.finished: list[float] = []

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Called by the training loop."""
        self.finished.append(time.perf_counter() - self._start)
        return False


def measure_links(folder: Path, n_trees: int, json: Path | None) -> None:
    """Measure, print and write all figures."""
    if n_trees < 2:
        raise SystemExit("--trees must be at least 2 with --links")
    about = machine(2) | {"arithmetic": arithmetic_path()}
    say(f"arithmetic path: {about['arithmetic']} (ifma: AVX-512 IFMA)")
    results = [one for shape in PUBLISHED for one in _measure(folder, *shape, n_trees)]
    _print(results)
    if json is not None:
        write_json(json, {"machine": about, "params": PARAMS, "results": [asdict(one) for one in results]})


def _measure(folder: Path, n_rows: int, n_columns: int, n_trees: int) -> list[Measured]:
    """All samplings and links for one data set; half of the columns are the passive party's."""
    X, y = make_classification(n_rows, n_columns, n_informative=min(15, n_columns // 2), random_state=1)
    X = X.astype(np.float32)
    own = n_columns - n_columns // 2
    data = xgb_fed.ActiveData(X[:, :own], y)
    key = Made(xgb_fed.OkamotoUchiyama(2048))
    bank = Bank(folder, write_csv(folder / f"{n_rows}.parquet", X[:, own:]))
    results: list[Measured] = []
    try:
        for sampling, params in SAMPLINGS.items():
            # Compiled code is loaded before anything is timed.
            _train(bank.party, data, key, params, 1)
            for place, link in enumerate(LINKS):
                relay = None if math.isinf(link.mbit) else SlowLink(bank.port, link.mbit, link.one_way_ms)
                party = bank.party if relay is None else bank.connected(relay.port)
                load, cpu = load_average(), time.process_time() + bank.cpu_seconds()
                try:
                    times, n_bytes = _train(party, data, key, params, n_trees)
                finally:
                    if relay is not None:
                        party.close()
                        relay.close()
                cpu = time.process_time() + bank.cpu_seconds() - cpu
                per_tree = float(np.median(np.diff(times)))
                one = Measured(
                    n_rows,
                    n_columns,
                    sampling,
                    link.name,
                    cpu / n_trees,
                    times,
                    per_tree,
                    n_bytes / n_trees,
                    times[0] + (N_TREES - 1) * per_tree,
                    N_TREES * n_bytes / n_trees * 8 / (link.mbit * 1e6),
                    PUBLISHED[n_rows, n_columns][place],
                    load,
                )
                results.append(one)
                say(f"{n_rows} rows, {sampling}, {link.name}: {per_tree:.2f} s per tree")
    finally:
        bank.close()
    return results


def _train(
    party: xgb_fed.RemoteParty, data: xgb_fed.ActiveData, key: Made, params: dict[str, Any], n_trees: int
) -> tuple[list[float], float]:
    """Seconds at the end of each tree, and the bytes of all messages."""
    watch = Stopwatch()
    model = xgb_fed.train(
        PARAMS | params, data, [party], n_trees, cipher=key, verbose_eval=False, callbacks=[watch]
    )
    return watch.finished, sum(flow.bytes for flow in model.traffic.flows.values())


def _print(results: list[Measured]) -> None:
    rows = []
    for one in results:
        lan = next(r for r in results if (r.n_rows, r.sampling) == (one.n_rows, one.sampling))
        least = one.transfer_seconds + lan.seconds
        rows.append(
            [
                f"{one.n_rows} x {one.n_columns}, {one.sampling}, {one.link}",
                one.seconds_per_tree,
                one.cpu_seconds_per_tree,
                one.bytes_per_tree / 1e6,
                one.seconds,
                one.transfer_seconds,
                one.seconds / least,
                one.published,
                one.seconds / one.published,
            ]
        )
    head = ["", "s per tree", "CPU s per tree", "MB per tree", "s for 100", "bytes over bandwidth s"]
    head += ["over bytes and LAN", "SecretFlow s", "ratio"]
    title = f"{N_TREES} trees, extrapolated from {len(results[0].finished)}"
    print_table(f"{title} (SecretFlow: at most {N_TREES} trees, two machines)", head, rows)
