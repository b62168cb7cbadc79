"""Splits that a greedy tree finds in the model itself, on rows that no data set holds.

Random splits do not know in which node they are, and that is what limits a model of many rows. The
contribution of the last rounds' trees is public, and is a smooth estimate of the remaining error. A greedy
tree is fitted to it on *surrogate rows*, whose columns are drawn independently from released histograms, and
its structure alone is used: leaf sums on it are released as for any other tree.

It takes the released histograms of all columns.  Everything else is post-processing: surrogate rows,
the model's scores there, and greedy trees follow from what was released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri, softmax

from gbdt_kernels.trees import DenseCodes, by_columns, grow_structure
from lgb_dp.data.bins import PublicBins
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree, ReleasedTree
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms
from lgb_dp.newton.splits.learned import LearnedSplits
from lgb_dp.newton.splits.random import RandomSplits, uniform
from lgb_dp.newton.splits.tree_kinds import TreeKinds

N_SURROGATE_ROWS = 20_000

_START = 0.08
"""Share of the rounds before the first greedy tree."""

_TRIAL = 0.08
"""Share of the rounds after that in which every second tree is greedy."""

_RANDOM_EVERY = 10
"""Later, where greedy trees lead, one tree in so many stays random: it finds what the model does not know."""

_FIRST_RATE, _LAST_RATE = 1.5, 0.15
"""Factors of the learning rate where greedy trees lead, which falls linearly from the one to the other.

