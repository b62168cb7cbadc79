"""Trees whose splits are drawn from public randomness and released numbers, before their rows are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lgb_dp.data.bins import PublicBins
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree

StructureKind = Literal["auto", "random", "cyclic"]
CELLS_PER_FEATURE = 16
"""Groups of neighbouring thresholds of a feature, within which they are drawn by their weights."""

_CODES = np.arange(256)
_NODES_AT_ONCE = 512
"""Nodes drawn together."""


class PublicSplits(Protocol):
    """A source of splits, and of whatever it learns from releases."""

    depth: int
    """Levels of the deepest tree."""

    @property
    def crowded(self) -> Sequence[int]:
        """Features of whose bins few hold nearly all rows, by what was released, once it is known."""

    @property
    def rate_factor(self) -> float:
        """By which an automatic learning rate is multiplied in the next round."""

    def draw(self, random: SecureRandom, ahead: int = 0) -> PublicTree:
        """The next round's tree, or one after `ahead` others that were drawn and not learned from yet."""

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Take note of what a drawn tree's leaves released, and of the values they got."""


def uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers in [0, 1), from uniform words."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


@dataclass(frozen=True)
class SplitCells:
    """Groups of candidate splits: neighbouring thresholds, or all subsets of a feature's categories."""

    feature: NDArray[np.int32]  # ascending
    first: NDArray[np.int64]  # of thresholds ``first`` to ``first + size - 1``, up to which codes go left
    size: NDArray[np.int64]
    n_categories: NDArray[np.int64]  # 0 for thresholds
    probability: NDArray[np.float64]  # of a draw by the weights alone: all features are equally likely
    place: NDArray[np.int64]  # where a cell's first threshold is in `cumulated`
    cumulated: NDArray[np.float64]  # weights of all thresholds before each, one feature behind the other

    @classmethod
    def of(cls, bins: PublicBins, weights: Sequence[NDArray[np.float64]] | None = None) -> SplitCells:
        """Cells of all features with at least two bins, `CELLS_PER_FEATURE` at most of each numeric one.

        The weights, shape (n_bins - 1,) for each feature, say how often each threshold is drawn; by default
        all are equal. Cells weigh about the same.
        """
        features, firsts, sizes, probabilities, all_weights = [], [], [], [], [np.empty(0)]
        known: dict[tuple[bytes, int], tuple[list[int], list[int], list[float]]] = {}
        for f, n in enumerate(bins.n_bins.tolist()):
            weight = _weights(bins, f, weights)
            all_weights.append(weight)
            if n < 2:
                continue
            n_cells = 1 if bins.is_categorical[f] else min(CELLS_PER_FEATURE, n - 1)
            key = (weight.tobytes(), n_cells)  # equal for most features of equal bins
            if key not in known:
                known[key] = _cells(weight, n_cells)
            first, size, probability = known[key]
            features += [f] * len(first)
            firsts += first
            sizes += size
            probabilities += probability
        feature, start = np.array(features, dtype=np.int32), np.array(firsts)
        n_thresholds = np.array([len(weight) for weight in all_weights])
        return cls(
            feature,
            start,
            np.array(sizes),
            np.where(bins.is_categorical, bins.n_bins, 0)[feature],
            np.array(probabilities) / sum(probabilities),
            np.cumsum(n_thresholds)[feature] + start,
            np.append(0.0, np.cumsum(np.concatenate(all_weights))),
        )

    def thresholds(self, cell: NDArray[np.int64], within: NDArray[np.float64]) -> NDArray[np.int64]:
        """A threshold of each of the given cells, drawn by the weights; `within` is uniform in [0, 1)."""
        place, size = self.place[cell], self.size[cell]
        low, high = self.cumulated[place], self.cumulated[place + size]
        found = np.searchsorted(self.cumulated, low + within * (high - low), side="right") - 1
        return np.asarray(self.first[cell] + np.clip(found - place, 0, size - 1))

    @property
    def middle(self) -> NDArray[np.int64]:
        """The median of each cell's thresholds, by their weights."""
        cells = np.arange(len(self.feature))
        return self.thresholds(cells, np.full(len(cells), 0.5))


