"""The experiments of the DPBoost paper (Li et al., AAAI 2020) on this implementation.

    VEILBOOST_DATA=folder python benchmarks/private/dpboost_paper.py [--quick] [--only figure2,table3]

figure2  test error or RMSE against epsilon, one ensemble of 50 trees, five folds
figure3  convergence over 1000 trees: 20 ensembles of 50, epsilon 5 each (100 together)
table3   part of the rows that gradient-based data filtering (GDF) leaves out
figure4  geometric leaf clipping (GLC) on and off, regression
a9a      the official split at epsilon 1, ten training runs each

Folds and test rows are public here: an experiment, not a release.  NP is LightGBM itself, with its own
objective, bins and defaults beside the paper's depth, lambda and learning rate.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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

N_THREADS = 2
MAX_ROWS = 50_000
"""Larger data sets (covtype) are subsampled to this many rows."""
BASE = {"num_threads": N_THREADS, "verbosity": -1}
PAPER = {"max_depth": 6, "num_leaves": 64, "lambda_l2": 0.1, "learning_rate": 0.1}
RECOMMENDED = {"max_depth": 4, "num_leaves": 16, "lambda_l2": 0.1, "learning_rate": 0.2}
RECOMMENDED_TREES = 20
RECOMMENDED_LEAF_SHARE = 0.3
N_TREES = 50
N_ENSEMBLES = 20
ENSEMBLE_EPSILON = 5.0

EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
ALL = ("a9a", "covtype", "susy", "codrna", "synthetic_cls", "abalone", "year", "synthetic_reg")
CLASSES = ("a9a", "covtype", "susy", "codrna")
REGRESSION = ("abalone", "year", "synthetic_reg")


@dataclass(frozen=True)
class Method:
    """A way to train: a private trainer for a given epsilon (None: stock LightGBM), and its settings."""

    name: str
    trainer: Callable[[float], Any] | None
    params: Mapping[str, Any] = field(default_factory=lambda: PAPER)
    n_trees: int = N_TREES


NP = Method("NP", None)
SEQ = Method("SEQ", lgb_dp.SequentialBoost)
PARA = Method("PARA", lgb_dp.ParallelBoost)
PAPER_VARIANT = Method("DPBoost paper", lambda epsilon: lgb_dp.DPBoost(epsilon, variant="paper"))
TIGHT = Method("DPBoost tight", lgb_dp.DPBoost)
TIGHT_RECOMMENDED = Method(
    "tight, recommended",
    lambda epsilon: lgb_dp.DPBoost(epsilon, leaf_share=RECOMMENDED_LEAF_SHARE, gdf=False),
    RECOMMENDED,
    RECOMMENDED_TREES,
)
UNFILTERED = Method("tight, no GDF", lambda epsilon: lgb_dp.DPBoost(epsilon, gdf=False))
"""Gradients are clipped instead of rows left out: GDF at g* = 1 leaves out exactly the misclassified rows."""
PRIVATE = (SEQ, PARA, PAPER_VARIANT, TIGHT, TIGHT_RECOMMENDED)

CONVERGING = (SEQ, PARA, PAPER_VARIANT, TIGHT, UNFILTERED)


@dataclass(frozen=True)
class Scope:
    """How much to run."""

    names: tuple[str, ...] = ALL
    epsilons: tuple[float, ...] = EPSILONS
    folds: int = 5
    seeds: int = 10
    convergence: tuple[str, ...] = CLASSES
    ensembles: int = N_ENSEMBLES
    regression: tuple[str, ...] = REGRESSION
    max_rows: int = MAX_ROWS


QUICK = Scope(
    names=("codrna", "abalone"),
    epsilons=(1.0, 10.0),
    folds=2,
    seeds=3,
    convergence=("codrna",),
    ensembles=4,
    regression=("abalone",),
    max_rows=20_000,
)


class Split:
    """Training and test rows of a problem, binned once for stock and once for private training."""

    def __init__(self, problem: Problem, X: Any, y: np.ndarray, test_X: Any, test_y: np.ndarray) -> None:
        self.problem, self.test_X, self.test_y = problem, test_X, test_y
        params = {"verbosity": -1, "num_threads": N_THREADS}
        self.stock = lightgbm.Dataset(X, y, params=params)
        shared = {"bounds": problem.bounds, "label_bounds": problem.label_bounds, "max_bin": problem.max_bin}
        self.private = lgb_dp.Dataset(X, y, params={"verbosity": -1}, **shared)
        self.centre = float(y.mean())

    def train(
        self, method: Method, epsilon: float, n_trees: int | None = None, callbacks: Sequence = ()
    ) -> Any:
        """A booster."""
        params = {**BASE, **method.params, "objective": self.problem.task}
        dataset = self.private if method.trainer else self.stock
        private = [method.trainer(epsilon)] if method.trainer else []
        return lightgbm.train(params, dataset, n_trees or method.n_trees, callbacks=[*private, *callbacks])

    def scores(self, raw: np.ndarray) -> dict[str, float]:
        """Test error in percent and AUC, or RMSE in label units, of raw scores."""
        if self.problem.task == "regression":
            return {"rmse": float(np.sqrt(np.mean((raw - self.test_y) ** 2)))}
        error = 100 * float(np.mean((raw > 0) != (self.test_y == 1)))
        return {"error": error, "auc": float(roc_auc_score(self.test_y, raw))}

    def scores_of(self, booster: Any) -> dict[str, float]:
        """Scores of a booster on the test rows."""
        return self.scores(booster.predict(self.test_X, raw_score=True))

    def constant(self) -> dict[str, float]:
        """Scores of predicting the training rows' majority class or mean."""
        raw = self.centre - (0.5 if self.problem.task == "binary" else 0.0)
        return self.scores(np.full(len(self.test_y), raw))


