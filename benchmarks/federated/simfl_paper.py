"""SimFL against SOLO, TFL and ALL-IN: Tables 2 to 4, Figures 2 to 4 and Theorem 2 of Li, Wen and He (2020).

    VEILBOOST_DATA=folder python benchmarks/federated/simfl_paper.py --out docs/experiments/data
        [--quick] [--parts table2 ...] [--only a9a ...]

As the paper: 75% of the rows train, depth 8, 500 trees over all parties, L = min(40, d - 1), sums of the
gradients of single rows (`min_similar=1`), means of ten draws of the hash functions.  "As published" hashes
raw features with r = 4, draws ties once and leaves penalties unscaled (`as_published=True`); "SimFL" is our
method (docs/simfl.md).  Unlike the paper: XGBoost's hist in place of ThunderGBM, learning rate 0.1 (the paper
names none), a coordinator in place of an AllReduce, 8 columns of cod-rna where it has 9, 30,000 rows of SUSY
and 10,984 of HIGGS in place of 1,000,000; real-sim is left out.  SimFL and TFL are there in two orders:
parties alternate tree by tree, or each has one turn of all its trees.  Errors are of the test rows, which
nothing was chosen by, but for those of `choices`, which are of a quarter of the training rows.  Each part
leaves a CSV table, and a JSON file with all draws, the settings and the machine.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse
import xgboost
from tqdm import tqdm

from gbdt_kernels.threads import available_threads
from xgb_fed import HeuristicProtectionWarning
from xgb_fed.boosting.loop import LoopOptions
from xgb_fed.boosting.params import TREE_PARAMETERS, Settings, without_vertical_only
from xgb_fed.horizontal.common.model import horizontal_settings
from xgb_fed.horizontal.estimators import train_tfl
from xgb_fed.horizontal.parties import as_parties
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.simfl import boosting_state, own_hashes
from xgb_fed.horizontal.simfl.coordinator import SimFL, add_up
from xgb_fed.horizontal.simfl.lsh import PAPER_WINDOW
from xgb_fed.horizontal.simfl.messages import AggregatedGradients
from xgb_fed.horizontal.train_simfl import train_simfl

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.data import Problem, load
from benchmarks.common.report import machine, print_table, save_panels, say, write_csv, write_json

DATA = ("a9a", "codrna", "ijcnn1", "susy", "higgs")
FILES = {
    "choices": "simfl-choices",
    "similar": "simfl-min-similar",
    "table2": "simfl-table-2",
    "table3": "simfl-table-3",
    "figure2": "simfl-figure-2",
    "figure3": "simfl-figure-3",
    "figure4": "simfl-figure-4",
    "table4": "simfl-table-4",
    "million": "simfl-million",
    "theorem2": "simfl-theorem-2",
}
"""Parts, and the files that each one leaves; `million` wants 4 GiB and is run when it is asked for."""

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


def train_all_in(parties: list[tuple[Any, np.ndarray]], trees: int, n_jobs: int = 0) -> xgboost.Booster:
    """ALL-IN: stock XGBoost on the pooled rows, which the parties would have to reveal."""
    matrices, labels = zip(*parties, strict=True)
    return train_stock(stacked(list(matrices)), np.concatenate(labels), trees, n_jobs)


def simfl_errors(split: Split, trees: int, runs: int, **how: Any) -> list[float]:
    """Test errors of SimFL in percent, one per draw of the hash functions."""
    how = {"min_similar": 1, "verbose_eval": False, **how}
    return [
        error(train_simfl(PARAMS, split.parties, trees, hash_seed=run, **how).booster, split)
        for run in range(runs)
    ]


def errors(split: Split, trees: int, runs: int) -> dict[str, Any]:
    """Test errors of all methods; SimFL's for every draw of the hashes."""
    one_turn = -(-trees // len(split.parties))

    def tfl(turn: int) -> float:
        model = train_tfl(PARAMS, split.parties, trees, rounds_per_turn=turn, verbose_eval=False)
        return error(model.booster, split)

    return {
        "simfl": simfl_errors(split, trees, runs),
        "published": simfl_errors(split, trees, runs, as_published=True),
        "simfl_one_turn": simfl_errors(split, trees, runs, rounds_per_turn=one_turn),
        "tfl": tfl(1),
        # One turn for each party: the order that comes out near the paper's figures for TFL.
        "tfl_one_turn": tfl(one_turn),
        "solo": [error(train_stock(X, y, trees), split) for X, y in split.parties],
        "all_in": error(train_all_in(split.parties, trees), split),
    }


ERRORS = ("SimFL", "as published", "SimFL, one turn each", "TFL", "TFL, one turn each")
"""Columns of the methods of several parties."""


def shown(found: dict[str, Any]) -> list[str]:
    """The cells of the columns `ERRORS`."""
    drawn = [mean_and_error(found[name]) for name in ("simfl", "published", "simfl_one_turn")]
    return [*drawn, f"{found['tfl']:.2f}", f"{found['tfl_one_turn']:.2f}"]


def mean_and_error(values: list[float]) -> str:
    """Mean ± standard error, or the one value that there is."""
    spread = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}"


