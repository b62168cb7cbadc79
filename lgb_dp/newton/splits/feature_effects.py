"""How much each feature explains on its own, estimated from trees that split on one feature each.

The estimates are post-processing of released sums and cost no privacy.

Where a few rows have a strong effect (a rare value, a narrow range), random splits mix them with others, and
single contrasts drown in noise.  A tree whose leaves are groups of one feature's bins shows splits
between any two of them at once, on all rows.

In group g of a feature, G and H are released and f is the sum of the values that the feature's own trees have
added so far.  ``D = -G + H f`` is what -G would be without these trees; it is averaged over the releases, to
noise of variance v.  A split with share p of all hessians on its left has ``C = Σ_left D - p Σ D``, and
explains ``C² / (H p (1 - p))`` of loss, H that of all groups.  The known variance of the noise in C is taken
off C², and its standard deviation is added to the denominator, so that a split with next to no rows on one
side explains next to nothing.  Missing and unknown values are in the last group's leaf and count with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lgb_dp.newton.releases.trees import LeafRelease, PublicTree
from lgb_dp.newton.splits.random import SplitCells, leaf_of_codes

_TINY = 1e-100
_MIN_GROUPS = 8
"""Groups of bins from which on it says something that nearly all rows are in one of them."""

_CROWDED = 0.3
"""Mean share of rows outside a column's largest group of bins, below which bounds are probably too wide.

On public data of skewed columns, 0.11 with bounds of ±10^6, 0.55 with good ones (docs/bounds.md)."""


@dataclass
class _Effect:
    """One feature's groups of bins, and sums over its releases.

    The tree's leaves that are no group's have no rows, whatever the data; a group reaches up to the next
    one's first code.
    """

    leaf: NDArray[np.int64]
    first_code: NDArray[np.int64]
    n_releases: int = 0
    variance: float = 0.0
    undone: NDArray[np.float64] | float = 0.0
    hessian: NDArray[np.float64] | float = 0.0
    value: NDArray[np.float64] | float = 0.0

    def note(self, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Add a release and the values that its leaves were given."""
        hessian = release.hessian[self.leaf]
        self.undone = self.undone - release.gradient[self.leaf] + np.maximum(hessian, 0.0) * self.value
        self.hessian = self.hessian + hessian
        self.variance += release.std**2
        self.value = self.value + value[self.leaf]
        self.n_releases += 1

    def outside_largest(self) -> tuple[float, float, float]:
        """Hessians outside the largest group, those of all, and the noise's standard deviation in both."""
        _, h, v = self._averages()
        groups = h.sum(axis=1)
        return float(groups.sum() - groups.max()), float(groups.sum()), float(np.sqrt(v * h.size))

    def _averages(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """D and H of the groups, shape (n_groups, n_outputs), and v."""
        n = self.n_releases
        return np.asarray(self.undone) / n, np.asarray(self.hessian) / n, self.variance / n**2

    def threshold_gains(self) -> NDArray[np.float64]:
        """Gain of a split after each group but the last, shape (n_groups - 1,)."""
        d, h, v = self._averages()
        left = np.maximum(np.cumsum(h, axis=0)[:-1], 0.0)
        total = left + np.maximum(h.sum(axis=0) - left, 0.0)
        p = left / np.maximum(total, _TINY)
        n_left = np.arange(1, len(d))[:, None]
        variance = v * (n_left * (1 - p) ** 2 + (len(d) - n_left) * p**2)
        c = np.cumsum(d, axis=0)[:-1] - p * d.sum(axis=0)
        gain = np.maximum(c**2 - variance, 0.0) / (total * p * (1 - p) + np.sqrt(variance))
        return np.asarray(gain.sum(axis=1))

    def subset_gain(self) -> float:
        """Average gain of a split by a random subset of the groups.

        Half of the hessians are on its left; Σ_left D is ½ Σ ± D for random signs, whose square is ¼ Σ D².
        """
        d, h, v = self._averages()
        p = np.maximum(h, 0.0)
        p = p / np.maximum(p.sum(axis=0), _TINY)
        variance = (v * (1 - 2 * p + len(d) * p**2)).sum(axis=0)
        c = (d - p * d.sum(axis=0)) / 2
        total = np.maximum(h.sum(axis=0), np.sqrt(v))
        gain = np.maximum((c**2).sum(axis=0) - variance / 4, 0.0) / (total / 4 + np.sqrt(v * len(d)) / 2)
        return float(gain.sum())


class FeatureEffects:
    """Effects of all features, by one-feature trees, one for each feature with at least two bins."""

    def __init__(self, trees: Sequence[PublicTree], n_bins: NDArray[np.int64], cells: SplitCells) -> None:
        self._cells = cells
        self._effects: dict[int, _Effect] = {}
        for tree in trees:
            feature = int(tree.feature[0])
            leaf, first_code = np.unique(leaf_of_codes(tree)[: n_bins[feature]], return_index=True)
            self._effects[feature] = _Effect(leaf, first_code)

    def note(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Take note of what one of the trees released, and of the values its leaves got.

        Values that are taken back later still count.  After a rollback the estimates are therefore biased,
        while the guarantee holds unchanged.
        """
        self._effects[int(tree.feature[0])].note(release, value)

    def gains(self) -> NDArray[np.float64]:
        """Gain of a cell's splits, for all cells; 0 for features whose tree was not noted.

        Of thresholds: that of the cell's middle, interpolated between the ends of groups.
        """
        cells, gains = self._cells, np.zeros(len(self._cells.feature))
        for feature, effect in self._effects.items():
            own = slice(*np.searchsorted(cells.feature, [feature, feature + 1]))
            if not effect.n_releases:
                continue
            if cells.n_categories[own][0]:
                gains[own] = effect.subset_gain()
            else:
                gains[own] = np.interp(cells.middle[own], effect.first_code[1:] - 1, effect.threshold_gains())
        return gains

    def _n_categories(self, feature: int) -> int:
        return int(self._cells.n_categories[np.searchsorted(self._cells.feature, feature)])

    def crowded(self) -> list[int]:
        """Numeric features whose rows are nearly all in one group of bins; none unless most are like that.

        Noise is averaged over the features, and two of its standard deviations must not matter.
        """
        found = {
            f: effect.outside_largest()
            for f, effect in self._effects.items()
            if effect.n_releases and len(effect.leaf) >= _MIN_GROUPS and not self._n_categories(f)
        }
        if not found:
            return []
        outside, total, std = np.array(list(found.values())).T
        noise = 2 * np.sqrt((std**2).sum()) / len(std)
        if outside.mean() + noise >= _CROWDED * (total.mean() - noise):
            return []
        return [f for f, share in zip(found, outside / total.mean(), strict=True) if share < _CROWDED]
