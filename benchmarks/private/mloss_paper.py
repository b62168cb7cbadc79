"""The experiments of the M-loss paper (Nock and Henecka, 2020) on this implementation.

    VEILBOOST_DATA=folder python benchmarks/private/mloss_paper.py [--quick] [--jobs 2] [--folds 10]
        [--sets sonar,yeast] [--reuse] [--out docs/experiments/data]

figure1     the M-loss: partial losses, Bayes risk, link, inverse link, surrogate
without     what alpha does without noise
best        which alpha has the best model of its grid, by epsilon (the paper's Table 1)
readings    significant wins and losses against RF-L and RF-E in three readings (the paper's Table 4)
trees       the same, by the number of boosted trees
sets        error of one setting for all data sets, beside the forests
regimes     depth and number of trees of the best O.C. models (the paper's Table 3)
grid        bounds M of leaf values, and shares of the budget for leaves
bins        10 or 50 values per feature
figure2     errors over all settings, and leaves and depths of trees
efficiency  tree efficiency (Theorem 13), edges of splits and training error by depth (Theorem 10)
unpaid      bdpe_alpha with exact leveraging coefficients, free as printed, and with public ones
rate        how far trees without noise lower the surrogate, beside what their edges grant (Theorem 12)
time        milliseconds per tree against DPBoost in the same run

Stratified cross-validation; differences count as significant where a paired t-test over the folds gives
p < 0.05.  Folds, test rows and the number of rows are public here: an experiment, not a release.
Best models are chosen on test folds, as the paper does; `sets` chooses nothing.

Boosting comes in four kinds.  "smoothed" is `MBoost(smoothing=0.1)`, "criterion" the same with the printed
criterion (no smoothing).  "published" is the paper's bdpe_alpha (`bdpe.boost`), which is not private, and
"divided" the same with noised class weights in the leaves in place of noised links; both divide the budget
of a level among its nodes, as the paper does.

The forests come in three readings of where a tree's budget goes: "whole" is ours, every leaf gets all of it;
"divided" is the paper's, evenly among the leaves; "disjoint" divides too, and gives each tree rows of its own
and so all of epsilon.  Each table is written to `mloss-TABLE.txt`, the figures of all to `mloss-tables.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from scipy.stats import ttest_rel
from sklearn.model_selection import StratifiedKFold
from tqdm import tqdm

import lgb_dp

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common import report
from benchmarks.common.data import UCI_POSITIVE, Problem, load, uci_binary
from benchmarks.private import bdpe

EXACT = float("inf")
ALPHAS: Mapping[str, Any] = {"0.1": 0.1, "1.0": 1.0, "O.C.": "calibrated"}
KINDS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "smoothed": {"": {"smoothing": 0.1}},
    "criterion": {"O.C.": {"smoothing": 0.0, "weight_share": 0.1}, "": {"smoothing": 0.0}},
    "published": {},
    "divided": {},
}
"""Options of `MBoost`, by alpha; none for `bdpe.boost`.  With the printed criterion O.C. pays for weights."""
LEAVES: Mapping[str, bdpe.Leaves] = {"published": "link", "divided": "counts"}
OUR_FORESTS: Mapping[str, Any] = {"RF-L": lgb_dp.RandomForestLaplace, "RF-E": lgb_dp.RandomForestExponential}
READINGS = ("whole", "divided", "disjoint")
RATE = 0.5
SIGNIFICANT = 0.05
PLAIN_DEPTH, PLAIN_TREES = 3, 1
"""The setting of the table of data sets."""
GRID_DEPTH, GRID_TREES = 3, 5
REGIME_EPSILON, REGIME_DEPTHS, REGIME_TREES = 10.0, (2, 4, 6), (1, 5, 10)
BOUNDS = (0.5, 1.0, 4.0)
SHARES = (0.1, 0.3, 0.5, 0.9)
MANY_BINS = 50
WEAK = 0.1
"""Edge of a split that counts as learning something, the gamma of the weak learning assumption."""

PUBLIC_EDGE = 0.1
"""Edge of every tree where leveraging coefficients read no row."""

TABLE_3 = {
    "page_blocks": "small, small",
    **dict.fromkeys(("breast_cancer", "ionosphere", "yeast", "abalone"), "small, big"),
    "hill_valley_without_noise": "big, small",
    **dict.fromkeys(("transfusion", "banknote", "sonar", "hill_valley_with_noise"), "big, big"),
    **dict.fromkeys(("qsar_biodeg", "winequality_red", "winequality_white"), "big, big"),
}
"""Depth and number of trees of the best models with privacy, by the paper."""


@dataclass(frozen=True)
class Scope:
    """How much to run."""

    names: tuple[str, ...] = (*UCI_POSITIVE, "breast_cancer")
    epsilons: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)
    depths: tuple[int, ...] = (2, 4)
    trees: tuple[int, ...] = (1, 5, 10)
    forest_depths: tuple[int, ...] = (2, 4, 6)
    forest_trees: tuple[int, ...] = (21,)
    grid_epsilons: tuple[float, ...] = (1.0, 10.0)
    folds: int = 10


QUICK = Scope(
    names=("transfusion", "banknote", "qsar_biodeg", "breast_cancer"),
    epsilons=(0.1, 1.0, 10.0),
    depths=(3,),
    trees=(1, 5),
    forest_depths=(3,),
    grid_epsilons=(1.0,),
    folds=5,
)


@dataclass(frozen=True)
class Setting:
    """A way to train; `bound`, `leaf_share` and `bins` are None where a method's own defaults hold."""

    method: str
    kind: str
    depth: int
    trees: int
    bound: float | None = None
    leaf_share: float | None = None
    bins: int | None = None

    @property
    def key(self) -> str:
        """Name in the JSON file."""
        return "|".join(str(part) for part in vars(self).values())


