"""Public bins: the mapping of feature values to codes, made from public knowledge only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.read_only import read_only
from gbdt_commons.tables.frames import (
    Kind,
    categories_of_cells,
    categories_of_dtype,
    check_names,
    column_names,
    is_table,
    kinds_of,
    plain_value,
)
from gbdt_commons.tables.numbers import canonical
from gbdt_kernels.trees import BinLayout, DenseCodes, SparseCodes, bin_csr, bin_dense
from gbdt_kernels.trees.layout import MAX_BINS, offsets
from lgb_dp.checks import checked_numbers
from lgb_dp.data.cells import are_codes, category_key
from lgb_dp.data.provenance import Provenance
from lgb_dp.data.tables import TIMES, TableColumns, as_frame, time_as_number
from lgb_dp.errors import InvalidArgumentError

Spacing = Literal["linear", "mixed"]
MIN_STEP = 1e-6
"""Smallest geometric threshold over the width of the bounds."""

Bounds = tuple[Any, Any] | Mapping[Any, tuple[float, float]]
DTYPE: Final[Literal["dtype"]] = "dtype"
"""The word that declares the categories of a data type to be public."""
Categories = Literal["dtype"] | Mapping[Any, Sequence[Any] | Literal["dtype"]]


_NOT_IN_NAMES = '",:[]{}'
"""Characters that LightGBM refuses in names."""


@dataclass(frozen=True)
class PublicBins:
    """Bins of every feature; their arrays are read-only.

    `values` are ascending thresholds of numeric features, and ascending categories, as LightGBM sees them, of
    categorical ones. `ranges` are public bounds of numeric features, for the model file. `columns` says how
    the columns of a table become the features, `provenance` what the knowledge of the bins has cost or
    leaked, and `undeclared` which features have categories that were read from the data.
    """

    names: tuple[str, ...]
    values: tuple[NDArray[np.float64], ...]
    is_categorical: NDArray[np.bool_]
    ranges: tuple[tuple[float, float] | None, ...]
    columns: TableColumns
    provenance: Provenance
    undeclared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_for_lightgbm(self.names)
        object.__setattr__(self, "values", tuple(map(read_only, self.values)))
        object.__setattr__(self, "is_categorical", read_only(self.is_categorical))

    def same_as(self, other: PublicBins) -> bool:
        """Whether both map values to the same codes."""
        return (
            np.array_equal(self.is_categorical, other.is_categorical)
            and self.columns.categories == other.columns.categories
            and all(np.array_equal(a, b) for a, b in zip(self.values, other.values, strict=True))
        )

    @cached_property
    def value_offsets(self) -> NDArray[np.int64]:
        """Where each feature's values lie when all are put side by side."""
        return read_only(offsets(np.array([len(v) for v in self.values], dtype=np.int64)))

    @cached_property
    def n_bins(self) -> NDArray[np.int64]:
        """Bins of each feature, missing bin not counted."""
        return read_only(np.diff(self.value_offsets) + ~self.is_categorical)

    @cached_property
    def all_values(self) -> NDArray[np.float64]:
        """All features' values, side by side."""
        return read_only(np.concatenate([*self.values, np.empty(0)]))

    def layout(
        self, subsets: NDArray[np.bool_] | None = None, present: NDArray[np.bool_] | None = None
    ) -> BinLayout:
        """Where bins and candidate splits lie, with random `subsets` of the categories that are `present`."""
        n_total = int((self.n_bins + 1).sum())
        empty = np.zeros((0, n_total), dtype=bool)
        return BinLayout(self.n_bins, self.is_categorical, empty if subsets is None else subsets, present)

    @property
    def feature_infos(self) -> list[str]:
        """Public range or categories of each feature, as the model file has them."""
        return [
            f"[{bounds[0]!r}:{bounds[1]!r}]" if bounds else ":".join(str(int(v)) for v in values)
            for bounds, values in zip(self.ranges, self.values, strict=True)
        ]

    def transform(self, data: Any, n_threads: int = 0) -> DenseCodes | SparseCodes:
        """Codes of a matrix, in blocks of rows: no second copy of `data` is made.

        Raises InvalidArgumentError if the features differ, or a value is not a number and its column has no
        public categories.
        """
        n_features = len(self.names)
        shared = (self.all_values, self.value_offsets, self.is_categorical, n_threads)
        if is_table(data):
            return bin_dense(self.columns.reader(data, n_features), data.shape[0], *shared)
        if data.shape[1] != n_features:
            raise InvalidArgumentError(
                f"data has {data.shape[1]} features; the public bins have {n_features}"
            )
        if scipy.sparse.issparse(data):
            rows = canonical(data, scipy.sparse.csr_matrix, "data", InvalidArgumentError)
            return bin_csr(rows.indptr, rows.indices, rows.data, *shared)
        return bin_dense(lambda start, stop: data[start:stop], data.shape[0], *shared)


