"""What more data and more ε are worth: AUC, log-loss, time, file and memory of private learners and stock.

Two questions are asked, with everything automatic and the same public knowledge for all:

- *scale*: generated rows of a known function, 10^3 to 10^7 of them, for each ε and learner;
- *ladder*: four data sets from ε = 0.1 to no noise at all, which must never make a model worse.

``python benchmarks/private/private_scale.py --quick`` takes few minutes.  The ladder needs the files that
`VEILBOOST_DATA` names.  Prediction is the first call, with all test rows: NewtonBoost's by our own kernel,
which reads the trees first, and LightGBM's by LightGBM.  Every fit is one JSON line in ``--results``, so that
a run can be stopped and taken up again; ``--tables`` names a folder for the tables, and plots are drawn
beside the results if matplotlib is there.  A peer whose environment cannot be made is left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.data import load
from benchmarks.common.files import path_of
from benchmarks.common.report import (
    load_average,
    machine,
    print_table,
    save_panels,
    say,
    write_csv,
    write_json,
)
from benchmarks.private import peer_data, private_peers, scale_workers

ROOT = Path(__file__).parents[2]
OURS, STOCK = "NewtonBoost", "LightGBM"
ROWS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
EPSILONS = (0.1, 1.0, 10.0, math.inf)
LADDER_EPSILONS = (0.1, 0.5, 1.0, 4.0, 10.0, 100.0, 1e4, math.inf)
LADDER = {"covtype": 1e-7, "adult": 1e-5, "codrna": 1e-5, "give_credit": 1e-5}
"""Data sets of the ladder, and their δ."""

GENERATED_DELTA = 1e-7
TABLE_FILES = {
    "NewtonBoost's test AUC by ε": "private-scale-ladder.csv",
    "Every fit, means over the seeds": "private-scale-fits.csv",
}
"""Files of the tables, by title."""
FALL = 0.001
"""By which the mean AUC may fall from one ε to the next."""

MAX_PEER_ROWS = 1_000_000
QUICK_ROWS, QUICK_EPSILONS, QUICK_LADDER = (1_000, 10_000, 100_000), (1.0, math.inf), ("adult", "codrna")

Row = Mapping[str, Any]


def ladder_split(name: str) -> peer_data.Split:
    """Training and test rows; of covtype, class 2 against the rest."""
    if name != "covtype":
        return peer_data.split(name)
    problem = load("covtype")
    order = np.random.default_rng(0).permutation(len(problem.y))
    train, test = np.split(order, [len(order) * 4 // 5])
    low, high = (np.asarray(side, dtype=float) for side in problem.bounds)
    return peer_data.Split(
        problem.title,
        problem.X[train],
        problem.y[train],
        problem.X[test],
        problem.y[test],
        low,
        high,
        np.zeros(problem.X.shape[1], dtype=np.int64),
        "binary",
        (0.0, 1.0),
    )


def run(
    learner: str, source: str, delta: float, seed: int, epsilons: Iterable[float], timeout: float
) -> list[dict[str, Any]]:
    """Results of one learner on one data set, as far as it gets within the time."""
    python = private_peers.environment(learner)
    if python is None:
        say(f"{learner} is left out: it has no environment")
        return []
    script = str(Path(__file__).with_name("scale_workers.py"))
    command = [str(python), script, learner, source, repr(delta), str(seed), *map(repr, epsilons)]
    settings = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout, env=settings
        )
        output, failure = done.stdout, done.stderr.strip() if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout.decode() if isinstance(expired.stdout, bytes) else expired.stdout or ""
        failure = f"stopped after {timeout:g} s"
    if failure:
        say(f"{learner} on {source}: {failure.splitlines()[-1]}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


class Results:
    """Fits so far, in memory and in a file.

    Parameters
    ----------
    path : Path
        JSON lines; those that are there are not trained again.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[Row] = [json.loads(line) for line in lines]

    def missing(self, job: _Job) -> list[float]:
        """The job's ε that were not trained; one stands for all where ε makes no difference."""
        done = {
            row["epsilon"]
            for row in self.rows
            if (row["data"], row["rows"], row["learner"], row["seed"]) == job.key()
        }
        if job.learner == STOCK:
            return [] if done else [math.inf]
        return [epsilon for epsilon in job.epsilons if epsilon not in done]

    def add(self, rows: Iterable[Row]) -> None:
        """Keep new results."""
        with self._path.open("a") as file:
            for row in rows:
                self.rows.append(row)
                file.write(json.dumps(row) + "\n")


