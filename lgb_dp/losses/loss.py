"""The losses of NewtonBoost: gradients and hessians that are bounded as a pair.

A row adds a gradient g and a hessian h to one leaf, and both sums get Gaussian noise. The cost of the release
is the length of (g, h) measured in standard deviations of the noise, so g and h are bounded *jointly*: h is
smallest where g is largest. In units where |g| ≤ 1 every row keeps to

    (1 - s) (g / C)² + (h / κ)² ≤ 1,  |g| ≤ C,

with C the clip of the gradient, κ = `HESSIAN_LIMIT` and s the share of the budget that is set aside for the
hessian.  Noise of standard deviations σ_g = C / (μ √(1 - s)) and σ_h = κ / μ then makes the release μ-GDP.
At s = 0, the default, the hessian is free.

- logistic loss: g = p - y, h = |g| (1 - |g|).  At C = 1 the bound holds as it is: max h / √(1 - g²) is
  0.30028 < κ.  With a clip the loss is linear beyond |g| = C, and h is cut to the bound.
- square loss, residuals clipped (Huber's loss): g = (ŷ - y) / 2 for labels in [-1, 1], and
  h = √(1 - (g / C)²) / 2, which is the square loss's ½ at the minimum and falls off to Huber's 0.
- softmax: vectors g and h over the classes, ‖g‖² / 2 in the place of g² since ‖g‖ ≤ √2.
- square loss of K targets: vectors g and h, ‖g‖² / K in the place of g² and ‖h‖² / K in that of h².  The
  residuals (ŷ - y) / 2 are scaled down *together* to ‖g‖ ≤ √K C, and all h are √(1 - ‖g‖² / (K C²)) / 2, so
  that ‖g‖² / (K C²) + ‖h‖² / (K κ²) ≤ 1: noise of √K σ_g and √K σ_h makes one release of all targets μ-GDP.

`lgb_dp.losses.regression` has the other losses of regression.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.point_tables import logistic_tables, residual_tables
from gbdt_kernels.trees import ResidualPairs, RowPairs, SoftmaxPairs, TablePairs
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.level import Level, MeanLevel
from lgb_dp.losses.objective import SEVERAL_TARGETS

STEPS = 2**14
"""Integer steps of a gradient or hessian between 0 and 1; rounding is toward zero."""

EXACT_STD = 1 / STEPS
"""In the place of the noise's, at infinite ε: what rests on it must not divide by zero."""

HESSIAN_LIMIT: Mapping[str, float] = {
    "binary": 0.3003,
    "regression": 0.5,
    "multiclass": 0.3003 * float(np.sqrt(2)),
}
"""κ of each objective."""


GRADIENT_CLIP = {"binary": 0.5, "multiclass": 0.5, "regression": 0.08, SEVERAL_TARGETS: 0.055}
"""Clip C of each objective's gradients, where there is noise to speak of.

Noise is proportional to C.  Below 1 the loss of rows that are predicted badly grows linearly, which costs
little: on all eight sets C = 0.5 is as good as 1 at ε ≥ 1 and better below.  For regression the clip is in
units of the width of `label_bounds`, and most residuals are a small part of it; the length of several varies
less than one of them.
"""

_UNCLIPPED_FROM = 2.0
"""μ from which gradients of log-losses are not clipped.

On held-out folds, from ε = 10 on, C = 1 changes the AUC by -0.0004 to +0.0022 and takes up to 0.009 off the
log-loss; below it depends on the data.
"""

LOG_ODDS_REACH = 12.0
"""Largest distance from 0 of log-odds that tables of points cover."""

TableKernel = tuple[Callable[..., None], "float | NDArray[np.float64]"]

_TINY_COUNT = 1e-6
MAX_PRIOR = 4.0
"""Bound of the initial log-odds."""

_MAX_LOG_ODDS = 4.0
"""Bound of a leaf value before the learning rate."""


@dataclass(frozen=True)
class Start:
    """Start of a loss, as it follows from the first release."""

    n_rows: float  # released number of rows, at least 1, in rows of the largest weight
    prior: NDArray[np.float64]  # initial scores
    clip: float = 1.0  # C in the loss's own unit of gradients, which a unit of the sums is then
    value_unit: float = 1.0  # score per unit of -G / H
    hessian_unit: float = 1.0  # LightGBM's hessian of the objective per unit of H: λ is divided by it
    row_hessian: float = 0.25  # contribution of a row to H, about; positive
    level: Level | None = None  # releases about all rows, if trees leave something that these tell

    def at_scale(self, scale: float) -> Start:
        """The same where a loss of times, whose clip is its scale, goes on with another one."""
        unit = self.hessian_unit * (self.clip / scale) ** 2
        return replace(self, clip=scale, value_unit=scale, hessian_unit=unit)


