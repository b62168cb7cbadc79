"""Leaf values of one tree for rows that are not binned: ``x < threshold`` goes left, as in XGBoost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numba import uintp
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run

_AT_ONCE = 64
"""Rows that go down a tree together."""


@dataclass(frozen=True)
class RawTree:
    """A tree; node 0 is the root, children have higher numbers than their parent."""

    left: NDArray[np.int32]  # children; −1 at leaves
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    condition: NDArray[np.float32]  # threshold of a split, value of a leaf
    default_left: NDArray[np.bool_]  # where missing values go


@kernel
def _depth(left, right):
    """Splits on the longest path."""
    depth, deepest = np.zeros(len(left), dtype=np.int64), 0
    for node in range(len(left)):
        deepest = max(deepest, depth[node])
        if left[node] >= 0:
            depth[left[node]] = depth[right[node]] = depth[node] + 1
    return deepest


@kernel
def _route_dense(values, left, right, feature, condition, default_left, start, stop, out):
    """Rows go down a level at a time, some at once, without a jump: a leaf is its own child."""
    depth = _depth(left, right)
    child = np.empty((len(left), 2), dtype=np.int32)
    for node in range(len(left)):
        child[node, 0] = left[node] if left[node] >= 0 else node
        child[node, 1] = right[node] if left[node] >= 0 else node
    nodes = np.empty(_AT_ONCE, dtype=np.int32)
    for first in range(start, stop, _AT_ONCE):
        n = min(_AT_ONCE, stop - first)
        nodes[:] = 0
        for _ in range(depth):
            for k in range(n):
                # Unsigned indices spare numba its check for counting from the end.
                node = uintp(nodes[k])
                value = values[uintp(first + k), uintp(feature[node])]
                goes_left = (value < condition[node]) | ((value != value) & default_left[node])
                nodes[k] = child[node, uintp(not goes_left)]
        for k in range(n):
            out[first + k] = condition[nodes[k]]


@kernel
def _stored(indices, values, first, last, feature):
    """A row's value of a feature by bisection, NaN if it stores none."""
    while first < last:
        middle = (first + last) // 2
        if indices[middle] == feature:
            return values[middle]
        if indices[middle] < feature:
            first = middle + 1
        else:
            last = middle
    return np.float32(np.nan)


@kernel
def _route_csr(indptr, indices, values, left, right, feature, condition, default_left, start, stop, out):
    """As `leaf_values`, rows `start` to `stop` - 1 of a CSR matrix: ``out`` is float32."""
    for row in range(start, stop):
        node = 0
        while left[node] >= 0:
            value = _stored(indices, values, indptr[row], indptr[row + 1], feature[node])
            goes_left = default_left[node] if np.isnan(value) else value < condition[node]
            node = left[node] if goes_left else right[node]
        out[row] = condition[node]


def leaf_values(X: Any, tree: RawTree, n_threads: int = 0) -> NDArray[np.float32]:
    """Value of the leaf that each row of X, float32, reaches.

    NaN is missing, and so are entries that a sparse matrix, CSR with sorted indices, does not store.
    """
    out = np.empty(X.shape[0], dtype=np.float32)
    nodes = (tree.left, tree.right, tree.feature, tree.condition, tree.default_left)

    def work(_part: int, start: int, stop: int) -> None:
        if scipy.sparse.issparse(X):
            _route_csr(X.indptr, X.indices, X.data, *nodes, start, stop, out)
        else:
            _route_dense(X, *nodes, start, stop, out)

    run(work, blocks(len(out), n_threads, 8))
    return out
