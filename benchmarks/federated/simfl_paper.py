"""SimFL against SOLO, TFL and ALL-IN: Tables 2 to 4, Figures 2 to 4 of Li, Wen and He (2020), 1,000,000 rows.

    VEILBOOST_DATA=folder python benchmarks/federated/simfl_paper.py [--quick] [--parts table2 ...]
        [--only a9a ...]

As the paper: 75% of the rows train, depth 8, 500 trees over all parties, L = min(40, d - 1), sums of the
gradients of single rows (`min_similar=1`), means of ten draws of the hash functions. Unlike it: windows as
wide as rows are typically apart and ties drawn again for every tree (docs/simfl.md), XGBoost's hist in place
of ThunderGBM, learning rate 0.1 (the paper names none), 8 columns of cod-rna where it has 9, 30,000 rows of
SUSY and 10,984 of HIGGS in place of 1,000,000; real-sim is left out. TFL is there in two orders: parties
alternate tree by tree, or each has one turn of all its trees. Errors are of the test rows, which nothing was
chosen by. `similar` compares the default of `min_similar` with the paper's.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import xgboost
from tqdm import tqdm

from gbdt_kernels.threads import available_threads
from xgb_fed import HeuristicProtectionWarning
from xgb_fed.boosting.loop import LoopOptions
from xgb_fed.boosting.params import Settings, without_vertical_only
from xgb_fed.horizontal.common.model import TREE_PARAMETERS, horizontal_settings
from xgb_fed.horizontal.estimators import train_tfl
from xgb_fed.horizontal.parties import as_parties
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.simfl.coordinator import SimFL, add_up
from xgb_fed.horizontal.simfl.messages import AggregatedGradients
from xgb_fed.horizontal.train_simfl import train_simfl

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.data import load
from benchmarks.common.report import machine, print_table, save_panels, say, write_json

DATA = ("a9a", "codrna", "ijcnn1", "susy", "higgs")
PARTS = ("table2", "table3", "figure2", "figure3", "figure4", "table4", "million", "similar")
PARAMS = {"objective": "binary:logistic", "max_depth": 8, "learning_rate": 0.1}

PAPER = {
    # Table: data set: SimFL, TFL, SOLO of the two parties, ALL-IN; test errors in percent.
    "table2": {
        "a9a": (17.0, 23.1, 19.1, 22.0, 15.1),
        "codrna": (6.5, 7.5, 9.6, 8.2, 6.13),
        "ijcnn1": (4.5, 4.7, 5.9, 4.9, 3.7),
        "susy": (23.3, 32.6, 25.4, 32.8, 21.38),
        "higgs": (30.9, 36.1, 37.1, 35.6, 29.4),
    },
    "table3": {
        "a9a": (15.1, 15.6, 15.5, 15.9, 15.1),
        "codrna": (6.0, 6.3, 6.4, 6.7, 6.1),
        "ijcnn1": (3.6, 3.8, 3.8, 4.2, 3.7),
        "susy": (19.6, 20.2, 20.1, 20.1, 20.0),
        "higgs": (29.3, 31.4, 30.2, 30.5, 29.3),
    },
}


@dataclass(frozen=True)
class Split:
    """Parties' rows and the test rows."""

    parties: list[tuple[Any, np.ndarray]]
    X_test: Any
    y_test: np.ndarray


def divide(problem: Any, n_parties: int, theta: float | None) -> Split:
    """Parties' rows: equal random parts, or with `theta` unbalanced ones.

    Unbalanced: one half has the fraction `theta` of class 0 and 1 - `theta` of class 1, the other half the
    rest; then each half is cut into equal parts at random.
    """
    random = np.random.default_rng(0)
    order = random.permutation(problem.X.shape[0])
    n_train = len(order) * 3 // 4
    train, test = order[:n_train], order[n_train:]
    if theta is None:
        parts = np.array_split(train, n_parties)
    else:
        classes = [train[problem.y[train] == k] for k in (0, 1)]
        cuts = [round(theta * len(classes[0])), round((1 - theta) * len(classes[1]))]
        halves = [np.concatenate([classes[0][: cuts[0]], classes[1][: cuts[1]]])]
        halves.append(np.concatenate([classes[0][cuts[0] :], classes[1][cuts[1] :]]))
        first = n_parties // 2
        parts = [
            part
            for half, count in zip(halves, (first, n_parties - first), strict=True)
            for part in np.array_split(random.permutation(half), count)
        ]
    return Split([problem.rows(np.sort(part)) for part in parts], *problem.rows(test))


