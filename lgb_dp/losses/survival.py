"""Accelerated failure time: the logarithm of a time to an event is F + s·Z, of a public scale s.

The law of Z is logistic, normal or extreme (Weibull's), with median 0, so that exp(F) is the median time.  A
row whose event is known to come between two times has the loss -log P, P being the probability of that; the
density takes its place where both are equal.

With the logistic law, and a and b the probabilities of an event before either time, the derivatives are
g = 1 - a - b and h = a (1 - a) + b (1 - b), in units of 1/s and 1/s².  Since a + b = 1 - g, h is largest at
a = b, where it is (1 - g²) / 2.  So |g| ≤ 1, and with κ = ½, g² + (h / κ)² ≤ g² + (1 - g²)² ≤ 1: every row
keeps to the joint bound of `lgb_dp.losses.loss` as it is, censored or not.  The gradients of the other laws
have no bound.  Theirs, as all hessians, are cut by construction, as in `lgb_dp.losses.regression`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_ndtr, logit, ndtri

from gbdt_kernels.trees import TimePairs, time_pairs
from lgb_dp.checks import AUTO, POSITIVE, Auto, checked_choice, checked_number
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.losses.label_counts import counts_on_grid
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.level import SCALE_CLIP, ScaleLevel
from lgb_dp.losses.loss import STEPS, Start, TableKernel, largest_hessians, noise_stds
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.losses.times import TIMES

FloatArray = NDArray[np.float64]

LAWS = ("logistic", "normal", "extreme")
"""Laws of Z, in the order of their numbers in `gbdt_kernels.trees.time_pairs`."""

_CLIP = {"logistic": 1.0, "normal": 1.5, "extreme": 2.5}
"""Clip C of the gradients, in units of 1/s."""

_HESSIAN_LIMIT = {"logistic": 0.5, "normal": 1.0, "extreme": 1.0}
"""κ of the same, in units of 1/s²."""

INFORMATION = {"logistic": 1.43, "normal": 2.0, "extreme": 1.82}
"""Fisher's, of an observed event about the logarithm of the scale."""

_N_POINTS = 16
"""Points at equal distances of the logarithm on which times are counted, of events and of others."""

_SHARE_OF_SPREAD = 0.5
"""Scale of the law around each row's median, over that of one law for all rows, to begin with.

Trees at the scale of all rows would put medians of censored rows 10 to 25% too late.
"""

_SCALES = 0.02 * 1.15 ** np.arange(29)
"""Scales that are tried for all rows, over the width of the logarithms of the public times."""

_BEYOND = 3.0
"""Logarithm of the largest median of all rows over the last of the public times."""


def AFT(distribution: str = "logistic", scale: float | Auto = "auto") -> str:
    """Objective of accelerated failure time, for ``lightgbm.train({"objective": lgb_dp.AFT()}, …)``.

    Parameters
    ----------
    distribution : {"logistic", "normal", "extreme"}
        Law of the logarithm of a time around its median: times are log-logistic, log-normal or Weibull's.
    scale : "auto" or float
        Public scale of that law, as XGBoost's `aft_loss_distribution_scale`.  "auto" begins with
        half of what describes all rows alike and follows the trees, by releases of sums over all rows.

    Returns
    -------
    str
        Labels are times, as `lgb_dp.DPLGBMSurvival.fit` takes them, and a trainer is `lgb_dp.NewtonBoost`.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted.
    """
    checked_choice("distribution", distribution, LAWS)
    return OBJECTIVES[f"aft_{distribution}"].text(checked_number("scale", scale, POSITIVE, AUTO))


