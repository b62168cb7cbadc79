"""Which rows are in which node of the level being grown; every party keeps the same picture."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass
class Partition:
    """Rows, node by node, in ascending order within each.

    Attributes
    ----------
    rows : ndarray of int32
    starts : ndarray of int64, shape (n_nodes + 1,)
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def root(cls, n_rows: int) -> Partition:
        """All rows in one node."""
        return cls(np.arange(n_rows, dtype=np.int32), np.array([0, n_rows], dtype=np.int64))

    @property
    def n_nodes(self) -> int:
        """Nodes of the level."""
        return len(self.starts) - 1

    def of(self, node: int) -> NDArray[np.int32]:
        """Rows of one node."""
        return self.rows[self.starts[node] : self.starts[node + 1]]

    def kept(self, mask: NDArray[np.bool_]) -> Partition:
        """The same nodes, restricted to the rows that a mask over all rows keeps."""
        keep = mask[self.rows]
        sizes = [np.count_nonzero(keep[a:b]) for a, b in pairwise(self.starts.tolist())]
        return Partition(self.rows[keep], np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    def children(self, goes_left: dict[int, NDArray[np.bool_]]) -> Partition:
        """The next level: left and right child of every node in `goes_left`, in the nodes' order.

        Parameters
        ----------
        goes_left : dict
            For each node that splits, one flag per row of the node.
        """
        parts: list[NDArray[np.int32]] = []
        for node in sorted(goes_left):
            rows = self.of(node)
            parts += [rows[goes_left[node]], rows[~goes_left[node]]]
        if not parts:
            return Partition(self.rows[:0], np.zeros(1, dtype=np.int64))
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return Partition(np.concatenate(parts), starts)

    def sizes(self) -> NDArray[np.int64]:
        """Rows of each node."""
        return np.diff(self.starts)

    def selected(self, nodes: NDArray[np.int64]) -> Partition:
        """Some of the nodes."""
        parts = [self.of(int(node)) for node in nodes]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return Partition(np.concatenate([*parts, self.rows[:0]]), starts)

    def split_flags(self, nodes: list[int], flags: NDArray[np.bool_]) -> dict[int, NDArray[np.bool_]]:
        """Divide the flags of several nodes' rows, which follow one another, by node."""
        bounds = np.concatenate([[0], np.cumsum(self.sizes()[nodes])]).astype(np.int64)
        return {node: flags[a:b] for node, (a, b) in zip(nodes, pairwise(bounds), strict=True)}
