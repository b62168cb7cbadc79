"""How long steps may be where rows are held out: a share of the step that would be best for those rows.

A tenth of the rows train no leaf.  They are asked like all others: a release has the sums of the rows that
train in every leaf and, beside them, those of the rows that are held out.  A row adds to one of twice as many
cells what it would add to a leaf, so that the release costs what it would cost without them.

With v the leaf values of full steps and G', H' the sums of the held-out rows, a step of rate r changes the
loss of these rows by r v G' + r² v² H' / 2.  The best rate for them is r* = -Σ v G' / Σ v² H', over the last
trees: about 1 where leaf values hold nothing but what is to be learned, less where they hold noise and
chance, and 0 where they hold nothing else.

Steps are a fraction of r* at most. The noise and chance that trees have learned is in the small cells of many
different trees, where later ones do not undo it; short steps average it out.

Rows are held out by their own codes (`lgb_dp.newton.releases.leaf_sums.held_out`), equal rows together.  So
that they are neither none nor most of the rows, the fullest bin of some feature must have few of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lgb_dp.newton.releases.trees import HELD_OUT_SHARE, LeafRelease
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms
from lgb_dp.newton.splits.learned import OPENING_SHARE

_SHARE_OF_BEST = 0.2
"""Of r*, the rate of a step at most (docs/experiments/newton.md)."""

_WINDOW = 0.05
"""Share of the rounds over which r* is averaged, with weights that fall exponentially."""

_STDS_OF_DOUBT = 3.0
_MAX_SHARE_OF_BIN = 0.05
_HESSIAN = 0.25
"""Of a row of balanced classes, at most."""

_MIN_ROWS_PER_LEAF = 1600.0
"""With fewer, short steps cost more than they gain (covtype, docs/experiments/newton.md)."""

_MIN_HESSIAN_OVER_STD = 4.0
"""Of the held-out rows of a leaf: below, r* is lost in the noise, and rows are better used for training."""


_MAX_DEPTH = 15
"""The numbers of twice as many cells as leaves are kept in 16 bits."""


def can_hold_out(histograms: FeatureHistograms, balanced: float, depth: int, std: float) -> bool:
    """Whether held-out rows can tell what is learned, and equal ones are few, by released histograms.

    `balanced` counts rows of balanced classes, those that train and those held out; `std` is the
    standard deviation of the noise in a leaf's sum of gradients.
    """
    rows_per_leaf = balanced / 2**depth
    hessian = HELD_OUT_SHARE * rows_per_leaf * _HESSIAN
    can_tell = rows_per_leaf >= _MIN_ROWS_PER_LEAF and hessian >= _MIN_HESSIAN_OVER_STD * std
    return can_tell and depth <= _MAX_DEPTH and histograms.largest_share() <= _MAX_SHARE_OF_BIN


class HeldOutSteps:
    """The largest learning rate that held-out rows speak for.

    The salt decides which rows are held out (`lgb_dp.newton.releases.trees.Round`).
    """

    def __init__(self, n_rounds: int, salt: int) -> None:
        self.salt = salt
        self._kept = float(np.exp(-1 / max(_WINDOW * n_rounds, 1.0)))
        # Trees of one feature each have large leaves, which collect little noise.
        self._n_left = OPENING_SHARE * n_rounds
        self._slope = self._curvature = self._variance = 0.0

    def largest_rate(self, value: NDArray[np.float64], held: LeafRelease) -> float:
        """Take note of a tree's leaf values before the rate, and of what held-out rows released there.

        The rate is not negative, and infinite as long as the releases do not show a best one.
        """
        self._n_left -= 1
        if self._n_left >= 0:
            return np.inf
        variance = held.std**2 + np.maximum(held.hessian, 0.0)
        self._slope = self._kept * self._slope - float((value * held.gradient).sum())
        self._curvature = self._kept * self._curvature + float((value**2 * held.hessian).sum())
        self._variance = self._kept**2 * self._variance + float((value**2 * variance).sum())
        if self._curvature <= 0:
            return np.inf
        largest = self._slope + _STDS_OF_DOUBT * np.sqrt(self._variance)
        return float(max(_SHARE_OF_BEST * largest / self._curvature, 0.0))