def folds(problem: Problem, n_folds: int) -> list[Split]:
    """Cross-validation splits; public ones, the same for every method."""
    parts = KFold(n_folds, shuffle=True, random_state=0).split(np.empty((len(problem.y), 1)))
    return [Split(problem, *problem.rows(train), *problem.rows(test)) for train, test in parts]


def mean_and_sd(scores: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
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
    """Mean and standard deviation as text."""
    digits = 3 if abs(pair[0]) < 10 else 2
    return f"{pair[0]:.{digits}f} ±{pair[1]:.{digits}f}"


def load_all(names: Sequence[str], scope: Scope) -> list[Problem]:
    """Problems, each described to the reader."""
    problems = [load(name, scope.max_rows) for name in names]
    for problem in problems:
        report.say(problem.describe())
    return problems


# Figure 2


def figure2(scope: Scope, out: Path, bar: tqdm) -> dict[str, Any]:
    """Test error or RMSE against epsilon, one ensemble."""
    result = {}
    for problem in load_all(scope.names, scope):
        result[problem.title] = against_epsilon(problem, PRIVATE, scope, bar)
        print_figure2(problem, result[problem.title])
    print_ordering(result)
    plot_against_epsilon(out / "figure2.png", result, [NP.name, *(m.name for m in PRIVATE)])
    return result


def against_epsilon(problem: Problem, methods: Sequence[Method], scope: Scope, bar: tqdm) -> dict[str, Any]:
    """Scores of every method and epsilon over the folds."""
    splits = folds(problem, scope.folds)
    found: dict[str, Any] = {m.name: {} for m in methods}
    public = {"constant": mean_and_sd([s.constant() for s in splits])}
    public[NP.name] = mean_and_sd([s.scores_of(s.train(NP, 0)) for s in splits])
    for method, epsilon in itertools.product(methods, scope.epsilons):
        found[method.name][epsilon] = mean_and_sd([s.scores_of(s.train(method, epsilon)) for s in splits])
        bar.update(len(splits))
    return {"task": problem.task, "data": problem.describe(), "public": public, "private": found}


def print_figure2(problem: Problem, found: Mapping[str, Any]) -> None:
    """Tables of one data set: the paper's score, and AUC for classes."""
    scores = {main_score(problem.task): score_label(problem.task)}
    if problem.task == "binary":
        scores["auc"] = "test AUC"
    for score, label in scores.items():
        public = [with_sd(found["public"][name][score]) for name in ("constant", NP.name)]
        rows = [
            [
                f"{epsilon:g}",
                *public,
                *(with_sd(by_epsilon[epsilon][score]) for by_epsilon in found["private"].values()),
            ]
            for epsilon in next(iter(found["private"].values()))
        ]
        columns = ["epsilon", "constant", NP.name, *found["private"]]
        report.print_table(f"Figure 2, {problem.title}: {label}", columns, rows)


def print_ordering(result: Mapping[str, Any]) -> None:
    """Where the paper's order of methods holds in the means, and where not."""
    order = [
        (PAPER_VARIANT, PARA),
        (TIGHT, PARA),
        (PARA, SEQ),
        (TIGHT, PAPER_VARIANT),
        (TIGHT_RECOMMENDED, TIGHT),
    ]
    rows, exceptions = [], []
    for better, worse in order:
        holds, fails = 0, []
        for name, found in result.items():
            for epsilon, scores in found["private"][better.name].items():
                score = main_score(found["task"])
                gap = scores[score][0] - found["private"][worse.name][epsilon][score][0]
                holds += gap <= 0
                fails += [f"{name} at {epsilon:g} (+{gap:.3g})"] if gap > 0 else []
        rows.append([f"{better.name} <= {worse.name}", f"{holds}/{holds + len(fails)}"])
        exceptions += [f"  {rows[-1][0]} fails for {name}" for name in fails]
    report.print_table("Order of mean error or RMSE", ["claim", "holds"], rows)
    report.say("\n".join(exceptions))


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


# Figure 3


def figure3(scope: Scope, out: Path, bar: tqdm) -> dict[str, Any]:
    """Test error after every ensemble's worth of trees; one training each on four fifths of the rows."""
    result, panels = {}, {}
    n_trees = scope.ensembles * N_TREES
    steps = list(range(N_TREES, n_trees + 1, N_TREES))
    epsilon = scope.ensembles * ENSEMBLE_EPSILON
    for problem in load_all(scope.convergence, scope):
        split = folds(problem, 5)[0]
        result[problem.title] = {}
        for method in (NP, *CONVERGING):
            booster = split.train(method, epsilon, n_trees)
            result[problem.title][method.name] = staged(split, booster, steps)
            bar.update()
        print_figure3(problem, result[problem.title], steps, epsilon)
        curves = result[problem.title].items()
        panels[problem.title] = {name: (steps, [s["error"] for s in found], None) for name, found in curves}
    report.save_panels(out / "figure3.png", panels, "trees", dict.fromkeys(panels, score_label("binary")))
    return {"epsilon": epsilon, "trees": steps, "scores": result}


def staged(split: Split, booster: Any, steps: Sequence[int]) -> list[dict[str, float]]:
    """Scores of the first trees of a booster, 50 more each time: what `record_evaluation` would record."""
    raw, found = np.zeros(len(split.test_y)), []
    for start in range(0, steps[-1], N_TREES):
        part = {"start_iteration": start, "num_iteration": N_TREES}
        raw = raw + booster.predict(split.test_X, raw_score=True, **part)
        found.append(split.scores(raw))
    return found


def print_figure3(problem: Problem, found: Mapping[str, Any], steps: Sequence[int], epsilon: float) -> None:
    """Error of each method at some numbers of trees."""
    shown = sorted({0, 1, 3, 9, len(steps) - 1} & set(range(len(steps))))
    rows = [[str(steps[i]), *(f"{scores[i]['error']:.2f}" for scores in found.values())] for i in shown]
    title = f"Figure 3, {problem.title}: test error in %, total epsilon {epsilon:g}"
    report.print_table(title, ["trees", *found], rows)


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


def table3(scope: Scope, out: Path, bar: tqdm) -> dict[str, Any]:
    """Share of rows filtered over an ensemble of 50 trees; every row is offered once."""
    paper = {"abalone": 1.44, "year": 8.06, "synthetic_reg": 0.0}
    result, rows = {}, []
    for problem in load_all(scope.regression, scope):
        splits = folds(problem, scope.folds)
        result[problem.title] = {}
        for method, epsilon in itertools.product((PAPER_VARIANT, TIGHT), (1.0, 10.0)):
            counts = [FilterCount() for _ in splits]
            for split, count in zip(splits, counts, strict=True):
                split.train(method, epsilon, callbacks=[count])
                bar.update()
            ratios = [100 * count.ratio for count in counts]
            result[problem.title][f"{method.name}, epsilon {epsilon:g}"] = (np.mean(ratios), np.std(ratios))
        cells = [with_sd(pair) for pair in result[problem.title].values()]
        rows.append([problem.title, *cells, f"{paper[problem.name]:.2f}"])
    columns = ["data", *next(iter(result.values())), "the paper's"]
    report.print_table(
        "Table 3: rows that GDF leaves out, % (the paper's year and synthetic sets are larger)", columns, rows
    )
    return result


# Figure 4


def figure4(scope: Scope, out: Path, bar: tqdm) -> dict[str, Any]:
    """RMSE with and without geometric leaf clipping."""
    methods = [
        Method(f"{variant}, GLC {'on' if glc else 'off'}", clipping_trainer(variant, glc))
        for variant, glc in itertools.product(("paper", "tight"), (True, False))
    ]
    result = {}
    for problem in load_all(scope.regression, scope):
        found = against_epsilon(problem, methods, scope, bar)
        result[problem.title] = found
        names = list(found["private"])
        rows = [
            [f"{epsilon:g}", *(with_sd(found["private"][name][epsilon]["rmse"]) for name in names)]
            for epsilon in scope.epsilons
        ]
        report.print_table(f"Figure 4, {problem.title}: test RMSE", ["epsilon", *names], rows)
    plot_against_epsilon(out / "figure4.png", result, [m.name for m in methods])
    return result


def clipping_trainer(variant: Any, glc: bool) -> Callable[[float], Any]:
    """Maker of DPBoost with or without geometric leaf clipping."""
    return lambda epsilon: lgb_dp.DPBoost(epsilon, variant=variant, glc=glc)


# a9a


def a9a(scope: Scope, out: Path, bar: tqdm) -> dict[str, Any]:
    """The official split of a9a at epsilon 1."""
    problem, test_X, test_y = a9a_split()
    report.say(problem.describe())
    split = Split(problem, problem.X, problem.y, test_X, test_y)
    result = {NP.name: mean_and_sd([split.scores_of(split.train(NP, 0))])}
    for method in (*PRIVATE, UNFILTERED):
        scores = []
        for _ in range(scope.seeds):
            scores.append(split.scores_of(split.train(method, 1.0)))
            bar.update()
        result[method.name] = mean_and_sd(scores)
    rows = [[name, with_sd(found["auc"]), with_sd(found["error"])] for name, found in result.items()]
    title = f"{problem.title}, official split, epsilon 1: mean ± sd of {scope.seeds} training runs"
    report.print_table(title, ["method", "test AUC", "test error, %"], rows)
    return result


PARTS: Mapping[str, Callable[[Scope, Path, tqdm], dict[str, Any]]] = {
    "a9a": a9a,
    "table3": table3,
    "figure4": figure4,
    "figure2": figure2,
    "figure3": figure3,
}


def n_runs(part: str, scope: Scope) -> int:
    """Private training runs of a part, for the progress bar."""
    runs = len(scope.epsilons) * scope.folds
    return {
        "a9a": (len(PRIVATE) + 1) * scope.seeds,
        "table3": 4 * scope.folds * len(scope.regression),
        "figure4": 4 * runs * len(scope.regression),
        "figure2": len(PRIVATE) * runs * len(scope.names),
        "figure3": (1 + len(CONVERGING)) * len(scope.convergence),
    }[part]


def main() -> None:
    """Run the chosen parts and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the JSON file and the plots")
    parser.add_argument("--quick", action="store_true", help="few data sets, folds and budgets")
    parser.add_argument("--only", help=f"parts, separated by commas, of {', '.join(PARTS)}")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(PARTS)
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        parser.error(f"--only: no such part as {', '.join(unknown)}")
    report.yield_when_busy()
    scope = QUICK if options.quick else Scope()

    result: dict[str, Any] = {"machine": report.machine(N_THREADS), "seconds": {}}
    with tqdm(total=sum(n_runs(part, scope) for part in chosen), desc="training", unit="model") as bar:
        for part in chosen:
            start = time.perf_counter()
            result[part] = PARTS[part](scope, options.out, bar)
            result["seconds"][part] = round(time.perf_counter() - start, 1)
    report.say(f"\nseconds: {result['seconds']}")
    report.write_json(options.out / "dpboost_paper.json", result)


if __name__ == "__main__":
    main()
