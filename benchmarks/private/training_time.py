"""Seconds per tree and per run: private training against stock LightGBM on the same data, depth, bins and
threads.

Private and stock runs alternate (private, stock, private, stock, ...), so that whatever else the machine
does falls on both; a ratio is the median over such pairs.  On a busy machine look at the ratio of the best
times too, at the processor's seconds, and at ``--threads 1``: a team of threads waits for its slowest.  A
tree of DPBoost sees a part of the rows (all trees of an ensemble together see each row once), one of the
others sees them all.  The time per tree is that of the whole call of `lightgbm.train` over the number of
trees, and the fixed cost of a run that of a call for one tree of 1,000 rows.  Construction of the Dataset,
peak memory and import time have rows of their own.

covtype comes with 63 and 255 bins and with all and some of its rows, once by kernels compiled for this
processor, and once by kernels compiled for one that has AVX2 and no AVX-512.

    VEILBOOST_DATA=folder python benchmarks/private/training_time.py
    VEILBOOST_DATA=folder python benchmarks/private/training_time.py --sizes-only --threads 1
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from tqdm import tqdm

import lgb_dp

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common import report
from benchmarks.common.data import Problem, load

N_THREADS = 2
N_TREES = 50
EPSILON = 1.0
DELTA = 1e-5
MEMORY_ROWS, MEMORY_FEATURES = 1_000_000, 50
MEMORY_LIMIT = 2 * 2**30
PARAMS = {"max_depth": 6, "num_leaves": 64, "learning_rate": 0.1, "lambda_l2": 0.1}
QUIET = {"verbosity": -1}
SIZES = [(rows, bins) for rows in (200_000, 581_012) for bins in (63, 255)]
"""Rows of covtype and bins per feature."""
FEW_ROWS = 1_000
COMPILED_FOR = {"this processor": {}, "AVX2 alone": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}}
"""Environment of the process whose kernels are timed."""

DATA = ("a9a", "covtype", "susy", "codrna", "abalone")


@dataclass(frozen=True)
class Contender:
    """A way to train that is compared with stock LightGBM on the same task."""

    name: str
    trainer: Callable[[], Any] | None
    objective: str | None = None


STOCK = Contender("stock", None)
CONTENDERS = (
    Contender("DPBoost tight", lambda: lgb_dp.DPBoost(EPSILON)),
    Contender("DPBoost paper", lambda: lgb_dp.DPBoost(EPSILON, variant="paper")),
    Contender("NewtonBoost", lambda: lgb_dp.NewtonBoost(EPSILON, DELTA)),
    Contender("SequentialBoost", lambda: lgb_dp.SequentialBoost(EPSILON)),
    Contender("stock, square loss", None, "regression"),
)
"""Stock LightGBM on square loss is there because that is the private trainers' loss, whatever the objective
says."""


def now() -> tuple[float, float]:
    """Wall clock and processor time of this process, in seconds."""
    return time.perf_counter(), time.process_time()


def dataset_of(problem: Problem, private: bool, n_threads: int) -> lightgbm.Dataset:
    """The problem's rows as a Dataset with the same number of bins either way."""
    if private:
        shared = {"bounds": problem.bounds, "label_bounds": problem.label_bounds, "max_bin": problem.max_bin}
        return lgb_dp.Dataset(problem.X, problem.y, params=QUIET, **shared)
    params = {**QUIET, "max_bin": problem.max_bin, "num_threads": n_threads}
    return lightgbm.Dataset(problem.X, problem.y, params=params)


def time_training(
    problem: Problem, contender: Contender, n_threads: int, n_trees: int = N_TREES
) -> dict[str, float]:
    """Seconds of the construction, of a whole `lightgbm.train` call per tree, and of one for one tree."""
    few = of_size(problem, FEW_ROWS, problem.max_bin)
    start = now()
    dataset = dataset_of(problem, contender.trainer is not None, n_threads).construct()
    found = {"construct": now()[0] - start[0]}
    single = dataset_of(few, contender.trainer is not None, n_threads).construct()
    objective = contender.objective or problem.task
    params = {**PARAMS, **QUIET, "objective": objective, "num_threads": n_threads}
    for name, rows, n in (("tree", dataset, n_trees), ("run", single, 1)):
        start = now()
        lightgbm.train(params, rows, n, callbacks=[contender.trainer()] if contender.trainer else [])
        wall, processor = np.subtract(now(), start) / n
        found |= {name: float(wall), f"{name}_processor": float(processor)}
    return found


