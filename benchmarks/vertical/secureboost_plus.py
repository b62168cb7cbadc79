"""The paper's comparisons: seconds and bytes per tree, operations and cost model, accuracy of the modes.

    VEILBOOST_DATA=... python benchmarks/vertical/secureboost_plus.py [--quick] [--sections time cost ...]

The baseline is SecureBoost as published: `phe`, two ciphertexts a row, every histogram summed up, nothing
packed, subtracted or compressed.  Its operations are timed on a sample, on as many processes as there are
processors, and multiplied by their number: the table says "scaled".  Everything else is run.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from sklearn.metrics import accuracy_score, roc_auc_score

import xgb_fed
import xgb_fed.vertical.passive.party
from gbdt_kernels.threads import available_threads

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import machine, print_table, say, write_json
from benchmarks.vertical import vertical_data
from benchmarks.vertical.vertical_data import VerticalProblem

DEPTH, BINS = 5, 32
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "mix": {"tree_mode": "mix"},
    "layered": {"tree_mode": "layered", "active_depth": 2},
    "goss": {"goss": (0.2, 0.1)},
}
SCHEMES = {"Paillier": xgb_fed.Paillier, "Okamoto-Uchiyama": xgb_fed.OkamotoUchiyama}


def parameters(problem: VerticalProblem, **others: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"objective": problem.objective, "max_depth": DEPTH, "max_bin": BINS, **others}
    return params | ({"num_class": problem.n_classes} if problem.n_classes > 1 else {})


class Watch:
    """Counts and times the operations of a cipher, whoever calls them."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self.seconds = 0.0

    def __call__(self, part: Any) -> Any:
        return Watched(part, self)


