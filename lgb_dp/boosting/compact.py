"""Compact form of a complete tree, without the nodes that decide nothing.

Those are subtrees of equal leaves, and splits with a side that no value reaches.  No prediction changes, and
nothing but the tree itself is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CODES = np.arange(256)


@dataclass(frozen=True)
class CompactShape:
    """Which nodes of complete trees remain.

    Nodes are numbered level by level: node ``i`` has children ``2i + 1`` and ``2i + 2``, and the leaves of
    the complete tree come last. Arrays have shape (n_trees, n_nodes).
    """

    is_split: NDArray[np.bool_]  # splits and leaves remain; the other nodes are left out
    is_leaf: NDArray[np.bool_]
    instead: NDArray[np.int64]  # the split or leaf that stands where a child of a remaining split was
    value: NDArray[np.float64]  # of the leaves


def _levels(n_nodes: int) -> list[slice]:
    """Nodes of each level but that of the leaves."""
    return [slice(2**k - 1, 2 ** (k + 1) - 1) for k in range(n_nodes.bit_length() - 1)]


def _children(level: slice) -> tuple[slice, slice]:
    """Left and right children of a level's nodes."""
    left, right = (slice(2 * level.start + side, 2 * level.stop + side, 2) for side in (1, 2))
    return left, right


def reached_nodes(
    feature: NDArray[np.int32], goes_left: NDArray[np.bool_], n_bins: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which nodes some row could reach: one below another of the same feature may have nothing to divide.

    Features, their numbers of bins and directions are those of the inner nodes, shape (n_trees, n_internal).
    Codes of a feature are 0 to its number of bins, the last of missing values. The result has shape
    (n_trees, 2 * n_internal + 1).
    """
    n_trees, n_internal = feature.shape
    arrives = n_bins[..., None] >= _CODES
    ancestor = child = np.arange(n_internal)
    while ancestor.any():
        child, ancestor = ancestor, np.maximum(ancestor - 1, 0) // 2
        tree, own = np.nonzero((feature == feature[:, ancestor]) & (ancestor != child))
        went_left = child[own] % 2 == 1
        arrives[tree, own] &= goes_left[tree, ancestor[own]] == went_left[:, None]
    reached = np.ones((n_trees, 2 * n_internal + 1), dtype=np.bool_)
    reached[:, 1::2] = (arrives & goes_left).any(axis=2)
    reached[:, 2::2] = (arrives & ~goes_left).any(axis=2)
    for level in _levels(reached.shape[1]):
        for children in _children(level):
            reached[:, children] &= reached[:, level]
    return reached


def complete_shape(leaf_value: NDArray[np.float64]) -> CompactShape:
    """Leave out nothing; leaf values have shape (n_trees, n_leaves)."""
    n_trees, n_leaves = leaf_value.shape
    value = np.concatenate([np.zeros((n_trees, n_leaves - 1)), leaf_value], axis=1)
    node = np.broadcast_to(np.arange(2 * n_leaves - 1), value.shape)
    return CompactShape(node < n_leaves - 1, node >= n_leaves - 1, node, value)


def compact_shape(leaf_value: NDArray[np.float64], reached: NDArray[np.bool_]) -> CompactShape:
    """Leave out what decides nothing, but for the root: LightGBM has no use for trees of one leaf.

    Leaf values have shape (n_trees, n_leaves); `reached` is from `reached_nodes`.
    """
    n_nodes = reached.shape[1]
    lowest, highest = np.full(reached.shape, np.inf), np.full(reached.shape, -np.inf)
    reached_leaf = reached[:, n_nodes // 2 :]
    lowest[:, n_nodes // 2 :] = np.where(reached_leaf, leaf_value, np.inf)
    highest[:, n_nodes // 2 :] = np.where(reached_leaf, leaf_value, -np.inf)
    instead = np.broadcast_to(np.arange(n_nodes), reached.shape).copy()
    is_split = np.zeros(reached.shape, dtype=np.bool_)
    levels = _levels(n_nodes)
    for level in reversed(levels):
        left, right = _children(level)
        lowest[:, level] = np.minimum(lowest[:, left], lowest[:, right])
        highest[:, level] = np.maximum(highest[:, left], highest[:, right])
        differs = lowest[:, level] != highest[:, level]
        is_split[:, level] = differs & reached[:, left] & reached[:, right]
        passed_on = np.where(reached[:, left], instead[:, left], instead[:, right])
        instead[:, level] = np.where(differs & ~is_split[:, level], passed_on, instead[:, level])
    is_split[:, 0] = True
    remains = np.zeros(reached.shape, dtype=np.bool_)
    remains[:, 0] = True
    for level in levels:
        tree, own = np.nonzero(remains[:, level] & is_split[:, level])
        for children in _children(level):
            remains[tree, instead[:, children][tree, own]] = True
    return CompactShape(remains & is_split, remains & ~is_split, instead, lowest)
