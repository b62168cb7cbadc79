"""Losses of regression beside the square loss: Poisson, gamma and Tweedie, Huber, quantile and absolute.

All keep to the joint bound of `lgb_dp.losses.loss`. A row's contribution is bounded by construction
and not by its label or score: its gradient g, in units of a clip, is cut to a number of integer steps, and
its hessian to the room that the bound leaves beside these. So the length of a row's contribution is at most
that of the longest entry of a table, whatever computed the gradient.

- Logarithmic link (power ρ: 1 Poisson, 2 gamma, between them Tweedie's).  With prediction m = exp(F) held to
  `label_bounds`, g = m^(1-ρ) (m - y) / C and h = m^(2-ρ) / C, the hessian expected at m.  |g| is cut to 1:
  the loss is linear in F beyond its clip C and beyond the label's bounds.
- Residuals r = (F - y) / T.  Huber: g = r and h = 1 where |r| < 1, T being LightGBM's `alpha`.  Quantile α:
  g = (1 + r) / 2 - α and h = 1/2 where |r| < 1; beyond, g is -α or 1 - α and h is 0.  That is the quantile's
  loss with its kink replaced by a parabola of width 2 T.  The absolute loss is that of α = 1/2.

C and T follow from the first release, which is post-processing of it.  The noise does not depend on them: the
sums are in units of the clip.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.point_tables import log_link_tables, residual_tables
from gbdt_kernels.trees import LogLinkPairs, TablePairs
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.label_counts import LabelCounts, counts_on_grid
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.level import FactorLevel
from lgb_dp.losses.loss import STEPS, Start, TableKernel, largest_hessians, noise_stds

FloatArray = NDArray[np.float64]

LOG_LINK_HESSIAN_LIMIT = 0.5
"""κ of the losses with a logarithmic link, in units of the clip."""

CUT_SHARE = 0.02
"""Share of the gradients' sizes, at the prior, that the clip of a loss with a logarithmic link cuts off."""

LARGEST_LOG_STEP = 4.0
"""Bound of a leaf value before the learning rate, with a logarithmic link."""

LOG_REACH = 4.0
"""Largest distance from 0 of logarithms that tables of points cover."""

SMOOTHED_SHARE = 0.5
"""Half the width of the parabola in the quantile's loss, over the labels' mean distance from their median."""

_LOWEST_MEAN = 1e-9
"""Smallest prediction over the largest label that a gradient is computed for."""

_OCTAVES = 20
"""Powers of 1/2 of the largest label on which labels are counted."""

_N_LINEAR = 17
"""Points at equal distances on which labels are counted for residual losses."""

MIN_THRESHOLD = 1e-6
"""Of Huber's loss, in halves of the width of the label's bounds."""


@lru_cache(maxsize=4)
def hessian_limits(hessian_share: float) -> NDArray[np.int16]:
    """Largest hessian, in steps, of a row of gradient ``(entry - STEPS) / STEPS``, with a logarithmic link.

    (1 - s) g² + (h / κ)² ≤ 1 for every entry, and a row's pair is an entry and at most its limit.
    """
    gradient = np.arange(-STEPS, STEPS + 1) / STEPS
    found = np.floor(largest_hessians(gradient, 1.0, LOG_LINK_HESSIAN_LIMIT, hessian_share) * STEPS)
    return found.astype(np.int16)


class _CountedOnGrid(ABC):
    """Counts of labels on a public grid, from which a loss starts."""

    n_targets = 1

    @property
    @abstractmethod
    def _grid(self) -> NDArray[np.float64]:
        """Points, in ascending order."""

    def n_counts(self, n_outputs: int) -> int:
        """Points on which labels are counted."""
        return len(self._grid)

    def label_counts(
        self, target: NDArray[np.float64], weight: NDArray[np.int32], n_outputs: int
    ) -> NDArray[np.int64]:
        """As for `lgb_dp.losses.loss.Loss`; the proof is that of `counts_on_grid`."""
        return counts_on_grid(target, weight, self._grid, STEPS)


