"""Candidate splits of a node, in the order in which XGBoost tries them, and the best of them.

XGBoost walks a column's bins upwards with missing values on the right and then, if there are missing values,
downwards with missing values on the left.  It keeps the first of equal gains, so the order decides which
candidate wins a tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.split_gain import NodeBounds, SplitGain


class ExactGradients(Protocol):
    """Whoever knows what the integers of exact sums stand for."""

    def to_float(self, sums: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """G and h of exact sums."""


@dataclass(frozen=True)
class Candidate:
    """A candidate split of one node.

    Attributes
    ----------
    loss_change : float32
        −∞ if there is no candidate.
    column : int
        Number of the column in its party's data.
    last_left : int
        Last bin that goes left; −1 if only missing values do.
    default_left : bool
        Whether missing values go left.
    """

    loss_change: np.float32
    column: int
    last_left: int
    default_left: bool


@dataclass(frozen=True)
class NodeTerms:
    """What constraints and samples of columns leave of a node's candidates in one party's columns.

    Attributes
    ----------
    allowed : ndarray of bool, shape (n_features,), or None
        Which of all the party's columns may split the node; None means all.
    bounds : NodeBounds or None
        Under monotone constraints: between which weights the node and its children lie.
    directions : ndarray of int8, shape (n_features,), or None
        Under monotone constraints: whether predictions must grow (1) or fall (−1) with each column.
    """

    allowed: NDArray[np.bool_] | None = None
    bounds: NodeBounds | None = None
    directions: NDArray[np.int8] | None = None


NO_TERMS = NodeTerms()
NO_CANDIDATE = Candidate(np.float32(-np.inf), -1, -1, False)


class CandidateWalk:
    """All candidate splits of some columns of one party, in XGBoost's order.

    Parameters
    ----------
    columns : ndarray of int, shape (n_columns,)
        Their numbers in the party's data.
    n_bins : ndarray of int, shape (n_columns,)
        Bins of each; missing values are not counted.
    """

    def __init__(self, columns: NDArray[np.integer], n_bins: NDArray[np.integer]) -> None:
        self.columns = np.asarray(columns, dtype=np.int64)
        self.bin_offsets = np.concatenate([[0], np.cumsum(np.asarray(n_bins) + 1)]).astype(np.int64)
        none = np.empty(0, dtype=np.int64)
        place, at, default_left = [none], [none], [none.astype(bool)]
        for k in range(len(self.columns)):
            start, end = int(self.bin_offsets[k]), int(self.bin_offsets[k + 1]) - 1
            upwards, downwards = np.arange(start + 1, end + 1), np.arange(end - 1, start - 1, -1)
            at += [upwards, downwards]
            default_left += [np.zeros(len(upwards), dtype=bool), np.ones(len(downwards), dtype=bool)]
            place.append(np.full(len(upwards) + len(downwards), k))
        self._place = np.concatenate(place)
        self._at = np.concatenate(at)
        """The bin after the last one that goes left."""
        self._default_left = np.concatenate(default_left)

    def __len__(self) -> int:
        return len(self._at)

    def left_sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums of the bins to the left of every candidate.

        Parameters
        ----------
        values : ndarray of int64, shape (..., n_total_bins)
            Of each bin; the last bin of a column holds its missing values.

        Returns
        -------
        ndarray of int64, shape (..., n_candidates)
        """
        running = np.zeros((*values.shape[:-1], values.shape[-1] + 1), dtype=np.int64)
        np.cumsum(values, axis=-1, out=running[..., 1:])
        first, missing = self.bin_offsets[self._place], self.bin_offsets[self._place + 1] - 1
        left = running[..., self._at] - running[..., first]
        left += np.where(self._default_left, values[..., missing], 0)
        return left

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

        Parameters
        ----------
        sums : ndarray of int64, shape (2, 2, n_classes, n_total_bins)
            Exact sums of g and h in each bin of the node, as high and low halves.
        counts : ndarray of int64, shape (n_total_bins,)
            Sampled rows in each bin.
        total : ndarray of int64, shape (2, 2, n_classes)
            Exact sums of the node.
        gradients : ExactGradients
        split_gain : SplitGain
        terms : NodeTerms, optional
            Constraints of the node's candidates; there are none by default.
        """
        n_left = self.left_sums(counts)
        missing = counts[self.missing_bins]
        size = int(counts[: self.bin_offsets[1]].sum()) if len(self.columns) else 0
        moves = ~self._default_left | (missing > 0)
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
        return self.candidate(int(possible[first]), change[first])

    @property
    def default_left(self) -> NDArray[np.bool_]:
        """Of every candidate, whether missing values go left."""
        return self._default_left

    @property
    def missing_bins(self) -> NDArray[np.int64]:
        """Of every candidate, the place of its column's missing values among all bins."""
        return self.bin_offsets[self._place + 1] - 1

    def candidate(self, number: int, loss_change: np.float32) -> Candidate:
        """The candidate of a number, in XGBoost's order."""
        place = self._place[number]
        return Candidate(
            loss_change,
            int(self.columns[place]),
            int(self._at[number] - self.bin_offsets[place]) - 1,
            bool(self._default_left[number]),
        )

    def goes_left(self, candidate: Candidate) -> NDArray[np.bool_]:
        """Which bins of a candidate's column go left, missing values last."""
        place = int(np.searchsorted(self.columns, candidate.column))
        bins = np.arange(self.bin_offsets[place + 1] - self.bin_offsets[place])
        left = bins <= candidate.last_left
        left[-1] = candidate.default_left
        return np.asarray(left)

    def bins_of(self, column: int) -> slice:
        """Where the bins of a column lie among all bins."""
        place = int(np.searchsorted(self.columns, column))
        return slice(int(self.bin_offsets[place]), int(self.bin_offsets[place + 1]))
