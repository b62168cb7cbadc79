"""SecureBoost+: Tables 2 and 3, Figures 7 to 9 and the cost model of Fan et al., and growth to 10^6 rows.

    VEILBOOST_DATA=... python benchmarks/vertical/secureboost_plus.py --out docs/experiments/data
        [--quick] [--sections time multi ...] [--rows 20000]

Trees have depth 5, 32 bins and learning rate 0.3, as in the paper; keys have 2048 bits where it has 1024.
The default keeps all rows; the paper's SecureBoost+ samples by GOSS in all of its runs, its baseline does
not.  Both parties run on one processor, and seconds are its processor time.

"As published" is SecureBoost: two ciphertexts a row, every histogram summed up, nothing packed, subtracted or
compressed.  Its operations are timed on a sample, by `phe` and by our arithmetic, and multiplied by their
number: the table says "scaled".  Everything else is run.  Each section leaves a CSV table, and a JSON file
with the settings and the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from sklearn.metrics import accuracy_score, roc_auc_score
from tqdm import tqdm

import xgb_fed
import xgb_fed.vertical.passive.party
from gbdt_kernels.threads import available_threads

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import machine, print_table, say, write_csv, write_json
from benchmarks.vertical import vertical_data
from benchmarks.vertical.vertical_data import VerticalProblem

DEPTH, BINS, KEY_LENGTH = 5, 32, 2048
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "mix": {"tree_mode": "mix"},
    "layered": {"tree_mode": "layered", "active_depth": 2},
    "GOSS": {"goss": (0.2, 0.1)},
}
SCHEMES = {"Paillier": xgb_fed.Paillier, "Okamoto–Uchiyama": xgb_fed.OkamotoUchiyama}
PAPER_AUC = {
    "give_credit": "0.872 / 0.873 / 0.870 / 0.871",
    "susy_30k": "0.864 / 0.873 / 0.869 / 0.870",
    "higgs_11k": "0.808 / 0.800 / 0.795 / 0.796",
    "epsilon_5k": "0.897 / 0.894 / 0.894 / 0.894",
}
"""Table 2: XGBoost, SecureBoost+ (with GOSS), mix, layered."""

Table = tuple[str, Sequence[str], list[Sequence[Any]]]
"""Title, columns and rows."""


def parameters(problem: VerticalProblem, **others: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"objective": problem.objective, "max_depth": DEPTH, "max_bin": BINS, **others}
    return params | ({"num_class": problem.n_classes} if problem.n_classes > 1 else {})


class Watch:
    """Counts and times the operations of a cipher, whoever calls them."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def __call__(self, part: Any) -> Any:
        return Watched(part, self)


class Watched:
    """A public or private key, under a watch; one processor means that all work is in the calling thread."""

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
            begin = time.thread_time()
            result = value(*arguments)
            seconds = time.thread_time() - begin
            kind, number = self._counted(name, arguments, result)
            self._watch.seconds[kind] += seconds
            if number:
                self._watch.operations[kind] += number
            return result

        return timed

    @staticmethod
    def _counted(name: str, arguments: tuple[Any, ...], result: Any) -> tuple[str, int]:
        if name == "sum_by_index":
            return "additions", int(np.maximum(np.diff(arguments[2]) - 1, 0).sum())
        if name in ("encrypt", "decrypt", "add", "subtract"):
            kinds = {"add": "additions", "subtract": "subtractions"}
            return kinds.get(name, name + "ions"), len(result)
        if name in ("compress", "rerandomise"):
            kinds = {"compress": "compressed sums", "rerandomise": "re-randomisations"}
            return kinds[name], len(arguments[0] if name == "compress" else result)
        return "others", 0


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
    """Train; processor seconds, operations and bytes per round, set-up left out of the seconds."""
    marks: list[tuple[float, Counter[str], Counter[str]]] = []
    watch = Watch()

    class Marks(xgboost.callback.TrainingCallback):
        def _mark(self) -> None:
            marks.append((time.process_time(), Counter(watch.seconds), Counter(watch.operations)))

        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            self._mark()
            return False

        def after_training(self, model: Any) -> Any:
            self._mark()
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
            verbose_eval=False,
        )
    first, last = marks[0], marks[-1]
    per_kind = {kind: (last[1][kind] - first[1][kind]) / trees for kind in last[1]}
    flows = model.traffic.flows.values()
    return {
        "seconds": (last[0] - first[0]) / trees,
        "cipher": sum(per_kind.values()),
        "cipher_seconds": per_kind,
        "operations": {kind: (last[2][kind] - first[2][kind]) / trees for kind in last[2]},
        "bytes": sum(flow.bytes for flow in flows) / trees,
        "messages": sum(flow.messages for flow in flows),
    }


