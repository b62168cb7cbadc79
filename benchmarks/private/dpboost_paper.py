"""The experiments of the DPBoost paper (Li et al., AAAI 2020) on this implementation.

    VEILBOOST_DATA=folder python benchmarks/private/dpboost_paper.py [--quick] [--only figure2,table3]
        [--sets a9a,covtype] [--rates 0.01] [--epsilons 1,10] [--folds 5] [--threads 2]
        [--out docs/experiments/data]

table1   data sets, and their sizes in the paper
a9a      the official split at epsilon 1
figure2  test error or RMSE against epsilon, one ensemble of 50 trees
figure5  the same with ensembles of 20 trees
figure6  the same with ensembles of 40 trees
full     the two synthetic sets at the paper's 1,000,000 x 400: one fold, learning rate 0.01, two budgets,
         and seconds per tree for table2; 6 GB of memory
figure3  convergence, ensembles of 50 trees, epsilon 5 each: 20 ensembles (second version of the paper)
first    the same with 100 ensembles and 5000 trees (first version)
figure7  the same with 50 ensembles of 20 trees
figure8  the same with 25 ensembles of 40 trees
table2   seconds per tree beside stock LightGBM
table3   part of the rows that gradient-based data filtering (GDF) leaves out
figure4  geometric leaf clipping (GLC) on and off, regression

The other parts run at both learning rates: 0.01, as printed in the paper's first version, and 0.1.  Sets of
over 200,000 rows (covtype) get half as many folds.
Each part writes its tables to `dpboost-PART.txt`, and its figures into `dpboost-tables.json` beside them.

Folds and test rows are public here: an experiment, not a release.  NP is LightGBM itself, with its own
objective, bins and defaults beside the paper's depth, lambda and learning rate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from tqdm import tqdm

import lgb_dp

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common import report
from benchmarks.common.data import Problem, a9a_split, load
from benchmarks.private.training_time import CONTENDERS, compare

N_TREES = 50
ENSEMBLE_EPSILON = 5.0
RATES = (0.01, 0.1)
EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
FULL_EPSILONS = (1.0, 10.0)
LARGE = 200_000
"""Number of rows above which half of the folds are left out."""
FULL = ("synthetic_cls_full", "synthetic_reg_full")
ALL = ("a9a", "covtype", "susy", "codrna", "webdata", "synthetic_cls", "abalone", "year", "synthetic_reg")
CLASSES = ("a9a", "covtype", "susy", "codrna")
REGRESSION = ("abalone", "year", "synthetic_reg")

TABLE_1 = {
    "a9a": ("adult", 32_561, 123),
    "": ("real-sim", 72_309, 20_958),
    "covtype": ("covtype", 581_012, 54),
    "susy": ("susy", 5_000_000, 18),
    "codrna": ("cod-rna", 59_535, 8),
    "webdata": ("webdata", 49_749, 300),
    "synthetic_cls": ("synthetic_cls", 1_000_000, 400),
    "abalone": ("abalone", 4_177, 8),
    "year": ("YearPredictionMSD", 463_715, 90),
    "synthetic_reg": ("synthetic_reg", 1_000_000, 400),
}
"""Name, rows and features in the paper, by our name; real-sim is not at hand."""

TABLE_2 = {
    "a9a": (0.019, 0.007),
    "": (2.97, 0.82),
    "covtype": (0.085, 0.044),
    "susy": (0.38, 0.32),
    "codrna": (0.016, 0.009),
    "webdata": (0.032, 0.013),
    "synthetic_cls_full": (1.00, 0.36),
    "abalone": (2.95, 2.85),
    "year": (0.38, 0.12),
    "synthetic_reg_full": (0.96, 0.36),
}
"""The paper's seconds per tree of DPBoost and of LightGBM (10-core Xeon W-2155, 1000 trees), by our name."""

TABLE_3 = {"abalone": 1.44, "year": 8.06, "synthetic_reg": 0.0}
"""The paper's percentages of rows left out."""


