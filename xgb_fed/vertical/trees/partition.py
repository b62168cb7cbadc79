"""Which rows are in which node of the level being grown; every party keeps the same picture.

From the sampled rows of the nodes alone follows which of them have statistics, and which are sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class NodesWithStatistics:
    """Nodes of a level whose statistics the active party gets, `all`, and those of them that are `sent`.

    Of two siblings one is sent at most: the other one's statistics are those of their parent less its own.
    The parent has statistics because it has more rows than either.  So the smaller siblings are sent, and
    larger ones beside too few rows; of equal ones, the right one counts as `larger`.
    """

    all: NDArray[np.int64]
    larger: NDArray[np.int64]
    sent: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: NDArray[np.int64], min_rows: int) -> NodesWithStatistics:
        """Nodes of at least `min_rows` sampled rows, of the sizes of the root, or of siblings in pairs."""
        nodes = np.flatnonzero(sizes >= min_rows)
        if len(sizes) == 1:
            return cls(nodes, nodes[:0], nodes)
        sibling = nodes ^ 1
        is_larger = (sizes[nodes] > sizes[sibling]) | ((sizes[nodes] == sizes[sibling]) & (nodes > sibling))
        return cls(nodes, nodes[is_larger], nodes[~is_larger | (sizes[sibling] < min_rows)])


@dataclass
class Partition:
    """Ascending rows, node by node from `starts`, whose last number is the end of all."""

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
        """The next level: left and right child of each split node in order, by one flag per row."""
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
