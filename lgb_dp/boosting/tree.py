"""A grown private tree, and the same tree in LightGBM's terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts import lightgbm as host
from lgb_dp.boosting.compact import compact_shape, complete_shape, reached_nodes
from lgb_dp.data.bins import PublicBins

MIN_GAIN = 1e-12
_NODES_AT_ONCE = 1024
MIN_NODES_TO_LEAVE_OUT = 63
"""Splits from which on nodes are left out; a smaller tree stays complete, since little could be left out."""

_CODES = np.arange(256)


@dataclass(frozen=True)
class PrivateTree:
    """A complete tree over bin codes; node ``i`` has children ``2i + 1`` and ``2i + 2``.

    Nothing in it is exact: splits were drawn, leaves carry noise, counts are noisy or constant.
    """

    feature: NDArray[np.int32]  # (2**depth - 1,)
    goes_left: NDArray[np.uint8]  # (2**depth - 1, 256), 1 where a bin code goes left
    leaf_value: NDArray[np.float64]  # (2**depth,), in raw score units, learning rate applied
    leaf_count: NDArray[np.int64]  # (2**depth,), at least 1
    learning_rate: float


def _up_the_trees(
    leaf_value: NDArray[np.float64], leaf_count: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Value, count and gain of every internal node from the released leaves: post-processing, free.

    A node's value is the mean of its leaves', its count their sum, and its gain the variance that its split
    explains, ``c_L v_L² + c_R v_R² - c v²``, which for square loss is LightGBM's gain.  It is kept above 0,
    since LightGBM's feature importances skip splits without gain.  Leaves have shape (n_trees, n_leaves), the
    results (n_trees, n_leaves - 1).
    """
    n_trees = len(leaf_value)
    values, counts = [leaf_value], [leaf_count]
    gains: list[NDArray[np.float64]] = []
    while counts[0].shape[1] > 1:
        total = (counts[0] * values[0]).reshape(n_trees, -1, 2).sum(axis=2)
        count = counts[0].reshape(n_trees, -1, 2).sum(axis=2)
        squares = (counts[0] * values[0] ** 2).reshape(n_trees, -1, 2).sum(axis=2)
        mean = total / np.maximum(count, 1)
        gains.insert(0, np.maximum(squares - total * mean, MIN_GAIN))
        values.insert(0, mean)
        counts.insert(0, count)
    return (
        np.concatenate(values[:-1], axis=1),
        np.concatenate(counts[:-1], axis=1),
        np.concatenate(gains, axis=1),
    )


def to_lightgbm(trees: Iterable[PrivateTree], bins: PublicBins) -> list[host.Tree]:
    """Trees as LightGBM's model file has them, thresholds and categories from the public bins.

    Nodes of large trees that decide nothing are left out (`lgb_dp.boosting.compact`).
    """
    found: list[host.Tree] = []
    for n_nodes, of_one_size in groupby(trees, key=lambda tree: len(tree.feature)):
        while together := list(islice(of_one_size, max(1, _NODES_AT_ONCE // n_nodes))):
            found += _of_one_size(together, bins)
    return found


def _of_one_size(trees: list[PrivateTree], bins: PublicBins) -> list[host.Tree]:
    feature = np.stack([tree.feature for tree in trees])
    goes_left = np.stack([tree.goes_left for tree in trees]).astype(np.bool_)
    n_bins, is_categorical = bins.n_bins[feature], bins.is_categorical[feature]
    n_left = np.count_nonzero(goes_left & (n_bins[..., None] > _CODES), axis=2)
    last_left = np.maximum(bins.value_offsets[feature] + n_left - 1, 0)
    threshold = np.where(is_categorical, 0.0, bins.all_values[last_left])
    sent_left = np.take_along_axis(goes_left, n_bins[..., None], axis=2)[..., 0]
    missing_left = sent_left & ~is_categorical
    n_internal = feature.shape[1]
    leaf_value = np.stack([tree.leaf_value for tree in trees])
    leaf_count = np.stack([tree.leaf_count for tree in trees])
    shape = complete_shape(leaf_value)
    if n_internal >= MIN_NODES_TO_LEAVE_OUT:
        reached = reached_nodes(feature, goes_left, n_bins)
        leaf_count[~reached[:, n_internal:]] = 0
        shape = compact_shape(leaf_value, reached)
    value, count, gain = _up_the_trees(leaf_value, leaf_count)
    all_counts = np.concatenate([count, leaf_count], axis=1)
    number = np.where(
        shape.is_split, np.cumsum(shape.is_split, axis=1) - 1, ~(np.cumsum(shape.is_leaf, axis=1) - 1)
    )
    found = []
    for t, tree in enumerate(trees):
        split, leaf = np.flatnonzero(shape.is_split[t]), np.flatnonzero(shape.is_leaf[t])
        left_categories: list[NDArray[np.int64] | None] = [None] * len(split)
        for place in np.flatnonzero(is_categorical[t, split]):
            i = split[place]
            left = goes_left[t, i, : n_bins[t, i]]
            left_categories[place] = bins.values[feature[t, i]][left].astype(np.int64)
        left_child, right_child = (number[t, shape.instead[t, 2 * split + side]] for side in (1, 2))
        found.append(
            host.Tree(
                feature=tree.feature[split],
                threshold=threshold[t, split],
                left_categories=tuple(left_categories),
                missing_left=missing_left[t, split],
                left_child=left_child.astype(np.int32),
                right_child=right_child.astype(np.int32),
                leaf_value=shape.value[t, leaf],
                leaf_count=all_counts[t, leaf],
                internal_value=value[t, split],
                internal_count=count[t, split],
                gain=gain[t, split] / tree.learning_rate**2,
                shrinkage=tree.learning_rate,
            )
        )
    return found
