"""Splits that the private peers are compared on, and what is public about each.

As in `data`, files come from the folder that `VEILBOOST_DATA` names; without it scikit-learn generates
stand-ins, and the table says so.  Documented bounds are constants below; elsewhere the smallest and largest
values of the full data set play the part of public bounds, the same for every peer.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file, make_classification, make_regression

ADULT_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 99_999),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
}
"""Top codes and ranges of the census questionnaire, rounded."""

ABALONE_SEXES = ("M", "F", "I")
TEST_SHARE = 0.2
"""Share of the rows that are test rows for good, where there is no official split."""
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


def _folder() -> Path | None:
    folder = os.environ.get("VEILBOOST_DATA")
    return Path(folder) if folder else None


def _read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.reader(file))
    return rows[0], rows[1:]


def _divided(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    task: str = "binary",
    label_bounds: tuple[float, float] = (0.0, 1.0),
    n_categories: Mapping[int, int] | None = None,
) -> Split:
    order = np.random.default_rng(0).permutation(len(y))
    n_train = len(y) - int(TEST_SHARE * len(y))
    train, test = order[:n_train], order[n_train:]
    categories = np.zeros(X.shape[1], dtype=np.int64)
    for feature, n in (n_categories or {}).items():
        categories[feature] = n
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    return Split(name, X[train], y[train], X[test], y[test], low, high, categories, task, label_bounds)


def _stand_in(name: str, task: str, n_rows: int = 4000, n_features: int = 10) -> Split:
    if task == "binary":
        X, y = make_classification(n_rows, n_features, n_informative=5, random_state=1)
        return _divided(f"{name} (generated stand-in)", X, y.astype(float))
    X, y = make_regression(n_rows, n_features, n_informative=5, random_state=1)
    bounds = (float(y.min()), float(y.max()))
    return _divided(f"{name} (generated stand-in)", X, y, task, bounds)


def _adult(name: str) -> Split:
    folder = _folder()
    if folder is None or not (folder / "adult_train.csv.gz").exists():
        return _stand_in(name, "binary")
    header, train = _read_table(folder / "adult_train.csv.gz")
    _, test = _read_table(folder / "adult_test.csv.gz")
    rows = train + test
    columns, low, high, categories = [], [], [], []
    for j, column in enumerate(header[1:], start=1):
        if column in ADULT_BOUNDS:
            columns.append(np.array([row[j] for row in rows], dtype=float))
            bounds, n = ADULT_BOUNDS[column], 0
        else:
            known = sorted({row[j] for row in rows} - {"?"})
            number = {value: float(i) for i, value in enumerate(known)}
            columns.append(np.array([number.get(row[j], np.nan) for row in rows]))
            bounds, n = (0, len(known) - 1), len(known)
        low.append(bounds[0])
        high.append(bounds[1])
        categories.append(n)
    X, y, n_train = np.column_stack(columns), np.array([float(row[0]) for row in rows]), len(train)
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
    folder, n = _folder(), 123
    if folder is None or not (folder / "a9a.svm.gz").exists():
        return _stand_in(name, "binary")
    (X, y), (X_test, y_test) = (
        load_svmlight_file(str(folder / file), n_features=n) for file in ("a9a.svm.gz", "a9a_test.svm.gz")
    )
    return Split(
        name,
        X.toarray(),
        (y > 0).astype(float),
        X_test.toarray(),
        (y_test > 0).astype(float),
        np.zeros(n),
        np.ones(n),
        np.zeros(n, dtype=np.int64),
        "binary",
        (0.0, 1.0),
    )


def _ijcnn1(name: str) -> Split:
    folder = _folder()
    if folder is None or not (folder / "ijcnn1.svm.gz").exists():
        return _stand_in(name, "binary")
    X, y = load_svmlight_file(str(folder / "ijcnn1.svm.gz"), n_features=22)
    return _divided(name, X.toarray(), (y > 0).astype(float))


def _dense(name: str) -> Split:
    folder = _folder()
    if folder is None or not (folder / f"{name}.csv.gz").exists():
        return _stand_in(name, "binary")
    _, rows = _read_table(folder / f"{name}.csv.gz")
    table = np.array([[float(v) if v else np.nan for v in row] for row in rows])
    return _divided(name, table[:, 1:], (table[:, 0] > 0).astype(float))


def _winequality(name: str) -> Split:
    folder = _folder()
    if folder is None or not (folder / "winequality_red.csv.gz").exists():
        return _stand_in(name, "regression")
    tables = []
    for is_white, colour in enumerate(("red", "white")):
        table = np.array(_read_table(folder / f"winequality_{colour}.csv.gz")[1], dtype=float)
        tables.append(np.column_stack([table, np.full(len(table), float(is_white))]))
    table = np.vstack(tables)
    return _divided(name, table[:, 1:], table[:, 0], "regression", (0.0, 10.0))


def _abalone(name: str) -> Split:
    folder = _folder()
    if folder is None or not (folder / "abalone.csv.gz").exists():
        return _stand_in(name, "regression")
    _, rows = _read_table(folder / "abalone.csv.gz")
    sex = [float(ABALONE_SEXES.index(row[1])) for row in rows]
    X = np.column_stack([sex, np.array([row[2:] for row in rows], dtype=float)])
    y = np.array([row[0] for row in rows], dtype=float)
    return _divided(name, X, y, "regression", (1.0, 29.0), {0: len(ABALONE_SEXES)})


SPLITS: Mapping[str, Callable[[str], Split]] = {
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