class Fold:
    """Training and test rows, for LightGBM and for the algorithms as printed."""

    def __init__(self, problem: Problem, train: np.ndarray, test: np.ndarray, number: int) -> None:
        self.problem, self.train, self.test = problem, train, test
        self.random = np.random.default_rng([number, len(train)])
        self._datasets: dict[int, lgb_dp.Dataset] = {}
        self._rows: dict[int, tuple[bdpe.Rows, bdpe.Rows]] = {}

    def errors(self, setting: Setting, epsilon: float) -> float:
        """Test error in percent of one model."""
        bins = setting.bins or self.problem.max_bin
        native = setting.kind in ("whole", "smoothed", "criterion")
        score = self._native(setting, epsilon, bins) if native else self._printed(setting, epsilon, bins)
        return 100 * float(np.mean((score > 0) != (self.problem.y[self.test] == 1)))

    def _native(self, setting: Setting, epsilon: float, bins: int) -> np.ndarray:
        """Raw scores of a model of `lgb_dp`."""
        if bins not in self._datasets:
            X, y = self.problem.rows(self.train)
            shared = {"bounds": self.problem.bounds, "max_bin": bins}
            self._datasets[bins] = lgb_dp.Dataset(X, y, **shared).construct()
        data = self._datasets[bins]
        if setting.kind == "whole":
            trainer = OUR_FORESTS[setting.method](epsilon)
        else:
            options = {"leaf_bound": setting.bound, "leaf_share": setting.leaf_share}
            extra = {k: v for k, v in options.items() if v is not None}
            of_kind = KINDS[setting.kind]
            extra |= of_kind.get(setting.method, of_kind[""])
            trainer = lgb_dp.MBoost(epsilon, alpha=ALPHAS[setting.method], n_rows=data.num_data(), **extra)
        params = {
            "objective": "binary",
            "max_depth": setting.depth,
            "learning_rate": RATE,
            "num_threads": 1,
            "verbosity": -1,
        }
        booster = lightgbm.train(params, data, setting.trees, callbacks=[trainer])
        return booster.predict(self.problem.X[self.test], raw_score=True, num_threads=1)

    def _printed(self, setting: Setting, epsilon: float, bins: int) -> np.ndarray:
        """Scores of a model as printed."""
        if bins not in self._rows:
            both = (self.problem.rows(index) for index in (self.train, self.test))
            self._rows[bins] = tuple(bdpe.quantised(X, y, self.problem.bounds, bins) for X, y in both)
        rows = self._rows[bins]
        size = setting.depth, setting.trees
        if setting.method in OUR_FORESTS:
            disjoint = setting.kind == "disjoint"
            return bdpe.forest(*rows, setting.method, *size, bdpe.Budget(epsilon), self.random, disjoint)
        budget = bdpe.Budget(epsilon, setting.leaf_share or 0.5)
        alpha = bdpe.CALIBRATED if setting.method == "O.C." else ALPHAS[setting.method]
        bound = setting.bound or 1.0
        return bdpe.boost(*rows, alpha, *size, budget, self.random, bound, LEAVES[setting.kind])[0]


def boosted(scope: Scope, kind: str) -> list[Setting]:
    """All settings of boosting of a kind."""
    grid = itertools.product(ALPHAS, scope.depths, scope.trees)
    return [Setting(alpha, kind, depth, trees) for alpha, depth, trees in grid]


def forests(scope: Scope, reading: str) -> list[Setting]:
    """All settings of the random forests in a reading."""
    grid = itertools.product(OUR_FORESTS, scope.forest_depths, scope.forest_trees)
    return [Setting(name, reading, depth, trees) for name, depth, trees in grid]


def plain() -> list[Setting]:
    """The settings of the table of data sets."""
    return [Setting(alpha, "smoothed", PLAIN_DEPTH, PLAIN_TREES) for alpha in ALPHAS]