@dataclass(frozen=True)
class Setting:
    """How long and how fast to boost.

    Parameters
    ----------
    rate : float
        Learning rate.
    trees, per_ensemble : int
        Trees of a model, and those of one ensemble of DPBoost.
    """

    rate: float
    trees: int = N_TREES
    per_ensemble: int = N_TREES

    @property
    def name(self) -> str:
        """For titles of tables."""
        return f"learning rate {self.rate:g}, {self.trees} trees"


@dataclass(frozen=True)
class Method:
    """A way to train: maker of a trainer from epsilon and trees per ensemble, or None for stock LightGBM."""

    name: str
    trainer: Callable[[float, int], Any] | None
    own: Mapping[str, Any] | None = None
    """Parameters in place of the paper's."""
    own_trees: int | None = None

    def params(self, setting: Setting) -> Mapping[str, Any]:
        """LightGBM's parameters, by default the paper's."""
        paper = {"max_depth": 6, "num_leaves": 64, "lambda_l2": 0.1, "learning_rate": setting.rate}
        return self.own or paper


def dpboost(name: str, own: Mapping[str, Any] | None = None, own_trees: int | None = None, **options: Any):
    """A method that is `DPBoost` with `options`."""

    def trainer(epsilon: float, per_ensemble: int) -> Any:
        return lgb_dp.DPBoost(epsilon, trees_per_ensemble=per_ensemble, **options)

    return Method(name, trainer, own, own_trees)


NP = Method("NP", None)
SEQ = Method("SEQ", lambda epsilon, _: lgb_dp.SequentialBoost(epsilon))
PARA = Method("PARA", lambda epsilon, _: lgb_dp.ParallelBoost(epsilon))
PAPER_VARIANT = dpboost("DPBoost paper", variant="paper")
TIGHT = dpboost("DPBoost tight")
TIGHT_RECOMMENDED = dpboost(
    "recommended",
    own={"max_depth": 4, "num_leaves": 16, "lambda_l2": 0.1, "learning_rate": 0.2},
    own_trees=20,
    leaf_share=0.3,
    gdf=False,
)
UNFILTERED = dpboost("tight, no GDF", gdf=False)
"""Gradients are clipped instead of rows left out: GDF at g* = 1 leaves out exactly the misclassified rows."""
PRIVATE = (SEQ, PARA, PAPER_VARIANT, TIGHT)
CONVERGING = (*PRIVATE, UNFILTERED)
ORDER = [(PAPER_VARIANT, PARA), (TIGHT, PARA), (PARA, SEQ), (TIGHT, PAPER_VARIANT)]
"""Which method should have the smaller error."""


@dataclass(frozen=True)
class Scope:
    """How much to run; `max_rows` cuts larger sets."""

    names: tuple[str, ...] = ALL
    rates: tuple[float, ...] = RATES
    epsilons: tuple[float, ...] = EPSILONS
    folds: int = 5
    seeds: int = 10
    convergence: tuple[str, ...] = CLASSES
    regression: tuple[str, ...] = REGRESSION
    timed: tuple[str, ...] = (*CLASSES, "webdata", "abalone", "year")
    full: tuple[str, ...] = FULL
    shorter: int = 1
    max_rows: int | None = None
    threads: int = 2

    def only(self, names: Sequence[str]) -> Scope:
        """The same for some data sets."""
        fields = ("names", "convergence", "regression", "timed", "full")
        return replace(self, **{f: tuple(n for n in getattr(self, f) if n in names) for f in fields})


QUICK = Scope(
    names=("codrna", "abalone"),
    epsilons=(1.0, 10.0),
    folds=2,
    seeds=2,
    convergence=("codrna",),
    regression=("abalone",),
    timed=("codrna", "abalone"),
    full=(),
    shorter=10,
    max_rows=20_000,
)


