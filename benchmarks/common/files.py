"""Files of the benchmarks' data sets: the one place that reads them.

The environment variable `VEILBOOST_DATA` names a folder with dense data sets as ``NAME.csv.gz`` (a header,
the label first, nothing between two commas for a missing value) and sparse ones as ``NAME.svm.gz`` (LIBSVM
format).  Readers return None where the folder lacks a file; what stands in for it is up to the caller, and
is said in the tables.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike
from sklearn.datasets import load_svmlight_file

STAND_IN = "generated stand-in"
"""Source of data that scikit-learn generates in place of a file."""


def path_of(file: str) -> Path | None:
    """Where a file of the folder is, None if it is not there."""
    folder = os.environ.get("VEILBOOST_DATA")
    path = Path(folder, file) if folder else None
    return path if path and path.exists() else None


def title(name: str, source: str) -> str:
    """Name of a data set in tables and plots, saying so where other data stand in."""
    return name if source in ("file", "generated") else f"{name} ({source})"


def read_numbers(name: str, dtype: DTypeLike = np.float32) -> tuple[np.ndarray, np.ndarray] | None:
    """Features and labels of a dense data set of numbers.

    Parameters
    ----------
    name : str
    dtype : data type
        Of the features; labels are float64.

    Returns
    -------
    X : ndarray, shape (n_rows, n_features)
        NaN where a value is missing.
    y : ndarray of float64, shape (n_rows,)
    """
    path = path_of(f"{name}.csv.gz")
    if path is None:
        return None
    table = np.loadtxt(_filled_lines(path), delimiter=",", dtype=dtype)
    return np.ascontiguousarray(table[:, 1:]), table[:, 0].astype(np.float64)


def _filled_lines(path: Path) -> Iterator[str]:
    """Lines after the header, with "nan" for missing values."""
    with gzip.open(path, "rt", newline="") as file:
        next(file)
        for line in file:
            line = line.rstrip("\r\n")
            if ",," in line or line.endswith(","):
                line = ",".join(value or "nan" for value in line.split(","))
            yield line


def read_text(name: str) -> tuple[list[str], np.ndarray] | None:
    """Names of the columns of a dense data set, and its cells as text, shape (n_rows, n_columns)."""
    path = path_of(f"{name}.csv.gz")
    if path is None:
        return None
    with gzip.open(path, "rt", newline="") as file:
        header, *rows = csv.reader(file)
    return header, np.char.strip(np.array(rows))


def read_sparse(
    name: str, n_features: int, dtype: DTypeLike = np.float32
) -> tuple[scipy.sparse.csr_matrix, np.ndarray] | None:
    """Features of a sparse data set, and its labels: 1 where the file's are positive, else 0."""
    path = path_of(f"{name}.svm.gz")
    if path is None:
        return None
    X, y = load_svmlight_file(str(path), n_features=n_features, dtype=dtype)
    return scipy.sparse.csr_matrix(X), (y > 0).astype(np.float64)