def settings(trees: int, runs: int) -> str:
    """The corner of a table: what its figures are of."""
    return f"{trees} trees, {runs} draw{'s' * (runs > 1)}"


Table = tuple[str, list[str], list[list[Any]]]
"""Title, columns and rows."""


def table_of_errors(part: str, theta: float | None, args: Any) -> tuple[dict[str, Any], Table]:
    """Table 2 (unbalanced) or 3 (balanced): two parties, the paper's figures below ours."""
    results, rows = {}, []
    for name in tqdm(args.only, desc=part, disable=None):
        problem = load(name, args.rows)
        found = results[name] = errors(divide(problem, 2, theta), args.trees, args.runs)
        ours = [*shown(found), *(f"{e:.2f}" for e in found["solo"]), f"{found['all_in']:.2f}"]
        simfl, tfl, a, b, all_in = PAPER[part][name]
        rows += [[problem.title, *ours], ["the paper", "", simfl, "", "", tfl, a, b, all_in]]
    kind = "balanced" if theta is None else f"unbalanced, θ = {theta:.0%}"
    title = f"Test errors in %, two parties, {kind}; {args.trees} trees, {args.runs} draws of hashes"
    columns = [settings(args.trees, args.runs), *ERRORS, "SOLO A", "SOLO B", "ALL-IN"]
    return results, (title, columns, rows)


def figure(part: str, args: Any) -> tuple[dict[str, Any], Table]:
    """Errors by θ (Figure 2), or by the number of parties, unbalanced (3) or balanced (4)."""
    names, points = args.only, (0.6, 0.7, 0.8, 0.9) if part == "figure2" else (2, 4, 6, 8, 10)
    if args.quick:
        names, points = names[:2], points[::2]
    results: dict[str, Any] = {}
    rows, panels = [], {}
    runs = min(args.runs, 2)
    for name in tqdm(names, desc=part, disable=None):
        problem = load(name, args.rows)
        for point in points:
            n_parties, theta = (
                (2, point) if part == "figure2" else (point, None if part == "figure4" else 0.8)
            )
            found = errors(divide(problem, n_parties, theta), args.trees, runs)
            results.setdefault(name, {})[str(point)] = found
            ends = (min(found["solo"]), max(found["solo"]), found["all_in"])
            rows.append([problem.title, point, *shown(found), *(f"{e:.2f}" for e in ends)])
        lines = results[name].values()
        drawn = {"SimFL": "simfl", "as published": "published"}
        single = {"TFL": "tfl", "TFL, one turn each": "tfl_one_turn", "ALL-IN": "all_in"}
        panels[name] = {
            label: (points, [np.mean(f[key]) for f in lines], [np.std(f[key]) for f in lines])
            for label, key in drawn.items()
        }
        panels[name] |= {label: (points, [f[key] for f in lines], None) for label, key in single.items()}
        panels[name]["best SOLO"] = (points, [min(f["solo"]) for f in lines], None)
    by = "θ" if part == "figure2" else "parties"
    save_panels(args.out / f"{FILES[part]}.png", panels, by, dict.fromkeys(panels, "test error in %"))
    title = f"{part}: test errors in %, {args.trees} trees, {runs} draws"
    columns = [settings(args.trees, runs), by, *ERRORS, "best SOLO", "worst SOLO", "ALL-IN"]
    return results, (title, columns, rows)


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


