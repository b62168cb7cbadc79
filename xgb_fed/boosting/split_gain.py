"""Gain and leaf weight of XGBoost, step by step in the precision that XGBoost uses.

Sums are float64, and weights, gains and loss changes are rounded to float32 where the installed XGBoost
rounds them (`gains_are_those_of_weights`).  Only that makes equal gains equal here too, and XGBoost keeps
the first of equal gains.  (XGBoost, ``src/tree/param.h`` and ``src/tree/split_evaluator.h``, versions 2.0
to 3.4.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.versions import (
    gains_are_those_of_weights,
    light_nodes_have_weight,
    vector_leaves_share_hessians,
)

MIN_LOSS_CHANGE = np.float32(1e-6)
"""XGBoost's kRtEps: the loss change of a split must be above it."""

Sums = NDArray[np.float64]

_NO_BOUND = np.finfo(np.float32).max


@dataclass(frozen=True)
class WeightBounds:
    """Between which weights the leaves below a node must lie, so that monotone constraints hold."""

    lower: np.float32 = -_NO_BOUND
    upper: np.float32 = _NO_BOUND

    def clip(self, weight: NDArray[np.float32]) -> NDArray[np.float32]:
        """Limit weights to the bounds."""
        return np.asarray(np.clip(weight, self.lower, self.upper), dtype=np.float32)

    def of_children(
        self, direction: int, left: np.float32, right: np.float32
    ) -> tuple[WeightBounds, WeightBounds]:
        """Bounds of both children, by the node's weights and the sign of its column's constraint."""
        if direction == 0:
            return self, self
        between = np.float32((left + right) / np.float32(2))
        below, above = WeightBounds(self.lower, between), WeightBounds(between, self.upper)
        return (below, above) if direction > 0 else (above, below)


@dataclass(frozen=True)
class NodeBounds:
    """The bounds that a node of a tree with monotone constraints has.

    XGBoost computes a node's weight and gain under the bounds of its parent as long as it is a leaf, and
    those of its candidate splits under its own.
    """

    own: WeightBounds = field(default_factory=WeightBounds)
    above: WeightBounds = field(default_factory=WeightBounds)


