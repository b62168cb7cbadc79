"""Grow one tree, level by level, as XGBoost's ``hist`` with ``grow_policy="depthwise"`` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.candidates import NO_CANDIDATE, Candidate
from xgb_fed.boosting.split_gain import SplitGain
from xgb_fed.vertical.finder import MIN_ROWS, Level, Split, SplitFinder
from xgb_fed.vertical.gradients import FixedPointGradients
from xgb_fed.vertical.partition import Partition
from xgb_fed.vertical.tree import ROOT, FederatedTree

ForEach = Callable[[Callable[[Any], Any], list[Any]], list[Any]]
"""Applies a function to several things at the same time and gives the results in their order."""


def grow_tree(
    finders: dict[int, SplitFinder],
    levels: dict[int, range],
    gradients: FixedPointGradients,
    rows: NDArray[np.bool_],
    max_depth: int,
    split_gain: SplitGain,
    for_each: ForEach,
) -> tuple[FederatedTree, NDArray[np.int32]]:
    """Grow a tree on gradients that all finders have.

    Parameters
    ----------
    finders : dict
        By party number; ties between parties go to the lower one, whose columns come first.
    levels : dict
        Where each of them searches.
    gradients : FixedPointGradients
    rows : ndarray of bool, shape (n_rows,)
        The sample; all rows are sent down the tree.
    max_depth : int
    split_gain : SplitGain
    for_each : callable

    Returns
    -------
    tree : FederatedTree
    leaf : ndarray of int32, shape (n_rows,)
        Each row's leaf.
    """
    tree = FederatedTree()
    leaf = np.zeros(len(rows), dtype=np.int32)
    partition = Partition.root(len(rows))
    level = _level(partition, rows, gradients)
    numbers = _add_nodes(tree, [ROOT], level, gradients, split_gain)
    for depth in range(max_depth):
        searching = {k: finder for k, finder in finders.items() if depth in levels[k]}
        if not searching or level.sampled.sizes().max() < MIN_ROWS:
            break
        found = dict(zip(searching, for_each(_Find(level), list(searching.values())), strict=True))
        chosen = _choose(found, level.partition.n_nodes, split_gain)
        splits: dict[int, tuple[int, Split]] = {}
        owners = sorted({owner for owner, _ in chosen.values()})
        jobs = [
            (searching[owner], {node: best for node, (who, best) in chosen.items() if who == owner})
            for owner in owners
        ]
        answers = for_each(_SplitAt(level), jobs)
        for owner, answer in zip(owners, answers, strict=True):
            splits |= {node: (owner, split) for node, split in answer.items()}
        for node, number in enumerate(numbers):
            if node not in splits:
                leaf[level.partition.of(node)] = number
        if not splits:
            return tree, leaf
        assignment = {node: (owner, split.goes_left) for node, (owner, split) in splits.items()}
        below = level.partition.children({node: left for node, (_, left) in assignment.items()})
        parents = [numbers[node] for node in sorted(assignment)]
        below_level = _level(below, rows, gradients, level.partition, assignment)
        children = _add_nodes(
            tree, [p for p in parents for _ in range(2)], below_level, gradients, split_gain
        )
        for k, node in enumerate(sorted(assignment)):
            owner, split = splits[node]
            change = float(chosen[node][1].loss_change)
            tree.split(numbers[node], owner, split.split_id, children[2 * k], children[2 * k + 1], change)
        level, numbers = below_level, children
    for node, number in enumerate(numbers):
        leaf[level.partition.of(node)] = number
    return tree, leaf


@dataclass(frozen=True)
class _Find:
    """The question for candidates."""

    level: Level

    def __call__(self, finder: SplitFinder) -> dict[int, Candidate]:
        return finder.find(self.level)


@dataclass(frozen=True)
class _SplitAt:
    """The order to split."""

    level: Level

    def __call__(self, job: tuple[SplitFinder, dict[int, Candidate]]) -> dict[int, Split]:
        finder, chosen = job
        return finder.split(self.level, chosen)


def _level(
    partition: Partition,
    rows: NDArray[np.bool_],
    gradients: FixedPointGradients,
    above: Partition | None = None,
    assignment: dict[int, tuple[int, NDArray[np.bool_]]] | None = None,
) -> Level:
    """The nodes of a level."""
    sampled = partition.kept(rows)
    sums, _ = gradients.node_sums(sampled)
    return Level(rows, partition, sampled, sums, above, assignment or {})


def _add_nodes(
    tree: FederatedTree,
    parents: list[int],
    level: Level,
    gradients: FixedPointGradients,
    split_gain: SplitGain,
) -> list[int]:
    """A leaf for every node of a level."""
    g, h = gradients.to_float(level.sums)
    weights = np.stack([split_gain.weights(a, b) for a, b in zip(g, h, strict=True)], axis=1)
    return [
        tree.add(parent, weights[k], split_gain.learning_rate, float(h[:, k].sum()))
        for k, parent in enumerate(parents)
    ]


def _choose(
    found: dict[int, dict[int, Candidate]], n_nodes: int, split_gain: SplitGain
) -> dict[int, tuple[int, Candidate]]:
    """The best candidate of every node that is worth a split, and whose it is."""
    chosen = {}
    for node in range(n_nodes):
        owner = max(sorted(found), key=lambda k: found[k].get(node, NO_CANDIDATE).loss_change)
        best = found[owner].get(node, NO_CANDIDATE)
        if split_gain.is_worth(best.loss_change):
            chosen[node] = (owner, best)
    return chosen
