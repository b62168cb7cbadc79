"""Private trees on square loss: the parts that DPBoost and the paper's two baselines share.

Li, Wu, Wen and He, "Privacy-Preserving Gradient Boosting Decision Trees",
AAAI 2020, Algorithm 1 (one tree).  What differs between the three is which
rows a tree trains on and what it may spend: a `TreePlan`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gbdt_kernels import segment_sums
from numpy.typing import NDArray

from lgb_dp.dataset import Dataset
from lgb_dp.grower import Structure, grow_structure
from lgb_dp.ledger import PrivacyReport, Release, share
from lgb_dp.loss import G_STAR, GRADIENT_STEPS, quantise_gradients, quantise_weights
from lgb_dp.mechanisms import discrete_laplace, selection_scale
from lgb_dp.params import TrainingParameters
from lgb_dp.training import Training
from lgb_dp.tree import PrivateTree

Variant = Literal["paper", "tight"]

N_SUBSETS = 16
"""Public random subsets of each categorical feature's values, drawn anew for every tree."""

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

    With N = W before and a row w of the opposite sign, |ΔV| = w(2W + λ)/((W + λ)(W + w + λ)): growing in w, so
    w = w̄.  Unweighted rows have integer W: at W = 0 it is 1/(1 + λ), the paper's Lemma 2, and W = 1 gives
    (2 + λ)/((1 + λ)(2 + λ)), the same.  With weights W is real and x = W + λ maximises
    w̄(2x - λ)/(x(x + w̄)) at x = (λ + √(λ² + 2λw̄))/2; at λ = 0 the limit is 2.
    """
    if lambda_l2 == 0:
        return 2.0
    x = (lambda_l2 + np.sqrt(lambda_l2**2 + 2 * lambda_l2 * weight_bound)) / 2
    return float(weight_bound * (2 * x - lambda_l2) / (x * (x + weight_bound)))


@dataclass(frozen=True)
class TreePlan:
    """What a tree may do.

    Parameters
    ----------
    rows : ndarray of int32
        Rows the tree trains on.
    epsilon : float
        What it may spend.
    clip : float
        Bound of its leaf values, in g*.
    group, part : int
        As in `Release`.
    """

    rows: NDArray[np.int32]
    epsilon: float
    clip: float
    group: int
    part: int


class SquareLossTraining(Training):
    """Training on square loss.

    Parameters
    ----------
    train_set, params, n_rounds, random_state, initial, reasons
        As for `Training`.
    epsilon : float
        Total budget.
    variant : {"paper", "tight"}
    leaf_share : float
        Share of a tree's budget that goes to its leaves.
    gdf : bool
        Filter rows with large gradients; otherwise clip the gradients.
    """

    def __init__(
        self,
        train_set: Dataset,
        params: TrainingParameters,
        n_rounds: int,
        random_state: int | None,
        initial: PrivacyReport | None,
        reasons: Sequence[str],
        *,
        epsilon: float,
        variant: Variant,
        leaf_share: float = 0.5,
        gdf: bool = True,
    ) -> None:
        super().__init__(train_set, params, n_rounds, random_state, initial, reasons)
        self.epsilon = epsilon
        self.variant = variant
        self.leaf_share = leaf_share
        self.gdf = gdf
        n_rows = train_set.num_data()
        self.weight, self.weight_steps = quantise_weights(train_set.weight, train_set.weight_bound, n_rows)
        self.weight_bound = 1.0 if train_set.weight is None else float(train_set.weight_bound or 1.0)
        self.gradient = np.zeros(n_rows, dtype=np.int32)
        self.filtered_rows = 0
        self.offered_rows = 0
        # Smallest share a selection gets: if it cannot pay for its rounding, say so before the first tree.
        self._selection_scale(self._split_epsilon(self._plan_epsilon()))

    @abstractmethod
    def plan(self) -> TreePlan:
        """Plan of the next iteration's trees."""

    @abstractmethod
    def _plan_epsilon(self) -> float:
        """What a tree's plan may spend, all outputs together."""

    @property
    def lambda_steps(self) -> float:
        """λ in integer weight steps."""
        return self.params.lambda_l2 * self.weight_steps / self.weight_bound

    def _tree_epsilon(self, plan_epsilon: float) -> float:
        return share(plan_epsilon, self.params.n_outputs)

    def _leaf_epsilon(self, plan_epsilon: float) -> float:
        return self._tree_epsilon(plan_epsilon) * self.leaf_share

    def _split_epsilon(self, plan_epsilon: float) -> float:
        """Share of one level: its nodes are disjoint, so each may spend all of it."""
        tree = self._tree_epsilon(plan_epsilon)
        rest = np.nextafter(tree - self._leaf_epsilon(plan_epsilon), 0.0)
        return share(float(rest), self.params.depth)

    def _selection_scale(self, epsilon: float) -> float:
        """Factor from gain in integer steps to log-weight."""
        return selection_scale(epsilon, GAIN_RANGE[self.variant]) / (GRADIENT_STEPS**2 * self.weight_steps)

    def grow_iteration(self) -> list[PrivateTree]:
        """One tree per output, all on the same rows and from the same predictions."""
        plan = self.plan()
        outputs = range(self.params.n_outputs)
        gradients = [self._gradients(plan.rows, k) for k in outputs]
        return [self._grow_tree(plan, *gradients[k]) for k in outputs]

    def _gradients(
        self, rows: NDArray[np.int32], output: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Rows to train on and their gradients; the filtered ones stay spent for this tree."""
        assert self.data.label is not None
        g = self.prediction(rows, output) - self.label_scale.targets(self.data.label[rows], output)
        if not self.gdf:
            return rows, np.clip(g, -G_STAR, G_STAR)
        kept = np.abs(g) <= G_STAR
        self.offered_rows += len(rows)
        self.filtered_rows += len(rows) - int(kept.sum())
        return rows[kept], g[kept]

    def _grow_tree(
        self, plan: TreePlan, rows: NDArray[np.int32], gradient: NDArray[np.float64]
    ) -> PrivateTree:
        split_epsilon = self._split_epsilon(plan.epsilon)
        leaf_epsilon = self._leaf_epsilon(plan.epsilon)
        for level in range(self.params.depth):
            what = f"splits of level {level + 1}"
            self.ledger.charge(Release(what, "exponential", split_epsilon, plan.group, plan.part))
        self.ledger.charge(Release("leaf values", "discrete Laplace", leaf_epsilon, plan.group, plan.part))

        self.gradient[rows] = quantise_gradients(gradient, self.weight[rows])
        assert self.data.bins is not None
        n_total_bins = int((self.data.bins.n_bins + 1).sum())
        has_categories = bool(self.data.bins.is_categorical.any())
        structure = grow_structure(
            self.codes,
            rows,
            self.gradient,
            self.weight,
            self.data.bins.layout(self.random.coins(N_SUBSETS, n_total_bins) if has_categories else None),
            self.lambda_steps,
            [self._selection_scale(split_epsilon)] * self.params.depth,
            self.random,
            self.params.n_threads,
        )
        leaves = self._leaves_of_sums if self.variant == "tight" else self._leaves_of_values
        value, count = leaves(structure, plan.clip, leaf_epsilon)
        return PrivateTree(
            feature=structure.feature,
            goes_left=structure.goes_left,
            leaf_value=value * (G_STAR * self.learning_rate * self.label_scale.scale),
            leaf_count=count,
            learning_rate=self.learning_rate,
        )

    def _sums(self, structure: Structure) -> NDArray[np.int64]:
        return segment_sums(structure.rows, structure.starts, self.gradient, self.weight)

    def _leaves_of_values(
        self, structure: Structure, clip: float, epsilon: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The paper's leaves: V = -G/(N + λ), clipped, plus Laplace noise (Algorithm 1, lines 11-14).

        V is rounded to a grid of step s = ΔV / `VALUE_STEPS` first.  Rounding is monotone and commutes with
        whole steps, so values within ΔV (and a rounding error of the ratio, far below one step) are at most
        `VALUE_STEPS` + 1 steps apart: discrete Laplace with that sensitivity is ε-DP.
        """
        sums = self._sums(structure)
        denominator = sums[:, 1] + self.lambda_steps
        ratio = np.divide(
            -sums[:, 0] / GRADIENT_STEPS, denominator, out=np.zeros(len(sums)), where=denominator > 0
        )
        if self.data.weight is None:
            bound = 1.0 / (1.0 + self.params.lambda_l2)
        else:
            bound = leaf_value_sensitivity(self.params.lambda_l2, self.weight_bound)
        step = min(bound, 2 * clip) / VALUE_STEPS
        steps = np.rint(np.clip(ratio, -clip, clip) / step).astype(np.int64)
        noise = discrete_laplace(len(steps), VALUE_STEPS + 1, epsilon, self.random)
        return (steps + noise) * step, np.ones(len(steps), dtype=np.int64)

    def _leaves_of_sums(
        self, structure: Structure, clip: float, epsilon: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Leaves from two noisy sums, 2A = NQ + G and 2B = NQ - G with Q steps per gradient.

        |G| ≤ NQ for every row, so adding one raises both, together by 2Q times its weight: discrete Laplace
        of sensitivity 2Q (times the largest weight) on each is ε-DP.  G = A - B and N Q = A + B follow, and
        the clip comes after the noise: all post-processing.
        """
        sums = self._sums(structure)
        pair = np.column_stack([sums[:, 1] * GRADIENT_STEPS + sums[:, 0], sums[:, 1] * GRADIENT_STEPS - sums[:, 0]])
        sensitivity = 2 * GRADIENT_STEPS * self.weight_steps
        pair += discrete_laplace(pair.size, sensitivity, epsilon, self.random).reshape(pair.shape)
        noisy_gradient = (pair[:, 0] - pair[:, 1]) / (2.0 * GRADIENT_STEPS)
        noisy_weight = (pair[:, 0] + pair[:, 1]) / (2.0 * GRADIENT_STEPS)
        denominator = np.maximum(noisy_weight, 0.0) + self.lambda_steps
        value = np.divide(-noisy_gradient, denominator, out=np.zeros(len(pair)), where=denominator > 0)
        count = np.rint(noisy_weight * (self.weight_bound / self.weight_steps))
        return np.clip(value, -clip, clip), np.maximum(count, 1).astype(np.int64)

    def parameters(self) -> Mapping[str, str]:
        """Public settings, for the model file."""
        return {
            "boosting": "gbdt",
            "objective": self.params.objective,
            "num_iterations": str(self.n_rounds),
            "learning_rate": repr(self.params.learning_rate),
            "max_depth": str(self.params.depth),
            "lambda_l2": repr(self.params.lambda_l2),
            **self._own_parameters(),
        }

    def _own_parameters(self) -> dict[str, Any]:
        return {"dp_variant": self.variant}