GRID_KINDS = ("smoothed", "published")


def of_grid(kind: str, bound: float, share: float) -> Setting:
    """A setting of the grid of bounds and shares."""
    return Setting("O.C.", kind, GRID_DEPTH, GRID_TREES, bound, share)


def of_bins(kind: str, alpha: str, bins: int) -> Setting:
    """A setting of the comparison of 10 and 50 values."""
    return Setting(alpha, kind, GRID_DEPTH, GRID_TREES, bins=bins)


def runs(scope: Scope) -> list[tuple[Setting, float]]:
    """Every setting with every epsilon, each once."""
    private = [*itertools.chain.from_iterable(boosted(scope, kind) for kind in KINDS), *plain()]
    private += itertools.chain.from_iterable(forests(scope, reading) for reading in READINGS)
    pairs = [(setting, epsilon) for setting in private for epsilon in scope.epsilons]
    grid = [of_grid(*parts) for parts in itertools.product(GRID_KINDS, BOUNDS, SHARES)]
    grid += [of_bins(*parts) for parts in itertools.product(GRID_KINDS, ALPHAS, (None, MANY_BINS))]
    pairs += [(setting, epsilon) for setting in grid for epsilon in scope.grid_epsilons]
    exact = [*boosted(scope, "smoothed"), *boosted(scope, "published"), *plain()]
    return list(dict.fromkeys([*pairs, *((setting, EXACT) for setting in exact)]))


Errors = dict[str, list[float]]
"""Test error in percent of every fold, by setting and epsilon (`of`)."""


def of(setting: Setting, epsilon: float) -> str:
    """Key of a setting with a budget."""
    return f"{setting.key}|{epsilon:g}"


def errors_of(name: str, scope: Scope) -> tuple[str, Errors, float] | None:
    """A data set's line, fold errors of every run, and the error of the majority class; None without it."""
    problem = uci_binary(name)
    if problem is None:
        return None
    errors: Errors = {}
    for number, (train, test) in enumerate(splits(problem, scope)):
        fold = Fold(problem, train, test, number)
        for setting, epsilon in runs(scope):
            errors.setdefault(of(setting, epsilon), []).append(fold.errors(setting, epsilon))
    return problem.describe(), errors, 100 * float(min(problem.y.mean(), 1 - problem.y.mean()))


