"""NewtonBoost across organisations against NewtonBoost on pooled rows: accuracy, time, bytes.

Rows are dealt to the parties at random.  In every run all parties take part throughout.

    python benchmarks/federated/federated_private.py --sets adult --parties 2 5 10 --runs 3
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import lightgbm as lgb
import numpy as np
from sklearn.metrics import roc_auc_score

import lgb_dp
from gbdt_parties.traffic import Traffic
from lgb_dp import federated

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.private.peer_data import Split, split

DELTA = 1e-5
PARAMS = {"objective": "binary", "lambda_l2": 0.1, "verbosity": -1, "num_threads": 1}


def declared(data: Split) -> dict:
    """What all parties declare."""
    numeric = np.flatnonzero(data.n_categories == 0)
    return {
        "bounds": {int(f): (data.low[f], data.high[f]) for f in numeric},
        "categories": {int(f): list(range(n)) for f, n in enumerate(data.n_categories) if n},
        "max_bin": 255,
        "spacing": "mixed",
    }


def pooled(data: Split, epsilon: float, n_rounds: int) -> tuple[float, float]:
    """Test AUC, and seconds of processor time."""
    train_set = lgb_dp.Dataset(data.X, data.y, **declared(data)).construct()
    started = time.process_time()
    booster = lgb.train(PARAMS, train_set, n_rounds, callbacks=[lgb_dp.NewtonBoost(epsilon, DELTA)])
    seconds = time.process_time() - started
    return roc_auc_score(data.y_test, booster.predict(data.X_test)), seconds


def apart(
    data: Split, n_parties: int, epsilon: float, n_rounds: int, per_round: int, colluding: int
) -> tuple[float, float, float]:
    """Test AUC, seconds of processor time, and kilobytes that a party sends."""
    party_of_row = np.random.default_rng().integers(n_parties, size=len(data.y))
    parties = [
        federated.Party(
            data.X[party_of_row == p], data.y[party_of_row == p], name=f"party {p}", **declared(data)
        )
        for p in range(n_parties)
    ]
    traffic = Traffic()
    started = time.process_time()
    booster = federated.train(
        PARAMS,
        parties,
        n_rounds,
        callbacks=[lgb_dp.NewtonBoost(epsilon, DELTA)],
        trees_per_round=per_round,
        colluding=colluding,
        traffic=traffic,
    )
    seconds = time.process_time() - started
    sent = sum(row["bytes"] for row in traffic.to_dicts() if row["message"] == "Contributed") / n_parties
    return roc_auc_score(data.y_test, booster.predict(data.X_test)), seconds, sent / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["adult"])
    parser.add_argument("--parties", nargs="+", type=int, default=[2, 5, 10])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--trees-per-round", type=int, default=1, help="of the parties; pooled rows have one")
    parser.add_argument("--colluding", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data set | parties | AUC of the runs | seconds (processor) | kB up per party |")
    print("|---|---|---|---|---|")
    for name in args.sets:
        data = split(name)
        runs = [pooled(data, args.epsilon, args.rounds) for _ in range(args.runs)]
        aucs, seconds = (" ".join(form % value for value in column) for form, column in _columns(runs))
        print(f"| {data.name} | pooled | {aucs} | {seconds} | |", flush=True)
        for n_parties in args.parties:
            results = [
                apart(data, n_parties, args.epsilon, args.rounds, args.trees_per_round, args.colluding)
                for _ in range(args.runs)
            ]
            columns = _columns([(auc, seconds) for auc, seconds, _ in results])
            aucs, seconds = (" ".join(form % value for value in column) for form, column in columns)
            print(f"| {data.name} | {n_parties} | {aucs} | {seconds} | {results[0][2]:.0f} |", flush=True)


def _columns(runs: list[tuple[float, float]]) -> list[tuple[str, tuple[float, ...]]]:
    aucs, seconds = zip(*runs, strict=True)
    return [("%.4f", aucs), ("%.1f", seconds)]


if __name__ == "__main__":
    main()