def error(booster: Any, split: Split) -> float:
    """Test error in percent."""

    return 100 * float(np.mean((booster.predict(xgboost.DMatrix(split.X_test)) > 0.5) != split.y_test))


def train_stock(X: Any, y: Any, num_boost_round: int, n_jobs: int = 0) -> xgboost.Booster:
    """Train stock XGBoost on one matrix, with the settings that `train_simfl` trains by."""
    settings = without_vertical_only(Settings.from_params(PARAMS))
    data = xgboost.QuantileDMatrix(X, label=y, max_bin=settings.max_bin, nthread=n_jobs or None)
    stock = {name: getattr(settings, name) for name in TREE_PARAMETERS} | settings.of_xgboost
    stock |= {"tree_method": "hist", "seed": settings.random_state or 0, "nthread": n_jobs, "verbosity": 0}
    if settings.base_score is not None:
        stock["base_score"] = settings.base_score
    return xgboost.train(stock, data, num_boost_round)


def train_all_in(parties: list[tuple[Any, np.ndarray]], trees: int) -> xgboost.Booster:
    """ALL-IN: stock XGBoost on the pooled rows, which the parties would have to reveal."""
    matrices, labels = zip(*parties, strict=True)
    stack = scipy.sparse.vstack if scipy.sparse.issparse(matrices[0]) else np.vstack
    return train_stock(stack(matrices), np.concatenate(labels), trees)


def simfl_errors(split: Split, trees: int, runs: int, min_similar: int) -> list[float]:
    """Test errors of SimFL in percent, one per draw of the hash functions."""
    how: dict[str, Any] = {"min_similar": min_similar, "verbose_eval": False}
    return [
        error(train_simfl(PARAMS, split.parties, trees, hash_seed=run, **how).booster, split)
        for run in range(runs)
    ]


def errors(split: Split, trees: int, runs: int) -> dict[str, Any]:
    """Test errors of all methods; SimFL's for every draw of the hashes."""
    return {
        "simfl": simfl_errors(split, trees, runs, min_similar=1),
        "tfl": error(train_tfl(PARAMS, split.parties, trees, verbose_eval=False).booster, split),
        # One turn for each party: the order that comes out near the paper's figures for TFL.
        "tfl_one_turn": error(
            train_tfl(
                PARAMS,
                split.parties,
                trees,
                rounds_per_turn=-(-trees // len(split.parties)),
                verbose_eval=False,
            ).booster,
            split,
        ),
        "solo": [error(train_stock(X, y, trees), split) for X, y in split.parties],
        "all_in": error(train_all_in(split.parties, trees), split),
    }


def mean_and_error(values: list[float]) -> str:
    """Mean ± standard error."""
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.2f} ± {spread:.2f}"


