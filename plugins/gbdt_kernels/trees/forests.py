"""Forests sum the trees of a finished model for rows that are not binned, faster than one row after another.

A value matters only through the thresholds it lies between, so that each is replaced by a small code once.
A block of rows then goes down one tree after another, a level at a time and without jumps: its codes stay in
the fastest cache, and so does the tree.  Splits are LightGBM's: ``x <= threshold`` or a set of categories.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import uintp
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run
from gbdt_kernels.trees.layout import offsets

_ROWS_AT_ONCE = 256
_CODED_ROWS = 8 * _ROWS_AT_ONCE
"""Rows whose codes are kept at a time."""

MAX_CODE = 2**16 - 1
"""Largest code of a value, number of a column, and number of a node within its tree."""

_ZERO = np.float64(np.float32(1e-35))
"""LightGBM takes values no larger than this for 0."""


@dataclass(frozen=True)
class NodeLists:
    """Trees as lists of splits and leaves, one tree after the other."""

    n_leaves: NDArray[np.int64]  # of each tree, which has one split less
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]  # not looked at where a split is categorical
    missing_left: NDArray[np.bool_]  # where NaN goes; right where a split is categorical
    left_child: NDArray[np.int64]  # a split of the same tree, or its leaf ``~child`` if negative
    right_child: NDArray[np.int64]
    category_set: NDArray[np.int64]  # which of the sets goes left; negative where a split is numeric
    set_words: NDArray[np.uint32]  # bits of the sets, lowest category first, one set after the other
    set_offsets: NDArray[np.int64]  # (n_sets + 1,)
    leaf_value: NDArray[np.float64]


@kernel
def _lay_out(n_leaves, left_child, right_child, split, leaf_value, node, node_sets, sets, value, depth):
    """Number nodes breadth first, so that the right child is the one after the left.

    `split` (uint64) has a node's bits but for the number of its left child, which a leaf is itself.  False if
    the children of a tree make no tree.
    """
    first_split = first_leaf = first_node = 0
    for tree in range(len(n_leaves)):
        n_splits = n_leaves[tree] - 1
        n_nodes = 2 * n_splits + 1
        order = np.zeros(n_nodes, dtype=np.int64)
        level = np.zeros(n_nodes, dtype=np.int64)
        order[0] = 0 if n_splits else -1
        n_known = 1
        for i in range(n_nodes):
            own = order[i]
            if i >= n_known or not -n_leaves[tree] <= own < n_splits:
                return False
            if own < 0:
                node[first_node + i] = np.uint64(MAX_CODE << 16) | np.uint64(i)
                value[first_node + i] = leaf_value[first_leaf - own - 1]
                continue
            if n_known + 2 > n_nodes:
                return False
            node[first_node + i] = split[first_split + own] | np.uint64(n_known)
            node_sets[first_node + i] = sets[first_split + own]
            order[n_known] = left_child[first_split + own]
            order[n_known + 1] = right_child[first_split + own]
            level[n_known] = level[n_known + 1] = level[i] + 1
            n_known += 2
        depth[tree] = level[n_nodes - 1]
        first_split += n_splits
        first_leaf += n_leaves[tree]
        first_node += n_nodes
    return True


@kernel
def _code(value, edges, first, last):
    """Code of a numeric value: 0 if NaN, else 1 and how many thresholds are below it."""
    if value != value:
        return 0
    if abs(value) <= _ZERO:
        value = 0.0
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    return 1 + low - first


@kernel
def _category_code(value, n_categories):
    """Code of a category: 1 and its number, ``n_categories + 1`` if no set has it."""
    if not -1 < value < n_categories:
        return n_categories + 1
    return 1 + np.int64(value)


@kernel
def _fill_codes(X, column, edges, edge_offsets, n_categories, first, last, codes):
    """Write the codes (uint16) of rows `first` to `last` - 1, block by block, a column's side by side."""
    at = 0
    for start in range(first, last, _ROWS_AT_ONCE):
        for k in range(len(column)):
            for j in range(min(_ROWS_AT_ONCE, last - start)):
                value = np.float64(X[start + j, column[k]])
                if n_categories[k] < 0:
                    code = _code(value, edges, edge_offsets[k], edge_offsets[k + 1])
                else:
                    code = _category_code(value, n_categories[k])
                codes[at + j] = code
            at += _ROWS_AT_ONCE


