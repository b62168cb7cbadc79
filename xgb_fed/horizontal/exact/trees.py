"""The trees of one round, grown on sums over all parties: every party works out the same splits from them.

A histogram is asked for of one child of every split, the other's is the rest.  Sums of both children are
known from the split itself, so that the last level is not asked for at all.  Of rows, only the numbers on the
sides of a chosen split are asked for, and only where a minimum must be kept and hessians leave it open: a
candidate with fewer rows on a side is passed over, since the histogram of few rows would be those rows.

A node goes on as soon as its own sums are there: histograms of some nodes' children are asked for together
with the numbers of rows beside candidates of others, in one flight.  The questions about a node follow from
the sums of its ancestors alone, so that they are those of a tree grown level by level, and tell no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.model import ScalarTree
from gbdt_kernels.trees.wide_sums import (
    NO_NODE,
    as_floats,
    left_sums,
    route_by_codes,
    wide_difference,
    wide_histograms,
    wide_sum,
)
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.secure_sum.rings import Words
from xgb_fed.boosting.candidates import Candidate, CandidateWalk
from xgb_fed.boosting.features import BinnedFeatures
from xgb_fed.boosting.split_gain import SplitGain
from xgb_fed.horizontal.exact.questions import Asking, ask_counts, ask_words, together

ROOT = 2147483647
"""XGBoost's parent of the root."""

MAX_REJECTED = 16
"""Candidates of a node that may have too few rows on a side before the node stays a leaf."""

UNKNOWN = -1
"""Rows of a node that was not asked about: its hessians show that it has enough for two children."""


@dataclass(frozen=True)
class GrowingRules:
    """How trees are grown.

    Fixed-point numbers have `scale` binary digits after the point, and their sums `bits` in all; a row of any
    party adds at most `row_hessian` to a sum of hessians.  A child must have `min_rows` of all parties.
    """

    max_depth: int
    min_rows: int
    split_gain: SplitGain
    scale: int
    bits: int
    row_hessian: float

    @property
    def sure_hessian(self) -> int:
        """Sum of hessians, in fixed point, that shows that a node has rows enough for two children.

        A row adds at most ``row_hessian`` and half a last digit, so that a sum of fewer than 2 `min_rows`
        rows is below.
        """
        return 2 * self.min_rows * (math.floor(math.ldexp(self.row_hessian, self.scale)) + 1)


class SplitColumns:
    """One party's columns that a tree may split, by their ascending numbers among all.

    Their codes have the shape (n_rows, n_columns); `offsets` says where the bins of each lie in a histogram.
    """

    def __init__(self, features: BinnedFeatures, numbers: NDArray[np.int64]) -> None:
        self.features, self.numbers = features, numbers
        self._places = {column: place for place, column in enumerate(numbers.tolist())}
        self.n_bins = np.array([len(features.cuts[f]) for f in numbers], dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.n_bins)]).astype(np.int64)
        everything = len(numbers) == features.n_features
        self.codes = features.codes if everything else np.ascontiguousarray(features.codes[:, numbers])
        self.walk = CandidateWalk(numbers, self.n_bins)

    def place(self, split: Candidate) -> int:
        """Where the column of a candidate stands among these."""
        return self._places[split.column]