def cases_of_timing(args: Any) -> dict[str, list[tuple[Any, np.ndarray]]]:
    """Ten parties of each data set, and two with 100,000 generated rows each."""
    n_large = 2_000 if args.quick else 100_000
    X, y = as_susy(2 * n_large)
    cases = {f"2 × {n_large:,} generated rows": list(zip(np.split(X, 2), np.split(y, 2), strict=True))}
    for name in args.only:
        problem = load(name, args.rows)
        cases[problem.title] = divide(problem, 10, None).parties
    return cases


def seconds_per_tree(train: Any, trees: int) -> float:
    """CPU time of stock training per tree."""
    started = time.process_time()
    train()
    return (time.process_time() - started) / trees


def timed(data: list[tuple[Any, np.ndarray]], trees: int) -> dict[str, float]:
    """Times and bytes of one case of Table 4, beside the paper's formulas for bytes.

    A tree's critical path is one party's growing, and what the others do before and after, at the same time;
    binning is spread over trees, as it is in SOLO.
    """
    n_parties, n_rows = len(data), sum(len(y) for _, y in data)
    parties = [
        HorizontalParty(X, y, f"party{k}", categorical_labels=True, random_state=k, n_jobs=1)
        for k, (X, y) in enumerate(data)
    ]
    clock = Stopwatch(parties)
    training = SimFL(horizontal_settings(PARAMS), as_parties(parties), max_rounds=trees)
    model = training.run(LoopOptions(trees))
    solo = [seconds_per_tree(lambda X=X, y=y: train_stock(X, y, trees, 1), trees) for X, y in data[:5]]
    received = clock.mean("AggregatedGradients") + seconds_to_add_up(n_parties - 1, len(data[0][1]))
    path = clock.mean("AggregateGradients") + received + clock.mean("GrowTrees") + clock.mean("Trees")
    flows: dict[str, int] = {}
    for (sender, _, kind), flow in model.traffic.flows.items():
        if sender != "coordinator":
            flows[kind] = flows.get(kind, 0) + flow.bytes
    return {
        "rows_per_party": len(data[0][1]),
        "solo": float(np.mean(solo)),
        "growing": clock.mean("GrowTrees"),
        "simfl": path + clock.mean("StartBoosting") / trees,
        "all_in": seconds_per_tree(lambda: train_all_in(data, trees, 1), trees),
        "simfl_nodes": len(model.booster.trees_to_dataframe()) / trees,
        "solo_nodes": len(train_stock(*data[0], trees, 1).trees_to_dataframe()) / trees,
        # Of one party: its own rows hashed, and those of each other party searched for.
        "preprocessing": (n_parties - 1) * clock.mean("HashTable") + clock.mean("HashRows"),
        "hash_bytes": flows["HashTable"] * (n_parties - 1) / n_parties,
        "hash_bytes_formula": 8 * n_rows * training.n_hashes,
        "tree_bytes": (flows["AggregatedGradients"] + flows["Trees"] * (n_parties - 1)) / trees,
        "tree_bytes_formula": 8 * (n_rows + (2**8 - 1) * (n_parties - 1)),
    }


def timing(args: Any) -> tuple[dict[str, Any], Table]:
    """Table 4: parties of equal size; CPU seconds of one thread a party, and bytes against the formulas."""
    results, rows = {}, []
    trees = min(args.trees, 100)
    for name, data in tqdm(cases_of_timing(args).items(), desc="table4", disable=None):
        r = results[name] = timed(data, trees)
        times = [f"{1e3 * r[kind]:.1f}" for kind in ("all_in", "solo", "growing", "simfl")]
        ratios = [f"{r['simfl'] / r[kind]:.2f}" for kind in ("solo", "all_in")]
        nodes = [f"{r[kind]:.0f}" for kind in ("solo_nodes", "simfl_nodes")]
        sizes = [
            f"{r[kind] / 1e6:.2g}"
            for kind in ("hash_bytes", "hash_bytes_formula", "tree_bytes", "tree_bytes_formula")
        ]
        size = f"{r['rows_per_party']:,}"
        rows.append([name, size, *times, *ratios, *nodes, f"{r['preprocessing']:.2g}", *sizes])
    columns = [
        f"{trees} trees",
        "rows per party",
        "ALL-IN, ms",
        "SOLO, ms",
        "growing, ms",
        "SimFL, ms",
        "SimFL / SOLO",
    ]
    columns += ["SimFL / ALL-IN", "nodes, SOLO", "nodes, SimFL", "preprocessing, s", "MB in it"]
    columns += ["8NL", "MB per tree", "formula"]
    title = f"Parties of equal size, ten of each data set, {trees} trees; CPU time and bytes per tree"
    return results, (title, columns, rows)


