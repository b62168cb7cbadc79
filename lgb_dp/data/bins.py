"""Public bins: the mapping of feature values to codes, made from public knowledge only."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Final, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_kernels.trees import BinLayout, DenseCodes, SparseCodes, bin_csr, bin_dense
from gbdt_kernels.trees.layout import MAX_BINS, offsets
from lgb_dp.checks import checked_numbers
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import InvalidArgumentError

Spacing = Literal["linear", "mixed"]
MIN_STEP = 1e-6
"""Smallest geometric threshold over the width of the bounds."""

Bounds = tuple[Any, Any] | Mapping[Any, tuple[float, float]]
DTYPE: Final[Literal["dtype"]] = "dtype"
"""The word that declares the categories of a pandas dtype to be public."""
Categories = Literal["dtype"] | Mapping[Any, Sequence[Any] | Literal["dtype"]]


def is_data_frame(data: Any) -> bool:
    """Whether `data` is a pandas DataFrame (pandas need not be installed)."""
    return hasattr(data, "iloc") and hasattr(data, "columns")


@dataclass(frozen=True)
class PublicBins:
    """Bins of every feature.

    Parameters
    ----------
    names : tuple of str
        Feature names.
    values : tuple of ndarray of float64
        Numeric features: ascending thresholds; categorical ones: ascending categories as LightGBM sees them.
    is_categorical : ndarray of bool, shape (n_features,)
    ranges : tuple of (float, float) or None
        Public bounds of numeric features, for the model file.
    pandas_categories : mapping of int to list
        Features whose categories are values of a pandas category column: LightGBM sees their positions.
    provenance : Provenance
        What it has cost, or leaked, to know the bins.
    """

    names: tuple[str, ...]
    values: tuple[NDArray[np.float64], ...]
    is_categorical: NDArray[np.bool_]
    ranges: tuple[tuple[float, float] | None, ...]
    pandas_categories: Mapping[int, list[Any]]
    provenance: Provenance

    def same_as(self, other: PublicBins) -> bool:
        """Whether both map values to the same codes."""
        return (
            np.array_equal(self.is_categorical, other.is_categorical)
            and dict(self.pandas_categories) == dict(other.pandas_categories)
            and all(np.array_equal(a, b) for a, b in zip(self.values, other.values, strict=True))
        )

    @cached_property
    def value_offsets(self) -> NDArray[np.int64]:
        """Where each feature's values lie when all are put side by side."""
        return offsets(np.array([len(v) for v in self.values], dtype=np.int64))

    @cached_property
    def n_bins(self) -> NDArray[np.int64]:
        """Bins of each feature, missing bin not counted."""
        return np.diff(self.value_offsets) + ~self.is_categorical

    @cached_property
    def all_values(self) -> NDArray[np.float64]:
        """All features' values, side by side."""
        return np.concatenate([*self.values, np.empty(0)])

    def layout(self, subsets: NDArray[np.bool_] | None = None) -> BinLayout:
        """Where bins and candidate splits lie, with public random `subsets` of categories."""
        n_total = int((self.n_bins + 1).sum())
        empty = np.zeros((0, n_total), dtype=bool)
        return BinLayout(self.n_bins, self.is_categorical, empty if subsets is None else subsets)

    @property
    def feature_infos(self) -> list[str]:
        """Public range or categories of each feature, as the model file has them."""
        return [
            f"[{bounds[0]!r}:{bounds[1]!r}]" if bounds else ":".join(str(int(v)) for v in values)
            for bounds, values in zip(self.ranges, self.values, strict=True)
        ]

    def transform(self, data: Any, n_threads: int = 0) -> DenseCodes | SparseCodes:
        """Codes of a matrix, in blocks of rows: no second copy of `data` is made.

        Raises
        ------
        InvalidArgumentError
            If the number of features differs.
        TypeError
            If a value is not a number and its column has no public categories.
        """
        if data.shape[1] != len(self.names):
            raise InvalidArgumentError(
                f"data has {data.shape[1]} features; the public bins have {len(self.names)}"
            )
        shared = (self.all_values, self.value_offsets, self.is_categorical, n_threads)
        if scipy.sparse.issparse(data):
            rows = _canonical(data)
            return bin_csr(rows.indptr, rows.indices, rows.data, *shared)
        return bin_dense(self._reader(data), data.shape[0], *shared)

    def _reader(self, data: Any) -> Callable[[int, int], NDArray[Any]]:
        """Rows ``start:stop`` as numbers, categories of pandas columns as their positions."""
        if not is_data_frame(data):
            return lambda start, stop: data[start:stop]
        has_objects = any(self._is_object(dtype, f) for f, dtype in enumerate(data.dtypes))
        if not self.pandas_categories and not has_objects:
            return lambda start, stop: checked_numbers("data", data.iloc[start:stop])

        def rows_of(start: int, stop: int) -> NDArray[np.float64]:
            block = data.iloc[start:stop]
            columns = [self._column(block.iloc[:, f], f) for f in range(block.shape[1])]
            return np.column_stack(columns)

        return rows_of

    def _is_object(self, dtype: Any, feature: int) -> bool:
        """Whether a column of declared integer codes may hold other cells, which count as missing."""
        is_code = self.is_categorical[feature] and feature not in self.pandas_categories
        return bool(is_code) and dtype.kind not in "iufb"

    def _column(self, column: Any, feature: int) -> NDArray[np.float64]:
        is_object = self._is_object(column.dtype, feature)
        if feature not in self.pandas_categories and not is_object:
            return checked_numbers(f"feature {self.names[feature]!r}", column)
        known = self.values[feature] if is_object else self.pandas_categories[feature]
        codes = column.astype("category").cat.set_categories(known).cat.codes.to_numpy(dtype=np.int64)
        return np.where(codes < 0, np.nan, self.values[feature][codes])