@dataclass(eq=False)
class _Growing:
    """A growing tree: each row's `node`, and gradients and hessians as words, (n_rows, 4)."""

    group: int
    columns: SplitColumns
    words: Words
    node: NDArray[np.int32]
    sampled: NDArray[np.bool_]
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    split: dict[int, Candidate] = field(default_factory=dict)
    """Of the nodes that have children."""
    sums: list[Words] = field(default_factory=list)
    """Gradients and hessians of all parties' rows, four words per node."""
    n_rows: list[int] = field(default_factory=list)
    """Sampled rows of all parties, where they were asked for, or `UNKNOWN`."""

    def add(self, parent: int, sums: Words, n_rows: int) -> int:
        """A new leaf; returns its number."""
        for values in (self.left, self.right):
            values.append(-1)
        self.parent.append(parent)
        self.sums.append(sums)
        self.n_rows.append(n_rows)
        return len(self.left) - 1

    def histograms(self, nodes: list[int]) -> tuple[Words, Words]:
        """Of this party's sampled rows, shape (n_nodes, n_bins, 4), and totals of shape (n_nodes, 4)."""
        place = np.full(len(self.left), NO_NODE, dtype=np.int32)
        place[nodes] = np.arange(len(nodes))
        rows = np.where(self.sampled, place[self.node], NO_NODE).astype(np.int32)
        return wide_histograms(self.columns.codes, rows, self.words, self.columns.n_bins, len(nodes))

    def side_counts(self, splits: dict[int, Candidate]) -> list[int]:
        """Count this party's sampled rows on the left of candidates, and on the right where that is open."""
        first = len(self.left)
        children = {node: first + 2 * k for k, node in enumerate(splits)}
        rows = self._routed(splits, children)[self.sampled]
        counts = np.bincount(rows, minlength=first + 2 * len(splits))[first:].reshape(-1, 2)
        asked = [[True, self.n_rows[node] == UNKNOWN] for node in splits]
        found: list[int] = counts[np.array(asked)].tolist()
        return found

    def left_sums(self, bins: Words, sums: Words, split: Candidate) -> Words:
        """Sums of all parties' rows to the left of a candidate, four words."""
        place = self.columns.place(split)
        first, end = (int(offset) for offset in self.columns.offsets[place : place + 2])
        cut = first + split.last_left + 1
        if split.default_left:
            return wide_difference(sums, wide_sum(bins[cut:end]))
        return wide_sum(bins[first:cut])

    def route(self, nodes: list[int]) -> None:
        """Send this party's rows in some nodes to their children."""
        self.node = self._routed(
            {node: self.split[node] for node in nodes}, {node: self.left[node] for node in nodes}
        )

    def _routed(self, splits: dict[int, Candidate], children: dict[int, int]) -> NDArray[np.int32]:
        """The node of every row if these nodes have children; the right one follows the left one."""
        node: NDArray[np.int32] = self.node.copy()
        n_nodes = len(self.left)
        column, last_left, left = (
            np.zeros(n_nodes, np.int64),
            np.zeros(n_nodes, np.int64),
            np.full(n_nodes, -1),
        )
        default_left = np.zeros(n_nodes, dtype=np.bool_)
        for k, split in splits.items():
            column[k] = self.columns.place(split)
            last_left[k], default_left[k], left[k] = split.last_left, split.default_left, children[k]
        route_by_codes(self.columns.codes, node, column, last_left, default_left, left, self.columns.n_bins)
        return node

    def finished(self, rules: GrowingRules) -> GrownTree:
        """The tree, and this party's rows in it."""
        order = self._by_level()
        number = {node: k for k, node in enumerate([-1, *order], start=-1)} | {ROOT: ROOT}
        g, h = as_floats(np.array([self.sums[node] for node in order]).reshape(-1, 2, 2), rules.scale).T
        weight = rules.split_gain.weights(g, h)
        values = (weight * rules.split_gain.learning_rate).astype(np.float32)
        # As XGBoost keeps them: of leaves their values, but for a root without children.
        base = np.where([bool(k) and node not in self.split for k, node in enumerate(order)], values, weight)
        splits, features = [self.split.get(node) for node in order], self.columns.features
        tree = ScalarTree(
            [number[self.left[node]] for node in order],
            [number[self.right[node]] for node in order],
            [number[self.parent[node]] for node in order],
            [0 if one is None else one.column for one in splits],
            [
                float(values[k]) if one is None else features.threshold(one.column, one.last_left)
                for k, one in enumerate(splits)
            ],
            [one is not None and one.default_left for one in splits],
            base.tolist(),
            [0.0 if one is None else float(one.loss_change) for one in splits],
            h.tolist(),
            self.group,
        )
        of_node = np.empty_like(values)
        of_node[order] = values
        return GrownTree(tree, of_node[self.node])

    def _by_level(self) -> list[int]:
        """All nodes from left to right, level by level, as XGBoost numbers them."""
        order = [0]
        for node in order:
            order += [self.left[node], self.right[node]] if node in self.split else []
        return order


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree of all parties; its values are its contribution to the margins of this party's rows."""

    tree: ScalarTree
    values: NDArray[np.float32]


