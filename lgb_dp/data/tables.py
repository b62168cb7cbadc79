"""Tables of pandas, polars, pyarrow and whatever else narwhals knows, as matrices of numbers.

`TableColumns` says how: which column is which feature, which number stands for each category, and which
columns hold times.  It follows from names, data types and declared categories, which are public, and never
from a cell.  It travels inside the model, so that prediction encodes as training did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from gbdt_commons.tables import frames
from gbdt_commons.tables.frames import Kind, column_names, kind_of, kinds_of
from lgb_dp.checks import checked_numbers
from lgb_dp.data.cells import codes_by_value, codes_of_cells, codes_of_numbers, is_date, numbers_of_cells
from lgb_dp.errors import InvalidArgumentError

TIMES: Final = ("datetime", "duration")
MAX_UNDECLARED = 0.01
"""Share of rows with values that were not declared, up to which a column of categories is taken as it is."""
_MIN_JUDGED = 100
"""Rows of a table that is predicted, from which on such a share is one."""
_MICROSECONDS = 1e6
_UNITS_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": _MICROSECONDS}
_WORDS: Mapping[Kind, str] = {
    "number": "numbers",
    "boolean": "truth values",
    "datetime": "datetimes",
    "duration": "durations",
    "category": "categories",
    "text": "text",
    "object": "objects",
    "other": "values of another type",
}


def as_frame(data: Any) -> nw.DataFrame[Any]:
    """A table as narwhals sees it; InvalidArgumentError unless its columns' names are different texts."""
    return frames.as_frame(data, InvalidArgumentError)


def numeric_matrix(data: Any) -> NDArray[np.float64]:
    """A table of numbers, truth values and times as a matrix, shape (n_rows, n_columns)."""
    frame = as_frame(data)
    times = {f: kind for f, kind in enumerate(kinds_of(frame)) if kind in TIMES}
    return TableColumns(times=times).matrix(data, frame.shape[1])


def time_as_number(value: Any) -> Any:
    """Seconds since 1970 (UTC) of a datetime or a date, seconds of a duration; anything else as it is."""
    if isinstance(value, np.datetime64):
        return float((value - np.datetime64(0, "us")) / np.timedelta64(1, "us")) / _MICROSECONDS
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "us")) / _MICROSECONDS
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        return aware.timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=timezone.utc).timestamp()
    return value