class Watched:
    """A public or private key, under a watch."""

    def __init__(self, part: Any, watch: Watch) -> None:
        self._part, self._watch = part, watch

    @property
    def public(self) -> Any:
        return Watched(self._part.public, self._watch)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        if not callable(value):
            return value

        def timed(*arguments: Any) -> Any:
            begin = time.perf_counter()
            result = value(*arguments)
            self._watch.seconds += time.perf_counter() - begin
            self._count(name, arguments, result)
            return result

        return timed

    def _count(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        operations = self._watch.operations
        if name == "sum_by_index":
            lengths = np.diff(arguments[2])
            operations["additions"] += int(np.maximum(lengths - 1, 0).sum())
        elif name in ("add", "subtract"):
            operations["additions" if name == "add" else "subtractions"] += len(result)
        elif name in ("encrypt", "decrypt"):
            operations[name + "ions"] += len(result)
        elif name == "compress":
            operations["compressed sums"] += len(arguments[0])
        elif name == "rerandomise":
            operations["re-randomisations"] += len(result)


class WatchedScheme:
    """A scheme whose keys are watched."""

    def __init__(self, scheme: Any, watch: Watch) -> None:
        self._scheme, self._watch = scheme, watch

    def generate(self) -> Any:
        return self._watch(self._scheme.generate())


@contextmanager
def watched(watch: Watch) -> Any:
    """Public keys that passive parties read are watched too."""
    read = xgb_fed.vertical.passive.party.read_public_key
    xgb_fed.vertical.passive.party.read_public_key = lambda data: watch(read(data))
    try:
        yield
    finally:
        xgb_fed.vertical.passive.party.read_public_key = read


def run(problem: VerticalProblem, scheme: Any, trees: int, **others: Any) -> dict[str, Any]:
    """Train; seconds, cipher seconds, operations and bytes per tree, set-up left out."""
    marks: list[tuple[float, float, Counter[str], int]] = []
    watch = Watch()

    class Marks(xgboost.callback.TrainingCallback):
        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            marks.append((time.perf_counter(), watch.seconds, Counter(watch.operations), 0))
            return False

        def after_training(self, model: Any) -> Any:
            marks.append((time.perf_counter(), watch.seconds, Counter(watch.operations), 0))
            return model

    party = xgb_fed.LocalParty(problem.passive, "passive")
    with watched(watch):
        model = xgb_fed.train(
            parameters(problem, **others),
            xgb_fed.ActiveData(problem.active, problem.y),
            [party],
            trees,
            cipher=WatchedScheme(scheme, watch),
            callbacks=[Marks()],
        )
    first, last = marks[0], marks[-1]
    seconds, cipher = (last[k] - first[k] for k in (0, 1))
    counts = {name: (last[2][name] - first[2][name]) / trees for name in last[2]}
    sent = sum(flow.bytes for flow in model.traffic.flows.values())
    return {"seconds": seconds / trees, "cipher": cipher / trees, "bytes": sent / trees, "operations": counts}


def _phe_costs(bits: int, count: int) -> tuple[float, float, float]:
    """Seconds of one encryption, addition and decryption in one process."""
    import phe

    public, private = phe.generate_paillier_keypair(n_length=bits)
    values = [public.encrypt(k + 0.5) for k in range(2)]
    seconds = []
    for work in (
        lambda k: public.encrypt(k + 0.5),
        lambda k: values[0] + values[1],
        lambda k: private.decrypt(values[0]),
    ):
        begin = time.perf_counter()
        for k in range(count):
            work(k)
        seconds.append((time.perf_counter() - begin) / count)
    return tuple(seconds)  # type: ignore[return-value]


def published(problem: VerticalProblem, bits: int) -> dict[str, Any]:
    """SecureBoost as published, scaled from a sample (section 3.1.1 of the paper)."""
    processes = available_threads()
    with ProcessPoolExecutor(processes) as pool:
        costs = list(pool.map(_phe_costs, [bits] * processes, [60] * processes))
    encrypt, add, decrypt = (np.median([cost[k] for cost in costs]) / processes for k in range(3))
    n, f, nodes = problem.X.shape[0], problem.passive.shape[1], 2**DEPTH - 1
    additions = 2 * n * f * DEPTH + 2 * nodes * f * BINS
    decryptions = 2 * nodes * f * BINS
    return {
        "seconds": 2 * n * encrypt + additions * add + decryptions * decrypt,
        "operations": {"encryptions": 2 * n, "additions": additions, "decryptions": decryptions},
        "bytes": (2 * n + decryptions) * bits / 4,
        "unit": {"encrypt": encrypt, "add": add, "decrypt": decrypt},
    }


def steps(
    problem: VerticalProblem, base: dict[str, Any], ours: dict[str, Any], per: int
) -> list[tuple[str, float]]:
    """Seconds a tree as the paper's optimisations are added in turn: operations times `phe`'s unit costs."""
    n, f, nodes = problem.X.shape[0], problem.passive.shape[1], 2**DEPTH - 1
    unit = base["unit"]
    sums = nodes * f * BINS

    def cost(encryptions: float, additions: float, decryptions: float) -> float:
        return encryptions * unit["encrypt"] + additions * unit["add"] + decryptions * unit["decrypt"]

    half = n * f * (DEPTH + 1) / 2
    return [
        ("SecureBoost as published (phe, scaled)", base["seconds"]),
        ("+ GH packing (phe, scaled)", cost(n, n * f * DEPTH + sums, sums)),
        ("+ histogram subtraction (phe, scaled)", cost(n, half + 2 * sums, sums)),
        ("+ compression (phe, scaled)", cost(n, half + 2 * sums + sums * 150, sums / per)),
        ("+ sparse optimisation, our arithmetic (run)", ours["seconds"]),
    ]


def section_time(problems: list[VerticalProblem], trees: int, key_length: int) -> list[dict[str, Any]]:
    columns = ("data", "system", "s a tree", "times faster", "not cipher", "MiB a tree")
    results = []
    for problem in problems:
        rows: list[tuple[Any, ...]] = []
        run(problem.rows(slice(0, 500)), xgb_fed.Paillier(key_length), 1)
        base = published(problem, key_length)
        measured = {name: run(problem, make(key_length), trees) for name, make in SCHEMES.items()}
        for name, step in steps(problem, base, measured["Paillier"], (key_length - 1) // 143):
            rows.append((problem.title, name, step, base["seconds"] / step, None, None))
        for name, ours in measured.items():
            overhead = 1 - ours["cipher"] / ours["seconds"]
            ratio = base["seconds"] / ours["seconds"]
            rows.append(
                (problem.title, f"{name}, default", ours["seconds"], ratio, overhead, ours["bytes"] / 2**20)
            )
            results.append({"data": problem.title, "mode": f"{name} default", **ours, "ratio": ratio})
        for mode, others in list(MODES.items())[1:]:
            cycle = 2 if mode == "mix" else 1
            ours = run(problem, xgb_fed.OkamotoUchiyama(key_length), max(trees, cycle), **others)
            ratio = base["seconds"] / ours["seconds"]
            row = (problem.title, f"Okamoto-Uchiyama, {mode}", ours["seconds"], ratio)
            rows.append((*row, 1 - ours["cipher"] / ours["seconds"], ours["bytes"] / 2**20))
            results.append(
                {"data": problem.title, "mode": f"Okamoto-Uchiyama {mode}", **ours, "ratio": ratio}
            )
        results.append({"data": problem.title, "mode": "published (scaled)", **base})
        print_table(f"Seconds a tree, {key_length}-bit keys, depth {DEPTH}, {BINS} bins", columns, rows)
    return results


def section_cost(problem: VerticalProblem, key_length: int) -> list[dict[str, Any]]:
    """Equations 8 to 16 beside counted operations."""
    n, f, nodes = problem.X.shape[0], problem.passive.shape[1], 2**DEPTH
    per = (key_length - 1) // 143
    ours = run(problem, xgb_fed.Paillier(key_length), 1)["operations"]
    sums = nodes * f * BINS
    rows = [
        ("additions", 2 * n * DEPTH * f + 2 * sums, n * DEPTH * f / 2 + sums, ours["additions"]),
        ("subtractions", 0.0, sums / 2, ours["subtractions"]),
        ("encryptions", 2 * n, n, ours["encryptions"]),
        ("decryptions", 2 * sums, sums / per, ours["decryptions"]),
        ("re-randomisations", 0.0, 0.0, ours["re-randomisations"]),
    ]
    columns = ("operation", "eq. 8-10", "eq. 14-16", "counted")
    print_table(f"Operations a tree on {problem.title}, {key_length} bits", columns, rows)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def section_scale(problem: VerticalProblem, key_length: int, quick: bool) -> list[dict[str, Any]]:
    """Linear in rows and in features."""
    rows = []
    for n in (10_000, 20_000) if quick else (10_000, 50_000, 150_000):
        ours = run(problem.rows(slice(0, n)), xgb_fed.OkamotoUchiyama(key_length), 1)
        rows.append((f"{n:,} rows x {problem.passive.shape[1]}", ours["seconds"], 1e6 * ours["seconds"] / n))
    for f in (5, 20) if quick else (5, 50, 200):
        wide = vertical_data.wide(10_000, 2 * f)
        ours = run(wide, xgb_fed.OkamotoUchiyama(key_length), 1)
        rows.append((f"10,000 rows x {f}", ours["seconds"], 1e6 * ours["seconds"] / 10_000 / f))
    columns = ("passive data", "s a tree", "us a row, or a value")
    print_table(f"Growth with rows and features (Okamoto-Uchiyama, {key_length} bits)", columns, rows)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _split(problem: VerticalProblem) -> tuple[VerticalProblem, VerticalProblem]:
    order = np.random.default_rng(0).permutation(problem.X.shape[0])
    cut = int(0.8 * len(order))
    return problem.rows(order[:cut]), problem.rows(order[cut:])


def predictions(
    train: VerticalProblem, test: VerticalProblem, rounds: int, **others: Any
) -> tuple[Any, int, float]:
    party = xgb_fed.LocalParty(train.passive, "passive")
    begin = time.perf_counter()
    model = xgb_fed.train(
        parameters(train, **others),
        xgb_fed.ActiveData(train.active, train.y),
        [party],
        rounds,
        cipher=xgb_fed.Plain(),
    )
    seconds = time.perf_counter() - begin
    return model.predict(test.active, [party.with_rows(test.passive)]), len(model.trees), seconds


def section_accuracy(problems: list[VerticalProblem], rounds: int) -> list[dict[str, Any]]:
    """Table 2: AUC on held-out fifths."""
    rows = []
    for problem in problems:
        train, test = _split(problem)
        data = xgboost.QuantileDMatrix(train.X, label=train.y, max_bin=BINS)
        pooled = xgboost.train(parameters(train), data, rounds).predict(xgboost.DMatrix(test.X))
        scores = [roc_auc_score(test.y, pooled)]
        scores += [
            roc_auc_score(test.y, predictions(train, test, rounds, **others)[0]) for others in MODES.values()
        ]
        rows.append((problem.title, *scores))
    columns = ("data", "XGBoost", *MODES)
    print_table(f"Test AUC, {rounds} trees (the ciphers give the same models)", columns, rows)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def section_multi(problem: VerticalProblem, rounds: int) -> list[dict[str, Any]]:
    """Table 3, Figures 8 and 9: trees until SecureBoost-MO is as accurate as one tree a class."""
    train, test = _split(problem)
    probabilities, n_trees, seconds = predictions(train, test, rounds)
    goal = accuracy_score(test.y, probabilities.argmax(axis=1))
    rows = [("one tree a class", rounds, n_trees, goal, seconds)]
    for mo_rounds in (rounds, 3 * rounds // 2, 2 * rounds, 3 * rounds):
        probabilities, n_trees, seconds = predictions(train, test, mo_rounds, multi_output=True)
        accuracy = accuracy_score(test.y, probabilities.argmax(axis=1))
        rows.append(("SecureBoost-MO", mo_rounds, n_trees, accuracy, seconds))
        if accuracy >= goal:
            break
    columns = ("method", "rounds", "trees", "accuracy", "seconds in clear")
    print_table(f"{problem.title}, {problem.n_classes} classes", columns, rows)
    return [dict(zip(columns, row, strict=True)) for row in rows]


SECTIONS = ("time", "cost", "scale", "accuracy", "multi")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, few trees, 1024-bit keys")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--trees", type=int, default=2, help="trees that are timed")
    parser.add_argument("--json", type=Path, default=Path("out/secureboost_plus.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
    key_length, rounds = 2048, 5 if arguments.quick else 25
    rows = slice(0, 4_000 if arguments.quick else None)
    credit = vertical_data.give_credit().rows(rows)
    others = [
        make().rows(rows) for make in (vertical_data.susy, vertical_data.default_credit, vertical_data.wide)
    ]
    covtype = vertical_data.covtype(5_000 if arguments.quick else 100_000)
    timed = [credit] if arguments.quick else [credit, *others]
    work = {
        "time": lambda: section_time(timed, arguments.trees, key_length),
        "cost": lambda: section_cost(credit, key_length),
        "scale": lambda: section_scale(credit, key_length, arguments.quick),
        "accuracy": lambda: section_accuracy([credit, *others], rounds),
        "multi": lambda: section_multi(covtype, rounds),
    }
    say(f"{available_threads()} processors; figures are of this run")
    results = {name: work[name]() for name in arguments.sections}
    write_json(arguments.json, {"machine": machine(available_threads()), **results})


if __name__ == "__main__":
    main()
