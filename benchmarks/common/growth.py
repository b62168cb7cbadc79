"""How time per tree and peak memory of each side grow with the rows.

    python benchmarks/common/growth.py [--kinds vertical exact newton private] [--rows 100000 300000]
                                       [--json out/growth.json] [--plot out/growth.png]

- *vertical*: Okamoto-Uchiyama of 2048 bits, half of the columns at each of two parties, depth 5, 32 bins;
- *exact*: secure sums of three parties with rows of their own, depth 6, 32 bins;
- *newton*, *private*, *sequential* and *stock*: NewtonBoost, DPBoost, SequentialBoost, LightGBM; depth 6.

Each run is one of `peak_memory`, in processes of its own.  *Bytes per row* are those by which a side's peak
grows for each of its own rows from the next smaller size on.  Results in the JSON file are not measured
again, so that sizes can be added.  10^7 rows take 3 GB in one trainer, and 5 GB in all parties of exact
training; 10^6 take 1 GB at either party of vertical training.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.peak_memory import FEDERATED, N_TREES
from benchmarks.common.report import (
    load_average,
    machine,
    print_table,
    save_panels,
    say,
    write_csv,
    write_json,
)

NAMES = {
    "vertical": "vertical",
    "exact": "exact",
    "newton": "NewtonBoost",
    "private": "DPBoost",
    "sequential": "SequentialBoost",
    "stock": "LightGBM",
}
N_COLUMNS = {"vertical": 20}
"""Columns of all parties together; 30 by default."""
HEAD = ["training", "rows", "s per tree", "processor s per tree", "side", "peak MB", "bytes per row"]

Run = dict[str, Any]


def measured(kind: str, n_rows: int, n_trees: int) -> Run:
    """One training run."""
    script, n_columns = str(Path(__file__).with_name("peak_memory.py")), N_COLUMNS.get(kind, 30)
    command = [sys.executable, script, kind, str(n_rows), str(n_columns), "--trees", str(n_trees)]
    about = {"kind": kind, "rows": n_rows, "columns": n_columns, "trees": n_trees, "load": load_average()}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return about | json.loads(done.stdout)


def bytes_per_row(runs: Sequence[Run], run: Run, side: str) -> float | None:
    """By how much a side's peak grows for each of its rows, from the next smaller size on."""
    smaller = [one for one in runs if one["kind"] == run["kind"] and one["rows"] < run["rows"]]
    if not smaller:
        return None
    before, now = max(smaller, key=lambda one: one["rows"])["peaks"][side], run["peaks"][side]
    return (now[1] - before[1]) / (now[0] - before[0])


def table(runs: Sequence[Run]) -> list[list[Any]]:
    """A line for each side of each run."""
    lines = []
    for run in runs:
        seconds = [f"{run['seconds_per_tree']:.3g}", f"{run['cpu_seconds_per_tree']:.3g}"]
        for side, (_, peak) in run["peaks"].items():
            grown = bytes_per_row(runs, run, side)
            about = [NAMES[run["kind"]], f"{run['rows']:,} × {run['columns']}", *seconds, side]
            lines.append([*about, f"{peak / 1e6:,.0f}", "" if grown is None else f"{grown:.0f}"])
    return lines


def plot(runs: Sequence[Run], path: Path) -> None:
    """Seconds per tree and peak memory against rows, all logarithmic."""
    seconds: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    for kind in dict.fromkeys(run["kind"] for run in runs):
        own = [run for run in runs if run["kind"] == kind]
        rows = np.log10([run["rows"] for run in own])
        seconds[NAMES[kind]] = (rows, [run["cpu_seconds_per_tree"] for run in own], None)
        for side in own[0]["peaks"]:
            name = f"{NAMES[kind]}, {side}" if kind in FEDERATED else NAMES[kind]
            memory[name] = (rows, [run["peaks"][side][1] / 1e6 for run in own], None)
    labels = {"time per tree": "processor seconds (log)", "peak memory": "MB (log)"}
    save_panels(path, {"time per tree": seconds, "peak memory": memory}, "log10 of rows", labels)


def main() -> None:
    """Measure what is missing, and print and write everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = ("vertical", "exact", "newton", "private")
    parser.add_argument("--kinds", nargs="+", choices=NAMES, default=kinds)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--trees", type=int, help="50 by default, 3 of several parties")
    parser.add_argument("--json", type=Path, default=Path("out/growth.json"))
    parser.add_argument("--plot", type=Path, default=Path("out/growth.png"))
    options = parser.parse_args()
    runs: list[Run] = json.loads(options.json.read_text())["runs"] if options.json.exists() else []
    for kind in options.kinds:
        for n_rows in options.rows:
            if not any((run["kind"], run["rows"]) == (kind, n_rows) for run in runs):
                n_trees = options.trees or (3 if kind in FEDERATED else N_TREES)
                runs.append(measured(kind, n_rows, n_trees))
                runs.sort(key=lambda run: (list(NAMES).index(run["kind"]), run["rows"]))
                say(json.dumps(runs[-1]))
                write_json(options.json, {"machine": machine(2), "runs": runs})
    lines = table(runs)
    print_table("growth with the rows", HEAD, lines)
    write_csv(options.json.with_suffix(".csv"), HEAD, lines)
    plot(runs, options.plot)


if __name__ == "__main__":
    main()