class _Active:
    """A node that may be split, with its histogram of all parties, of shape (n_bins, 4).

    The split is the best candidate that was not rejected, if it is worth one; on its sides are `n_sides`
    sampled rows of all parties, as in `_Growing.n_rows`.
    """

    def __init__(self, growing: _Growing, node: int, depth: int, bins: Words) -> None:
        self.growing, self.node, self.depth, self.bins = growing, node, depth, bins
        self.split: Candidate | None = None
        self.n_sides = UNKNOWN, UNKNOWN
        self.n_rejected = self._best = 0
        self._changes = np.empty(0, dtype=np.float32)

    @property
    def name(self) -> tuple[int, int, int]:
        """Class, level and number of the node, the same at all parties."""
        return self.growing.group, self.depth, self.node

    def choose(self, changes: NDArray[np.float32], gain: SplitGain) -> None:
        """Take the best of all candidates; of equal ones the first."""
        self._changes = changes
        self._best = int(changes.argmax()) if len(changes) else 0
        worth = len(changes) and gain.is_worth(changes[self._best])
        walk = self.growing.columns.walk
        self.split = walk.candidate(self._best, changes[self._best]) if worth else None

    def reject(self, split: Candidate, left_is_small: bool, gain: SplitGain) -> None:
        """Pass over the best candidate, and those of its column that have no more rows on the small side."""
        columns = self.growing.columns
        place = columns.place(split)
        n_bins, start = int(columns.n_bins[place]), 2 * int(columns.offsets[place])
        start += n_bins if split.default_left else 0
        before = left_is_small != split.default_left
        passed = slice(start, self._best + 1) if before else slice(self._best, start + n_bins)
        self._changes[passed] = -np.inf
        self.n_rejected += 1
        self.choose(self._changes, gain)


def grow_trees(
    columns: SplitColumns,
    words: list[Words],
    sampled: list[NDArray[np.bool_]],
    rules: GrowingRules,
    what: str,
    n_pooled: int,
    is_sampled: bool,
) -> Asking[list[GrownTree]]:
    """Grow one tree per class, all at the same time, in a round that `what` names.

    Gradients and hessians of every class are words of shape (n_rows, 4).  Where trees are grown on samples,
    out of `n_pooled` rows of all parties, each has a number of rows of its own.  An InvalidDataError is
    raised before a root is asked about whose rows, or those that it lacks, are fewer than a node must have.
    """
    n_rows = len(columns.codes)
    trees = [
        _Growing(k, columns, own, np.zeros(n_rows, dtype=np.int32), rows)
        for k, (own, rows) in enumerate(zip(words, sampled, strict=True))
    ]
    counts = np.full(len(sampled), n_pooled, dtype=np.int64)
    if is_sampled and rules.min_rows > 1:
        own = np.array([rows.sum() for rows in sampled], dtype=np.int64)
        counts = yield from ask_counts(f"{what}: rows", own)
        _check_samples(counts, n_pooled, rules, what)
    roots = yield from make_roots(trees, counts, rules, what)
    _choose(roots, rules)
    settled, undecided = _settled(roots, rules)
    while settled or undecided:
        asked = _divided(settled, rules)
        beside, children = [one.name for one in undecided], [child.name for child in asked]
        n_sides, sums = yield from together(
            ask_counts(f"{what}: rows beside splits of {beside}", _side_counts(undecided)),
            ask_words(f"{what}: {children}", _bins(asked), rules.bits),
        )
        counted, rejected = _counted(undecided, n_sides.tolist(), rules)
        grown = _children(asked, sums)
        _choose(grown, rules)
        found, undecided = _settled(_by_tree([*rejected, *grown]), rules)
        settled = _by_tree([*counted, *found])
    return [tree.finished(rules) for tree in trees]