def _canonical(data: Any) -> scipy.sparse.csr_matrix:
    """A sparse matrix by rows, every row's entries of ascending columns, none twice.

    The matrix's own flags are not believed: they are stale once its arrays were written into, and a row with
    two entries of one feature would count twice in its histogram.

    Raises
    ------
    InvalidArgumentError
        If the arrays do not describe a matrix.
    """
    rows = scipy.sparse.csr_matrix(data)
    try:
        rows.check_format(full_check=True)
    except ValueError as error:
        raise InvalidArgumentError(f"data must be a valid sparse matrix: {error}") from None
    ascends = np.diff(rows.indices) > 0
    starts = rows.indptr[1:-1]
    ascends[starts[(starts > 0) & (starts < len(rows.indices))] - 1] = True
    if not ascends.all():
        rows = rows.copy()
        rows.has_sorted_indices = rows.has_canonical_format = False
        rows.sum_duplicates()
    return rows


def feature_names(data: Any, given: Any) -> tuple[str, ...]:
    """Names of the features: those given, a DataFrame's columns, or LightGBM's ``Column_i``."""
    n_features = data.shape[1]
    if given is None or (isinstance(given, str) and given == "auto"):
        if is_data_frame(data):
            return tuple(str(name) for name in data.columns)
        return tuple(f"Column_{i}" for i in range(n_features))
    if len(given) != n_features:
        raise InvalidArgumentError(f"feature_name has {len(given)} names; data has {n_features} features")
    return tuple(str(name) for name in given)


def _by_feature(mapping: Mapping[Any, Any], names: Sequence[str], argument: str) -> dict[int, Any]:
    """Keys, which may be names or positions, as positions."""
    result = {}
    for key, value in mapping.items():
        if isinstance(key, (int, np.integer)) and 0 <= key < len(names):
            result[int(key)] = value
        elif key in names:
            result[names.index(key)] = value
        else:
            raise InvalidArgumentError(f"{argument} names an unknown feature: {key!r}")
    return result


def _bounds_by_feature(bounds: Bounds, names: Sequence[str]) -> dict[int, tuple[float, float]]:
    if isinstance(bounds, Mapping):
        pairs = _by_feature(bounds, names, "bounds")
    else:
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise InvalidArgumentError(
                f"bounds must be (low, high) or a mapping of features to them, got {bounds!r}"
            )
        try:
            low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (len(names),)) for b in bounds)
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"bounds must be two numbers or two arrays of {len(names)} numbers, one per feature"
            ) from None
        pairs = dict(enumerate(zip(low, high, strict=True)))
    return {f: _checked_bounds(pair, names[f]) for f, pair in pairs.items()}


