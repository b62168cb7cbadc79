"""Released histograms of the features, and what follows from them without reading rows again.

Public bins are laid out before anything is known of the rows: half of the thresholds of a skewed column may
lie where there are no rows.  A split there divides nothing, and a tree of one feature wastes its leaves.
Where counts stand out of their noise, thresholds are drawn mostly next to them.

One release counts the rows in every bin; everything here is post-processing of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lgb_dp.data.bins import PublicBins
from lgb_dp.newton.settings import MAX_COUNTED_FEATURES
from lgb_dp.newton.splits.random import CELLS_PER_FEATURE

_STDS_TO_STAND_OUT = 3.0
_ROWS_TO_STAND_OUT, _PART_TO_STAND_OUT = 50.0, 0.02
"""Rows of a range that stands out, at least, or this part of all if it is less.

Where noise is small, every bin that holds a row would stand out.  Thresholds at the ends of a tail then are
drawn as often as those in the middle of the rows, and models became worse from ε = 100 to 10,000.
"""

_SHARE_OF_OTHERS = 0.25
"""Probability of the thresholds that are next to no range of bins which stands out, all together."""

MIN_ROWS_OVER_STD = 250.0
"""Of all rows and the noise of a bin, from which on it is worth knowing where there are rows."""


_SHARES_TO_TELL = {"missing or not declared": 0.01, "in an outermost bin, as all beyond the bounds": 0.1}
_MIN_BINS_TO_TELL, _MAX_COLUMNS_TO_TELL = 8, 5
_SMOOTHED_BINS = 9
_MIN_COUNT = 1e-9


@dataclass(frozen=True)
class FeatureHistograms:
    """Released numbers of rows in every bin of every feature, with noise of standard deviation `std`.

    Of a feature's counts, shape (n_bins + 1,), the last one is of missing values. All are 0 for a feature
    that was left out.
    """

    counts: Sequence[NDArray[np.float64]]
    std: float

    @classmethod
    def of(cls, counts: NDArray[np.float64], std: float, bins: PublicBins) -> FeatureHistograms:
        """Of all features, shape (n_total_bins,), in the order of the bins' layout."""
        return cls(np.split(counts, np.cumsum(bins.n_bins + 1)[:-1]), std)

    @classmethod
    def unknown(cls, bins: PublicBins) -> FeatureHistograms:
        """Those of features without a release: every bin is as likely."""
        return cls.of(np.zeros(bins.layout().n_total_bins), 1.0, bins)

    def probabilities(self, feature: int, *, is_categorical: bool) -> NDArray[np.float64]:
        """Estimated distribution of a feature's codes, shape (n_bins + 1,).

        Neighbouring bins of a numeric feature are smoothed as far as their differences do not stand out of
        the noise; categories and missing values are shrunk by it.
        """
        count = self.counts[feature]
        estimate = np.maximum(count - self.std, 0.0)
        if not is_categorical and len(count) > _SMOOTHED_BINS + 1:
            reach = _SMOOTHED_BINS // 2
            padded = np.pad(count[:-1], reach, mode="edge")
            mean = np.convolve(padded, np.full(_SMOOTHED_BINS, 1 / _SMOOTHED_BINS), mode="valid")
            apart = count[:-1] - mean
            kept = apart**2 / (apart**2 + 4 * self.std**2 + _MIN_COUNT)
            estimate[:-1] = np.maximum(mean + apart * kept, 0.0)
        estimate += _MIN_COUNT
        return np.asarray(estimate / estimate.sum())

    def largest_share(self) -> float:
        """Share of rows in the fullest bin of the feature that divides them best: no row has more equals."""
        shares = [np.max(count) / max(np.sum(count), _MIN_COUNT) for count in self.counts if len(count) > 2]
        return float(min(shares, default=1.0))

    def remarks(self, bins: PublicBins) -> list[str]:
        """Notes on shares of rows that stand out of the noise, where they speak against the declarations."""
        told: dict[str, list[str]] = {what: [] for what in _SHARES_TO_TELL}
        for f, count in enumerate(self.counts):
            is_wide = not bins.is_categorical[f] and len(count) > _MIN_BINS_TO_TELL
            of_kind = count[-1], max(count[0], count[-2]) if is_wide else 0.0
            for (what, least), rows in zip(_SHARES_TO_TELL.items(), of_kind, strict=True):
                whole = max(float(np.sum(count)), _MIN_COUNT)
                if rows - _STDS_TO_STAND_OUT * self.std > least * whole:
                    told[what].append(f"{min(rows / whole, 1.0):.0%} of {bins.names[f]!r}")
        return [
            f"released histograms: of the rows are {what}: {', '.join(found[:_MAX_COLUMNS_TO_TELL])}"
            + (" and of other columns" if found[_MAX_COLUMNS_TO_TELL:] else "")
            for what, found in told.items()
            if found
        ]

    def threshold_weights(self) -> list[NDArray[np.float64]]:
        """How often each threshold is drawn, in proportion, shape (n_bins - 1,) for each feature.

        Thresholds next to a range of bins that stands out weigh 1.  The others together have the share
        `_SHARE_OF_OTHERS`, for ranges that the noise hides.
        """
        return [_weights(count, self.std) for count in self.counts]