def splits(problem: Problem, scope: Scope) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of each fold."""
    folds = StratifiedKFold(scope.folds, shuffle=True, random_state=0)
    return folds.split(problem.X, problem.y)


@dataclass(frozen=True)
class Found:
    """Errors by data set, and those of the majority class."""

    errors: dict[str, Errors]
    constant: dict[str, float]
    folds: int


def all_errors(scope: Scope, jobs: int, path: Path, reuse: bool) -> Found:
    """Errors of all data sets, side by side on `jobs` processes; `path` keeps those that are there."""
    known = json.loads(path.read_text()) if reuse and path.exists() else {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        missing = [name for name in scope.names if name not in known]
        tasks = {name: pool.submit(errors_of, name, scope) for name in missing}
        for name, task in tqdm(tasks.items(), desc="data sets", unit="set"):
            result = task.result()
            if result is None:
                report.say(f"{name}: not in the folder, left out")
                continue
            known[name] = result
            report.write_json(path, known)
    names = [name for name in scope.names if name in known]
    return Found({n: known[n][1] for n in names}, {n: known[n][2] for n in names}, scope.folds)


# Comparisons


def mean(errors: Errors, setting: Setting, epsilon: float) -> float:
    """Mean error over the folds."""
    return float(np.mean(errors[of(setting, epsilon)]))


def best(errors: Errors, settings: Iterable[Setting], epsilon: float) -> Setting:
    """Setting of the smallest mean error."""
    return min(settings, key=lambda setting: mean(errors, setting, epsilon))


def better(a: Sequence[float], b: Sequence[float]) -> int:
    """1 if `a` has significantly smaller errors, -1 if `b` has, 0 otherwise."""
    difference = np.asarray(a) - np.asarray(b)
    if np.ptp(difference) == 0:
        return -int(np.sign(difference[0]))
    return -int(np.sign(difference.mean())) if ttest_rel(a, b).pvalue < SIGNIFICANT else 0


def outcomes_of(
    found: Found, ours: Sequence[Setting], theirs: Sequence[Setting], epsilon: float
) -> list[int]:
    """Outcome of every pair of settings on every data set."""
    pairs = itertools.product(found.errors.values(), ours, theirs)
    return [better(e[of(a, epsilon)], e[of(b, epsilon)]) for e, a, b in pairs]


def won(outcomes: Sequence[int]) -> str:
    """Wins, losses, and the percentage of wins among decided comparisons."""
    wins, losses = outcomes.count(1), outcomes.count(-1)
    return f"{wins}:{losses}" + (f" ({100 * wins / (wins + losses):.0f}%)" if wins + losses else "")


# Tables


def without(found: Found, scope: Scope) -> dict[str, Any]:
    """Error without noise, of the best model and over the grid."""
    result: dict[str, Any] = {}
    for kind, title in (("smoothed", "MBoost"), ("published", "as published")):
        grid, rows = boosted(scope, kind), []
        for name, errors in found.errors.items():
            means = {alpha: [mean(errors, s, EXACT) for s in grid if s.method == alpha] for alpha in ALPHAS}
            rows.append([name, *(min(v) for v in means.values()), *map(_average, means.values())])
        columns = ["data set", *(f"{a} best" for a in ALPHAS), *(f"{a} mean" for a in ALPHAS)]
        last = ["mean", *(_average(row[i] for row in rows) for i in range(1, len(columns)))]
        report.print_table(f"Test error (%) without noise, {title}", columns, [*rows, last])
        result[title] = {row[0]: row[1:] for row in [*rows, last]}
    return result


def _average(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def best_models(found: Found, scope: Scope) -> dict[str, Any]:
    """Data sets on which each alpha has the best model, and on which no other is significantly better."""
    rows, result = [], {}
    for kind, epsilon in itertools.product(KINDS, (*scope.epsilons, EXACT)):
        if epsilon == EXACT and kind not in ("smoothed", "published"):
            continue
        firsts, tied = dict.fromkeys(ALPHAS, 0), dict.fromkeys(ALPHAS, 0)
        means: dict[str, list[float]] = {alpha: [] for alpha in ALPHAS}
        for errors in found.errors.values():
            grid = boosted(scope, kind)
            champions = {a: best(errors, [s for s in grid if s.method == a], epsilon) for a in ALPHAS}
            scores = {a: mean(errors, s, epsilon) for a, s in champions.items()}
            folds = {a: errors[of(s, epsilon)] for a, s in champions.items()}
            for alpha in ALPHAS:
                firsts[alpha] += scores[alpha] == min(scores.values())
                tied[alpha] += all(better(folds[a], folds[alpha]) <= 0 for a in ALPHAS)
                means[alpha].append(scores[alpha])
        label = f"{kind}, epsilon {epsilon:g}"
        averages = {alpha: _average(values) for alpha, values in means.items()}
        rows.append([label, *firsts.values(), *tied.values(), *averages.values()])
        result[label] = {"first": firsts, "tied": tied, "mean": averages}
    columns = [f"{a} {what}" for what in ("first", "tied", "error") for a in ALPHAS]
    report.print_table(f"Best models of {len(found.errors)} data sets", ["kind", *columns], rows)
    return result


def readings(found: Found, scope: Scope) -> dict[str, Any]:
    """Every setting of boosting against every forest, in each reading of the forests' budget."""
    result: dict[str, Any] = {}
    for reading in READINGS:
        rows = []
        for kind, alpha in itertools.product(KINDS, ALPHAS):
            ours = [s for s in boosted(scope, kind) if s.method == alpha]
            outcomes = [outcomes_of(found, ours, forests(scope, reading), e) for e in scope.epsilons]
            cells = [won(o) for o in (*outcomes, list(itertools.chain.from_iterable(outcomes)))]
            rows.append([f"{alpha}, {kind}", *cells])
            result[f"{rows[-1][0]}, against {reading}"] = cells
        title = f"Significant wins:losses against RF-L and RF-E, budget of a tree {reading}"
        report.print_table(title, ["boosting", *(f"epsilon {e:g}" for e in scope.epsilons), "all"], rows)
    return result


def by_trees(found: Found, scope: Scope) -> dict[str, Any]:
    """Wins and losses against both forests together, by the number of boosted trees."""
    result: dict[str, Any] = {}
    for reading, kind in itertools.product(READINGS[:2], ("smoothed", "published", "divided")):
        rows = []
        for alpha, trees in itertools.product(ALPHAS, scope.trees):
            ours = [s for s in boosted(scope, kind) if (s.method, s.trees) == (alpha, trees)]
            outcomes = (outcomes_of(found, ours, forests(scope, reading), e) for e in scope.epsilons)
            rows.append([f"{alpha}, {trees} trees", *(f"{o.count(1)}:{o.count(-1)}" for o in outcomes)])
            result[f"{kind}, {rows[-1][0]}, against {reading}"] = rows[-1][1:]
        title = f"Wins:losses of {kind} boosting against RF-L and RF-E, budget of a tree {reading}"
        report.print_table(title, ["alpha", *(f"epsilon {e:g}" for e in scope.epsilons)], rows)
    return result


