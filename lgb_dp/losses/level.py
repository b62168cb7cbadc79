"""The level of a model, from a last release: one factor of all predictions, or one number added to them.

Gradients are cut to a clip C that keeps the noise of trees small, and labels far above their prediction then
count for less than they are: the mean of the predictions is below that of the labels by what is cut off.  So
a run ends with the sums G and H of the gradients and hessians of all rows, at a wider clip.

*Logarithmic link* (`FactorLevel`).  With predictions km in the place of m, the gradients of power ρ sum to
``k^(1-ρ) (G + (k - 1) H)``, as long as none is cut, and ``k = 1 - G / H`` is the factor of least deviance;
for Poisson's loss it makes both means equal.  The clip: of the points on which labels are counted, the one
above the largest that stands out of the noise.  If rows above a point are lost in the noise of their count,
so is what the sums lose by cutting them off.

*Square loss* (`MeanLevel`).  The Newton step ``-G / H`` of one leaf makes the means equal, as long as no
residual is cut.  The clip: as wide as noise allows.

*Sensitivity.*  A row adds one pair (g, h) to the two sums, in units of this clip, which keeps to the joint
bound of `lgb_dp.losses.loss` whatever the clip is.  So noise of `Loss.stds` makes the release μ-GDP,
like that of a tree of one leaf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lgb_dp.losses.label_counts import LabelCounts

_WIDEST, _NARROWEST = 64.0, 4.0
"""Clip over the hessian at the mean label: integer steps are few beyond, and hessians are cut below."""

MAX_COST = 0.008
"""Deviance that noise of the factor may add, over that of the best constant; a third of it is left."""

_MOST = 2.0
"""The factor, or one over it, at most."""

LARGEST_DOUBT = 0.01
"""Standard deviation of the mean that is added with the square loss, at most, in halves of the width of the
label's bounds; a third of its square is left of the noise, and residuals are some 20 times as large."""

SCALE_CLIP = 3.0
"""Clip of derivatives by the logarithm of the scale."""

_LARGEST_DOUBT_OF_SCALE = 0.15
"""Standard deviation of the noise in a step, at most."""

_LONGEST_STEP = 0.5

_LEAST_WIDER = 3.0
"""Clip of the square loss's sums over that of its trees, from which on it says more than these did."""


class _Level:
    """Releases of sums over all rows, after some shares of the trees."""

    shares: ClassVar[tuple[float, ...]] = (1.0,)

    def iterations(self, n_trees: int) -> set[int]:
        """Numbers of the trees after which there is a release."""
        return {max(math.ceil(share * n_trees), 1) for share in self.shares}


@dataclass(frozen=True)
class MeanLevel(_Level):
    """Mean of the labels, for the square loss.

    Clips, in the unit of `lgb_dp.losses.loss.Loss.pairs`, are in units of the trees': beyond `widest`, no
    residual is cut. `row_hessian` is that of a row whose residual is small.
    """

    widest: float
    row_hessian: float
    clip: float = 1.0

    def planned(self, std: float, n_rows: float) -> MeanLevel | None:
        """The release at a noise in G of standard deviation `std`, in rows, or 0; None if it is not worth it.

        The released number of rows is positive.  The clip is the widest that noise allows: a wider one makes
        a unit of the sums larger, and their noise with it, since -G / H is in units of the clip.
        """
        doubt = std / (n_rows * self.row_hessian)
        clip = min(self.widest, LARGEST_DOUBT / doubt) if doubt > 0 else self.widest
        return replace(self, clip=clip) if clip >= _LEAST_WIDER else None

    def shift(self, gradient: float, hessian: float, std: float) -> float:
        """Number to add to all scores, on the scale of [-1, 1], from the released sums: post-processing.

        Arguments are G, H and the standard deviation of the noise in G, in the same unit.
        """
        return float(np.clip(self.clip * without_noise(gradient, hessian, std), -1.0, 1.0))


