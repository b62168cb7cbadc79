"""MBoost: private boosting of trees by the M-loss, with objective calibration.

Nock and Henecka, "Boosted and Differentially Private Ensembles of Decision
Trees", 2020, Sections 5 and 6.  A tree is grown top down by the exponential
mechanism on the unnormalised Bayes risk, its leaves are noised class weights
seen through the canonical link, and the mirror update of the M-loss weighs
the examples for the next tree.  Every tree reads all rows, so costs add up.

Weights are integers: `BOOST_STEPS` is the boosting weight 1, times the row's
own weight in its steps.  Below, b is the largest weight a row may have in the
tree at hand and (P, N) are the weights of the two classes in a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_kernels.draws import of_candidates
from gbdt_kernels.trees import BinLayout, candidate_risks, segment_sums
from lgb_dp.accounting.cost import lower_float, share
from lgb_dp.accounting.ledger import Release
from lgb_dp.boosting.levels import Structure, grow_levels
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.boosting.training import Asking, TrainerInput, Training
from lgb_dp.boosting.tree import PrivateTree
from lgb_dp.checks import (
    POSITIVE,
    POSITIVE_OR_INFINITE,
    PROPER_SHARE,
    SHARE,
    Interval,
    checked_choice,
    checked_number,
)
from lgb_dp.errors import UnsupportedParameterError
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.mboost.loss import MLoss
from lgb_dp.mechanisms.noise import MAX_ROWS, release_laplace, select, selection_scale

Leverage = Literal["public", "noised"]
CALIBRATED: Final[Literal["calibrated"]] = "calibrated"
BOOST_STEPS = 2**20
"""Integer steps of a boosting weight between 0 and 1."""

COUNT_SHARE = 0.02
"""Share of ε that pays for the number of rows where it is not public; only √(number of rows) is used."""

ROUNDING = 2.0**-13
"""Contribution of float64 to the sensitivity of a risk, in largest weights."""

MIN_ALPHA = 2.0**-10
"""Lower end of a calibrated α."""

_BEFORE_THE_TREES = -2
"""Group of the release of the number of rows."""


def risk_sensitivity(
    alpha: NDArray[np.float64], cap: NDArray[np.float64], prior: NDArray[np.float64], largest_weight: float
) -> NDArray[np.float64]:
    """Width of the interval in which adding one row of weight at most b = `largest_weight` moves all risks.

    With f(P, N) = 2α√((min(P, c) + s)(min(N, c) + s)) + 2(1-α) min(P, N) of a child, a row of class + raises
    √(min(P, c) + s) by at most √(b + s) - √s, which √(min(N, c) + s) ≤ √(c + s) multiplies, and min(P, N) by
    at most b; no term can fall.  A row is in one child of every candidate: all risks grow by an amount in
    [0, Δ], Δ = 2α (√(b + s) - √s) √(c + s) + 2(1-α)b, and by bounded range exp(-ε risk / Δ) is ε-DP.

    With b = 1, s = 0 and c a bound m of the total weight Δ is the paper's Corollary 7, 2α√m + 2(1-α).  There
    m must be true; here the risk is capped, so Δ holds whatever c is, and a noised or guessed c costs no δ.

    `ROUNDING` of b is added for float64.  A risk takes at most 7 roundings of 2⁻⁵³ of itself, scale included,
    and is at most α(W + 4s) + (1-α)W ≤ 2³⁴ b, since the node's weight W and c are below 2³¹ b and s ≤ c; the
    interval's two ends move by the errors of two data sets each: 4·7·2⁻¹⁹ b < `ROUNDING` b.

    α is in [0, 1], c in [b, 2³¹ b] and s in [0, c], a number of each for every node.
    """
    rise = largest_weight / (np.sqrt(largest_weight + prior) + np.sqrt(prior))
    return 2.0 * (alpha * rise * np.sqrt(cap + prior) + (1.0 - alpha + ROUNDING) * largest_weight)


def stopped_at_purity(levels: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Class weights of the leaves if pure nodes were not split: those of the pure or last non-empty ancestor.

    Class weights are those of all nodes, level by level, shape (2**level, 2), the leaves' last.
    """
    weights = levels[0]
    for below in levels[1:]:
        parent = weights.repeat(2, axis=0)
        stays = (parent.min(axis=1) == 0) | (below.sum(axis=1) == 0)
        weights = np.where(stays[:, None], parent, below)
    return weights


