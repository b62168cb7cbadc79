"""The level of a model with a logarithmic link: one factor of all predictions, from a last release.

Gradients are cut to a clip C that keeps the noise of trees small, and labels far above their prediction then
count for less than they are: the mean of the predictions is below that of the labels by what is cut off.  So
a run ends with the sums G and H of the gradients and hessians of all rows, at a wider clip.  With
predictions km in the place of m, the gradients of power ρ sum to ``k^(1-ρ) (G + (k - 1) H)``, as long as none
is cut, and ``k = 1 - G / H`` is the factor of least deviance; for Poisson's loss it makes both means equal.

*Sensitivity.*  A row adds one pair (g, h) to the two sums, in units of this clip, which keeps to the joint
bound of `lgb_dp.newton.losses.loss` whatever the clip is.  So noise of `Loss.stds` makes the release μ-GDP,
like that of a tree of one leaf.

*Clip.*  Of the points on which labels are counted, the one above the largest that stands out of the noise:
if rows above a point are lost in the noise of their count, so is what the sums lose by cutting them off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lgb_dp.newton.losses.label_counts import LabelCounts

_WIDEST, _NARROWEST = 64.0, 4.0
"""Clip over the hessian at the mean label: integer steps are few beyond, and hessians are cut below."""

_MAX_COST = 0.008
"""Deviance that noise of the factor may add, over that of the best constant; `log_factor` leaves a third."""

_MOST = 2.0
"""The factor, or one over it, at most."""


@dataclass(frozen=True)
class Level:
    """Clip of the last release, and its worth.

    Parameters
    ----------
    clip : float
        C of its gradients, at least that of the trees.
    row_hessian : float
        Hessian of a row of mean label, in units of the clip.
    largest_doubt : float
        Standard deviation of the factor beyond which the release costs more than it is worth.
    """

    clip: float
    row_hessian: float
    largest_doubt: float

    @classmethod
    def of(cls, labels: LabelCounts, power: float, mean: float, clip: float) -> Level:
        """The last release for labels that are known by their noisy counts.

        A factor that is wrong by δ adds about ``m^(2-ρ) δ²`` to a row's deviance, whose second derivative by
        the logarithm of the prediction m is ``2 m^(2-ρ)`` on average.

        Parameters
        ----------
        labels : LabelCounts
            In units of the largest label.
        power : float
            ρ in [1, 2].
        mean : float
            Prior prediction, in (0, 1].
        clip : float
            That of the trees.
        """
        hessian = mean ** (2 - power)
        last = int(np.flatnonzero(labels.count)[-1])
        above = float(labels.point[min(last + 1, len(labels.point) - 1)])
        wide = min(mean ** (1 - power) * (above - mean), _WIDEST * hessian)
        wide = max(wide, clip, _NARROWEST * hessian)
        deviance = labels.count @ unit_deviance(labels.point, mean, power) / labels.count.sum()
        return cls(wide, hessian / wide, math.sqrt(_MAX_COST * float(deviance) / hessian))

    def doubt(self, std: float, n_rows: float) -> float:
        """Standard deviation of the factor, by that of G in rows and the released number of rows."""
        return std / (n_rows * self.row_hessian)


def unit_deviance(label: NDArray[np.float64], mean: float, power: float) -> NDArray[np.float64]:
    """Deviance of labels from a mean: twice the integral of ``(label - t) / t^ρ`` from mean to label.

    Parameters
    ----------
    label : ndarray of float64
        Not negative; positive at ρ = 2.
    mean : float
        Positive.
    power : float
        ρ in [1, 2].
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


def log_factor(gradient: float, hessian: float, std: float) -> float:
    """Logarithm of the factor of all predictions, from the released sums: post-processing.

    With v = -G / H of standard deviation δ = σ / H, the factor is 1 + v (1 - δ² / v²), or 1 where |v| is
    below δ: predictions stay where they are unless the release says otherwise.

    Parameters
    ----------
    gradient, hessian, std : float
        G, H and the standard deviation of the noise in G, in the same unit.
    """
    if hessian <= std or abs(gradient) <= std:
        return 0.0
    change = -gradient / hessian * (1.0 - (std / gradient) ** 2)
    return float(np.clip(math.log(max(1.0 + change, 1 / _MOST)), -math.log(_MOST), math.log(_MOST)))