@dataclass(frozen=True)
class SplitGain:
    """XGBoost's parameters of the same names, as the float32 it makes of them."""

    reg_lambda: np.float32
    reg_alpha: np.float32
    gamma: np.float32
    min_child_weight: np.float32
    max_delta_step: np.float32
    learning_rate: np.float32

    def of_forest(self, learning_rate: np.float32, n_trees: int) -> SplitGain:
        """The same for the trees of a round with some learning rate, divided among the trees."""
        return replace(self, learning_rate=np.float32(learning_rate / np.float32(n_trees)))

    def _soft_threshold(self, g: Sums) -> Sums:
        alpha = np.float64(self.reg_alpha)
        return np.asarray(np.sign(g) * np.maximum(np.abs(g) - alpha, 0.0)) if alpha else g

    def weights(self, g: Sums, h: Sums, bounds: WeightBounds | None = None) -> NDArray[np.float32]:
        """Leaf weights before the learning rate: −T(G) / (H + λ), limited to ±max_delta_step.

        A node without hessian weighs 0, and with some versions of XGBoost (`light_nodes_have_weight`) one
        with less than `min_child_weight`, too.  With monotone constraints, weights are then limited to the
        node's bounds.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            w = -self._soft_threshold(g) / (h + np.float64(self.reg_lambda))
        if self.max_delta_step:
            limit = np.float64(self.max_delta_step)
            w = np.clip(w, -limit, limit)
        is_zero = h <= 0
        if not light_nodes_have_weight():
            is_zero |= h < self.min_child_weight
        weight = np.where(is_zero, 0.0, w).astype(np.float32)
        return weight if bounds is None else bounds.clip(weight)

    def side_gains(self, g: Sums, h: Sums, bounds: WeightBounds | None = None) -> NDArray[np.float32]:
        """Gain of one side, in the steps of the installed XGBoost (`gains_are_those_of_weights`)."""
        if gains_are_those_of_weights():
            with np.errstate(invalid="ignore", over="ignore"):
                gain = self._gain_of_weight(g, h, self.weights(g, h, bounds)).astype(np.float32)
        elif self.max_delta_step or bounds is not None:
            gain = self._gains_in_single(g, h, self.weights(g, h, bounds))
        else:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                square = np.square(self._soft_threshold(g)).astype(np.float32)
                gain = square / (h + np.float64(self.reg_lambda)).astype(np.float32)
        return np.where(h <= 0, 0.0, gain).astype(np.float32)

    def _gains_in_single(self, g: Sums, h: Sums, w: NDArray[np.float32]) -> NDArray[np.float32]:
        """−(2·G·w + (H + λ)·w²) in float32."""
        g32, h32 = g.astype(np.float32), h.astype(np.float32)
        return np.asarray(-(np.float32(2) * g32 * w + (h32 + self.reg_lambda) * (w * w)), dtype=np.float32)

    def _vector_gains(self, g: Sums, h: Sums) -> Sums:
        """Gain of vector leaves: −Σ w·T(G), with float32 weights, in float64."""
        return np.asarray(-(self.weights(g, h).astype(np.float64) * self._soft_threshold(g)).sum(axis=1))

    def loss_changes(
        self,
        left_g: Sums,
        left_h: Sums,
        g: Sums,
        h: Sums,
        bounds: NodeBounds | None = None,
        directions: NDArray[np.integer] | None = None,
    ) -> NDArray[np.float32]:
        """Loss change of candidate splits of one node.

        −∞ where a side has too little hessian, or where float32 does not hold the change: XGBoost passes over
        such candidates.  Sums of the rows to the left have shape (n_candidates, n_classes), those of the node
        (n_classes,).  With monotone constraints, which only leaves of one value have, the node has bounds,
        and `directions` has the constraint of each candidate's column.
        """
        if len(g) == 1:
            changes = self.scalar_loss_changes(left_g[:, 0], left_h[:, 0], g, h, bounds)
            if bounds is None or directions is None:
                return changes
            left = self.weights(left_g[:, 0], left_h[:, 0], bounds.own)
            right = self.weights(g - left_g[:, 0], h - left_h[:, 0], bounds.own)
            wrong = ((directions > 0) & (left > right)) | ((directions < 0) & (left < right))
            return np.where(wrong, np.float32(-np.inf), changes)
        if vector_leaves_share_hessians():
            return self._vector_loss_changes(left_g, left_h, g, h)
        right_g, right_h = g - left_g, h - left_h
        both = self._vector_gains(left_g, left_h) + self._vector_gains(right_g, right_h)
        change = (both - np.float64(np.float32(self._vector_gains(g[None], h[None])[0]))).astype(np.float32)
        possible = np.isfinite(change) & (left_h > 0).all(axis=1) & (right_h > 0).all(axis=1)
        return np.asarray(np.where(possible, change, np.float32(-np.inf)), dtype=np.float32)

    def scalar_loss_changes(
        self, left_g: Sums, left_h: Sums, g: Sums, h: Sums, bounds: NodeBounds | None = None
    ) -> NDArray[np.float32]:
        """As `loss_changes`, for leaves of one value; shapes of the sums broadcast."""
        right_g, right_h = g - left_g, h - left_h
        own, above = (None, None) if bounds is None else (bounds.own, bounds.above)
        gains = self.side_gains(left_g, left_h, own) + self.side_gains(right_g, right_h, own)
        with np.errstate(invalid="ignore"):
            change = (gains - self.side_gains(g, h, above)).astype(np.float32)
        enough = (left_h >= self.min_child_weight) & (right_h >= self.min_child_weight)
        possible = enough & np.isfinite(change) & (left_h > 0) & (right_h > 0)
        return np.asarray(np.where(possible, change, np.float32(-np.inf)), dtype=np.float32)

    def is_worth(self, loss_change: np.floating) -> bool:
        """Whether a node is split at this loss change."""
        return bool(loss_change > MIN_LOSS_CHANGE and loss_change >= self.gamma)

    def _vector_loss_changes(self, left_g: Sums, left_h: Sums, g: Sums, h: Sums) -> NDArray[np.float32]:
        """Loss changes for vector leaves where a side's hessian is the mean over classes.

        All in float64, class by class, but for the node's own gain, which is that of its float32 weights.
        """
        both, own = np.zeros(len(left_g)), 0.0
        left_sum, right_sum = np.zeros(len(left_g)), np.zeros(len(left_g))
        weights = self.weights(g, h)
        for k in range(len(g)):
            right_g, right_h = g[k] - left_g[:, k], h[k] - left_h[:, k]
            both += self._class_gains(left_g[:, k], left_h[:, k])
            both += self._class_gains(right_g, right_h)
            left_sum += left_h[:, k]
            right_sum += right_h
            own += float(self._gain_of_weight(g[k], h[k], weights[k]))
        left_sum, right_sum = left_sum / len(g), right_sum / len(g)
        enough = (left_sum >= self.min_child_weight) & (right_sum >= self.min_child_weight)
        with np.errstate(over="ignore", invalid="ignore"):
            change = (both - own).astype(np.float32)
        possible = enough & np.isfinite(change) & (left_sum > 0) & (right_sum > 0)
        return np.asarray(np.where(possible, change, np.float32(-np.inf)), dtype=np.float32)

    def _class_gains(self, g: Sums, h: Sums) -> Sums:
        """Gains of one class of vector leaves: T(G)² / (H + λ), or what a limited weight gives."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.max_delta_step:
                limit = np.float64(self.max_delta_step)
                w = np.clip(-self._soft_threshold(g) / (h + np.float64(self.reg_lambda)), -limit, limit)
                gain = self._gain_of_weight(g, h, w)
            else:
                gain = np.square(self._soft_threshold(g)) / (h + np.float64(self.reg_lambda))
        return np.where(h <= 0, 0.0, gain)

    def _gain_of_weight(self, g: Sums, h: Sums, w: NDArray[np.floating]) -> Sums:
        """−(2·G·w + (H + λ)·w² + 2·α·|w|) in float64, but for the square of a float32 weight."""
        fit = 2.0 * g * w.astype(np.float64) + (h + np.float64(self.reg_lambda)) * (w * w).astype(np.float64)
        return np.asarray(-(fit + 2.0 * np.float64(self.reg_alpha) * np.abs(w).astype(np.float64)))
