"""Private trees on square loss, which DPBoost and the two baselines of its paper grow.

Li, Wu, Wen and He, "Privacy-Preserving Gradient Boosting Decision Trees",
AAAI 2020, Algorithm 1 (one tree). The three differ in the rows that a tree trains on and in its budget: a
`TreePlan`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import Codes, segment_sums
from lgb_dp.accounting.cost import lower_float, share
from lgb_dp.accounting.ledger import Release
from lgb_dp.boosting.levels import grow_structure
from lgb_dp.boosting.training import Asking, TrainerInput, Training
from lgb_dp.boosting.tree import PrivateTree
from lgb_dp.mechanisms.noise import DRAW_SLACK, UTILITY_SLACK, release_laplace, selection_scale

G_STAR = 1.0
"""Largest |gradient| at the start of training, the paper's g*."""

GRADIENT_STEPS = 2**20
"""Integer steps of a gradient between 0 and G_STAR."""


def quantise_gradients(gradient: NDArray[np.float64], weight: NDArray[np.int32]) -> NDArray[np.int32]:
    """Weighted gradients in integer steps, rounded toward zero; never beyond ``GRADIENT_STEPS * weight``.

    Gradients outside of [-G_STAR, G_STAR] are clipped, and NaN counts as 0. Weights are quantised.
    """
    limit = GRADIENT_STEPS * weight.astype(np.float64)
    steps = np.nan_to_num(np.clip(gradient / G_STAR * limit, -limit, limit), nan=0.0)
    return np.trunc(steps).astype(np.int32)


Variant = Literal["paper", "tight"]
VALUE_STEPS = 2**20
"""Grid steps of a released leaf value per unit of its sensitivity."""

GAIN_RANGE: Mapping[Variant, float] = {"tight": 4.0, "paper": 6.0}
"""Width, in w̄g*², by which the exponential mechanism divides the gain.

Adding a row of weight w ≤ w̄ and gradient |g| ≤ g* to a child with sums G and N (|G| ≤ N g*) changes its term
G²/(N + λ) by at most w g² (x²/y is subadditive) and at least by -3 w g*² ((N - w)²/(N + w) ≥ N - 3w for
opposite gradients): an interval of length 4w̄g*², at λ = 0 and for empty children too, and for every
candidate since a row falls into one child.  Bounded range makes exp(ε G / 4w̄g*²) ε-DP.  The paper's Lemma 1
bounds the change by 3g*² either way and divides by twice that.
"""


def leaf_value_sensitivity(lambda_l2: float, weight_bound: float = 1.0) -> float:
    """Largest change of V = -G / (N + λ), in g*, by adding one row of weight at most w̄ = `weight_bound`.

    With N = W before and a row w of the opposite sign, |ΔV| = w(2W + λ)/((W + λ)(W + w + λ)), growing in w:
    so w = w̄.  Unweighted rows have integer W: at W = 0 it is 1/(1 + λ), the paper's Lemma 2, and W = 1 gives
    (2 + λ)/((1 + λ)(2 + λ)), the same.  With weights W is real and x = W + λ maximises
    w̄(2x - λ)/(x(x + w̄)) at x = (λ + √(λ² + 2λw̄))/2; at λ = 0 the limit is 2.
    """
    if lambda_l2 == 0:
        return 2.0
    x = lambda_l2 * (1 + np.sqrt(1 + 2 * weight_bound / lambda_l2)) / 2
    return float(weight_bound * (2 * x - lambda_l2) / (x * (x + weight_bound)))


def epsilon_of_a_person(epsilon: float, k: int) -> float:
    """Epsilon that a selection's scale is made for, so that a person's k rows of weight 1/k cost `epsilon`.

    The rows can be in k different nodes.  Their shares of the range add up to one, but each node's rounding
    (`UTILITY_SLACK` and `DRAW_SLACK`, which `selection_scale` pays once) counts in full.
    """
    return (epsilon - (k - 1) * DRAW_SLACK) / (1 + (k - 1) * UTILITY_SLACK)


@dataclass(frozen=True)
class TreePlan:
    """The rows that a tree trains on, and the limits it keeps to.

    `clip` is the bound of its leaf values, in g*; `group` and `part` are as in `Release`.
    """

    rows: NDArray[np.int32]
    clip: float
    learning_rate: float
    group: int
    part: int


