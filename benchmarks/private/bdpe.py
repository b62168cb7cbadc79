"""The M-loss paper's own algorithms as printed, for comparison alone: bdpe_alpha is not private.

Nock and Henecka (2020): `boost` is bdpe_alpha, their Algorithm M-boost with trees of equations (16) to (18),
and `forest` are their RF-L and RF-E, whose budget of a tree is divided evenly among its leaves.  Where the
print leaves a choice open, the choice stands beside the line.

What of `boost` costs privacy that it does not pay for: objective calibration reads the exact weight of every
node (18), and the leveraging coefficient the exact edge of every tree.  Both are marked "not paid for".

`Budget` holds the two readings of how a tree's budget is spent: the paper divides a level's among its
2^depth nodes, and ours gives each of these disjoint nodes all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import lgb_dp

Floats = NDArray[np.float64]
CALIBRATED = "O.C."
CLAMP = 1e-4
"""Distance of a leaf's proportion from 0 and 1 before the link; the paper's figure is not legible."""

MIN_ALPHA = 2.0**-10


@dataclass(frozen=True)
class Rows:
    """Rows whose features are quantised regularly within public bounds.

    Parameters
    ----------
    cell : ndarray of int64, shape (n_rows, n_features)
        Feature number times `bins`, plus the bin.
    sign : ndarray of float64, shape (n_rows,)
        The class, -1 or 1.
    bins : int
        Values per feature.
    """

    cell: NDArray[np.int64]
    sign: Floats
    bins: int


def quantised(X: Any, y: Floats, bounds: tuple[Any, Any], bins: int) -> Rows:
    """Rows of features within `bounds` and of classes 0 and 1."""
    low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), X.shape[1:]) for b in bounds)
    width = np.where(high > low, high - low, 1.0)
    code = np.floor((X - low) / width * bins).clip(0, bins - 1).astype(np.int64)
    return Rows(code + bins * np.arange(X.shape[1]), 2.0 * y - 1.0, bins)


@dataclass(frozen=True)
class Budget:
    """Epsilon of a model, and how it is spent; infinity trains exactly.

    Parameters
    ----------
    epsilon : float
    leaf_share : float
        Share of a tree's budget that goes to its leaves.
    divided : bool
        Whether nodes of a level share the level's budget, as printed, or each gets all of it.
    """

    epsilon: float
    leaf_share: float = 0.5
    divided: bool = True

    def split(self, trees: int, depth: int, level: int) -> float:
        """Epsilon of the split of a node at a level: equation (17)."""
        nodes = 2**level if self.divided else 1
        return self.epsilon * (1 - self.leaf_share) / (trees * depth * nodes)

    def leaf(self, trees: int, depth: int, share: float | None = None) -> float:
        """Epsilon of a leaf."""
        nodes = 2**depth if self.divided else 1
        return self.epsilon * (self.leaf_share if share is None else share) / (trees * nodes)


@dataclass
class Tree:
    """A complete tree: split k of a level has the nodes 2k and 2k + 1 below it."""

    cut: list[NDArray[np.int64]] = field(default_factory=list)
    """Of each level's nodes, feature number times bins plus the last bin that goes left; -1: all go left."""
    value: Floats = field(default_factory=lambda: np.zeros(1))
    splits: list[dict[str, Floats]] = field(default_factory=list)
    """What was measured of each level's nodes: shares of the tree's weight, edge of the split, and purity."""

    def leaf_of(self, rows: Rows) -> NDArray[np.int64]:
        """Leaf of each row."""
        node = np.zeros(len(rows.cell), dtype=np.int64)
        for cut in self.cut:
            node = _descend(rows, node, cut)
        return node

    def leaves(self) -> int:
        """Number of leaves if pure nodes are not split."""
        return 1 + sum(int((~level["pure"]).sum()) for level in self.splits)

    def depth(self) -> int:
        """Depth of the deepest leaf if pure nodes are not split."""
        return sum(bool((~level["pure"]).any()) for level in self.splits)


