"""Trees whose splits are drawn before the data is read, so that they cost no privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lgb_dp.data.bins import PublicBins
from lgb_dp.mechanisms.rng import SecureRandom

StructureKind = Literal["auto", "random", "cyclic"]
CELLS_PER_FEATURE = 16
"""Groups of neighbouring thresholds of a feature, within which all are drawn equally often."""

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
        Which group of candidate splits each split was drawn from; all -1 if from none.
    """

    feature: NDArray[np.int32]
    goes_left: NDArray[np.uint8]
    cell: NDArray[np.int64]


@dataclass(frozen=True)
class LeafRelease:
    """What was released about a tree's leaves.

    Parameters
    ----------
    gradient, hessian : ndarray of float64, shape (n_leaves, n_outputs)
        Released sums.
    std : float
        σ, positive: standard deviation of the noise in `gradient`.
    """

    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    std: float

    def part(self, leaves: slice) -> LeafRelease:
        """Of some of the leaves."""
        return LeafRelease(self.gradient[leaves], self.hessian[leaves], self.std)


class PublicSplits(Protocol):
    """A source of splits, and of whatever it learns from releases."""

    depth: int
    """Levels of the deepest tree."""

    @property
    def rate_factor(self) -> float:
        """By which an automatic learning rate is multiplied in the next round."""

    def draw(self, random: SecureRandom) -> PublicTree:
        """The next round's tree."""

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Take note of what a drawn tree's leaves released, and of the values they got."""


def uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers in [0, 1), from uniform words."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


@dataclass(frozen=True)
class SplitCells:
    """Groups of candidate splits: neighbouring thresholds, or all subsets of a feature's categories.

    Parameters
    ----------
    feature : ndarray of int32, shape (n_cells,)
        Ascending.
    first, size : ndarray of int64, shape (n_cells,)
        Thresholds ``first`` to ``first + size - 1``: codes up to the threshold go left.
    n_categories : ndarray of int64, shape (n_cells,)
        0 for thresholds.
    probability : ndarray of float64, shape (n_cells,)
        Of a uniform draw: all features, and all cells of a feature, are equally likely.
    """

    feature: NDArray[np.int32]
    first: NDArray[np.int64]
    size: NDArray[np.int64]
    n_categories: NDArray[np.int64]
    probability: NDArray[np.float64]

    @classmethod
    def of(cls, bins: PublicBins) -> SplitCells:
        """Cells of all features with at least two bins, `CELLS_PER_FEATURE` of each numeric one."""
        features, firsts, sizes, probabilities = [], [], [], []
        for f, n in enumerate(bins.n_bins.tolist()):
            if n < 2:
                continue
            n_cells = 1 if bins.is_categorical[f] else min(CELLS_PER_FEATURE, n - 1)
            cuts = (np.arange(n_cells + 1) * (n - 1)) // n_cells
            features += [f] * n_cells
            firsts += cuts[:-1].tolist()
            sizes += np.diff(cuts).tolist()
            probabilities += [1.0 / n_cells] * n_cells
        feature = np.array(features, dtype=np.int32)
        n_categories = np.where(bins.is_categorical, bins.n_bins, 0)[feature]
        return cls(
            feature,
            np.array(firsts),
            np.array(sizes),
            n_categories,
            np.array(probabilities) / sum(probabilities),
        )


