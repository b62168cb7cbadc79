"""Path-dependent Tree SHAP: what each column adds to the prediction of a row, from covers and directions.

Values and thresholds are not needed, so they may lie with somebody else: a row is one bit per split, which
says whether it goes left.

A leaf with value v and columns 1 to m on its path is a product game.  A coalition S is worth v times z_i for
every column outside S, the fraction of the cover that its splits on the path pass on, and times o_i for every
column in S: 1 if the row goes the leaf's way at all of them, else 0 (Lundberg, Erion, Lee 2018, "Consistent
individualized feature attribution for tree ensembles", algorithm 1).  The Shapley value of column i is the
integral of the derivative of the multilinear extension along the diagonal (Owen 1972)::

    v (o_i - z_i) integral from 0 to 1 of prod over j != i of ((1 - t) z_j + t o_j) dt

The integrand is a polynomial of degree m - 1, so that ceil(m / 2) points of Gauss-Legendre make it exact.  At
each point, products are carried down the tree and sums over leaves up again, as Linear TreeSHAP does (Yu et
al. 2022): the time per row is the number of nodes times half the depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run


@dataclass(frozen=True)
class CoverTree:
    """A tree without conditions; node 0 is the root, children have higher numbers than their parent."""

    left: NDArray[np.int32]  # children; −1 at leaves
    right: NDArray[np.int32]
    split: NDArray[np.int32]  # the split's line in the table of sides; of any value at leaves
    player: NDArray[np.int32]  # splits with the same number are on the same column
    column: NDArray[np.int32]  # which number of the result a split's contributions are added to
    cover: NDArray[np.float64]  # sum of hessians
    value: NDArray[np.float64]  # of leaves, shape (n_nodes, n_outputs)


@dataclass(frozen=True)
class _Edges:
    """Edges from each node's parent to the node, as they hold for all rows; the root's stands for none."""

    parent: NDArray[np.int32]
    above: NDArray[np.int32]  # the next edge above on the same column, 0 without one
    is_left: NDArray[np.bool_]
    passed: NDArray[np.float64]  # fraction of the cover that the column's splits pass on down to this node
    n_players: int  # different columns on a path at most

    @classmethod
    def of(cls, tree: CoverTree) -> _Edges:
        n = len(tree.left)
        parent, above = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        is_left, passed = np.zeros(n, dtype=bool), np.ones(n)
        n_players = _follow(tree.left, tree.right, tree.player, tree.cover, parent, above, is_left, passed)
        return cls(parent, above, is_left, passed, int(n_players))


@kernel
def _follow(left, right, player, cover, parent, above, is_left, passed):
    """Fill in the edges; gives the number of different columns on a path at most."""
    n_different = np.zeros(len(left), dtype=np.int64)
    for node in range(len(left)):
        if left[node] < 0:
            continue
        edge = node
        while edge != 0 and player[parent[edge]] != player[node]:
            edge = parent[edge]
        for child in (left[node], right[node]):
            parent[child] = node
            above[child] = edge
            is_left[child] = child == left[node]
            # A node without cover passes nothing on: no row of the training run came by.
            part = cover[child] / cover[node] if cover[node] > 0.0 else 0.0
            passed[child] = passed[edge] * part
            n_different[child] = n_different[node] + (edge == 0)
    return n_different.max()


@kernel
def _add(sides, tree, edges, factor, weight, start, stop, first, first_output, out):
    """Rows `start` to `stop` - 1 of the sides, whose contributions are added from row `first` of `out` on."""
    split, column, value, is_leaf = tree
    parent, above, is_left = edges
    n_nodes, n_outputs, n_points = len(parent), value.shape[1], factor.shape[2]
    agrees = np.ones(n_nodes, dtype=np.bool_)
    case = np.zeros(n_nodes, dtype=np.int64)
    product = np.ones((n_nodes, n_points))
    total = np.zeros((n_nodes, n_outputs, n_points))
    for row in range(start, stop):
        byte, shift = row >> 3, 7 - (row & 7)
        for node in range(1, n_nodes):
            p = parent[node]
            goes_left = ((sides[split[p], byte] >> shift) & 1) == 1
            so_far = agrees[above[node]]
            agrees[node] = so_far and goes_left == is_left[node]
            case[node] = (2 if agrees[node] else 1) if so_far else 0
            for q in range(n_points):
                product[node, q] = product[p, q] * factor[case[node], node, q]
        total[:] = 0.0
        for node in range(n_nodes - 1, 0, -1):
            if is_leaf[node]:
                for k in range(n_outputs):
                    for q in range(n_points):
                        total[node, k, q] = product[node, q] * value[node, k]
            p = parent[node]
            for k in range(n_outputs):
                if case[node] > 0:
                    added = 0.0
                    for q in range(n_points):
                        added += total[node, k, q] * weight[case[node], node, q]
                    out[row - start + first, first_output + k, column[p]] += added
                for q in range(n_points):
                    total[p, k, q] += total[node, k, q]


def add_contributions(
    tree: CoverTree,
    sides: NDArray[np.uint8],
    rows: tuple[int, int],
    out: NDArray[np.float64],
    first_output: int = 0,
    n_threads: int = 0,
) -> None:
    """Add what each column contributes to one tree's output for some rows.

    Contributions add up to the difference between a row's leaf and the tree's `expected_values`. These go to
    ``out``, shape (number of rows, outputs, n_columns), the tree's from `first_output` on.

    `sides` has one bit per row for each split, the first row's the highest of the first byte: 1 goes left. Of
    its rows, those from ``rows[0]`` to ``rows[1] - 1`` are looked at.
    """
    if len(tree.left) == 1:
        return
    edges = _Edges.of(tree)
    # On [0, 1]; the points are inside, so that nothing below is divided by 0.
    points, weights = np.polynomial.legendre.leggauss((edges.n_players + 1) // 2)
    t, w = (points + 1) / 2, weights / 2
    z, z_above = edges.passed[:, None], edges.passed[edges.above][:, None]
    term, term_above = (1 - t) * z + t, (1 - t) * z_above + t
    n = len(tree.left)
    factor, weight = np.empty((3, n, len(t))), np.zeros((3, n, len(t)))
    # The row left the path at an earlier split on the column: only the fraction changes.
    factor[0] = np.divide(z, z_above, out=np.zeros_like(z), where=z_above > 0)
    # It leaves the path here: o is 0, and (o - z) / ((1 - t) z) does not depend on z.
    factor[1] = (1 - t) * z / term_above
    weight[1] = -w / (1 - t) - w * (1 - z_above) / term_above
    factor[2] = term / term_above
    weight[2] = w * (1 - z) / term - w * (1 - z_above) / term_above
    first = rows[0]
    of_tree = (tree.split, tree.column, tree.value, tree.left < 0)
    of_edges = (edges.parent, edges.above, edges.is_left)

    def work(_part: int, start: int, stop: int) -> None:
        own = (first + start, first + stop, start)
        _add(sides, of_tree, of_edges, factor, weight, *own, first_output, out)

    run(work, blocks(rows[1] - rows[0], n_threads, n * len(t)))


def expected_values(tree: CoverTree) -> NDArray[np.float64]:
    """A tree's output for a row without known values: its leaves weighted by covers, one per output."""
    reached = np.zeros(len(tree.left))
    reached[0] = 1.0
    for node in np.flatnonzero(tree.left >= 0):
        for child in (tree.left[node], tree.right[node]):
            part = tree.cover[child] / tree.cover[node] if tree.cover[node] > 0 else 0.0
            reached[child] = reached[node] * part
    return np.asarray(reached[tree.left < 0] @ tree.value[tree.left < 0])
