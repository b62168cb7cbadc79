"""Cuts of columns whose rows are at several parties: pooled order statistics, found by counts.

A value's key is its float32 bits, reordered so that keys are in the order of values.  The keys' digits, of
four bits each, are found from the first one on: all parties count the rows whose keys begin so, and add up
the counts securely.  With five digits a value is known within one part in 2^11 of it, and the cut is the
lower end of that cell, the same for whatever values are in it; with all eight it is somebody's value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import SumRangeError
from xgb_fed.boosting.features import Columns, cut_columns
from xgb_fed.horizontal.exact.questions import Asking, ask_counts

DIGITS = {"grid": 5, "exact": 8}
"""Digits of a key that are found, by how cuts are chosen."""

_DIGIT_BITS = 4
_KEY_BITS = 32
Values = NDArray[np.float32]


def keys_of(values: Values) -> NDArray[np.uint32]:
    """Keys of numbers, in their order."""
    bits = (np.asarray(values, dtype=np.float32) + np.float32(0)).view(np.uint32)
    return np.asarray(np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)), dtype=np.uint32)


def values_of(keys: NDArray[np.uint32]) -> Values:
    """The numbers that have these keys."""
    bits = np.where(keys >> 31, keys & np.uint32((1 << 31) - 1), ~keys).astype(np.uint32)
    return bits.view(np.float32)


@dataclass
class CutSearch:
    """Search for the cuts of one column.

    `keys` are those of this party's values, ascending. `cells` are the first digits of the cells that are
    looked into, with the pooled numbers of rows `before` and, after the first digit, `within` each. With
    `everything`, all cells with rows are looked into; else those of some ranks.
    """

    keys: NDArray[np.uint32]
    cells: NDArray[np.uint64]
    before: NDArray[np.int64]
    everything: bool = True
    n_rows: int = 0
    within: NDArray[np.int64] | None = None

    def counts(self, n_digits: int) -> NDArray[np.int64]:
        """Rows of this party by the next digit in each cell."""
        shift = np.uint64(_KEY_BITS - _DIGIT_BITS * (n_digits + 1))
        bounds = ((self.cells[:, None] << np.uint64(_DIGIT_BITS)) + np.arange(17, dtype=np.uint64)) << shift
        # The end of the last cell is no key of 32 bits; the last key in it is.
        starts, last = bounds[:, :-1].astype(np.uint32), (bounds[:, -1:] - np.uint64(1)).astype(np.uint32)
        places = [np.searchsorted(self.keys, starts), np.searchsorted(self.keys, last, side="right")]
        return np.asarray(np.diff(np.concatenate(places, axis=1), axis=1), dtype=np.int64)

    def narrow(self, counts: NDArray[np.int64], max_bin: int) -> None:
        """Take up the pooled counts by the next digit; SumRangeError if a party counts other rows now."""
        flat = counts.reshape(-1)
        if self.within is None:
            self.n_rows = int(flat.sum())
        elif not np.array_equal(counts.sum(axis=1), self.within):
            raise SumRangeError("the counts of a column's cells do not add up to those before")
        before = (self.before[:, None] + np.cumsum(counts, axis=1) - counts).reshape(-1)
        cells = ((self.cells[:, None] << np.uint64(_DIGIT_BITS)) + np.arange(16, dtype=np.uint64)).reshape(-1)
        kept = flat > 0
        if not self.everything or kept.sum() > max_bin:
            self.everything = False
            ranks = np.unique(np.round(np.linspace(0, self.n_rows - 1, max_bin)).astype(np.int64))
            kept &= np.searchsorted(ranks, before) < np.searchsorted(ranks, before + flat)
        self.cells, self.before, self.within = cells[kept], before[kept], flat[kept]


def find_cuts(columns: Columns, max_bin: int, how: str) -> Asking[list[Values]]:
    """Values that the columns of all parties are cut at, on a "grid" or "exact".

    All distinct values (or cells, see above) if there are at most `max_bin`; else those at `max_bin` ranks,
    from the smallest value to the largest.
    """
    searches = []
    for f in range(columns.n_features):
        values = columns.column(f)
        keys = keys_of(values[~np.isnan(values)])
        keys.sort()
        searches.append(CutSearch(keys, np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.int64)))
    for n_digits in range(DIGITS[how]):
        own = [search.counts(n_digits) for search in searches]
        none = np.empty(0, dtype=np.int64)
        pooled = yield from ask_counts(
            f"digit {n_digits} of cuts", np.concatenate([none, *(counts.reshape(-1) for counts in own)])
        )
        ends = np.cumsum([counts.size for counts in own])
        for search, part in zip(searches, np.split(pooled, ends[:-1]), strict=True):
            search.narrow(part.reshape(-1, 16), max_bin)
    shift = _KEY_BITS - _DIGIT_BITS * DIGITS[how]
    return [values_of((search.cells << np.uint64(shift)).astype(np.uint32)) for search in searches]


def rows_of_cuts(cuts: list[Values]) -> NDArray[np.float32]:
    """Public rows whose distinct values are the cuts: what XGBoost is given as a reference for its bins.

    There are as many as the largest number of cuts, with NaN where a column has fewer.
    """
    rows = np.full((max([1, *map(len, cuts)]), len(cuts)), np.nan, dtype=np.float32)
    for f, own in enumerate(cuts):
        rows[: len(own), f] = own
    return rows


def bounds_of_bins(cuts: list[Values]) -> tuple[list[Values], NDArray[Any]]:
    """Upper bounds of each column's bins, and the lower bound of the first, as XGBoost makes them of cuts."""
    rows = rows_of_cuts(cuts)
    return cut_columns(Columns(rows, [f"f{k}" for k in range(len(cuts))]), max(2, len(rows) + 1))
