"""Private times to events: concordance and calibration, beside XGBoost and a private classifier.

``python benchmarks/private/survival.py --out docs/experiments/data`` trains on generated cohorts of three
sizes, with proportional hazards (Weibull) and without (log-logistic, of a scale that depends on a feature).
``--quick`` takes the smallest.  ``--peers PYTHON`` also trains those of `survival_peers`, in the environment
of that interpreter, on cohorts of up to 20,000 rows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[2]))
import lgb_dp
from benchmarks.common.report import machine, print_table, write_csv, write_json
from gbdt_kernels.concordance import concordance

SIZES, EPSILONS, DELTA, N_TEST = (2_000, 20_000, 200_000), (1.0, 4.0), 1e-6, 20_000
MAX_PEER_ROWS = 20_000
BOUNDS, TIMES, GRID = (-3, 3), (0.05, 40.0), np.linspace(0.0, 30.0, 301)
COLUMNS = ("hazards", "rows", "model", "epsilon", "C", "restricted mean")


def cohort(n: int, is_proportional: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and times; some 30% are censored."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 8)).clip(*BOUNDS)
    risk = 0.8 * X[:, 0] - 0.6 * X[:, 1] + 0.5 * X[:, 2] * (X[:, 3] > 0) + 0.4 * np.sin(2 * X[:, 4])
    if is_proportional:
        log_time = 2 - risk + np.log(random.exponential(size=n)) / 1.5
    else:
        log_time = 2 - risk + 0.6 * np.exp(-0.5 + 0.3 * X[:, 5]) * random.logistic(size=n)
    time, seen = np.exp(log_time), random.uniform(0, 40, size=n)
    return X, np.rec.fromarrays([time <= seen, np.minimum(time, seen)], names=["event", "time"])


def restricted_mean(survived: np.ndarray) -> float:
    """Mean of the times up to the last of the grid, of a curve on it."""
    return float(((survived[1:] + survived[:-1]) / 2 * np.diff(GRID)).sum())


def kaplan_meier(y: np.ndarray) -> np.ndarray:
    """Share without an event at every time of the grid."""
    rows = np.sort(y, order="time")
    curve = np.cumprod(1 - rows["event"] / (len(rows) - np.arange(len(rows))))
    return np.append(1.0, curve)[np.searchsorted(rows["time"], GRID, side="right")]


def of_xgboost(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """Predicted times without privacy; depth and rounds are those of the best of a few settings."""
    rows = xgboost.DMatrix(X)
    rows.set_float_info("label_lower_bound", y["time"])
    rows.set_float_info("label_upper_bound", np.where(y["event"], y["time"], np.inf))
    params = {"objective": "survival:aft", "aft_loss_distribution_scale": 0.6, "max_depth": 4, "eta": 0.05}
    return np.asarray(xgboost.train(params, rows, 200).predict(xgboost.DMatrix(X_test)))


def of_classifier(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, epsilon: float) -> np.ndarray:
    """Probability to be without an event at a public horizon; rows that left before it do not count."""
    horizon = 5.0
    label = np.where(y["time"] > horizon, 1.0, np.where(y["event"], 0.0, np.nan))
    model = lgb_dp.DPLGBMClassifier(epsilon, delta=DELTA).fit(X, label, bounds=BOUNDS, classes=[0, 1])
    return np.asarray(model.predict_proba(X_test)[:, 1])


def of_peers(
    python: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, public: Any
) -> dict[str, np.ndarray]:
    """Predicted times of peers, by name and, behind a slash, ε."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = f"{folder}/cohort.npz", f"{folder}/out.npz"
        of_public = {
            "X_public": public[0],
            "time_public": public[1]["time"],
            "event_public": public[1]["event"],
        }
        rows = {"X": X, "time": y["time"], "event": y["event"], "X_test": X_test, "times": TIMES, **of_public}
        np.savez(source, **rows)
        worker = str(Path(__file__).with_name("survival_peers.py"))
        subprocess.run([python, worker, source, out, *map(str, EPSILONS)], check=True)
        with np.load(out) as file:
            return {name: file[name] for name in file}


def figures(n: int, is_proportional: bool, repeats: int, peers: str | None = None) -> list[dict[str, Any]]:
    """Mean figures of all models on cohorts of one size."""
    X_test, y_test = cohort(N_TEST, is_proportional, 1)
    upper = np.where(y_test["event"], y_test["time"], np.inf)
    observed = restricted_mean(kaplan_meier(y_test))
    found: dict[tuple[str, float | None], list[tuple[float, float]]] = {}

    def note(model: str, epsilon: float | None, predicted: np.ndarray, mean: float = np.nan) -> None:
        n_pairs, n_ordered = concordance(y_test["time"], upper, predicted)
        found.setdefault((model, epsilon), []).append((n_ordered / n_pairs, mean / observed))

    for repeat in range(repeats):
        X, y = cohort(n, is_proportional, 2 + repeat)
        note("XGBoost survival:aft", None, of_xgboost(X, y, X_test))
        if peers is not None and n <= MAX_PEER_ROWS:
            public = cohort(2_000, is_proportional, 1_000 + repeat)
            for name, predicted in of_peers(peers, X, y, X_test, public).items():
                model, _, own = name.partition("/")
                note(model, float(own) if own else None, predicted)
        for epsilon in EPSILONS:
            model = lgb_dp.DPLGBMSurvival(epsilon, delta=DELTA).fit(X, y, bounds=BOUNDS, label_bounds=TIMES)
            curve = model.predict_survival_function(X_test, GRID).mean(axis=0)
            note("DPLGBMSurvival", epsilon, model.predict(X_test), restricted_mean(curve))
            note("DPLGBMClassifier at 5", epsilon, of_classifier(X, y, X_test, epsilon))
    kind = "proportional" if is_proportional else "others"
    rows = []
    for (model, epsilon), values in found.items():
        index, mean = (round(float(one), 4) for one in np.mean(values, axis=0))
        row = kind, n, model, epsilon, index, None if np.isnan(mean) else mean
        rows.append(dict(zip(COLUMNS, row, strict=True)))
    return rows


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", help="interpreter of the peers' environment")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
    sizes, repeats = (SIZES[:1], 1) if args.quick else (SIZES, args.repeats)
    cells = [(n, kind) for n in sizes for kind in (True, False)]
    rows = [row for n, kind in tqdm(cells) for row in figures(n, kind, repeats, args.peers)]
    table = [[row[name] for name in COLUMNS] for row in rows]
    print_table("Times to events", COLUMNS, table)
    if args.out is not None:
        write_csv(args.out / "survival.csv", COLUMNS, table)
        write_json(args.out / "survival.json", {"machine": machine(0), "repeats": repeats, "rows": rows})


if __name__ == "__main__":
    main()