class RandomSplits:
    """Splits with a random feature and a random threshold (or subset of categories) in every node.

    Parameters
    ----------
    bins : PublicBins
    depth : int
    """

    rate_factor = 1.0

    def __init__(self, bins: PublicBins, depth: int) -> None:
        self.cells = SplitCells.of(bins)
        self.depth = depth
        self._n_nodes = 2**depth - 1
        self._n_bins = bins.n_bins
        self._cumulated = np.cumsum(self.cells.probability)
        self._drawn: list[PublicTree] = []

    def prefer(self, probability: NDArray[np.float64]) -> None:
        """Draw from the cells with the given probabilities from now on."""
        self._cumulated = np.cumsum(probability)
        self._drawn = []

    def draw(self, random: SecureRandom) -> PublicTree:
        """One tree."""
        if not self._drawn:
            self._drawn = self._draw_trees(max(1, _NODES_AT_ONCE // self._n_nodes), random)
        return self._drawn.pop()

    def _draw_trees(self, n_trees: int, random: SecureRandom) -> list[PublicTree]:
        """Several trees in one go, for speed."""
        n = n_trees * self._n_nodes
        where, within = uniform(random.words(2, n))
        cell = np.searchsorted(self._cumulated, where * self._cumulated[-1], side="right")
        cell = np.minimum(cell, len(self._cumulated) - 1)
        feature = self.cells.feature[cell]
        threshold = self.cells.first[cell] + (within * self.cells.size[cell]).astype(np.int64)
        goes_left = (threshold[:, None] >= _CODES).astype(np.uint8)
        coins = np.unpackbits(random.words(n, 4).view(np.uint8), axis=1)
        n_bins = self._n_bins[feature]
        goes_left[np.arange(n), n_bins] = coins[np.arange(n), n_bins]
        node = np.flatnonzero(self.cells.n_categories[cell])
        goes_left[node] = coins[node] & (n_bins[node, None] > _CODES)
        # LightGBM needs at least one category on the left.
        goes_left[node, (within[node] * n_bins[node]).astype(np.int64)] = 1
        shape = (n_trees, self._n_nodes)
        parts = feature.reshape(shape), goes_left.reshape(*shape, 256), cell.reshape(shape)
        return [PublicTree(*tree) for tree in zip(*parts, strict=True)]

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Nothing to learn: draws stay as they are."""


class CyclicSplits:
    """One feature per tree, in turn, its bins divided among the leaves.

    Parameters
    ----------
    bins : PublicBins
    depth : int, optional
        Levels of splits at most: leaves hold neighbouring bins if there are more of these.  By default as
        many as it takes to make every bin a leaf.
    """

    rate_factor = 1.0

    def __init__(self, bins: PublicBins, depth: int | None = None) -> None:
        features = np.flatnonzero(bins.n_bins > 1).tolist()
        self.trees = [_feature_tree(f, int(bins.n_bins[f]), depth) for f in features]
        self.depth = max(len(tree.feature) for tree in self.trees).bit_length()
        self._next = 0

    def draw(self, random: SecureRandom) -> PublicTree:
        """The next feature's tree."""
        tree = self.trees[self._next]
        self._next = (self._next + 1) % len(self.trees)
        return tree

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Nothing to learn: the trees are fixed."""


def _feature_tree(feature: int, n_bins: int, depth: int | None) -> PublicTree:
    """Halve the range of codes level by level; a range of one code is sent down unsplit."""
    levels = levels_of_bins(n_bins)
    levels = levels if depth is None else min(levels, depth)
    ranges = [(0, n_bins)]
    for node in range(2**levels - 1):
        first, stop = ranges[node]
        middle = (first + stop + 1) // 2
        ranges += [(first, middle), (middle, stop)] if stop - first > 1 else [(first, stop)] * 2
    middles = np.array([right[0] for right in ranges[2::2]])
    goes_left = (np.clip(middles, 1, n_bins - 1)[:, None] > _CODES).astype(np.uint8)
    n_nodes = len(middles)
    return PublicTree(np.full(n_nodes, feature, dtype=np.int32), goes_left, np.full(n_nodes, -1))


def levels_of_bins(n_bins: int) -> int:
    """Levels that give every one of a feature's bins a leaf of its own."""
    return max(1, (n_bins - 1).bit_length())


def leaf_of_codes(tree: PublicTree) -> NDArray[np.int64]:
    """Leaf that each code of a one-feature tree goes to, shape (256,)."""
    n_nodes = len(tree.feature)
    node = np.zeros(256, dtype=np.int64)
    while node[0] < n_nodes:
        node = 2 * node + 2 - tree.goes_left[node, _CODES]
    return node - n_nodes