def _checked_bounds(pair: Any, name: str) -> tuple[float, float]:
    low, high = (float(b) for b in pair)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InvalidArgumentError(f"bounds of feature {name!r} must be finite, got ({low}, {high})")
    if low > high:
        raise InvalidArgumentError(f"bounds of feature {name!r} are reversed: low = {low} > high = {high}")
    if not np.isfinite(high - low):
        raise InvalidArgumentError(f"bounds of feature {name!r} are too far apart: ({low}, {high})")
    return low, high


def _checked_edges(edges: Any, name: str) -> NDArray[np.float64]:
    thresholds = np.asarray(edges, dtype=np.float64)
    is_finite = thresholds.ndim == 1 and len(thresholds) > 0 and np.isfinite(thresholds).all()
    if not is_finite or (np.diff(thresholds) <= 0).any():
        raise InvalidArgumentError(
            f"bin_edges of feature {name!r} must be ascending finite numbers, got {edges!r}"
        )
    return thresholds


def _checked_categories(values: Any, name: str) -> list[Any]:
    known = list(values)
    if not known or len(set(known)) != len(known):
        raise InvalidArgumentError(
            f"categories of feature {name!r} must be distinct and at least one, got {known!r}"
        )
    if len(known) > MAX_BINS:
        raise InvalidArgumentError(
            f"feature {name!r} has more than {MAX_BINS} categories; at most {MAX_BINS} are supported"
        )
    return known


def _integer_categories(values: list[Any], name: str) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    if (numbers < 0).any() or (numbers != np.floor(numbers)).any() or (numbers >= 2**31).any():
        raise InvalidArgumentError(
            f"categories of feature {name!r} must be integers in [0, 2**31), as LightGBM's, got {values!r}"
        )
    return np.sort(numbers)


def _are_codes(values: Iterable[Any]) -> bool:
    """Whether declared categories are integers as LightGBM's."""
    return all(
        isinstance(v, (Real, np.bool_)) and 0 <= float(v) < 2**31 and float(v).is_integer() for v in values
    )


def _max_bins(max_bin: Any, names: Sequence[str]) -> NDArray[np.int64]:
    if isinstance(max_bin, Mapping):
        per_feature = np.full(len(names), 32)
        for f, value in _by_feature(max_bin, names, "max_bin").items():
            per_feature[f] = value
    else:
        per_feature = np.broadcast_to(np.asarray(max_bin, dtype=np.int64), (len(names),))
    if (per_feature < 2).any() or (per_feature > MAX_BINS).any():
        raise InvalidArgumentError(f"max_bin must be between 2 and {MAX_BINS}, got {max_bin!r}")
    return per_feature