def data_sets(found: Found, scope: Scope) -> dict[str, Any]:
    """Error of one public setting, beside the best published models and forests and the majority class."""
    result: dict[str, Any] = {}
    others = {f"best {n}, {r}": (n, r) for n, r in itertools.product(OUR_FORESTS, READINGS[:2])}
    for epsilon in scope.epsilons:
        rows = []
        for name, errors in found.errors.items():
            grids = [[s for s in forests(scope, r) if s.method == n] for n, r in others.values()]
            grids.insert(0, [s for s in boosted(scope, "published") if s.method == "O.C."])
            chosen = [mean(errors, best(errors, grid, epsilon), epsilon) for grid in grids]
            rows.append([name, *(mean(errors, s, epsilon) for s in plain()), *chosen, found.constant[name]])
        last = ["mean", *(_average(row[i] for row in rows) for i in range(1, len(rows[0])))]
        result[f"{epsilon:g}"] = [*rows, last]
        title = f"Test error (%), {PLAIN_TREES} tree of depth {PLAIN_DEPTH}, epsilon {epsilon:g}"
        columns = ["data set", *ALPHAS, "best O.C. published", *others, "majority"]
        report.print_table(title, columns, [*rows, last])
    return result


def regimes(found: Found, scope: Scope) -> dict[str, Any]:
    """Depth and number of trees of the best model of each data set; models of its own, O.C. alone."""
    rows = []
    for name in tqdm(found.errors, desc="regimes", unit="set"):
        problem = uci_binary(name)
        assert problem is not None
        folds = [Fold(problem, *parts, n) for n, parts in enumerate(splits(problem, scope))]
        cells = []
        for kind in GRID_KINDS:
            sizes = itertools.product(REGIME_DEPTHS, REGIME_TREES)
            errors = {
                size: _average(f.errors(Setting("O.C.", kind, *size), REGIME_EPSILON) for f in folds)
                for size in sizes
            }
            depth, trees = min(errors, key=lambda size: errors[size])
            corners = itertools.product(*((sizes[0], sizes[-1]) for sizes in (REGIME_DEPTHS, REGIME_TREES)))
            cells += [f"{depth}, {trees}", errors[depth, trees], *(errors[corner] for corner in corners)]
        rows.append([name, TABLE_3.get(name), *cells])
    corners = [
        f"{d}, {t}"
        for d in (REGIME_DEPTHS[0], REGIME_DEPTHS[-1])
        for t in (REGIME_TREES[0], REGIME_TREES[-1])
    ]
    columns = [f"{kind} {what}" for kind in GRID_KINDS for what in ("best", "error", *corners)]
    title = (
        f"Depth and trees of the best O.C. model, epsilon {REGIME_EPSILON:g}, and errors (%) of four sizes"
    )
    report.print_table(title, ["data set", "the paper's", *columns], rows)
    return {row[0]: dict(zip(columns, row[2:], strict=True)) for row in rows}


def grid(found: Found, scope: Scope) -> dict[str, Any]:
    """Mean error over the data sets for bounds of leaf values and shares of the budget."""
    result: dict[str, Any] = {}
    for kind, epsilon in itertools.product(GRID_KINDS, scope.grid_epsilons):
        rows = []
        for bound in BOUNDS:
            cells = [
                _average(mean(e, of_grid(kind, bound, share), epsilon) for e in found.errors.values())
                for share in SHARES
            ]
            rows.append([f"M = {bound:g}", *cells])
        result[f"{kind}, {epsilon:g}"] = rows
        title = (
            f"Mean error (%), {kind} O.C., {GRID_TREES} trees of depth {GRID_DEPTH}, epsilon {epsilon:g}, "
            "by the leaves' share"
        )
        report.print_table(title, ["bound", *(f"{share:g}" for share in SHARES)], rows)
    return result


def bins(found: Found, scope: Scope) -> dict[str, Any]:
    """Error with 10 and with 50 values per feature."""
    result: dict[str, Any] = {}
    for epsilon in scope.grid_epsilons:
        parts = list(itertools.product(GRID_KINDS, ALPHAS, (None, MANY_BINS)))
        rows = [
            [name, *(mean(errors, of_bins(*part), epsilon) for part in parts)]
            for name, errors in found.errors.items()
        ]
        last = ["mean", *(_average(row[i] for row in rows) for i in range(1, len(rows[0])))]
        result[f"{epsilon:g}"] = [*rows, last]
        columns = ["data set", *(f"{kind} {alpha} {count or 10}" for kind, alpha, count in parts)]
        title = f"Test error (%) with 10 and 50 values, {GRID_TREES} trees of depth {GRID_DEPTH}"
        report.print_table(f"{title}, epsilon {epsilon:g}", columns, [*rows, last])
    return result


