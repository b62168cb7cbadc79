"""Gradients and hessians of any objective, as the installed XGBoost computes them.

XGBoost has no public call for the gradients of its objectives.  But it can refresh the statistics of a tree
on other rows, and if each leaf of that tree holds one row, the leaf's statistics are the row's: its
`sum_hessian` is h, and its weight, −g / (h + λ), is −g / λ for a λ that is a large power of two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_hosts.xgboost.model import ScalarTree, booster_from_trees
from gbdt_hosts.xgboost.targets import Targets, Vector

CustomObjective = Callable[[NDArray[Any], xgboost.DMatrix], tuple[Any, Any]]
"""XGBoost's `obj`: margins and data set to gradients and hessians."""

_LAMBDAS = (2.0**56, 2.0**100)
"""The first for hessians below 2^31, so that −g / (h + λ) is −g / λ in float32; the second for others.

Gradients below λ·2^-126 lose bits.
"""

_MAX_SEED = (1 << 32) - 1

COLUMN_BITS = 24
"""Bits of a row's number that one column holds: every integer up to 2^24 is a float32."""

_UBJSON_TYPES = {b"U": "u1", b"i": "i1", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}

_REFRESH = {
    "process_type": "update",
    "updater": "refresh",
    "reg_alpha": 0,
    "min_child_weight": 0,
    "eta": 1,
    "nthread": 1,
    "verbosity": 0,
}


class XGBoostGradients:
    """XGBoost's gradients of certain rows, at any margins.

    The objective in `params` has one margin per row. XGBoost's `seed` is for objectives that draw from its
    stream (`versions.pairs_follow_seed`).
    """

    def __init__(self, params: Mapping[str, Any], targets: Targets, seed: int | None = None) -> None:
        self._params = {**params, **_REFRESH, "base_score": 0.5}
        self._seed = seed
        numbers = np.arange(targets.n_rows)
        columns = np.stack([numbers >> COLUMN_BITS, numbers & ((1 << COLUMN_BITS) - 1)], axis=1)
        self._data = targets.matrix(columns.astype(np.float32))
        self._template, self._leaves = _one_leaf_per_row(targets.n_rows)

    def __call__(self, margin: Vector, draw: int) -> tuple[Vector, Vector]:
        """First and second derivatives of the loss, of the shape of the margins, (n_rows, 1).

        On `draw` some objectives' draws depend: with a seed, it is how many random numbers of its stream were
        taken before; else the number of the round. `ValueError` has XGBoost's words, if it refuses the
        labels.
        """
        self._data.set_base_margin(np.ascontiguousarray(margin).reshape(-1))
        g, h = self._refreshed(draw, _LAMBDAS[0])
        if h.max() >= _LAMBDAS[0] * 2.0**-25:
            g, h = self._refreshed(draw, _LAMBDAS[1])
        return g[:, None], h[:, None]

    def _refreshed(self, draw: int, penalty: float) -> tuple[Vector, Vector]:
        booster = xgboost.Booster(model_file=bytearray(self._template))
        if self._seed is not None:
            _go_on_drawing(booster, self._seed, draw)
        booster.set_param({**self._params, "reg_lambda": penalty})
        booster.update(self._data, draw)
        refreshed = bytes(booster.save_raw("ubj"))
        weight = _numbers(refreshed, "base_weights")[self._leaves]
        h = _numbers(refreshed, "sum_hessian")[self._leaves]
        return (-penalty * weight.astype(np.float64)).astype(np.float32), h


def _go_on_drawing(booster: xgboost.Booster, seed: int, n_drawn: int) -> None:
    """Put a booster's stream of random numbers where it is after so many of them.

    From version 3.3 on, the configuration of a booster has the state of its ``std::mt19937``.
    """
    config = json.loads(booster.save_config())
    # NumPy seeds its own Mersenne Twister by a whole number as the standard library of C++ does.
    stream = np.random.RandomState(seed & _MAX_SEED)
    stream.randint(0, 1 << 32, size=n_drawn, dtype=np.uint32)
    state = stream.get_state(legacy=False)["state"]
    general = config["learner"]["generic_param"]
    general["seed"] = general["random_state"] = str(seed)
    general["rng_state"] = " ".join(map(str, [*state["key"].tolist(), state["pos"]]))
    booster.load_config(json.dumps(config))


