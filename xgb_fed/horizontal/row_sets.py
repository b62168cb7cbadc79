"""In how many rows two sets of rows differ, which is what the difference of sums over them is about."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.features import Columns

Codes = NDArray[np.uint64]

_GOLDEN, _FIRST, _SECOND = (
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def row_codes(columns: Columns, y: NDArray[np.float32], weight: NDArray[np.float32]) -> Codes:
    """Numbers of 64 bits that are equal for equal rows, labels and weights, of the rows of weights above 0.

    Others are equal with a probability of 2^-64 per pair of rows that are not made up to be so.

    Parameters
    ----------
    columns : Columns
    y, weight : ndarray of float32, shape (n_rows,)

    Returns
    -------
    ndarray of uint64, shape (n_counted,), ascending
    """
    codes = np.zeros(len(y), dtype=np.uint64)
    for values in (y, weight, *(columns.column(f) for f in range(columns.n_features))):
        # Adding 0 makes −0 the same as 0, and all missing values are one.
        own = np.where(np.isnan(values), np.float32(np.nan), np.asarray(values, dtype=np.float32) + 0)
        codes = _mixed(codes ^ own.astype(np.float32).view(np.uint32))
    return np.sort(codes[weight > 0])


def _mixed(words: Codes) -> Codes:
    """The finalizer of SplitMix64, a bijection."""
    words = words + _GOLDEN
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return np.asarray(words ^ (words >> np.uint64(31)))


def n_differing(one: Codes, other: Codes) -> int:
    """Rows in one set and not in the other, either way; those that are in a set twice count twice.

    Parameters
    ----------
    one, other : ndarray of uint64
        As `row_codes` gives them.
    """
    both = np.concatenate([one, other])
    order = np.argsort(both, kind="stable")
    if not len(both):
        return 0
    sign = np.where(order < len(one), 1, -1)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(both[order]) != 0]))
    return int(np.abs(np.add.reduceat(sign, starts)).sum())


def differences(sets: list[Codes]) -> list[int]:
    """In how many rows each pair of sets differs, in the order of `itertools.combinations`."""
    return [n_differing(one, other) for one, other in combinations(sets, 2)]