def phe_costs(count: int) -> dict[str, float]:
    """Seconds of one encryption, addition and decryption by `phe`."""
    import phe

    public, private = phe.generate_paillier_keypair(n_length=KEY_LENGTH)
    values = [public.encrypt(k + 0.5) for k in range(2)]
    costs = {}
    for kind, work in (
        ("encryptions", lambda k: public.encrypt(k + 0.5)),
        ("additions", lambda k: values[0] + values[1]),
        ("decryptions", lambda k: private.decrypt(values[0])),
    ):
        begin = time.process_time()
        for k in range(count):
            work(k)
        costs[kind] = (time.process_time() - begin) / count
    return costs


def our_costs(ours: dict[str, Any]) -> dict[str, float]:
    """The same of a run with our arithmetic."""
    kinds = ("encryptions", "additions", "decryptions")
    return {kind: ours["cipher_seconds"][kind] / ours["operations"][kind] for kind in kinds}


def steps(problem: VerticalProblem, unit: dict[str, float]) -> dict[str, float]:
    """Seconds a tree as the paper's optimisations are added in turn: operations times their costs."""
    n, f, nodes = problem.X.shape[0], problem.passive.shape[1], 2**DEPTH - 1
    sums, per = nodes * f * BINS, (KEY_LENGTH - 1) // 143

    def cost(encryptions: float, additions: float, decryptions: float) -> float:
        found = (encryptions, additions, decryptions)
        kinds = ("encryptions", "additions", "decryptions")
        return sum(unit[kind] * number for kind, number in zip(kinds, found, strict=True))

    half = n * f * (DEPTH + 1) / 2
    return {
        "as published": cost(2 * n, 2 * n * f * DEPTH + 2 * sums, 2 * sums),
        "+ GH packing": cost(n, n * f * DEPTH + sums, sums),
        "+ histogram subtraction": cost(n, half + 2 * sums, sums),
        "+ compression": cost(n, half + 2 * sums + sums * 150, sums / per),
    }


def time_of_modes(problems: list[VerticalProblem], trees: int) -> tuple[list[dict[str, Any]], Table]:
    """Figure 7, under both ciphers."""
    rows: list[Sequence[Any]] = []
    results = []
    by_phe = phe_costs(60)
    run(problems[0].rows(slice(0, 300)), xgb_fed.Paillier(KEY_LENGTH), 1)
    for problem in tqdm(problems, desc="time", disable=None):
        n, f = problem.X.shape[0], problem.passive.shape[1]
        head = f"{problem.title}, {n:,} × ({problem.n_active} + {f})"
        measured = {
            (mode, name): run(problem, make(KEY_LENGTH), max(trees, 2) if mode == "mix" else trees, **others)
            for name, make in SCHEMES.items()
            for mode, others in MODES.items()
        }
        base = steps(problem, our_costs(measured["default", "Paillier"]))
        published = steps(problem, by_phe)["as published"]
        rows.append((head, "as published, `phe` (scaled)", f"{published:.4g}", *[""] * 6))
        for step, seconds in base.items():
            ratio = f"{base['as published'] / seconds:.2f}"
            rows.append((head, f"{step}, our arithmetic (scaled)", f"{seconds:.4g}", ratio, *[""] * 5))
        for mode in MODES:
            paillier, ou = (measured[mode, name] for name in SCHEMES)
            cells = [f"{paillier['seconds']:.3g}", f"{base['as published'] / paillier['seconds']:.3g}"]
            cells += [f"{ou['seconds']:.3g}"]
            cells += [f"{1 - one['cipher'] / one['seconds']:.0%}" for one in (paillier, ou)]
            cells += [f"{one['bytes'] / 2**20:.2g}" for one in (paillier, ou)]
            rows.append((head, f"**{mode}** (run)", *cells))
        for (mode, name), one in measured.items():
            results.append({"data": head, "mode": mode, "cipher": name, **one})
        results.append({"data": head, "scaled, phe": published, "scaled, our arithmetic": base})
    columns = (
        "",
        "",
        "Paillier, s",
        "times faster",
        "Okamoto–Uchiyama, s",
        "not cipher, P",
        "not cipher, OU",
    )
    columns += ("MiB, P", "MiB, OU")
    title = f"Processor seconds and MiB a tree, {KEY_LENGTH}-bit keys, {trees} trees (2 of mix)"
    return results, (title, columns, rows)