def million(args: Any) -> tuple[dict[str, Any], Table]:
    """Preprocessing of 1,000,000 × 18 rows in ten parties with L = 17, the paper's size of SUSY."""
    import resource

    n_rows = 20_000 if args.quick else 1_000_000
    X, y = as_susy(n_rows)
    parties = list(zip(np.array_split(X, 10), np.array_split(y, 10), strict=True))
    training = SimFL(horizontal_settings(PARAMS), as_parties(parties, 0), n_hashes=17, max_rounds=0)
    used = time.process_time()
    training.prepare()
    found = {
        "rows": n_rows,
        "cpu": time.process_time() - used,
        "peak_GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    title = "Preprocessing of ten parties, L = 17 (paper, SUSY, 20 cores and a GPU: 963 s)"
    cells = [f"{n_rows:,} × 18", f"{found['cpu']:.0f}", f"{found['peak_GiB']:.1f}"]
    return found, (title, ["rows", "processor seconds, all parties", "peak, GiB"], [cells])


def by_min_similar(args: Any) -> tuple[dict[str, Any], Table]:
    """Errors when sums of gradients are of at least one row, as in the paper, or of at least 3 or 10."""
    values, trees, runs = (1, 3, 10), min(args.trees, 100), min(args.runs, 5)
    results: dict[str, Any] = {}
    for name in tqdm(args.only, desc="similar", disable=None):
        split = divide(load(name, args.rows), 2, 0.8)
        results[name] = {str(m): simfl_errors(split, trees, runs, min_similar=m) for m in values}
    title = f"Test errors in %, two parties, unbalanced, θ = 80%; {trees} trees, {runs} draws of hashes"
    rows = [[name, *map(mean_and_error, found.values())] for name, found in results.items()]
    return results, (title, [settings(trees, runs), *(f"min_similar={m}" for m in values)], rows)


DEPARTURES: dict[str, tuple[Any, str, Any]] = {
    "ties drawn once": (boosting_state, "TIE_DRAWS", 1),
    "r = 4": (own_hashes, "typical_distance", lambda std: PAPER_WINDOW),
    "penalties not scaled": (boosting_state, "PENALTIES", ()),
}
"""What takes back one departure from the paper: the module, the name in it, and its value."""


def choices(args: Any) -> tuple[dict[str, Any], Table]:
    """Errors on a quarter of the training rows with one departure from the paper taken back, and with all."""
    trees, runs = min(args.trees, 200), min(args.runs, 3)
    results: dict[str, Any] = {}
    for name in tqdm(args.only, desc="choices", disable=None):
        held_out = divide(load(name, args.rows), 2, 0.8)
        X, y = (stacked([party[k] for party in held_out.parties]) for k in (0, 1))
        train = Problem(name, X, y, "binary", (0, 1), None, 32, "file", "")
        split = divide(train, 2, 0.8)
        found = results[name] = {"SimFL": simfl_errors(split, trees, runs)}
        for label, (module, attribute, value) in DEPARTURES.items():
            with patch.object(module, attribute, value):
                found[label] = simfl_errors(split, trees, runs)
        found["all three, raw features"] = simfl_errors(split, trees, runs, as_published=True)
    title = f"Errors in % of rows held out of training, θ = 80%; {trees} trees, {runs} draws of hashes"
    columns = [settings(trees, runs), "SimFL", *DEPARTURES, "all three, raw features"]
    rows = [[name, *map(mean_and_error, found.values())] for name, found in results.items()]
    return results, (title, columns, rows)


def stacked(parts: list[Any]) -> Any:
    """One matrix or vector of several."""
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.vstack(parts).tocsr()
    return np.concatenate(parts)


def theorem2(args: Any) -> tuple[dict[str, Any], Table]:
    """The error of the first tree's objective beside the bound of Theorem 2 (δ = 5%).

    Party A grows the tree, B's rows stand at A's; distances are of columns scaled to [0, 1], as the theorem
    assumes them, and d_m is the diameter of their box, of which a smaller one would make the bound larger.
    """
    results, rows = {}, []
    for name in tqdm(args.only, desc="theorem2", disable=None):
        split = divide(load(name, args.rows), 2, 0.8)
        r = results[name] = first_tree(split)
        rows.append([name, *(f"{r[kind]:.3g}" for kind in r)])
    columns = ["", "other leaf", "1 − (1 − d_t/d_m)^D", "ε, measured", "bound", "objective"]
    return results, ("Theorem 2, first tree, two parties, θ = 80%", columns, rows)


def first_tree(split: Split) -> dict[str, float]:
    """What Theorem 2 speaks of, for the first tree."""
    parties = [
        HorizontalParty(X, y, f"p{k}", categorical_labels=True, min_similar=1, random_state=k)
        for k, (X, y) in enumerate(split.parties)
    ]
    training = SimFL(horizontal_settings(PARAMS), as_parties(parties), max_rounds=1)
    training.prepare()
    order = parties[0].simfl.disclosures.order(len(split.parties[0][1]))
    similar = order[parties[1].simfl.state.similar[0][0]]
    with patch.object(training, "prepare", lambda: None):
        booster = training.run(LoopOptions(1)).booster
    dense = [X.toarray() if scipy.sparse.issparse(X) else X for X, _ in split.parties]
    y = np.concatenate([labels for _, labels in split.parties])
    data = [xgboost.DMatrix(X) for X, _ in split.parties]
    own, theirs = (booster.predict(X, pred_leaf=True) for X in data)
    start = float(np.log(y.mean() / (1 - y.mean())))
    value, their_value = (booster.predict(X, output_margin=True) - start for X in data)
    g, h = y.mean() - split.parties[1][1], y.mean() * (1 - y.mean())
    change = g * (value[similar] - their_value) + h * (value[similar] ** 2 - their_value**2) / 2
    scale = np.ptp(np.concatenate(dense), axis=0)
    unit = [X / np.where(scale > 0, scale, 1) for X in dense]
    farthest = float(np.abs(unit[0][similar] - unit[1]).sum(axis=1).max()) / np.count_nonzero(scale)
    n_others, largest = len(g), float(max(np.abs(value).max(), np.abs(their_value).max()))
    apart = 1 - (1 - farthest) ** PARAMS["max_depth"]
    each = 2 * np.abs(y.mean() - y).max() * largest + h * largest**2 / 2
    g_own = y.mean() - split.parties[0][1]
    objective = (g * their_value + h * their_value**2 / 2).sum() + (g_own * value + h * value**2 / 2).sum()
    return {
        "other_leaf": float((own[similar] != theirs).mean()),
        "other_leaf_bound": apart,
        "error": float(abs(change.sum())),
        "bound": float((apart * n_others + np.sqrt(n_others * np.log(20) / 2)) * each),
        "objective": float(objective),
    }


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few trees, draws and rows: does it run?")
    usual = [part for part in FILES if part != "million"]
    parser.add_argument("--parts", nargs="+", choices=FILES, default=usual)
    parser.add_argument("--only", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()
    warnings.simplefilter("ignore", HeuristicProtectionWarning)
    args.rows = None
    if args.quick:
        args.runs, args.trees, args.rows = 2, 20, 3_000
    for name in args.only:
        say(load(name, args.rows).describe())
    steps = {
        "choices": choices,
        "similar": by_min_similar,
        "table2": lambda args: table_of_errors("table2", 0.8, args),
        "table3": lambda args: table_of_errors("table3", None, args),
        "table4": timing,
        "million": million,
        "theorem2": theorem2,
    }
    for part in args.parts:
        used = time.process_time()
        step = steps.get(part, lambda args, part=part: figure(part, args))
        results, (title, columns, rows) = step(args)
        print_table(title, columns, rows)
        write_csv(args.out / f"{FILES[part]}.csv", columns, rows)
        settings = {"title": title, "params": PARAMS, "processor_seconds": time.process_time() - used}
        content = {"machine": machine(available_threads()), **settings, "results": results}
        write_json(args.out / f"{FILES[part]}.json", content)


if __name__ == "__main__":
    main()