@kernel
def _send_down(node, root, depth, codes, place):
    """Send rows to the leaves of a tree without categorical splits.

    A node's 64 bits are, 16 each and lowest first: its left child, a threshold's code, the column, and what
    is subtracted from codes first, which makes the code 0 of NaN the largest one where NaN goes right.
    Unsigned indices spare numba its check for counting from the end.
    """
    low = np.uint64(MAX_CODE)
    for _ in range(depth):
        for j in range(len(place)):
            own = node[root + uintp(place[j])]
            at = uintp((own >> np.uint64(32)) & low) * uintp(_ROWS_AT_ONCE) + uintp(j)
            code = np.uint32(codes[at]) - np.uint32(own >> np.uint64(48))
            goes_right = code > np.uint32((own >> np.uint64(16)) & low)
            place[j] = np.uint32(own & low) + np.uint32(goes_right)


@kernel
def _send_down_by_category(node, node_sets, words, root, depth, codes, place):
    """As `_send_down`, with categorical splits, whose codes are all above their threshold's, 0.

    Their sets, and the empty one of numeric splits, lie in `words` from ``node_sets`` on.
    """
    low = np.uint64(MAX_CODE)
    for _ in range(depth):
        for j in range(len(place)):
            at = root + uintp(place[j])
            own, set_at = node[at], node_sets[at]
            own_code = np.uint32(codes[uintp((own >> np.uint64(32)) & low) * uintp(_ROWS_AT_ONCE) + uintp(j)])
            code = own_code - np.uint32(own >> np.uint64(48))
            above = code > np.uint32((own >> np.uint64(16)) & low)
            category = (own_code - np.uint32(1)) * np.uint32(set_at != 0)
            word = words[uintp(set_at) + uintp(category >> np.uint32(5))]
            in_set = (word >> (category & np.uint32(31))) & np.uint32(1)
            place[j] = np.uint32(own & low) + (np.uint32(above) & (np.uint32(1) - in_set))


@kernel
def _add_trees(codes, n_columns, node, node_sets, words, root, depth, has_sets, value, trees, score):
    """Add the leaf values of trees ``trees[0]`` to ``trees[1] - 1`` to the rows of `codes`, in this order."""
    n_rows, n_outputs = score.shape
    places = np.empty(_ROWS_AT_ONCE, dtype=np.uint32)
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        place = places[: min(_ROWS_AT_ONCE, n_rows - start)]
        own_codes = codes[start * n_columns :]
        for tree in range(*trees):
            first = uintp(root[tree])
            place[:] = 0
            if has_sets[tree]:
                _send_down_by_category(node, node_sets, words, first, depth[tree], own_codes, place)
            else:
                _send_down(node, first, depth[tree], own_codes, place)
            for j in range(len(place)):
                score[start + j, tree % n_outputs] += value[first + uintp(place[j])]


@dataclass(frozen=True)
class Forest:
    """Trees laid out for `scores`; `plant` makes one."""

    column: NDArray[np.int64]  # features that trees split
    edges: NDArray[np.float64]  # the columns' thresholds, ascending
    edge_offsets: NDArray[np.int64]  # (n_columns + 1,)
    n_categories: NDArray[np.int64]  # 1 more than the largest category of a set; negative: numeric column
    node: NDArray[np.uint64]
    node_sets: NDArray[np.uint32]
    words: NDArray[np.uint32]
    root: NDArray[np.int64]
    depth: NDArray[np.int64]
    has_sets: NDArray[np.bool_]  # whether a tree has categorical splits
    value: NDArray[np.float64]  # of the leaves, a number for each node

    def scores(
        self, X: NDArray[np.floating], first_tree: int, last_tree: int, n_outputs: int = 1, n_threads: int = 0
    ) -> NDArray[np.float64]:
        """Sums of leaf values, added in the order of the trees: shape (n_rows, n_outputs).

        X has all features that the trees split, in float32 or float64. Trees `first_tree` to
        ``last_tree - 1`` are summed; tree t counts for output ``t % n_outputs``.
        """
        score = np.zeros((len(X), n_outputs))
        n_columns = len(self.column)

        def work(_: int, first: int, last: int) -> None:
            codes = np.empty(_CODED_ROWS * n_columns, dtype=np.uint16)
            for start in range(first, last, _CODED_ROWS):
                stop = min(start + _CODED_ROWS, last)
                edges = (self.edges, self.edge_offsets, self.n_categories)
                _fill_codes(X, self.column, *edges, start, stop, codes)
                nodes = (self.node, self.node_sets, self.words, self.root, self.depth, self.has_sets)
                trees = (first_tree, last_tree)
                _add_trees(codes, n_columns, *nodes, self.value, trees, score[start:stop])

        steps = int(self.depth[first_tree:last_tree].sum()) + n_columns
        run(work, blocks(len(X), n_threads, max(1, steps)))
        return score