class _Job:
    """A learner, a data set and a seed."""

    def __init__(
        self, learner: str, data: str, rows: int, source: str, delta: float, seed: int, epsilons: list[float]
    ) -> None:
        self.learner, self.data, self.rows, self.source = learner, data, rows, source
        self.delta, self.seed = delta, seed
        # Peers have no training without noise.
        self.epsilons = [e for e in epsilons if learner in (OURS, STOCK) or math.isfinite(e)]

    def key(self) -> tuple[str, int, str, int]:
        return self.data, self.rows, self.learner, self.seed


def jobs(options: argparse.Namespace, folder: Path) -> list[_Job]:
    """Everything that is to be trained, small data sets first."""
    found = []
    for seed in range(options.seeds):
        for n_rows in options.rows:
            for learner in options.learners:
                if learner in (OURS, STOCK) or n_rows <= MAX_PEER_ROWS:
                    source = f"generated:{n_rows}"
                    common = (n_rows, source, GENERATED_DELTA, seed, options.epsilons)
                    found.append(_Job(learner, "generated", *common))
        for name in options.ladder:
            if not _is_there(name):
                if seed == 0:
                    say(f"no ladder on {name}: VEILBOOST_DATA names no folder with it")
                continue
            path = folder / f"{name}.npz"
            split = ladder_split(name)
            if not path.exists():
                split.save(path)
            common = (len(split.y), str(path), LADDER[name], seed, list(options.ladder_epsilons))
            found += [_Job(learner, split.name, *common) for learner in (OURS, STOCK)]
    return found


def _is_there(name: str) -> bool:
    return path_of(f"{'adult_train' if name == 'adult' else name}.csv.gz") is not None


def means(rows: Sequence[Row], key: str) -> dict[tuple[str, int, str, float], float]:
    """Mean over the seeds, by data set, rows, learner and ε."""
    found: dict[tuple[str, int, str, float], list[float]] = defaultdict(list)
    for row in rows:
        found[row["data"], row["rows"], row["learner"], row["epsilon"]].append(row[key])
    return {cell: float(np.mean(values)) for cell, values in found.items()}


def fits_table(rows: Sequence[Row]) -> tuple[str, list[str], list[list[str]]]:
    """One line per data set, learner and ε."""
    scales = {"auc": 1, "log_loss": 1, "seconds": 1, "bytes": 1e-6, "peak_bytes": 2.0**-20}
    per_key = {key: means(rows, key) for key in scales}
    rate = means([{**row, "rate": 1e6 * row["predict_seconds"] / row["test_rows"]} for row in rows], "rate")
    order = list(scale_workers.LEARNERS)
    body = []
    for cell in sorted(rate, key=lambda cell: (cell[0], cell[1], order.index(cell[2]), cell[3])):
        data, n_rows, learner, epsilon = cell
        values = {key: scale * per_key[key][cell] for key, scale in scales.items()}
        body.append(
            [
                data,
                f"{n_rows:,}",
                learner,
                "-" if learner == STOCK else f"{epsilon:g}",
                f"{values['auc']:.4f}",
                f"{values['log_loss']:.4f}",
                f"{values['seconds']:.1f}",
                f"{values['bytes']:.1f}",
                f"{rate[cell]:.1f}",
                f"{values['peak_bytes']:,.0f}",
            ]
        )
    columns = [
        "data",
        "rows",
        "learner",
        "ε",
        "AUC",
        "log-loss",
        "fit s",
        "file MB",
        "µs per row",
        "peak MiB",
    ]
    return "Every fit, means over the seeds", columns, body


def ladder_table(rows: Sequence[Row]) -> tuple[str, list[str], list[list[str]]]:
    """AUC of NewtonBoost along ε, the largest fall, and stock LightGBM."""
    of_sets = [row for row in rows if row["data"] != "generated"]
    auc = means(of_sets, "auc")
    epsilons = sorted({row["epsilon"] for row in of_sets if row["learner"] == OURS})
    body = []
    for data, n_rows in dict.fromkeys((row["data"], row["rows"]) for row in of_sets):
        values = [auc.get((data, n_rows, OURS, epsilon)) for epsilon in epsilons]
        known = [value for value in values if value is not None]
        fall = max([0.0, *(a - b for a, b in itertools.pairwise(known))])
        verdict = f"{fall:.4f}{'' if fall <= FALL else ' (too much)'}"
        stock = auc.get((data, n_rows, STOCK, math.inf))
        cells = [*(None if value is None else f"{value:.4f}" for value in values), verdict]
        body.append([data, *(cell or "-" for cell in cells), "-" if stock is None else f"{stock:.4f}"])
    columns = ["data", *(f"{epsilon:g}" for epsilon in epsilons), "largest fall", "LightGBM"]
    return "NewtonBoost's test AUC by ε", columns, body


