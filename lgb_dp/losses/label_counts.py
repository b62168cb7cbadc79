"""First release of a regression: where the labels are, and the unit of gradients.

Labels are counted on a public grid of points.  A row between two points divides its weight between them in
the proportion that keeps its label's mean, so that a mean over the counts is that of the labels.  All else
here is post-processing of the noisy counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

STDS_OF_DOUBT = 3.0
"""Standard deviations of the noise above which a sum of counts shows that there are rows."""


def counts_on_grid(
    target: NDArray[np.float64], weight: NDArray[np.int32], grid: NDArray[np.float64], steps: int
) -> NDArray[np.int64]:
    """Rows per point of a grid, every row divided between the two points that it lies between.

    A row of weight w adds two integers to two counts that are not negative and sum to at most ``steps w``, so
    that their squares sum to at most the square of it.

    The grid is ascending, of at least two points; a row beyond it counts for the nearest one. Weights are not
    negative, and parts of the `steps` of a row of weight 1 are rounded down.
    """
    target = np.clip(target, grid[0], grid[-1])
    left = np.clip(np.searchsorted(grid, target, side="right") - 1, 0, len(grid) - 2)
    share = (target - grid[left]) / (grid[left + 1] - grid[left])
    right_steps = np.floor(np.fmax(np.clip(share, 0.0, 1.0), 0.0) * steps)  # NaN is 0
    # Sums of integers below 2^53, which float64 adds up exactly.
    of_left = np.bincount(left, (steps - right_steps) * weight, len(grid))
    of_right = np.bincount(left + 1, right_steps * weight, len(grid))
    return np.asarray((of_left + of_right).astype(np.int64))


@dataclass(frozen=True)
class LabelCounts:
    """Noisy counts of labels on an ascending grid of at least two points.

    Counts are not negative, of positive sum; 0 where nothing stands out of the noise. `cumulated`, shape
    (n_points + 1,), has the shares of the rows up to each of the `edges`, ascending from 0 to 1.
    """

    point: NDArray[np.float64]
    count: NDArray[np.float64]
    cumulated: NDArray[np.float64]

    @classmethod
    def of(cls, grid: NDArray[np.float64], counts: NDArray[np.float64], noise: float) -> LabelCounts:
        """Label statistics that follow from noisy counts, each with noise of standard deviation `noise`.

        Points beyond which the sum of all counts does not stand out of the noise count nothing. Where the sum
        stands out nowhere, all points count alike.
        """
        n_points = len(grid)
        doubt = STDS_OF_DOUBT * noise * np.sqrt(np.arange(1, n_points + 1))
        from_below = np.flatnonzero(np.cumsum(counts) > doubt)
        from_above = np.flatnonzero(np.cumsum(counts[::-1]) > doubt)
        if counts.sum() > doubt[-1]:
            ends = int(from_below[0]), n_points - 1 - int(from_above[0])
            kept = np.zeros(n_points)
            kept[min(ends) : max(ends) + 1] = np.maximum(counts[min(ends) : max(ends) + 1], 0.0)
            if kept.any():
                rising = isotonic_regression(np.cumsum(counts), y_min=0.0, y_max=float(counts.sum()))
                return cls(grid, kept, np.concatenate([[0.0], rising[:-1] / counts.sum(), [1.0]]))
        return cls(grid, np.ones(n_points), np.linspace(0.0, 1.0, n_points + 1))

    @property
    def edges(self) -> NDArray[np.float64]:
        """Halfway between neighbouring points, and the first and the last point."""
        return np.concatenate([self.point[:1], (self.point[1:] + self.point[:-1]) / 2, self.point[-1:]])

    @property
    def mean(self) -> float:
        """Mean label."""
        return float(self.count @ self.point / self.count.sum())

    def quantile(self, probability: float) -> float:
        """Label below which a share of the rows is; a point's rows are spread evenly around it."""
        return float(np.interp(probability, self.cumulated, self.edges))

    def clip_of(self, size: NDArray[np.float64], cut_share: float) -> float:
        """Smallest C such that all that is cut off sizes beyond C is a share of all sizes' sum.

        Sizes, not negative, are of each point's rows; the share is in (0, 1).
        """
        allowed = cut_share * float(self.count @ size)
        low, high = 0.0, float(size.max())
        for _ in range(60):
            middle = (low + high) / 2
            cut = float(self.count @ np.maximum(size - middle, 0.0))
            low, high = (low, middle) if cut <= allowed else (middle, high)
        return high
