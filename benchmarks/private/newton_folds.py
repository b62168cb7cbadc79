"""NewtonBoost on development folds, for work on its automatic settings: no test row is read.

``VEILBOOST_DATA=… python benchmarks/private/newton_folds.py --data adult --epsilons 0.1 --fits 10`` trains
with everything automatic, on the folds of `peer_data.development_fold` in turn, and prints mean and standard
error of AUC, or of −RMSE.  Run it before and after a change; compare over several data sets and ε.
"""

from __future__ import annotations

import argparse
import sys
import warnings
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["adult", "a9a", "codrna", "default_credit"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 4.0])
    parser.add_argument("--fits", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    body = []
    for name in tqdm(options.data, unit="data set"):
        folds = [
            SimpleNamespace(**{**vars(fold), "label_bounds": np.array(fold.label_bounds)})
            for fold in (peer_data.development_fold(name, k) for k in range(peer_data.N_FOLDS))
        ]
        for epsilon in options.epsilons:
            found = [held_out(folds[i % len(folds)], epsilon) for i in range(options.fits)]
            error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else float("nan")
            body.append([folds[0].name, f"{epsilon:g}", f"{np.mean(found):.4f}", f"{error:.4f}"])
    print_table("Held-out folds", ["data", "ε", "AUC or −RMSE", "standard error"], body)


if __name__ == "__main__":
    main()
