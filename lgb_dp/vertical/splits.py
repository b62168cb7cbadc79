"""Trees whose owners take turns: each splits on the columns of one party alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree
from lgb_dp.newton.splits.random import PublicSplits


class OwnedSplits:
    """Splits of every owner; each owner's learn from the releases about its own trees.

    Parameters
    ----------
    parts : sequence of PublicSplits
        Of every owner.
    """

    def __init__(self, parts: Sequence[PublicSplits]) -> None:
        self._parts, self._n_drawn = parts, 0
        self.depth = max(part.depth for part in parts)
        self._waiting: list[PublicSplits] = []

    @property
    def rate_factor(self) -> float:
        """By which an automatic learning rate is multiplied for the next tree that is learned from."""
        return self._waiting[0].rate_factor

    def draw(self, random: SecureRandom, ahead: int = 0) -> PublicTree:
        """The next tree; owners take turns."""
        part = self._parts[self._n_drawn % len(self._parts)]
        tree = part.draw(random, self._waiting.count(part))
        self._n_drawn += 1
        self._waiting.append(part)
        return tree

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Take note of what a tree's leaves released; trees come in the order in which they were drawn."""
        self._waiting.pop(0).learn(tree, release, value)
