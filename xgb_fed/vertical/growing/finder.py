"""Finders of splits: the active party in its own columns, or a passive party under encryption.

Each gets the nodes of a level and gives the best candidate split of every node; the
finder whose candidate is chosen then splits the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees.binning import DenseCodes
from gbdt_kernels.trees.histogram import level_histograms
from gbdt_kernels.trees.layout import BinLayout
from xgb_fed.boosting.candidates import NO_TERMS, Candidate, CandidateWalk, NodeTerms
from xgb_fed.boosting.categories import DEFAULT_RULES, CategoryRules
from xgb_fed.boosting.features import BinnedFeatures
from xgb_fed.boosting.split_gain import SplitGain
from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.partition import Partition


@dataclass
class TreeLevel:
    """The nodes of one level of a tree.

    `rows` is the sample.  Each node has all its rows in `partition`, those of the sample in `sampled`, and
    exact sums over these in `sums`, shape (2, 2, n_classes, n_nodes).  Of the level above, which the root
    lacks, `assignment` has the nodes that were split: the party that split them, and which rows went left.
    `terms` has by party, of every node, what constrains its candidates; it is empty if nothing does.
    """

    gradients: FixedPointGradients
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

    def start_tree(self, tree: int, rows: NDArray[np.bool_]) -> None:
        """Start a new tree on the rows of a sample."""

    def find(self, level: TreeLevel) -> dict[int, Candidate]:
        """Give the best candidate of every node that can be split here; of equal ones XGBoost's first."""

    def split(self, level: TreeLevel, chosen: dict[int, Candidate]) -> dict[int, Split]:
        """Split nodes, each at its candidate."""


class OwnColumns:
    """The active party's search in its own columns, in clear; `splits` keeps its splits."""

    def __init__(
        self,
        features: BinnedFeatures,
        splits: Splits,
        split_gain: SplitGain,
        category_rules: CategoryRules = DEFAULT_RULES,
    ) -> None:
        self.features = features
        self.splits = splits
        self._split_gain, self._category_rules = split_gain, category_rules
        self._parents: list[NDArray[np.int64]] = []
        self.use_columns(np.arange(features.n_features))

    def use_columns(self, columns: NDArray[np.int64]) -> None:
        """Columns that the next tree may split."""
        n_bins = np.array([len(self.features.cuts[f]) for f in columns], dtype=np.int64)
        none = np.zeros((0, int((n_bins + 1).sum())), dtype=bool)
        self._layout = BinLayout(n_bins, np.zeros(len(n_bins), dtype=bool), none)
        codes = self.features.codes
        everything = len(columns) == self.features.n_features
        self._codes = DenseCodes(codes if everything else np.ascontiguousarray(codes[:, columns]))
        self._walk = CandidateWalk(columns, n_bins, self.features.categorical, self._category_rules)

    def start_tree(self, tree: int, rows: NDArray[np.bool_]) -> None:
        """See `SplitFinder`."""
        self._parents = []

    def find(self, level: TreeLevel) -> dict[int, Candidate]:
        """See `SplitFinder`."""
        sums, counts = self._histograms(level)
        return {
            node: self._walk.best(
                sums[..., node, :],
                counts[node],
                level.sums[..., node],
                level.gradients,
                self._split_gain,
                level.terms_of(node, 0),
            )
            for node in range(level.partition.n_nodes)
        }

    def _histograms(self, level: TreeLevel) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Exact sums, shape (2, 2, n_classes, n_nodes, n_total_bins), and row counts of every bin."""
        halves = level.gradients.halves
        n_classes = halves.shape[2]
        ones = np.ones(halves.shape[-1], dtype=np.int32)
        pairs = [(halves[q, 0, k], halves[q, 1, k]) for q in range(2) for k in range(n_classes)] + [
            (ones, ones)
        ]
        split = sorted(level.assignment)
        built = []
        for k, (a, b) in enumerate(pairs):
            parents = self._parents[k][split] if self._parents else None
            built.append(
                level_histograms(
                    self._codes,
                    level.sampled.rows,
                    level.sampled.starts,
                    np.ascontiguousarray(a),
                    np.ascontiguousarray(b),
                    self._layout,
                    parents,
                )
            )
        self._parents = built
        of_gradients = np.stack(built[:-1]).reshape(2, n_classes, *built[0].shape)
        return np.moveaxis(of_gradients, -1, 1), built[-1][..., 0]

    def split(self, level: TreeLevel, chosen: dict[int, Candidate]) -> dict[int, Split]:
        """See `SplitFinder`."""
        splits = {}
        for node, candidate in chosen.items():
            where = (candidate.column, candidate.last_left, candidate.default_left, candidate.right)
            left = self.features.goes_left(level.partition.of(node), *where)
            split_id = self.splits.add(*self.features.rule(*where))
            splits[node] = Split(split_id, left)
        return splits
