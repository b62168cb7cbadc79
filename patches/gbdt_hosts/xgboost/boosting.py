"""Trees grown by stock XGBoost on given gradients, one at a time, as one-tree models in its JSON format."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_hosts.xgboost.model import ScalarTree, as_json

_ITERATION_IS_ASKED_FOR = "iteration" in inspect.signature(xgboost.Booster.boost).parameters
"""`Booster.boost` takes the iteration from version 2.1 on."""


class NativeTreeGrower:
    """Grower of trees on the same rows, one at a time; the rows are binned once.

    Every tree is grown by a booster of its own. A booster that has grown trees draws columns by a stream that
    goes on from tree to tree, so that a tree would depend on when the process was started. `params` are
    XGBoost's tree parameters; no threads, 0, means all available processors.
    """

    def __init__(self, X: Any, params: Mapping[str, Any], n_threads: int = 0) -> None:
        self._data = xgboost.QuantileDMatrix(X, max_bin=params["max_bin"], nthread=n_threads or None)
        self._params = {
            **params,
            "tree_method": "hist",
            "objective": "reg:squarederror",
            "base_score": 0.0,
            "nthread": n_threads,
            "verbosity": 0,
            # Draws then depend on the seed, not on which thread has drawn how often before.
            "seed_per_iteration": True,
        }

    def grow(
        self, g: NDArray[np.float32], h: NDArray[np.float32], seed: int
    ) -> tuple[bytes, NDArray[np.float32]]:
        """Grow a tree on given gradients and hessians; the seed decides which rows and columns are sampled.

        Returns a one-tree model in XGBoost's JSON format, and the leaf value of each row. It comes from
        XGBoost's prediction cache, so that no tree is traversed.
        """
        booster = xgboost.Booster({**self._params, "seed": seed}, cache=[self._data])
        if _ITERATION_IS_ASKED_FOR:
            booster.boost(self._data, 0, grad=g, hess=h)
        else:
            booster.boost(self._data, grad=g, hess=h)  # type: ignore[call-arg]
        return as_json(booster), booster.predict(self._data, output_margin=True)


def growing_bytes(shape: tuple[int, int], max_depth: int, max_bin: int) -> int:
    """Estimate how many bytes a `NativeTreeGrower` takes beside the rows, whose matrix has this shape.

    XGBoost keeps a histogram of 16 bytes per bin of every node that may be split; a tree has fewer of these
    than 2^max_depth and fewer than rows. Measured with XGBoost 3.2 at 16 and 256 bins and 20,000 to 2,000,000
    rows: less than 4 bytes per value for the binned rows, and while they are binned, less than 24 bytes for
    each of the first 350 max_bin rows of a column.
    """
    n_rows, n_features = shape
    histograms = 16 * max_bin * min(1 << max_depth, n_rows)
    return n_features * (histograms + 4 * n_rows + 24 * min(n_rows, 350 * max_bin))


_TREE_BYTES, _NODE_BYTES = 512, 94
"""At most, in what `write_tree` writes: around the arrays, and for each node in all of them."""


def max_tree_bytes(max_depth: int) -> int:
    """Length of the longest tree of some levels that `write_tree` writes."""
    return int(_TREE_BYTES + _NODE_BYTES * (2 ** (max_depth + 1) - 1))


def write_tree(tree: ScalarTree) -> bytes:
    """Write a tree for other parties, without what it tells of the rows that it was grown on.

    Only splits and leaf values are passed on. Gains and base weights become 0. Sums of hessians, which count
    rows, become the number of leaves under each node: with zeros, XGBoost's SHAP values would be NaN.

    The tree's children follow their parents. The text, which `read_tree` reads, has the arrays of XGBoost's
    JSON format, in one order and one spelling of numbers, so that equal trees are equal bytes.
    """
    n_nodes = len(tree.left)
    n_leaves, parents = [1.0] * n_nodes, [2**31 - 1] * n_nodes
    for node in reversed(range(n_nodes)):
        left, right = tree.left[node], tree.right[node]
        if left != -1:
            n_leaves[node] = n_leaves[left] + n_leaves[right]
            parents[left] = parents[right] = node
    raw = {
        "left_children": [int(node) for node in tree.left],
        "right_children": [int(node) for node in tree.right],
        "parents": parents,
        "split_indices": [int(feature) for feature in tree.feature],
        "default_left": [int(flag) for flag in tree.default_left],
        "split_type": [0] * n_nodes,
        "split_conditions": [float(value) for value in np.asarray(tree.condition, dtype=np.float32)],
        "base_weights": [0.0] * n_nodes,
        "loss_changes": [0.0] * n_nodes,
        "sum_hessian": n_leaves,
    }
    model = {"learner": {"gradient_booster": {"model": {"trees": [raw]}}}}
    return json.dumps(model, separators=(",", ":")).encode()


def read_tree(model: bytes, n_features: int, group: int = 0) -> ScalarTree:
    """Read the tree of a one-tree model in XGBoost's JSON, and check everything that prediction relies on.

    `group` is the number of the class that the tree is for. `ValueError` if the model is not one binary tree
    of numeric splits on some of `n_features` columns.
    """
    try:
        parsed = json.loads(model)
        (raw,) = parsed["learner"]["gradient_booster"]["model"]["trees"]
        whole = ("left_children", "right_children", "parents", "split_indices", "default_left", "split_type")
        left, right, parent, feature, default_left, kinds = (
            np.asarray(raw[n], dtype=np.int64) for n in whole
        )
        real = ("split_conditions", "base_weights", "loss_changes", "sum_hessian")
        condition, weight, loss_change, hessian = (np.asarray(raw[n], dtype=np.float32) for n in real)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a tree: {type(error).__name__}") from None
    every = (left, right, parent, feature, default_left, kinds, condition, weight, loss_change, hessian)
    if {values.shape for values in every} != {(left.size,)} or not left.size:
        raise ValueError("not a tree: its arrays differ in length, or are empty")
    leaf = left == -1
    if kinds.any() or (right[leaf] != -1).any():
        raise ValueError("not a tree of numeric splits only")
    children, above = np.concatenate([left[~leaf], right[~leaf]]), np.tile(np.flatnonzero(~leaf), 2)
    # If children follow their parents, and each node but the root is a child once, every path ends.
    if (children <= above).any() or not np.array_equal(np.sort(children), np.arange(1, left.size)):
        raise ValueError("the nodes do not form a tree in which children follow their parents")
    if not np.isfinite([condition, weight, loss_change, hessian]).all():
        raise ValueError("a value of the tree is not finite")
    if ((feature < 0) | (feature >= n_features))[~leaf].any():
        raise ValueError("a split is on no column of the data")
    return ScalarTree(
        left.tolist(),
        right.tolist(),
        parent.tolist(),
        feature.tolist(),
        condition.tolist(),
        (default_left != 0).tolist(),
        weight.tolist(),
        loss_change.tolist(),
        hessian.tolist(),
        group,
    )