Greedy trees learn fast, and their small leaves collect more noise than those of random ones.
"""

_WINDOW = 0.05
"""Share of the rounds whose steps a greedy tree is fitted to."""

_MIN_WINDOW = 4
_MIN_CHILD_ROWS = 10
_MIN_CURVATURE = 0.01
_MAX_TRIED = 64
"""Features that a node may split by, at most; otherwise half of them, drawn for each node."""


def surrogate_rows(
    histograms: FeatureHistograms, bins: PublicBins, random: SecureRandom, n_rows: int | None = None
) -> DenseCodes:
    """Codes of rows whose columns are independent, by default `N_SURROGATE_ROWS`."""
    n_rows = N_SURROGATE_ROWS if n_rows is None else n_rows
    codes = np.zeros((n_rows, len(bins.n_bins)), dtype=np.uint8)
    for f in np.flatnonzero(bins.n_bins > 1).tolist():
        cumulated = np.cumsum(histograms.probabilities(f, is_categorical=bool(bins.is_categorical[f])))
        drawn = uniform(random.words(n_rows)) * cumulated[-1]
        codes[:, f] = np.minimum(np.searchsorted(cumulated, drawn, side="right"), bins.n_bins[f])
    return DenseCodes(codes)


def start_scores(
    surrogate: DenseCodes, bins: PublicBins, predictor: Any, scale: LabelScale
) -> NDArray[np.float64]:
    """Predictions of an initial model for the surrogate rows, on the scale of [-1, 1]; 0 without a model.

    Scores that were given row by row are unknown there. The predictor is a booster, or whatever predicts like
    one; the result has shape (n_rows, n_outputs).
    """
    shape = surrogate.n_rows, scale.n_outputs
    if predictor is None:
        return np.zeros(shape)
    scores = np.asarray(predictor.predict(values_of_codes(surrogate, bins), raw_score=True), dtype=np.float64)
    return (np.nan_to_num(scores.reshape(shape)) - scale.centre) / scale.scale


def values_of_codes(codes: DenseCodes, bins: PublicBins) -> NDArray[np.float64]:
    """Values, (n_rows, n_features), of codes: a threshold is of the bin below, the last one infinite."""
    values = np.empty(codes.codes.shape)
    for f, known in enumerate(bins.values):
        last = [] if bins.is_categorical[f] else [np.inf]
        of_code = np.concatenate([known, last, [np.nan]])
        values[:, f] = of_code[codes.codes[:, f]]
    return values


class SurrogateScores:
    """Where the surrogate rows stand under a model that grows, and what its last `window` trees added there.

    They start at scores of shape (n_rows, n_outputs): log-odds, or predictions on the scale of [-1, 1].
    """

    def __init__(self, codes: DenseCodes, start: NDArray[np.float64], window: int) -> None:
        self._columns = by_columns(codes)
        self._start, self._window = start, window
        self._restart()
        self._n_known, self._last = 0, 0

    def _restart(self) -> None:
        self.score, self.step = self._start.copy(), np.zeros_like(self._start)
        self._in_window: deque[tuple[NDArray[np.uint16], NDArray[np.float64]]] = deque()

    def follow(self, released: Sequence[ReleasedTree]) -> None:
        """Add the trees that are new; start anew if one that was added is no longer in the model."""
        n_known, self._n_known = self._n_known, -1  # an interrupt leaves it so
        if n_known < 0 or n_known > len(released) or _number(released[:n_known]) != self._last:
            self._restart()
            n_known = 0
        for tree in released[n_known:]:
            self.add(tree)
        self._n_known, self._last = len(released), _number(released)

    def add(self, released: ReleasedTree) -> None:
        """Add the values of a released tree."""
        leaf, tree, value = np.empty(len(self.score), dtype=np.uint16), released.tree, released.value
        self._columns.leaves(tree.feature, tree.goes_left, 0, len(leaf), leaf)
        self.score += value[leaf]
        self.step += value[leaf]
        self._in_window.append((leaf, value))
        if len(self._in_window) > self._window:
            leaf, value = self._in_window.popleft()
            self.step -= value[leaf]


def _number(released: Sequence[ReleasedTree]) -> int:
    """Number of the last tree, which determines those before; 0 without one."""
    return released[-1].number if released else 0


def greedy_tree(
    tree: PublicTree,
    bins: PublicBins,
    codes: NDArray[np.uint8],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    random: SecureRandom,
) -> PublicTree:
    """The structure of a greedy tree fitted to the target; where it finds no split, that of the given one.

    Weights are positive. The features that each node may split by are drawn, and where in a gap between codes
    a threshold is.
    """
    features = np.flatnonzero(bins.n_bins > 1).astype(np.int32)
    n_nodes, n_tried = len(tree.feature), min((len(features) + 1) // 2, _MAX_TRIED)
    # A node's mean explains nothing, and what is large next to what is looked for costs digits.
    target = target - np.average(target, weights=weight)
    order = np.argpartition(random.words(n_nodes, len(features)), n_tried - 1, axis=1)
    feature, goes_left = tree.feature.copy(), tree.goes_left.copy()
    grow_structure(
        codes,
        target,
        weight,
        bins.n_bins,
        bins.is_categorical,
        features[order[:, :n_tried]],
        uniform(random.words(n_nodes)),
        random.coins(n_nodes),
        _MIN_CHILD_ROWS,
        feature,
        goes_left,
    )
    return PublicTree(feature, goes_left, np.full(n_nodes, -1))


class DistilledSplits(LearnedSplits):
    """Learned splits, and structures of greedy trees fitted to the model's last steps.

    Which of the two is drawn mostly depends on which explains more (`lgb_dp.newton.splits.tree_kinds`).
    Without a trial (`has_trial`), greedy trees are drawn in any case.

    Random trees have `depth` levels, greedy ones `greedy_depth`, and those of one feature `opening_depth` at
    most. The weights, shape (n_bins - 1,) for each feature, say how often each threshold is drawn. `start`
    has the scores of the surrogate rows before the first tree; `released`, the model's trees, changes as the
    model does.
    """

    def __init__(
        self,
        bins: PublicBins,
        depth: int,
        greedy_depth: int,
        n_rounds: int,
        opening_depth: int,
        weights: Sequence[NDArray[np.float64]],
        objective: str,
        surrogate: DenseCodes,
        start: NDArray[np.float64],
        released: Sequence[ReleasedTree],
        *,
        has_trial: bool = True,
    ) -> None:
        super().__init__(bins, depth, n_rounds, opening_depth, weights)
        self._bins, self._released = bins, released
        self._is_log_loss = OBJECTIVES[objective].is_log_loss
        self.codes = surrogate.codes
        self.surrogate = SurrogateScores(surrogate, start, max(_MIN_WINDOW, round(_WINDOW * n_rounds)))
        self._first = max(_START * n_rounds, _MIN_WINDOW, self._n_opening)
        self._trial = self._first + (_TRIAL * n_rounds if has_trial else 0.0)
        self._has_trial = has_trial
        self._kinds = TreeKinds(is_log_loss=self._is_log_loss)
        # Where a greedy tree finds no split, it keeps a random one.
        self.below = RandomSplits(bins, greedy_depth, weights)
        self._followers.append(self.below)
        self.depth = max(self.depth, greedy_depth)

    def draw(self, random: SecureRandom, ahead: int = 0) -> PublicTree:
        """The next round's tree: of either kind in turn while both are tried, of the better one later."""
        self.surrogate.follow(self._released)
        number = self.round + ahead
        if number >= self._first and self._is_greedy(number):
            return self._greedy(self.below.draw(random), random)
        return super().draw(random, ahead)

    def _is_greedy(self, number: int) -> bool:
        if number < self._trial:
            return number % 2 == 1
        return self._greedy_leads and number % _RANDOM_EVERY != 0

    @property
    def _greedy_leads(self) -> bool:
        return not self._has_trial or self._kinds.greedy_leads

    @property
    def rate_factor(self) -> float:
        """By which the learning rate is multiplied."""
        if self.round < self._trial or not self._greedy_leads:
            return super().rate_factor
        left = (self._n_rounds - self.round) / (self._n_rounds - self._trial)
        return float(_LAST_RATE + (_FIRST_RATE - _LAST_RATE) * max(left, 0.0))

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Take note of what the drawn tree's leaves released, and of the values they got."""
        if self._first <= self.round < self._trial:
            self._kinds.note(release, value, greedy=bool(tree.cell[0] < 0))
        super().learn(tree, release, value)

    def _greedy(self, tree: PublicTree, random: SecureRandom) -> PublicTree:
        """The structure of a greedy tree; where it finds no split, that of the given one."""
        target, weight = self._target(random)
        half = np.unpackbits(random.words((len(target) + 63) // 64).view(np.uint8))[: len(target)]
        rows = np.flatnonzero(half)
        return greedy_tree(tree, self._bins, self.codes[rows], target[rows], weight[rows], random)

    def _target(self, random: SecureRandom) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Target of a tree, and the weights of the rows, which are the loss's curvature.

        Of several outputs it is their sum in a random direction r, whose curvature is r'Hr of the softmax
        loss's hessian H: the variance of r over the classes.
        """
        score, step = self.surrogate.score, self.surrogate.step
        if score.shape[1] == 1:
            p = expit(score[:, 0])
            curvature = np.maximum(p * (1 - p), _MIN_CURVATURE) if self._is_log_loss else np.ones(len(step))
            return step[:, 0], curvature
        direction = ndtri(np.clip(uniform(random.words(score.shape[1])), 2.0**-53, None))
        if not self._is_log_loss:
            return step @ direction, np.ones(len(step))
        p = softmax(score, axis=1)
        variance = p @ direction**2 - (p @ direction) ** 2
        return step @ direction, np.maximum(variance, _MIN_CURVATURE)