def compare(
    problem: Problem,
    repetitions: int,
    n_threads: int,
    bar: tqdm,
    candidates: Sequence[Contender] = CONTENDERS,
) -> dict[str, Any]:
    """Every contender in turn with stock LightGBM, after a warm-up of each."""
    contenders = [c for c in candidates if c.objective != problem.task]
    for contender in (*contenders, STOCK):
        time_training(problem, contender, n_threads, 3)
    pairs: dict[str, list[tuple[dict, dict]]] = {c.name: [] for c in contenders}
    bar.total += repetitions * len(contenders)
    for _ in range(repetitions):
        for contender in contenders:
            own = time_training(problem, contender, n_threads)
            pairs[contender.name].append((own, time_training(problem, STOCK, n_threads)))
            bar.update()
    return {name: summary(found) for name, found in pairs.items()}


def summary(pairs: list[tuple[dict, dict]]) -> dict[str, Any]:
    """Medians, best times and ratios of interleaved pairs."""
    result = {}
    for what in pairs[0][0]:
        own, stock = [a[what] for a, _ in pairs], [b[what] for _, b in pairs]
        result[what] = {
            "median": statistics.median(own),
            "best": min(own),
            "stock_median": statistics.median(stock),
            "stock_best": min(stock),
            "ratio_of_pairs": statistics.median(a / b for a, b in zip(own, stock, strict=True)),
            "ratio_of_best": min(own) / min(stock),
        }
    return result


def of_size(problem: Problem, rows: int, bins: int) -> Problem:
    """Random rows of a problem, each once while there are enough of them, with another number of bins."""
    order = np.random.default_rng(0).permutation(problem.X.shape[0])
    X, y = problem.rows(np.sort(np.resize(order, rows)))
    return replace(problem, X=X, y=y, max_bin=bins)


def time_sizes(sizes: Sequence[tuple[int, int]], repetitions: int, n_threads: int) -> dict[str, Any]:
    """DPBoost and NewtonBoost against stock LightGBM on covtype, for each number of rows and of bins."""
    problem, result = load("covtype"), {}
    contenders = [c for c in CONTENDERS if c.name in ("DPBoost tight", "NewtonBoost")]
    with tqdm(total=0, desc="sizes", unit="pair") as bar:
        for rows, bins in sizes:
            sized = of_size(problem, rows, bins)
            times = compare(sized, repetitions, n_threads, bar, contenders)
            result[f"{problem.title}, {rows:,} x {sized.X.shape[1]}, {bins} bins"] = times
    return {"machine": report.machine(n_threads), "times": result}


def sizes_in_processes(arguments: Sequence[str]) -> dict[str, Any]:
    """`time_sizes` in a process for each way to compile kernels."""
    command = [sys.executable, str(Path(__file__)), "--sizes-here", *arguments]
    return {name: json.loads(_output(command, variables)) for name, variables in COMPILED_FOR.items()}


def _output(command: Sequence[str], variables: Mapping[str, str]) -> str:
    run = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    return run.stdout.splitlines()[-1]