def plant(trees: NodeLists) -> Forest | None:
    """Lay trees out for prediction; None if they cannot be.

    There is none for what codes of 16 bits have no room for, thresholds that are NaN, features that are split
    both as numbers and as categories, and children that make no tree.
    """
    column, split_column = np.unique(trees.feature, return_inverse=True)
    is_set = trees.category_set >= 0
    set_bits = np.full(len(column), -1)
    np.maximum.at(set_bits, split_column[is_set], 32 * np.diff(trees.set_offsets)[trees.category_set[is_set]])
    numeric = ~is_set
    if (set_bits[split_column[numeric]] >= 0).any() or np.isnan(trees.threshold[numeric]).any():
        return None
    edge_column, edges, rank = _distinct(split_column[numeric], trees.threshold[numeric])
    edge_offsets = offsets(np.bincount(edge_column, minlength=len(column)))
    sizes = (np.diff(edge_offsets), set_bits, [len(column)], 2 * trees.n_leaves)
    if max(np.max(size, initial=0) for size in sizes) + 1 >= MAX_CODE:
        return None
    code = np.zeros(len(trees.feature), dtype=np.uint64)
    code[numeric] = rank - edge_offsets[split_column[numeric]] + trees.missing_left[numeric]
    subtracted = (numeric & ~trees.missing_left).astype(np.uint64)
    split = code << 16 | split_column.astype(np.uint64) << 32 | subtracted << 48
    sets, words = _padded_sets(trees, set_bits[split_column])
    n_nodes = 2 * trees.n_leaves - 1
    root = offsets(n_nodes)
    node = np.zeros(root[-1], dtype=np.uint64)
    node_sets, value = np.zeros(len(node), dtype=np.uint32), np.zeros(len(node))
    depth = np.zeros(len(n_nodes), dtype=np.int64)
    children = (trees.left_child, trees.right_child)
    if not _lay_out(trees.n_leaves, *children, split, trees.leaf_value, node, node_sets, sets, value, depth):
        return None
    tree_of_split = np.repeat(np.arange(len(n_nodes)), trees.n_leaves - 1)
    has_sets = np.bincount(tree_of_split[is_set], minlength=len(n_nodes)) > 0
    return Forest(
        column, edges, edge_offsets, set_bits, node, node_sets, words, root[:-1], depth, has_sets, value
    )


def _distinct(
    column: NDArray[np.int64], threshold: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Columns and values of distinct thresholds, ascending, and which of them each split has."""
    order = np.lexsort((threshold, column))
    column, threshold = column[order], threshold[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (np.diff(column) != 0) | (threshold[1:] != threshold[:-1])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.cumsum(is_new) - 1
    return column[is_new], threshold[is_new], rank


def _padded_sets(
    trees: NodeLists, set_bits: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Where each split's set starts, and all sets, with a word of zeros after the column's largest category.

    Word 0 is the empty set of numeric splits.
    """
    is_set = trees.category_set >= 0
    length = np.where(is_set, set_bits // 32 + 1, 0)
    start = 1 + np.cumsum(length) - length
    words = np.zeros(1 + int(length.sum()), dtype=np.uint32)
    own = trees.category_set[is_set]
    own_length = np.diff(trees.set_offsets)[own]
    within = np.arange(own_length.sum()) - np.repeat(np.cumsum(own_length) - own_length, own_length)
    source = np.repeat(trees.set_offsets[:-1][own], own_length) + within
    words[np.repeat(start[is_set], own_length) + within] = trees.set_words[source]
    return np.where(is_set, start, 0).astype(np.uint32), words