def features_with_many_bins(bins: PublicBins) -> NDArray[np.bool_]:
    """Numeric features of more bins than a tree of one feature has leaves for; none of too many."""
    found = ~bins.is_categorical & (bins.n_bins > CELLS_PER_FEATURE)
    return np.asarray(found & (np.count_nonzero(found) <= MAX_COUNTED_FEATURES))


def released_cells(features: NDArray[np.bool_], bins: PublicBins) -> NDArray[np.bool_]:
    """Which bins are of the given features, shape (n_total_bins,)."""
    return np.repeat(features, bins.n_bins + 1)


def ranges_that_stand_out(
    counts: NDArray[np.float64], std: float, least: float = 0.0
) -> list[tuple[int, int]]:
    """Ranges [first, stop) of bins, halved as long as a half stands out of the noise of its sum.

    A single bin of many rows is found among any number of empty ones, and rows that are spread over many bins
    as the sum over these. The noise in a count has the standard deviation `std`, in rows; besides, a range
    must hold `least` rows.
    """
    # Python's own numbers: there are some hundred ranges, and NumPy's take several times as long one by one.
    sums = [0.0, *np.cumsum(counts).tolist()]

    def within(first: int, stop: int) -> list[tuple[int, int]]:
        middle = (first + stop) // 2
        found = within(first, middle) + within(middle, stop) if stop - first > 1 else []
        by_noise = _STDS_TO_STAND_OUT * std * math.sqrt(stop - first)
        stands_out = sums[stop] - sums[first] > max(by_noise, least)
        return found or [(first, stop)] * bool(stands_out)

    return within(0, len(counts))


def _weights(counts: NDArray[np.float64], std: float) -> NDArray[np.float64]:
    """Weights of a feature's thresholds, by its counts, the last of them of missing values."""
    least = min(_ROWS_TO_STAND_OUT, _PART_TO_STAND_OUT * float(np.sum(counts)))
    counts = counts[:-1]
    if len(counts) <= CELLS_PER_FEATURE:  # Each has a leaf of its own.
        return np.ones(len(counts) - 1)
    is_next = np.zeros(len(counts) + 1, dtype=bool)
    is_next[[end for ends in ranges_that_stand_out(counts, std, least) for end in ends]] = True
    is_next = is_next[1:-1]  # A threshold is before each bin but the first.
    n_next, n_others = np.count_nonzero(is_next), np.count_nonzero(~is_next)
    if not n_next or not n_others:
        return np.ones(len(is_next))
    others = n_next * _SHARE_OF_OTHERS / (1 - _SHARE_OF_OTHERS) / n_others
    return np.where(is_next, 1.0, min(others, 1.0))