def table_of_errors(part: str, names: list[str], theta: float | None, args: Any) -> dict[str, Any]:
    """Table 2 (unbalanced) or 3 (balanced): two parties, paper's figures below ours."""
    results, rows = {}, []
    for name in tqdm(names, desc=part, disable=None):
        problem = load(name, args.rows)
        found = results[name] = errors(divide(problem, 2, theta), args.trees, args.runs)
        simfl = np.mean(found["simfl"])
        fine = simfl < min(found["solo"]), simfl - found["tfl"], simfl - found["all_in"]
        rows.append(
            [
                problem.title,
                mean_and_error(found["simfl"]),
                f"{found['tfl']:.2f}",
                f"{found['tfl_one_turn']:.2f}",
                *(f"{e:.2f}" for e in found["solo"]),
                f"{found['all_in']:.2f}",
                "yes" if fine[0] else "NO",
                f"{fine[1]:+.2f}",
                f"{fine[2]:+.2f}",
            ]
        )
        simfl, tfl, a, b, all_in = PAPER[part][name]
        rows.append(
            ["  paper", simfl, "", tfl, a, b, all_in, "", f"{simfl - tfl:+.2f}", f"{simfl - all_in:+.2f}"]
        )
    kind = "balanced" if theta is None else f"unbalanced, θ = {theta:.0%}"
    columns = [
        "data",
        "SimFL",
        "TFL",
        "TFL, one turn",
        "SOLO A",
        "SOLO B",
        "ALL-IN",
        "< SOLO",
        "− TFL",
        "− ALL-IN",
    ]
    print_table(
        f"Test errors in %, two parties, {kind}; {args.trees} trees, {args.runs} draws of hashes",
        columns,
        rows,
    )
    return results


def figure(part: str, names: list[str], args: Any) -> dict[str, Any]:
    """Errors by θ (Figure 2), or by the number of parties, unbalanced (3) or balanced (4)."""
    points = (0.6, 0.7, 0.8, 0.9) if part == "figure2" else (2, 4, 6, 8, 10)
    if args.quick:
        names, points = names[:2], points[::2]
    results: dict[str, Any] = {}
    rows, panels = [], {}
    runs = min(args.runs, 3)
    for name in tqdm(names, desc=part, disable=None):
        problem = load(name, args.rows)
        for point in points:
            n_parties, theta = (
                (2, point) if part == "figure2" else (point, None if part == "figure4" else 0.8)
            )
            found = errors(divide(problem, n_parties, theta), args.trees, runs)
            results.setdefault(name, {})[str(point)] = found
            solo = found["solo"]
            rows.append(
                [
                    f"{problem.title}, {point}",
                    mean_and_error(found["simfl"]),
                    found["tfl"],
                    min(solo),
                    max(solo),
                    found["all_in"],
                ]
            )
        lines = results[name].values()
        panels[name] = {
            "SimFL": (points, [np.mean(f["simfl"]) for f in lines], [np.std(f["simfl"]) for f in lines]),
            "TFL": (points, [f["tfl"] for f in lines], None),
            "best SOLO": (points, [min(f["solo"]) for f in lines], None),
            "ALL-IN": (points, [f["all_in"] for f in lines], None),
        }
    by = "θ" if part == "figure2" else "parties"
    columns = [f"data, {by}", "SimFL", "TFL", "best SOLO", "worst SOLO", "ALL-IN"]
    print_table(f"{part}: test errors in %, {args.trees} trees, {runs} draws", columns, rows)
    save_panels(args.out / f"simfl_{part}.png", panels, by, dict.fromkeys(panels, "test error in %"))
    return results


class Stopwatch:
    """CPU time of every answer of every party, in the answering thread; needs parties of one thread each."""

    def __init__(self, parties: list[HorizontalParty]) -> None:
        self.seconds: dict[tuple[str, str], list[float]] = {}
        for party in parties:
            party.handle = self._timed(party.name, party.handle)  # type: ignore[method-assign]

    def _timed(self, name: str, handle: Any) -> Any:
        from gbdt_parties import messages

        def timed(request: bytes) -> bytes:
            kind = type(messages.read(request).message).__name__
            started = time.thread_time()
            answer = handle(request)
            self.seconds.setdefault((name, kind), []).append(time.thread_time() - started)
            return answer

        return timed

    def mean(self, kind: str) -> float:
        """Mean seconds of an answer."""
        times = [t for (_, k), found in self.seconds.items() if k == kind for t in found]
        return float(np.mean(times)) if times else 0.0


