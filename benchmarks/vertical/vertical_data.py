"""Vertically split data of the federated benchmarks: the active party's columns and label, a passive one's.

What `files` does not find is replaced by generated data, and the tables say so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import make_classification

from benchmarks.common.data import load
from benchmarks.common.files import STAND_IN, read_numbers, title


@dataclass(frozen=True)
class VerticalProblem:
    """One data set and which party has which columns.

    Parameters
    ----------
    name : str
    X : matrix
        All columns; the active party has the first `n_active`.
    y : ndarray
    n_active : int
    objective : str
    n_classes : int
    source : str
        "file", or what stands in for it.
    """

    name: str
    X: Any
    y: np.ndarray
    n_active: int
    objective: str
    n_classes: int = 1
    source: str = "file"

    @property
    def title(self) -> str:
        return title(self.name, self.source)

    @property
    def active(self) -> Any:
        return self.X[:, : self.n_active]

    @property
    def passive(self) -> Any:
        return self.X[:, self.n_active :]

    def rows(self, index: Any) -> VerticalProblem:
        return replace(self, X=self.X[index], y=self.y[index])


def _dense(name: str, shape: tuple[int, int], n_classes: int = 1) -> tuple[np.ndarray, np.ndarray, str]:
    read = read_numbers(name)
    if read is not None:
        return *read, "file"
    X, y = make_classification(
        *shape, n_informative=min(15, shape[1] // 2), n_classes=max(2, n_classes), random_state=1
    )
    return X.astype(np.float32), y.astype(np.float64), STAND_IN


def default_credit() -> VerticalProblem:
    """FATE's split: 13 columns at the guest, 10 at the host."""
    X, y, source = _dense("default_credit", (30_000, 23))
    return VerticalProblem("default_credit", X, y, 13, "binary:logistic", source=source)


def give_credit() -> VerticalProblem:
    X, y, source = _dense("give_credit", (150_000, 10))
    return VerticalProblem("give_credit", X, y, 5, "binary:logistic", source=source)


def susy() -> VerticalProblem:
    X, y, source = _dense("susy_30k", (30_000, 18))
    return VerticalProblem("susy_30k", X, y, 4, "binary:logistic", source=source)


def higgs() -> VerticalProblem:
    """The paper's split: 13 and 15 columns."""
    X, y, source = _dense("higgs_11k", (11_000, 28))
    return VerticalProblem("higgs_11k", X, y, 13, "binary:logistic", source=source)


def epsilon() -> VerticalProblem:
    X, y, source = _dense("epsilon_5k", (5_000, 100))
    return VerticalProblem("epsilon_5k", X, y, 50, "binary:logistic", source=source)


def sensorless(n_rows: int = 58_509) -> VerticalProblem:
    """11 classes of as many rows each, with 24 columns at each party; generated unless there is a file."""
    X, y, source = _dense("sensorless", (n_rows, 48), 11)
    if source == "file":
        y = y - y.min()
    index = np.random.default_rng(0).permutation(len(y))[:n_rows]
    return VerticalProblem("sensorless", X[index], y[index], 24, "multi:softprob", 11, source)


def a9a() -> VerticalProblem:
    problem = load("a9a")
    X = scipy.sparse.csr_matrix(problem.X)
    return VerticalProblem("a9a", X, problem.y, X.shape[1] // 2, "binary:logistic", source=problem.source)


def abalone() -> VerticalProblem:
    problem = load("abalone")
    half = problem.X.shape[1] // 2
    return VerticalProblem("abalone", problem.X, problem.y, half, "reg:squarederror", source=problem.source)


def winequality_white() -> VerticalProblem:
    X, y, source = _dense("winequality_white", (5_000, 11), 5)
    return VerticalProblem("winequality_white", X, y, 6, "reg:squarederror", source=source)


def covtype(n_rows: int = 100_000) -> VerticalProblem:
    """Seven classes; shuffled, as the published order starts with balanced classes."""
    X, y, source = _dense("covtype", (n_rows, 54), 7)
    if source == "file":
        y = y - 1
    index = np.random.default_rng(0).permutation(len(y))[:n_rows]
    return VerticalProblem("covtype", X[index], y[index], 27, "multi:softprob", 7, source)


def wide(n_rows: int = 20_000, n_features: int = 400) -> VerticalProblem:
    X, y = make_classification(n_rows, n_features, n_informative=min(20, n_features // 4), random_state=1)
    half = n_features // 2
    return VerticalProblem(
        "wide", X.astype(np.float32), y.astype(np.float64), half, "binary:logistic", source="generated"
    )
