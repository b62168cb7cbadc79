"""Trees grown by stock XGBoost on somebody's gradients, one at a time, as JSON of one-tree models."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

_ITERATION_IS_ASKED_FOR = "iteration" in inspect.signature(xgboost.Booster.boost).parameters
"""`Booster.boost` takes the iteration from version 2.1 on."""


class TreeGrower:
    """Grows trees on the same rows; they are binned once.

    Parameters
    ----------
    X : ndarray of float32, shape (n_rows, n_features), or CSR matrix
    params : mapping
        XGBoost's tree parameters.
    n_threads : int
        0 means all.
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
        }

    def grow(
        self, g: NDArray[np.float32], h: NDArray[np.float32], seed: int
    ) -> tuple[bytes, NDArray[np.float32]]:
        """A tree for these gradients and hessians, and the value of the leaf of every row.

        The values come from XGBoost's prediction cache, which knows every row's leaf.
        """
        booster = xgboost.Booster({**self._params, "seed": seed}, cache=[self._data])
        if _ITERATION_IS_ASKED_FOR:
            booster.boost(self._data, 0, grad=g, hess=h)
        else:
            booster.boost(self._data, grad=g, hess=h)
        values = booster.predict(self._data, output_margin=True)
        return bytes(booster.save_raw("json")), values


def read_tree(model: Any, n_features: int) -> dict[str, Any]:
    """The tree of a one-tree model in XGBoost's JSON, parsed, with everything that prediction rests on checked.

    Raises
    ------
    ValueError
        If it is not one binary numeric tree on columns below `n_features`.
    """
    try:
        (tree,) = model["learner"]["gradient_booster"]["model"]["trees"]
        left, right = (np.array(tree[k], dtype=np.int64) for k in ("left_children", "right_children"))
        feature = np.array(tree["split_indices"], dtype=np.int64)
        condition = np.array(tree["split_conditions"], dtype=np.float64)
        others = ("default_left", "base_weights", "loss_changes", "parents", "split_type", "sum_hessian")
        lengths = {len(left), len(right), len(feature), len(condition), *(len(tree[k]) for k in others)}
        kinds = set(tree["split_type"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"not a tree: {type(error).__name__}") from None
    n_nodes = len(left)
    leaf = left == -1
    children = np.concatenate([left[~leaf], right[~leaf]])
    above = np.tile(np.flatnonzero(~leaf), 2)
    if lengths != {n_nodes} or not n_nodes or kinds - {0} or (right[leaf] != -1).any():
        raise ValueError("not a tree of numeric splits")
    # Children after their parents, and each node but the root once: every path ends.
    if (children <= above).any() or not np.array_equal(np.sort(children), np.arange(1, n_nodes)):
        raise ValueError("children out of order")
    if not np.isfinite(condition).all() or ((feature < 0) | (feature >= n_features))[~leaf].any():
        raise ValueError("a split on no column of the data, or a value that is not finite")
    return dict(tree)


def read_models(text: bytes) -> list[Any]:
    """Models from a JSON list of them.

    Raises
    ------
    ValueError
        If it is no such list.
    """
    models = json.loads(text)
    if not isinstance(models, list):
        raise ValueError("not a list of models")
    return models


def write_models(models: list[bytes]) -> bytes:
    """The JSON list of models in JSON."""
    return b"[" + b",".join(models) + b"]"