def _descend(rows: Rows, node: NDArray[np.int64], cut: NDArray[np.int64]) -> NDArray[np.int64]:
    chosen = cut[node]
    cell = rows.cell[np.arange(len(node)), np.maximum(chosen, 0) // rows.bins]
    return 2 * node + ((chosen >= 0) & (cell > chosen))


def risk(alpha: Any, positive: Any, negative: Any) -> Any:
    """The paper's unnormalised Bayes risk of nodes with these class weights."""
    return 2 * alpha * np.sqrt(positive * negative) + 2 * (1 - alpha) * np.minimum(positive, negative)


def grow(
    rows: Rows,
    weight: Floats,
    alpha: float | str,
    depth: int,
    budget: Budget,
    trees: int,
    random: np.random.Generator,
) -> Tree:
    """Structure of one tree, by the exponential mechanism on the risk (16), or the best splits."""
    tree, node = Tree(), np.zeros(len(weight), dtype=np.int64)
    n_cells = rows.cell.shape[1] * rows.bins
    root = weight.sum()
    for level in range(depth):
        nodes = 2**level
        cell = (rows.cell + (n_cells * node)[:, None]).ravel()
        sums = [
            np.bincount(cell, np.repeat(weight * (rows.sign == c), rows.cell.shape[1]), nodes * n_cells)
            for c in (1, -1)
        ]
        positive, negative = (s.reshape(nodes, -1, rows.bins).cumsum(axis=2) for s in sums)
        p, n = positive[:, :1, -1:], negative[:, :1, -1:]
        of_node = (
            np.full(nodes, alpha) if alpha != CALIBRATED else (p + n)[:, 0, 0] / root
        )  # (18), not paid for
        a = of_node.astype(np.float64).clip(MIN_ALPHA, 1)[:, None, None]
        left, right = (
            (positive[..., :-1], negative[..., :-1]),
            (p - positive[..., :-1], n - negative[..., :-1]),
        )
        risks = risk(a, *left) + risk(a, *(np.maximum(side, 0) for side in right))
        # Δ of Corollary 7 with m the number of rows, which bounds the weight of every node.
        delta = 2 * a * np.sqrt(len(weight)) + 2 * (1 - a)
        utility = -risks
        if np.isfinite(budget.epsilon):
            scale = budget.split(trees, depth, level) / (2 * delta)
            utility = utility * scale + random.gumbel(size=risks.shape)
        best = utility.reshape(nodes, -1).argmax(axis=1)
        feature, bin_ = np.divmod(best, rows.bins - 1)
        pure = np.minimum(p, n)[:, 0, 0] <= 0
        cut = feature * rows.bins + bin_
        with np.errstate(invalid="ignore"):
            edge = np.abs(
                positive[np.arange(nodes), feature, bin_] / p[:, 0, 0]
                - negative[np.arange(nodes), feature, bin_] / n[:, 0, 0]
            )
        shares = {"weight": (p + n)[:, 0, 0] / root, "minority": np.minimum(p, n)[:, 0, 0] / root}
        tree.splits.append({**shares, "edge": np.nan_to_num(edge), "pure": pure})
        tree.cut.append(np.where(pure & ~np.isfinite(budget.epsilon), -1, cut))
        node = _descend(rows, node, tree.cut[-1])
    return tree


Leaves = Literal["link", "counts"]


def boost(
    train: Rows,
    tests: Rows,
    alpha: float | str,
    depth: int,
    trees: int,
    budget: Budget,
    random: np.random.Generator,
    bound: float = 1.0,
    leaves: Leaves = "link",
    public_edge: float | None = None,
) -> tuple[Floats, list[Tree]]:
    """Scores of the test rows, and the trees.

    "link" noises the link of a leaf's exact proportion, as printed, with the sensitivity 2M of a value in
    [-M, M].  "counts" noises the two class weights instead, as `lgb_dp.MBoost` does.  `public_edge` takes the
    place of the exact edge of every tree in its leveraging coefficient.
    """
    loss = lgb_dp.MLoss(1.0 if alpha == CALIBRATED else float(alpha))
    score, found, grown = np.zeros(len(train.sign)), np.zeros(len(tests.sign)), []
    for _ in range(trees):
        weight = loss.weight(train.sign * score)
        tree = grow(train, weight, alpha, depth, budget, trees, random)
        leaf = tree.leaf_of(train)
        p, n = (np.bincount(leaf, weight * (train.sign == c), 2**depth) for c in (1, -1))
        epsilon, prior = budget.leaf(trees, depth), 0.0
        if leaves == "counts" and np.isfinite(epsilon):
            prior = float(weight.max()) / epsilon
            p, n = (np.maximum(x + random.laplace(scale=prior, size=len(x)), 0) for x in (p, n))
        total = p + n + 2 * prior
        u = np.divide(p + prior, total, out=np.full(len(p), 0.5), where=total > 0).clip(CLAMP, 1 - CLAMP)
        h = np.clip(loss.link(u), -bound, bound)
        if leaves == "link" and np.isfinite(epsilon):
            h = np.clip(h + random.laplace(scale=2 * bound / epsilon, size=len(h)), -bound, bound)
        exact = float(np.mean(weight * train.sign * h[leaf]))  # not paid for
        edge = exact if public_edge is None else public_edge
        tree.value = 4 * loss.alpha * edge / bound**2 * h  # a = 1
        score += tree.value[leaf]
        found += tree.value[tree.leaf_of(tests)]
        grown.append(tree)
    return found, grown


Votes = Literal["RF-L", "RF-E"]


def forest(
    train: Rows,
    tests: Rows,
    votes: Votes,
    depth: int,
    trees: int,
    budget: Budget,
    random: np.random.Generator,
    disjoint: bool = False,
) -> Floats:
    """Votes for the positive class minus those for the other, of random trees.

    Every tree reads all rows and gets epsilon / trees, or with `disjoint` a part of the rows and all of
    epsilon.
    """
    n_features = train.cell.shape[1]
    found = np.zeros(len(tests.sign))
    part = random.integers(trees, size=len(train.sign)) if disjoint else None
    epsilon = budget.leaf(1 if disjoint else trees, depth, 1.0)
    for t in range(trees):
        tree = Tree()
        for level in range(depth):
            feature = random.integers(n_features, size=2**level)
            tree.cut.append(feature * train.bins + random.integers(train.bins - 1, size=2**level))
        leaf, used = tree.leaf_of(train), np.ones(len(train.sign)) if part is None else 1.0 * (part == t)
        counts = np.array([np.bincount(leaf, used * (train.sign == c), 2**depth) for c in (1, -1)])
        if votes == "RF-L":
            noised = counts + random.laplace(scale=1 / epsilon, size=counts.shape)
        else:  # exp(εu/2) as in the paper's definition of the mechanism
            noised = counts * epsilon / 2 + random.gumbel(size=counts.shape)
        vote = np.where(noised[0] > noised[1], 1.0, -1.0)
        found += vote[tree.leaf_of(tests)]
    return found