def operations(problem: VerticalProblem) -> tuple[list[Any], Table]:
    """Equations 8 to 16 beside counted operations."""
    n, f, nodes = problem.X.shape[0], problem.passive.shape[1], 2**DEPTH
    per = (KEY_LENGTH - 1) // 143
    ours = run(problem, xgb_fed.Paillier(KEY_LENGTH), 1)["operations"]
    sums = nodes * f * BINS
    rows: list[Sequence[Any]] = [
        ("additions", 2 * n * DEPTH * f + 2 * sums, n * DEPTH * f // 2 + sums, ours["additions"]),
        ("subtractions", 0, sums // 2, ours["subtractions"]),
        ("encryptions", 2 * n, n, ours["encryptions"]),
        ("decryptions", 2 * sums, -(-sums // per), ours["decryptions"]),
        ("re-randomisations", 0, 0, ours["re-randomisations"]),
    ]
    shown = [(row[0], *(f"{number:,.0f}" for number in row[1:])) for row in rows]
    columns = ("", "eq. 8–10 (as published)", "eq. 14–16 (SecureBoost+)", "counted")
    title = f"Operations a tree on {problem.title}, {n:,} × {f} passive columns, Paillier, {KEY_LENGTH} bits"
    return rows, (title, columns, shown)


def growth(sizes: Sequence[tuple[int, int]]) -> tuple[list[dict[str, Any]], Table]:
    """One tree each, with Okamoto–Uchiyama, on generated rows; half of the columns are the active party's."""
    results, rows = [], []
    for n_rows, n_passive in tqdm(sizes, desc="growth", disable=None):
        problem = vertical_data.wide(n_rows, 2 * n_passive)
        found = run(problem, xgb_fed.OkamotoUchiyama(KEY_LENGTH), 1)
        results.append({"rows": n_rows, "passive columns": n_passive, **found})
        seconds = found["seconds"]
        each = (f"{1e6 * seconds / n_rows:.3g}", f"{seconds / n_passive:.3g}")
        mib = f"{found['bytes'] / 2**20:.3g}"
        rows.append((f"{n_rows:,} × {n_passive:,}", f"{seconds:.3g}", *each, mib))
    columns = ("rows × passive columns", "s per tree", "µs per row", "s per column", "MiB")
    return results, ("Growth, processor seconds, Okamoto–Uchiyama, one tree each", columns, rows)


def _split(problem: VerticalProblem) -> tuple[VerticalProblem, VerticalProblem]:
    order = np.random.default_rng(0).permutation(problem.X.shape[0])
    cut = int(0.8 * len(order))
    return problem.rows(order[:cut]), problem.rows(order[cut:])


def predictions(
    train: VerticalProblem, test: VerticalProblem, rounds: int, **others: Any
) -> tuple[Any, int, float]:
    party = xgb_fed.LocalParty(train.passive, "passive")
    begin = time.process_time()
    model = xgb_fed.train(
        parameters(train, **others),
        xgb_fed.ActiveData(train.active, train.y),
        [party],
        rounds,
        cipher=xgb_fed.Plain(),
        verbose_eval=False,
    )
    seconds = time.process_time() - begin
    return model.predict(test.active, [party.with_rows(test.passive)]), len(model.trees), seconds


def accuracy(problems: list[VerticalProblem], rounds: int) -> tuple[list[Any], Table]:
    """Table 2: AUC on held-out fifths."""
    rows: list[Sequence[Any]] = []
    for problem in tqdm(problems, desc="accuracy", disable=None):
        train, test = _split(problem)
        data = xgboost.QuantileDMatrix(train.X, label=train.y, max_bin=BINS)
        pooled = xgboost.train(parameters(train), data, rounds).predict(xgboost.DMatrix(test.X))
        scores = [roc_auc_score(test.y, pooled)]
        scores += [
            roc_auc_score(test.y, predictions(train, test, rounds, **others)[0]) for others in MODES.values()
        ]
        head = f"{problem.title}, {problem.X.shape[0]:,} rows"
        rows.append((head, *(f"{score:.4f}" for score in scores), PAPER_AUC.get(problem.name, "")))
    columns = ("", "pooled XGBoost", *MODES, "the paper: XGBoost / GOSS / mix / layered, with GOSS")
    return rows, (f"Test AUC, {rounds} trees (the ciphers give the same models)", columns, rows)


def multi(
    problems: list[VerticalProblem], rounds: int, n_encrypted: int
) -> tuple[list[dict[str, Any]], Table]:
    """Table 3, Figures 8 and 9: trees until MO is as accurate as one tree a class, and their cost."""
    results, rows = [], []
    for problem in tqdm(problems, desc="multi", disable=None):
        train, test = _split(problem)
        head, goal, before = f"{problem.title}, {problem.X.shape[0]:,} rows", 0.0, dict.fromkeys(SCHEMES, 0.0)
        few = problem.rows(slice(0, n_encrypted))
        for method, others in (("one tree per class", {}), ("MO", {"multi_output": True})):
            tried = (rounds,) if not others else (rounds, 3 * rounds // 2, 2 * rounds, 3 * rounds)
            for n_rounds in tried:
                probabilities, n_trees, seconds = predictions(train, test, n_rounds, **others)
                score = accuracy_score(test.y, probabilities.argmax(axis=1))
                if score >= goal:
                    break
            goal = goal or score
            costs = {name: run(few, make(KEY_LENGTH), 1, **others) for name, make in SCHEMES.items()}
            whole = {name: n_rounds * one["seconds"] for name, one in costs.items()}
            before = before if others else whole
            results.append(
                {
                    "data": head,
                    "method": method,
                    "rounds": n_rounds,
                    "trees": n_trees,
                    "accuracy": score,
                    "clear_seconds": seconds,
                    "a_round": costs,
                }
            )
            ratios = [f"{before[name] / whole[name]:.2f}" for name in SCHEMES] if others else ["", ""]
            cells = [f"{one['seconds']:.3g}" for one in costs.values()]
            size = " / ".join(f"{one['bytes'] / 2**20:.2g}" for one in costs.values())
            messages = costs["Paillier"]["messages"]
            shown = (n_rounds, n_trees, f"{score:.4f}", f"{seconds:.3g}", *cells, messages, size, *ratios)
            rows.append((head, method, *shown))
    columns = ("", "", "rounds", "trees", "accuracy", "s in clear", "P, s per round", "OU, s per round")
    columns += ("messages", "MiB, P / OU", "whole, P, times faster", "whole, OU, times faster")
    title = f"Several classes; a round encrypted on {n_encrypted:,} rows, accuracy with all rows, in clear"
    return results, (title, columns, rows)


FILES = {
    "time": "vertical-modes",
    "operations": "vertical-operations",
    "accuracy": "vertical-accuracy",
    "multi": "vertical-multi",
    "growth": "vertical-sizes",
}
"""Sections, and the files that each one leaves."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rows, columns and trees: does it run?")
    parser.add_argument("--sections", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--trees", type=int, default=2, help="trees that are timed")
    parser.add_argument("--rows", type=int, help="most rows that are timed, of a set")
    parser.add_argument("--growth-to", type=int, default=1_000_000, help="most rows; a thousandth as columns")
    parser.add_argument("--out", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    for expected in (xgb_fed.NotEncryptedWarning, xgb_fed.LabelLeakWarning):
        warnings.simplefilter("ignore", expected)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    quick, rounds, trees = arguments.quick, 25, arguments.trees
    kept, timed, n_classes_rows, n_encrypted = None, arguments.rows, 100_000, 10_000
    if quick:
        kept, timed, rounds, trees, n_classes_rows, n_encrypted = 2_000, 400, 3, 1, 2_000, 300
    if timed:
        n_encrypted, n_classes_rows = min(n_encrypted, timed), min(n_classes_rows, 10 * timed)
    make = [vertical_data.give_credit, vertical_data.susy, vertical_data.higgs, vertical_data.epsilon]
    binary = [one().rows(slice(0, kept)) for one in (*make, vertical_data.default_credit)]
    sizes = [(n, 5) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000) if n <= arguments.growth_to]
    sizes += [(10_000, f) for f in (10, 100, 1_000) if 1_000 * f <= arguments.growth_to]
    classes = [vertical_data.sensorless(min(58_509, n_classes_rows)), vertical_data.covtype(n_classes_rows)]
    work = {
        "time": lambda: time_of_modes(
            [one.rows(slice(0, timed)) for one in (binary[2:4] if quick else binary)], trees
        ),
        "operations": lambda: operations(binary[0].rows(slice(0, timed))),
        "accuracy": lambda: accuracy(binary, rounds),
        "multi": lambda: multi(classes, rounds, n_encrypted),
        "growth": lambda: growth([(500, 5), (500, 10)] if quick else sizes),
    }
    for section in arguments.sections:
        used = time.process_time()
        results, (title, columns, rows) = work[section]()
        print_table(title, columns, rows)
        write_csv(arguments.out / f"{FILES[section]}.csv", columns, rows)
        settings = {"title": title, "depth": DEPTH, "bins": BINS, "key_length": KEY_LENGTH}
        settings |= {"processor_seconds": time.process_time() - used}
        content = {"machine": machine(available_threads()), **settings, "results": results}
        write_json(arguments.out / f"{FILES[section]}.json", content)
    say("processor seconds are of one processor, for both parties")


if __name__ == "__main__":
    main()
