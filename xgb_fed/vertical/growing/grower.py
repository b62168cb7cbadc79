"""Grow one tree level by level, into the tree that XGBoost's ``hist`` grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.candidates import NO_CANDIDATE, Candidate
from xgb_fed.boosting.split_gain import SplitGain
from xgb_fed.vertical.growing.finder import Split, SplitFinder, TreeLevel
from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.protocol.messages import MIN_ROWS
from xgb_fed.vertical.trees.constraints import NodeRules, TreeRules
from xgb_fed.vertical.trees.expansion import Expansion
from xgb_fed.vertical.trees.partition import Partition
from xgb_fed.vertical.trees.tree import ROOT, FederatedTree

ForEach = Callable[[Callable[[Any], Any], list[Any]], list[Any]]
"""Applies a function to several things at the same time and gives the results in their order."""


def grow_tree(
    finders: dict[int, SplitFinder],
    levels: dict[int, range],
    gradients: FixedPointGradients,
    rows: NDArray[np.bool_],
    *,
    max_depth: int,
    split_gain: SplitGain,
    rules: TreeRules,
    expansion: Expansion,
    for_each: ForEach,
) -> tuple[FederatedTree, NDArray[np.int32]]:
    """Grow a tree on gradients that all finders have; the result is the tree and each row's leaf in it.

    Finders go by party number; ties between parties go to the lower one, whose columns come first.  `levels`
    says where each of them searches, and the expansion, of no node yet, which nodes are split and in which
    order.  All rows are sent down the tree that is grown on the sample, `rows`.
    """
    nodes = _GrownNodes(split_gain, rules, expansion)
    leaf = np.zeros(len(rows), dtype=np.int32)
    partition = Partition.root(len(rows))
    level = _level(partition, rows, gradients)
    numbers = nodes.add_root(level)
    for depth in range(0 if expansion.max_leaves == 1 else max_depth):
        searching = {k: finder for k, finder in finders.items() if depth in levels[k]}
        # Drawn even for nodes that are too small to be asked for: XGBoost's draws go on from there.
        level.terms = rules.next_level([nodes.rules[number] for number in numbers])
        if not searching or level.sampled.sizes().max() < MIN_ROWS:
            break
        questions = [partial(finder.find, level) for finder in searching.values()]
        found = dict(zip(searching, for_each(_called, questions), strict=True))
        best = _choose(found, level.partition.n_nodes, split_gain)
        expansion.loss_change |= {numbers[k]: float(one.loss_change) for k, (_, one) in best.items()}
        to_split = expansion.to_split(numbers)
        chosen = {k: one for k, one in best.items() if numbers[k] in to_split}
        splits: dict[int, tuple[int, Split]] = {}
        owners = sorted({owner for owner, _ in chosen.values()})
        own = [{node: best for node, (who, best) in chosen.items() if who == owner} for owner in owners]
        orders = [partial(searching[owner].split, level, one) for owner, one in zip(owners, own, strict=True)]
        for owner, answer in zip(owners, for_each(_called, orders), strict=True):
            splits |= {node: (owner, split) for node, split in answer.items()}
        for node, number in enumerate(numbers):
            if node not in splits:
                leaf[level.partition.of(node)] = number
        if not splits:
            return nodes.tree(leaf)
        assignment = {node: (owner, split.goes_left) for node, (owner, split) in splits.items()}
        below = level.partition.children({node: left for node, (_, left) in assignment.items()})
        level = _level(below, rows, gradients, level.partition, assignment)
        parents = {numbers[node]: (*chosen[node], splits[node][1].split_id) for node in sorted(assignment)}
        numbers = nodes.split(parents, level)
        if not expansion.has_room_below(parents):
            break
    for node, number in enumerate(numbers):
        leaf[level.partition.of(node)] = number
    return nodes.tree(leaf)


@dataclass
class _GrownNodes:
    """The nodes of a tree by the order in which they were grown, level by level, left before right.

    A node weighs `weight` as a leaf and `split_weight` as an inner node, shape (n_classes,): they differ
    under monotone constraints.  `splits` has, of the nodes that were split, the owner, its candidate, and the
    split's number there.
    """

    split_gain: SplitGain
    tree_rules: TreeRules
    expansion: Expansion
    rules: list[NodeRules] = field(default_factory=list)
    weight: list[NDArray[np.float32]] = field(default_factory=list)
    split_weight: list[NDArray[np.float32]] = field(default_factory=list)
    sum_hessian: list[float] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    splits: dict[int, tuple[int, Candidate, int]] = field(default_factory=dict)

    def add_root(self, level: TreeLevel) -> list[int]:
        """Add the only node of the first level."""
        weights, sum_hessian = self._of_nodes(level)
        rules = self.tree_rules.root()
        return [self._add(ROOT, rules, rules, weights[0], sum_hessian[0])]

    def split(self, parents: dict[int, tuple[int, Candidate, int]], below: TreeLevel) -> list[int]:
        """Add the children, on the level below, of ascending nodes as in `splits`; returns their numbers."""
        weights, sum_hessian = self._of_nodes(below)
        numbers = []
        for k, (node, (owner, candidate, split_id)) in enumerate(parents.items()):
            rules, places = self.rules[node], (2 * k, 2 * k + 1)
            left, right = (_bounded(weights[place], rules)[0] for place in places)
            children = self.tree_rules.children(rules, owner, candidate.column, left, right)
            pair = [
                self._add(node, child, rules, weights[place], sum_hessian[place])
                for child, place in zip(children, places, strict=True)
            ]
            self.splits[node] = owner, candidate, split_id
            self.expansion.children[node] = pair[0], pair[1]
            numbers += pair
        return numbers

    def _of_nodes(self, level: TreeLevel) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Weights that no constraint bounds, shape (n_nodes, n_classes), and sums of hessians."""
        g, h = level.gradients.to_float(level.sums)
        return self.split_gain.weights(g, h).T, h.sum(axis=0)

    def _add(
        self, parent: int, rules: NodeRules, above: NodeRules, weight: NDArray[np.float32], sum_hessian: float
    ) -> int:
        self.rules.append(rules)
        self.weight.append(_bounded(weight, above))
        self.split_weight.append(_bounded(weight, rules))
        self.sum_hessian.append(float(sum_hessian))
        self.parent.append(parent)
        return len(self.parent) - 1

    def tree(self, leaf: NDArray[np.int32]) -> tuple[FederatedTree, NDArray[np.int32]]:
        """The tree as XGBoost expands and numbers it, and each row's leaf in it, from the grown `leaf`."""
        tree = FederatedTree()
        number = np.full(len(self.parent), -1, dtype=np.int32)
        number[0] = self._add_leaf(tree, 0, ROOT)
        for node in self.expansion.order():
            owner, candidate, split_id = self.splits[node]
            children = self.expansion.children[node]
            number[list(children)] = [self._add_leaf(tree, child, int(number[node])) for child in children]
            left, right = (int(number[child]) for child in children)
            change, weight = float(candidate.loss_change), self.split_weight[node]
            tree.split(int(number[node]), owner, split_id, left, right, change, weight)
        for node, parent in enumerate(self.parent):
            if number[node] < 0:  # below a node that is not expanded
                number[node] = number[parent]
        return tree, number[leaf]

    def _add_leaf(self, tree: FederatedTree, node: int, parent: int) -> int:
        return tree.add(parent, self.weight[node], self.split_gain.learning_rate, self.sum_hessian[node])


def _bounded(weight: NDArray[np.float32], rules: NodeRules) -> NDArray[np.float32]:
    """A weight within a node's own bounds, if it has any."""
    return weight if rules.bounds is None else rules.bounds.own.clip(weight)


def _called(question: Callable[[], Any]) -> Any:
    """The answer to a question that only has to be asked."""
    return question()


def _level(
    partition: Partition,
    rows: NDArray[np.bool_],
    gradients: FixedPointGradients,
    above: Partition | None = None,
    assignment: dict[int, tuple[int, NDArray[np.bool_]]] | None = None,
) -> TreeLevel:
    """The nodes of a level."""
    sampled = partition.kept(rows)
    sums, _ = gradients.node_sums(sampled)
    return TreeLevel(gradients, rows, partition, sampled, sums, above, assignment or {})


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
