"""The experiments of the M-loss paper (Nock and Henecka, 2020) on this implementation.

    VEILBOOST_DATA=folder python benchmarks/private/mloss_paper.py [--quick] [--jobs 2]

figure1  the M-loss: partial losses, Bayes risk, link, inverse link, surrogate
table a  what alpha does without noise
table b  which alpha has the best model of its grid, by epsilon (the paper's Table 1)
table c  significant wins of MBoost against RF-L and RF-E (the paper's Table 4)
table e  the same, by the number of boosted trees
table d  error of one setting for all data sets, the public schedule of objective calibration
time     seconds per tree against DPBoost in the same run

Stratified ten-fold cross-validation; differences count as significant where a paired t-test over the folds
gives p < 0.05.  Folds, test rows and the number of rows are public here: an experiment, not a release.
Best models are chosen on test folds, as the paper does; table d chooses nothing.

"as printed" is the criterion of the paper (no smoothing), with our budget: a level's part for each of its
nodes.  "smoothed" adds the prior of `MBoost(smoothing=0.1)`, whose sensitivity does not grow with the data.
O.C. pays for its node weights where printed, and takes the public schedule 2^-depth where smoothed.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
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

EXACT = float("inf")
ALPHAS: Mapping[str, Any] = {"0.1": 0.1, "1.0": 1.0, "O.C.": "calibrated"}
CRITERIA: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "as printed": {"O.C.": {"smoothing": 0.0, "weight_share": 0.1}, "": {"smoothing": 0.0}},
    "smoothed": {"": {"smoothing": 0.1}},
}
FORESTS: Mapping[str, Any] = {"RF-L": lgb_dp.RandomForestLaplace, "RF-E": lgb_dp.RandomForestExponential}
RATE = 0.5
SIGNIFICANT = 0.05
PLAIN_DEPTH, PLAIN_TREES = 3, 1
"""The setting of table d."""


@dataclass(frozen=True)
class Scope:
    """How much to run."""

    names: tuple[str, ...] = (*UCI_POSITIVE, "breast_cancer")
    epsilons: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)
    depths: tuple[int, ...] = (2, 4)
    trees: tuple[int, ...] = (1, 5, 10)
    forest_depths: tuple[int, ...] = (2, 4, 6)
    forest_trees: tuple[int, ...] = (21,)
    folds: int = 10


QUICK = Scope(
    names=("transfusion", "banknote", "qsar_biodeg", "breast_cancer"),
    epsilons=(0.1, 1.0, 10.0),
    depths=(3,),
    trees=(1, 5),
    forest_depths=(3,),
)


@dataclass(frozen=True)
class Setting:
    """A way to train."""

    method: str
    criterion: str
    depth: int
    trees: int

    def trainer(self, epsilon: float, n_rows: int) -> Any:
        """The private trainer."""
        if self.method in FORESTS:
            return FORESTS[self.method](epsilon)
        of_criterion = CRITERIA[self.criterion]
        extra = of_criterion.get(self.method, of_criterion[""])
        return lgb_dp.MBoost(epsilon, alpha=ALPHAS[self.method], n_rows=n_rows, **extra)

    @property
    def key(self) -> str:
        """Name in the JSON file."""
        return f"{self.method}|{self.criterion}|{self.depth}|{self.trees}"


def boosted(scope: Scope, criterion: str) -> list[Setting]:
    """All settings of MBoost with a criterion."""
    grid = itertools.product(ALPHAS, scope.depths, scope.trees)
    return [Setting(alpha, criterion, depth, trees) for alpha, depth, trees in grid]


def forests(scope: Scope) -> list[Setting]:
    """All settings of the random forests."""
    grid = itertools.product(FORESTS, scope.forest_depths, scope.forest_trees)
    return [Setting(name, "", depth, trees) for name, depth, trees in grid]


def plain() -> list[Setting]:
    """The settings of table d."""
    return [Setting(alpha, "smoothed", PLAIN_DEPTH, PLAIN_TREES) for alpha in ALPHAS]


def runs(scope: Scope) -> list[tuple[Setting, float]]:
    """Every setting with every epsilon, each once."""
    private = [*boosted(scope, "as printed"), *boosted(scope, "smoothed"), *forests(scope), *plain()]
    pairs = [(setting, epsilon) for setting in private for epsilon in scope.epsilons]
    pairs += [(setting, EXACT) for setting in (*boosted(scope, "smoothed"), *plain())]
    return list(dict.fromkeys(pairs))


Errors = dict[tuple[str, float], list[float]]
"""Test error in percent of every fold, by setting and epsilon."""


def errors_of(name: str, scope: Scope) -> tuple[str, Errors, float] | None:
    """A data set's line, fold errors of every run, and the error of the majority class; None without it."""
    problem = uci_binary(name)
    if problem is None:
        return None
    errors: Errors = {}
    folds = StratifiedKFold(scope.folds, shuffle=True, random_state=0).split(problem.X, problem.y)
    for train, test in folds:
        X, y = problem.rows(train)
        data = lgb_dp.Dataset(X, y, bounds=problem.bounds, max_bin=problem.max_bin).construct()
        test_X, test_y = problem.rows(test)
        for setting, epsilon in runs(scope):
            booster = fit(data, setting, epsilon)
            wrong = (booster.predict(test_X, raw_score=True) > 0) != (test_y == 1)
            errors.setdefault((setting.key, epsilon), []).append(100 * float(wrong.mean()))
    return problem.describe(), errors, 100 * float(min(problem.y.mean(), 1 - problem.y.mean()))