def figure2(found: Found, scope: Scope) -> dict[str, Any]:
    """Errors over all settings of each alpha, and sizes of trees."""
    rows = []
    for alpha, kind, epsilon in itertools.product(
        ALPHAS, ("smoothed", "published"), (EXACT, *scope.epsilons)
    ):
        settings = [s for s in boosted(scope, kind) if s.method == alpha]
        errors = [
            mean(e, s, epsilon) - found.constant[name]
            for (name, e), s in itertools.product(found.errors.items(), settings)
        ]
        quartiles = [float(q) for q in np.quantile(errors, (0, 0.25, 0.5, 0.75, 1))]
        rows.append([f"{alpha}, {kind}, epsilon {epsilon:g}", *quartiles])
    columns = ["alpha", "smallest", "quarter", "median", "three quarters", "largest"]
    title = "Test error over data sets and settings, in points above the majority class's (negative: better)"
    report.print_table(title, columns, rows)
    return {"errors": rows, "sizes": sizes_of_trees(scope)}


def sizes_of_trees(scope: Scope) -> list[list[Any]]:
    """Leaves and depths without noise, where pure nodes stay leaves; with noise all trees are complete."""
    depth, trees = max(scope.depths), max(scope.trees)
    rows = []
    for name, rows_of in public_rows(scope).items():
        cells: list[str] = []
        for alpha in ALPHAS:
            grown = exact_trees(rows_of, alpha, depth, trees)
            cells.append(
                f"{_average(t.leaves() for t in grown):.1f}, {_average(t.depth() for t in grown):.1f}"
            )
        rows.append([name, *cells])
    title = f"Leaves and depth without noise, means of {trees} trees of at most depth {depth} on all rows"
    report.print_table(f"{title} (with noise {2**depth} and {depth})", ["data set", *ALPHAS], rows)
    return rows


def public_rows(scope: Scope) -> dict[str, bdpe.Rows]:
    """All rows of each data set at hand."""
    found = {name: uci_binary(name) for name in scope.names}
    return {n: bdpe.quantised(p.X, p.y, p.bounds, p.max_bin) for n, p in found.items() if p is not None}


def exact_trees(rows: bdpe.Rows, alpha: str, depth: int, trees: int) -> list[bdpe.Tree]:
    """Trees without noise."""
    value = bdpe.CALIBRATED if alpha == "O.C." else ALPHAS[alpha]
    random = np.random.default_rng(0)
    return bdpe.boost(rows, rows, value, depth, trees, bdpe.Budget(EXACT), random)[1]


def efficiency(found: Found, scope: Scope) -> dict[str, Any]:
    """Tree efficiency and edges of splits by depth, without noise and with."""
    budgets = (EXACT, 100.0, *sorted(scope.epsilons, reverse=True)[:2])
    depth, random = 5, np.random.default_rng(0)
    levels: dict[tuple[float, int], list[dict[str, np.ndarray]]] = {}
    risks: dict[tuple[str, int], list[float]] = {}
    for rows in public_rows(scope).values():
        for epsilon in budgets:
            budget = bdpe.Budget(epsilon)
            for _ in range(1 if epsilon == EXACT else 5):
                tree = bdpe.grow(
                    rows, np.full(len(rows.sign), 0.5), bdpe.CALIBRATED, depth, budget, 1, random
                )
                for level, splits in enumerate(tree.splits):
                    levels.setdefault((epsilon, level), []).append(splits)
        for alpha in ALPHAS:
            tree = exact_trees(rows, alpha, depth, 1)[0]
            for level, splits in enumerate(tree.splits):
                risks.setdefault((alpha, level), []).append(100 * float(splits["minority"].sum()))
    table = []
    for level in range(depth):
        weights = np.concatenate([s["weight"] for s in levels[EXACT, level]])
        cells: list[Any] = [str(level), float(np.median(weights / 2**level))]
        for epsilon in budgets:
            of_level = levels[epsilon, level]
            edges = np.concatenate([s["edge"][~s["pure"]] for s in of_level])
            cells.append(f"{np.median(edges):.2f} ({100 * np.mean(edges >= WEAK):.0f}%)")
        table.append([*cells, *(_average(risks[alpha, level]) for alpha in ALPHAS)])
    columns = ["depth", "tree efficiency", *(f"edge, epsilon {e:g}" for e in budgets)]
    title = (
        "Tree efficiency (weight of a node over 2^depth, median); edge of the O.C. splits (median, and share "
        f"of at least {WEAK:g}), one tree on all rows, the printed budget; training error (%) so far, exact"
    )
    report.print_table(title, [*columns, *(f"error {alpha}" for alpha in ALPHAS)], table)
    return {"rows": table}


