"""A grown private tree, and the same tree in LightGBM's terms."""

from __future__ import annotations

from dataclasses import dataclass

import gbdt_hosts
import numpy as np
from numpy.typing import NDArray

from lgb_dp.bins import PublicBins

SMALLEST_GAIN = 1e-12


@dataclass(frozen=True)
class PrivateTree:
    """A complete tree over bin codes; node ``i`` has children ``2i + 1`` and ``2i + 2``.

    Nothing in it is exact: splits were drawn, leaves carry noise, counts are noisy or constant.

    Parameters
    ----------
    feature : ndarray of int32, shape (2**depth - 1,)
    goes_left : ndarray of uint8, shape (2**depth - 1, 256)
        1 where a bin code goes left.
    leaf_value : ndarray of float64, shape (2**depth,)
        In raw score units, learning rate applied.
    leaf_count : ndarray of int64, shape (2**depth,)
        At least 1.
    learning_rate : float
    """

    feature: NDArray[np.int32]
    goes_left: NDArray[np.uint8]
    leaf_value: NDArray[np.float64]
    leaf_count: NDArray[np.int64]
    learning_rate: float


def _up_the_tree(
    leaf_value: NDArray[np.float64], leaf_count: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Value, count and gain of every internal node from the released leaves: post-processing, free.

    A node's value is the mean of its leaves', its count their sum, and its gain the variance that its split
    explains, ``c_L v_L² + c_R v_R² - c v²``, which for square loss is LightGBM's gain.  It is kept above 0,
    since LightGBM's feature importances skip splits without gain.
    """
    values, counts = [leaf_value], [leaf_count]
    gains: list[NDArray[np.float64]] = []
    while len(counts[0]) > 1:
        total = (counts[0] * values[0]).reshape(-1, 2).sum(axis=1)
        count = counts[0].reshape(-1, 2).sum(axis=1)
        squares = (counts[0] * values[0] ** 2).reshape(-1, 2).sum(axis=1)
        gains.insert(0, np.maximum(squares - total**2 / count, SMALLEST_GAIN))
        values.insert(0, total / count)
        counts.insert(0, count)
    return np.concatenate(values[:-1]), np.concatenate(counts[:-1]), np.concatenate(gains)


def to_lightgbm(tree: PrivateTree, bins: PublicBins) -> gbdt_hosts.Tree:
    """The tree as LightGBM's model file has it, thresholds and categories from the public bins."""
    n_internal = len(tree.feature)
    node = np.arange(n_internal, dtype=np.int32)
    n_bins, first_value = bins.n_bins[tree.feature], bins.value_offsets[tree.feature]
    is_bin = np.arange(tree.goes_left.shape[1]) < n_bins[:, None]
    n_left = np.count_nonzero(tree.goes_left * is_bin, axis=1)
    is_categorical = bins.is_categorical[tree.feature]
    threshold = np.where(is_categorical, 0.0, bins.all_values[np.maximum(first_value + n_left - 1, 0)])
    missing_left = ~is_categorical & (tree.goes_left[node, n_bins] > 0)
    left_categories: list[NDArray[np.int64] | None] = [None] * n_internal
    for i in np.flatnonzero(is_categorical):
        left = tree.goes_left[i, : n_bins[i]].astype(bool)
        left_categories[i] = bins.values[tree.feature[i]][left].astype(np.int64)

    def child(number: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(number < n_internal, number, ~(number - n_internal)).astype(np.int32)

    value, count, gain = _up_the_tree(tree.leaf_value, tree.leaf_count)
    return gbdt_hosts.Tree(
        feature=tree.feature,
        threshold=threshold,
        left_categories=tuple(left_categories),
        missing_left=missing_left,
        left_child=child(2 * node + 1),
        right_child=child(2 * node + 2),
        leaf_value=tree.leaf_value,
        leaf_count=tree.leaf_count,
        internal_value=value,
        internal_count=count,
        gain=gain / tree.learning_rate**2,
        shrinkage=tree.learning_rate,
    )
