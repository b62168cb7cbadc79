"""Private learners on the same splits, with the same ε, δ = 1e-5 and the same public knowledge.

``VEILBOOST_DATA=… python benchmarks/private/private_peers.py`` makes an environment of its own for every peer
that needs one (under ``.venv-peers``), trains everything and writes one JSON line per training as it goes, so
that a run can be stopped and taken up again.  ``--quick`` takes one seed, three values of ε and
three data sets, ``--minutes`` bounds the time.  ``--tables docs/experiments/data`` writes the tables that
the documentation includes; a learner that was not run keeps its column.

What each learner gets is listed in `peer_workers`, function by function: its authors' recommended settings,
the public bounds, and public categories.  A package without a wheel for this machine is built from source; a
peer whose environment fails is left out.
"""

from __future__ import annotations

import argparse
import csv
import json
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
from benchmarks.common.report import load_average, print_table, say, write_csv
from benchmarks.private import peer_data, peer_workers

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-peers"
EPSILONS = (0.05, 0.1, 0.5, 1.0, 4.0)
QUICK_EPSILONS = (0.1, 1.0, 4.0)
QUICK_DATA = ("default_credit", "higgs_11k", "abalone")
QUICK_TIMEOUT = 60.0
"""Seconds for a learner on a split; a slower one is stopped by name, and keeps the results it printed."""

REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    "DP-EBM": ("interpret-core==0.7.8",),
    "diffprivlib RF": ("diffprivlib==0.6.5", "scikit-learn==1.6.1", "numpy==1.26.4"),
    "dp-xgboost": ("dp-xgboost==0.2.10", "numpy<2", "scipy", "scikit-learn<1.7"),
    "OpenDP forest": ("opendp==0.14.1", "numpy"),
    **dict.fromkeys(("DP logistic regression", "DP perceptron"), ("opacus==1.6.0", "torch==2.13.0")),
    "MST + LightGBM": ("dpmm==0.1.9", "numpy==1.26.4", "lightgbm==4.6.0"),
}
"""What the peers with an environment of their own need; the others run in this one."""

NOT_PRIVATE = "LightGBM"
TABLE_FILES: Mapping[str, str] = {
    "AUC or −RMSE": "private-peers-scores.csv",
    "Accuracy": "private-peers-accuracy.csv",
    "Fit seconds": "private-peers-seconds.csv",
}
"""Files of the tables, by title."""
NOISE = 2.0
"""Standard errors of a difference within which two learners count as equal."""


def is_installed(learner: str) -> bool:
    """Whether a learner's environment was made."""
    return learner not in REQUIREMENTS or folder_of(learner).joinpath(".installed").exists()


def folder_of(learner: str) -> Path:
    """The environment's folder; learners of equal requirements share the first one's."""
    first = next(name for name, needs in REQUIREMENTS.items() if needs == REQUIREMENTS[learner])
    return ENVIRONMENTS / first.replace(" ", "-").lower()