def fit(data: lgb_dp.Dataset, setting: Setting, epsilon: float) -> Any:
    """One model."""
    params = {
        "objective": "binary",
        "max_depth": setting.depth,
        "learning_rate": RATE,
        "num_threads": 1,
        "verbosity": -1,
    }
    return lightgbm.train(params, data, setting.trees, callbacks=[setting.trainer(epsilon, data.num_data())])


def all_errors(scope: Scope, jobs: int) -> tuple[dict[str, Errors], dict[str, float]]:
    """Errors by data set, and those of the majority class; data sets side by side on `jobs` processes."""
    found, constant = {}, {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        tasks = {name: pool.submit(errors_of, name, scope) for name in scope.names}
        for name, task in tqdm(tasks.items(), desc="data sets", unit="set"):
            result = task.result()
            if result is None:
                report.say(f"{name}: not in the folder, left out")
                continue
            line, found[name], constant[name] = result
            report.say(line)
    return found, constant


# Tables


def mean(errors: Errors, setting: Setting, epsilon: float) -> float:
    """Mean error over the folds."""
    return float(np.mean(errors[setting.key, epsilon]))


def best(errors: Errors, settings: Iterable[Setting], epsilon: float) -> Setting:
    """Setting of the smallest mean error."""
    return min(settings, key=lambda setting: mean(errors, setting, epsilon))


def better(a: Sequence[float], b: Sequence[float]) -> int:
    """1 if `a` has significantly smaller errors, -1 if `b` has, 0 otherwise."""
    difference = np.asarray(a) - np.asarray(b)
    if np.ptp(difference) == 0:
        return -int(np.sign(difference[0]))
    return -int(np.sign(difference.mean())) if ttest_rel(a, b).pvalue < SIGNIFICANT else 0


def table_a(found: Mapping[str, Errors], scope: Scope) -> dict[str, Any]:
    """Error without noise, of the best model and over the grid."""
    grid = boosted(scope, "smoothed")
    rows, result = [], {}
    for name, errors in found.items():
        of = {alpha: [mean(errors, s, EXACT) for s in grid if s.method == alpha] for alpha in ALPHAS}
        rows.append([name, *(min(v) for v in of.values()), *(float(np.mean(v)) for v in of.values())])
        result[name] = {alpha: {"best": min(v), "mean": float(np.mean(v))} for alpha, v in of.items()}
    columns = ["data set", *(f"{a} best" for a in ALPHAS), *(f"{a} mean" for a in ALPHAS)]
    means = ["mean", *(float(np.mean([row[i] for row in rows])) for i in range(1, len(columns)))]
    report.print_table("a. test error (%) without noise", columns, [*rows, means])
    return result


def table_b(found: Mapping[str, Errors], scope: Scope) -> dict[str, Any]:
    """Data sets on which each alpha has the best model, and on which no other is significantly better."""
    rows, result = [], {}
    for criterion, epsilon in itertools.product(CRITERIA, (*scope.epsilons, EXACT)):
        if epsilon == EXACT and criterion == "as printed":
            continue
        firsts, tied = dict.fromkeys(ALPHAS, 0), dict.fromkeys(ALPHAS, 0)
        means: dict[str, list[float]] = {alpha: [] for alpha in ALPHAS}
        for errors in found.values():
            grid = boosted(scope, criterion)
            champions = {a: best(errors, [s for s in grid if s.method == a], epsilon) for a in ALPHAS}
            scores = {a: mean(errors, s, epsilon) for a, s in champions.items()}
            for alpha, champion in champions.items():
                folds = errors[champion.key, epsilon]
                others = [errors[champions[a].key, epsilon] for a in ALPHAS if a != alpha]
                firsts[alpha] += scores[alpha] == min(scores.values())
                tied[alpha] += all(better(other, folds) <= 0 for other in others)
                means[alpha].append(scores[alpha])
        label = f"{criterion}, epsilon {epsilon:g}"
        rows.append([label, *firsts.values(), *tied.values(), *(float(np.mean(m)) for m in means.values())])
        result[label] = {
            "first": firsts,
            "tied": tied,
            "mean": {a: float(np.mean(m)) for a, m in means.items()},
        }
    columns = [
        "criterion",
        *(f"{a} first" for a in ALPHAS),
        *(f"{a} tied" for a in ALPHAS),
        *(f"{a} error" for a in ALPHAS),
    ]
    report.print_table(f"b. best models of {len(found)} data sets", columns, rows)
    return result


def table_c(found: Mapping[str, Errors], scope: Scope) -> dict[str, Any]:
    """Wins, losses and draws of every MBoost setting against every forest setting."""
    rows, result = [], {}
    for criterion, alpha, forest in itertools.product(CRITERIA, ALPHAS, FORESTS):
        shares = []
        outcomes: dict[float, list[int]] = {epsilon: [] for epsilon in scope.epsilons}
        ours = [s for s in boosted(scope, criterion) if s.method == alpha]
        theirs = [s for s in forests(scope) if s.method == forest]
        for epsilon, errors, a, b in itertools.product(scope.epsilons, found.values(), ours, theirs):
            outcomes[epsilon].append(better(errors[a.key, epsilon], errors[b.key, epsilon]))
        everything = list(itertools.chain.from_iterable(outcomes.values()))
        for results in (*outcomes.values(), everything):
            shares.append(wins_of(results))
        label = f"{alpha} ({criterion}) against {forest}"
        rows.append([label, *shares])
        result[label] = {
            f"{epsilon:g}": [outcome.count(v) for v in (1, -1, 0)] for epsilon, outcome in outcomes.items()
        }
    columns = ["MBoost", *(f"epsilon {epsilon:g}" for epsilon in scope.epsilons), "all"]
    report.print_table("c. wins among significant differences, % (significant differences, %)", columns, rows)
    return result


def table_e(found: Mapping[str, Errors], scope: Scope) -> dict[str, Any]:
    """Wins and losses against both forests together, by the number of boosted trees."""
    rows, result = [], {}
    for criterion, alpha, trees in itertools.product(CRITERIA, ALPHAS, scope.trees):
        ours = [s for s in boosted(scope, criterion) if (s.method, s.trees) == (alpha, trees)]
        label = f"{alpha} ({criterion}), {trees} trees"
        result[label] = {}
        for epsilon in scope.epsilons:
            pairs = itertools.product(found.values(), ours, forests(scope))
            outcomes = [better(e[a.key, epsilon], e[b.key, epsilon]) for e, a, b in pairs]
            result[label][f"{epsilon:g}"] = f"{outcomes.count(1)}:{outcomes.count(-1)}"
        rows.append([label, *result[label].values()])
    columns = ["MBoost", *(f"epsilon {epsilon:g}" for epsilon in scope.epsilons)]
    report.print_table("e. significant wins : losses against RF-L and RF-E", columns, rows)
    return result


def wins_of(outcomes: Sequence[int]) -> str:
    """Percentage of wins among decided comparisons, and of decided comparisons."""
    decided = [outcome for outcome in outcomes if outcome]
    if not decided:
        return "- (0)"
    return f"{100 * decided.count(1) / len(decided):.0f} ({100 * len(decided) / len(outcomes):.0f})"


def table_d(found: Mapping[str, Errors], constant: Mapping[str, float], scope: Scope) -> dict[str, Any]:
    """Error of one public setting, beside that of the best forest and of the majority class."""
    result: dict[str, Any] = {}
    for epsilon in (*scope.epsilons, EXACT):
        rows = []
        for name, errors in found.items():
            ours = [mean(errors, s, epsilon) for s in plain()]
            forest = [
                mean(errors, best(errors, [s for s in forests(scope) if s.method == f], epsilon), epsilon)
                if epsilon != EXACT
                else None
                for f in FORESTS
            ]
            rows.append([name, *ours, *forest, constant[name]])
        result[f"{epsilon:g}"] = rows
        title = f"d. test error (%), {PLAIN_TREES} tree of depth {PLAIN_DEPTH}, epsilon {epsilon:g}"
        report.print_table(title, ["data set", *ALPHAS, *(f"best {f}" for f in FORESTS), "majority"], rows)
    return result


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
    report.say(f"written: {path}")


def plot_errors(path: Path, found: Mapping[str, Errors], scope: Scope) -> None:
    """Error of the best model against epsilon, one panel per data set."""
    methods = {
        f"{alpha}, {criterion}": [s for s in boosted(scope, criterion) if s.method == alpha]
        for criterion, alpha in itertools.product(CRITERIA, ALPHAS)
    }
    methods |= {name: [s for s in forests(scope) if s.method == name] for name in FORESTS}
    x = np.log10(scope.epsilons)
    panels = {
        name: {
            label: (x, [mean(errors, best(errors, grid, e), e) for e in scope.epsilons], None)
            for label, grid in methods.items()
        }
        for name, errors in found.items()
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
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the JSON file and the plots")
    parser.add_argument("--quick", action="store_true", help="few data sets and settings")
    parser.add_argument("--jobs", type=int, default=2, help="data sets to run side by side")
    options = parser.parse_args()
    report.yield_when_busy()
    scope = QUICK if options.quick else Scope()
    start = time.perf_counter()
    result: dict[str, Any] = {"machine": report.machine(1)}
    figure1(options.out / "mloss_figure1.png")
    result["ms_per_tree"] = time_per_tree()
    found, constant = all_errors(scope, options.jobs)
    result["errors"] = {
        name: {f"{key}|{epsilon:g}": values for (key, epsilon), values in errors.items()}
        for name, errors in found.items()
    }
    result["table_a"] = table_a(found, scope)
    result["table_b"] = table_b(found, scope)
    result["table_c"] = table_c(found, scope)
    result["table_e"] = table_e(found, scope)
    result["table_d"] = table_d(found, constant, scope)
    plot_errors(options.out / "mloss_errors.png", found, scope)
    result["seconds"] = round(time.perf_counter() - start, 1)
    report.say(f"\nseconds: {result['seconds']}")
    report.write_json(options.out / "mloss_paper.json", result)


if __name__ == "__main__":
    main()
