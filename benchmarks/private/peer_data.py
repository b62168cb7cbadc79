"""Splits that the private peers are compared on, and what is public about each.

Where `files` does not find a data set, scikit-learn generates a stand-in, and the table says so.  Documented
bounds are constants below; elsewhere the smallest and largest values of the full data set play the part of
public bounds, the same for every peer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification, make_regression

from benchmarks.common.data import A9A_FEATURES, ABALONE_RINGS, ABALONE_SEXES, IJCNN1_FEATURES
from benchmarks.common.files import STAND_IN, read_numbers, read_sparse, read_text, title

ADULT_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 99_999),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
}
"""Top codes and ranges of the census questionnaire, rounded."""

EEG_BOUNDS = (3_800.0, 4_800.0)
"""Microvolts: the headset's offset and half a millivolt to both sides; its faults are beyond."""

TEST_FRACTION = 0.2
"""Part of the rows that are test rows for good, where there is no official split."""
N_FOLDS = 5


@dataclass(frozen=True)
class Split:
    """Training and test rows.

    Parameters
    ----------
    name : str
    X, y, X_test, y_test : ndarray of float64
        NaN means missing; a categorical column holds 0, 1, ….
    low, high : ndarray of float64, shape (n_features,)
        Public bounds of the columns.
    n_categories : ndarray of int64, shape (n_features,)
        0 for numeric columns.
    task : {"binary", "regression"}
    label_bounds : (float, float)
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_categories: np.ndarray
    task: str
    label_bounds: tuple[float, float]

    def save(self, path: Path) -> None:
        """Write everything to an npz file, for peers in other environments."""
        np.savez(path, **{key: np.asarray(value) for key, value in vars(self).items()})


def split(name: str) -> Split:
    """A data set's official split, or the fixed one: the same test rows in every run."""
    return SPLITS[name](name)


def development_fold(name: str, number: int) -> Split:
    """Training rows of a data set, one of their five folds held out; no test row is in either part.

    Parameters
    ----------
    name : str
    number : int
        Fold that is held out, 0 to 4.
    """
    whole = split(name)
    order = np.random.default_rng(1).permutation(len(whole.y))
    held_out = np.arange(len(order)) % N_FOLDS == number
    train, rest = order[~held_out], order[held_out]
    X, y = whole.X, whole.y
    return replace(whole, X=X[train], y=y[train], X_test=X[rest], y_test=y[rest])


def _divided(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    task: str = "binary",
    label_bounds: tuple[float, float] = (0.0, 1.0),
    n_categories: Mapping[int, int] | None = None,
) -> Split:
    order = np.random.default_rng(0).permutation(len(y))
    n_train = len(y) - int(TEST_FRACTION * len(y))
    train, test = order[:n_train], order[n_train:]
    categories = np.zeros(X.shape[1], dtype=np.int64)
    for feature, n in (n_categories or {}).items():
        categories[feature] = n
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    return Split(name, X[train], y[train], X[test], y[test], low, high, categories, task, label_bounds)


def _stand_in(name: str, task: str, n_rows: int = 4000, n_features: int = 10) -> Split:
    if task == "binary":
        X, y = make_classification(n_rows, n_features, n_informative=5, random_state=1)
        return _divided(title(name, STAND_IN), X, y.astype(float))
    X, y = make_regression(n_rows, n_features, n_informative=5, random_state=1)
    bounds = (float(y.min()), float(y.max()))
    return _divided(title(name, STAND_IN), X, y, task, bounds)