def tables(rows: Sequence[Row]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows of every table."""
    return [table for table in (ladder_table(rows), fits_table(rows)) if table[2]]


def plot(rows: Sequence[Row], folder: Path) -> None:
    """AUC against rows for every ε, and what the fits at one ε take."""
    generated = [row for row in rows if row["data"] == "generated"]
    auc = means(generated, "auc")
    sizes = sorted({row["rows"] for row in generated})
    epsilons = sorted({row["epsilon"] for row in generated if row["learner"] == OURS})

    def line(found: Mapping[Any, float], learner: str, epsilon: float) -> Any:
        known = [(np.log10(n), found.get(("generated", n, learner, epsilon))) for n in sizes]
        points = [(x, y) for x, y in known if y is not None]
        return (*zip(*points, strict=True), None) if points else None

    def lines(found: Mapping[Any, float], epsilon: float) -> dict[str, Any]:
        each = {
            name: line(found, name, math.inf if name == STOCK else epsilon) for name in scale_workers.LEARNERS
        }
        return {name: points for name, points in each.items() if points}

    panels = {f"ε = {epsilon:g}": lines(auc, epsilon) for epsilon in epsilons}
    save_panels(folder / "private_scale_auc.png", panels, "log10 of rows", dict.fromkeys(panels, "AUC"))
    shown = {
        "fit": ("seconds", "seconds (log)"),
        "file": ("bytes", "bytes (log)"),
        "prediction": ("predict_seconds", "seconds per 100,000 rows (log)"),
        "memory": ("peak_bytes", "bytes (log)"),
    }
    epsilon = 1.0 if 1.0 in epsilons else next(iter(epsilons), 1.0)
    panels = {title: lines(means(generated, key), epsilon) for title, (key, _) in shown.items()}
    labels = {title: label for title, (_, label) in shown.items()}
    save_panels(folder / "private_scale_cost.png", panels, "log10 of rows", labels)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rows and ε, only peers that are installed")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="*", default=list(ROWS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--ladder", nargs="*", default=list(LADDER), choices=list(LADDER))
    parser.add_argument("--ladder-epsilons", type=float, nargs="+", default=list(LADDER_EPSILONS))
    parser.add_argument("--learners", nargs="+", default=list(scale_workers.LEARNERS))
    parser.add_argument("--minutes", type=float, default=math.inf, help="start nothing after this time")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for a learner on a data set")
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="folder of results and plots")
    parser.add_argument("--tables", type=Path, help="folder to write the tables to")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.epsilons = list(QUICK_ROWS), list(QUICK_EPSILONS)
        options.ladder, options.ladder_epsilons = list(QUICK_LADDER), list(QUICK_EPSILONS)
        options.minutes, options.timeout = min(options.minutes, 2.0), 60.0
        absent = [
            name
            for name in options.learners
            if name in private_peers.REQUIREMENTS and not private_peers.is_installed(name)
        ]
        for name in absent:
            say(f"{name} is left out: its environment is made by a run without --quick")
        options.learners = [name for name in options.learners if name not in absent]
    return options


def main() -> None:
    """Train what is missing, then print, write and plot everything."""
    options = _parsed()
    name = "private_scale_quick.jsonl" if options.quick else "private_scale.jsonl"
    results = Results(options.out / name)
    stop = time.monotonic() + 60 * options.minutes
    say(f"load average at the start: {load_average():.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for job in tqdm(jobs(options, Path(folder)), unit="learner"):
            epsilons = results.missing(job)
            if not epsilons:
                continue
            if time.monotonic() > stop:
                say("out of time; the same command goes on where this one stopped")
                break
            results.add(run(job.learner, job.source, job.delta, job.seed, epsilons, options.timeout))
    for title, columns, body in tables(results.rows):
        print_table(title, columns, body)
        if options.tables:
            write_csv(options.tables / TABLE_FILES[title], columns, body)
    write_json(options.out / f"{Path(name).stem}.json", {"machine": machine(0), "fits": list(results.rows)})
    plot(results.rows, options.out)


if __name__ == "__main__":
    main()
