"""Sets of rows over which sums are opened, so that no combination of the sums is about a few rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.features import Columns

Codes = NDArray[np.uint64]

_GOLDEN, _FIRST, _SECOND = (
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True, eq=False)
class RowSet:
    """Rows of weights above 0, as numbers of 64 bits.

    Others than equal rows have equal numbers with a probability of 2^-64 per pair of rows that are not made
    up to have them.

    Attributes
    ----------
    rows : ndarray of uint64, shape (n_counted,)
        Equal for equal rows and labels.
    weighted : ndarray of uint64, shape (n_counted,), ascending
        Equal for equal rows, labels and weights.
    """

    rows: Codes
    weighted: Codes

    @classmethod
    def of(cls, columns: Columns, y: NDArray[np.float32], weight: NDArray[np.float32]) -> RowSet:
        """A set of a party's rows, of weights above 0 or not."""
        codes = np.zeros(len(y), dtype=np.uint64)
        for values in (y, *(columns.column(f) for f in range(columns.n_features))):
            codes = _with(codes, values)
        counts = weight > 0
        return cls(codes[counts], np.sort(_with(codes, weight)[counts]))


def _with(codes: Codes, values: NDArray[np.float32]) -> Codes:
    """Codes of rows that have one value more."""
    # Adding 0 makes −0 the same as 0, and all missing values are one.
    own = np.where(np.isnan(values), np.float32(np.nan), np.asarray(values, dtype=np.float32) + 0)
    return _mixed(codes ^ own.astype(np.float32).view(np.uint32))


def _mixed(words: Codes) -> Codes:
    """The finalizer of SplitMix64, a bijection."""
    words = words + _GOLDEN
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return np.asarray(words ^ (words >> np.uint64(31)))


def rows_of_its_own(sets: list[RowSet]) -> list[int]:
    """How many rows of each set are in no other set, but for sets that are the same with the same weights.

    A sum over a set is the sum of its rows' losses times their weights.  A combination of the sums of several
    sets in which a set has a factor other than 0 (sets that are the same count as one) is about all rows that
    are in this set alone, whatever their weights are.  So if every set has m such rows, every combination is
    about m rows or more, or about none.

    Parameters
    ----------
    sets : list of RowSet

    Returns
    -------
    list of int
    """
    groups: dict[bytes, RowSet] = {}
    for one in sets:
        groups.setdefault(one.weighted.tobytes(), one)
    distinct = [np.unique(one.rows) for one in groups.values()]
    codes, n_sets = np.unique(np.concatenate([*distinct, np.empty(0, np.uint64)]), return_counts=True)
    single = codes[n_sets == 1]
    return [int(np.isin(one.rows, single).sum()) for one in sets]