class SquareLossTraining(Training):
    """A training run on square loss, of total budget ε.

    A group has `trees_per_group` trees that read disjoint rows, so that each may spend all of the group's
    share. Of a tree's budget, a share `leaf_share` goes to its leaves. With `gdf`, rows with large gradients
    are filtered out; otherwise gradients are clipped.
    """

    def __init__(
        self,
        task: TrainerInput,
        *,
        epsilon: float,
        variant: Variant,
        trees_per_group: int,
        leaf_share: float = 0.5,
        gdf: bool = True,
    ) -> None:
        # In the tight variant all costs are proportional to the weight that changes, and add up to a row's.
        # A person's rows of weights w₁, w₂, … change every gain by an amount in an interval of length
        # 4g*² Σ w ≤ 4w̄g*² in all the nodes and trees where they are, and a leaf's two sums by 2Q Σ w: the
        # exponential mechanism's loss and discrete Laplace's are linear in these, the paper's ratio V is not.
        super().__init__(task, takes_group_means=variant == "tight")
        params = task.params
        self.variant = variant
        self.epsilon = self.epsilon_per_row(epsilon)
        self._trees_per_group = trees_per_group
        self.leaf_share = leaf_share
        self._is_weighted = task.data.weight is not None
        self.gdf = gdf
        self.filtered_rows = 0
        self.offered_rows = 0
        tree_epsilon = share(share(self.epsilon, -(-self.n_rounds // trees_per_group)), params.n_outputs)
        # The nodes of a level are disjoint, so each may spend all of the level's share.
        split_epsilon = share(tree_epsilon * (1 - leaf_share), params.depth)
        leaf_epsilon = lower_float(Fraction(tree_epsilon) - params.depth * Fraction(split_epsilon))
        self._split_and_leaf_epsilon = split_epsilon, leaf_epsilon
        steps = GRADIENT_STEPS**2 * self.weight_steps
        paid = split_epsilon
        if task.data.group_weight == "mean" and self.unit.rows is not None:
            paid = epsilon_of_a_person(split_epsilon, self.unit.rows)
        self.selection_scale = selection_scale(paid, GAIN_RANGE[variant]) / steps

        self.ledger.grant(
            release
            for t in range(self.n_rounds)
            for _ in range(params.n_outputs)
            for release in self._releases_of_tree(*self.group_and_part(t))
        )

    def _releases_of_tree(self, group: int, part: int) -> list[Release]:
        """Releases of one tree, level by level."""
        split_epsilon, leaf_epsilon = self._split_and_leaf_epsilon
        splits = [
            Release(f"splits of level {level + 1}", "exponential", split_epsilon, group, part)
            for level in range(self.params.depth)
        ]
        return [*splits, Release("leaf values", "discrete Laplace", leaf_epsilon, group, part)]

    def group_and_part(self, t: int) -> tuple[int, int]:
        """Where the releases of iteration `t`, counted from 0, stand in the ledger (see `Release`)."""
        return divmod(t, self._trees_per_group)

    @abstractmethod
    def plan(self) -> TreePlan:
        """Plan of the next iteration's trees."""

    def grow_iteration(self) -> Asking[list[PrivateTree]]:
        """One tree per output, all on the same rows and from the same predictions."""
        yield from ()  # all rows are here
        plan = self.plan()
        # A copy of the tree's rows stays in cache while its levels are grown.
        codes = self.codes if len(plan.rows) == self.codes.n_rows else self.codes.take(plan.rows)
        label, weight = self.label[plan.rows], self.weight[plan.rows]
        predictions = self.predictions(plan.rows, codes)
        trees = []
        for k in range(self.params.n_outputs):
            kept, gradient = self.clipped_gradients(predictions[:, k] - self.label_scale.targets(label, k))
            trees.append(self.grow_tree(plan, codes, kept, quantise_gradients(gradient, weight), weight))
        return trees

    def clipped_gradients(self, g: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Rows to train on, and gradients within [-g*, g*]; filtered rows stay spent for this tree."""
        if not self.gdf:
            return np.arange(len(g), dtype=np.int32), np.clip(g, -G_STAR, G_STAR)
        kept = np.flatnonzero(np.abs(g) <= G_STAR).astype(np.int32)
        self.offered_rows += len(g)
        self.filtered_rows += len(g) - len(kept)
        return kept, g

    def grow_tree(
        self,
        plan: TreePlan,
        codes: Codes,
        rows: NDArray[np.int32],
        gradient: NDArray[np.int32],
        weight: NDArray[np.int32],
    ) -> PrivateTree:
        """Charge for a tree and grow it on its own rows."""
        _, leaf_epsilon = self._split_and_leaf_epsilon
        for release in self._releases_of_tree(plan.group, plan.part):
            self.ledger.charge(release)

        structure = grow_structure(
            codes,
            rows,
            gradient,
            weight,
            self.tree_layout(),
            self.lambda_steps,
            [self.selection_scale] * self.params.depth,
            self.random,
            self.params.n_threads,
        )
        sums = segment_sums(structure.rows, structure.starts, gradient, weight)
        leaves = self.leaves_of_sums if self.variant == "tight" else self.leaves_of_values
        value, count = leaves(sums, plan.clip, leaf_epsilon)
        return PrivateTree(
            feature=structure.feature,
            goes_left=structure.goes_left,
            leaf_value=value * (G_STAR * plan.learning_rate * self.label_scale.scale),
            leaf_count=count,
            learning_rate=plan.learning_rate,
        )

    def leaves_of_values(
        self, sums: NDArray[np.int64], clip: float, epsilon: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The paper's leaves: V = -G/(N + λ), clipped, plus Laplace noise (Algorithm 1, lines 11-14).

        V is rounded to a grid of step s = ΔV / `VALUE_STEPS` first.  Rounding is monotone and commutes with
        whole steps, so values within ΔV are at most `VALUE_STEPS` steps apart.  Float64 moves each of the two
        ratios by at most 4·2⁻⁵³ of itself, which is below one step as n < 2³¹: hence 2 steps more.
        """
        denominator = sums[:, 1] + self.lambda_steps
        ratio = np.divide(
            -sums[:, 0] / GRADIENT_STEPS, denominator, out=np.zeros(len(sums)), where=denominator > 0
        )
        if self._is_weighted:
            bound = leaf_value_sensitivity(self.params.lambda_l2, self.weight_bound)
        else:
            bound = 1.0 / (1.0 + self.params.lambda_l2)
        step = min(bound, 2 * clip) / VALUE_STEPS
        steps = np.rint(np.clip(ratio, -clip, clip) / step).astype(np.int64)
        released = release_laplace(steps, VALUE_STEPS + 2, epsilon, self.random)
        return released * np.float64(step), np.ones(len(steps), dtype=np.int64)

    def leaves_of_sums(
        self, sums: NDArray[np.int64], clip: float, epsilon: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Leaves from two noisy sums, 2A = NQ + G and 2B = NQ - G with Q steps per gradient.

        |G| ≤ NQ for every row, so adding one raises both, together by 2Q times its weight: discrete Laplace
        of sensitivity 2Q (times the largest weight) on each is ε-DP.  G = A - B and N Q = A + B follow, and
        the clip comes after the noise: all post-processing.
        """
        pair = np.column_stack(
            [sums[:, 1] * GRADIENT_STEPS + sums[:, 0], sums[:, 1] * GRADIENT_STEPS - sums[:, 0]]
        )
        sensitivity = 2 * GRADIENT_STEPS * self.weight_steps
        pair = release_laplace(pair, sensitivity, epsilon, self.random)
        noisy_gradient = (pair[:, 0] - pair[:, 1]) / (2.0 * GRADIENT_STEPS)
        noisy_weight = (pair[:, 0] + pair[:, 1]) / (2.0 * GRADIENT_STEPS)
        denominator = np.maximum(noisy_weight, 0.0) + self.lambda_steps
        value = np.divide(-noisy_gradient, denominator, out=np.zeros(len(pair)), where=denominator > 0)
        # In rows of the largest weight; LightGBM adds counts up in 32 bits.
        count = np.rint(noisy_weight / self.weight_steps).clip(1, (2**31 - 1) // len(pair))
        return np.clip(value, -clip, clip), count.astype(np.int64)