_COUNT, _LEAVES = "number of rows", "leaf class weights"


def _weights_of(level: int) -> str:
    return f"weights of level {level + 1}"


def _splits_release(level: int, epsilon: float, group: int) -> Release:
    return Release(f"splits of level {level + 1}", "exponential", epsilon, group, 0)


def _sums_release(what: str, epsilon: float, group: int) -> Release:
    return Release(what, "discrete Laplace", epsilon, group, 0)


class MBoostTraining(Training):
    """State of one training run of MBoost."""

    sigmoid = 1.0
    """Slope of ψ⁻¹ at 0 for α = 1, times 4."""

    def __init__(self, task: TrainerInput, trainer: MBoost) -> None:
        super().__init__(task)
        params = task.params
        self.loss = MLoss(1.0 if trainer.alpha == "calibrated" else trainer.alpha)
        self.calibrated = trainer.alpha == "calibrated"
        self.leaf_bound = trainer.leaf_bound
        self.smoothing = trainer.smoothing
        self.leverage = trainer.leverage
        self.exact = np.isinf(trainer.epsilon)
        self._n_rows = trainer.n_rows
        self._rows = np.arange(task.data.num_data(), dtype=np.int32)
        self._caps: list[float | None] = [None] * params.n_outputs
        if self.exact:
            self.train_without_privacy()
            self._count_epsilon = self._weight_epsilon = self._split_epsilon = self._leaf_epsilon = np.inf
            return
        epsilon = self.epsilon_per_row(trainer.epsilon)
        self._count_epsilon = share(epsilon * COUNT_SHARE, 1) if trainer.n_rows is None else 0.0
        rest = lower_float(Fraction(epsilon) - Fraction(self._count_epsilon))
        tree_epsilon = share(rest, self.n_rounds * params.n_outputs)
        # The nodes of a level are disjoint, so each may spend all of the level's share.
        paid_levels = params.depth - 1 if trainer.weight_share else 0
        self._weight_epsilon = share(tree_epsilon * trainer.weight_share, paid_levels) if paid_levels else 0.0
        for_splits = tree_epsilon * (1 - trainer.leaf_share - (trainer.weight_share if paid_levels else 0.0))
        self._split_epsilon = share(for_splits, params.depth)
        self._leaf_epsilon = lower_float(
            Fraction(tree_epsilon)
            - paid_levels * Fraction(self._weight_epsilon)
            - params.depth * Fraction(self._split_epsilon)
        )
        self.selection_scale = selection_scale(self._split_epsilon, 1.0)

        self.ledger.grant(self._planned_releases(paid_levels))

    def _planned_releases(self, paid_levels: int) -> Iterator[Release]:
        """Everything that is released: the number of rows; of each tree its splits, weights and leaves."""
        if self._n_rows is None:
            yield _sums_release(_COUNT, self._count_epsilon, _BEFORE_THE_TREES)
        for t in range(self.n_rounds):
            for _ in range(self.params.n_outputs):
                for level in range(self.params.depth):
                    yield _splits_release(level, self._split_epsilon, t)
                    if level and paid_levels:
                        yield _sums_release(_weights_of(level), self._weight_epsilon, t)
                yield _sums_release(_LEAVES, self._leaf_epsilon, t)

    def grow_iteration(self) -> Asking[list[PrivateTree]]:
        """One tree per output, all from the same predictions; classes are boosted one against the rest."""
        yield from ()  # all rows are here
        n_rows = self._n_rows = self._noised_count() if self._n_rows is None else self._n_rows
        predictions = self.predictions(self._rows, self.codes)
        trees = []
        for k in range(self.params.n_outputs):
            sign = self.label_scale.targets(self.label, k)
            largest = self._largest_boost_weight(k)
            boost = np.floor(self.loss.weight(sign * predictions[:, k]) * BOOST_STEPS)
            boost[np.isnan(boost)] = 0.0
            boost = boost.clip(0, largest).astype(np.int32)
            largest *= self.weight_steps
            trees.append(self.grow_tree(k, sign, boost * self.weight, largest, n_rows))
        return trees

    def _largest_boost_weight(self, k: int) -> int:
        """Public bound of the boosting weights: ψ⁻¹ of the most that the released trees can add up to."""
        if self.continues:
            return BOOST_STEPS
        reach = sum(np.abs(trees[k].leaf_value).max() for trees in self.trees)
        return min(BOOST_STEPS, int(np.ceil(float(self.loss.inverse_link(reach)) * BOOST_STEPS)))

    def _noised_count(self) -> float:
        """The rows' total weight; a row adds at most its largest weight."""
        total = np.array([self.weight.sum(dtype=np.int64)])
        noised = self.noised(total, _COUNT, self._count_epsilon, self.weight_steps, _BEFORE_THE_TREES)
        return float(max(noised[0], self.weight_steps)) * self.weight_bound / self.weight_steps

    def noised(
        self, sums: NDArray[np.int64], what: str, epsilon: float, sensitivity: int, group: int
    ) -> NDArray[np.int64]:
        """Sums over disjoint sets of rows; a new row raises one of them by at most `sensitivity`."""
        if self.exact:
            return sums
        self.ledger.charge(_sums_release(what, epsilon, group))
        return release_laplace(sums, sensitivity, epsilon, self.random)

    def grow_tree(
        self, k: int, sign: NDArray[np.float64], weight: NDArray[np.int32], largest: int, n_rows: float
    ) -> PrivateTree:
        """Grow the tree of one class."""
        positive, negative = np.where(sign > 0, weight, 0), np.where(sign > 0, 0, weight)
        levels: list[NDArray[np.int64]] = []
        cap = self._root_cap(k, largest, n_rows)
        structure = self._grow_structure(cap, positive, negative, largest, levels)
        sums = segment_sums(structure.rows, structure.starts, positive, negative)
        if self.exact:
            sums = stopped_at_purity([*levels, sums])
        # A row has one class and one leaf: it raises one of these weights, by at most b.
        sums = self.noised(sums, _LEAVES, self._leaf_epsilon, largest, self.iteration - 1)
        self._caps[k] = float(sums.sum(axis=0).max())
        return self._tree_of(structure, sums, largest, n_rows)

    def _grow_structure(
        self,
        cap: float,
        positive: NDArray[np.int32],
        negative: NDArray[np.int32],
        largest: int,
        levels: list[NDArray[np.int64]],
    ) -> Structure:
        """Splits of a tree; class weights of its internal nodes are appended to `levels`."""
        layout = self.tree_layout()

        def choose(level: int, histograms: NDArray[np.int64]) -> NDArray[np.int64]:
            totals = histograms[:, : layout.counted.bin_offsets[1]].sum(axis=1)
            levels.append(totals)
            alphas, caps = self._alphas_and_caps(level, totals.sum(axis=1), cap, largest)
            return self._select(level, histograms, layout, alphas, caps, largest)

        n_threads = self.params.n_threads
        return grow_levels(
            self.codes, self._rows, positive, negative, layout, self.params.depth, choose, n_threads
        )

    def _root_cap(self, k: int, largest: int, n_rows: float) -> float:
        """Cap of the next tree: the larger class in the last noised leaves; first, all rows at weight b."""
        known = self._caps[k]
        if known is None:
            known = n_rows / self.weight_bound * largest
        return min(max(known, float(largest)), float(MAX_ROWS * largest))

    def _alphas_and_caps(
        self, level: int, weights: NDArray[np.int64], cap: float, largest: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """α and cap of each node of a level from the nodes' `weights`, noised, or without reading them."""
        n_nodes = len(weights)
        caps = np.full(n_nodes, np.inf if self.exact else cap)
        if level == 0 or not self._weight_epsilon:
            alpha = 0.5**level if self.calibrated else self.loss.alpha
            return np.full(n_nodes, alpha), caps
        noised = self.noised(weights, _weights_of(level), self._weight_epsilon, largest, self.iteration - 1)
        noised = np.maximum(noised, largest)
        noise = 0.0 if self.exact else largest / self._weight_epsilon
        caps = np.minimum(caps, noised + 2 * noise)
        if not self.calibrated:
            return np.full(n_nodes, self.loss.alpha), caps
        return np.clip(noised / noised.sum(), MIN_ALPHA, 1.0), caps

    def _select(
        self,
        level: int,
        histograms: NDArray[np.int64],
        layout: BinLayout,
        alphas: NDArray[np.float64],
        caps: NDArray[np.float64],
        largest: int,
    ) -> NDArray[np.int64]:
        """The candidate of every node by the exponential mechanism; without privacy the best one."""
        n_threads = self.params.n_threads
        if self.exact:
            no_prior = np.zeros(len(caps))
            risks = candidate_risks(histograms, layout, alphas, caps, no_prior, n_threads)
            return np.asarray(of_candidates(risks, layout.repeats).argmin(axis=1))
        priors = self.smoothing * caps
        self.ledger.charge(_splits_release(level, self._split_epsilon, self.iteration - 1))
        utilities = candidate_risks(histograms, layout, alphas, caps, priors, n_threads)
        utilities *= -self.selection_scale / risk_sensitivity(alphas, caps, priors, largest)[:, None]
        return select(utilities, self.random, n_threads, layout.repeats)

    def _tree_of(
        self, structure: Structure, sums: NDArray[np.int64], largest: int, n_rows: float
    ) -> PrivateTree:
        """The tree from its released splits and class weights: post-processing."""
        weights = np.maximum(sums, 0).astype(np.float64)
        # Laplace smoothing by the noise's own scale: a leaf of noise alone stays near 0.
        prior = self.lambda_steps * BOOST_STEPS + (0.0 if self.exact else largest / self._leaf_epsilon)
        total = weights.sum(axis=1) + 2 * prior
        u = np.divide(weights[:, 0] + prior, total, out=np.full(len(weights), 0.5), where=total > 0)
        h = np.clip(self.loss.link(u), -self.leaf_bound, self.leaf_bound)
        count = np.rint(weights.sum(axis=1) / largest).clip(1, (2**31 - 1) // len(weights))
        return PrivateTree(
            feature=structure.feature,
            goes_left=structure.goes_left,
            leaf_value=self._coefficient(h, sums, n_rows) * h,
            leaf_count=count.astype(np.int64),
            learning_rate=self.learning_rate,
        )

    def _coefficient(self, h: NDArray[np.float64], sums: NDArray[np.int64], n_rows: float) -> float:
        """Leveraging coefficient: the learning rate, or a·4α·E[w y h] / M² with a the learning rate.

        Σ w y h is Σ h (P - N) over the leaves; both factors are released already.
        """
        if self.leverage == "public":
            return self.learning_rate
        edge = float((h * (sums[:, 0] - sums[:, 1])).sum()) / (BOOST_STEPS * self.weight_steps)
        edge = min(max(edge * self.weight_bound / n_rows, 0.0), self.leaf_bound)
        return self.learning_rate * 4.0 * self.loss.alpha * edge / self.leaf_bound**2


@inherits_parameters(before="random_state")
class MBoost(PrivateTrainer):
    """Callback that makes `lightgbm.train` train MBoost, for binary and multi-class objectives.

    The model's raw score is the paper's H(x); `MLoss.inverse_link` turns it into the M-loss's probability,
    while `Booster.predict` applies LightGBM's sigmoid (softmax for "multiclass"), with the same classes.

    Parameters
    ----------
    epsilon : float
        Total budget in nats of pure differential privacy, under adding or removing one row.  Infinity trains
        exactly and without privacy; pure nodes are then not split.
    alpha : float or "calibrated"
        α of the M-loss, in (0, 1].  "calibrated" is objective calibration: α of a node is its share of the
        tree's weight, 1 at the root, and the leaves' and the weights' is 1.
    leaf_share : float
        Share of a tree's budget that goes to its leaves, in (0, 1).
    weight_share : float
        Share of a tree's budget that pays for the weights of its internal nodes below the root, in [0, 1).
        They calibrate α and cap the risk.  At 0 nothing is paid: a calibrated α is 2^-depth, and the cap is
        the root's.
    smoothing : float
        Weight that every class of a child gets on top before the square root, in caps of its node, in [0, 1].
        The paper has none; then Δ grows with the square root of the node's weight.
    leaf_bound : float
        M, public: leaf values are clipped to [-M, M] before the leveraging coefficient.
    leverage : {"public", "noised"}
        Leveraging coefficient of a tree: the learning rate, or a·4α·E[w y h]/M² with a the learning rate and
        the expectation from the noised leaves, which costs nothing more.
    n_rows : float, optional
        Public number of rows, roughly (of their total weight, if weighted); left out, it is paid for with
        2% of ε.  A wrong figure costs accuracy, never privacy.

    Examples
    --------
    >>> train = lgb_dp.Dataset(X, y, bounds=(0, 1))                                     # doctest: +SKIP
    >>> booster = lightgbm.train({"objective": "binary", "max_depth": 3}, train, 5,
    ...                          callbacks=[lgb_dp.MBoost(epsilon=1.0)])                # doctest: +SKIP
    """

    accepted_epsilon = POSITIVE_OR_INFINITE

    def __init__(
        self,
        epsilon: float,
        *,
        alpha: float | Literal["calibrated"] = "calibrated",
        leaf_share: float = 0.3,
        weight_share: float = 0.0,
        smoothing: float = 0.1,
        leaf_bound: float = 1.0,
        leverage: Leverage = "public",
        n_rows: float | None = None,
        **others: Any,
    ) -> None:
        self.alpha = alpha
        self.leaf_share = leaf_share
        self.weight_share = weight_share
        self.smoothing = smoothing
        self.leaf_bound = leaf_bound
        self.leverage = leverage
        self.n_rows = n_rows
        super().__init__(epsilon, **others)

    def _check_settings(self) -> None:
        super()._check_settings()
        self.alpha = checked_number("alpha", self.alpha, SHARE, CALIBRATED)
        self.leaf_share = checked_number("leaf_share", self.leaf_share, PROPER_SHARE)
        # The weights' budget must leave something for the splits.
        accepted = Interval(0, 1 - self.leaf_share, "[)")
        self.weight_share = checked_number("weight_share", self.weight_share, accepted)
        self.smoothing = checked_number("smoothing", self.smoothing, Interval(0, 1))
        self.leaf_bound = checked_number("leaf_bound", self.leaf_bound, POSITIVE)
        self.leverage = checked_choice("leverage", self.leverage, get_args(Leverage))
        self.n_rows = None if self.n_rows is None else checked_number("n_rows", self.n_rows, POSITIVE)

    def begin(self, task: TrainerInput) -> MBoostTraining:
        """Start a training run; called once per booster."""
        check_classes(task)
        return MBoostTraining(task, self)


def check_classes(task: TrainerInput) -> None:
    """Raise an UnsupportedParameterError unless the objective is to tell classes apart."""
    if OBJECTIVES[task.params.objective].is_regression:
        raise UnsupportedParameterError(
            f"objective={task.params.objective!r} is not supported by this trainer; accepted are 'binary', "
            "'multiclass' and 'multiclassova'"
        )
