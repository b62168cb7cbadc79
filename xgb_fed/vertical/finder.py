"""Finders of splits: the active party in its own columns, or a passive party under encryption.

Each gets the nodes of a level and gives, for every node, its best loss change and
the candidates that reach it; the finder whose candidate is chosen then splits the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xgb_fed.vertical.gradients import FixedPointGradients
from xgb_fed.vertical.partition import Partition

NO_LOSS_CHANGE = np.float32(-np.inf)


@dataclass
class Level:
    """The nodes of one level of a tree.

    Attributes
    ----------
    rows : ndarray of bool, shape (n_rows,)
        The sample.
    partition, sampled : Partition
        Rows of every node: all of them, and those of the sample.
    wanted : ndarray of bool, shape (n_nodes,)
        Nodes that may be split.
    sums : ndarray of int64, shape (2, 2, n_classes, n_nodes)
        Exact sums over the sampled rows.
    above : Partition or None
        The level above; None at the root.
    assignment : dict
        For nodes of the level above that were split: the party that split them, and which rows went left.
    """

    rows: NDArray[np.bool_]
    partition: Partition
    sampled: Partition
    wanted: NDArray[np.bool_]
    sums: NDArray[np.int64]
    above: Partition | None = None
    assignment: dict[int, tuple[int, NDArray[np.bool_]]] = field(default_factory=dict)


@dataclass(frozen=True)
class BestCandidates:
    """The best candidates that a finder has for one node.

    Attributes
    ----------
    loss_change : float32
        −∞ if there is no candidate.
    tied : ndarray of int32
        Candidates with this loss change, in the finder's own numbers.
    """

    loss_change: np.float32
    tied: NDArray[np.int32]


NO_CANDIDATE = BestCandidates(NO_LOSS_CHANGE, np.empty(0, dtype=np.int32))


@dataclass(frozen=True)
class Split:
    """A split as the active party knows it: its number at the owner, and which rows go left."""

    split_id: int
    goes_left: NDArray[np.bool_]


class SplitFinder(Protocol):
    """One party's part in growing a tree."""

    def start_tree(self, tree: int, gradients: FixedPointGradients, rows: NDArray[np.bool_]) -> None:
        """Start a new tree on the rows of a sample."""

    def find(self, level: Level) -> dict[int, BestCandidates]:
        """Give the best candidates of every wanted node."""

    def split(self, level: Level, chosen: dict[int, BestCandidates]) -> dict[int, Split]:
        """Split nodes, each at the first of its tied candidates in XGBoost's order."""