def environment(learner: str) -> Path | None:
    """The Python that runs a learner, its environment made on first use; None if that fails."""
    requirements = REQUIREMENTS.get(learner)
    if requirements is None:
        return Path(sys.executable)
    folder = folder_of(learner)
    python, made = folder / "bin" / "python", folder / ".installed"
    if is_installed(learner):
        return python
    say(f"making an environment for {learner}: {', '.join(requirements)}")
    commands = [
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", *requirements],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            say(f"no environment for {learner}: {done.stderr.strip().splitlines()[-1:]}")
            return None
    made.touch()
    return python


def run_learner(
    learner: str, split: Path, seed: int, epsilons: Iterable[float], timeout: float
) -> list[dict[str, Any]]:
    """Results of one learner on one split, as far as it gets within the time."""
    python = environment(learner)
    if python is None:
        return []
    command = [str(python), str(Path(__file__).with_name("peer_workers.py")), learner, str(split), str(seed)]
    # LightGBM's threads wait by spinning, which on a busy machine would slow everybody down.
    settings = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    try:
        done = subprocess.run(
            [*command, *map(str, epsilons)],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=settings,
        )
        output, failure = done.stdout, done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout.decode() if isinstance(expired.stdout, bytes) else expired.stdout or ""
        failure = f"stopped after {timeout:g} s"
    if failure:
        say(f"{learner} on {split.stem}: {failure.strip().splitlines()[-1]}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def metric(row: Mapping[str, Any]) -> tuple[str, float]:
    """Name and value of the metric that decides; larger is better."""
    return ("auc", row["auc"]) if "auc" in row else ("rmse", -row["rmse"])


def by_cell(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, float], dict[str, list[Mapping[str, Any]]]]:
    """Results by data set and ε, then by learner."""
    cells: dict[tuple[str, float], dict[str, list[Mapping[str, Any]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    first_seen = {data: i for i, data in reversed(list(enumerate(row["data"] for row in rows)))}
    for row in sorted(rows, key=lambda row: (first_seen[row["data"]], row["epsilon"])):
        cells[row["data"], row["epsilon"]][row["learner"]].append(row)
    return cells


def is_first(cell: Mapping[str, Sequence[Mapping[str, Any]]], learner: str) -> bool | None:
    """Whether a learner's mean is the best private one, or within noise of it; None without rivals."""
    values = {
        name: np.array([metric(row)[1] for row in rows]) for name, rows in cell.items() if name != NOT_PRIVATE
    }
    if learner not in values or len(values) < 2:
        return None
    best = max((name for name in values if name != learner), key=lambda name: values[name].mean())

    def error(name: str) -> float:
        v = values[name]
        return float(v.std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else 0.0

    slack = NOISE * float(np.hypot(error(learner), error(best)))
    return bool(values[learner].mean() >= values[best].mean() - slack)


def tables(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows of every table."""
    cells = by_cell(rows)
    learners = [name for name in peer_workers.LEARNERS if any(name in cell for cell in cells.values())]
    result = []
    for name, key in (("AUC or −RMSE", None), ("Accuracy", "accuracy"), ("Fit seconds", "seconds")):
        body = []
        for (data, epsilon), cell in cells.items():
            texts = []
            for learner in learners:
                found = [
                    row[key] if key else metric(row)[1]
                    for row in cell.get(learner, [])
                    if not key or key in row
                ]
                spread = f" ± {np.std(found, ddof=1):.3f}" if len(found) > 1 and not key else ""
                texts.append(f"{np.mean(found):.3f}{spread}" if found else "-")
            if any(text != "-" for text in texts):
                body.append([data, f"{epsilon:g}", *texts])
        result.append((name, ["data", "ε", *learners], body))
    seeds = max((len(rows_) for cell in cells.values() for rows_ in cell.values()), default=0)
    judged = [is_first(cell, "NewtonBoost") for cell in cells.values()]
    judged = [verdict for verdict in judged if verdict is not None]
    title = f"NewtonBoost first or within noise of first (at most {seeds} seeds)"
    result.append((title, ["cells", "of"], [[str(sum(judged)), str(len(judged))]]))
    return result


def with_old_columns(
    path: Path, columns: Sequence[str], body: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """A table with the cells of an earlier run's file that it lacks itself, learners in their usual order."""
    old: list[list[str]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            old = list(csv.reader(file))
    texts: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for names, rows in ((old[0] if old else columns, old[1:]), (columns, body)):
        for row in rows:
            cells = zip(names[2:], row[2:], strict=True)
            texts[tuple(row[:2])].update({name: text for name, text in cells if text != "-"})
    found = {name for cell in texts.values() for name in cell}
    learners = [name for name in peer_workers.LEARNERS if name in found]
    rows = [[*key, *(cell.get(name, "-") for name in learners)] for key, cell in texts.items()]
    return [*columns[:2], *learners], rows


def lost(columns: Sequence[str], body: Sequence[Sequence[str]], learner: str) -> list[str]:
    """Cells of the table of scores in which another private learner has the larger mean."""
    result = []
    for data, epsilon, *texts in body:
        cells = zip(columns[2:], texts, strict=True)
        means = {name: float(text.partition(" ")[0]) for name, text in cells if text != "-"}
        means.pop(NOT_PRIVATE, None)
        best = max(means, key=lambda name: means[name])
        if learner in means and means[learner] < means[best]:
            result.append(f"{data}, ε = {epsilon}: {means[learner]:.3f}, {best} {means[best]:.3f}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one seed, three values of ε, three data sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--data", nargs="+", choices=list(peer_data.SPLITS))
    parser.add_argument("--learners", nargs="+", default=list(peer_workers.LEARNERS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing after this time")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a learner on a split")
    parser.add_argument("--results", type=Path, default=ROOT / "out" / "private_peers.jsonl")
    parser.add_argument("--tables", type=Path, help="folder to write the tables to")
    options = parser.parse_args()
    seeds = 1 if options.quick else options.seeds
    epsilons = list(QUICK_EPSILONS) if options.quick else options.epsilons
    timeout = min(options.timeout, QUICK_TIMEOUT) if options.quick else options.timeout
    names = options.data or (QUICK_DATA if options.quick else list(peer_data.PEER_SETS))
    options.results.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    if options.results.exists():
        rows = [json.loads(line) for line in options.results.read_text().splitlines()]
    done = {(row["data"], row["learner"], row["seed"], row["epsilon"]) for row in rows}
    stop = time.monotonic() + 60 * options.minutes
    say(f"load average at the start: {load_average():.1f}")
    work = [(s, d, name) for s in range(seeds) for d in names for name in options.learners]
    with tempfile.TemporaryDirectory() as folder, options.results.open("a") as file:
        for seed, data, learner in tqdm(work, unit="learner"):
            if time.monotonic() > stop:
                break
            split = peer_data.split(data)
            wanted = [e for e in epsilons if (split.name, learner, seed, e) not in done]
            wanted = wanted[:1] if learner == NOT_PRIVATE else wanted
            if learner == NOT_PRIVATE and any(d[:3] == (split.name, learner, seed) for d in done):
                continue
            if not wanted:
                continue
            path = Path(folder) / f"{data}.npz"
            split.save(path)
            for row in run_learner(learner, path, seed, wanted, timeout):
                for epsilon in epsilons if learner == NOT_PRIVATE else [row["epsilon"]]:
                    row = {**row, "epsilon": epsilon}
                    rows.append(row)
                    file.write(json.dumps(row) + "\n")
                    file.flush()
    for title, columns, body in tables(rows):
        print_table(title, columns, body)
        if options.tables and title in TABLE_FILES:
            path = options.tables / TABLE_FILES[title]
            columns, body = with_old_columns(path, columns, body)
            write_csv(path, columns, body)
            if title == next(iter(TABLE_FILES)):
                behind = lost(columns, body, "NewtonBoost")
                say(f"NewtonBoost is behind in {len(behind)} of {len(body)} cells: {'; '.join(behind)}")


if __name__ == "__main__":
    main()