def custom_gradients(
    objective: CustomObjective, data: xgboost.DMatrix, margin: Vector
) -> tuple[Vector, Vector]:
    """Gradients and hessians of a user's own objective, of the shape of the margins, (n_rows, n_classes).

    `data` has the labels and weights of the rows; its columns are not the rows'. `ValueError` if the
    objective does not return two arrays with one number per margin.
    """
    # A copy: objectives may change what they are given, as XGBoost's own array of predictions.
    given = objective((margin[:, 0] if margin.shape[1] == 1 else margin).copy(), data)
    parts = given if isinstance(given, tuple) else ()
    arrays = [np.asarray(part, dtype=np.float32) for part in parts]
    if len(arrays) != 2 or any(array.size != margin.size for array in arrays):
        shapes = [array.shape for array in arrays]
        raise ValueError(
            f"must return gradients and hessians, one per margin ({margin.size}), not shapes {shapes}"
        )
    return arrays[0].reshape(margin.shape), arrays[1].reshape(margin.shape)


def _one_leaf_per_row(n_rows: int) -> tuple[bytes, NDArray[np.int64]]:
    """A model of one balanced tree that tells rows apart by their numbers, and each row's leaf."""
    n_nodes = 2 * n_rows - 1
    left, right, feature = (np.full(n_nodes, fill, dtype=np.int64) for fill in (-1, -1, 0))
    parent, condition = np.full(n_nodes, 2**31 - 1, dtype=np.int64), np.zeros(n_nodes)
    leaves = np.zeros(n_rows, dtype=np.int64)
    # Nodes of the level, and the range of rows of each.
    nodes, low, high = np.array([0]), np.array([0]), np.array([n_rows])
    n_made = 1
    while len(nodes):
        is_leaf = high - low == 1
        leaves[low[is_leaf]] = nodes[is_leaf]
        nodes, low, high = nodes[~is_leaf], low[~is_leaf], high[~is_leaf]
        middle = (low + high) // 2
        # Rows whose numbers differ in the high bits are told apart by these first.
        by_high = low >> COLUMN_BITS != (high - 1) >> COLUMN_BITS
        middle = np.where(by_high, ((middle - 1 >> COLUMN_BITS) + 1) << COLUMN_BITS, middle)
        middle = np.where(by_high & (middle >= high), (high - 1) >> COLUMN_BITS << COLUMN_BITS, middle)
        feature[nodes] = np.where(by_high, 0, 1)
        condition[nodes] = np.where(by_high, middle >> COLUMN_BITS, middle & ((1 << COLUMN_BITS) - 1))
        children = n_made + np.arange(2 * len(nodes))
        n_made += len(children)
        left[nodes], right[nodes] = children[::2], children[1::2]
        parent[children] = np.repeat(nodes, 2)
        nodes = children
        low, high = (np.stack(pair, axis=1).reshape(-1) for pair in ((low, middle), (middle, high)))
    zeros = np.zeros(n_nodes)
    arrays = {
        "left_children": left,
        "right_children": right,
        "parents": parent,
        "split_indices": feature,
        "split_conditions": condition,
        **dict.fromkeys(("base_weights", "default_left", "loss_changes", "split_type", "sum_hessian"), zeros),
    }
    model = _stump()
    for name, values in arrays.items():
        start, end, dtype = _place(model, name)
        size = len(values).to_bytes(8, "big")
        model = b"".join([model[: start - 8], size, values.astype(dtype).tobytes(), model[end:]])
    old, new = (_key("num_nodes") + b"S" + _length(text) + text.encode() for text in ("1", str(n_nodes)))
    return model.replace(old, new, 1), leaves


def _stump() -> bytes:
    """A model of one leaf on the two columns of row numbers, in XGBoost's UBJSON format."""
    leaf = ScalarTree([-1], [-1], [2**31 - 1], [0], [0.0], [False], [0.0], [0.0], [0.0])
    params: dict[str, Any] = {"objective": "reg:squarederror", "n_classes": 1, "base_score": [0.5]}
    return bytes(booster_from_trees([leaf], n_features=2, rounds=[0, 1], **params).save_raw("ubj"))


def _length(text: str) -> bytes:
    return b"L" + len(text).to_bytes(8, "big")


def _key(name: str) -> bytes:
    return _length(name) + name.encode()


def _place(model: bytes, name: str) -> tuple[int, int, str]:
    """Where the numbers of an array of a one-tree model in UBJSON begin and end, and their type."""
    marker = _key(name) + b"[$"
    kind = model.index(marker) + len(marker)
    dtype = _UBJSON_TYPES[model[kind : kind + 1]]
    start = kind + len(b"d#L") + 8
    size = int.from_bytes(model[start - 8 : start], "big")
    return start, start + size * np.dtype(dtype).itemsize, dtype


def _numbers(model: bytes, name: str) -> NDArray[np.float32]:
    """An array of a one-tree model in UBJSON."""
    start, end, dtype = _place(model, name)
    return np.frombuffer(model[start:end], dtype=dtype).astype(np.float32)
