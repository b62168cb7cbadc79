"""The nodes that a row visits in every tree: who splits them, by what, and where the row goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.channel import ACTIVE
from xgb_fed.vertical.explaining.sides import OWN
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.tree import LEAF, ROOT, FederatedTree


@dataclass(frozen=True)
class PathStep:
    """One node that a row visits.

    Attributes
    ----------
    tree, node : int
        The tree's number in the model, and the node's in the tree.
    owner : str or None
        Name of the party that splits the node, "active" for the active one; None at a leaf.
    condition : str
        Condition to go left: the active party's own condition, or "split 3" of a passive party; empty at a
        leaf.
    goes_left : bool or None
        Where the row goes; None at a leaf.
    value : tuple of float
        Contribution of a leaf to the margin, one number or one per class; empty at a split.
    """

    tree: int
    node: int
    owner: str | None
    condition: str
    goes_left: bool | None
    value: tuple[float, ...]

    def __str__(self) -> str:
        """One line."""
        if self.owner is None:
            values = ", ".join(f"{value:.6g}" for value in self.value)
            return f"tree {self.tree}, node {self.node}: leaf {values}"
        side = "left" if self.goes_left else "right"
        return f"tree {self.tree}, node {self.node}: {self.owner}, {self.condition}: {side}"


@dataclass(frozen=True)
class DecisionPaths:
    """The paths of some rows.

    Attributes
    ----------
    leaves : ndarray of int32, shape (n_rows, n_trees)
        Each row's leaf in each tree.
    trees : list of FederatedTree
    numbers : list of int
        The trees' numbers in the model.
    splits : Splits
        The active party's.
    parties : list of str
        Names of the passive parties.
    """

    leaves: NDArray[np.int32]
    trees: Sequence[FederatedTree]
    numbers: Sequence[int]
    splits: Splits
    parties: Sequence[str]

    def __len__(self) -> int:
        return len(self.leaves)

    def of_row(self, row: int) -> list[PathStep]:
        """The nodes that a row visits, tree by tree, from the root to the leaf.

        Parameters
        ----------
        row : int
            Position among the explained rows.

        Returns
        -------
        list of PathStep

        Raises
        ------
        IndexError
            If there is no such row.
        """
        steps: list[PathStep] = []
        for tree, number, leaf in zip(self.trees, self.numbers, self.leaves[row].tolist(), strict=True):
            nodes = [leaf]
            while tree.parent[nodes[-1]] != ROOT:
                nodes.append(tree.parent[nodes[-1]])
            nodes.reverse()
            for node, child in zip(nodes, [*nodes[1:], LEAF], strict=True):
                steps.append(self._step(tree, number, node, child))
        return steps

    def _step(self, tree: FederatedTree, number: int, node: int, child: int) -> PathStep:
        owner, split = tree.owner[node], tree.split_id[node]
        if owner == LEAF:
            return PathStep(number, node, None, "", None, tuple(tree.value[node]))
        own = owner == OWN
        return PathStep(
            number,
            node,
            ACTIVE if own else self.parties[owner - 1],
            self.splits.condition(split) if own else f"split {split}",
            child == tree.left[node],
            (),
        )
