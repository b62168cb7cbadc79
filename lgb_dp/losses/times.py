"""Times to events as labels: the forms that they are given in, and how they fit public bounds.

Inside, a row's label is a pair of the last time at which the event was still to come and the first at which
it had happened: equal where it was observed, infinity where it was not (right-censored), 0 where it happened
before (left-censored).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.tables.frames import as_frame, is_table
from lgb_dp.checks import checked_numbers
from lgb_dp.errors import InvalidArgumentError

TIMES = np.dtype([("lower", np.float64), ("upper", np.float64)])
"""Type of an array of such pairs, which is copied, cut and joined as other labels are."""

_BOUNDS = ("lower", "upper"), ("label_lower_bound", "label_upper_bound")

FORMS = (
    "times are given as an array with the fields of scikit-survival (one of truth values, whether the event "
    "was observed, and one of times), or as two columns, named lower and upper if they have names, with "
    "infinity where it was not"
)


N_TIMES = 16
"""Intervals of times that held-out rows are counted in."""


def time_edges(low: float, high: float) -> NDArray[np.float64]:
    """Public ends of these intervals, of equal widths of the logarithm; the last is `high`."""
    return np.geomspace(low, high, N_TIMES + 1)[1:]


def times_of(lower: Any, upper: Any) -> NDArray[Any]:
    """Pairs of two arrays of numbers."""
    lower, upper = checked_numbers("label", lower), checked_numbers("label", upper)
    if lower.ndim != 1 or lower.shape != upper.shape:
        raise InvalidArgumentError(
            f"label has bounds of shapes {lower.shape} and {upper.shape}; one of each is needed per row"
        )
    pairs = np.empty(len(lower), dtype=TIMES)
    pairs["lower"], pairs["upper"] = lower, upper
    return pairs


def as_times(label: Any) -> NDArray[Any] | None:
    """Times of a label that is given as `FORMS` say; None if it is none of these.

    `InvalidArgumentError` if it has fields, or is a table of two columns, and these are others.
    """
    dtype = getattr(label, "dtype", None)
    if dtype == TIMES:
        return np.array(label)
    fields = getattr(dtype, "names", None)
    if fields is not None:
        columns = {str(name): label[name] for name in fields}
    elif is_table(label) and len(label.shape) == 2 and label.shape[1] == 2:
        frame = as_frame(label, InvalidArgumentError, "label")
        columns = {name: np.asarray(frame[name].to_numpy()) for name in frame.columns}
    elif np.ndim(label) == 2 and np.shape(label)[1] == 2:
        return times_of(*checked_numbers("label", label).T)
    else:
        return None
    events = [name for name, column in columns.items() if column.dtype == np.bool_]
    others = [column for name, column in columns.items() if name not in events]
    if len(events) == len(others) == 1:
        time = checked_numbers("label", others[0])
        return times_of(time, np.where(columns[events[0]] | np.isnan(time), time, np.inf))
    for bounds in _BOUNDS:  # by name: an indicator of ones and zeros would pass for a time
        if set(columns) == set(bounds):
            return times_of(*(columns[name] for name in bounds))
    kinds = ", ".join(f"{name!r} ({column.dtype})" for name, column in columns.items())
    raise InvalidArgumentError(f"label has the columns {kinds}; {FORMS}")


def as_columns(label: NDArray[Any]) -> NDArray[np.float64]:
    """Columns of targets: two of them look like times until the objective is known."""
    return label.view(np.float64).reshape(len(label), 2) if label.dtype == TIMES else label


def check_times(times: NDArray[Any], low: float, high: float) -> None:
    """Raise an `InvalidArgumentError` that names what does not fit, and quotes no time."""
    lower, upper = times["lower"], times["upper"]
    for text, is_so in {
        "missing times": np.isnan(lower) | np.isnan(upper),
        "times that are not positive": (lower < 0) | (upper <= 0) | np.isposinf(lower),
        "lower bounds above upper ones": lower > upper,
        f"times outside label_bounds = ({low:g}, {high:g})": ((lower > 0) & (lower < low))
        | (lower > high)
        | (upper < low)
        | ((upper > high) & (upper < np.inf)),
    }.items():
        if is_so.any():
            raise InvalidArgumentError(f"label has {text}; label_overflow='clip' says how such rows count")


def clipped_times(times: NDArray[Any], low: float, high: float) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Times as they are known within the public bounds, and which rows count; a function of each row alone.

    An event before the first bound is known to be before it, and one beyond the last to come after it.  A row
    that lacks a time, or whose time is negative or whose bounds are in the wrong order, does not count.
    """
    lower, upper = times["lower"], times["upper"]
    counts = (lower <= upper) & (upper >= 0) & (lower < np.inf)
    found = np.empty(len(times), dtype=TIMES)
    found["lower"] = np.where(counts & (lower >= low), np.minimum(lower, high), 0.0)
    found["upper"] = np.where(counts & (upper <= high), np.maximum(upper, low), np.inf)
    return found, counts