def rate(found: Found, scope: Scope) -> dict[str, Any]:
    """Mean surrogate after numbers of exact trees, and the most that it may be by Theorem 12."""
    depth, trees = max(scope.depths), max(scope.trees)
    table = []
    for alpha in ALPHAS:
        steps = [steps_of(rows, alpha, depth, trees) for rows in public_rows(scope).values()]
        for count in scope.trees:
            reached = [
                (of_set["surrogate"][count - 1], 1 - of_set["granted"][:count].sum()) for of_set in steps
            ]
            edges = [of_set["edge"][:count].min() for of_set in steps]
            errors = [of_set["error"][count - 1] for of_set in steps]
            means = map(float, np.mean(reached, axis=0))
            table.append(
                [f"{alpha}, {count} trees", *means, float(min(edges)), _average(edges), _average(errors)]
            )
    title = (
        f"Mean surrogate on the training rows (1 at the start), exact trees of depth {depth}, M = 1, a = 1"
    )
    columns = ["surrogate", "bound (15)", "smallest edge of all", "of a set, mean", "training error, %"]
    report.print_table(title, ["alpha", *columns], table)
    return {"rows": table}


def steps_of(rows: bdpe.Rows, alpha: str, depth: int, trees: int) -> dict[str, np.ndarray]:
    """Surrogate and error after each tree, and what Theorem 12 speaks of: edge and granted decrease.

    A tree with values h in [-1, 1] and eta = E[w y h] gets the coefficient 4 alpha eta.  Since F'' is at most
    1 / (4 alpha), that lowers the surrogate by at least 2 alpha eta^2, half of E[w y (4 alpha eta h)].
    """
    loss = lgb_dp.MLoss(1.0 if alpha == "O.C." else ALPHAS[alpha])
    found: dict[str, list[float]] = {name: [] for name in ("surrogate", "granted", "edge", "error")}
    score = np.zeros(len(rows.sign))
    for tree in exact_trees(rows, alpha, depth, trees):
        weight, value = loss.weight(rows.sign * score), tree.value[tree.leaf_of(rows)]
        gain = float(np.mean(weight * rows.sign * value))
        score += value
        found["granted"].append(gain / 2)
        found["edge"].append(np.sqrt(gain / (4 * loss.alpha)) / float(weight.mean()))
        found["surrogate"].append(float(np.mean(loss.surrogate(rows.sign * score))))
        found["error"].append(100 * float(np.mean((score > 0) != (rows.sign > 0))))
    return {name: np.array(values) for name, values in found.items()}


def unpaid(found: Found, scope: Scope) -> dict[str, Any]:
    """Error of bdpe_alpha as printed, and with one public edge in all leveraging coefficients."""
    depth, trees = max(scope.depths), max(scope.trees)
    kinds = [(epsilon, edge) for epsilon in scope.epsilons for edge in (None, PUBLIC_EDGE)]
    table = []
    for name in tqdm(found.errors, desc="unpaid", unit="set"):
        problem = uci_binary(name)
        assert problem is not None
        errors: dict[tuple[float, float | None], list[float]] = {kind: [] for kind in kinds}
        for number, (train, test) in enumerate(splits(problem, scope)):
            rows, tests = (
                bdpe.quantised(*problem.rows(part), problem.bounds, problem.max_bin) for part in (train, test)
            )
            for epsilon, edge in kinds:
                budget, random = bdpe.Budget(epsilon), np.random.default_rng([number, len(train)])
                how = {"public_edge": edge}
                score = bdpe.boost(rows, tests, bdpe.CALIBRATED, depth, trees, budget, random, **how)[0]
                errors[epsilon, edge].append(100 * float(np.mean((score > 0) != (tests.sign > 0))))
        table.append([name, *map(_average, errors.values()), found.constant[name]])
    last = ["mean", *(_average(row[i] for row in table) for i in range(1, len(table[0])))]
    columns = [f"{'public' if edge else 'exact'}, epsilon {epsilon:g}" for epsilon, edge in kinds]
    title = (
        f"Test error (%) of O.C. as published, {trees} trees of depth {depth}, with exact leveraging "
        f"coefficients and with those of an edge of {PUBLIC_EDGE:g}"
    )
    report.print_table(title, ["data set", *columns, "majority"], [*table, last])
    return {"rows": [*table, last]}


TABLES: Mapping[str, Callable[[Found, Scope], dict[str, Any]]] = {
    "without": without,
    "best": best_models,
    "readings": readings,
    "trees": by_trees,
    "sets": data_sets,
    "regimes": regimes,
    "grid": grid,
    "bins": bins,
    "figure2": figure2,
    "efficiency": efficiency,
    "rate": rate,
    "unpaid": unpaid,
}


# Plots and time