def _spaced_edges(low: float, high: float, n_bins: int, spacing: Spacing) -> NDArray[np.float64]:
    """At most ``n_bins - 1`` ascending thresholds inside the bounds.

    "mixed" takes half of them at equal widths and half in geometric progression away from zero (or from the
    bound that is nearest to it), for the many columns whose values crowd near zero: incomes, counts, delays.
    """
    if spacing == "linear":
        return np.unique(np.linspace(low, high, n_bins + 1)[1:-1])
    linear = np.linspace(low, high, n_bins // 2 + 1)[1:-1]
    origin = min(max(low, 0.0), high)
    sides = [side for side in (high - origin, low - origin) if side != 0]
    n_geometric = (n_bins - 2 - len(linear)) // len(sides)
    ladder = np.geomspace(MIN_STEP, 1.0, n_geometric + 1)[:-1]
    edges = np.unique(np.concatenate([linear, [origin], *(origin + side * ladder for side in sides)]))
    return edges[(edges >= low) & (edges < high)]


def data_bounds(data: Any, numeric: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Smallest and largest finite value of numeric columns: private knowledge, never public."""
    result = {}
    for f in numeric:
        if scipy.sparse.issparse(data):
            column = np.append(data[:, [f]].tocsc().data, 0.0)
        elif is_data_frame(data):
            column = checked_numbers(f"column {f} of data", data.iloc[:, f])
        else:
            column = checked_numbers(f"column {f} of data", data[:, f])
        finite = column[np.isfinite(column)]
        result[f] = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    return result


def _known_categories(
    data: Any, names: Sequence[str], categories: Categories | None, has_edges: Container[int]
) -> tuple[dict[int, list[Any]], dict[int, list[Any]], list[str]]:
    """Categories of pandas columns and of numeric codes, and the features whose dtype was not declared."""
    dtypes: list[Any] = list(data.dtypes) if is_data_frame(data) else [None] * len(names)
    of_dtype = {
        f: list(dtype.categories)
        for f, dtype in enumerate(dtypes)
        if hasattr(dtype, "categories") and f not in has_edges
    }
    if isinstance(categories, str):
        if categories != DTYPE:
            raise InvalidArgumentError(
                f"categories must be a mapping of features to their values or {DTYPE!r}, got {categories!r}"
            )
        categories = dict.fromkeys(of_dtype, DTYPE)
    declared: dict[int, Any] = _by_feature(categories or {}, names, "categories")
    of_pandas, of_codes = {}, {}
    for f, name in enumerate(names):
        values = declared.get(f, of_dtype.get(f))
        if isinstance(values, str):
            if values != DTYPE or f not in of_dtype:
                raise InvalidArgumentError(
                    f"categories of feature {name!r} must be its values, or {DTYPE!r} for a pandas column of "
                    f"a category dtype, got {values!r}"
                )
            values = of_dtype[f]
        if values is None:
            continue
        dtype = dtypes[f]
        # Not by the dtype alone: one private cell that is not a number makes a column of codes an object one.
        is_object = dtype is not None and dtype.kind not in "iufb" and not _are_codes(values)
        if f in of_dtype or is_object:
            of_pandas[f] = _checked_categories(values, name)
        else:
            of_codes[f] = _checked_categories(values, name)
    return of_pandas, of_codes, [names[f] for f in of_dtype if f not in declared]


def _leaks(bounds_were_read: bool, undeclared: Sequence[str]) -> tuple[str, ...]:
    leaks = []
    if bounds_were_read:
        leaks.append("bounds were read from the data, which leaks them; pass public `bounds`")
    if undeclared:
        leaks.append(
            f"the categories of the dtypes of {list(undeclared)} were read from the data, which leaks them; "
            f"declare them as `categories`, or pass categories={DTYPE!r} if the dtypes are public"
        )
    return tuple(leaks)


def public_bins(
    data: Any,
    names: tuple[str, ...],
    bounds: Bounds | None,
    max_bin: Any,
    categories: Categories | None,
    bin_edges: Mapping[Any, Any] | None,
    spacing: Spacing = "linear",
) -> PublicBins:
    """Bins from what the user declared public; their provenance says what had to be read from the data.

    Raises
    ------
    InvalidArgumentError
        If a declaration is malformed or a numeric feature has neither bounds nor edges.
    """
    edges_of = _by_feature(bin_edges or {}, names, "bin_edges")
    pandas_categories, codes, undeclared = _known_categories(data, names, categories, edges_of)
    numeric = [
        f for f in range(len(names)) if f not in codes and f not in pandas_categories and f not in edges_of
    ]
    ranges = data_bounds(data, numeric) if bounds is None else _bounds_by_feature(bounds, names)
    missing = [names[f] for f in numeric if f not in ranges]
    if missing:
        raise InvalidArgumentError(
            f"bounds lack the numeric features {missing}; every numeric feature needs bounds or bin_edges"
        )
    max_bins = _max_bins(max_bin, names)

    values: list[NDArray[np.float64]] = []
    for f, name in enumerate(names):
        if f in pandas_categories:
            values.append(np.arange(len(pandas_categories[f]), dtype=np.float64))
        elif f in codes:
            values.append(_integer_categories(codes[f], name))
        elif f in edges_of:
            values.append(_checked_edges(edges_of[f], name))
            ranges.setdefault(f, (float(values[-1][0]), float(values[-1][-1])))
        else:
            low, high = ranges[f]
            values.append(_spaced_edges(low, high, int(max_bins[f]), spacing) if high > low else np.empty(0))
        if len(values[-1]) >= MAX_BINS and f in edges_of:
            raise InvalidArgumentError(f"bin_edges of feature {name!r} make more than {MAX_BINS} bins")
    is_categorical = np.array([f in pandas_categories or f in codes for f in range(len(names))], dtype=bool)
    return PublicBins(
        names,
        tuple(values),
        is_categorical,
        tuple(None if is_categorical[f] else ranges[f] for f in range(len(names))),
        pandas_categories,
        Provenance(_leaks(bounds is None and bool(numeric), undeclared)),
    )
