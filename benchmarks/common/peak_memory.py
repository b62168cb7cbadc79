"""Time per tree and peak memory of one training run in processes of its own; `growth` compares sizes.

Everything counts: the libraries, the compiled kernels, the input, the binned matrix, the scores.  A run of
several parties has one process for each, which reads its rows from a file.  A side's peak comes with the
number of its own rows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

N_TREES = 50
N_PARTIES = 3
"""Of exact training."""
VERTICAL = {"objective": "binary:logistic", "max_depth": 5, "max_bin": 32, "base_score": 0.5}
EXACT = {"objective": "binary:logistic", "max_depth": 6, "max_bin": 32}


def resident() -> int:
    """Bytes resident now, or at the most so far where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else peak()


def peak() -> int:
    """Bytes resident at the most.

    Linux's getrusage passes the parent's peak on to the program a child starts, so its own is read first.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    own = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
    unit = 1 if sys.platform == "darwin" else 1024
    return own[0] if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Marks:
    """The clock, and the processor time of this process and of servers, each time that it is asked for."""

    def __init__(self, servers: Sequence[Any] = ()) -> None:
        self._servers = servers
        self._marks: list[tuple[float, float]] = []

    def add(self) -> None:
        """Note both now."""
        cpu = time.process_time() + sum(server.cpu_seconds() for server in self._servers)
        self._marks.append((time.perf_counter(), cpu))

    def per_tree(self) -> dict[str, float]:
        """Seconds of a tree: between marks that were made after each, the first of which loads code."""
        seconds, cpu = np.diff(self._marks, axis=0).T
        return {"seconds_per_tree": float(np.median(seconds)), "cpu_seconds_per_tree": float(cpu.mean())}

    def per_further_tree(self, n_trees: int) -> dict[str, float]:
        """The same of the last three marks: before and after a run of one tree, and after `n_trees`."""
        one, many = np.diff(self._marks[-3:], axis=0)
        seconds, cpu = ((many - one) / (n_trees - 1)).tolist()
        return {"seconds_per_tree": seconds, "cpu_seconds_per_tree": cpu}


def apart(make: Callable[..., None], *args: Any) -> None:
    """Call a function in a process of its own, whose memory is not this one's."""
    import multiprocessing

    process = multiprocessing.get_context("spawn").Process(target=make, args=args)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{make.__name__} ended with {process.exitcode}")


def write_rows(path: Path, n_rows: int, n_features: int, seed: int, label: str | None = None) -> None:
    """Write rows of normal float32 columns, in groups of a million; labels follow the first two columns."""
    import pyarrow
    import pyarrow.parquet

    random = np.random.default_rng(seed)
    names = [f"x{k}" for k in range(n_features)]
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in names])
    schema = schema if label is None else schema.append(pyarrow.field(label, pyarrow.int8()))
    with pyarrow.parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for first in range(0, n_rows, 1_000_000):
            X = random.standard_normal((n_features, min(1_000_000, n_rows - first)), dtype=np.float32)
            columns: dict[str, Any] = dict(zip(names, X, strict=True))
            if label is not None:
                columns[label] = (X[0] + X[1] + random.standard_normal(X.shape[1]) > 0).astype(np.int8)
            file.write_table(pyarrow.table(columns, schema=schema))


def private(kind: str, n_rows: int, n_features: int, n_trees: int) -> dict[str, Any]:
    """Bin and train on rows in memory, with libraries loaded only now."""
    random = np.random.default_rng(0)
    X = random.random((n_rows, n_features), dtype=np.float32)
    y = (X[:, 0] > 0.5).astype(np.float64)
    before = resident()
    import lightgbm

    marks = Marks()
    callbacks: list[Any] = [lambda env: marks.add()]
    params = {"objective": "binary", "max_depth": 6, "num_leaves": 64, "num_threads": 2, "verbosity": -1}
    if kind == "stock":
        dataset = lightgbm.Dataset(X, y, params={"max_bin": 32, "num_threads": 2, "verbosity": -1})
    else:
        import lgb_dp

        dataset = lgb_dp.Dataset(X, y, bounds=(0, 1))
        trainers = {
            "newton": lambda: lgb_dp.NewtonBoost(1.0, 1e-7),
            "private": lambda: lgb_dp.DPBoost(1.0),
            "sequential": lambda: lgb_dp.SequentialBoost(1.0),
        }
        callbacks.insert(0, trainers[kind]())
    lightgbm.train(params, dataset, n_trees, callbacks=callbacks)
    over = {"input": X.nbytes + y.nbytes, "over_input": peak() - before}
    return {**over, **marks.per_tree(), "peaks": {"trainer": (n_rows, peak())}}