@dataclass(frozen=True)
class TableColumns:
    """How the columns of a table become the features of a model.

    `names` has the column of each feature; None if training saw no names, and columns are taken by their
    position. `categories` are features whose categories are values of any kind, whose position is their code;
    `codes` those whose categories are codes already. `times` are "datetime", seconds since 1970 (UTC), or
    "duration", seconds.
    """

    names: tuple[str, ...] | None = None
    categories: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    codes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    times: Mapping[int, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON has; empty if every column is a number without a name."""
        found = {
            "names": None if self.names is None else list(self.names),
            "categories": {str(f): list(values) for f, values in self.categories.items()},
            "codes": {str(f): list(values) for f, values in self.codes.items()},
            "times": {str(f): kind for f, kind in self.times.items()},
        }
        return {key: value for key, value in found.items() if value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableColumns:
        """Read back what `to_dict` gave."""
        names = values.get("names")
        return cls(
            None if names is None else tuple(names),
            {int(f): tuple(known) for f, known in values.get("categories", {}).items()},
            {int(f): tuple(known) for f, known in values.get("codes", {}).items()},
            {int(f): str(kind) for f, kind in values.get("times", {}).items()},
        )

    def in_order(self, data: Any, n_features: int) -> tuple[nw.DataFrame[Any], list[Kind]]:
        """A table with the column of each feature in its place, and the kind of each.

        Raises InvalidArgumentError if a column is missing, is one too many, or holds another kind of values
        than in training.
        """
        frame = as_frame(data)
        if self.names is None:
            if frame.shape[1] != n_features:
                raise InvalidArgumentError(f"data has {frame.shape[1]} features; {n_features} are expected")
        elif self.names != (given := column_names(frame)):
            if missing := [name for name in self.names if name not in given]:
                extra = [name for name in given if name not in self.names]
                raise InvalidArgumentError(
                    "data must have the columns of the training data; "
                    f"missing are {missing}, and unknown are {extra}"
                )
            place = {name: f for f, name in enumerate(given)}
            frame = frame[:, [place[name] for name in self.names]]
        kinds = kinds_of(frame)
        for f, (name, kind) in enumerate(zip(column_names(frame), kinds, strict=True)):
            self._check_kind(f, name, kind)
        return frame, kinds

    def _check_kind(self, feature: int, name: str, kind: Kind) -> None:
        if feature in self.times:
            accepted, expected = [self.times[feature]], f"{self.times[feature]}s, as in training"
        elif feature in self.categories:
            has_numbers = not all(isinstance(value, str) for value in self.categories[feature])
            accepted = ["category", "text", "object", *(["number", "boolean"] if has_numbers else [])]
            accepted += ["datetime"] if any(map(is_date, self.categories[feature])) else []
            expected = "the categories of training; as codes, pass a matrix without names"
        elif feature in self.codes:
            accepted, expected = ["number", "boolean", "category", "text", "object"], "codes of categories"
        else:
            accepted = ["number", "boolean", "object"]
            expected = "numbers; text needs `categories` that were declared for training"
        if kind not in accepted:
            raise InvalidArgumentError(f"column {name!r} holds {_WORDS[kind]}; expected are {expected}")

    def reader(
        self, data: Any, n_features: int, accept_undeclared: Collection[str] | None = None
    ) -> Callable[[int, int], NDArray[np.float64]]:
        """A function that gives the rows ``start:stop`` of a table as numbers, NaN for missing values.

        Columns of too many values that were not declared are refused, unless they are named in
        `accept_undeclared`; None accepts all, so that no cell of private rows raises an error.
        """
        frame, kinds = self.in_order(data, n_features)
        numeric = ("number", "boolean")
        others = [f for f, kind in enumerate(kinds) if kind not in numeric or f in self.categories]
        encoded = {f: self.numbers(frame[:, f], f) for f in others}
        plain = [f for f in range(n_features) if f not in encoded]
        if accept_undeclared is not None:
            _check_accepted(accept_undeclared, frame.columns)
            for f in {*self.categories, *self.codes} if len(frame) >= _MIN_JUDGED else ():
                series, known = frame[:, f], self.codes.get(f) or range(len(self.categories[f]))
                numbers = encoded[f] if f in encoded else self.numbers(series, f)
                is_other = ~is_missing(series) & ~np.isin(numbers, list(known))
                check_declared(frame.columns[f], float(is_other.mean()), accept_undeclared)

        def rows(start: int, stop: int) -> NDArray[np.float64]:
            block = frame[start:stop]
            if not others:
                return checked_numbers("data", block.to_native())
            found = np.empty((stop - start, n_features))
            if plain:
                found[:, plain] = checked_numbers("data", block[:, plain].to_native())
            for f, column in encoded.items():
                found[:, f] = column[start:stop]
            return found

        return rows

    def matrix(self, data: Any, n_features: int) -> NDArray[np.float64]:
        """A whole table as numbers, shape (n_rows, n_features)."""
        return self.reader(data, n_features)(0, data.shape[0])

    def numbers(self, series: nw.Series[Any], feature: int) -> NDArray[np.float64]:
        """One column as numbers, NaN for missing values or an unknown category."""
        kind = kind_of(series)
        if feature in self.categories:
            known = codes_by_value(self.categories[feature])
            if kind in ("number", "boolean"):
                return codes_of_numbers(checked_numbers("data", series.to_native()), known)
            return _of_cells(series, lambda cells: codes_of_cells(cells, known))
        if feature in self.codes and kind not in ("number", "boolean"):
            return _of_cells(series, numbers_of_cells)
        if kind in TIMES:
            return _seconds(series)
        name = f"feature {series.name!r}"
        remedy = f"; text needs `categories` in training, as in categories={{{series.name!r}: [...]}}"
        return checked_numbers(name, series.to_native(), remedy if kind == "object" else "")


def is_missing(series: nw.Series[Any]) -> NDArray[np.bool_]:
    """Which cells are null or no number."""
    missing = series.is_null() | series.is_nan() if series.dtype.is_float() else series.is_null()
    return missing.to_numpy()


def _check_accepted(accept_undeclared: Collection[str], names: Collection[str]) -> None:
    unknown = [name for name in accept_undeclared if name not in names]
    if isinstance(accept_undeclared, str) or unknown:
        raise InvalidArgumentError(f"accept_undeclared must hold names of columns, got {accept_undeclared!r}")


def check_declared(name: str, share: float, accept_undeclared: Collection[str]) -> None:
    """Refuse a column of too many values that were not declared, for those who may see its rows."""
    if share > MAX_UNDECLARED and name not in accept_undeclared:
        raise InvalidArgumentError(
            f"column {name!r} has values that were not declared in {share:.1%} of the rows, which would "
            "count as missing: correct the column or its categories, or name it in accept_undeclared"
        )


def _seconds(series: nw.Series[Any]) -> NDArray[np.float64]:
    """Seconds since 1970 (UTC) of a column of datetimes or dates, seconds of one of durations.

    The integers of the column's own unit are taken as they are: libraries raise errors that quote a cell
    where it does not fit another unit.
    """
    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("ms"))
    elif getattr(series.dtype, "time_zone", None) is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    values = series.to_numpy()
    unit, _ = np.datetime_data(values.dtype)
    units = values.astype(np.int64)
    if unit == "ns":
        unit, units = "us", units // 1000
    return np.where(np.isnat(values), np.nan, units / _UNITS_PER_SECOND[unit])


def _of_cells(
    series: nw.Series[Any], numbers: Callable[[list[Any]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Result of `numbers` on the cells; a cell's content never shows in another way."""
    codes = frames.codes_of_dtype(series)
    if codes is None:
        return numbers(series.to_list())
    of_categories = numbers(frames.categories_of_dtype(series) or [])
    return np.asarray(np.append(of_categories, np.nan)[codes])