def _adult(name: str) -> Split:
    read, read_test = read_text("adult_train"), read_text("adult_test")
    if read is None or read_test is None:
        return _stand_in(name, "binary")
    (header, train), (_, test) = read, read_test
    rows = np.concatenate([train, test])
    columns, low, high, categories = [], [], [], []
    for j, column in enumerate(header[1:], start=1):
        if column in ADULT_BOUNDS:
            columns.append(rows[:, j].astype(float))
            bounds, n = ADULT_BOUNDS[column], 0
        else:
            known = sorted(set(rows[:, j].tolist()) - {"?"})
            number = {value: float(i) for i, value in enumerate(known)}
            columns.append(np.array([number.get(value, np.nan) for value in rows[:, j].tolist()]))
            bounds, n = (0, len(known) - 1), len(known)
        low.append(bounds[0])
        high.append(bounds[1])
        categories.append(n)
    X, y, n_train = np.column_stack(columns), rows[:, 0].astype(float), len(train)
    return Split(
        name,
        X[:n_train],
        y[:n_train],
        X[n_train:],
        y[n_train:],
        np.array(low, dtype=float),
        np.array(high, dtype=float),
        np.array(categories),
        "binary",
        (0.0, 1.0),
    )


def _a9a(name: str) -> Split:
    read, read_test = (read_sparse(file, A9A_FEATURES, np.float64) for file in ("a9a", "a9a_test"))
    if read is None or read_test is None:
        return _stand_in(name, "binary")
    (X, y), (X_test, y_test) = read, read_test
    low, high = np.zeros(A9A_FEATURES), np.ones(A9A_FEATURES)
    numeric = np.zeros(A9A_FEATURES, dtype=np.int64)
    return Split(name, X.toarray(), y, X_test.toarray(), y_test, low, high, numeric, "binary", (0.0, 1.0))


def _ijcnn1(name: str) -> Split:
    read = read_sparse("ijcnn1", IJCNN1_FEATURES, np.float64)
    return _stand_in(name, "binary") if read is None else _divided(name, read[0].toarray(), read[1])


def _dense(name: str) -> Split:
    read = read_numbers(name, np.float64)
    return _stand_in(name, "binary") if read is None else _divided(name, read[0], (read[1] > 0).astype(float))


def _eeg(name: str) -> Split:
    whole = _dense(name)
    if whole.name != name:
        return whole
    low, high = (np.full(whole.X.shape[1], bound) for bound in EEG_BOUNDS)
    inside = [np.clip(X, *EEG_BOUNDS) for X in (whole.X, whole.X_test)]
    return replace(whole, X=inside[0], X_test=inside[1], low=low, high=high)


def _winequality(name: str) -> Split:
    tables = []
    for is_white, colour in enumerate(("red", "white")):
        read = read_numbers(f"winequality_{colour}", np.float64)
        if read is None:
            return _stand_in(name, "regression")
        X, y = read
        tables.append(np.column_stack([y, X, np.full(len(y), float(is_white))]))
    table = np.vstack(tables)
    return _divided(name, table[:, 1:], table[:, 0], "regression", (0.0, 10.0))


def _abalone(name: str) -> Split:
    read = read_text("abalone")
    if read is None:
        return _stand_in(name, "regression")
    _, cells = read
    sex = [float(ABALONE_SEXES.index(value)) for value in cells[:, 1].tolist()]
    X = np.column_stack([sex, cells[:, 2:].astype(float)])
    return _divided(name, X, cells[:, 0].astype(float), "regression", ABALONE_RINGS, {0: len(ABALONE_SEXES)})


PEER_SETS: Mapping[str, Callable[[str], Split]] = {
    "adult": _adult,
    "a9a": _a9a,
    "give_credit": _dense,
    "default_credit": _dense,
    "codrna": _dense,
    "ijcnn1": _ijcnn1,
    "susy_30k": _dense,
    "higgs_11k": _dense,
    "winequality": _winequality,
    "abalone": _abalone,
}
"""The ten sets of the tables of peers."""

SMALL_SETS = (
    *("banknote", "epsilon_5k", "hill_valley_with_noise", "hill_valley_without_noise"),
    *("ionosphere", "qsar_biodeg", "sonar", "transfusion"),
)
"""Further sets of two classes, of 208 to 5,000 rows."""

SPLITS: Mapping[str, Callable[[str], Split]] = {
    **PEER_SETS,
    "eeg_eye_state": _eeg,
    **dict.fromkeys(SMALL_SETS, _dense),
}