def memory_of(kind: str, rows: int) -> dict[str, int]:
    """Bytes a training run needs over its input, in a process of its own."""
    script = Path(__file__).parents[1] / "common" / "peak_memory.py"
    command = [sys.executable, str(script), kind, str(rows), str(MEMORY_FEATURES)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def import_seconds(repetitions: int = 5) -> float:
    """Seconds that importing lgb_dp takes once lightgbm is imported, median of fresh processes."""
    code = "import lightgbm, time; t = time.perf_counter(); import lgb_dp; print(time.perf_counter() - t)"
    run = [sys.executable, "-c", code]
    seconds = [float(subprocess.check_output(run, text=True)) for _ in range(repetitions + 1)]
    return statistics.median(seconds[1:])


def print_times(times: dict[str, Any], n_threads: int) -> None:
    """Tables of times per tree, and of construction."""
    titles = {
        "tree": f"Milliseconds of lightgbm.train per tree ({N_TREES} trees, depth 6, {n_threads} threads)",
        "tree_processor": "Milliseconds of processors of lightgbm.train per tree",
        "run": f"Milliseconds of lightgbm.train for one tree of {FEW_ROWS:,} rows",
        "run_processor": f"Milliseconds of processors for one tree of {FEW_ROWS:,} rows",
        "construct": "Milliseconds of the Dataset's construction",
    }
    columns = [
        "data",
        "trainer",
        "median",
        "best",
        "stock median",
        "stock best",
        "ratio (pairs)",
        "ratio (best)",
    ]
    for what, title in titles.items():
        rows = []
        for name, found in times.items():
            for contender, result in found.items():
                figures = result[what]
                cells = [f"{1e3 * figures[k]:.2f}" for k in ("median", "best", "stock_median", "stock_best")]
                ratios = [f"{figures[k]:.2f}" for k in ("ratio_of_pairs", "ratio_of_best")]
                rows.append([name, contender, *cells, *ratios])
        report.print_table(title, columns, rows)


def print_memory(memory: dict[str, Any], rows: int) -> None:
    """Table of peak memory."""
    cells = [
        [kind, *(f"{found[k] / 2**20:,.0f}" for k in ("input", "over_input"))]
        for kind, found in memory.items()
    ]
    title = (
        f"Peak memory in MiB, {rows:,} x {MEMORY_FEATURES} float32, 50 trees of depth 6, libraries included"
    )
    report.print_table(title, ["trainer", "input", "over the input"], cells)
    worst = max(found["over_input"] for kind, found in memory.items() if kind != "stock")
    report.say(
        f"private training {'within' if worst <= MEMORY_LIMIT else 'OVER'} the limit of 2 GiB over the input"
    )


def print_sizes(found: Mapping[str, Any], n_threads: int) -> None:
    """The tables of each way to compile kernels, with its machine."""
    for name, result in found.items():
        report.say(f"\nkernels compiled for {name}: {result['machine']}")
        print_times(result["times"], n_threads)


def main() -> None:
    """Run everything and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the JSON file")
    parser.add_argument("--repetitions", type=int, default=5, help="interleaved pairs per trainer")
    parser.add_argument("--threads", type=int, default=N_THREADS, help="threads of either side")
    parser.add_argument("--quick", action="store_true", help="small data sets, two repetitions, less memory")
    parser.add_argument("--only", help="data sets, separated by commas")
    parser.add_argument("--sizes-only", action="store_true", help="covtype of several sizes alone")
    parser.add_argument("--sizes-here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    report.yield_when_busy()
    sizes = [(20_000, bins) for _, bins in SIZES[:2]] if options.quick else SIZES
    if options.sizes_here:
        print(json.dumps(time_sizes(sizes, options.repetitions, options.threads)))
        return
    arguments = ["--threads", str(options.threads), "--repetitions", str(options.repetitions)]
    by_size = sizes_in_processes([*arguments, "--quick"] if options.quick else arguments)
    print_sizes(by_size, options.threads)
    if options.sizes_only:
        report.write_json(options.out / "training_time_by_size.json", by_size)
        return
    names = options.only.split(",") if options.only else list(DATA)
    if options.quick and not options.only:
        names = ["a9a", "codrna", "abalone"]
    repetitions = 2 if options.quick else options.repetitions
    memory_rows = MEMORY_ROWS // 10 if options.quick else MEMORY_ROWS

    result: dict[str, Any] = {
        "machine": report.machine(options.threads),
        "n_trees": N_TREES,
        "by_size": by_size,
        "times": {},
        "data": {},
    }
    with tqdm(total=4, desc="timing", unit="step") as bar:
        result["import_seconds"] = import_seconds()
        bar.update()
        result["memory"] = {}
        for kind in ("private", "sequential", "stock"):
            result["memory"][kind] = memory_of(kind, memory_rows)
            bar.update()
        for name in names:
            problem = load(name)
            report.say(problem.describe())
            result["data"][problem.title] = problem.describe()
            result["times"][problem.title] = compare(problem, repetitions, options.threads, bar)
    result["load_average_at_end"] = report.load_average()

    print_times(result["times"], options.threads)
    print_memory(result["memory"], memory_rows)
    report.say(f"\nimport of lgb_dp beyond lightgbm: {result['import_seconds']:.2f} s")
    report.say(f"machine: {result['machine']}")
    if result["machine"]["load_average"] > report.BUSY:
        report.say(
            "the machine was busy with other programs: the ratio of best times is the more trustworthy"
        )
    report.write_json(options.out / "training_time.json", result)


if __name__ == "__main__":
    main()
