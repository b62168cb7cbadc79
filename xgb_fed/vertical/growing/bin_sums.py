"""A passive party's sums of one level, decrypted, and the checks that they could come from fixed columns.

The active party knows every row's gradients and every node's rows, but not which row is in which bin. A
party's statements about its bins are therefore checked against the rules that hold for any columns: bins add
up to their node, a node leaves its sibling possible sums of every bin of their parent, and the root has in
every tree the rows per bin that the party announced before training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.vertical.protocol.packing import MultiClassPacking, normalised, sums_from_plaintexts


@dataclass(frozen=True)
class AgreedColumns:
    """The columns of a passive party as it announced them before training.

    `n_bins` counts the bins of each column without missing values; `counts` are the rows in each bin, column
    by column, missing values last.  A node with statistics has at least `min_node_rows` sampled rows.  The
    bins of `categorical` columns are categories.
    """

    n_bins: NDArray[np.int64]
    counts: NDArray[np.int64]
    min_node_rows: int
    categorical: frozenset[int] = frozenset()

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each column's bins start, and where the last one's end."""
        return np.concatenate([[0], np.cumsum(self.n_bins + 1)]).astype(np.int64)

    def check(self, n_rows: int, max_bin: int) -> None:
        """Raise `ProtocolError` unless columns of so many rows can be cut into these bins."""
        if not self.categorical <= set(range(len(self.n_bins))):
            raise ProtocolError("it announces impossible columns")
        # XGBoost cuts a column into at most one bin more than max_bin; a category is a bin whatever it says.
        n_possible = np.full(len(self.n_bins), min(max_bin + 1, MAX_BINS))
        n_possible[sorted(self.categorical)] = MAX_BINS
        possible = len(self.n_bins) and (self.n_bins >= 0).all() and (self.n_bins <= n_possible).all()
        if not possible or len(self.counts) != self.offsets[-1] or (self.counts < 0).any():
            raise ProtocolError("it announces impossible columns")
        if (np.add.reduceat(self.counts, self.offsets[:-1]) != n_rows).any() or self.min_node_rows < 1:
            raise ProtocolError("it announces impossible columns")

    def counts_of(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows in each bin of some columns."""
        parts = [self.counts[self.offsets[c] : self.offsets[c + 1]] for c in columns]
        return np.concatenate([*parts, self.counts[:0]])

    def digest(self) -> str:
        """Digest that is equal for equal columns and limits."""
        # Without categories, the digest is the one that earlier releases kept.
        kinds = [np.array(sorted(self.categorical))] if self.categorical else []
        parts = (self.n_bins, self.counts, np.array([self.min_node_rows]), *kinds)
        return hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()


@dataclass(frozen=True)
class BinSums:
    """Sums and rows of every bin of some nodes of a level, by their numbers in it, ascending.

    The counts have shape (n_nodes, n_total_bins).  The exact sums of g and h, as high and low halves,
    normalised, have shape (2, 2, n_classes, n_nodes, n_total_bins).
    """

    nodes: list[int]
    counts: NDArray[np.int64]
    sums: NDArray[np.int64]

    @classmethod
    def of_no_node(cls) -> BinSums:
        """Those of no level, before a tree has any."""
        return cls([], np.zeros((0, 0), dtype=np.int64), np.zeros((2, 2, 0, 0, 0), dtype=np.int64))

    def place(self, node: int) -> int:
        """Where a node lies in the arrays."""
        return self.nodes.index(node)

    def digest(self) -> str:
        """Digest of all numbers."""
        content = hashlib.sha256(np.array([*self.counts.shape, *self.nodes], dtype="<i8").tobytes())
        content.update(self.counts.astype("<i8").tobytes())
        content.update(self.sums.astype("<i8").tobytes())
        return content.hexdigest()

    @classmethod
    def read(
        cls,
        nodes: list[int],
        counts: NDArray[np.int32],
        plaintexts: Sequence[Sequence[int]],
        per_ciphertext: int,
        n_total_bins: int,
        packing: MultiClassPacking,
    ) -> BinSums:
        """Take decrypted statistics apart.

        The counts are those of `SplitStatistics`, the plaintexts the compressed sums of the bins that have
        rows, one sequence per group of classes.  Raises `ProtocolError` or `PlaintextRangeError` if a bin's
        g, h and count are not possible together.
        """
        if len(counts) != len(nodes) * n_total_bins or (counts < 0).any():
            raise ProtocolError("bins differ from the agreed ones")
        by_bin = counts.astype(np.int64).reshape(len(nodes), n_total_bins)
        occupied = by_bin > 0
        of_rows = sums_from_plaintexts(packing, plaintexts, per_ciphertext, by_bin[occupied])
        sums = np.zeros((2, 2, packing.n_classes, *by_bin.shape), dtype=np.int64)
        sums[..., occupied] = of_rows
        return cls(nodes, by_bin, sums)

    def check_totals(
        self, bin_offsets: NDArray[np.int64], sizes: NDArray[np.int64], totals: NDArray[np.int64]
    ) -> None:
        """The bins of every column add up to the node, to the last bit.

        A node has its sampled rows in `sizes`, and exact sums in `totals`, shape (2, 2, n_classes, n_nodes).
        """
        rows = np.add.reduceat(self.counts, bin_offsets[:-1], axis=-1)
        sums = normalised(np.add.reduceat(self.sums, bin_offsets[:-1], axis=-1))
        if (rows != sizes[:, None]).any() or (sums != normalised(totals)[..., None]).any():
            raise ProtocolError("bins do not add up to their node")

    def check_root(self, agreed: NDArray[np.int64], n_left_out: int) -> None:
        """The root has the rows per bin that were announced, less some of those left out of the sample."""
        missing = agreed - self.counts[0]
        if (missing < 0).any() or (missing > n_left_out).any():
            raise ProtocolError("the root's bins differ from the announced ones")

    def siblings(self, parents: list[int], above: BinSums) -> BinSums:
        """Each node's sibling: the sums of their parent less the node's own, exactly, possible or not.

        Each node has its parent in `parents`, whose sums are among those of the level above.
        """
        of_parents = [above.place(parent) for parent in parents]
        counts = above.counts[of_parents] - self.counts
        sums = normalised(above.sums[..., of_parents, :] - self.sums)
        return BinSums([node ^ 1 for node in self.nodes], counts, sums)

    def with_nodes(self, others: BinSums, nodes: list[int]) -> BinSums:
        """Some nodes of these and of others."""
        both = np.array([*self.nodes, *others.nodes])
        order = np.argsort(both)
        places = order[np.searchsorted(both, nodes, sorter=order)]
        counts = np.concatenate([self.counts, others.counts])
        sums = np.concatenate([self.sums, others.sums], axis=-2)
        return BinSums(nodes, counts[places], sums[..., places, :])

    def check_possible(self, packing: MultiClassPacking) -> None:
        """Every bin has a number of rows that is not negative, and possible sums of g and h over them."""
        if (self.counts < 0).any() or not packing.are_possible(self.sums, self.counts):
            raise ProtocolError("a node's counts or sums are impossible, given its sibling's")

    def left_of(self, node: int, bins: slice, goes_left: NDArray[np.bool_]) -> tuple[int, NDArray[np.int64]]:
        """Rows, and exact sums (2, 2, n_classes), left of a candidate, by the bins in `goes_left`."""
        place = self.place(node)
        own = self.sums[..., place, bins][..., goes_left].sum(axis=-1)
        return int(self.counts[place, bins][goes_left].sum()), normalised(own)