def check_for_lightgbm(names: Sequence[str]) -> None:
    """Refuse names that LightGBM would, when all has been released."""
    check_names(names, InvalidArgumentError, "feature_name")
    wrong = [name for name in names if name[0] == "=" or not set(name).isdisjoint(_NOT_IN_NAMES)]
    if wrong:
        raise InvalidArgumentError(
            f"feature_name holds {wrong[:10]}: LightGBM accepts no name with one of "
            f"{' '.join(_NOT_IN_NAMES)} in it, and reads others than those that begin with ="
        )
    written = Counter(map(as_written, names))
    if twins := sorted(name for name in names if written[as_written(name)] > 1):
        raise InvalidArgumentError(
            f"feature_name holds {twins[:10]}: LightGBM writes blanks as _, so that they have the same name: "
            "rename the columns"
        )


def as_written(name: str) -> str:
    """A feature's name in LightGBM's files."""
    return name.replace(" ", "_")


def feature_names(data: Any, given: Any) -> tuple[str, ...]:
    """Names of the features: those given, a table's columns, or LightGBM's ``Column_i``."""
    n_features = data.shape[1]
    if given is None or (isinstance(given, str) and given == "auto"):
        if is_table(data):
            return column_names(as_frame(data))
        return tuple(f"Column_{i}" for i in range(n_features))
    if len(given) != n_features:
        raise InvalidArgumentError(f"feature_name has {len(given)} names; data has {n_features} features")
    return tuple(str(name) for name in given)


