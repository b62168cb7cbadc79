"""Knowledge of a passive party's columns from its splits: between which bins every row must lie.

A column and its bins are fixed before training, so that all splits of a column, in whatever tree and node,
must be cuts of one order of the rows.  A party that puts a row on one side of a threshold once cannot put it
on the other side later.  Without this check it could draw its columns anew for every tree, in view of what it
has learnt, and climb towards the labels.  Of a categorical column, the categories of every row are followed,
since its splits are no cuts of one order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from xgb_fed.boosting.features import bins_to_left
from xgb_fed.vertical.growing.bin_sums import AgreedColumns
from xgb_fed.vertical.protocol.splits import NamedSplit
from xgb_fed.vertical.trees.tree import LEAF, FederatedTree


@dataclass
class _Column:
    """Known places of the rows in one column: bins between which each row's must lie.

    A value that may be missing need not lie in any; none is possible if the bins cross.
    """

    lowest: NDArray[np.uint16]
    highest: NDArray[np.uint16]
    may_be_missing: NDArray[np.bool_]


MAX_SET_CELLS = 1 << 24
"""Largest product of category sets and categories cached for a column."""

_MORE_ROWS = "more rows are on one side of a split than the column has there"


@dataclass
class _CategoricalColumn:
    """Known places of the rows in one categorical column.

    `counts` are the rows in each category, then those without a value.  Different sets of categories are rows
    of `possible`, shape (n_sets, n_bins), and each row has the place of the one that holds for it.
    """

    counts: NDArray[np.int64]
    place: NDArray[np.int32]
    may_be_missing: NDArray[np.bool_]
    possible: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        """Every category is possible that has rows."""
        self.possible = (self.counts[None, :-1] > 0).copy()

    def note(self, left: NDArray[np.bool_], rows: NDArray[np.integer], goes_left: NDArray[np.bool_]) -> None:
        """Take up which of some rows went left; `left` says which categories do, missing values last."""
        for side, of_side in ((left, rows[goes_left]), (~left, rows[~goes_left])):
            before, of_row = _numbered(self.place[of_side], len(self.possible))
            narrowed = self.possible[before] & side[:-1]
            if not side[-1]:
                self.may_be_missing[of_side] = False
            is_possible = np.asarray(narrowed.any(axis=1))
            if (~is_possible[of_row] & ~self.may_be_missing[of_side]).any():
                raise ProtocolError("rows are in another category than in earlier splits of the column")
            # Beyond the limit, rows keep the sets that they had: wider ones refuse no honest party.
            if self.possible.size + narrowed.size <= MAX_SET_CELLS:
                self.place[of_side] = len(self.possible) + of_row
                self.possible = np.concatenate([self.possible, narrowed])
        self._keep_used()
        is_possible = np.asarray(self.possible.any(axis=1))
        self._check_counts(left[:-1], int(np.count_nonzero(~is_possible[self.place])))

    def _keep_used(self) -> None:
        """Each set once, and none that holds for no row."""
        used, place = _numbered(self.place, len(self.possible))
        packed, same = np.unique(np.packbits(self.possible[used], axis=1), axis=0, return_inverse=True)
        self.possible = np.unpackbits(packed, axis=1, count=self.possible.shape[1]).astype(bool)
        self.place = same.reshape(-1).astype(np.int32)[place]

    def _check_counts(self, left: NDArray[np.bool_], n_surely_missing: int) -> None:
        """No set of categories, and neither side of the last split, holds more rows than were announced."""
        counts = self.counts[:-1]
        with_value = np.bincount(self.place[~self.may_be_missing], minlength=len(self.possible))
        too_many = (with_value > self.possible @ counts).any() or n_surely_missing > self.counts[-1]
        for side in (left, ~left):
            within = ~(self.possible & ~side).any(axis=1)
            too_many = too_many or with_value[within].sum() > counts[side].sum()
        if too_many:
            raise ProtocolError(_MORE_ROWS)


def _numbered(place: NDArray[np.int32], n_places: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The places that occur, ascending, and each one's number among them."""
    used = np.flatnonzero(np.bincount(place, minlength=n_places))
    number = np.zeros(n_places, dtype=np.int32)
    number[used] = np.arange(len(used))
    return used, number[place]