@dataclass(frozen=True)
class FactorLevel(_Level):
    """Factor of all predictions, for a logarithmic link.

    The clip C of its gradients is at least that of the trees, and `row_hessian` is that of a row of mean
    label, in units of the clip. Beyond a standard deviation `largest_doubt` of the factor, the release costs
    more than it is worth.
    """

    clip: float
    row_hessian: float
    largest_doubt: float

    @classmethod
    def of(cls, labels: LabelCounts, power: float, mean: float, clip: float) -> FactorLevel:
        """The last release for labels that are known by their noisy counts.

        A factor that is wrong by δ adds about ``m^(2-ρ) δ²`` to a row's deviance, whose second derivative by
        the logarithm of the prediction m is ``2 m^(2-ρ)`` on average.

        Labels are in units of the largest, ρ is in [1, 2], and the mean is the prior prediction, in (0, 1];
        `clip` is that of the trees.
        """
        hessian = mean ** (2 - power)
        last = int(np.flatnonzero(labels.count)[-1])
        above = float(labels.point[min(last + 1, len(labels.point) - 1)])
        wide = min(mean ** (1 - power) * (above - mean), _WIDEST * hessian)
        wide = max(wide, clip, _NARROWEST * hessian)
        deviance = labels.count @ unit_deviance(labels.point, mean, power) / labels.count.sum()
        return cls(wide, hessian / wide, math.sqrt(MAX_COST * float(deviance) / hessian))

    def planned(self, std: float, n_rows: float) -> FactorLevel | None:
        """As for `MeanLevel`; the clip stays."""
        return None if std / (n_rows * self.row_hessian) > self.largest_doubt else self

    def shift(self, gradient: float, hessian: float, std: float) -> float:
        """As for `MeanLevel`: the logarithm of the factor."""
        factor = 1.0 + without_noise(gradient, hessian, std)
        return float(np.clip(math.log(max(factor, 1 / _MOST)), -math.log(_MOST), math.log(_MOST)))


@dataclass(frozen=True)
class ScaleLevel(_Level):
    """Scale of a law of times, in steps of its logarithm while trees are grown, which then follow it.

    `clip` is minus the scale, by which the loss knows that derivatives by its logarithm are asked for, cut at
    `SCALE_CLIP`.  Of the released rows a share `events` has an event, each of so much Fisher `information`.
    """

    clip: float
    events: float
    information: float
    shares = (0.1, 0.25, 0.5, 0.75, 1.0)

    def planned(self, std: float, n_rows: float) -> ScaleLevel | None:
        """As for `MeanLevel`; the clip stays."""
        doubt = std * SCALE_CLIP / (n_rows * max(self.events, 1e-9) * self.information)
        return self if doubt < _LARGEST_DOUBT_OF_SCALE else None

    def scale(self, gradient: float, hessian: float, std: float) -> float:
        """The scale after one step."""
        step = without_noise(gradient, self.information * hessian, std)
        return -self.clip * math.exp(float(np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)))


Level: TypeAlias = MeanLevel | FactorLevel | ScaleLevel


def unit_deviance(label: NDArray[np.float64], mean: float, power: float) -> NDArray[np.float64]:
    """Deviance of labels from a mean: twice the integral of ``(label - t) / t^ρ`` from mean to label.

    Labels are not negative, and positive at ρ = 2; the mean is positive, and ρ in [1, 2].
    """
    if power == 2.0:
        return np.asarray(2 * (label / mean - 1 - np.log(label / mean)))
    if power == 1.0:
        logarithm = np.log(np.where(label > 0, label, mean) / mean)
        return np.asarray(2 * (label * logarithm - label + mean))
    a, b = power - 1, 2 - power
    ratio = label / mean
    logarithm = np.log(np.where(label > 0, ratio, 1.0))
    upper = np.where(label > 0, np.expm1(a * logarithm) / a, 0.0)
    lower = np.where(label > 0, np.expm1(b * logarithm), -1.0) / b
    # Differences, since 1 / a and 1 / b alone would lose all digits near a = 0 and b = 0.
    return np.asarray(2 * mean**b * np.maximum(ratio**b * upper - lower, 0.0))


def without_noise(gradient: float, hessian: float, std: float) -> float:
    """Newton step of all rows, as far as the noise lets it be known.

    With v = -G / H of standard deviation δ = σ / H, it is v (1 - δ² / v²), or 0 where |v| is below δ:
    predictions stay where they are unless the release says otherwise. Arguments are G, H and σ, in the same
    unit.
    """
    if hessian <= std or abs(gradient) <= std:
        return 0.0
    return -gradient / hessian * (1.0 - (std / gradient) ** 2)
