"""Bands of effects beside the spread of real fits, noise above the floor, and how long a picture takes.

``VEILBOOST_DATA=… python benchmarks/private/noise_bands.py --out docs/experiments/data`` trains ``--fits``
times on the same rows, and compares standard deviations of effects with those of one fit's refits.
``--noise`` fits with 20 further columns of noise say how many of these are above the floor.  ``--quick`` does
little of both.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[2]))
import lgb_dp
from benchmarks.common.report import machine, print_table, write_csv, write_json
from benchmarks.private import peer_data
from lgb_dp.explaining.bootstrap import Bootstrap, seed_of

SETS = ("adult", "give_credit", "default_credit", "codrna", "susy_30k", "ijcnn1")
EPSILONS = (0.5, 1.0, 4.0)
MAX_ROWS, N_NOISE, N_REFERENCE, N_POINTS, N_REFITS = 30_000, 20, 200, 12, 20


def rows_of(name: str, n_noise: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """At most 30,000 rows of a development fold, with columns of noise, and what is public of them."""
    fold = peer_data.development_fold(name, 0)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(fold.y))[:MAX_ROWS]
    X = np.column_stack([fold.X[chosen], rng.normal(size=(len(chosen), n_noise)).clip(-4, 4)])
    numeric = np.flatnonzero(fold.n_categories == 0).tolist()
    bounds = {k: (float(fold.low[k]), float(fold.high[k])) for k in numeric}
    bounds |= {fold.X.shape[1] + k: (-4.0, 4.0) for k in range(n_noise)}
    coded = np.flatnonzero(fold.n_categories).tolist()
    categories = {k: list(range(int(fold.n_categories[k]))) for k in coded} or None
    return X, fold.y[chosen], {"bounds": bounds, "categories": categories}


def fitted(epsilon: float, X: np.ndarray, y: np.ndarray, public: dict[str, Any]) -> Any:
    """The model of one fit with fresh noise."""
    return lgb_dp.DPLGBMClassifier(epsilon, delta=1e-6, n_jobs=1).fit(X, y, **public).booster_


def effects_at(booster: Any, reference: np.ndarray, grids: list[np.ndarray]) -> np.ndarray:
    """Centred effects at the same points for all models, shape (n_features, n_points)."""
    found = []
    for feature, grid in enumerate(grids):
        moved = np.tile(reference, (len(grid), 1, 1))
        moved[:, :, feature] = grid[:, None]
        raw = booster.predict(moved.reshape(-1, reference.shape[1]), raw_score=True)
        mean = raw.reshape(len(grid), -1).mean(axis=1)
        found.append(mean - mean.mean())
    return np.array(found)


def bands(name: str, epsilon: float, n_fits: int) -> dict[str, Any]:
    """Standard deviations of the bootstrap over those of real fits, by features."""
    X, y, public = rows_of(name)
    shares = np.linspace(0.02, 0.98, N_POINTS)
    grids = [np.quantile(column, shares, method="nearest") for column in X.T]
    models = [fitted(epsilon, X, y, public) for _ in range(n_fits)]
    refits = Bootstrap(models[0]).refits(N_REFITS, seed_of(0))
    real, made_up = (
        np.std([effects_at(one, X[:N_REFERENCE], grids) for one in ones], axis=0, ddof=1).mean(axis=1)
        for ones in (models, refits)
    )
    ratio = made_up[real > 0] / real[real > 0]
    low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9]).tolist()
    size = {"data": name, "ε": epsilon, "rows": len(y), "columns": X.shape[1], "fits": n_fits}
    return {**size, "median ratio": middle, "10% of columns below": low, "10% above": high}


def floors(name: str, epsilon: float, n_fits: int) -> dict[str, Any]:
    """How many of 20 columns of noise are above the floor, and how many others, on average."""
    X, y, public = rows_of(name, N_NOISE)
    above = [lgb_dp.importances(fitted(epsilon, X, y, public)).stands_out for _ in range(n_fits)]
    noise, others = (
        float(np.sum(part)) / n_fits for part in np.split(np.array(above), [-N_NOISE], axis=1)[::-1]
    )
    counts = {"noise columns above the floor, of 20": noise, "other columns above it": others}
    return {"data": name, "ε": epsilon, "fits": n_fits, "other columns": X.shape[1] - N_NOISE, **counts}


def seconds_of_a_picture() -> float:
    """Seconds of `plot_effects` of 30,000 rows and 20 columns, kernels compiled before."""
    X, y = make_classification(MAX_ROWS, 20, n_informative=8, random_state=1)
    model = lgb_dp.DPLGBMClassifier(1.0, delta=1e-6).fit(X, y, bounds=(-6, 6))
    lgb_dp.plot_effects(model, n=2)
    begun = time.perf_counter()
    lgb_dp.plot_effects(model)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fits", type=int, default=30)
    parser.add_argument("--noise", type=int, default=5)
    parser.add_argument("--data", nargs="+", default=list(SETS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.quick:
        options.fits, options.noise, options.data, options.epsilons = 4, 1, options.data[:1], [1.0]
    cells = [(name, epsilon) for name in options.data for epsilon in options.epsilons]
    tables: dict[str, list[dict[str, Any]]] = {
        "noise-bands": [bands(*cell, options.fits) for cell in tqdm(cells, unit="cell")],
        "noise-floors": [floors(*cell, options.noise) for cell in tqdm(cells, unit="cell")],
        "noise-seconds": [
            {"rows": MAX_ROWS, "columns": 20, "seconds of plot_effects": seconds_of_a_picture()}
        ],
    }
    for name, rows in tables.items():
        body = [
            [f"{one:.4g}" if isinstance(one, float) else str(one) for one in row.values()] for row in rows
        ]
        print_table(name, list(rows[0]), body)
        write_csv(options.out / f"{name}.csv", list(rows[0]), body)
    write_json(options.out / "noise-bands.json", {"machine": machine(2), **tables})


if __name__ == "__main__":
    main()
