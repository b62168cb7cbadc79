"""Greedy trees fitted to the rows themselves, for training without privacy.

At infinite epsilon every release is exact, and nothing that is asked about the rows costs anything.  Random
splits, and those distilled from the model, make up for what a private trainer must not see; here the
structure of each tree is fitted to the rows' own gradients and hessians instead, as in ordinary boosting.
Such a model says what the noise and the public structures cost together.  It is not private.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import DenseCodes
from lgb_dp.data.bins import PublicBins
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree, ReleasedTree
from lgb_dp.newton.splits.distilled import SurrogateScores, greedy_tree
from lgb_dp.newton.splits.random import RandomSplits, uniform

MAX_ROWS = 100_000
"""Rows whose scores are followed."""

_ROWS_PER_TREE = 20_000
"""Of these, drawn anew for each tree; its leaf values are of all rows."""

_MIN_HESSIAN = 1e-3

Gradients = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float64]]
"""Gradients and hessians of some of the rows at the given scores, shape (n_rows, n_outputs, 2)."""


class ExactSplits:
    """Splits of greedy trees that are fitted to the rows, at most `MAX_ROWS`.

    `start`, shape (n_rows, n_outputs), has their scores before the first tree; `released`, the model's trees,
    changes as the model does. `gradients` are of rows by their numbers among `codes`, and their scores.
    """

    rate_factor = 1.0
    crowded: Sequence[int] = ()

    def __init__(
        self,
        bins: PublicBins,
        depth: int,
        codes: DenseCodes,
        start: NDArray[np.float64],
        released: Sequence[ReleasedTree],
        gradients: Gradients,
    ) -> None:
        self.depth = depth
        self._bins, self.codes, self._released, self._gradients = bins, codes.codes, released, gradients
        self._scores = SurrogateScores(codes, start, 1)
        # Where a greedy tree finds no split, it keeps a random one.
        self.below = RandomSplits(bins, depth)

    def draw(self, random: SecureRandom, ahead: int = 0) -> PublicTree:
        """The next round's tree."""
        self._scores.follow(self._released)
        score = self._scores.score
        rows = np.flatnonzero(uniform(random.words(len(score))) * len(score) < _ROWS_PER_TREE)
        gradient, hessian = np.moveaxis(self._gradients(rows, score[rows]), 2, 0)
        # Of several outputs, a tree is fitted to their sum in a random direction.
        sign = random.coins(score.shape[1]) * 2.0 - 1.0 if score.shape[1] > 1 else np.ones(1)
        weight = np.maximum(hessian.sum(axis=1), _MIN_HESSIAN)
        tree = self.below.draw(random)
        if not len(rows):
            return tree
        target = -(gradient @ sign) / weight
        return greedy_tree(tree, self._bins, self.codes[rows], target, weight, random)

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Nothing to learn: each tree is fitted anew."""
