"""Where each feature's bins and candidate splits lie in the flat arrays of a histogram.

A feature with ``n`` bins takes ``n + 1`` places: the last is always reserved
for missing values.  A numeric feature has two candidate splits per threshold
(missing values left or right).  A categorical feature has one candidate per
category (that category against the rest) and one per public random subset;
missing and unknown categories always go right.

A histogram has places for those codes alone that rows may have: bins of equal width are mostly empty where a
feature has two values.  Every public candidate has its score all the same: that of the candidate among these
codes which sends the same ones left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_BINS = 255
"""Bins of one feature, missing values not counted: a code is one byte."""


@dataclass(frozen=True)
class BinLayout:
    """Offsets of bins and candidate splits, all features side by side; `subsets` are public and random."""

    n_bins: NDArray[np.int64]  # of each feature, missing bin not counted
    is_categorical: NDArray[np.bool_]  # whether the bins are categories
    subsets: NDArray[np.bool_] = field(repr=False)  # (n_subsets, n_total_bins), read where categorical
    present: NDArray[np.bool_] | None = field(default=None, repr=False)  # codes that rows may have; None: all
    bin_offsets: NDArray[np.int64] = field(init=False, repr=False)  # bins of the features before
    candidate_offsets: NDArray[np.int64] = field(init=False, repr=False)  # first candidate of each feature

    def __post_init__(self) -> None:
        object.__setattr__(self, "bin_offsets", offsets(self.n_bins + 1))
        per_category = np.where(self.n_bins > 1, self.n_bins + len(self.subsets), 0)
        per_threshold = 2 * (self.n_bins - 1)
        counts = np.where(self.is_categorical, per_category, per_threshold)
        object.__setattr__(self, "candidate_offsets", offsets(counts))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays, in the order in which kernels take them apart."""
        return self.n_bins, self.is_categorical, self.bin_offsets, self.candidate_offsets, self.subsets

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.n_bins)

    @property
    def n_total_bins(self) -> int:
        """Bins of all features, missing bins counted."""
        return int(self.bin_offsets[-1])

    @property
    def n_candidates(self) -> int:
        """Candidate splits of a node."""
        return int(self.candidate_offsets[-1])

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        """All codes of the feature that has most."""
        return np.arange(int(self.n_bins.max(initial=0)) + 1)

    @property
    def _present(self) -> NDArray[np.bool_]:
        """`present` of all codes."""
        assert self.present is not None
        return self.present[:, : len(self._codes)]

    @cached_property
    def _has_place(self) -> NDArray[np.bool_]:
        """Codes below `n_bins` that have a place of their own, shape (n_features, n_codes).

        The first and the last bin always do, so that each threshold has one among those of such codes and a
        feature with candidates keeps some; so does the first category that no row has, in place of all.
        """
        code = self._codes
        is_bin = code < self.n_bins[:, None]
        if self.present is None:
            return np.asarray(is_bin)
        ends = (code == 0) | (code == self.n_bins[:, None] - 1)
        absent = is_bin & ~self._present
        first_absent = absent & (np.cumsum(absent, axis=1) == 1) & self.is_categorical[:, None]
        return np.asarray(is_bin & (self._present | ends) | first_absent)

    @cached_property
    def _rank(self) -> NDArray[np.int64]:
        """Place of each code among those of its feature, shape (n_features, n_codes).

        Between two numeric codes with places, that of the lower; of a category that no row has, that of all.
        """
        kept = self._has_place
        rank = np.cumsum(kept, axis=1) - 1
        if self.present is not None:
            absent = kept & ~self._present
            of_absent = np.take_along_axis(rank, absent.argmax(axis=1)[:, None], axis=1)
            rank = np.where(self.is_categorical[:, None] & ~kept, of_absent, rank)
        return rank

    @cached_property
    def counted(self) -> BinLayout:
        """Layout of the codes that have places in histograms."""
        kept = self._has_place.copy()
        kept[np.arange(len(kept)), self.n_bins] = True  # of missing values
        of_bin = kept[self._codes <= self.n_bins[:, None]]
        return BinLayout(self._has_place.sum(axis=1), self.is_categorical, self.subsets[:, of_bin])

    @cached_property
    def place(self) -> NDArray[np.int32]:
        """Place of each code in a histogram, shape (n_features, n_codes)."""
        own = np.where(self._codes == self.n_bins[:, None], self.counted.n_bins[:, None], self._rank)
        return (self.counted.bin_offsets[:-1, None] + own).astype(np.int32)

    @cached_property
    def repeats(self) -> NDArray[np.int32]:
        """Candidates of `counted` that have the scores of all candidates in turn, shape (n_repeats, 3).

        Each row says which is the first, how many there are, and how many times these follow one another:
        both sides of missing values at the thresholds up to the next with a place, or a category or subset.
        """
        code, n = self._codes, self.n_bins[:, None]
        has_categories = self.is_categorical[:, None] & (n > 1)
        of_codes = np.where(
            self.is_categorical[:, None], has_categories & (code < n), self._has_place & (code < n - 1)
        )
        of_subsets = np.broadcast_to(has_categories, (self.n_features, len(self.subsets)))
        feature, own = np.nonzero(np.hstack([of_codes, of_subsets]))
        subset = own - len(code)
        of_code = self._rank[feature, np.minimum(own, len(code) - 1)]
        rank = np.where(subset < 0, of_code, self.counted.n_bins[feature] + subset)
        width = np.where(self.is_categorical[feature], 1, 2)
        is_last = np.append(feature, -1)[1:] != feature
        following = np.where(is_last, self.n_bins[feature] - 1, np.append(own, 0)[1:])
        count = np.where(width == 1, 1, following - own)
        return np.column_stack([self.counted.candidate_offsets[feature] + width * rank, width, count]).astype(
            np.int32
        )


def offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exclusive prefix sums: where each of the consecutive runs starts, and where the last ends."""
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
