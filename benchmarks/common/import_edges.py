"""Which modules call which while one tree is grown: the calls between modules, and between folders.

    python benchmarks/common/import_edges.py [--rows 300] [--json out/import_edges.json]

Every Python call is traced, in every thread.  A call counts for the nearest caller of this repository, so
that calls by way of the standard library or a host library count too; what a module calls in itself does
not.  Kernels are machine code and are not seen, the functions that call them are.
"""

from __future__ import annotations

import argparse
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import lightgbm
import numpy as np

import lgb_dp
import xgb_fed

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import print_table, say, write_json

PACKAGES = ("lgb_dp", "xgb_fed", "veilboost", "gbdt_parties", "gbdt_kernels", "gbdt_commons", "gbdt_hosts")
TARGETS = {"vertical tree": 15, "NewtonBoost's first tree": 18, "exact round": 12}
"""Distinct calls between folders that each tree may take."""

Edges = Counter[tuple[str, str]]


def is_ours(module: str) -> bool:
    """Whether a module belongs to this repository's packages."""
    return module.partition(".")[0] in PACKAGES


def module_of(frame: FrameType) -> str:
    """Name of the module whose code a frame runs."""
    return str(frame.f_globals.get("__name__", ""))


@contextmanager
def tracing(whole: Edges, tree: Edges, entry: str) -> Iterator[None]:
    """Count the calls from one module to another made meanwhile, and those of the tree alone.

    Parameters
    ----------
    whole, tree : Counter
        Added to.
    entry : str
        Name of the method that grows the tree, or adds up a sum of it; `tree` counts its calls and what is
        called, in any thread, until it returns.
    """
    growing: list[FrameType] = []

    def on_event(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "return" and frame in growing:
            growing.remove(frame)
        if event != "call" or not is_ours(callee := module_of(frame)):
            return
        if frame.f_code.co_name == entry and not growing:
            growing.append(frame)
        caller = frame.f_back
        while caller is not None and not is_ours(module_of(caller)):
            caller = caller.f_back
        if caller is not None and module_of(caller) != callee:
            whole[module_of(caller), callee] += 1
            if growing:
                tree[module_of(caller), callee] += 1

    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def folder_of(module: str) -> str:
    """The folder that a module is in; a package is the folder of the modules beside its folders."""
    loaded = sys.modules.get(module)
    return str(getattr(loaded, "__package__", None) or module.rpartition(".")[0])


def between_folders(edges: Edges) -> Edges:
    """Calls from one folder to another."""
    found: Edges = Counter()
    for (caller, callee), count in edges.items():
        if folder_of(caller) != folder_of(callee):
            found[folder_of(caller), folder_of(callee)] += count
    return found


def data(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.random((n_rows, 6)).astype(np.float32)
    return X, (X[:, 0] + X[:, 3] > 1).astype(np.float64)


def vertical_tree(n_rows: int, whole: Edges, tree: Edges) -> None:
    """One tree of two parties in one process, encrypted."""
    X, y = data(n_rows)
    party, active = xgb_fed.LocalParty(X[:, 3:]), xgb_fed.ActiveData(X[:, :3], y)
    params = {"objective": "binary:logistic", "max_depth": 3}
    with tracing(whole, tree, "grow"):
        xgb_fed.train(params, active, [party], 1, cipher=xgb_fed.OkamotoUchiyama(), verbose_eval=False)


def newton_tree(n_rows: int, whole: Edges, tree: Edges) -> None:
    """The first tree of NewtonBoost inside `lightgbm.train`."""
    X, y = data(n_rows)
    train = lgb_dp.Dataset(X, label=y, bounds=(np.zeros(6), np.ones(6)))
    params = {"objective": "binary", "max_depth": 3, "verbosity": -1}
    with tracing(whole, tree, "update"):
        lightgbm.train(params, train, 1, callbacks=[lgb_dp.NewtonBoost(epsilon=1.0, delta=1e-5)])


def exact_round(n_rows: int, whole: Edges, tree: Edges) -> None:
    """The sums of one round of exact training of two parties in one process, and that of their sizes."""
    X, y = data(n_rows)
    half = n_rows // 2
    params = {"objective": "binary:logistic", "max_depth": 3, "base_score": 0.5}
    cuts = [[0.25, 0.5, 0.75]] * X.shape[1]
    with tracing(whole, tree, "_round"):
        xgb_fed.train_exact(params, [(X[:half], y[:half]), (X[half:], y[half:])], 1, cuts=cuts)


TREES: dict[str, Callable[[int, Edges, Edges], None]] = {
    "vertical tree": vertical_tree,
    "NewtonBoost's first tree": newton_tree,
    "exact round": exact_round,
}


def table(edges: Edges) -> list[dict[str, Any]]:
    """Edges in alphabetical order."""
    return [{"from": a, "to": b, "calls": count} for (a, b), count in sorted(edges.items())]


def report(name: str, edges: Edges) -> dict[str, Any]:
    """Print the calls of one tree; return them for the JSON file."""
    folders = between_folders(edges)
    for title, found in ((f"{name}: between folders", folders), (f"{name}: between modules", edges)):
        print_table(title, ["from", "to", "calls"], [[a, b, str(n)] for (a, b), n in sorted(found.items())])
    return {
        "modules": len({module for pair in edges for module in pair}),
        "between_folders": table(folders),
        "between_modules": table(edges),
    }


def summary(result: dict[str, Any]) -> str:
    """The three figures of one trace."""
    return (
        f"{result['modules']} modules, {len(result['between_modules'])} edges between modules, "
        f"{len(result['between_folders'])} between folders"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--json", type=Path, default=Path("out/import_edges.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for name, grow in TREES.items():
        grow(arguments.rows, Counter(), Counter())  # compiles the kernels
        whole: Edges = Counter()
        tree: Edges = Counter()
        grow(arguments.rows, whole, tree)
        results[name] = {"whole": report(f"{name}, whole call", whole), "tree": report(name, tree)}
    for name, result in results.items():
        say(f"\n{name}: {summary(result['tree'])} (target: at most {TARGETS[name]})")
        say(f"{name}, with what comes before and after it: {summary(result['whole'])}")
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
