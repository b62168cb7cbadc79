"""Candidate splits of a node, in the order in which XGBoost tries them, and the best of them.

XGBoost walks a column's bins upwards with missing values on the right and then, if there are missing values,
downwards with missing values on the left.  It keeps the first of equal gains, so the order decides which
candidate wins a tie.

A categorical column with fewer bins than `max_cat_to_onehot` is split one category against all others.
The bins of any other are sorted by what they would weigh as leaves, the first of equal ones first, and the
order is walked twice: upwards with what was passed on the right and missing values on the left, then
downwards with what was passed on the left and missing values on the right.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.categories import DEFAULT_RULES, CategoryRules
from xgb_fed.boosting.features import bins_to_left
from xgb_fed.boosting.split_gain import NodeBounds, SplitGain


class ExactGradients(Protocol):
    """Interpreter of the integers of exact sums."""

    def to_float(self, sums: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """G and h of exact sums."""


@dataclass(frozen=True)
class Candidate:
    """A candidate split of one node in column number `column` of its party's data.

    Without a candidate, the loss change is −∞.  `last_left` is the last bin that goes left, −1 if only
    missing values do; these go left if `default_left`.  `right`, of a categorical column, are the bins that
    go right, ascending; `last_left` is then −1.
    """

    loss_change: np.float32
    column: int
    last_left: int
    default_left: bool
    right: tuple[int, ...] | None = None


@dataclass(frozen=True)
class NodeTerms:
    """Candidates of a node in one party's columns that constraints and samples of columns admit.

    `allowed` says of each of the party's columns whether it may split the node; None means all.  Under
    monotone constraints, the weights of the node and its children lie between `bounds`, and `directions` says
    of each column whether predictions must grow (1) or fall (−1) with it.
    """

    allowed: NDArray[np.bool_] | None = None
    bounds: NodeBounds | None = None
    directions: NDArray[np.int8] | None = None


NO_TERMS = NodeTerms()
NO_CANDIDATE = Candidate(np.float32(-np.inf), -1, -1, False)


class _TriedRuns(NamedTuple):
    """Candidates of a column, each by a run of its bins, in the order of the walk.

    A run begins at `first` and ends at `end` among all bins.  It goes right where `runs_right`, and the
    column's other bins left; elsewhere the other way round.
    """

    first: NDArray[np.int64]
    end: NDArray[np.int64]
    runs_right: NDArray[np.bool_]
    default_left: NDArray[np.bool_]


def _tried_thresholds(start: int, end: int) -> _TriedRuns:
    """A column of numbers whose bins lie from `start` to `end`, upwards and then downwards."""
    ends = np.concatenate([np.arange(start + 1, end + 1), np.arange(end - 1, start - 1, -1)])
    default_left = np.arange(len(ends)) >= end - start
    return _TriedRuns(np.full(len(ends), start), ends, np.zeros(len(ends), dtype=bool), default_left)


def _tried_one_by_one(start: int, end: int) -> _TriedRuns:
    """Each category against all others: with missing values on the left, then on the right."""
    bins = np.repeat(np.arange(start, end), 2)
    default_left = np.arange(len(bins)) % 2 == 0
    return _TriedRuns(bins, bins + 1, np.ones(len(bins), dtype=bool), default_left)


def _tried_partitions(start: int, end: int, max_cat_threshold: int) -> _TriedRuns:
    """Sorted categories, from either end."""
    passed = np.arange(1, min(max_cat_threshold, end - start))
    firsts = np.concatenate([np.full(len(passed), start), end - passed])
    ends = np.concatenate([start + passed, np.full(len(passed), end)])
    upwards = np.arange(len(ends)) < len(passed)
    return _TriedRuns(firsts, ends, upwards, upwards)


class CandidateWalk:
    """All candidate splits of some columns of one party, in XGBoost's order.

    Columns go by their numbers in the party's data.  `n_bins` counts the bins of each, without missing
    values, and the bins of the `categorical` ones are categories.
    """

    def __init__(
        self,
        columns: NDArray[np.integer],
        n_bins: NDArray[np.integer],
        categorical: frozenset[int] = frozenset(),
        rules: CategoryRules = DEFAULT_RULES,
    ) -> None:
        self.columns = np.asarray(columns, dtype=np.int64)
        self.bin_offsets = np.concatenate([[0], np.cumsum(np.asarray(n_bins) + 1)]).astype(np.int64)
        none = np.empty(0, dtype=np.int64)
        tried = [_TriedRuns(none, none, none.astype(bool), none.astype(bool))]
        self._is_categorical = np.isin(self.columns, sorted(categorical))
        self._sorted: list[slice] = []
        """Where the bins of categorical columns lie that are sorted."""
        for k, (start, after) in enumerate(pairwise(self.bin_offsets.tolist())):
            end = after - 1  # the last bin holds missing values
            if not self._is_categorical[k]:
                tried.append(_tried_thresholds(start, end))
            elif end - start < rules.max_cat_to_onehot:
                tried.append(_tried_one_by_one(start, end))
            else:
                tried.append(_tried_partitions(start, end, rules.max_cat_threshold))
                self._sorted.append(slice(start, end))
        self._first, self._end, self._runs_right, self.default_left = (
            np.concatenate(parts) for parts in zip(*tried, strict=True)
        )
        """Among them, of every candidate, whether missing values go left."""
        self._place = np.repeat(np.arange(-1, len(self.columns)), [len(part.end) for part in tried])
        self._is_always_tried = ~self.default_left | self._is_categorical[self._place]
        """Whether it is tried without missing values: numbers are walked downwards for these only."""

    def __len__(self) -> int:
        return len(self._end)

    def left_sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums of the bins to the left of every candidate, shape (..., n_candidates).

        The values have shape (..., n_total_bins); the last bin of a column holds its missing values.  Those
        of sorted categories come in their order.
        """
        running = np.zeros((*values.shape[:-1], values.shape[-1] + 1), dtype=np.int64)
        np.cumsum(values, axis=-1, out=running[..., 1:])
        left = running[..., self._end] - running[..., self._first]
        if self._is_categorical.any():
            column = running[..., self.missing_bins] - running[..., self.bin_offsets[self._place]]
            left = np.where(self._runs_right, column - left, left)
        left += np.where(self.default_left, values[..., self.missing_bins], 0)
        return left

    def _order(
        self, sums: NDArray[np.int64], gradients: ExactGradients, split_gain: SplitGain
    ) -> NDArray[np.int64] | None:
        """The order in which XGBoost walks the bins of a node; None if it is that of their numbers."""
        if not self._sorted:
            return None
        order = np.arange(self.bin_offsets[-1])
        for bins in self._sorted:
            g, h = gradients.to_float(sums[..., bins])
            order[bins] = bins.start + np.argsort(split_gain.weights(g[0], h[0]), kind="stable")
        return order

    def best(
        self,
        sums: NDArray[np.int64],
        counts: NDArray[np.int64],
        total: NDArray[np.int64],
        gradients: ExactGradients,
        split_gain: SplitGain,
        terms: NodeTerms = NO_TERMS,
    ) -> Candidate:
        """The candidate with the largest loss change; of equal ones the first.

        Exact sums of g and h, as high and low halves, come for each bin of the node, shape (2, 2, n_classes,
        n_total_bins), and in `total` for the node itself.  `counts` are the sampled rows in each bin.
        """
        order = self._order(sums, gradients, split_gain)
        if order is not None:
            sums, counts = sums[..., order], counts[order]
        n_left = self.left_sums(counts)
        missing = counts[self.missing_bins]
        size = int(counts[: self.bin_offsets[1]].sum()) if len(self.columns) else 0
        moves = self._is_always_tried | (missing > 0)
        if terms.allowed is not None:
            moves &= terms.allowed[self.columns[self._place]]
        possible = np.flatnonzero(moves & (n_left > 0) & (n_left < size))
        if not len(possible):
            return NO_CANDIDATE
        g, h = gradients.to_float(self.left_sums(sums)[..., possible])
        total_g, total_h = gradients.to_float(total)
        directions = None
        if terms.directions is not None:
            directions = terms.directions[self.columns[self._place[possible]]]
        change = split_gain.loss_changes(g.T, h.T, total_g, total_h, terms.bounds, directions)
        first = int(change.argmax())
        return self.candidate(int(possible[first]), change[first], order)

    @property
    def missing_bins(self) -> NDArray[np.int64]:
        """Of every candidate, the place of its column's missing values among all bins."""
        return self.bin_offsets[self._place + 1] - 1

    def candidate(
        self, number: int, loss_change: np.float32, order: NDArray[np.int64] | None = None
    ) -> Candidate:
        """The candidate of a number, in XGBoost's order; `order` is that of the bins, if some are sorted."""
        place, default_left = self._place[number], bool(self.default_left[number])
        column, start = int(self.columns[place]), int(self.bin_offsets[place])
        first, end = int(self._first[number]), int(self._end[number])
        if not self._is_categorical[place]:
            return Candidate(loss_change, column, end - start - 1, default_left)
        right = slice(first, end) if self._runs_right[number] else slice(start, first)
        bins = np.arange(right.start, right.stop) if order is None else order[right]
        return Candidate(loss_change, column, -1, default_left, tuple(sorted((bins - start).tolist())))

    def goes_left(self, candidate: Candidate) -> NDArray[np.bool_]:
        """Which bins of a candidate's column go left, missing values last."""
        bins = self.bins_of(candidate.column)
        n_bins = bins.stop - bins.start - 1
        return bins_to_left(n_bins, candidate.last_left, candidate.default_left, candidate.right)

    def bins_of(self, column: int) -> slice:
        """Where the bins of a column lie among all bins."""
        place = int(np.searchsorted(self.columns, column))
        return slice(int(self.bin_offsets[place]), int(self.bin_offsets[place + 1]))