class Split:
    """Training and test rows of a problem, binned once for stock and once for private training."""

    def __init__(
        self, problem: Problem, X: Any, y: np.ndarray, test_X: Any, test_y: np.ndarray, threads: int
    ) -> None:
        self.problem, self.test_X, self.test_y = problem, test_X, test_y
        self.base = {"num_threads": threads, "verbosity": -1}
        self.stock = lightgbm.Dataset(X, y, params=self.base)
        shared = {"bounds": problem.bounds, "label_bounds": problem.label_bounds, "max_bin": problem.max_bin}
        self.private = lgb_dp.Dataset(X, y, params={"verbosity": -1}, **shared)
        self.centre = float(y.mean())

    def train(self, method: Method, epsilon: float, setting: Setting, callbacks: Sequence = ()) -> Any:
        """A booster."""
        params = {**self.base, **method.params(setting), "objective": self.problem.task}
        dataset = self.private if method.trainer else self.stock
        private = [method.trainer(epsilon, setting.per_ensemble)] if method.trainer else []
        n_trees = method.own_trees or setting.trees
        return lightgbm.train(params, dataset, n_trees, callbacks=[*private, *callbacks])

    def scores(self, raw: np.ndarray) -> dict[str, float]:
        """Test error in percent and AUC, or RMSE in label units, of raw scores."""
        if self.problem.task == "regression":
            return {"rmse": float(np.sqrt(np.mean((raw - self.test_y) ** 2)))}
        error = 100 * float(np.mean((raw > 0) != (self.test_y == 1)))
        return {"error": error, "auc": float(roc_auc_score(self.test_y, raw))}

    def trained_scores(self, method: Method, epsilon: float, setting: Setting) -> dict[str, float]:
        """Scores on the test rows of a booster."""
        booster = self.train(method, epsilon, setting)
        return self.scores(booster.predict(self.test_X, raw_score=True, num_threads=self.base["num_threads"]))

    def constant(self) -> dict[str, float]:
        """Scores of predicting the training rows' majority class or mean."""
        raw = self.centre - (0.5 if self.problem.task == "binary" else 0.0)
        return self.scores(np.full(len(self.test_y), raw))


