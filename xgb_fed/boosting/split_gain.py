"""Gain and leaf weight of XGBoost, step by step in the precision that XGBoost uses.

Sums are float64; the square and the divisor of each side's gain are rounded to float32
before they are divided, and so are the gain and the loss change.  Only that makes equal
gains equal here too, and XGBoost keeps the first of equal gains.  (XGBoost,
``src/tree/param.h`` and ``src/tree/split_evaluator.h``, versions 2.0 to 3.2.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MIN_LOSS_CHANGE = np.float32(1e-6)
"""XGBoost's kRtEps: the loss change of a split must be above it."""

Sums = NDArray[np.float64]


@dataclass(frozen=True)
class SplitGain:
    """XGBoost's parameters of the same names, as the float32 it makes of them."""

    reg_lambda: np.float32
    reg_alpha: np.float32
    gamma: np.float32
    min_child_weight: np.float32
    max_delta_step: np.float32
    learning_rate: np.float32

    def _soft_threshold(self, g: Sums) -> Sums:
        alpha = np.float64(self.reg_alpha)
        return np.asarray(np.sign(g) * np.maximum(np.abs(g) - alpha, 0.0)) if alpha else g

    def weights(self, g: Sums, h: Sums) -> NDArray[np.float32]:
        """Leaf weights before the learning rate: −T(G) / (H + λ), limited to ±max_delta_step.

        A side with less hessian than `min_child_weight` weighs 0.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            w = -self._soft_threshold(g) / (h + np.float64(self.reg_lambda))
        if self.max_delta_step:
            limit = np.float64(self.max_delta_step)
            w = np.clip(w, -limit, limit)
        return np.where((h < self.min_child_weight) | (h <= 0), 0.0, w).astype(np.float32)

    def side_gains(self, g: Sums, h: Sums) -> NDArray[np.float32]:
        """Gain of one side: T(G)² / (H + λ), or what its limited weight gives."""
        if self.max_delta_step:
            w, g32, h32 = self.weights(g, h), g.astype(np.float32), h.astype(np.float32)
            gain = -(np.float32(2) * g32 * w + (h32 + self.reg_lambda) * (w * w))
        else:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                square = np.square(self._soft_threshold(g)).astype(np.float32)
                gain = square / (h + np.float64(self.reg_lambda)).astype(np.float32)
        return np.where(h <= 0, 0.0, gain).astype(np.float32)

    def _vector_gains(self, g: Sums, h: Sums) -> Sums:
        """Gain of vector leaves: −Σ w·T(G), with float32 weights, in float64."""
        return np.asarray(-(self.weights(g, h).astype(np.float64) * self._soft_threshold(g)).sum(axis=1))

    def loss_changes(self, left_g: Sums, left_h: Sums, g: Sums, h: Sums) -> NDArray[np.float32]:
        """Loss change of candidate splits of one node.

        −∞ where a side has too little hessian, or where float32 does not hold the change: XGBoost passes
        over such candidates.

        Parameters
        ----------
        left_g, left_h : ndarray of float64, shape (n_candidates, n_classes)
            Sums of the rows to the left.
        g, h : ndarray of float64, shape (n_classes,)
            Sums of the node.
        """
        if len(g) == 1:
            return self.scalar_loss_changes(left_g[:, 0], left_h[:, 0], g, h)
        right_g, right_h = g - left_g, h - left_h
        both = self._vector_gains(left_g, left_h) + self._vector_gains(right_g, right_h)
        change = (both - np.float64(np.float32(self._vector_gains(g[None], h[None])[0]))).astype(np.float32)
        possible = np.isfinite(change) & (left_h > 0).all(axis=1) & (right_h > 0).all(axis=1)
        return np.asarray(np.where(possible, change, np.float32(-np.inf)), dtype=np.float32)

    def scalar_loss_changes(self, left_g: Sums, left_h: Sums, g: Sums, h: Sums) -> NDArray[np.float32]:
        """Loss changes of candidate splits of one or more nodes whose leaves have one value.

        As `loss_changes`; arrays of sums whose shapes broadcast.
        """
        right_g, right_h = g - left_g, h - left_h
        gains = self.side_gains(left_g, left_h) + self.side_gains(right_g, right_h)
        with np.errstate(invalid="ignore"):
            change = (gains - self.side_gains(g, h)).astype(np.float32)
        enough = (left_h >= self.min_child_weight) & (right_h >= self.min_child_weight)
        possible = enough & np.isfinite(change) & (left_h > 0) & (right_h > 0)
        return np.asarray(np.where(possible, change, np.float32(-np.inf)), dtype=np.float32)

    def is_worth(self, loss_change: np.floating) -> bool:
        """Whether a node is split at this loss change."""
        return bool(loss_change > MIN_LOSS_CHANGE and loss_change >= self.gamma)