class Loss(Protocol):
    """The loss of a training run: its label counts, and gradients and hessians that are bounded jointly."""

    @property
    def n_targets(self) -> int:
        """Outputs whose hessians are equal in every row."""

    @property
    def largest_value(self) -> float:
        """Bound of -G / H, before the learning rate."""

    def stds(self, mu: float) -> tuple[float, float]:
        """Deviations, in steps, of noise that makes sums of g and h, of weights at most 1, μ-GDP."""

    def targets(self, label: NDArray[np.float64], scale: LabelScale) -> NDArray[np.float64]:
        """Targets that scores are compared with, shape (n_rows,), of labels that fit the scale."""

    def n_counts(self, n_outputs: int) -> int:
        """Length of `label_counts`."""

    def label_counts(
        self, target: NDArray[np.float64], weight: NDArray[np.int32], n_outputs: int
    ) -> NDArray[np.int64]:
        """Rows by label, in steps; a row of weight w adds a vector that is at most ``STEPS w`` long."""

    def start(self, counts: NDArray[np.float64], noise: float) -> Start:
        """Start that follows from noisy label counts, in rows, with noise of the given standard deviation."""

    def pairs(self, target: NDArray[np.float64], clip: float) -> RowPairs:
        """Pairs that the rows add to the sums of a leaf, in steps; `clip` is that of `start`."""

    @property
    def interpolation_exponent(self) -> float:
        """The a of the functions b + c·e^(aF) that best follow a row's gradient between two points.

        Drawing a point that keeps the mean of e^(aF) has a bias of (g'' - a·g') / 2 times the point's
        variance, but for higher orders.  Zero for straight lines, and where the gradient bends either way.
        """

    def table_kernel(self, clip: float) -> TableKernel:
        """The kernel of `gbdt_kernels.point_tables`, and the numbers that it takes, of the clip of `start`.

        `InvalidArgumentError` if the loss has several outputs.
        """


def largest_hessians(
    gradient: NDArray[np.float64], clip: float, limit: float, hessian_share: float
) -> NDArray[np.float64]:
    """κ √(1 - (1 - s) (g / C)²), inside by a relative 1e-12, beyond what float64 loses here."""
    room = np.maximum(1.0 - (1.0 - hessian_share) * (gradient / clip) ** 2, 0.0)
    return np.asarray(limit * np.sqrt(room) * (1 - 1e-12))


def noise_stds(clip: float, limit: float, hessian_share: float, mu: float) -> tuple[float, float]:
    """Standard deviations, in steps, of noise that makes sums of g and h μ-GDP, of rows of weight at most 1.

    A row adds |g| ≤ C and h with (1 - s) (g / C)² + (h / κ)² ≤ 1.
    """
    return float(clip * STEPS / (mu * np.sqrt(1.0 - hessian_share))), limit * STEPS / mu


@lru_cache(maxsize=16)
def pair_table(objective: str, clip: float, hessian_share: float) -> NDArray[np.int16]:
    """Amount that a row of unclipped gradient ``(entry - STEPS) / STEPS`` adds to the two sums, in steps.

    The objective is "binary" or "regression", C in (0, 1] and s in [0, 1). Every entry, shape
    (2 * STEPS + 1, 2), keeps to the joint bound of the module.
    """
    size = np.arange(STEPS + 1) / STEPS
    g = np.floor(np.minimum(size, clip) * STEPS)
    largest = largest_hessians(g / STEPS, clip, HESSIAN_LIMIT[objective], hessian_share)
    curvature = size * (1 - size) if objective == "binary" else np.full(STEPS + 1, 0.5)
    h = np.floor(np.minimum(curvature, largest) * STEPS)
    mirrored = [np.concatenate([sign * half[:0:-1], half]) for sign, half in ((-1, g), (1, h))]
    return np.column_stack(mirrored).astype(np.int16)


