"""How often the intervals of private evaluations hold the true value, and what holding rows out costs.

``VEILBOOST_DATA=… python benchmarks/private/evaluation_coverage.py --out docs/experiments/data`` simulates
tables of four kinds of models (``--draws`` of each), and trains with and without a tenth held out on
development folds (``--fits`` of each), and to compare figures with those of other rows (``--real`` fits in
all).  ``--quick`` does little of each.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, log_expit
from sklearn.metrics import roc_auc_score
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[2]))
import lgb_dp
from benchmarks.common.report import machine, print_table, write_csv, write_json
from benchmarks.private import peer_data
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.evaluation.evaluation import PrivateEvaluation
from lgb_dp.losses.labels import LabelScale
from lgb_dp.newton.held_out_table import likely_scores, n_bins_for, release_shares, score_bins, score_grid

EPSILONS = (0.1, 1.0, 10.0)
ROWS = (300, 1_000, 3_256, 30_000)
POSITIVES = (0.01, 0.07, 0.24, 0.5)
MODELS = {"weak": 0.4, "usual": 1.3, "heavy tails": 1.0, "strong": 3.0}
FIGURES = ("AUC", "log-loss", "Brier score", "accuracy")
DELTA = 1e-5
SHARES = release_shares(LabelScale("binary", 1, 0.0, 1.0))
N_POPULATION, N_MADE_UP = 300_000, 20_000


def population(kind: str, positives: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a model that is somewhat off, and labels."""
    heavy = kind == "heavy tails"
    log_odds = MODELS[kind] * (rng.standard_t(3, N_POPULATION) if heavy else rng.normal(size=N_POPULATION))
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(log_odds + middle).mean() < positives else (low, middle)
    label = rng.random(N_POPULATION) < expit(log_odds + low)
    return 0.8 * (log_odds + low) + 0.2 * rng.normal(size=N_POPULATION), label


def true_figures(score: np.ndarray, label: np.ndarray) -> list[float]:
    """Figures of all rows."""
    losses = np.where(label, -log_expit(score), -log_expit(-score)), (expit(score) - label) ** 2
    means = [float(one.mean()) for one in (*losses, (score > 0) == label)]
    return [float(roc_auc_score(label, score)), *means]


def shares_of(by_label: list[np.ndarray], edges: np.ndarray) -> np.ndarray:
    """Shares of a population by bin and label, whose scores come sorted."""
    below = [np.concatenate([[0], np.searchsorted(one, edges), [len(one)]]) for one in by_label]
    return np.diff(below, axis=1).T / N_POPULATION


