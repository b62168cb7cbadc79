"""Finders of splits: the active party in its own columns, or a passive party under encryption.

Each gets the nodes of a level and gives the best candidate split of every node; the
finder whose candidate is chosen then splits the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.candidates import NO_TERMS, Candidate, NodeTerms
from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.trees.partition import Partition


@dataclass
class Level:
    """The nodes of one level of a tree.

    Attributes
    ----------
    rows : ndarray of bool, shape (n_rows,)
        The sample.
    partition, sampled : Partition
        Rows of every node: all of them, and those of the sample.
    sums : ndarray of int64, shape (2, 2, n_classes, n_nodes)
        Exact sums over the sampled rows.
    above : Partition or None
        The level above; None at the root.
    assignment : dict
        For nodes of the level above that were split: the party that split them, and which rows went left.
    terms : dict
        By party, of every node: what constrains its candidates; empty if nothing does.
    """

    rows: NDArray[np.bool_]
    partition: Partition
    sampled: Partition
    sums: NDArray[np.int64]
    above: Partition | None = None
    assignment: dict[int, tuple[int, NDArray[np.bool_]]] = field(default_factory=dict)
    terms: dict[int, list[NodeTerms]] = field(default_factory=dict)

    def terms_of(self, node: int, party: int) -> NodeTerms:
        """Constraints on a node's candidates in a party's columns."""
        return self.terms[party][node] if self.terms else NO_TERMS


@dataclass(frozen=True)
class Split:
    """A split as the active party knows it: its number at the owner, and which rows go left."""

    split_id: int
    goes_left: NDArray[np.bool_]


class SplitFinder(Protocol):
    """One party's part in growing a tree."""

    def start_tree(self, tree: int, gradients: FixedPointGradients, rows: NDArray[np.bool_]) -> None:
        """Start a new tree on the rows of a sample."""

    def find(self, level: Level) -> dict[int, Candidate]:
        """Give the best candidate of every node that can be split here; of equal ones XGBoost's first."""

    def split(self, level: Level, chosen: dict[int, Candidate]) -> dict[int, Split]:
        """Split nodes, each at its candidate."""
