"""Trees whose splits are drawn before the data is read, so that they cost no privacy.

Which splits are drawn more often may follow from what earlier trees released:
that is post-processing, and free too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lgb_dp.bins import PublicBins
from lgb_dp.rng import SecureRandom
from lgb_dp.split_gains import SplitGains

StructureKind = Literal["auto", "random", "cyclic"]

CELLS_PER_FEATURE = 16
"""Groups of neighbouring thresholds of a feature that share what is learned about them."""

LEARNED_SHARE = 0.8
"""Share of the splits that is drawn where splits have explained most so far; the rest is uniform."""

GAIN_POWER = 0.7
"""Exponent of the learned gains: the largest are drawn a little less than in proportion."""

_CODES = np.arange(256)
_NODES_AT_ONCE = 512
"""Nodes drawn together."""


@dataclass(frozen=True)
class PublicTree:
    """Splits of a complete tree, drawn without reading the data.

    Parameters
    ----------
    feature : ndarray of int32, shape (2**depth - 1,)
    goes_left : ndarray of uint8, shape (2**depth - 1, 256)
    cell : ndarray of int64, shape (2**depth - 1,)
        Which group of candidate splits each split was drawn from.
    """

    feature: NDArray[np.int32]
    goes_left: NDArray[np.uint8]
    cell: NDArray[np.int64]


def _uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


class RandomSplits:
    """Splits with a random feature and a random threshold (or subset of categories) in every node.

    Thresholds of a feature are grouped into `CELLS_PER_FEATURE` cells; a categorical feature is one cell.
    At first all features, and all cells of a feature, are equally likely.

    Parameters
    ----------
    bins : PublicBins
    depth : int
    learns : bool
        Whether to follow `learn`.
    """

    def __init__(self, bins: PublicBins, depth: int, learns: bool) -> None:
        self._n_nodes = 2**depth - 1
        self._n_bins = bins.n_bins
        self._is_categorical = bins.is_categorical
        self._learns = learns
        features, firsts, sizes, chances = [], [], [], []
        for f, n in enumerate(bins.n_bins.tolist()):
            if n < 2:
                continue
            n_cells = 1 if bins.is_categorical[f] else min(CELLS_PER_FEATURE, n - 1)
            cuts = (np.arange(n_cells + 1) * (n - 1)) // n_cells
            features += [f] * n_cells
            firsts += cuts[:-1].tolist()
            sizes += np.diff(cuts).tolist()
            chances += [1.0 / n_cells] * n_cells
        self._feature = np.array(features, dtype=np.int32)
        self._first = np.array(firsts)
        self._size = np.array(sizes)
        self._uniform_chance = np.array(chances) / sum(chances)
        same = np.diff(self._feature) == 0
        n_categories = np.where(bins.is_categorical, bins.n_bins, 0)[self._feature]
        self._gains = SplitGains(n_categories, np.append(False, same))
        self._cumulated = np.cumsum(self._uniform_chance)
        self._drawn: list[PublicTree] = []

    def draw(self, random: SecureRandom) -> PublicTree:
        """One tree."""
        if not self._drawn:
            self._drawn = self._draw_trees(max(1, _NODES_AT_ONCE // self._n_nodes), random)
        return self._drawn.pop()

    def _draw_trees(self, n_trees: int, random: SecureRandom) -> list[PublicTree]:
        """Several trees in one go, for speed."""
        n = n_trees * self._n_nodes
        where, within = _uniform(random.words(2, n))
        cell = np.searchsorted(self._cumulated, where * self._cumulated[-1], side="right")
        cell = np.minimum(cell, len(self._feature) - 1)
        feature = self._feature[cell]
        threshold = self._first[cell] + (within * self._size[cell]).astype(np.int64)
        goes_left = (threshold[:, None] >= _CODES).astype(np.uint8)
        coins = np.unpackbits(random.words(n, 4).view(np.uint8), axis=1)
        n_bins = self._n_bins[feature]
        goes_left[np.arange(n), n_bins] = coins[np.arange(n), n_bins]
        node = np.flatnonzero(self._is_categorical[feature])
        goes_left[node] = coins[node] & (n_bins[node, None] > _CODES)
        # LightGBM wants a category on the left.
        goes_left[node, (within[node] * n_bins[node]).astype(np.int64)] = 1
        shape = (n_trees, self._n_nodes)
        parts = feature.reshape(shape), goes_left.reshape(*shape, 256), cell.reshape(shape)
        return [PublicTree(*tree) for tree in zip(*parts, strict=True)]

    def learn(
        self,
        tree: PublicTree,
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
        deviation: float,
    ) -> None:
        """Take note of a tree's release.

        Parameters
        ----------
        tree : PublicTree
        gradient, hessian : ndarray of float64, shape (n_leaves, n_outputs)
            Released sums.
        deviation : float
            Standard deviation of the noise in `gradient`.
        """
        if self._learns:
            self._gains.note(tree.cell, tree.goes_left, gradient, hessian, deviation)

    def follow(self) -> None:
        """Draw from now on mostly where splits explained something in what was released."""
        if not self._learns:
            return
        learned = self._gains.estimate() ** GAIN_POWER * self._uniform_chance
        if learned.sum() > 0:
            chance = (1 - LEARNED_SHARE) * self._uniform_chance + LEARNED_SHARE * learned / learned.sum()
            self._cumulated = np.cumsum(chance)
            self._drawn = []


class CyclicSplits:
    """One feature per tree, in turn, with every bin a leaf.

    Parameters
    ----------
    bins : PublicBins
    """

    def __init__(self, bins: PublicBins) -> None:
        self.depth = cyclic_depth(bins)
        self._trees = [self._tree(f, int(n)) for f, n in enumerate(bins.n_bins) if n > 1]
        self._next = 0

    def _tree(self, feature: int, n_bins: int) -> PublicTree:
        """Halve the range of codes level by level; a range of one code is sent down unsplit."""
        ranges = [(0, n_bins)]
        for node in range(2**self.depth - 1):
            first, stop = ranges[node]
            middle = (first + stop + 1) // 2
            ranges += [(first, middle), (middle, stop)] if stop - first > 1 else [(first, stop)] * 2
        middles = np.array([right[0] for right in ranges[2::2]])
        goes_left = (np.clip(middles, 1, n_bins - 1)[:, None] > _CODES).astype(np.uint8)
        n_nodes = len(middles)
        return PublicTree(np.full(n_nodes, feature, dtype=np.int32), goes_left, np.zeros(n_nodes, np.int64))

    def draw(self, random: SecureRandom) -> PublicTree:
        """The next feature's tree."""
        tree = self._trees[self._next]
        self._next = (self._next + 1) % len(self._trees)
        return tree

    def learn(
        self,
        tree: PublicTree,
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
        deviation: float,
    ) -> None:
        """Nothing to learn: the trees are fixed."""

    def follow(self) -> None:
        """Nothing to follow."""


def cyclic_depth(bins: PublicBins) -> int:
    """Levels that give every bin of every feature a leaf of its own."""
    return max(1, int(np.ceil(np.log2(bins.n_bins.max()))))