def certificates(folder: Path, names: Sequence[str]) -> list[str]:
    """Certificates of some organisations in `folder`, and the fingerprints that others name them by."""
    from gbdt_parties.identity.certificates import make_authority, make_certificate

    make_authority(folder / "ca")
    made = [make_certificate(folder / name, folder / "ca", name) for name in names]
    return [f"sha256:{one.fingerprint}" for one in made]


def vertical(folder: Path, n_rows: int, n_features: int, n_trees: int) -> dict[str, Any]:
    """Okamoto-Uchiyama between this process, which has labels and half of the columns, and a server."""
    own = n_features - n_features // 2
    apart(write_rows, folder / "active.parquet", n_rows, own, 0, "y")
    apart(write_rows, folder / "passive.parquet", n_rows, n_features // 2, 1)
    from xgboost.callback import TrainingCallback

    import xgb_fed
    from benchmarks.vertical.bank_process import Bank
    from veilboost.plans.tables import read_table

    certificates(folder, ["acme", "bank"])
    table = read_table(folder / "active.parquet", label="y")
    bank = Bank(folder, folder / "passive.parquet")
    marks = Marks([bank])

    class Watch(TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            marks.add()
            return False

    try:
        xgb_fed.train(
            VERTICAL,
            xgb_fed.ActiveData(table.columns, table.label),
            [bank.party],
            n_trees,
            cipher=xgb_fed.OkamotoUchiyama(2048),
            verbose_eval=False,
            callbacks=[Watch()],
        )
        peaks = {"active": (n_rows, peak()), "passive": (n_rows, int(bank.peak() * 2**20))}
    finally:
        bank.close()
    return {**marks.per_tree(), "peaks": peaks}


def exact(folder: Path, n_rows: int, n_features: int, n_trees: int) -> dict[str, Any]:
    """Exact secure sums of three servers, and this process as the coordinator."""
    import xgb_fed
    from benchmarks.vertical.bank_process import Server

    names = [f"party{place}" for place in range(N_PARTIES)]
    prints = dict(zip([*names, "acme"], certificates(folder, [*names, "acme"]), strict=True))
    with ExitStack() as stack:
        servers = []
        for seed, name in enumerate(names):
            file = folder / f"{name}.parquet"
            apart(write_rows, file, len(range(seed, n_rows, N_PARTIES)), n_features, seed, "y")
            others = [part for other in names if other != name for part in ("--party", prints[other])]
            terms = ["--label", "y", "--categorical-labels", *others]
            servers.append(Server(folder, "exact", name, file, *terms))
            stack.callback(servers[-1].close)
        marks = Marks(servers)
        # A coordinator without rows does not see the ends of rounds; the first run loads code.
        for n_rounds in (1, 1, n_trees):
            xgb_fed.train_exact(EXACT, [server.party for server in servers], n_rounds, verbose_eval=False)
            marks.add()
        largest = max(int(server.peak() * 2**20) for server in servers)
        peaks = {"coordinator": (n_rows, peak()), "party": (-(-n_rows // N_PARTIES), largest)}
    return {**marks.per_further_tree(n_trees), "peaks": peaks}


FEDERATED = {"vertical": vertical, "exact": exact}
KINDS = ("private", "sequential", "stock", "newton", *FEDERATED)


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("rows", type=int)
    parser.add_argument("features", type=int)
    parser.add_argument("--trees", type=int, default=N_TREES)
    options = parser.parse_args()
    if options.trees < 2:
        parser.error("--trees must be at least 2: the first tree loads code")
    shape = options.rows, options.features, options.trees
    if options.kind not in FEDERATED:
        print(json.dumps(private(options.kind, *shape)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(FEDERATED[options.kind](Path(folder), *shape)))


if __name__ == "__main__":
    main()
