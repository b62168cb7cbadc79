"""A grown private tree, and the same tree in LightGBM's terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts import lightgbm as host
from lgb_dp.data.bins import PublicBins

MIN_GAIN = 1e-12
_NODES_AT_ONCE = 1024


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


def _up_the_trees(
    leaf_value: NDArray[np.float64], leaf_count: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Value, count and gain of every internal node from the released leaves: post-processing, free.

    A node's value is the mean of its leaves', its count their sum, and its gain the variance that its split
    explains, ``c_L v_L² + c_R v_R² - c v²``, which for square loss is LightGBM's gain.  It is kept above 0,
    since LightGBM's feature importances skip splits without gain.

    Parameters
    ----------
    leaf_value, leaf_count : ndarray, shape (n_trees, n_leaves)

    Returns
    -------
    value, count, gain : ndarray, shape (n_trees, n_leaves - 1)
    """
    n_trees = len(leaf_value)
    values, counts = [leaf_value], [leaf_count]
    gains: list[NDArray[np.float64]] = []
    while counts[0].shape[1] > 1:
        total = (counts[0] * values[0]).reshape(n_trees, -1, 2).sum(axis=2)
        count = counts[0].reshape(n_trees, -1, 2).sum(axis=2)
        squares = (counts[0] * values[0] ** 2).reshape(n_trees, -1, 2).sum(axis=2)
        gains.insert(0, np.maximum(squares - total**2 / count, MIN_GAIN))
        values.insert(0, total / count)
        counts.insert(0, count)
    return (
        np.concatenate(values[:-1], axis=1),
        np.concatenate(counts[:-1], axis=1),
        np.concatenate(gains, axis=1),
    )


def to_lightgbm(trees: Iterable[PrivateTree], bins: PublicBins) -> list[host.Tree]:
    """Trees as LightGBM's model file has them, thresholds and categories from the public bins."""
    found: list[host.Tree] = []
    for n_nodes, of_one_size in groupby(trees, key=lambda tree: len(tree.feature)):
        while together := list(islice(of_one_size, max(1, _NODES_AT_ONCE // n_nodes))):
            found += _of_one_size(together, bins)
    return found


def _of_one_size(trees: list[PrivateTree], bins: PublicBins) -> list[host.Tree]:
    feature, goes_left = np.stack([t.feature for t in trees]), np.stack([t.goes_left for t in trees])
    n_bins, is_categorical = bins.n_bins[feature], bins.is_categorical[feature]
    codes = np.arange(goes_left.shape[2])
    n_left = np.count_nonzero(goes_left.astype(bool) & (codes < n_bins[..., None]), axis=2)
    last_left = np.maximum(bins.value_offsets[feature] + n_left - 1, 0)
    threshold = np.where(is_categorical, 0.0, bins.all_values[last_left])
    sent_left = np.take_along_axis(goes_left, n_bins[..., None], axis=2)[..., 0] > 0
    missing_left = sent_left & ~is_categorical
    n_internal = feature.shape[1]
    left_categories: list[list[NDArray[np.int64] | None]] = [[None] * n_internal for _ in trees]
    for t, i in np.argwhere(is_categorical):
        left = goes_left[t, i, : n_bins[t, i]].astype(bool)
        left_categories[t][i] = bins.values[feature[t, i]][left].astype(np.int64)
    children = np.arange(1, 2 * n_internal + 1, dtype=np.int32)
    children = np.where(children < n_internal, children, ~(children - n_internal))
    value, count, gain = _up_the_trees(
        np.stack([tree.leaf_value for tree in trees]), np.stack([tree.leaf_count for tree in trees])
    )
    return [
        host.Tree(
            feature=tree.feature,
            threshold=threshold[t],
            left_categories=tuple(left_categories[t]),
            missing_left=missing_left[t],
            left_child=children[0::2],
            right_child=children[1::2],
            leaf_value=tree.leaf_value,
            leaf_count=tree.leaf_count,
            internal_value=value[t],
            internal_count=count[t],
            gain=gain[t] / tree.learning_rate**2,
            shrinkage=tree.learning_rate,
        )
        for t, tree in enumerate(trees)
    ]
