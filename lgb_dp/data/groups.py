"""Persons with several rows: which rows of each are used, and the unit that the guarantee then covers.

At most k rows of a person are used.  They are chosen at random within the person's own rows, so that adding
or removing a person changes nothing about the others.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar, get_args

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.read_only import read_only
from gbdt_commons.tables.frames import is_table, rows_of_table
from gbdt_commons.tables.numbers import check_type
from lgb_dp.accounting.unit import ONE_ROW, Unit
from lgb_dp.checks import checked_choice, checked_integer
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError
from lgb_dp.mechanisms.rng import SecureRandom, WordSource

GroupWeight = Literal["mean"]
_Scalar = TypeVar("_Scalar", bound=np.generic)

_ONE_KIND = "groups must be all integers or all strings, without missing values"


def checked_unit(groups: Any, rows_per_group: Any, group_weight: Any) -> Unit:
    """The unit that the arguments of a Dataset describe: one row, or one person.

    With the weight "mean", a person's rows weigh no more than one row together. Raises ArgumentTypeError or
    InvalidArgumentError if an argument is not accepted, or is given without those that it needs.
    """
    if groups is None:
        if rows_per_group is not None or group_weight is not None:
            raise InvalidArgumentError("rows_per_group and group_weight need groups, got groups=None")
        return ONE_ROW
    if rows_per_group is None:
        raise InvalidArgumentError("groups needs rows_per_group, a public bound of the rows used per group")
    k = checked_integer("rows_per_group", rows_per_group, 1)
    if group_weight is None:
        return Unit(k, k)
    checked_choice("group_weight", group_weight, get_args(GroupWeight))
    return Unit(k, 1)


def group_numbers(groups: Any, n_rows: int) -> NDArray[np.int64]:
    """Groups as numbers from 0 on.

    Two persons never become one: groups are compared as they were given, and not after a conversion that
    would round large numbers or turn numbers into text. A missing group could be any person's, and is
    refused. Raises ArgumentTypeError or InvalidArgumentError if there is not one group per row, one is
    missing, or they are of several kinds; none is quoted.
    """
    check_type("groups", groups, ArgumentTypeError)
    given = groups if hasattr(groups, "__array__") else _as_objects(groups)
    values = np.asarray(given)
    if values.shape != (n_rows,):
        raise InvalidArgumentError(f"groups has shape {values.shape}; data has {n_rows} rows")
    if values.dtype == object:
        if len({type(value) for value in values}) > 1 or not isinstance(values[0], (str, bytes, int)):
            raise ArgumentTypeError(_ONE_KIND)
        number = {value: k for k, value in enumerate(sorted(set(values)))}
        return np.array([number[value] for value in values], dtype=np.int64)
    if values.dtype.kind not in "biufUSM" or (values.dtype.kind in "fM" and (values != values).any()):
        raise ArgumentTypeError(_ONE_KIND)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64).reshape(n_rows)


def _as_objects(groups: Any) -> NDArray[Any]:
    """A sequence as an array of its own items."""
    items = list(groups)
    values = np.empty(len(items), dtype=object)
    values[:] = items
    return values


def kept_rows(group: NDArray[np.int64], words: NDArray[np.uint64], k: int) -> NDArray[np.int64]:
    """The rows with the k smallest words of each group, ascending.

    A row's place depends on its own group's words alone, so that the rows kept of other groups stay the same
    whatever is added or removed. Groups are numbers from 0 on; there is one random word, uint64, per row.
    """
    order = np.lexsort((words, group))
    first = np.cumsum(np.bincount(group)) - np.bincount(group)
    place = np.arange(len(group)) - first[group[order]]
    return np.sort(order[place < k])


def draw_kept_rows(groups: Any, n_rows: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to use, and the number of the group of each; both are read-only."""
    group = group_numbers(groups, n_rows)
    rows = kept_rows(group, SecureRandom().words(n_rows), k)
    return read_only(rows), read_only(group[rows])


def draw_words(random: WordSource, n_rows: int, group_of_row: NDArray[np.int64] | None) -> NDArray[np.uint64]:
    """A random word per row, the same within a group, so that draws take a group as a whole."""
    if group_of_row is None:
        return random.words(n_rows)
    return random.words(int(group_of_row.max(initial=-1)) + 1)[group_of_row]


def taken(values: NDArray[_Scalar] | None, rows: NDArray[np.int64]) -> NDArray[_Scalar] | None:
    """Values of some rows in a read-only array of its own; None without any."""
    return None if values is None else read_only(values[rows])


def rows_of(data: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of a matrix of any kind."""
    if is_table(data):
        return rows_of_table(data, rows, InvalidArgumentError)
    return data.tocsr()[rows] if scipy.sparse.issparse(data) else data[rows]
