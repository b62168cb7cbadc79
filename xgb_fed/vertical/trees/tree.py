"""A federated tree as the active party has it: who splits each node, and the leaves' values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xgb_fed.errors import InvalidArgumentError

LEAF = -1
"""In place of an owner, a split or a child: the node is a leaf."""

ROOT = 2147483647
"""XGBoost's parent of the root."""


@dataclass
class FederatedTree:
    """Nodes in XGBoost's numbering: in the order in which they were split, left before right.

    Unless the tree was grown with ``grow_policy="lossguide"``, that is level by level.  An owner is 0 for the
    active party, k for the k-th passive one, `LEAF` for a leaf, and a split has its number at its owner. Each
    node's weight, before the learning rate, and value, a leaf's contribution to the margin, are one number
    per class; values are zeros at splits.
    """

    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)
    split_id: list[int] = field(default_factory=list)
    weight: list[list[float]] = field(default_factory=list)
    value: list[list[float]] = field(default_factory=list)
    loss_change: list[float] = field(default_factory=list)
    sum_hessian: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.left)

    def add(self, parent: int, weight: NDArray[np.float32], eta: np.float32, sum_hessian: float) -> int:
        """A new leaf; returns its number."""
        self.left.append(LEAF)
        self.right.append(LEAF)
        self.parent.append(parent)
        self.owner.append(LEAF)
        self.split_id.append(LEAF)
        self.weight.append(weight.tolist())
        self.value.append((weight * eta).astype(np.float32).tolist())
        self.loss_change.append(0.0)
        self.sum_hessian.append(float(np.float32(sum_hessian)))
        return len(self) - 1

    def split(
        self,
        node: int,
        owner: int,
        split_id: int,
        left: int,
        right: int,
        loss_change: float,
        weight: NDArray[np.float32] | None = None,
    ) -> None:
        """Make a leaf an inner node, which has another weight under monotone constraints."""
        self.left[node], self.right[node] = left, right
        if weight is not None:
            self.weight[node] = weight.tolist()
        self.owner[node], self.split_id[node] = owner, split_id
        self.value[node] = [0.0] * len(self.value[node])
        self.loss_change[node] = loss_change

    def set_values(self, values: dict[int, float], eta: np.float32) -> None:
        """Replace what some leaves of one value add to the margin; their weights stay."""
        for node, value in values.items():
            self.value[node] = [float(np.float32(value) * eta)]

    def values(self) -> NDArray[np.float32]:
        """Contribution of each node to the margin, shape (n_nodes, n_classes)."""
        return np.array(self.value, dtype=np.float32)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(self.__dict__)


def add_leaves(margin: NDArray[np.float32], values: NDArray[np.float32], group: int | None) -> None:
    """Add a tree's leaf values to the margins of one class, or of all (None)."""
    if group is None:
        margin += values
    else:
        margin[:, group] += values[:, 0]


KINDS = ("gain", "weight", "cover", "total_gain", "total_cover")


def check_kind(kind: object) -> None:
    """Raise `InvalidArgumentError` unless something is a kind of importance."""
    if kind not in KINDS:
        raise InvalidArgumentError(f"importance_type={kind!r} must be one of {', '.join(KINDS)}")


def importances_of(
    trees: Sequence[FederatedTree], times: Sequence[int], kind: str, name_of: Callable[[int, int], str]
) -> dict[str, float]:
    """Importances by name, in float32 and in the order in which XGBoost adds them up.

    `times` says how many of XGBoost's trees each one is: a tree for all classes is one per class.  `name_of`
    gives the name that a split counts under, by owner and number.  Raises `InvalidArgumentError` if there is
    no such kind.
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
