"""One party's columns, cut into bins exactly as XGBoost cuts them.

Bin ``b`` of a feature holds ``cuts[b-1] <= x < cuts[b]``; a split at bin ``b``
sends ``x < cuts[b]`` left.  Missing values (NaN, and entries that a sparse
matrix does not store) have the code after the feature's last bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import xgboost
from numpy.typing import NDArray

from gbdt_parties.errors import InvalidDataError

MAX_BINS = 65_534
"""Bins of a feature, missing values not counted: a code is two bytes at most."""

MAX_VALUE = float(np.finfo(np.float32).max) / 2
"""Of a cell, up or down: XGBoost's last cut is twice the largest value, and its lower bound twice the least.

Beyond it, a split that sends all values to one side has an infinite threshold, which no model file holds.
"""


@dataclass(frozen=True)
class Columns:
    """A matrix as its owner gave it, checked.

    Attributes
    ----------
    data : ndarray of float32, shape (n_rows, n_features), or CSC matrix of float32
        Unstored entries of a sparse matrix are missing values, as XGBoost reads them.
    names : list of str
    """

    data: Any
    names: list[str]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.data.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.data.shape[1])

    def take(self, rows: NDArray[np.integer[Any]]) -> Columns:
        """Some of the rows."""
        if scipy.sparse.issparse(self.data):
            return Columns(self.data.tocsr()[rows].tocsc(), self.names)
        return Columns(self.data[rows], self.names)

    def check_names(self, names: list[str], argument: str) -> None:
        """Check that these are the columns that were trained on; those without names fit by their number.

        Raises
        ------
        InvalidDataError
            Naming the columns that are missing and those that are too many, or the right order.
        """
        check_names(self.names, names, argument)

    def column(self, feature: int) -> NDArray[np.float32]:
        """Values of one column, NaN where missing."""
        if not scipy.sparse.issparse(self.data):
            return np.asarray(self.data[:, feature])
        values = np.full(self.n_rows, np.nan, dtype=np.float32)
        stored = slice(self.data.indptr[feature], self.data.indptr[feature + 1])
        values[self.data.indices[stored]] = self.data.data[stored]
        return values

    def goes_left(
        self, feature: int, threshold: float, default_left: bool, rows: NDArray[np.integer[Any]]
    ) -> NDArray[np.bool_]:
        """Which of some rows a split sends left: those below its threshold, and perhaps the missing ones."""
        values = self.column(feature)[rows]
        return np.where(np.isnan(values), default_left, values < np.float32(threshold))


def check_names(own: list[str], names: list[str], argument: str) -> None:
    """Check that columns are those that were trained on; see `Columns.check_names`."""
    if own in (names, [f"f{k}" for k in range(len(names))]):
        return
    missing = [name for name in names if name not in own]
    unknown = [name for name in own if name not in names]
    if missing or unknown:
        raise InvalidDataError(
            f"{argument} must have the columns that were trained on: missing {missing}, unknown {unknown}"
        )
    raise InvalidDataError(f"{argument} must have its columns in the order of training, {names}")


def read_columns(X: Any, argument: str = "X") -> Columns:
    """Check a numpy array, pandas frame or sparse matrix; columns that were checked stay as they are.

    Raises
    ------
    InvalidDataError
        If it is not two-dimensional and numeric, or has no rows, or has categories, infinite values or such
        beyond `MAX_VALUE`.
    """
    if isinstance(X, Columns):
        return X
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        wrong = [str(n) for n, t in zip(X.columns, X.dtypes, strict=True) if t.kind not in "biuf"]
        if wrong:
            raise InvalidDataError(
                f"{argument} has columns that are not numbers: {wrong}; categorical features are not "
                "supported, encode them first"
            )
        X = X.to_numpy(dtype=np.float32, na_value=np.nan)
    if scipy.sparse.issparse(X):
        if X.dtype.kind not in "biuf":
            raise InvalidDataError(f"{argument} must be numbers, got {X.dtype.type.__name__}")
        data = scipy.sparse.csc_matrix(X, dtype=np.float32)
        data.sum_duplicates()
        values = data.data
    else:
        data = values = np.ascontiguousarray(_as_numbers(X, argument))
    if data.ndim != 2:
        raise InvalidDataError(f"{argument} has {data.ndim} dimensions; a matrix has 2")
    if data.shape[0] == 0:
        raise InvalidDataError(f"{argument} has no rows")
    if ((values > MAX_VALUE) | (values < -MAX_VALUE)).any():
        raise InvalidDataError(
            f"{argument} has values that are infinite or beyond ±{MAX_VALUE:.2g} as float32, half of its "
            "range; smaller ones are accepted, and NaN where there is none"
        )
    names = names or [f"f{k}" for k in range(data.shape[1])]
    if len(set(names)) != len(names):
        raise InvalidDataError(f"{argument} has columns of one name: {names}")
    return Columns(data, names)


@dataclass(frozen=True)
class BinnedFeatures:
    """Cuts and codes of a party's columns.

    Attributes
    ----------
    cuts : list of ndarray of float32
        Upper bounds of each feature's bins.
    lower : ndarray of float32, shape (n_features,)
        XGBoost's lower bound of each feature: the threshold that no value is below.
    codes : ndarray of uint8 or uint16, shape (n_rows, n_features)
    bin_offsets : ndarray of int64, shape (n_features + 1,)
        Places of each feature in a histogram: its bins, then one for missing values.
    """

    cuts: list[NDArray[np.float32]]
    lower: NDArray[np.float32]
    codes: NDArray[np.unsignedinteger[Any]]
    bin_offsets: NDArray[np.int64]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.cuts)

    def threshold(self, feature: int, last_left: int) -> float:
        """What XGBoost writes for a split whose last bin to the left is `last_left` (−1 for none)."""
        return float(self.cuts[feature][last_left] if last_left >= 0 else self.lower[feature])

    def goes_left(
        self, rows: NDArray[np.integer[Any]], feature: int, last_left: int, default_left: bool
    ) -> NDArray[np.bool_]:
        """Which rows a split sends left."""
        codes = self.codes[rows, feature]
        missing = codes == len(self.cuts[feature])
        return np.where(missing, default_left, codes.astype(np.int64) <= last_left)

    def counts(self) -> NDArray[np.int64]:
        """Rows in each bin of each feature, and rows without a value."""
        places = self.codes + self.bin_offsets[:-1]
        return np.bincount(places.ravel(), minlength=int(self.bin_offsets[-1]))


def _as_numbers(values: Any, argument: str) -> NDArray[np.float32]:
    """Values of any shape as float32.

    The error does not quote the value, since its text may go to another party or into a log, and it is raised
    outside of the handler, so that NumPy's error, which does quote it, is not its context.
    """
    try:
        return np.asarray(values, dtype=np.float32)
    except Exception:  # whatever a cell's own conversion raises
        pass
    raise InvalidDataError(f"{argument} must be numbers")


def numeric_vector(values: Any, argument: str) -> NDArray[np.float32]:
    """Convert to a vector of float32.

    Raises
    ------
    InvalidDataError
        If the values are not numbers, or not a vector.
    """
    vector = _as_numbers(values, argument)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise InvalidDataError(f"{argument} has shape {vector.shape}; a vector is accepted")
    return vector


def check_weight(weight: Any, n_rows: int, argument: str, what: str = "rows") -> NDArray[np.float32] | None:
    """Weights of rows, or of queries, or None.

    Raises
    ------
    InvalidDataError
        If they are not one finite number each, all at least 0 and not all 0.
    """
    if weight is None:
        return None
    vector = numeric_vector(weight, argument)
    if len(vector) != n_rows:
        raise InvalidDataError(f"{argument} has {len(vector)} weights for {n_rows} {what}")
    if not (np.isfinite(vector).all() and (vector >= 0).all() and vector.any()):
        raise InvalidDataError(f"{argument} must be finite, not negative, and not all zero")
    return vector


def bin_features(columns: Columns, max_bin: int) -> BinnedFeatures:
    """Cut every column by XGBoost's own quantile sketch.

    The sketch works column by column, unweighted: cuts are those of pooled training on the same rows.
    """
    cuts, lower = cut_columns(columns, max_bin)
    return BinnedFeatures(cuts, lower, codes_of(columns, cuts), offsets_of(cuts))


def cut_columns(columns: Columns, max_bin: int) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
    """The cuts and lower bounds that XGBoost's quantile sketch finds; see `BinnedFeatures`."""
    n_features = columns.n_features
    if n_features == 0:
        return [], np.empty(0, dtype=np.float32)
    data = columns.data.tocsr() if scipy.sparse.issparse(columns.data) else columns.data
    starts, values = xgboost.QuantileDMatrix(data, max_bin=max_bin).get_quantile_cut()
    parts = [np.asarray(values[starts[f] : starts[f + 1]], dtype=np.float32) for f in range(n_features)]
    if max(len(part) for part in parts) > MAX_BINS + 1:
        raise InvalidDataError(f"max_bin={max_bin} gives a feature more than {MAX_BINS} bins")
    return [part[1:] for part in parts], np.array([part[0] for part in parts], dtype=np.float32)


def codes_of(columns: Columns, cuts: Sequence[NDArray[np.float32]]) -> NDArray[np.unsignedinteger[Any]]:
    """The bin of every value; see `BinnedFeatures`."""
    is_short = max((len(own) for own in cuts), default=0) < 256
    codes = np.empty((columns.n_rows, len(cuts)), dtype=np.uint8 if is_short else np.uint16)
    for f, own in enumerate(cuts):
        column = columns.column(f)
        code = np.minimum(np.searchsorted(own, column, side="right"), len(own) - 1)
        codes[:, f] = np.where(np.isnan(column), len(own), code)
    return codes


def offsets_of(cuts: Sequence[NDArray[np.float32]]) -> NDArray[np.int64]:
    """Places of features in a histogram: the bins of each, then one for missing values."""
    return np.concatenate([[0], np.cumsum([len(own) + 1 for own in cuts])]).astype(np.int64)
