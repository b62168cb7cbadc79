"""Importance of splits and columns as XGBoost defines it: how often they split, with which gain and cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.trees.tree import LEAF, FederatedTree

KINDS = ("gain", "weight", "cover", "total_gain", "total_cover")


def check_kind(kind: object) -> None:
    """Raise `InvalidArgumentError` unless something is a kind of importance."""
    if kind not in KINDS:
        raise InvalidArgumentError(f"importance_type={kind!r} must be one of {', '.join(KINDS)}")


def importances_of(
    trees: Sequence[FederatedTree], times: Sequence[int], kind: str, name_of: Callable[[int, int], str]
) -> dict[str, float]:
    """Importances by name, in float32 and in the order in which XGBoost adds them up.

    Parameters
    ----------
    trees : sequence of FederatedTree
    times : sequence of int
        How many of XGBoost's trees each one is: a tree for all classes is one per class.
    kind : {"gain", "weight", "cover", "total_gain", "total_cover"}
    name_of : callable
        The name that a split counts under, by owner and number.

    Raises
    ------
    InvalidArgumentError
        If there is no such kind.
    """
    check_kind(kind)
    count: dict[str, int] = {}
    total: dict[str, np.float32] = {}
    for tree, n_times in zip(trees, times, strict=True):
        amounts = tree.sum_hessian if "cover" in kind else tree.loss_change
        for _ in range(n_times):
            for node in _walk(tree):
                name = name_of(tree.owner[node], tree.split_id[node])
                count[name] = count.get(name, 0) + 1
                total[name] = total.get(name, np.float32(0)) + np.float32(amounts[node])
    if kind == "weight":
        return {name: float(number) for name, number in count.items()}
    if kind.startswith("total"):
        return {name: float(amount) for name, amount in total.items()}
    return {name: float(amount / np.float32(count[name])) for name, amount in total.items()}


def _walk(tree: FederatedTree) -> Iterator[int]:
    """Splits as XGBoost comes to them: a node, what is below its right child, what is below its left one."""
    nodes = [0]
    while nodes:
        node = nodes.pop()
        if tree.owner[node] != LEAF:
            yield node
            nodes += [tree.left[node], tree.right[node]]
