"""Problems of the benchmarks: features, labels, and what is public about them.

What `files` does not find is replaced by data that scikit-learn generates or bundles, so that every benchmark
runs anyway; its figures then say nothing about the data set it stands in for, and the tables say so.

Private training needs public bounds.  Where a data set's documentation gives them they are constants below;
elsewhere the smallest and largest values of the full data set play the part of public bounds in these
experiments.  In earnest that would leak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification, make_regression

from benchmarks.common.files import STAND_IN, read_numbers, read_sparse, read_text, title

COVTYPE_BOUNDS = {
    1: (0, 360),  # Aspect, degrees azimuth
    2: (0, 90),  # Slope, degrees
    **dict.fromkeys((6, 7, 8), (0, 255)),  # Hillshade index
    **dict.fromkeys(range(10, 54), (0, 1)),  # wilderness areas and soil types, one-hot
}
"""Units and indices in the UCI description; elevation and distances have no documented range."""

ABALONE_SEXES = ("M", "F", "I")
ABALONE_BOUNDS = {
    **dict.fromkeys(range(3), (0, 1)),
    **dict(enumerate(((0.075, 0.815), (0.055, 0.65), (0, 1.13), (0.002, 2.826)), start=3)),
    **dict(enumerate(((0.001, 1.488), (0.001, 0.76), (0.002, 1.005)), start=7)),
}
"""Ranges in the UCI description, which rounds them."""

ABALONE_RINGS = (1.0, 29.0)
YEARS = (1922, 2011)
A9A_FEATURES = 123
WEBDATA_FEATURES = 300
IJCNN1_FEATURES = 22
SUBSAMPLE_SEED = 0


@dataclass(frozen=True)
class Problem:
    """One data set and what is public about it.

    Parameters
    ----------
    name : str
    X : ndarray of float32 or CSR matrix
    y : ndarray of float64
        0 or 1 for "binary".
    task : {"binary", "regression"}
    bounds : (low, high)
        Arrays or numbers.
    label_bounds : (float, float) or None
    max_bin : int
    source : str
        "file", or what stands in for it.
    note : str
        Where the bounds come from, and whether rows were left out.
    """

    name: str
    X: Any
    y: np.ndarray
    task: str
    bounds: tuple[Any, Any]
    label_bounds: tuple[float, float] | None
    max_bin: int
    source: str
    note: str

    @property
    def title(self) -> str:
        """Name in tables and plots, saying so where other data stand in."""
        return title(self.name, self.source)

    def describe(self) -> str:
        """One line for the reader of the tables."""
        rows, features = self.X.shape
        return f"{self.title}: {rows:,} x {features}, {self.task}; {self.note}"

    def rows(self, index: np.ndarray) -> tuple[Any, np.ndarray]:
        """Features and labels of some rows."""
        return self.X[index], self.y[index]


def load(name: str, max_rows: int | None = None) -> Problem:
    """A data set by name, a fixed random subsample of it if it has more than `max_rows` rows."""
    problem = LOADERS[name]()
    n_rows = problem.X.shape[0]
    if max_rows is None or n_rows <= max_rows:
        return problem
    index = np.random.default_rng(SUBSAMPLE_SEED).choice(n_rows, max_rows, replace=False)
    X, y = problem.rows(np.sort(index))
    return replace(problem, X=X, y=y, note=f"{problem.note}; {max_rows:,} of {n_rows:,} rows")


def a9a_split() -> tuple[Problem, Any, np.ndarray]:
    """Training part of a9a, and features and labels of its official test part."""
    problem, test = load("a9a"), read_sparse("a9a_test", A9A_FEATURES)
    if test is not None and problem.source == "file":
        return problem, *test
    half = problem.X.shape[0] * 2 // 3
    rest = problem.rows(np.arange(half, problem.X.shape[0]))
    X, y = problem.rows(np.arange(half))
    return replace(problem, X=X, y=y), *rest


def _dense(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    task: str,
    source: str,
    documented: Mapping[int, tuple[float, float]] | None = None,
    label_bounds: tuple[float, float] | None = None,
) -> Problem:
    """A dense problem; bounds that are not documented are those of the full data."""
    documented = documented or {}
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    for feature, pair in documented.items():
        low[feature], high[feature] = pair
    undocumented = X.shape[1] - len(documented)
    note = "documented bounds"
    if undocumented:
        note = f"min/max of the full data as public bounds of {undocumented} features"
    if task == "regression" and label_bounds is None:
        label_bounds = float(y.min()), float(y.max())
        note += " and of the label"
    return Problem(name, X, y, task, (low, high), label_bounds, 32, source, note)


def _generated(name: str, task: str, n_rows: int, n_features: int, source: str = "generated") -> Problem:
    """Data of scikit-learn's generators, as the paper's synthetic sets."""
    if task == "binary":
        X, y = make_classification(n_rows, n_features, n_informative=min(20, n_features // 2), random_state=1)
    else:
        X, y = make_regression(n_rows, n_features, n_informative=min(10, n_features // 2), random_state=1)
    return _dense(name, X.astype(np.float32), y.astype(np.float64), task, source)


def _generated_full_size(name: str, task: str) -> Problem:
    """The paper's synthetic sets at 1,000,000 x 400: scikit-learn's informative features, and normal noise.

    scikit-learn's own generators draw the other features as standard normals too, but all in float64.
    """
    n_rows, n_features = 1_000_000, 400
    X = np.random.default_rng(1).standard_normal((n_rows, n_features), dtype=np.float32)
    if task == "binary":
        told, y = make_classification(n_rows, 22, n_informative=20, n_redundant=2, random_state=1)
    else:
        told, y = make_regression(n_rows, 10, n_informative=10, random_state=1)
    X[:, : told.shape[1]] = told
    return _dense(name, X, y.astype(np.float64), task, "generated")


def _a9a() -> Problem:
    return _one_hot("a9a", "a9a", A9A_FEATURES)


def _webdata() -> Problem:
    return _one_hot("webdata", "w8a", WEBDATA_FEATURES)


def _one_hot(name: str, file: str, n_features: int) -> Problem:
    """A sparse problem of zeros and ones."""
    read = read_sparse(file, n_features)
    X, y = read or _generated_one_hot(n_features)
    source = "file" if read else STAND_IN
    return Problem(name, X, y, "binary", (0, 1), None, 2, source, "one-hot: bounds (0, 1), max_bin 2")


def _generated_one_hot(n_features: int) -> tuple[Any, np.ndarray]:
    """Sparse zeros and ones with labels from a logistic model."""
    random = np.random.default_rng(1)
    dense = random.random((32_561, n_features), dtype=np.float32) < 0.113
    logit = (dense - 0.113) @ random.normal(0, 0.8, n_features) - 1.2
    y = random.random(len(logit)) < 1 / (1 + np.exp(-logit))
    return scipy.sparse.csr_matrix(dense.astype(np.float32)), y.astype(np.float64)


def _covtype() -> Problem:
    read = read_numbers("covtype")
    if read is None:
        return _generated("covtype", "binary", 200_000, 54, STAND_IN)
    X, y = read
    return _dense("covtype", X, (y == 2).astype(np.float64), "binary", "file", COVTYPE_BOUNDS)


def _codrna() -> Problem:
    read = read_numbers("codrna")
    if read is None:
        X, y = load_breast_cancer(return_X_y=True)
        X, y = X.astype(np.float32), y.astype(np.float64)
        return _dense("codrna", X, y, "binary", "breast cancer instead")
    X, y = read
    return _dense("codrna", X, (y > 0).astype(np.float64), "binary", "file")


def _susy() -> Problem:
    read = read_numbers("susy_30k")
    if read is None:
        return _generated("susy", "binary", 30_000, 18, STAND_IN)
    return _dense("susy", *read, "binary", "file")


def _higgs() -> Problem:
    read = read_numbers("higgs_11k")
    if read is None:
        return _generated("higgs", "binary", 11_000, 28, STAND_IN)
    return _dense("higgs", *read, "binary", "file")


def _ijcnn1() -> Problem:
    read = read_sparse("ijcnn1", IJCNN1_FEATURES)
    if read is None:
        return _generated("ijcnn1", "binary", 50_000, IJCNN1_FEATURES, STAND_IN)
    X, y = read
    return _dense("ijcnn1", X.toarray(), y, "binary", "file")


def _abalone() -> Problem:
    read = read_text("abalone")
    if read is None:
        X, y = load_diabetes(return_X_y=True)
        return _dense("abalone", X.astype(np.float32), y, "regression", "diabetes instead")
    _, cells = read
    X, y = _sexes_one_hot(cells[:, 1:]).astype(np.float32), cells[:, 0].astype(np.float64)
    return _dense("abalone", X, y, "regression", "file", ABALONE_BOUNDS, ABALONE_RINGS)


def _sexes_one_hot(cells: np.ndarray) -> np.ndarray:
    """Features of abalone as float64: three columns in place of the first."""
    sexes = cells[:, :1] == np.array(ABALONE_SEXES)
    return np.hstack([sexes.astype(np.float64), cells[:, 1:].astype(np.float64)])


def _year() -> Problem:
    read = read_numbers("year_millionsong_6_7k")
    if read is None:
        return _generated("year", "regression", 6_724, 12, STAND_IN)
    X, y = read
    unit = dict.fromkeys(range(X.shape[1]), (0.0, 1.0))  # published rescaled to [0, 1]
    return _dense("year", X, y, "regression", "file", unit, YEARS)


LOADERS: Mapping[str, Callable[[], Problem]] = {
    "a9a": _a9a,
    "webdata": _webdata,
    "covtype": _covtype,
    "susy": _susy,
    "codrna": _codrna,
    "higgs": _higgs,
    "ijcnn1": _ijcnn1,
    "abalone": _abalone,
    "year": _year,
    "synthetic_cls": lambda: _generated("synthetic_cls", "binary", 50_000, 50),
    "synthetic_reg": lambda: _generated("synthetic_reg", "regression", 50_000, 50),
    "synthetic_cls_full": lambda: _generated_full_size("synthetic_cls_full", "binary"),
    "synthetic_reg_full": lambda: _generated_full_size("synthetic_reg_full", "regression"),
}

UCI_POSITIVE: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "transfusion": lambda y: y == "1",
    "banknote": lambda y: y == "1",
    "ionosphere": lambda y: y == "1",
    "sonar": lambda y: y == "1",
    "yeast": lambda y: y == "CYT",
    "winequality_red": lambda y: y.astype(float) >= 6,
    "qsar_biodeg": lambda y: y == "1",
    "page_blocks": lambda y: y == "1",
    "hill_valley_with_noise": lambda y: y == "1",
    "hill_valley_without_noise": lambda y: y == "1",
    "abalone": lambda y: y.astype(float) >= 10,
    "winequality_white": lambda y: y.astype(float) >= 6,
}
"""Small sets of the M-loss paper, and which labels are the positive class of their binary problem."""

UCI_BINS = 10
"""Values per numeric feature in that paper's experiments."""


def uci_binary(name: str) -> Problem | None:
    """A binary problem of the M-loss paper, None where the folder lacks it; "breast_cancer" is bundled."""
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return replace(_dense(name, X, y.astype(np.float64), "binary", "file"), max_bin=UCI_BINS)
    read = read_text(name)
    if read is None:
        return None
    _, cells = read
    y = UCI_POSITIVE[name](cells[:, 0]).astype(np.float64)
    X = _sexes_one_hot(cells[:, 1:]) if name == "abalone" else cells[:, 1:].astype(np.float64)
    return replace(_dense(name, X, y, "binary", "file"), max_bin=UCI_BINS)