@dataclass(frozen=True)
class LogLinkLoss(_CountedOnGrid):
    """Loss of a model that predicts exp(F); targets and predictions are in units of the largest label.

    ρ is in [1, 2], labels have bounds ``0 <= low < high``, and s is in [0, 1). The clip is C over the largest
    gradient that there can be; None finds C by the first release.
    """

    power: float
    low: float
    high: float
    gradient_clip: float | None
    hessian_share: float

    @property
    def largest_value(self) -> float:
        """As for `lgb_dp.losses.loss.Loss`."""
        return LARGEST_LOG_STEP

    @property
    def _lowest_mean(self) -> float:
        return max(self.low / self.high, _LOWEST_MEAN)

    @property
    def lowest_score(self) -> float:
        """Score below which scores count as this one."""
        return float(np.log(self._lowest_mean))

    @property
    def _grid(self) -> NDArray[np.float64]:
        """The smallest label, and halves of the largest."""
        halves = 0.5 ** np.arange(_OCTAVES, -1, -1)
        lowest = self.low / self.high
        return np.concatenate([[lowest], halves[halves > lowest]])

    def stds(self, mu: float) -> tuple[float, float]:
        """As for `lgb_dp.losses.loss.Loss`."""
        return noise_stds(1.0, LOG_LINK_HESSIAN_LIMIT, self.hessian_share, mu)

    def targets(self, label: NDArray[np.float64], scale: LabelScale) -> NDArray[np.float64]:
        """Labels over the largest."""
        return np.asarray(label / self.high, dtype=np.float64)

    def start(self, counts: NDArray[np.float64], noise: float) -> Start:
        """The logarithm of the mean label, and a clip that cuts off little of the gradients there."""
        labels = LabelCounts.of(self._grid, counts, noise)
        mean = float(np.clip(labels.mean, max(self._lowest_mean, self._grid[1]), 1.0))
        if self.gradient_clip is None:
            size = mean ** (1 - self.power) * np.abs(mean - labels.point)
            clip = max(labels.clip_of(size, CUT_SHARE), mean ** (2 - self.power))  # that of a label of 0
        else:
            clip = self.gradient_clip * self._largest_gradient
        hessian = mean ** (2 - self.power) / clip
        return Start(
            n_rows=float(max(counts.sum(), 1.0)),
            prior=np.array([np.log(mean)]),
            clip=clip,
            hessian_unit=clip * self.high ** (2 - self.power),
            row_hessian=min(hessian, LOG_LINK_HESSIAN_LIMIT),
            level=FactorLevel.of(labels, self.power, mean, clip),
        )

    @property
    def _largest_gradient(self) -> float:
        """|m^(1-ρ) (m - y)| is largest for the smallest m and the largest y, or the other way round."""
        m = self._lowest_mean
        return max(float(m ** (1 - self.power)) * (1 - m), 1 - self.low / self.high)

    def pairs(self, target: NDArray[np.float64], clip: float) -> LogLinkPairs:
        """As for `lgb_dp.losses.loss.Loss`."""
        limits = hessian_limits(self.hessian_share)
        return LogLinkPairs(target, self.power, self.lowest_score, 1.0 / clip, limits)

    @property
    def interpolation_exponent(self) -> float:
        """As for `lgb_dp.losses.loss.Loss`: 3 - 2ρ.

        The gradient is e^((2-ρ)F) - y·e^((1-ρ)F) but for the clip.  At y = e^F, where g' = e^((2-ρ)F) and
        g'' = (3 - 2ρ)·g', there is no bias.  For Poisson's loss, a = 1, and the gamma loss, a = -1, g itself
        has this form: there is none for any y.
        """
        return 3.0 - 2.0 * self.power

    def table_kernel(self, clip: float) -> TableKernel:
        """As for `lgb_dp.losses.loss.Loss`."""
        return log_link_tables, np.array([self.power, self.lowest_score, 1.0 / clip])


@lru_cache(maxsize=16)
def residual_table(alpha: float | None, hessian_share: float) -> NDArray[np.int16]:
    """Amount that a row of residual ``(entry - STEPS) / STEPS`` adds to the two sums, in steps.

    α is that of the quantile's loss, None that of Huber's; s is in [0, 1). Every entry, shape
    (2 * STEPS + 1, 2), keeps to the joint bound, with C = max(α, 1 - α) and κ = 1/2, or C = κ = 1 (Huber).
    """
    residual = np.arange(-STEPS, STEPS + 1) / STEPS
    exact, curvature = (residual, 1.0) if alpha is None else ((1 + residual) / 2 - alpha, 0.5)
    gradient = np.trunc(exact * STEPS)
    room = largest_hessians(gradient / STEPS, _residual_clip(alpha), curvature, hessian_share)
    hessian = np.where(np.abs(residual) < 1, np.floor(np.minimum(curvature, room) * STEPS), 0.0)
    return np.column_stack([gradient, hessian]).astype(np.int16)


def _residual_clip(alpha: float | None) -> float:
    """Largest size of a gradient of `residual_table`."""
    return 1.0 if alpha is None else max(alpha, 1.0 - alpha)


