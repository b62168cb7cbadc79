"""One party's columns, cut into bins exactly as XGBoost cuts them.

Bin ``b`` of a feature holds ``cuts[b-1] <= x < cuts[b]``; a split at bin ``b``
sends ``x < cuts[b]`` left.  Missing values (NaN, and entries that a sparse
matrix does not store) have the code after the feature's last bin.  Bin ``b`` of
a categorical feature holds its category ``b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse
import xgboost
from numpy.typing import NDArray

from gbdt_commons.tables.frames import check_names as check_column_names
from gbdt_commons.tables.frames import is_table
from gbdt_commons.tables.numbers import canonical, read_numbers
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.categories import (
    Categories,
    check_codes,
    checked_types,
    goes_right,
    n_categories,
    read_frame,
    recoded,
)
from xgb_fed.errors import ArgumentTypeError

MAX_BINS = 65_534
"""Bins of a feature, missing values not counted: a code is two bytes at most."""

VALUES_AT_ONCE = 1 << 16
"""Values that are checked at a time."""

MAX_VALUE = float(np.finfo(np.float32).max) / 2
"""Of a cell, up or down: XGBoost's last cut is twice the largest value, and its lower bound twice the least.

Beyond it, a split that sends all values to the left has an infinite threshold, which no model file holds, and
with some versions one that sends them to the right has, too; see
`gbdt_hosts.xgboost.versions.lowest_bounds_are_infinite`.
"""


class SplitRule(NamedTuple):
    """Where a split of a column sends its values.

    ``x < threshold`` goes left, and missing values do if `default_left`.  A split by categories sends those
    of `right`, ascending, to the right; its threshold is 0.
    """

    feature: int
    threshold: float
    default_left: bool
    right: tuple[int, ...] | None = None


C = TypeVar("C", bound="Columns")


@dataclass(frozen=True)
class Columns:
    """A matrix as its owner gave it, checked.

    `data` is an array or a CSC matrix of float32, shape (n_rows, n_features); unstored entries of a sparse
    matrix are missing values, as XGBoost reads them.  Its categorical columns, `categories`, hold codes.
    """

    data: Any
    names: list[str]
    categories: Categories = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_column_names(self.names, InvalidDataError, "the data")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.data.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.data.shape[1])

    def take(self: C, rows: NDArray[np.integer[Any]]) -> C:
        """Some of the rows."""
        if scipy.sparse.issparse(self.data):
            return replace(self, data=self.data.tocsr()[rows].tocsc())
        return replace(self, data=self.data[rows])

    def of_model(self: C, places: list[int], names: list[str]) -> C:
        """The columns at some places, under a model's names; a column of another name stands for none."""
        known = {
            k: self.categories[place]
            for k, place in enumerate(places)
            if place in self.categories and names[k] == self.names[place]
        }
        return replace(self, data=self.data[:, places], names=names, categories=known)

    def with_categories(self: C, known: Categories, argument: str = "the data", *, quote: bool = True) -> C:
        """The same rows with the codes of the categories that were trained on, `known`.

        Columns without names of their own fit by number.  Errors name a column only if `quote`: their text
        may go to another party.  Raises `InvalidDataError` if other columns are categorical, or rows have
        categories that were not declared in training.
        """
        if self.categories == known:
            return self
        data = self.data if scipy.sparse.issparse(self.data) else self.data.copy()
        for k in sorted({*known, *self.categories}):
            column = repr(self.names[k]) if quote and k < self.n_features else f"{k}"
            if k not in known:
                raise InvalidDataError(f"column {column} of {argument} was numeric where it was trained on")
            if k in self.categories and not scipy.sparse.issparse(data):
                values = recoded(data[:, k], self.categories[k], known[k], column, argument)
                data[:, k] = values
        return replace(self, data=data, categories=known)

    def check_categories(self, argument: str) -> None:
        """Raise `InvalidDataError`, naming the column, for codes that cannot be trained on."""
        for k in self.categories:
            check_codes(self.column(k), f"column {self.names[k]!r} of {argument}", MAX_BINS)

    def column(self, feature: int) -> NDArray[np.float32]:
        """Values of one column, NaN where missing."""
        if not scipy.sparse.issparse(self.data):
            return np.asarray(self.data[:, feature])
        values = np.full(self.n_rows, np.nan, dtype=np.float32)
        stored = slice(self.data.indptr[feature], self.data.indptr[feature + 1])
        values[self.data.indices[stored]] = self.data.data[stored]
        return values

    def goes_left(self, rule: SplitRule, rows: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Which of some rows a split sends left."""
        values = self.column(rule.feature)[rows]
        below = values < np.float32(rule.threshold)
        left = below if rule.right is None else ~goes_right(values, rule.right)
        return np.where(np.isnan(values), rule.default_left, left)


def check_names(own: list[str], names: list[str], argument: str) -> None:
    """Check that columns are those trained on; those without names fit by their number.

    Raises `InvalidDataError` naming the columns that are missing and those that are too many, or the right
    order.
    """
    if own in (names, [f"f{k}" for k in range(len(names))]):
        return
    missing = [name for name in names if name not in own]
    unknown = [name for name in own if name not in names]
    if missing or unknown:
        raise InvalidDataError(
            f"{argument} must have the columns that were trained on: missing {missing}, unknown {unknown}"
        )
    raise InvalidDataError(f"{argument} must have its columns in the order of training, {names}")


def read_columns(
    X: Any,
    argument: str = "X",
    *,
    enable_categorical: bool | None = None,
    feature_types: Sequence[str] | str | None = None,
) -> Columns:
    """Check an array, table or sparse matrix, which stays as it is; columns that were checked do, too.

    Categorical columns of a data frame are read with `enable_categorical`, which is None where no method can
    train on them.  `feature_types` are XGBoost's, with "c" for a column that holds codes of categories.

    Raises `InvalidDataError` if it is not two-dimensional and numeric, or has no rows, or has categories
    where they are not enabled, infinite values or such beyond `MAX_VALUE`.
    """
    if isinstance(X, Columns):
        return X
    names, categories = None, dict[int, Any]()
    data: Any
    if is_table(X):
        data, names, categories = read_frame(X, argument, enable_categorical)
    elif scipy.sparse.issparse(X):
        if X.dtype.kind not in "biuf":
            raise InvalidDataError(f"{argument} must be numbers, got {X.dtype.type.__name__}")
        canon = canonical(X, scipy.sparse.csc_matrix, argument, InvalidDataError)
        data = canon.astype(np.float32, copy=False)
    else:
        data = _as_numbers(X, argument)
    data = data if scipy.sparse.issparse(data) else np.ascontiguousarray(data)
    if data.ndim != 2:
        raise InvalidDataError(f"{argument} has {data.ndim} dimensions; a matrix has 2")
    if data.shape[0] == 0:
        raise InvalidDataError(f"{argument} has no rows")
    if _is_beyond(data.data if scipy.sparse.issparse(data) else data.reshape(-1)):
        raise InvalidDataError(
            f"{argument} has values that are infinite or beyond ±{MAX_VALUE:.2g} as float32, half of its "
            "range; smaller ones are accepted, and NaN for missing ones"
        )
    if names is None:
        names = [f"f{k}" for k in range(data.shape[1])]
    declared = checked_types(feature_types, len(names), argument)
    return Columns(data, names, {**dict.fromkeys(sorted(declared)), **categories})


def _is_beyond(values: NDArray[np.float32]) -> bool:
    """Whether any value is infinite or beyond `MAX_VALUE`; in parts, since each comparison makes an array."""
    parts = (values[k : k + VALUES_AT_ONCE] for k in range(0, len(values), VALUES_AT_ONCE))
    return any(((part > MAX_VALUE) | (part < -MAX_VALUE)).any() for part in parts)


def read_columns_like(X: Any, names: list[str], known: Categories, argument: str = "X") -> Columns:
    """Read further rows of columns that were trained on, of these `names`, with the same codes of categories.

    The categorical columns, `known`, of an array hold codes.  Those of a data frame are of dtype category if
    they were in training, and their categories need not be in the same order.

    Raises `InvalidDataError` as `read_columns` does, or if the columns are others, or categories were not
    declared in training.
    """
    columns = read_columns(X, argument, enable_categorical=True if known else None)
    if is_table(X) and set(names) <= set(columns.names):
        columns = columns.of_model([columns.names.index(name) for name in names], names)
    check_names(columns.names, names, argument)
    if is_table(X):
        for k, labels in known.items():
            if labels is not None and k not in columns.categories:
                raise InvalidDataError(
                    f"column {names[k]!r} of {argument} must be of dtype category, as where it was trained on"
                )
    return columns.with_categories(known, argument)


@dataclass(frozen=True)
class BinnedFeatures:
    """Cuts and codes of a party's columns.

    Each feature has the upper bounds of its bins, `cuts`, and XGBoost's `lower` bound: the threshold that no
    value is below, −∞ with some versions.  `codes` has shape (n_rows, n_features).  `bin_offsets` are the
    places of each feature in a histogram: its bins, then one for missing values.  The bins of `categorical`
    ones are categories.
    """

    cuts: list[NDArray[np.float32]]
    lower: NDArray[np.float32]
    codes: NDArray[np.unsignedinteger[Any]]
    bin_offsets: NDArray[np.int64]
    categorical: frozenset[int] = frozenset()

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.cuts)

    def threshold(self, feature: int, last_left: int) -> float:
        """Threshold that XGBoost writes if the last bin to the left is `last_left` (−1 for none)."""
        return float(self.cuts[feature][last_left] if last_left >= 0 else self.lower[feature])

    def rule(
        self, feature: int, last_left: int, default_left: bool, right: tuple[int, ...] | None = None
    ) -> SplitRule:
        """A split between bins, or by categories, as a rule for values."""
        threshold = self.threshold(feature, last_left) if right is None else 0.0
        return SplitRule(feature, threshold, default_left, right)

    def goes_left(
        self,
        rows: NDArray[np.integer[Any]],
        feature: int,
        last_left: int,
        default_left: bool,
        right: tuple[int, ...] | None = None,
    ) -> NDArray[np.bool_]:
        """Which rows a split sends left."""
        left = bins_to_left(len(self.cuts[feature]), last_left, default_left, right)
        return np.asarray(left[self.codes[rows, feature]])

    def counts(self) -> NDArray[np.int64]:
        """Rows in each bin of each feature, and rows without a value."""
        sizes = np.diff(self.bin_offsets)
        # Column by column: numbers of 64 bits for all values at once would take eight times their codes.
        counts = [np.bincount(self.codes[:, f], minlength=size) for f, size in enumerate(sizes)]
        return np.concatenate([np.empty(0, dtype=np.int64), *counts])


def _as_numbers(values: Any, argument: str) -> NDArray[np.float32]:
    """Values of any shape as float32; the error's text, which may go to another party, quotes none."""
    return read_numbers(argument, values, np.float32, InvalidDataError, ArgumentTypeError)


def numeric_vector(values: Any, argument: str) -> NDArray[np.float32]:
    """Convert to a vector of float32; `InvalidDataError` if it is none, or holds other than numbers."""
    vector = _as_numbers(values, argument)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise InvalidDataError(f"{argument} has shape {vector.shape}; a vector is accepted")
    return vector


def check_weight(weight: Any, n_rows: int, argument: str, what: str = "rows") -> NDArray[np.float32] | None:
    """Weights of rows or queries, or None; `InvalidDataError` unless finite, at least 0, not all 0."""
    if weight is None:
        return None
    vector = numeric_vector(weight, argument)
    if len(vector) != n_rows:
        raise InvalidDataError(f"{argument} has {len(vector)} weights for {n_rows} {what}")
    if not (np.isfinite(vector).all() and (vector >= 0).all() and vector.any()):
        raise InvalidDataError(f"{argument} must be finite, not negative, and not all zero")
    return vector


def bins_to_left(
    n_bins: int, last_left: int, default_left: bool, right: tuple[int, ...] | None
) -> NDArray[np.bool_]:
    """Which bins of a column a split sends left, missing values last.

    The last bin to the left of a threshold is `last_left`; of a categorical column, the bins `right` go
    right.
    """
    left = np.empty(n_bins + 1, dtype=bool)
    if right is None:
        left[:-1] = np.arange(n_bins) <= last_left
    else:
        left[:-1] = True
        left[list(right)] = False
    left[-1] = default_left
    return left


def bin_features(columns: Columns, max_bin: int) -> BinnedFeatures:
    """Cut every column by XGBoost's own quantile sketch; a categorical one has a bin per category.

    The sketch works column by column, unweighted: cuts are those of pooled training on the same rows.
    """
    cuts, lower = cut_columns(columns, max_bin)
    codes = codes_of(columns, cuts)
    return BinnedFeatures(cuts, lower, codes, offsets_of(cuts), frozenset(columns.categories))


def cut_columns(columns: Columns, max_bin: int) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
    """The cuts and lower bounds that XGBoost's quantile sketch finds; see `BinnedFeatures`."""
    n_features = columns.n_features
    cuts = [np.empty(0, dtype=np.float32)] * n_features
    lower = np.zeros(n_features, dtype=np.float32)
    numeric = [f for f in range(n_features) if f not in columns.categories]
    for f in columns.categories:
        values = columns.column(f)
        check_codes(values, "the data", MAX_BINS)  # without a name: the text may go to another party
        cuts[f] = np.arange(1, n_categories(values) + 1, dtype=np.float32)
    if not numeric:
        return cuts, lower
    data = columns.data.tocsr() if scipy.sparse.issparse(columns.data) else columns.data
    data = data if len(numeric) == n_features else data[:, numeric]
    starts, values = xgboost.QuantileDMatrix(data, max_bin=max_bin).get_quantile_cut()
    for k, f in enumerate(numeric):
        part = np.asarray(values[starts[k] : starts[k + 1]], dtype=np.float32)
        cuts[f], lower[f] = part[1:], part[0]
    if max(len(cuts[f]) for f in numeric) > MAX_BINS:
        raise InvalidDataError(f"max_bin={max_bin} gives a feature more than {MAX_BINS} bins")
    return cuts, lower


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