def figure1(path: Path) -> None:
    """The M-loss, as in the paper's Figure 1."""
    plt = report.pyplot()
    if plt is None:
        return
    u, z = np.linspace(0.002, 0.998, 500), np.linspace(-5, 5, 501)
    panels = {
        "partial loss of the positive class": (u, lambda loss: loss.partial_losses(u)[0], (0, 6)),
        "Bayes risk": (u, lambda loss: loss.bayes_risk(u), (0, 1.05)),
        "canonical link": (u, lambda loss: loss.link(u), (-6, 6)),
        "inverse link": (z, lambda loss: loss.inverse_link(z), (0, 1)),
        "convex surrogate": (z, lambda loss: loss.surrogate(z), (0, 5)),
        "weight of an example": (z, lambda loss: loss.weight(z), (0, 1)),
    }
    figure, axes = plt.subplots(2, 3, figsize=(12, 7))
    for axis, (title, (x, curve, limits)) in zip(axes.flat, panels.items(), strict=True):
        for alpha in (0.01, 0.1, 0.5, 1.0):
            axis.plot(x, curve(lgb_dp.MLoss(alpha)), label=f"α = {alpha:g}")
        axis.set(title=title, ylim=limits)
        axis.grid(alpha=0.3)
    axes.flat[0].legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def plot_errors(path: Path, found: Found, scope: Scope) -> None:
    """Error of the best model against epsilon, one panel per data set."""
    methods = {
        f"{alpha}, {kind}": [s for s in boosted(scope, kind) if s.method == alpha]
        for kind, alpha in itertools.product(("smoothed", "published"), ("0.1", "O.C."))
    }
    methods |= {
        f"{name}, {reading}": [s for s in forests(scope, reading) if s.method == name]
        for name, reading in itertools.product(("RF-E",), READINGS[:2])
    }
    x = np.log10(scope.epsilons)
    panels = {
        name: {
            label: (x, [mean(errors, best(errors, grid, e), e) for e in scope.epsilons], None)
            for label, grid in methods.items()
        }
        for name, errors in found.errors.items()
    }
    report.save_panels(path, panels, "log10 of epsilon", dict.fromkeys(panels, "test error, %"))


def time_per_tree() -> dict[str, float]:
    """Milliseconds per tree of MBoost and DPBoost on the same rows, each the fastest of five."""
    problem: Problem = load("susy", 20_000)
    data = lgb_dp.Dataset(problem.X, problem.y, bounds=problem.bounds).construct()
    params = {"objective": "binary", "max_depth": 6, "num_threads": 2, "verbosity": -1}
    trainers = {
        "DPBoost, one ensemble": lgb_dp.DPBoost(1.0),
        "DPBoost, all rows in every tree": lgb_dp.DPBoost(1.0, eoe=False),
        "MBoost": lgb_dp.MBoost(1.0),
        "MBoost, paid node weights": lgb_dp.MBoost(1.0, weight_share=0.1),
    }
    n_trees = 20
    fastest = dict.fromkeys(trainers, float("inf"))
    for _, (name, trainer) in itertools.product(range(5), trainers.items()):
        start = time.perf_counter()
        lightgbm.train(params, data, n_trees, callbacks=[trainer])
        fastest[name] = min(fastest[name], 1000 * (time.perf_counter() - start) / n_trees)
    base = fastest["DPBoost, one ensemble"]
    rows = [[name, value, value / base] for name, value in fastest.items()]
    title = f"time per tree of depth 6 on {problem.describe()}"
    report.print_table(title, ["trainer", "ms per tree", "ratio to DPBoost"], rows)
    return fastest


def main() -> None:
    """Run everything and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder of tables, JSON files and plots"
    )
    parser.add_argument("--quick", action="store_true", help="few data sets, folds and settings")
    parser.add_argument("--jobs", type=int, default=2, help="data sets to run side by side")
    parser.add_argument("--folds", type=int, help="folds of the cross-validation")
    parser.add_argument("--sets", help="data sets, separated by commas")
    parser.add_argument("--reuse", action="store_true", help="keep data sets whose errors the folder has")
    options = parser.parse_args()
    report.yield_when_busy()
    scope = QUICK if options.quick else Scope()
    scope = replace(scope, folds=options.folds or scope.folds)
    if options.sets:
        scope = replace(scope, names=tuple(options.sets.split(",")))
    start = time.perf_counter()
    figure1(options.out / "mloss-figure1.png")
    found = all_errors(scope, options.jobs, options.out / "mloss-errors.json", options.reuse)
    tables: dict[str, Any] = {"machine": report.machine(1), "folds": found.folds}
    for name, table in TABLES.items():
        with report.copied_to(options.out / f"mloss-{name}.txt"):
            report.say(f"{len(found.errors)} data sets, {found.folds} folds")
            tables[name] = table(found, scope)
    plot_errors(options.out / "mloss-errors.png", found, scope)
    with report.copied_to(options.out / "mloss-time.txt"):
        tables["ms_per_tree"] = time_per_tree()
    tables["seconds"] = round(time.perf_counter() - start, 1)
    report.write_json(options.out / "mloss-tables.json", tables)


if __name__ == "__main__":
    main()