def as_susy(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 18 columns, half of them functions of the others as in SUSY, and noisy labels."""
    random = np.random.default_rng(0)
    latent = random.standard_normal((n_rows, 9), dtype=np.float32)
    mixed = np.abs(latent @ random.standard_normal((9, 9), dtype=np.float32))
    X = np.hstack([latent, mixed + 0.3 * random.standard_normal((n_rows, 9), dtype=np.float32)])
    score = X[:, 0] * X[:, 1] + X[:, 9] - X[:, 10] + random.standard_normal(n_rows)
    return X, (score > 0).astype(np.float64)


def seconds_to_add_up(n_sums: int, n_rows: int) -> float:
    """CPU time in which the coordinator adds up the sums for a builder's rows."""
    column = np.random.default_rng(0).standard_normal(n_rows).astype(np.float32)
    sums, repeats = [AggregatedGradients(column, column)] * n_sums, 100
    started = time.thread_time()
    for _ in range(repeats):
        add_up(sums)
    return (time.thread_time() - started) / repeats


def timing(names: list[str], args: Any) -> dict[str, Any]:
    """Table 4: parties of equal size; CPU seconds of one thread a party, and bytes against the formulas.

    Ten parties of each data set, and two with 100,000 generated rows each.  A tree's critical path is one
    party's growing, and what the others do before and after, at the same time; binning is spread over trees,
    as it is in SOLO.
    """
    results, rows = {}, []
    trees = min(args.trees, 100)
    n_large = 2_000 if args.quick else 100_000
    X, y = as_susy(2 * n_large)
    cases = {f"2 x {n_large:,} rows": list(zip(np.split(X, 2), np.split(y, 2), strict=True))}
    for name in names:
        problem = load(name, args.rows)
        cases[problem.title] = divide(problem, 10, None).parties
    for name, data in tqdm(cases.items(), desc="table4", disable=None):
        n_parties = len(data)
        parties = [
            HorizontalParty(X, y, f"party{k}", categorical_labels=True, random_state=k, n_jobs=1)
            for k, (X, y) in enumerate(data)
        ]
        clock = Stopwatch(parties)
        training = SimFL(horizontal_settings(PARAMS), as_parties(parties), max_rounds=trees)
        started = time.process_time()
        model = training.run(LoopOptions(trees))
        whole = time.process_time() - started
        solo = []
        for X, y in data[:5]:
            started = time.process_time()
            booster = train_stock(X, y, trees, n_jobs=1)
            solo.append((time.process_time() - started) / trees)
        started = time.process_time()
        train_all_in(data, trees)
        all_in = (time.process_time() - started) / trees
        received = clock.mean("AggregatedGradients") + seconds_to_add_up(n_parties - 1, len(data[0][1]))
        path = clock.mean("AggregateGradients") + received + clock.mean("GrowTrees") + clock.mean("Trees")
        path += clock.mean("StartBoosting") / trees
        flows: dict[str, int] = {}
        for (sender, _, kind), flow in model.traffic.flows.items():
            if sender != "coordinator":
                flows[kind] = flows.get(kind, 0) + flow.bytes
        n_rows = sum(len(y) for _, y in data)
        hashes = training.n_hashes
        results[name] = {
            "solo_per_tree": float(np.mean(solo)),
            "simfl_critical_path_per_tree": path,
            "ratio": path / float(np.mean(solo)),
            "solo_nodes": len(booster.trees_to_dataframe()) / trees,
            "simfl_nodes": len(model.booster.trees_to_dataframe()) / trees,
            "growing_per_tree": clock.mean("GrowTrees"),
            "all_in_per_tree": all_in,
            "preprocessing": n_parties * ((n_parties - 1) * clock.mean("HashTable") + clock.mean("HashRows")),
            "whole": whole,
            "hash_bytes": flows["HashTable"] * (n_parties - 1),
            "hash_bytes_formula": 8 * n_parties * n_rows * hashes,
            "tree_bytes": (flows["AggregatedGradients"] + flows["Trees"] * (n_parties - 1)) / trees,
            "tree_bytes_formula": 8 * (n_rows + (2**8 - 1) * (n_parties - 1)),
        }
        r = results[name]
        rows.append(
            [
                name,
                1e3 * r["solo_per_tree"],
                1e3 * r["growing_per_tree"],
                1e3 * path,
                f"{r['ratio']:.2f}",
                f"{r['solo_nodes']:.0f}",
                f"{r['simfl_nodes']:.0f}",
                1e3 * all_in,
                r["preprocessing"],
                r["hash_bytes"] / 1e6,
                r["hash_bytes_formula"] / 1e6,
                r["tree_bytes"] / 1e6,
                r["tree_bytes_formula"] / 1e6,
            ]
        )
    columns = ["data", "SOLO ms", "growing ms", "SimFL ms", "SimFL/SOLO", "SOLO nodes", "SimFL nodes"]
    columns += ["ALL-IN ms", "prep s"]
    columns += ["hash MB", "8MNL", "tree MB", "formula"]
    print_table(
        f"Parties of equal size, ten of each data set, {trees} trees; CPU time and bytes per tree",
        columns,
        rows,
    )
    return results


def million(args: Any) -> dict[str, Any]:
    """Preprocessing of 1,000,000 x 18 rows in ten parties with L = 17: the issue's 120 s and 4 GiB."""
    import resource

    n_rows = 20_000 if args.quick else 1_000_000
    X, y = as_susy(n_rows)
    if args.gaussian:
        X = np.random.default_rng(0).standard_normal((n_rows, 18), dtype=np.float32)
    parties = list(zip(np.array_split(X, 10), np.array_split(y, 10), strict=True))
    training = SimFL(horizontal_settings(PARAMS), as_parties(parties, 0), n_hashes=17, max_rounds=0)
    started, used = time.perf_counter(), time.process_time()
    training.prepare()
    found = {
        "rows": n_rows,
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - used,
        "peak_GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print_table(
        f"Preprocessing of {n_rows:,} x 18 rows, ten parties, L = 17 (paper, 20 cores and a GPU: 963 s)",
        ["", "wall s", "CPU s", "CPU s / 2", "peak GiB"],
        [["SimFL", found["wall"], found["cpu"], found["cpu"] / 2, found["peak_GiB"]]],
    )
    return found


def by_min_similar(names: list[str], args: Any) -> dict[str, Any]:
    """Errors when sums of gradients are of at least one row, as in the paper, or of at least 3 or 10."""
    values, trees, runs = (1, 3, 10), min(args.trees, 100), min(args.runs, 5)
    results: dict[str, Any] = {}
    for name in tqdm(names, desc="similar", disable=None):
        split = divide(load(name, args.rows), 2, 0.8)
        results[name] = {str(m): simfl_errors(split, trees, runs, m) for m in values}
    print_table(
        f"Test errors in %, two parties, unbalanced, θ = 80%; {trees} trees, {runs} draws of hashes",
        ["data", *(f"min_similar={m}" for m in values)],
        [[name, *map(mean_and_error, found.values())] for name, found in results.items()],
    )
    return results


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few trees, draws and rows: does it run?")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--gaussian", action="store_true", help="independent normal columns in `million`")
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()
    warnings.simplefilter("ignore", HeuristicProtectionWarning)
    args.rows = None
    if args.quick:
        args.runs, args.trees, args.rows = 2, 20, 3_000
    names = list(args.only)
    for name in names:
        say(load(name, args.rows).describe())
    results: dict[str, Any] = {
        "machine": machine(available_threads()),
        "trees": args.trees,
        "runs": args.runs,
    }
    steps = {
        "table2": lambda: table_of_errors("table2", names, 0.8, args),
        "table3": lambda: table_of_errors("table3", names, None, args),
        "figure2": lambda: figure("figure2", names, args),
        "figure3": lambda: figure("figure3", names, args),
        "figure4": lambda: figure("figure4", names, args),
        "table4": lambda: timing(names, args),
        "million": lambda: million(args),
        "similar": lambda: by_min_similar(names, args),
    }
    for part in args.parts:
        results[part] = steps[part]()
    write_json(args.out / "simfl_paper.json", results)


if __name__ == "__main__":
    main()