def noised(shares: np.ndarray, n_rows: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """Numbers of rows that were drawn by their shares, with noise."""
    return rng.multinomial(n_rows, shares.ravel()).reshape(shares.shape) + np.rint(
        rng.normal(0, std, shares.shape)
    )


def simulated(epsilon: float, n_rows: int, positives: float, kind: str, n_draws: int) -> dict[str, Any]:
    """Shares of tables whose intervals hold the true figures, and half of their widths."""
    rng = np.random.default_rng([int(1000 * epsilon), n_rows, int(100 * positives), len(kind)])
    score, label = population(kind, positives, rng)
    true, mu = true_figures(score, label), gaussian_mu(epsilon, DELTA)
    made_up = score[:N_MADE_UP] + 0.3 * score.std() * rng.normal(size=N_MADE_UP)
    made_up, std = np.sort(made_up), 1 / (mu * np.sqrt(SHARES[1]))
    grid, grid_std = score_grid(made_up), 1 / (mu * np.sqrt(SHARES[0]))
    by_label = [np.sort(score[label == one]) for one in (False, True)]
    covered, widths = np.zeros(len(FIGURES)), np.zeros(len(FIGURES))
    for _ in range(n_draws):
        where = noised(shares_of(by_label, grid).sum(axis=1), n_rows, grid_std, rng)
        likely = likely_scores(grid, where, grid_std, made_up)
        edges, points = score_bins(likely, n_bins_for(n_rows, likely, mu))
        counts = noised(shares_of(by_label, edges), n_rows, std, rng)
        found = PrivateEvaluation(edges, points, counts, std).figures()
        ranges = [found[name] for name in FIGURES]
        covered += [one.low <= value <= one.high for one, value in zip(ranges, true, strict=True)]
        widths += [(one.high - one.low) / 2 for one in ranges]
    return {
        **{"ε": epsilon, "held-out rows": n_rows, "positives": positives, "model": kind},
        **{f"{name}: covered": share for name, share in zip(FIGURES, covered / n_draws, strict=True)},
        **{f"{name}: ±": width for name, width in zip(FIGURES, widths / n_draws, strict=True)},
    }


def trained(name: str, epsilon: float, n_fits: int) -> dict[str, Any]:
    """AUC on a fold's other rows with and without a tenth held out, and how often the interval holds it."""
    found = []
    for number in range(n_fits):
        fold, public = declared(name, number)
        auc = []
        for share in (0.0, 0.1):
            model = lgb_dp.DPLGBMClassifier(epsilon, delta=DELTA, validation_fraction=share, n_jobs=1)
            model.fit(fold.X, fold.y, **public)
            auc.append(float(roc_auc_score(fold.y_test, model.predict_proba(fold.X_test)[:, 1])))
        said = model.evaluation_.auc
        found.append([*auc, said.low <= auc[1] <= said.high, (said.high - said.low) / 2])
    all_rows, nine_tenths, covered, width = np.mean(found, axis=0)
    return {
        **{"data": name, "ε": epsilon, "rows": len(fold.y), "fits": n_fits, "AUC, all rows": all_rows},
        **{"AUC, a tenth held out": nine_tenths, "cost": all_rows - nine_tenths},
        **{"covered": covered, "half-width": width},
    }


def real(name: str, epsilon: float, n_fits: int) -> dict[str, Any]:
    """How often intervals of fits with a tenth held out hold the figures of the fold's other rows."""
    covered = np.zeros(len(FIGURES))
    for number in range(n_fits):
        fold, public = declared(name, number)
        model = lgb_dp.DPLGBMClassifier(
            epsilon, delta=DELTA, validation_fraction=0.1, n_estimators=200, n_jobs=1
        ).fit(fold.X, fold.y, **public)
        score = model.predict_proba(fold.X_test, raw_score=True)
        found = model.evaluation_.figures()
        true = dict(zip(FIGURES, true_figures(score, fold.y_test == 1), strict=True))
        covered += [found[name].low <= true[name] <= found[name].high for name in FIGURES]
    shares = dict(zip(FIGURES, covered / n_fits, strict=True))
    return {"data": name, "ε": epsilon, "rows": len(fold.y), "fits": n_fits, **shares}


def declared(name: str, number: int) -> tuple[Any, dict[str, Any]]:
    """A development fold, and what is declared of it."""
    fold = peer_data.development_fold(name, number % peer_data.N_FOLDS)
    numeric = np.flatnonzero(fold.n_categories == 0).tolist()
    coded = np.flatnonzero(fold.n_categories).tolist()
    bounds = {k: (float(fold.low[k]), float(fold.high[k])) for k in numeric}
    categories = {k: list(range(int(fold.n_categories[k]))) for k in coded} or None
    return fold, {"bounds": bounds, "categories": categories}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--real", type=int, default=200)
    parser.add_argument("--data", nargs="+", default=["adult", "give_credit", "codrna"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.quick:
        options.draws, options.fits, options.real, options.data = 50, 1, 2, options.data[:1]
    cells = [(e, n, p, k) for e in EPSILONS for n in ROWS for p in POSITIVES for k in MODELS]
    n_real = -(-options.real // (2 * len(options.data)))
    tables = {
        "evaluation-real": [
            real(name, epsilon, n_real) for name in tqdm(options.data) for epsilon in (0.3, 1.0)
        ],
        "evaluation-coverage": [simulated(*cell, options.draws) for cell in tqdm(cells, unit="cell")],
        "evaluation-cost": [
            trained(name, epsilon, options.fits) for name in tqdm(options.data) for epsilon in (0.1, 1.0)
        ],
    }
    for name, rows in tables.items():
        columns = list(rows[0])
        body = [
            [f"{one:.4g}" if isinstance(one, float) else str(one) for one in row.values()] for row in rows
        ]
        print_table(name, columns, body)
        write_csv(options.out / f"{name}.csv", columns, body)
    for column in (f"{name}: covered" for name in FIGURES):
        shares = np.array([row[column] for row in tables["evaluation-coverage"]])
        enough = np.mean(shares >= 0.93)
        print(f"{column}: least {shares.min():.3f}, {enough:.0%} of {len(shares)} at 0.93 or more")
    write_json(options.out / "evaluation-coverage.json", {"machine": machine(1), **tables})


if __name__ == "__main__":
    main()
