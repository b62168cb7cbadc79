"""NewtonBoost on development folds, for work on its automatic settings: no test row is read.

``VEILBOOST_DATA=… python benchmarks/private/newton_folds.py --data adult --epsilons 0.1 --fits 10`` trains
with everything automatic, on the folds of `peer_data.development_fold` in turn, and prints mean and standard
error of AUC, or of −RMSE, and the standard deviation within a fold.  `--rows` takes only some of a fold's
training rows, the same in every run.  Run it before and after a change; compare over several data sets and ε.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import print_table
from benchmarks.private import peer_data, peer_workers


def held_out(data: SimpleNamespace, epsilon: float) -> float:
    """AUC or −RMSE of one training on the rows that were held out."""
    prediction = np.asarray(peer_workers.newton(data, epsilon, 0)[1](), dtype=float)
    if data.task == "binary":
        return peer_workers.auc(data.y_test, prediction)
    return -float(np.sqrt(np.mean((prediction - data.y_test) ** 2)))


def training_rows(fold: peer_data.Split, n_rows: int | None) -> peer_data.Split:
    """A fold with at most so many of its training rows, which are in random order; None keeps all."""
    return replace(fold, X=fold.X[:n_rows], y=fold.y[:n_rows])


def deviation_within(found: np.ndarray, n_folds: int) -> float:
    """Standard deviation of results around their fold's mean.

    Parameters
    ----------
    found : ndarray of float64, shape (n_fits,)
        Of the folds in turn.
    n_folds : int

    Returns
    -------
    float
        NaN where no fold has two results.
    """
    parts = [found[k::n_folds] for k in range(min(n_folds, len(found)))]
    freedom = len(found) - len(parts)
    squares = sum(float(np.sum((part - part.mean()) ** 2)) for part in parts)
    return float(np.sqrt(squares / freedom)) if freedom else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["adult", "a9a", "codrna", "default_credit"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 4.0])
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--rows", type=int, help="training rows of each fold, at most; by default all")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    body = []
    for name in tqdm(options.data, unit="data set"):
        folds = [
            SimpleNamespace(**{**vars(fold), "label_bounds": np.array(fold.label_bounds)})
            for k in range(peer_data.N_FOLDS)
            for fold in [training_rows(peer_data.development_fold(name, k), options.rows)]
        ]
        for epsilon in options.epsilons:
            found = np.array([held_out(folds[i % len(folds)], epsilon) for i in range(options.fits)])
            error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else float("nan")
            figures = found.mean(), error, deviation_within(found, len(folds))
            body.append([folds[0].name, f"{epsilon:g}", *(f"{figure:.4f}" for figure in figures)])
    columns = ["data", "ε", "AUC or −RMSE", "standard error", "deviation within a fold"]
    print_table("Held-out folds", columns, body)


if __name__ == "__main__":
    main()