def folds(problem: Problem, scope: Scope, used: int | None = None) -> list[Split]:
    """The first of five cross-validation splits; public ones, the same for every method."""
    used = used or (scope.folds if len(problem.y) <= LARGE else max(1, scope.folds // 2))
    parts = KFold(5, shuffle=True, random_state=0).split(np.empty((len(problem.y), 1)))
    return [
        Split(problem, *problem.rows(train), *problem.rows(test), scope.threads)
        for train, test in itertools.islice(parts, used)
    ]


Pair = tuple[float, float]


def mean_and_sd(scores: Sequence[Mapping[str, float]]) -> dict[str, Pair]:
    """Mean and standard deviation of each score."""
    return {
        k: (float(np.mean([s[k] for s in scores])), float(np.std([s[k] for s in scores]))) for k in scores[0]
    }


def main_score(task: str) -> str:
    """The score that the paper plots."""
    return "error" if task == "binary" else "rmse"


def score_label(task: str) -> str:
    """That score for a reader."""
    return "test error, %" if task == "binary" else "test RMSE"


def with_sd(pair: Sequence[float]) -> str:
    """Mean and standard deviation as text, without the latter where it is 0 or of one fold."""
    digits = 3 if abs(pair[0]) < 10 else 2
    return f"{pair[0]:.{digits}f}" + (f" ±{pair[1]:.{digits}f}" if pair[1] else "")


def of_folds(n: int) -> str:
    """What a cell of a table is."""
    return f"mean ± sd of {n} folds of 5" if n > 1 else "one fold of 5"


def problems(names: Sequence[str], scope: Scope) -> Iterator[Problem]:
    """Problems one after the other, each described to the reader."""
    for name in names:
        problem = load(name, scope.max_rows)
        report.say(problem.describe())
        yield problem


# Table 1


def table1(scope: Scope, _: Path, bar: tqdm) -> dict[str, Any]:
    """Sizes of the data sets, the paper's beside ours."""
    ours = {name: load(name, scope.max_rows).X.shape for name in scope.names}
    rows = []
    for name, (theirs, *size) in TABLE_1.items():
        here = ours.get(name)
        cells = [f"{n:,}" for n in size]
        rows.append([theirs, *cells, *(f"{n:,}" for n in here or ()), *([None] * (0 if here else 2))])
    columns = ["data set of the paper", "rows", "features", "rows here", "features here"]
    report.print_table("Table 1: data sets", columns, rows)
    return {name: list(shape) for name, shape in ours.items()}


# Figures 2, 5 and 6


def against_epsilon(n_trees: int) -> Callable[[Scope, Path, tqdm], dict[str, Any]]:
    """A part: one ensemble of `n_trees` trees, at both learning rates."""

    def part(scope: Scope, out: Path, bar: tqdm) -> dict[str, Any]:
        result: dict[str, Any] = {f"{rate:g}": {} for rate in scope.rates}
        for problem in problems(scope.names, scope):
            splits = folds(problem, scope)
            for rate in scope.rates:
                setting = Setting(rate, n_trees, n_trees)
                found = scores_by_epsilon(problem, splits, PRIVATE, setting, scope.epsilons, bar)
                result[f"{rate:g}"][problem.title] = found
                print_against_epsilon(found, setting)
        for rate, by_name in result.items():
            methods = [NP.name, *(m.name for m in PRIVATE)]
            plot_against_epsilon(out / f"dpboost-{n_trees}-trees-{rate}.png", by_name, methods)
        print_claims(result)
        return result

    return part


def scores_by_epsilon(
    problem: Problem,
    splits: Sequence[Split],
    methods: Sequence[Method],
    setting: Setting,
    epsilons: Sequence[float],
    bar: tqdm,
) -> dict[str, Any]:
    """Scores of every method and epsilon over the folds."""
    found: dict[str, Any] = {m.name: {} for m in methods}
    public = {"constant": mean_and_sd([s.constant() for s in splits])}
    public[NP.name] = mean_and_sd([s.trained_scores(NP, 0, setting) for s in splits])
    for method, epsilon in itertools.product(methods, epsilons):
        found[method.name][epsilon] = mean_and_sd(
            [s.trained_scores(method, epsilon, setting) for s in splits]
        )
        bar.update(len(splits))
    return {
        "name": problem.title,
        "task": problem.task,
        "folds": len(splits),
        "data": problem.describe(),
        "public": public,
        "private": found,
    }


def print_against_epsilon(found: Mapping[str, Any], setting: Setting) -> None:
    """Table of one data set and learning rate."""
    score = main_score(found["task"])
    public = [with_sd(found["public"][name][score]) for name in ("constant", NP.name)]
    rows = [
        [f"{epsilon:g}", *public, *(with_sd(of[epsilon][score]) for of in found["private"].values())]
        for epsilon in next(iter(found["private"].values()))
    ]
    columns = ["epsilon", "constant", NP.name, *found["private"]]
    title = f"{found['name']}: {score_label(found['task'])}, {setting.name}, {of_folds(found['folds'])}"
    report.print_table(title, columns, rows)


def print_claims(result: Mapping[str, Mapping[str, Any]]) -> None:
    """The paper's claims on Figure 2, counted at each learning rate."""
    counts, exceptions = [], []
    for better, worse in ORDER:
        holds, fails = [], []
        for rate, by_name in result.items():
            gaps = gaps_of(by_name.values(), worse.name, better.name)
            holds.append(f"{sum(gap >= 0 for gap in gaps.values())}/{len(gaps)}")
            fails += [f"{where} ({-gap:+.3g})" for where, gap in gaps.items() if gap < 0 and rate == "0.01"]
        counts.append([f"{better.name} <= {worse.name}", *holds])
        line = f"{counts[-1][0]} fails at 0.01 for: {', '.join(fails) or 'none'}"
        exceptions += textwrap.wrap(line, 100, initial_indent="  ", subsequent_indent="    ")
    columns = [f"learning rate {rate}" for rate in result]
    report.print_table("Order of mean error or RMSE, cells in which it holds", ["claim", *columns], counts)
    report.say("\n".join(exceptions))

    rows: list[list[Any]] = []
    for method in (PAPER_VARIANT, TIGHT):
        gaps = [_mean(gaps_of(_of_classes(r), PARA.name, method.name, 1.0).values()) for r in result.values()]
        rows.append([f"error of PARA minus {method.name}, epsilon 1, mean", *gaps])
    for method in (PARA, PAPER_VARIANT, TIGHT):
        spread = [deviations(r, method.name) for r in result.values()]
        rows.append([f"deviation of {method.name}, epsilon 1, smallest to largest", *spread])
    for method in PRIVATE:
        rows.append(
            [f"cells of {method.name} better than the constant", *map(_wins(method), result.values())]
        )
    title = "Classes alone, in points of error; last lines: all sets"
    report.print_table(title, ["figure", *columns], rows)


def _of_classes(by_name: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [found for found in by_name.values() if found["task"] == "binary"]


def gaps_of(sets: Any, worse: str, better: str, only_epsilon: float | None = None) -> dict[str, float]:
    """How much larger the mean error of one method is than of another, by data set and epsilon."""
    gaps = {}
    for found in sets:
        score = main_score(found["task"])
        for epsilon, scores in found["private"][better].items():
            if only_epsilon in (None, epsilon):
                gap = found["private"][worse][epsilon][score][0] - scores[score][0]
                gaps[f"{found['name']} at {epsilon:g}"] = gap
    return gaps


def deviations(by_name: Mapping[str, Any], method: str) -> str:
    """Smallest and largest standard deviation over the folds at epsilon 1, of data sets with classes."""
    found = [of["private"][method][1.0]["error"][1] for of in _of_classes(by_name) if of["folds"] > 1]
    return f"{min(found):.2g} to {max(found):.2g}" if found else "-"


def _wins(method: Method) -> Callable[[Mapping[str, Any]], str]:
    """Counter of the cells in which a method is better than the majority class or the mean."""

    def count(by_name: Mapping[str, Any]) -> str:
        won = [
            scores[main_score(of["task"])][0] < of["public"]["constant"][main_score(of["task"])][0]
            for of in by_name.values()
            for scores in of["private"][method.name].values()
        ]
        return f"{sum(won)}/{len(won)}"

    return count


def _mean(values: Any) -> float:
    return float(np.mean(list(values) or [np.nan]))


def plot_against_epsilon(path: Path, result: Mapping[str, Any], methods: Sequence[str]) -> None:
    """One panel per data set."""
    panels, labels = {}, {}
    for name, found in result.items():
        score = main_score(found["task"])
        labels[name] = score_label(found["task"]) + (" (log)" if score == "rmse" else "")
        lines = {}
        for method in methods:
            by_epsilon = found["private"].get(method)
            if by_epsilon is None:
                by_epsilon = dict.fromkeys(next(iter(found["private"].values())), found["public"][method])
            pairs = [scores[score] for scores in by_epsilon.values()]
            lines[method] = (list(by_epsilon), [p[0] for p in pairs], [p[1] for p in pairs])
        panels[name] = lines
    report.save_panels(path, panels, "epsilon", labels)


def full(scope: Scope, _: Path, bar: tqdm) -> dict[str, Any]:
    """The synthetic sets at full size, without SEQ, whose trees read all rows."""
    result: dict[str, Any] = {}
    setting, rows = Setting(min(scope.rates)), []
    for problem in problems(scope.full, scope):
        splits = folds(problem, scope, 1)
        found = scores_by_epsilon(problem, splits, PRIVATE[1:], setting, FULL_EPSILONS, bar)
        seconds = {}
        for method in (TIGHT, NP):
            start = time.process_time()
            splits[0].train(method, 1.0, replace(setting, trees=10, per_ensemble=10))
            seconds[method.name] = (time.process_time() - start) / 10
        result[problem.title] = {**found, "seconds_per_tree": seconds}
        print_against_epsilon(found, setting)
        paper = TABLE_2[problem.name]
        here = tuple(seconds.values())
        rows.append([problem.title, *paper, f"{paper[0] / paper[1]:.2f}", *here, f"{here[0] / here[1]:.2f}"])
    columns = ["data", "DPBoost", "LightGBM", "ratio", "tight here", "LightGBM here", "ratio here"]
    title = (
        f"Table 2, seconds per tree, the paper's and ours (10 trees, 800,000 rows, {scope.threads} threads)"
    )
    report.print_table(title, columns, rows)
    return result


# Figures 3, 7 and 8


def convergence(per_ensemble: int, ensembles: int) -> Callable[[Scope, Path, tqdm], dict[str, Any]]:
    """A part: test error after numbers of trees; one training run each on four fifths of the rows."""

    def part(scope: Scope, out: Path, bar: tqdm) -> dict[str, Any]:
        n_trees = per_ensemble * max(2, ensembles // scope.shorter)
        epsilon = ENSEMBLE_EPSILON * n_trees / per_ensemble
        result: dict[str, Any] = {f"{rate:g}": {} for rate in scope.rates}
        steps = sorted(
            {n for n in (per_ensemble, 100, 200, 500, 1000, 2000, 5000) if n <= n_trees} | {n_trees}
        )
        for problem in problems(scope.convergence, scope):
            split = folds(problem, scope, 1)[0]
            for rate in scope.rates:
                setting = Setting(rate, n_trees, per_ensemble)
                found = result[f"{rate:g}"][problem.title] = {}
                for method in (NP, *CONVERGING):
                    found[method.name] = staged(split, split.train(method, epsilon, setting), steps)
                    bar.update()
                print_convergence(problem, found, steps, setting, epsilon)
        for rate, by_name in result.items():
            panels = {
                name: {m: (steps, [s["error"] for s in scores], None) for m, scores in found.items()}
                for name, found in by_name.items()
            }
            path = out / f"dpboost-{ensembles}-ensembles-of-{per_ensemble}-{rate}.png"
            report.save_panels(path, panels, "trees", dict.fromkeys(panels, score_label("binary")))
        return {"epsilon": epsilon, "trees": steps, "scores": result}

    return part


def staged(split: Split, booster: Any, steps: Sequence[int]) -> list[dict[str, float]]:
    """Scores of the first trees of a booster: what `record_evaluation` would record."""
    raw, found = np.zeros(len(split.test_y)), []
    for start, end in itertools.pairwise([0, *steps]):
        part = {
            "start_iteration": start,
            "num_iteration": end - start,
            "num_threads": split.base["num_threads"],
        }
        raw = raw + booster.predict(split.test_X, raw_score=True, **part)
        found.append(split.scores(raw))
    return found


def print_convergence(
    problem: Problem, found: Mapping[str, Any], steps: Sequence[int], setting: Setting, epsilon: float
) -> None:
    """Error of each method after numbers of trees."""
    rows = [[str(n), *(f"{of[i]['error']:.2f}" for of in found.values())] for i, n in enumerate(steps)]
    title = (
        f"{problem.title}: test error in %, learning rate {setting.rate:g}, ensembles of "
        f"{setting.per_ensemble} trees, total epsilon {epsilon:g}, one training run"
    )
    report.print_table(title, ["trees", *found], rows)


# Table 2


def table2(scope: Scope, _: Path, bar: tqdm) -> dict[str, Any]:
    """Milliseconds of processors that `lightgbm.train` takes per tree, in turn with stock LightGBM's."""
    names = ("DPBoost tight", "DPBoost paper", "SequentialBoost")
    contenders = [contender for contender in CONTENDERS if contender.name in names]
    result, rows = {}, []
    for problem in problems(scope.timed, scope):
        pairs = 5 if len(problem.y) <= LARGE else 2
        found = compare(problem, pairs, scope.threads, tqdm(total=0, disable=True), contenders)
        bar.update()
        result[problem.title] = {"pairs": pairs, **found}
        private, stock = TABLE_2[problem.name]
        tight = found["DPBoost tight"]["tree_processor"]
        here = [f"{1e3 * tight[k]:.2f}" for k in ("median", "stock_median")]
        ratios = [f"{found[name]['tree_processor']['ratio_of_pairs']:.2f}" for name in names]
        size = [f"{len(problem.y):,}", pairs]
        rows.append(
            [problem.title, 1e3 * private, 1e3 * stock, f"{private / stock:.2f}", *size, *here, *ratios]
        )
    columns = ["data", "DPBoost", "LightGBM", "ratio", "rows here", "pairs", "tight", "LightGBM"]
    title = (
        f"Table 2: milliseconds per tree, the paper's, and ours of processors ({N_TREES} trees, threads: "
        f"{scope.threads}, medians of alternating pairs); at the end ratios to LightGBM"
    )
    report.print_table(title, [*columns, "tight", "paper", "SEQ"], rows)
    return result


# Table 3


class FilterCount:
    """Callback that reads how many rows GDF left out, over all trees so far."""

    order = 100

    def __init__(self) -> None:
        self.ratio = 0.0

    def __call__(self, env: Any) -> None:
        """After an iteration, while the booster still holds its training."""
        training = env.model._grower
        self.ratio = training.filtered_rows / max(1, training.offered_rows)


def table3(scope: Scope, _: Path, bar: tqdm) -> dict[str, Any]:
    """Share of rows filtered over an ensemble of 50 trees; every row is offered once."""
    result: dict[str, Any] = {}
    rows = []
    for problem in problems(scope.regression, scope):
        splits = folds(problem, scope)
        for rate in scope.rates:
            found = result[f"{problem.title}, {rate:g}"] = {}
            for method, epsilon in itertools.product((PAPER_VARIANT, TIGHT), (1.0, 10.0)):
                counts = [FilterCount() for _ in splits]
                for split, count in zip(splits, counts, strict=True):
                    split.train(method, epsilon, Setting(rate), callbacks=[count])
                    bar.update()
                ratios = [100 * count.ratio for count in counts]
                found[f"{method.name}, epsilon {epsilon:g}"] = (float(np.mean(ratios)), float(np.std(ratios)))
            cells = [with_sd(pair) for pair in found.values()]
            rows.append([problem.title, f"{rate:g}", *cells, f"{TABLE_3[problem.name]:.2f}"])
    if result:
        columns = ["data", "rate", *next(iter(result.values())), "the paper's"]
        report.print_table(f"Table 3: rows that GDF leaves out, %, {of_folds(scope.folds)}", columns, rows)
    return result


# Figure 4


def figure4(scope: Scope, out: Path, bar: tqdm) -> dict[str, Any]:
    """RMSE with and without geometric leaf clipping."""
    methods = [
        dpboost(f"{variant}, GLC {'on' if glc else 'off'}", variant=variant, glc=glc)
        for variant, glc in itertools.product(("paper", "tight"), (True, False))
    ]
    result: dict[str, Any] = {f"{rate:g}": {} for rate in scope.rates}
    for problem in problems(scope.regression, scope):
        splits = folds(problem, scope)
        for rate in scope.rates:
            setting = Setting(rate)
            found = scores_by_epsilon(problem, splits, methods, setting, scope.epsilons, bar)
            result[f"{rate:g}"][problem.title] = found
            print_against_epsilon(found, setting)
    rows = []
    for variant in ("paper", "tight"):
        counts = []
        for by_name in result.values():
            gaps = gaps_of(by_name.values(), f"{variant}, GLC off", f"{variant}, GLC on")
            counts.append(f"{sum(gap > 0 for gap in gaps.values())}/{len(gaps)}")
        rows.append([variant, *counts])
    columns = ["variant", *(f"learning rate {rate}" for rate in result)]
    report.print_table("Cells in which clipping helps", columns, rows)
    for rate, by_name in result.items():
        plot_against_epsilon(out / f"dpboost-clipping-{rate}.png", by_name, [m.name for m in methods])
    return result


# a9a


def a9a(scope: Scope, _: Path, bar: tqdm) -> dict[str, Any]:
    """The official split of a9a at epsilon 1."""
    problem, test_X, test_y = a9a_split()
    report.say(problem.describe())
    split = Split(problem, problem.X, problem.y, test_X, test_y, scope.threads)
    result: dict[str, Any] = {}
    for rate in scope.rates:
        setting = Setting(rate)
        result[f"{NP.name}, {rate:g}"] = mean_and_sd([split.trained_scores(NP, 0, setting)])
        for method in CONVERGING:
            scores = [split.trained_scores(method, 1.0, setting) for _ in range(scope.seeds)]
            result[f"{method.name}, {rate:g}"] = mean_and_sd(scores)
            bar.update(scope.seeds)
    scores = [split.trained_scores(TIGHT_RECOMMENDED, 1.0, Setting(0.2)) for _ in range(scope.seeds)]
    result["recommended, 0.2 (20 trees of depth 4, leaf_share 0.3, no GDF)"] = mean_and_sd(scores)
    bar.update(scope.seeds)
    rows = [[name, with_sd(found["auc"]), with_sd(found["error"])] for name, found in result.items()]
    title = f"{problem.title}, official split, epsilon 1: mean ± sd of {scope.seeds} training runs"
    report.print_table(title, ["method, learning rate", "test AUC", "test error, %"], rows)
    return result


PARTS: Mapping[str, Callable[[Scope, Path, tqdm], dict[str, Any]]] = {
    "table1": table1,
    "a9a": a9a,
    "figure2": against_epsilon(50),
    "figure5": against_epsilon(20),
    "figure6": against_epsilon(40),
    "full": full,
    "figure3": convergence(50, 20),
    "first": convergence(50, 100),
    "figure7": convergence(20, 50),
    "figure8": convergence(40, 25),
    "table2": table2,
    "table3": table3,
    "figure4": figure4,
}


def n_runs(part: str, scope: Scope) -> int:
    """Training runs of a part that the progress bar counts."""
    rates = len(scope.rates)
    runs = rates * len(scope.epsilons) * scope.folds
    if part in ("figure2", "figure5", "figure6"):
        return len(PRIVATE) * runs * len(scope.names)
    if part in ("figure3", "first", "figure7", "figure8"):
        return rates * (1 + len(CONVERGING)) * len(scope.convergence)
    return {
        "table1": 0,
        "a9a": (rates * len(CONVERGING) + 1) * scope.seeds,
        "full": 3 * len(FULL_EPSILONS) * len(scope.full),
        "table2": len(scope.timed),
        "table3": rates * 4 * scope.folds * len(scope.regression),
        "figure4": 4 * runs * len(scope.regression),
    }[part]


def main() -> None:
    """Run the chosen parts and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder of tables, JSON files and plots"
    )
    parser.add_argument("--quick", action="store_true", help="few data sets, folds and budgets")
    parser.add_argument("--only", help=f"parts, separated by commas, of {', '.join(PARTS)}")
    parser.add_argument("--sets", help="data sets, separated by commas")
    parser.add_argument("--rates", help="learning rates, separated by commas")
    parser.add_argument("--epsilons", help="budgets, separated by commas")
    parser.add_argument("--folds", type=int, help="how many of the five folds")
    parser.add_argument("--threads", type=int, help="threads of either side")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(PARTS)
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        parser.error(f"--only: no such part as {', '.join(unknown)}")
    report.yield_when_busy()
    scope = QUICK if options.quick else Scope()
    scope = replace(scope, folds=options.folds or scope.folds, threads=options.threads or scope.threads)
    if options.rates:
        scope = replace(scope, rates=tuple(float(rate) for rate in options.rates.split(",")))
    if options.epsilons:
        scope = replace(scope, epsilons=tuple(float(epsilon) for epsilon in options.epsilons.split(",")))
    if options.sets:
        scope = scope.only(options.sets.split(","))

    path = options.out / "dpboost-tables.json"
    with tqdm(total=sum(n_runs(part, scope) for part in chosen), desc="training", unit="model") as bar:
        for part in chosen:
            start, used = time.perf_counter(), time.process_time()
            with report.copied_to(options.out / f"dpboost-{part}.txt"):
                found = PARTS[part](scope, options.out, bar)
            seconds = {
                "seconds": round(time.perf_counter() - start, 1),
                "processor_seconds": round(time.process_time() - used, 1),
            }
            tables = json.loads(path.read_text()) if path.exists() else {}
            tables[part] = {"machine": report.machine(scope.threads), **seconds, "found": found}
            report.write_json(path, tables)


if __name__ == "__main__":
    main()