def _cells(weight: NDArray[np.float64], n_cells: int) -> tuple[list[int], list[int], list[float]]:
    """First thresholds, sizes and shares of a feature's cells, which weigh about the same."""
    cumulated = np.append(0.0, np.cumsum(weight))
    inner = np.arange(1, n_cells) * cumulated[-1] / n_cells
    cuts = np.unique([0, *np.searchsorted(cumulated, inner, side="right") - 1, len(weight)])
    share = np.diff(cumulated[cuts]) / cumulated[-1]
    return cuts[:-1].tolist(), np.diff(cuts).tolist(), share.tolist()


class RandomSplits:
    """Splits with a random feature and a random threshold (or subset of categories) in every node.

    The weights, shape (n_bins - 1,) for each feature, say how often each threshold is drawn; by default all
    equally.
    """

    rate_factor = 1.0
    crowded: Sequence[int] = ()

    def __init__(
        self, bins: PublicBins, depth: int, weights: Sequence[NDArray[np.float64]] | None = None
    ) -> None:
        self.cells = SplitCells.of(bins, weights)
        self.depth = depth
        self._n_nodes = 2**depth - 1
        self._n_bins = bins.n_bins
        self._cumulated = np.cumsum(self.cells.probability)
        self._drawn: list[PublicTree] = []

    def prefer(self, probability: NDArray[np.float64]) -> None:
        """Draw from the cells with the given probabilities from now on."""
        self._cumulated = np.cumsum(probability)
        self._drawn = []

    def draw(self, random: SecureRandom, ahead: int = 0) -> PublicTree:
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
        threshold = self.cells.thresholds(cell, within)
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

    There are `depth` levels of splits at most: leaves hold neighbouring bins if there are more of these. By
    default there are as many as it takes to make every bin a leaf. With weights, shape (n_bins - 1,) for each
    feature, the thresholds between the leaves of a numeric one divide them into equal parts; by default
    leaves hold equally many bins.
    """

    rate_factor = 1.0
    crowded: Sequence[int] = ()

    def __init__(
        self, bins: PublicBins, depth: int | None = None, weights: Sequence[NDArray[np.float64]] | None = None
    ) -> None:
        self.trees = []
        for f in np.flatnonzero(bins.n_bins > 1).tolist():
            self.trees.append(_feature_tree(f, _weights(bins, f, weights), depth))
        self.depth = max(len(tree.feature) for tree in self.trees).bit_length()
        self._next = 0

    def draw(self, random: SecureRandom, ahead: int = 0) -> PublicTree:
        """The next feature's tree."""
        tree = self.trees[self._next]
        self._next = (self._next + 1) % len(self.trees)
        return tree

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Nothing to learn: the trees are fixed."""


def _weights(
    bins: PublicBins, feature: int, weights: Sequence[NDArray[np.float64]] | None
) -> NDArray[np.float64]:
    """Weights of a feature's thresholds; those between categories are equal."""
    if weights is None or bins.is_categorical[feature]:
        return np.ones(max(int(bins.n_bins[feature]) - 1, 0))
    return weights[feature]


def _feature_tree(feature: int, weight: NDArray[np.float64], depth: int | None) -> PublicTree:
    """Halve the weight of the thresholds level by level; a range of one code is sent down unsplit."""
    n_bins, cumulated = len(weight) + 1, np.append(0.0, np.cumsum(weight))
    levels = levels_of_bins(n_bins)
    levels = levels if depth is None else min(levels, depth)
    ranges = [(0, n_bins)]
    for node in range(2**levels - 1):
        first, stop = ranges[node]
        half = (cumulated[first] + cumulated[stop - 1]) / 2
        middle = int(np.searchsorted(cumulated[first + 1 : stop - 1], half, side="right")) + first + 1
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