@dataclass(frozen=True)
class ResidualLoss(_CountedOnGrid):
    """Huber's loss, or the quantile's with a parabola in the place of its kink.

    α is that of the quantile's loss, None that of Huber's; s is in [0, 1). The threshold T of Huber's loss is
    over half the width of the label's bounds; that of the quantile's follows from the first release. `zero`
    is the label of 0 on the scale of [-1, 1], or the end of the scale that is nearest to it.
    """

    alpha: float | None
    threshold: float | None
    zero: float
    hessian_share: float

    @property
    def largest_value(self) -> float:
        """A residual of T, beyond which rows have no hessian, so that a leaf of such rows would overshoot."""
        return 1.0

    @property
    def _grid(self) -> NDArray[np.float64]:
        """Points at equal distances, and more of them near zero."""
        ladder = 0.25 ** np.arange(2, 9)
        near_zero = self.zero + np.concatenate([-ladder, [0.0], ladder])
        grid = np.unique(np.concatenate([np.linspace(-1, 1, _N_LINEAR), near_zero]))
        return grid[(grid >= -1) & (grid <= 1)]

    def stds(self, mu: float) -> tuple[float, float]:
        """As for `lgb_dp.losses.loss.Loss`."""
        return noise_stds(
            _residual_clip(self.alpha), 1.0 if self.alpha is None else 0.5, self.hessian_share, mu
        )

    def targets(self, label: NDArray[np.float64], scale: LabelScale) -> NDArray[np.float64]:
        """Labels on the scale of [-1, 1]."""
        return np.ascontiguousarray(scale.targets(label, 0))

    def start(self, counts: NDArray[np.float64], noise: float) -> Start:
        """The quantile of the labels (Huber: the median), and a threshold that is a share of their spread."""
        labels = LabelCounts.of(self._grid, counts, noise)
        middle = labels.quantile(0.5)
        spread = float(labels.count @ np.abs(labels.point - middle) / labels.count.sum())
        threshold = self.threshold
        if threshold is None:
            threshold = max(SMOOTHED_SHARE * spread, 1e-6)
        return Start(
            n_rows=float(max(counts.sum(), 1.0)),
            prior=np.array([middle if self.alpha is None else labels.quantile(self.alpha)]),
            clip=threshold,
            value_unit=threshold,
            row_hessian=1.0 if self.alpha is None else 0.5,
        )

    def pairs(self, target: NDArray[np.float64], clip: float) -> TablePairs:
        """As for `lgb_dp.losses.loss.Loss`; `clip` is T."""
        return TablePairs(target, False, residual_table(self.alpha, self.hessian_share), 1.0 / clip)

    interpolation_exponent = 0.0

    def table_kernel(self, clip: float) -> TableKernel:
        """As for `lgb_dp.losses.loss.Loss`."""
        line = (1.0, 0.0, 1.0) if self.alpha is None else (0.5, 0.5 - self.alpha, 0.5)
        return residual_tables, np.array([1.0 / clip, *line])


def log_link_loss(
    power: float | None, scale: LabelScale, gradient_clip: float | None, hessian_share: float, mu: float
) -> LogLinkLoss:
    """The loss of a logarithmic link of power ρ, by default Tweedie's parameter, as `loss_of` makes it."""
    rho = scale.of_objective["tweedie_variance_power"] if power is None else power
    return LogLinkLoss(rho, scale.low, scale.high, gradient_clip, hessian_share)


def huber_loss(
    scale: LabelScale, gradient_clip: float | None, hessian_share: float, mu: float
) -> ResidualLoss:
    """Huber's loss; `InvalidArgumentError` if its threshold is next to nothing beside the labels' range."""
    _refuse_clip(scale, gradient_clip, "alpha is its clip")
    alpha = scale.of_objective["alpha"]
    threshold = min(alpha / scale.scale, 2.0)
    if threshold < MIN_THRESHOLD:
        raise InvalidArgumentError(
            f"alpha={alpha:g} is too small: at least {MIN_THRESHOLD / 2:g} times the width of "
            "label_bounds is accepted"
        )
    return ResidualLoss(None, threshold, _zero(scale), hessian_share)


def quantile_loss(
    scale: LabelScale, gradient_clip: float | None, hessian_share: float, mu: float
) -> ResidualLoss:
    """The quantile's loss, and the absolute one, which is that of the median."""
    _refuse_clip(scale, gradient_clip, "its gradients have a bound of their own")
    return ResidualLoss(scale.of_objective.get("alpha", 0.5), None, _zero(scale), hessian_share)


def _zero(scale: LabelScale) -> float:
    return float(np.clip(-scale.centre / scale.scale, -1.0, 1.0))


def _refuse_clip(scale: LabelScale, gradient_clip: float | None, why: str) -> None:
    if gradient_clip is not None:
        raise InvalidArgumentError(
            f"gradient_clip must be 'auto' for objective={scale.objective!r}, got {gradient_clip}: {why}"
        )


# Losses of errors in [-1, 1], which are in units of `worst`; they are in [0, 1].


def absolute_error(error: FloatArray, worst: float, parameter: float) -> FloatArray:
    """Of medians."""
    return np.abs(error)


def pinball_error(error: FloatArray, worst: float, parameter: float) -> FloatArray:
    """Of quantiles."""
    share = np.where(error > 0, parameter, 1.0 - parameter)
    return np.asarray(share * np.abs(error) / max(parameter, 1.0 - parameter))


def huber_error(error: FloatArray, worst: float, parameter: float) -> FloatArray:
    """Of Huber's loss."""
    t, size = min(parameter / worst, 1.0), np.abs(error)
    return np.asarray(np.where(size <= t, size**2 / 2, t * (size - t / 2)) / (t * (1.0 - t / 2)))