def log_survival(law: str, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the probability of an event later than z scales after the median."""
    if law == "extreme":
        return np.asarray(-math.log(2) * np.exp(np.minimum(z, 700.0)))
    return np.asarray(log_expit(-z) if law == "logistic" else log_ndtr(-z))


def quantile_of(law: str, scale: float, share: float) -> float:
    """Distance from the median of the logarithm of the time by which a share of the events has come."""
    if law == "extreme":
        return scale * math.log(-math.log1p(-share) / math.log(2))
    return float(scale * (logit(share) if law == "logistic" else ndtri(share)))


@lru_cache(maxsize=16)
def _hessian_limits(limit: float, hessian_share: float) -> NDArray[np.int16]:
    """Largest hessian, in steps, of a row of gradient ``(entry - STEPS) / STEPS``; as in `regression`."""
    gradient = np.arange(-STEPS, STEPS + 1) / STEPS
    return np.floor(largest_hessians(gradient, 1.0, limit, hessian_share) * STEPS).astype(np.int16)


@dataclass(frozen=True)
class SurvivalLoss:
    """Loss of times in units of the largest, whose logarithms are targets.

    The smallest time is `low`, in (0, 1). Sums are in units of the clip C. The scale s is in the place of
    `lgb_dp.losses.loss.Start.clip`, since it may follow from the first release.
    """

    law: str
    scale: float  # 0 if the first release tells
    low: float
    hessian_share: float
    n_targets = 1

    @property
    def _clip(self) -> float:
        return _CLIP[self.law]

    @property
    def _limit(self) -> float:
        return min(_HESSIAN_LIMIT[self.law] / self._clip, 1.0)

    @property
    def largest_value(self) -> float:
        """As for `lgb_dp.losses.loss.Loss`, in units of s."""
        return 4.0 if self.law == "logistic" else self._clip

    def stds(self, mu: float) -> tuple[float, float]:
        """As for `lgb_dp.losses.loss.Loss`."""
        return noise_stds(1.0, self._limit, self.hessian_share, mu)

    def targets(self, label: NDArray[Any], scale: LabelScale) -> NDArray[Any]:
        """Logarithms of times over the largest."""
        target = np.empty(len(label), dtype=TIMES)
        with np.errstate(divide="ignore"):
            for name in TIMES.names or ():
                target[name] = np.log(label[name] / scale.high)
        return target

    @property
    def _grid(self) -> NDArray[np.float64]:
        return np.linspace(np.log(self.low), 0.0, _N_POINTS)

    def n_counts(self, n_outputs: int) -> int:
        """Points on which times are counted, of events and of right-censored rows."""
        return 2 * _N_POINTS

    def label_counts(
        self, target: NDArray[Any], weight: NDArray[np.int32], n_outputs: int
    ) -> NDArray[np.int64]:
        """As for `lgb_dp.losses.loss.Loss`: a row counts in one of two grids, by `counts_on_grid`.

        A right-censored row is at its last time, any other one halfway between its two.
        """
        lower, grid = np.maximum(target["lower"], np.log(self.low)), self._grid
        is_event = np.isfinite(target["upper"])
        middle = (lower + np.where(is_event, target["upper"], lower)) / 2
        return np.concatenate(
            [counts_on_grid(middle[some], weight[some], grid, STEPS) for some in (is_event, ~is_event)]
        )

    def start(self, counts: NDArray[np.float64], noise: float) -> Start:
        """The logarithm of the median of all rows, and the scale if it is not given."""
        seen = np.where(counts > noise, counts, 0.0)
        lower = np.tile(self._grid, 2)
        upper = np.where(np.arange(2 * _N_POINTS) < _N_POINTS, lower, np.inf)

        def pairs(score: float, scale: float, ends: NDArray[np.float64]) -> FloatArray:
            found = np.empty((2, len(lower)))
            own = np.full(len(lower), score), lower, ends, LAWS.index(self.law)
            time_pairs(*own, 1 / scale, 1.0, False, *found)
            return found

        def median(scale: float) -> float:
            """Where the sum of the gradients is 0, which do not fall as scores rise."""
            low, high = float(np.log(self.low)), _BEYOND
            for _ in range(40):
                middle = (low + high) / 2
                clipped = np.clip(pairs(middle, scale, upper)[0], -self._clip, self._clip)
                low, high = (middle, high) if seen @ clipped < 0 else (low, middle)
            return low

        def likelihood(scale: float) -> float:
            """Logarithm; a hazard is the gradient of a censored row."""
            score = median(scale)
            hazard = -pairs(score, scale, np.full(len(lower), np.inf))[0] / scale
            logs = np.log(np.maximum(hazard, 1e-300)) * np.isfinite(upper)
            return float(seen @ (logs + log_survival(self.law, (lower - score) / scale)))

        scale = self.scale or _SHARE_OF_SPREAD * max(-np.log(self.low) * _SCALES, key=likelihood)
        prior = median(scale)
        share = float(seen @ np.isfinite(upper)) / max(seen.sum(), 1e-9)
        row_hessian = seen @ pairs(prior, scale, upper)[1] / max(seen.sum(), 1e-9) / self._clip
        return Start(
            n_rows=float(max(counts.sum(), 1.0)),
            prior=np.array([prior]),
            clip=float(scale),
            value_unit=float(scale),
            hessian_unit=self._clip / scale**2,
            row_hessian=float(np.clip(row_hessian, 0.05 * self._limit, self._limit)),
            level=None if self.scale else ScaleLevel(-float(scale), share, INFORMATION[self.law]),
        )

    def pairs(self, target: NDArray[Any], clip: float) -> TimePairs:
        """As for `lgb_dp.losses.loss.Loss`; `clip` is s, or -s for derivatives by its logarithm."""
        lower, upper = (np.ascontiguousarray(target[name]) for name in ("lower", "upper"))
        limits = _hessian_limits(self._limit, self.hessian_share)
        factor = 1 / (SCALE_CLIP if clip < 0 else self._clip)
        return TimePairs(lower, upper, LAWS.index(self.law), 1 / abs(clip), factor, clip < 0, limits)

    interpolation_exponent = 0.0

    def table_kernel(self, clip: float) -> TableKernel:
        """Refused."""
        raise UnsupportedParameterError("objective='aft' is not supported for columns apart")


def survival_loss(
    scale: LabelScale, gradient_clip: float | None, hessian_share: float, mu: float
) -> SurvivalLoss:
    """The loss of a law of times, as `lgb_dp.losses.registry.loss_of` makes it."""
    if gradient_clip is not None:
        raise InvalidArgumentError(
            f"gradient_clip must be 'auto' for objective={scale.objective!r}, got {gradient_clip}: "
            "its gradients have a bound of their own"
        )
    law, low = scale.objective.removeprefix("aft_"), scale.low / scale.high
    if not low:  # whose logarithm would make counts of rows unbounded
        raise InvalidArgumentError(
            f"label_bounds = ({scale.low:g}, {scale.high:g}) are too far apart for {scale.objective!r}"
        )
    return SurvivalLoss(law, scale.of_objective[OWN_SCALE], low, hessian_share)


OWN_SCALE = "aft_loss_distribution_scale"
"""XGBoost's name of s; 0 leaves it to the first release."""
