"""Where each feature's bins and candidate splits lie in the flat arrays of a histogram.

A feature with ``n`` bins takes ``n + 1`` places: the last is always reserved
for missing values.  A numeric feature has two candidate splits per threshold
(missing values left or right).  A categorical feature has one candidate per
category (that category against the rest) and one per public random subset;
missing and unknown categories always go right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_BINS = 255
"""Bins of one feature, missing values not counted: a code is one byte."""


@dataclass(frozen=True)
class BinLayout:
    """Offsets of bins and candidate splits, all features side by side.

    Parameters
    ----------
    n_bins : ndarray of int64, shape (n_features,)
        Bins of each feature, missing bin not counted.
    is_categorical : ndarray of bool, shape (n_features,)
        Whether the bins are categories.
    subsets : ndarray of bool, shape (n_subsets, n_total_bins)
        Public random subsets of the categories; read at categorical features only.

    Attributes
    ----------
    bin_offsets : ndarray of int64, shape (n_features + 1,)
        First place of each feature in a histogram.
    candidate_offsets : ndarray of int64, shape (n_features + 1,)
        First candidate split of each feature.
    """

    n_bins: NDArray[np.int64]
    is_categorical: NDArray[np.bool_]
    subsets: NDArray[np.bool_] = field(repr=False)
    bin_offsets: NDArray[np.int64] = field(init=False, repr=False)
    candidate_offsets: NDArray[np.int64] = field(init=False, repr=False)

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
        """Places of one histogram, missing bins counted."""
        return int(self.bin_offsets[-1])

    @property
    def n_candidates(self) -> int:
        """Candidate splits of a node."""
        return int(self.candidate_offsets[-1])


def offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exclusive prefix sums: where each of the consecutive runs starts, and where the last ends."""
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