def _check_samples(counts: NDArray[np.int64], n_pooled: int, rules: GrowingRules, what: str) -> None:
    """Refuse samples of few rows, and those whose difference from all rows is few rows."""
    if (counts < rules.min_rows).any():
        raise InvalidDataError(
            f"{what}: a tree would be grown on {counts.min()} rows of all parties, fewer than "
            f"min_rows_per_node={rules.min_rows}; raise subsample"
        )
    left_out = n_pooled - counts
    if ((left_out != 0) & (left_out < rules.min_rows)).any():
        raise InvalidDataError(
            f"{what}: a tree would be grown on all but {left_out[left_out != 0].min()} rows of all parties, "
            f"fewer than min_rows_per_node={rules.min_rows}; lower subsample, or set it to 1"
        )


def make_roots(
    trees: list[_Growing], counts: NDArray[np.int64], rules: GrowingRules, what: str
) -> Asking[list[_Active]]:
    """Histograms and sums of all roots."""
    parts = []
    for tree in trees:
        tree.add(ROOT, np.zeros(4, dtype=np.uint64), 0)
        parts.append(np.concatenate(tree.histograms([0]), axis=None))
    pooled = yield from ask_words(f"{what}: roots", np.array(parts).reshape(-1, 2), rules.bits)
    active = []
    for tree, count, part in zip(trees, counts.tolist(), pooled.reshape(len(trees), -1, 4), strict=True):
        tree.sums[0], tree.n_rows[0] = part[-1], count
        active.append(_Active(tree, 0, 0, part[:-1]))
    return active


def _choose(active: list[_Active], rules: GrowingRules) -> None:
    """Find the best candidate of every node."""
    for tree in _trees_of(active):
        nodes = [one for one in active if one.growing is tree]
        columns = tree.columns
        sums = np.array([tree.sums[one.node] for one in nodes])
        bins = np.array([one.bins for one in nodes])
        g, h, has_missing = left_sums(bins, sums, columns.n_bins, rules.scale)
        total = as_floats(sums.reshape(-1, 2, 2), rules.scale)
        changes = rules.split_gain.scalar_loss_changes(g, h, total[:, :1], total[:, 1:])
        of_column = np.repeat(np.arange(len(columns.numbers)), 2 * columns.n_bins)
        # XGBoost walks downwards only where values are missing.
        changes[~(~columns.walk.default_left | has_missing[:, of_column])] = -np.inf
        for one, own in zip(nodes, changes, strict=True):
            one.choose(own, rules.split_gain)


def _trees_of(active: list[_Active]) -> list[_Growing]:
    """The trees that some nodes are of, in order."""
    return list({id(one.growing): one.growing for one in active}.values())


def _by_tree(active: list[_Active]) -> list[_Active]:
    """Nodes in the order of their trees: what a party adds up of a tree's nodes, it does at once."""
    return sorted(active, key=lambda one: one.growing.group)


def _settled(nodes: list[_Active], rules: GrowingRules) -> tuple[list[_Active], list[_Active]]:
    """The nodes whose best candidates leave enough rows on both sides, and those where that is open.

    The rows of the first are not asked for: neither they nor those of their children are too few.  All other
    nodes stay leaves.
    """
    settled, undecided = [], []
    for one in nodes:
        if one.split is None:
            continue
        if rules.min_rows <= 1 or _has_enough(one, rules.sure_hessian):
            one.n_sides = UNKNOWN, UNKNOWN
            settled.append(one)
        elif one.n_rejected < MAX_REJECTED:
            undecided.append(one)
    return settled, undecided


def _has_enough(one: _Active, sure_hessian: int) -> bool:
    """Whether hessians show that both sides of a node's best candidate have rows for two children."""
    tree = one.growing
    h, h_left = hessian_of(tree.sums[one.node]), 0
    if h >= 2 * sure_hessian:
        h_left = hessian_of(tree.left_sums(one.bins, tree.sums[one.node], _split_of(one)))
    return min(h_left, h - h_left) >= sure_hessian


def _split_of(one: _Active) -> Candidate:
    assert one.split is not None
    return one.split