@dataclass(frozen=True)
class NewtonLoss:
    """Loss of one training run for "binary", "regression" or "multiclass", C in (0, 1] and s in [0, 1).

    A regression may have several targets; C is of each.
    """

    objective: str
    clip: float
    hessian_share: float
    n_targets: int = 1

    @property
    def _limit(self) -> float:
        """Bound of the length of hessians."""
        return HESSIAN_LIMIT[self.objective] * math.sqrt(self.n_targets)

    def stds(self, mu: float) -> tuple[float, float]:
        """As for `Loss`."""
        gradient_norm = self.clip * math.sqrt(2 if self.objective == "multiclass" else self.n_targets)
        return noise_stds(gradient_norm, self._limit, self.hessian_share, mu)

    def targets(self, label: NDArray[np.float64], scale: LabelScale) -> NDArray[np.float64]:
        """As for `Loss`: 0 or 1, number of the class, or label on the scale of [-1, 1]."""
        if self.objective == "binary":
            return np.asarray(label == scale.high, dtype=np.float64)
        if self.objective == "regression":
            return np.ascontiguousarray(scale.targets(label, 0))
        return label

    @property
    def largest_value(self) -> float:
        """As for `Loss`.

        In log-odds; for regression the largest residual whose gradient is not clipped, 2 C, since rows beyond
        it have no hessian and a leaf of such rows would overshoot.
        """
        return 2 * self.clip if self.objective == "regression" else _MAX_LOG_ODDS

    def n_counts(self, n_outputs: int) -> int:
        """Number of classes, and 2 for each target of a regression."""
        return 2 * n_outputs if self.objective == "regression" else max(2, n_outputs)

    def label_counts(
        self, target: NDArray[np.float64], weight: NDArray[np.int32], n_outputs: int
    ) -> NDArray[np.int64]:
        """Rows of every class; a row of regression is divided between the two ends of the label's range.

        A row adds its weight to its class's count, or divides it as (1 + y)/2 and (1 - y)/2 between two:
        non-negative numbers of sum at most w, so their squares sum to at most w².  Of K targets all are over
        √K, and the squares of each sum to at most w²/K.
        """
        if self.objective == "multiclass":
            membership = target[:, None] == np.arange(n_outputs)
        elif self.objective == "binary":
            membership = np.column_stack([target == 0, target == 1])
        else:
            membership = np.column_stack([1 - target, 1 + target]) / (2 * math.sqrt(self.n_targets))
        steps = np.floor(membership * STEPS).astype(np.int64) * weight[:, None]
        return np.asarray(steps.sum(axis=0))

    def start(self, counts: NDArray[np.float64], noise: float) -> Start:
        """As for `Loss`: the prior is that of the counts, shrunk by the noise as leaves are."""
        # Two counts within the noise are taken to be equal; without any, no count is 0.
        floor = np.maximum(counts, 0.0) + max(noise, _TINY_COUNT)
        n_rows = float(max(counts.sum() / math.sqrt(self.n_targets), 1.0))
        if self.objective == "regression":
            below, above = floor.reshape(2, -1)
            prior = (above - below) / (below + above)
            return Start(n_rows, prior, row_hessian=0.5, level=MeanLevel(1.0 / self.clip, 0.5))
        log_counts = np.log(floor) - np.log(floor).mean()
        prior = log_counts if self.objective == "multiclass" else np.diff(log_counts)
        return Start(n_rows, np.clip(prior, -MAX_PRIOR, MAX_PRIOR))

    def pairs(self, target: NDArray[np.float64], clip: float = 1.0) -> RowPairs:
        """Pairs that the rows add to the sums of a leaf, in steps, by targets as `targets` gives them.

        The clip, not used for classes, is of residuals, in units of the loss's own: a residual counts for one
        over `clip` of itself, and may be as much larger.
        """
        if self.objective == "multiclass":
            own = (STEPS, self.clip, 1.0 - self.hessian_share, self._limit)
            return SoftmaxPairs(target.astype(np.int64), *own)
        if self.n_targets > 1:
            own = (STEPS, self.clip * math.sqrt(self.n_targets / 2), 1.0 - self.hessian_share, self._limit)
            return ResidualPairs(target, *own, 0.5 / clip)
        table = pair_table(self.objective, self.clip, self.hessian_share)
        return TablePairs(target, self.objective == "binary", table, 0.5 / clip)

    interpolation_exponent = 0.0

    def table_kernel(self, clip: float) -> TableKernel:
        """As for `Loss`."""
        if self.objective == "multiclass":
            raise InvalidArgumentError("tables are of one output: train classes one against the rest")
        if self.objective == "binary":
            return logistic_tables, self.clip
        # g = (F - y) / 2 up to C.
        return residual_tables, np.array([0.5 / self.clip, self.clip, 0.0, 0.5])


def bounded_loss(
    scale: LabelScale, gradient_clip: float | None, hessian_share: float, mu: float
) -> NewtonLoss:
    """The loss of an objective of `GRADIENT_CLIP`, as `lgb_dp.losses.registry.loss_of` makes it."""
    clip = gradient_clip
    if clip is None:
        is_clipped = scale.is_regression or mu < _UNCLIPPED_FROM
        clip = GRADIENT_CLIP[scale.objective] if is_clipped else 1.0
    if scale.entry.has_targets:
        return NewtonLoss("regression", clip, hessian_share, scale.n_outputs)
    return NewtonLoss(scale.objective, clip, hessian_share)
