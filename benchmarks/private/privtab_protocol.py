"""NewtonBoost and its peers in PrivTab's protocol: replace-one μ, random splits of 80 to 20, and Elo ratings.

``VEILBOOST_DATA=… python benchmarks/private/privtab_protocol.py`` takes the data sets of two classes at hand
and μ = 0.05, 0.1, 0.2, 0.4, 0.8 and 1.6, and prints the mean error (1 - AUC) and log-loss of every learner,
and its Elo rating over all pairs of learners on the same split at the same μ, where DP logistic regression
has 1000.  Results are kept one JSON line per fit, so that a run can be taken up again.  ``--quick`` takes two
data sets, two values of μ and one split.

Replacing a row is removing one and adding another, so a learner that is (μ/2)-GDP under adding or removing a
row is μ-GDP here.  Every learner gets the ε at which μ/2 meets δ = 1e-5.  NewtonBoost, DP-EBM, logistic
regression and the perceptron divide exactly μ/2.  The others compose otherwise: pure ε-differential privacy,
or MST's concentrated one, at this ε is more, or less, than μ/2.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from tqdm import tqdm

from lgb_dp.accounting.gaussian import gaussian_epsilon

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import print_table, write_csv
from benchmarks.private import peer_data, peer_workers, private_peers

MUS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
QUICK_MUS = (0.1, 0.8)
QUICK_DATA = ("transfusion", "banknote")
TRAIN_FRACTION = 0.8
TABLE_FILES: Mapping[str, str] = {
    "Error": "private-peers-privtab-error.csv",
    "Log-loss": "private-peers-privtab-loss.csv",
    "Elo": "private-peers-privtab-elo.csv",
}
"""Files of the tables, by title."""
REFERENCE, REFERENCE_RATING, SCALE = "DP logistic regression", 1000.0, 400.0
"""The learner whose rating is set, and the difference of ratings at which ten of eleven games are won."""

_WEAK_PENALTY = 1e6
"""Inverse of the penalty of the ratings, as PrivTab has it; it bounds those of a learner that always wins."""


def divided(data: peer_data.Split, repeat: int, n_rows: int) -> peer_data.Split:
    """A random split of all rows, or of `n_rows` random ones, each class divided in the same proportion."""
    X, y = np.vstack([data.X, data.X_test]), np.concatenate([data.y, data.y_test])
    random = np.random.default_rng(repeat)
    if len(y) > n_rows:
        drawn = random.permutation(len(y))[:n_rows]
        X, y = X[drawn], y[drawn]
    is_train = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = random.permutation(np.flatnonzero(y == label))
        is_train[rows[: round(TRAIN_FRACTION * len(rows))]] = True
    return replace(data, X=X[is_train], y=y[is_train], X_test=X[~is_train], y_test=y[~is_train])


def ratings(errors: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Elo ratings by maximum likelihood; an equal error is half a game won by each.

    Parameters
    ----------
    errors : sequence of mapping
        Of every task, each learner's error.
    """
    learners = sorted({name for task in errors for name in task})
    place = {name: i for i, name in enumerate(learners)}
    games, won, weights = [], [], []
    for task in errors:
        for a, b in combinations(sorted(task), 2):
            game = np.zeros(len(learners))
            game[place[a]], game[place[b]] = np.log(10), -np.log(10)
            share = 0.5 if task[a] == task[b] else float(task[a] < task[b])
            games += [game, game]
            won += [1, 0]
            weights += [share, 1 - share]
    model = LogisticRegression(fit_intercept=False, C=_WEAK_PENALTY, max_iter=1000)
    model.fit(np.array(games), np.array(won), sample_weight=weights)
    rating = SCALE * model.coef_[0]
    shift = REFERENCE_RATING - (rating[place[REFERENCE]] if REFERENCE in place else rating.mean())
    return {name: float(rating[i] + shift) for name, i in place.items()}


def tables(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows: errors and log-losses by μ, and ratings."""
    found = {row["learner"] for row in rows}
    learners = [name for name in peer_workers.LEARNERS if name in found]
    mus = sorted({row["mu"] for row in rows})
    result = []
    for title, value in (("Error", lambda row: 1 - row["auc"]), ("Log-loss", lambda row: row["log_loss"])):
        body = []
        for name in learners:
            values = [[value(row) for row in rows if (row["learner"], row["mu"]) == (name, mu)] for mu in mus]
            body.append([name, *(f"{np.mean(v):.3f}" if v else "-" for v in values)])
        result.append((title, ["learner", *(f"μ = {mu:g}" for mu in mus)], body))
    tasks: dict[Any, dict[str, float]] = defaultdict(dict)
    for row in rows:
        tasks[row["data"], row["seed"], row["mu"]][row["learner"]] = 1 - row["auc"]
    groups = [[task for key, task in tasks.items() if key[2] == mu] for mu in mus] + [list(tasks.values())]
    columns = [ratings(group) if group else {} for group in groups]
    body = [
        [name, *(f"{column[name]:.0f}" if name in column else "-" for column in columns)] for name in learners
    ]
    result.append(("Elo", ["learner", *(f"μ = {mu:g}" for mu in mus), "all"], body))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    binary = [name for name in peer_data.SPLITS if name not in ("winequality", "abalone")]
    learners = [name for name in peer_workers.LEARNERS if name != private_peers.NOT_PRIVATE]
    parser.add_argument("--quick", action="store_true", help="two data sets, two values of μ, one split")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--mus", type=float, nargs="+")
    parser.add_argument("--rows", type=int, default=sys.maxsize, help="rows of a data set at most")
    parser.add_argument("--data", nargs="+", choices=binary)
    parser.add_argument("--learners", nargs="+", default=learners)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a learner on a split")
    parser.add_argument("--results", type=Path, default=private_peers.ROOT / "out" / "privtab_protocol.jsonl")
    parser.add_argument("--tables", type=Path, help="folder to write the tables to")
    options = parser.parse_args()
    names = options.data or (QUICK_DATA if options.quick else binary)
    mus = options.mus or (QUICK_MUS if options.quick else MUS)
    epsilons = {gaussian_epsilon(mu / 2, peer_workers.DELTA): mu for mu in mus}
    options.results.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    if options.results.exists():
        rows = [json.loads(line) for line in options.results.read_text().splitlines()]
    done = {(row["data"], row["learner"], row["seed"], row["mu"]) for row in rows}
    repeats = range(1 if options.quick else options.repeats)
    work = [(repeat, d, name) for repeat in repeats for d in names for name in options.learners]
    with tempfile.TemporaryDirectory() as folder, options.results.open("a") as file:
        for repeat, name, learner in tqdm(work, unit="learner"):
            part = divided(peer_data.split(name), repeat, options.rows)
            wanted = [e for e, mu in epsilons.items() if (part.name, learner, repeat, mu) not in done]
            if not wanted:
                continue
            path = Path(folder) / f"{name}.npz"
            part.save(path)
            for row in private_peers.run_learner(learner, path, repeat, wanted, options.timeout):
                rows.append({**row, "mu": epsilons[row["epsilon"]]})
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
    for title, columns, body in tables(rows):
        print_table(title, columns, body)
        if options.tables:
            write_csv(options.tables / TABLE_FILES[title], columns, body)


if __name__ == "__main__":
    main()
