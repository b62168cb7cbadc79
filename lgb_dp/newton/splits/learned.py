"""Random splits that are drawn more often where earlier releases say that splits explain something.

This is post-processing of released sums and costs no privacy.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import WideBoundsWarning
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree
from lgb_dp.newton.splits.feature_effects import FeatureEffects
from lgb_dp.newton.splits.gains import SplitGains
from lgb_dp.newton.splits.random import CyclicSplits, RandomSplits

LEARNED_SHARE = 0.8
"""Share of the splits that is drawn where splits explain most by what is known; the rest does not learn."""

GAIN_POWER = 0.7
"""Exponent of the learned gains: the largest are drawn a little less than in proportion."""

OPENING_SHARE = 0.06
"""Share of the rounds, at most, that is spent on trees of one feature each at the beginning."""

OPENING_DEPTH = 4
"""Levels of these trees at most."""

_MIN_DEPTH_TO_OPEN = 3
_FIRST_FOLLOWED = 0.15
_FOLLOWED_EVERY = 0.05
"""Shares of the rounds before what random trees showed is followed, and between two updates of it."""

_WEIGHTED_RATE = 0.7
"""Factor of the learning rate where released histograms tell which thresholds part rows.

Fewer splits are without effect there, so that leaves are smaller and each tree goes further.
"""

_MAX_NAMED = 10
"""Columns that a warning names."""


class LearnedSplits:
    """Trees of one feature each, then random trees drawn where splits explained most.

    The opening shows what each feature explains on its own (`lgb_dp.newton.splits.feature_effects`), as often
    as `OPENING_SHARE` has room for all features.  There is none where noise asks for trees of less than three
    levels: so many small leaves would be wasted.  Later trees show which splits go on explaining something
    (`lgb_dp.newton.splits.gains`).

    Random trees have `depth` levels, those of one feature `opening_depth` at most. The weights, shape
    (n_bins - 1,) for each feature, say how often each threshold is drawn
    (`lgb_dp.newton.splits.feature_histograms`); by default all equally. One tree of each feature may take a
    share `opening_share` of the rounds.
    """

    def __init__(
        self,
        bins: PublicBins,
        depth: int,
        n_rounds: int,
        opening_depth: int = OPENING_DEPTH,
        weights: Sequence[NDArray[np.float64]] | None = None,
        opening_share: float = 0.0,
    ) -> None:
        self._rate_factor = 1.0 if weights is None else _WEIGHTED_RATE
        self.random_splits = RandomSplits(bins, depth, weights)
        self._followers = [self.random_splits]
        self.depth = depth
        cells = self.random_splits.cells
        continues = np.append(False, np.diff(cells.feature) == 0)
        self._gains = SplitGains(cells.n_categories, continues)
        self.opening: list[PublicTree] = []
        n_features = np.count_nonzero(bins.n_bins > 1)
        n_passes = int(OPENING_SHARE * n_rounds / n_features) or int(n_features <= opening_share * n_rounds)
        if depth >= _MIN_DEPTH_TO_OPEN and n_passes:
            cyclic = CyclicSplits(bins, opening_depth, weights)
            self._effects = FeatureEffects(cyclic.trees, bins.n_bins, cells)
            self.opening = cyclic.trees * n_passes
            self.depth = max(depth, cyclic.depth)
        self._n_opening = len(self.opening)
        self.crowded: Sequence[int] = ()
        self._n_rounds = n_rounds
        self.round = 0

    @property
    def rate_factor(self) -> float:
        """By which the learning rate is multiplied."""
        return self._rate_factor

    def draw(self, random: SecureRandom, ahead: int = 0) -> PublicTree:
        """As for `PublicSplits`."""
        if self.round + ahead < self._n_opening:
            return self.opening[self.round + ahead]
        return self.random_splits.draw(random)

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Take note of what the drawn tree's leaves released, and of the values they got."""
        if self.round < self._n_opening:
            self._effects.note(tree, release, value)
        elif tree.cell[0] >= 0:
            self._gains.note(tree.cell, tree.goes_left, release.gradient, release.hessian, release.std)
        self.round += 1
        if self.round == self._n_opening:
            self._follow(self._effects.gains())
            self.crowded = tuple(self._effects.crowded())
        every = max(1, round(_FOLLOWED_EVERY * self._n_rounds))
        if self.round >= _FIRST_FOLLOWED * self._n_rounds and self.round % every == 0:
            self._follow(self._gains.estimate())

    def _follow(self, gains: NDArray[np.float64]) -> None:
        """Draw from now on mostly where splits explain something."""
        uniform = self.random_splits.cells.probability
        learned = gains**GAIN_POWER * uniform
        if learned.sum() > 0:
            probability = (1 - LEARNED_SHARE) * uniform + LEARNED_SHARE * learned / learned.sum()
            for splits in self._followers:
                splits.prefer(probability)


def warn_of_bounds(crowded: Sequence[str]) -> None:
    """Warn of bounds that are probably too wide, by what was released; it reads no row."""
    if crowded:
        named = ", ".join(map(repr, crowded[:_MAX_NAMED])) + (" and others" if crowded[_MAX_NAMED:] else "")
        warnings.warn(
            f"nearly all rows fall into few bins of {named}: choose narrower bounds (values outside go to "
            'the outermost bins), spacing="mixed", or bounds from auto_bounds or lgb_dp.private_bounds',
            WideBoundsWarning,
            stacklevel=9,
        )