class RowPlaces:
    """Between which bins the rows of one passive party lie, as far as its splits have told.

    It takes five bytes per row for each column that won a split, and for a categorical one up to
    `MAX_SET_CELLS` bytes for the different sets of possible categories.
    """

    def __init__(self, agreed: AgreedColumns, n_rows: int) -> None:
        self._agreed, self._n_rows = agreed, n_rows
        self._columns: dict[int, _Column] = {}
        self.categorical: dict[int, _CategoricalColumn] = {}

    def note(self, split: NamedSplit, rows: NDArray[np.integer], goes_left: NDArray[np.bool_]) -> None:
        """Take up which rows of a node, in the sample or not, a split sent left.

        Raises `ProtocolError` if no columns with the announced numbers of rows per bin fit this and all
        splits before.
        """
        start, end = self._agreed.offsets[split.column : split.column + 2]
        counts = self._agreed.counts[start:end]
        if split.right is not None:
            known_categories = self.categorical.setdefault(
                split.column,
                _CategoricalColumn(
                    counts, np.zeros(self._n_rows, dtype=np.int32), np.full(self._n_rows, bool(counts[-1]))
                ),
            )
            known_categories.note(
                bins_to_left(len(counts) - 1, -1, split.default_left, split.right), rows, goes_left
            )
            return
        known = self._columns.get(split.column)
        if known is None:
            lowest = np.zeros(self._n_rows, dtype=np.uint16)
            highest = np.full(self._n_rows, len(counts) - 2, dtype=np.uint16)
            known = _Column(lowest, highest, np.full(self._n_rows, bool(counts[-1])))
            self._columns[split.column] = known
        left, right = rows[goes_left], rows[~goes_left]
        # Only missing values go left: no bin is possible, which a lowest bin beyond the last one says.
        if split.last_left < 0:
            known.lowest[left] = len(counts) - 1
        else:
            known.highest[left] = np.minimum(known.highest[left], split.last_left)
        known.lowest[right] = np.maximum(known.lowest[right], split.last_left + 1)
        known.may_be_missing[right if split.default_left else left] = False
        impossible = (known.lowest[rows] > known.highest[rows]) & ~known.may_be_missing[rows]
        if impossible.any():
            raise ProtocolError(
                "rows are on another side of a threshold than in earlier splits of the column"
            )
        has_bin = ~known.may_be_missing
        n_below = int(counts[: split.last_left + 1].sum())
        n_above = int(counts[split.last_left + 1 : -1].sum())
        if (
            np.count_nonzero(has_bin & (known.highest <= split.last_left)) > n_below
            or np.count_nonzero(has_bin & (known.lowest > split.last_left)) > n_above
            or np.count_nonzero(known.lowest > known.highest) > counts[-1]
        ):
            raise ProtocolError(_MORE_ROWS)

    def replay(
        self,
        owner: int,
        named: Sequence[NamedSplit],
        trees: Sequence[FederatedTree],
        leaves: Sequence[NDArray[np.integer]],
        first: int = 0,
    ) -> None:
        """Take up the splits of trees that are finished, from each row's leaf in each tree.

        `named` has this party's, the owner's, splits by their numbers at it, from `first` on.
        """
        for tree, leaf in zip(trees, leaves, strict=True):
            for split_id, rows, goes_left in _splits_of(tree, owner, leaf):
                self.note(named[split_id - first], rows, goes_left)


def _splits_of(
    tree: FederatedTree, owner: int, leaf: NDArray[np.integer]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.bool_]]]:
    """Number, rows and sides of an owner's splits, from each row's leaf."""
    below: list[set[int]] = [set() for _ in range(len(tree))]
    # Children come after their parents.
    for node in range(len(tree) - 1, -1, -1):
        below[node] = {node} if tree.owner[node] == LEAF else below[tree.left[node]] | below[tree.right[node]]
    for node in range(len(tree)):
        if tree.owner[node] != owner or not owner:
            continue
        rows = np.flatnonzero(np.isin(leaf, sorted(below[node])))
        yield tree.split_id[node], rows, np.isin(leaf[rows], sorted(below[tree.left[node]]))