def _names_of_columns(data: Any, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names of the columns of this table, or of later ones if this is a matrix whose features have names."""
    own = feature_names(data, None)
    if is_table(data):
        return own
    return None if names == own else names


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


def bounds_by_feature(bounds: Bounds, names: Sequence[str]) -> dict[int, tuple[float, float]]:
    """Bounds of each feature that has them, by its position."""
    if isinstance(bounds, Mapping):
        pairs = _by_feature(bounds, names, "bounds")
    else:
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise InvalidArgumentError(
                "bounds must be (low, high) or a mapping of features to them, as in {0: (0, 9)}, got "
                f"{bounds!r}"
            )
        if len(names) == 2 and isinstance(bounds, list) and all(isinstance(pair, tuple) for pair in bounds):
            raise InvalidArgumentError(
                f"bounds={bounds!r} may be a pair of each feature or the lows and the highs of all: pass a "
                "mapping of features to pairs, or a tuple (lows, highs)"
            )
        try:
            numbers = (np.asarray(time_as_number(b), dtype=np.float64) for b in bounds)
            low, high = (np.broadcast_to(b, (len(names),)) for b in numbers)
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"bounds must be two numbers or two arrays of {len(names)} numbers, one per feature"
            ) from None
        pairs = dict(enumerate(zip(low, high, strict=True)))
    return {f: _checked_bounds(pair, names[f]) for f, pair in pairs.items()}


def _checked_bounds(pair: Any, name: str) -> tuple[float, float]:
    try:
        low, high = (float(time_as_number(b)) for b in pair)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"bounds of feature {name!r} must be two numbers, or datetimes of such a column, got {pair!r}"
        ) from None
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InvalidArgumentError(f"bounds of feature {name!r} must be finite, got ({low}, {high})")
    if low > high:
        raise InvalidArgumentError(f"bounds of feature {name!r} are reversed: low = {low} > high = {high}")
    if not np.isfinite(high - low):
        raise InvalidArgumentError(f"bounds of feature {name!r} are too far apart: ({low}, {high})")
    return low, high


def _checked_edges(edges: Any, name: str) -> NDArray[np.float64]:
    given = np.asarray(edges)
    thresholds = np.asarray([time_as_number(edge) for edge in given.ravel()], dtype=np.float64)
    is_finite = given.ndim == 1 and len(thresholds) > 0 and np.isfinite(thresholds).all()
    if not is_finite or (np.diff(thresholds) <= 0).any():
        raise InvalidArgumentError(
            f"bin_edges of feature {name!r} must be ascending finite numbers, got {edges!r}"
        )
    return thresholds


def _checked_categories(values: Any, name: str) -> list[Any]:
    known = [plain_value(value) for value in values]
    if not known or len(set(map(category_key, known))) != len(known):
        raise InvalidArgumentError(
            f"categories of feature {name!r} must be distinct and at least one, got {known!r}"
        )
    if len(known) > MAX_BINS:
        raise InvalidArgumentError(
            f"feature {name!r} has {len(known)} categories; at most {MAX_BINS} are supported: merge rare "
            "ones by a public rule, such as regions in place of towns"
        )
    return known


def _integer_categories(values: list[Any], name: str) -> tuple[int, ...]:
    if not are_codes(values):
        raise InvalidArgumentError(
            f"categories of feature {name!r} must be integers in [0, 2**31), as LightGBM's, got {values!r}"
        )
    return tuple(sorted(int(value) for value in values))


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


def spaced_edges(low: float, high: float, n_bins: int, spacing: Spacing) -> NDArray[np.float64]:
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


def data_bounds(data: Any, numeric: Sequence[int], columns: TableColumns) -> dict[int, tuple[float, float]]:
    """Smallest and largest finite value of numeric columns: private knowledge, never public."""
    result = {}
    frame = as_frame(data) if is_table(data) else None
    for f in numeric:
        if frame is not None:
            column = columns.numbers(frame[:, f], f)
        elif scipy.sparse.issparse(data):
            column = np.append(data[:, [f]].tocsc().data, 0.0)
        else:
            column = checked_numbers(f"column {f} of data", data[:, f])
        finite = column[np.isfinite(column)]
        result[f] = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    return result


def _kinds(data: Any, n_features: int) -> list[Kind]:
    """Kind of each column of a table; the columns of a matrix are numbers."""
    if not is_table(data):
        return ["number"] * n_features
    return kinds_of(as_frame(data))


def numeric_features(data: Any, names: Sequence[str], categories: Categories | None) -> list[int]:
    """Features that need bounds: neither categories nor truth values."""
    others = categorical_features(data, names, categories)
    kinds = _kinds(data, len(names))
    return [f for f in range(len(names)) if kinds[f] != "boolean" and f not in others]


def categorical_features(data: Any, names: Sequence[str], categories: Categories | None) -> set[int]:
    """Features that are categories, by type or declaration."""
    declared = {} if isinstance(categories, str) else _by_feature(categories or {}, names, "categories")
    return {*declared, *(f for f, kind in enumerate(_kinds(data, len(names))) if kind == "category")}


def _known_categories(
    data: Any,
    kinds: Sequence[Kind],
    names: Sequence[str],
    categories: Categories | None,
    skip: Collection[int],
    inherited: TableColumns,
) -> tuple[dict[int, list[Any]], dict[int, list[Any]], list[str]]:
    """Categories by their values and by codes, and the features whose categories had to be read."""
    of_dtype = {
        f: categories_of_dtype(as_frame(data)[:, f])
        for f, kind in enumerate(kinds)
        if kind == "category" and f not in skip
    }
    if isinstance(categories, str):
        categories = {f: DTYPE for f, listed in of_dtype.items() if listed is not None}
    declared: dict[int, Any] = _by_feature(categories or {}, names, "categories")
    own = {*declared, *skip}
    by_value = {f: list(known) for f, known in inherited.categories.items() if f not in own}
    by_code = {f: list(known) for f, known in inherited.codes.items() if f not in own}
    for f, name in enumerate(names):
        values = declared.get(f)
        if isinstance(values, str):
            if values != DTYPE or of_dtype.get(f) is None:
                raise InvalidArgumentError(
                    f"categories of feature {name!r} must be its values, or {DTYPE!r} for a column whose "
                    f"data type lists its categories, got {values!r}"
                )
            values = of_dtype[f]
        elif values is None and f in of_dtype and f not in by_value and f not in by_code:
            values = of_dtype[f] or categories_of_cells(as_frame(data)[:, f])
        if values is None:
            continue
        known = _checked_categories(values, name)
        # Not by the type alone: one private cell that is not a number makes a column of codes an object one.
        # Texts for a column of numbers are a mistake, and so is anything but codes for a matrix.
        is_text = all(isinstance(value, str) for value in known)
        holds_numbers = kinds[f] in ("number", "boolean")
        if f in of_dtype or not (are_codes(known) or (holds_numbers and (is_text or not is_table(data)))):
            by_value[f] = known
        else:
            by_code[f] = known
    return by_value, by_code, [names[f] for f in of_dtype if f not in declared]


def _refuse_undeclared_text(
    kinds: Sequence[Kind],
    names: Sequence[str],
    bounds: Bounds | None,
    declared: Collection[int],
    has_edges: Collection[int],
) -> None:
    """Raise an error that names all columns of text without declared categories, and the remedies.

    A column of text is one of objects in pandas before version 3.  Its bounds tell it from numbers that are
    objects; its cells are private.
    """
    is_by_feature = isinstance(bounds, Mapping)
    bounded = _by_feature(bounds, names, "bounds") if isinstance(bounds, Mapping) else {}
    found = [f for f, kind in enumerate(kinds) if f not in declared and kind in ("text", "object")]
    texts = [f for f in found if kinds[f] == "text" or (is_by_feature and f not in {*bounded, *has_edges})]
    texts += [f for f in found if f not in texts and any(isinstance(b, str) for b in bounded.get(f, ()))]
    if named := [names[f] for f in texts if f in bounded]:
        raise InvalidArgumentError(
            f"{_columns_hold(named)} text, which has no bounds: parse dates and numbers first, as by "
            "pd.to_datetime and pd.to_numeric"
        )
    if named := [names[f] for f in texts]:
        example = ", ".join(f"{name!r}: [...]" for name in named)
        its, what = ("its", "the column") if len(named) == 1 else ("their", "the columns")
        raise InvalidArgumentError(
            f"{_columns_hold(named)} text: declare {its} public values, as in categories={{{example}}}, or "
            f"leave {what} out"
        )


def _columns_hold(names: Sequence[str]) -> str:
    return f"column {names[0]!r} holds" if len(names) == 1 else f"columns {', '.join(map(repr, names))} hold"


def refuse_ranges_of_categories(names: Sequence[str], categorical: Collection[int], **declared: Any) -> None:
    """Raise an error that names the first column of categories for which numbers are declared, too.

    `categorical` are positions; `declared` are `bounds` and `bin_edges`; bounds that are a pair for all
    columns are of the others.
    """
    for argument, given in declared.items():
        found = _by_feature(given, names, argument) if isinstance(given, Mapping) else {}
        twice = sorted(found.keys() & set(categorical))
        if twice:
            raise InvalidArgumentError(
                f"feature {names[twice[0]]!r} has categories and {argument}: a column of categories has no "
                f"{argument}; pass one of the two"
            )


def _leaks(bounds_were_read: bool, undeclared: Sequence[str]) -> tuple[str, ...]:
    leaks = []
    if bounds_were_read:
        leaks.append("bounds were read from the data, which leaks them; pass public `bounds`")
    if undeclared:
        leaks.append(
            f"the categories of the dtypes of {list(undeclared)} were read from the data, which leaks them; "
            f"declare them as `categories`, or pass categories={DTYPE!r} if public dtypes list them"
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
    inherited: TableColumns | None = None,
) -> PublicBins:
    """Bins from declarations of the user; their provenance says which parts had to be read from the data.

    Declarations, as for `lgb_dp.Dataset`, are found by the features' names. Where none are declared, the
    categories of `inherited` stand: then no cell is read for them. Raises InvalidArgumentError if a
    declaration is malformed, a numeric feature has neither bounds nor edges, or a categorical one has either.
    """
    edges_of = _by_feature(bin_edges or {}, names, "bin_edges")
    kinds = _kinds(data, len(names))
    known = inherited or TableColumns()
    is_of_dtype = isinstance(categories, str) and categories == DTYPE
    if not (categories is None or is_of_dtype or isinstance(categories, Mapping)):
        raise InvalidArgumentError(
            f"categories must be a mapping of features to their values or {DTYPE!r}, got {categories!r}"
        )
    declared = _by_feature(categories, names, "categories") if isinstance(categories, Mapping) else {}
    _refuse_undeclared_text(kinds, names, bounds, {*declared, *known.categories, *known.codes}, edges_of)
    by_value, by_code, undeclared = _known_categories(data, kinds, names, categories, edges_of, known)
    is_categorical = np.array([f in by_value or f in by_code for f in range(len(names))], dtype=bool)
    refuse_ranges_of_categories(names, {*by_value, *by_code}, bounds=bounds, bin_edges=bin_edges)
    columns = TableColumns(
        _names_of_columns(data, names),
        {f: tuple(known) for f, known in by_value.items()},
        {f: _integer_categories(codes, names[f]) for f, codes in by_code.items()},
        {f: kind for f, kind in enumerate(kinds) if kind in TIMES and not is_categorical[f]},
    )
    numeric = [f for f in range(len(names)) if not is_categorical[f] and f not in edges_of]
    unknown = [f for f in numeric if kinds[f] != "boolean"]
    ranges = data_bounds(data, unknown, columns) if bounds is None else bounds_by_feature(bounds, names)
    for f in set(numeric).difference(unknown):
        ranges.setdefault(f, (0.0, 1.0))  # by the data type
    missing = [names[f] for f in numeric if f not in ranges]
    if missing:
        raise InvalidArgumentError(
            f"bounds lack the numeric features {missing}; every numeric feature needs bounds or bin_edges"
        )
    max_bins = _max_bins(max_bin, names)

    values: list[NDArray[np.float64]] = []
    for f, name in enumerate(names):
        if f in by_value:
            values.append(np.arange(len(by_value[f]), dtype=np.float64))
        elif f in by_code:
            values.append(np.asarray(columns.codes[f], dtype=np.float64))
        elif f in edges_of:
            values.append(_checked_edges(edges_of[f], name))
            ranges.setdefault(f, (float(values[-1][0]), float(values[-1][-1])))
        else:
            low, high = ranges[f]
            values.append(spaced_edges(low, high, int(max_bins[f]), spacing) if high > low else np.empty(0))
        if len(values[-1]) >= MAX_BINS and f in edges_of:
            raise InvalidArgumentError(f"bin_edges of feature {name!r} make more than {MAX_BINS} bins")
    return PublicBins(
        names,
        tuple(values),
        is_categorical,
        tuple(None if is_categorical[f] else ranges[f] for f in range(len(names))),
        columns,
        Provenance(_leaks(bounds is None and bool(unknown), undeclared)),
        tuple(undeclared),
    )