def _side_counts(undecided: list[_Active]) -> NDArray[np.int64]:
    """Rows of this party beside the candidates of nodes; see `_Growing.side_counts`."""
    own: list[int] = []
    for tree in _trees_of(undecided):
        own += tree.side_counts({one.node: _split_of(one) for one in undecided if one.growing is tree})
    return np.array(own, dtype=np.int64)


def _counted(
    undecided: list[_Active], counts: list[int], rules: GrowingRules
) -> tuple[list[_Active], list[_Active]]:
    """The nodes whose candidates have enough rows of all parties, and those whose candidates are rejected."""
    given, counted, rejected = iter(counts), [], []
    for one in undecided:
        n_rows, n_left = one.growing.n_rows, next(given)
        if n_rows[one.node] == UNKNOWN:
            n_rows[one.node] = n_left + next(given)
        one.n_sides = n_left, n_rows[one.node] - n_left
        if min(one.n_sides) < rules.min_rows:
            one.reject(_split_of(one), n_left < rules.min_rows, rules.split_gain)
            rejected.append(one)
        else:
            counted.append(one)
    return counted, rejected


def hessian_of(sums: Words) -> int:
    """The hessian of four words of gradients and hessians, in fixed point."""
    return int.from_bytes(sums[2:].astype("<u8").tobytes(), "little", signed=True)


def _divide(one: _Active) -> None:
    """Give a node children."""
    tree, split = one.growing, _split_of(one)
    sums, (n_left, n_right) = tree.sums[one.node], one.n_sides
    left_sums = tree.left_sums(one.bins, sums, split)
    left = tree.add(one.node, left_sums, n_left)
    right = tree.add(one.node, wide_difference(sums, left_sums), n_right)
    tree.left[one.node], tree.right[one.node], tree.split[one.node] = left, right, split


class _Child(NamedTuple):
    """The child of a node whose histogram is asked for, and those of its children that can be split."""

    parent: _Active
    node: int
    able: list[int]

    @property
    def name(self) -> tuple[int, int, int]:
        """See `_Active.name`."""
        return self.parent.growing.group, self.parent.depth + 1, self.node


def _divided(settled: list[_Active], rules: GrowingRules) -> list[_Child]:
    """Give nodes children, send this party's rows there, and find the histograms to ask for."""
    for one in settled:
        _divide(one)
    for tree in _trees_of(settled):
        tree.route([one.node for one in settled if one.growing is tree])
    asked = []
    for one in settled:
        if one.depth + 1 == rules.max_depth:
            continue
        tree = one.growing
        pair = [tree.left[one.node], tree.right[one.node]]
        h = as_floats(np.array([tree.sums[node][2:] for node in pair]), rules.scale)
        able = [
            node for node, own in zip(pair, h, strict=True) if _can_be_split(own, tree.n_rows[node], rules)
        ]
        if able:
            smaller = pair[int(h[1] < h[0])]
            asked.append(_Child(one, smaller if len(able) == 2 else able[0], able))
    return asked


def _bins(asked: list[_Child]) -> Words:
    """Histograms of this party's rows in the children that are asked about."""
    own = [np.empty((0, 2), dtype=np.uint64)]
    for tree in _trees_of([child.parent for child in asked]):
        bins, _ = tree.histograms([child.node for child in asked if child.parent.growing is tree])
        own.append(bins.reshape(-1, 2))
    return np.concatenate(own)


def _children(asked: list[_Child], sums: Words) -> list[_Active]:
    """Children that can be split, with histograms of all parties."""
    active = []
    for (one, node, able), bins in zip(asked, np.split(sums, len(asked)) if asked else [], strict=True):
        own = bins.reshape(-1, 4)
        active += [
            _Active(one.growing, k, one.depth + 1, own if k == node else wide_difference(one.bins, own))
            for k in able
        ]
    return active


def _can_be_split(h: float, n_rows: int, rules: GrowingRules) -> bool:
    """Whether a node has enough for two children."""
    enough = h > 0 and h >= 2 * float(rules.split_gain.min_child_weight) * (1 - 1e-9)
    return enough and (n_rows == UNKNOWN or n_rows >= 2 * rules.min_rows)
