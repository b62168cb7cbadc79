"""Leaf values and counts of a tree from the sums that were released over its leaves: post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.settings import SHRINKAGE


def denominators(release: LeafRelease, lambda_l2: float, least_std: float = 0.0) -> NDArray[np.float64]:
    """H + λ, and below the noise σ_g too, which keeps a leaf's step small; shape (n_leaves, n_outputs).

    σ_g counts as `least_std`, in rows, where it is less.
    """
    return np.maximum(release.hessian, 0.0) + lambda_l2 + SHRINKAGE * max(release.std, least_std)


def leaf_values(release: LeafRelease, denominator: NDArray[np.float64], bound: float) -> NDArray[np.float64]:
    """Newton steps -G / D of full length, between `bound` and its negative; shape (n_leaves, n_outputs)."""
    return np.clip(-release.gradient / denominator, -bound, bound)


def leaf_counts(release: LeafRelease, held: LeafRelease | None, row_hessian: float) -> NDArray[np.int64]:
    """About how many rows of the largest weight each leaf has, held out or not; shape (n_leaves, n_outputs).

    At least 1.  LightGBM adds counts in 32 bits, so that all together stay below 2³¹.
    """
    hessian = release.hessian if held is None else release.hessian + held.hessian
    return np.rint(hessian / row_hessian).clip(1, (2**31 - 1) // len(hessian)).astype(np.int64)
