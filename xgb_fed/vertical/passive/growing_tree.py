"""A growing tree as a passive party knows it: the rows and encrypted histograms of its nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import from_bits
from xgb_fed.boosting.features import bins_to_left
from xgb_fed.ciphers.base import Ciphertexts, PublicKey
from xgb_fed.vertical.passive.held_rows import HeldBins
from xgb_fed.vertical.passive.histogram import Histograms
from xgb_fed.vertical.protocol import messages as wire
from xgb_fed.vertical.protocol.splits import NamedSplit
from xgb_fed.vertical.trees.partition import NodesWithStatistics, Partition

MAX_STATISTICS_BYTES = 4 << 30
"""Of the encrypted histograms of one level of a tree: another party's settings must not fill this memory."""

MIN_ROWS_AHEAD = 4096
"""Rows that are summed up at the root ahead of the question for its statistics, at least."""
BINS_AHEAD = 4
"""The same as a multiple of the bins, at one addition for each."""


class GrowingTree:
    """Growing tree of a passive party, which has only a root yet.

    Its columns, in ascending order, are some of all the session's bins.  Each row has `n_groups` ciphertexts.
    """

    def __init__(
        self, bins: HeldBins, columns: NDArray[np.int32], sampled: NDArray[np.bool_], n_groups: int
    ) -> None:
        self.rows = bins.of_tree(columns, sampled)
        self.columns, self.sampled = columns, sampled
        self.position = (np.cumsum(sampled) - 1).astype(np.int32)
        """Place of each sampled row among the ciphertexts."""
        self.sources: list[Ciphertexts] = []
        """Encrypted gradients: an array for each ciphertext of a row, as far as rows were received."""
        self.received, self.n_added = [0] * n_groups, [0] * n_groups
        """Rows of each that have arrived, and those that are, or will be, in `at_root`."""
        self.at_root: list[Histograms] = []
        """For each of the first ciphertexts of a row, the sums at the root of the first rows."""
        self.partition = Partition.root(len(sampled))
        """All rows, in the nodes of the present level."""
        self.histograms = Histograms([], np.empty((0, 0), dtype=np.int32))
        self.slots = self.with_statistics = np.empty(0, dtype=np.int64)
        """Where each node's histogram is, −1 if it has none; the nodes whose statistics were given."""
        self.n_levels = 0
        """Levels whose statistics were made."""
        self.owned: dict[int, NDArray[np.bool_]] = {}
        """Of nodes of the present level that this party split: which rows go left."""

    def receive(self, key: PublicKey, message: wire.Gradients) -> None:
        """Add the encrypted gradients of the next rows."""
        part = key.from_bytes(bytes(message.values))
        n_sampled = self.rows.n_rows
        if not 0 <= message.group < len(self.received) or self.n_levels:
            raise ProtocolError("gradients at a wrong time, or of a wrong group")
        start = self.received[message.group]
        if message.start != start or start + len(part) > n_sampled:
            raise ProtocolError("gradients of other rows than the next ones")
        if len(self.sources) == message.group:
            self.sources.append(np.empty((n_sampled, *part.shape[1:]), dtype=part.dtype))
        if len(self.sources) <= message.group:
            raise ProtocolError("gradients of a wrong group")
        self.sources[message.group][start : start + len(part)] = part
        self.received[message.group] += len(part)

    def rows_to_add(self, group: int) -> range:
        """Rows that have arrived and were not given here before, if it is worth while to sum them up now.

        A few rows are not: whatever their number, their sums are added bin by bin to those before.
        """
        start, received = self.n_added[group], self.received[group]
        worth = max(MIN_ROWS_AHEAD, BINS_AHEAD * int(self.rows.bin_offsets[-1]))
        if received - start >= worth or received == self.rows.n_rows:
            self.n_added[group] = received
        return range(start, self.n_added[group])

    def add_at_root(self, key: PublicKey, group: int, rows: range) -> None:
        """Add the next rows to the sums at the root."""
        numbers = np.arange(rows.start, rows.stop, dtype=np.int32)
        starts = np.array([0, len(rows)], dtype=np.int64)
        histograms = self.rows.histograms(key, {group: self.sources[group]}, numbers, starts)
        if len(self.at_root) == group:
            self.at_root.append(histograms)
        else:
            self.at_root[group] = self.at_root[group].plus(key, histograms)

    def nodes_with_statistics(self, min_node_rows: int) -> NodesWithStatistics:
        """The nodes of the present level that are large enough: nothing but their rows decides it."""
        nodes = NodesWithStatistics.of(self.partition.kept(self.sampled).sizes(), min_node_rows)
        if not len(nodes.all):
            raise ProtocolError(f"statistics are of nodes with at least {min_node_rows} sampled rows")
        self.with_statistics = nodes.all
        return nodes

    @property
    def is_complete(self) -> bool:
        """Whether all gradients have arrived."""
        return set(self.received) == {self.rows.n_rows}

    def advance(self, message: wire.FindSplits) -> NDArray[np.int64] | None:
        """Go down to the next level; the result is the parent of each of its nodes, or None at the root."""
        if not self.n_levels:
            if len(message.assignment) or len(message.left_rows):
                raise ProtocolError("the root has no level above")
            return None
        if len(message.assignment) != self.partition.n_nodes:
            raise ProtocolError("every node of the level above has an assignment")
        mine = np.flatnonzero(message.assignment == wire.SPLIT_BY_YOU).tolist()
        others = np.flatnonzero(message.assignment == wire.SPLIT_BY_OTHERS).tolist()
        if set(mine) != set(self.owned):
            raise ProtocolError("the request names other nodes as split here than were split")
        flags = from_bits(message.left_rows, int(self.partition.sizes()[others].sum()))
        goes_left = {**self.owned, **self.partition.split_flags(others, flags)}
        if any(left.all() or not left.any() for left in goes_left.values()):
            raise ProtocolError("a split leaves one side without rows")
        self.partition = self.partition.children(goes_left)
        self.owned = {}
        return np.repeat(np.array(sorted(goes_left), dtype=np.int64), 2)

    def build(self, key: PublicKey, nodes: NodesWithStatistics, parents: NDArray[np.int64] | None) -> None:
        """Histograms of nodes: smaller children are summed, larger ones subtracted, sent or not."""
        above, above_slots, derived = self.histograms, self.slots, nodes.larger
        summed = np.union1d(np.setdiff1d(nodes.all, derived), derived ^ 1)
        size = len(nodes.all) * int(self.rows.bin_offsets[-1]) * sum(s[:1].nbytes for s in self.sources)
        if size > MAX_STATISTICS_BYTES:
            raise ProtocolError(
                f"statistics of this level take {size >> 20} MiB, this party keeps at most "
                f"{MAX_STATISTICS_BYTES >> 20}: lower max_bin, max_depth or the number of classes"
            )
        if parents is None and self.at_root:
            built = Histograms([part.sums[0] for part in self.at_root], self.at_root[0].counts)
            self.at_root = []
        else:
            chosen = self.partition.kept(self.sampled).selected(summed)
            rows = self.position[chosen.rows]
            sources = dict(enumerate(self.sources))
            built = self.rows.histograms(key, sources, rows, chosen.starts)
        self.slots = np.full(self.partition.n_nodes, -1, dtype=np.int64)
        self.slots[summed] = np.arange(len(summed))
        if len(derived) and parents is not None:
            of_parents = above.take(above_slots[parents[derived]])
            rest = of_parents.less(key, built.take(self.slots[derived ^ 1]))
            self.slots[derived] = len(summed) + np.arange(len(derived))
            built = Histograms.joined([built, rest])
        self.histograms = built
        self.n_levels += 1

    def statistics(
        self, key: PublicKey, nodes: NDArray[np.int64], field_bits: int, per_ciphertext: int
    ) -> wire.SplitStatistics:
        """The sums of all bins with rows, compressed and re-randomised.

        One packed sum has `field_bits` bits, each ciphertext that is sent `per_ciphertext` of them.
        """
        histograms = self.histograms.take(self.slots[nodes])
        occupied = histograms.counts > 0
        parts = [
            key.rerandomise(key.compress(sums[occupied], field_bits, per_ciphertext))
            for sums in histograms.sums
        ]
        return wire.SplitStatistics(
            counts=histograms.counts.reshape(-1).astype(np.int32, copy=False),
            sums=key.to_bytes(np.concatenate(parts)),
        )

    def named_splits(self, message: wire.SplitNodes, categorical: frozenset[int]) -> list[NamedSplit]:
        """The splits that a request names, with as many columns, bins and directions as nodes.

        The bins of `categorical` columns are categories.  Raises `ProtocolError` if a column is not of this
        tree, or the categories that go right are none, or those of another number of columns.
        """
        columns = message.columns.tolist()
        places = np.searchsorted(self.columns, message.columns)
        if not np.isin(message.columns, self.columns).all():
            raise ProtocolError("a split of a node or column without statistics")
        n_bins = np.diff(self.rows.bin_offsets)[places] - 1
        by_category = np.isin(message.columns, sorted(categorical))
        bits = message.right if isinstance(message, wire.SplitCategories) else np.empty(0, dtype=np.uint8)
        flags = from_bits(bits, int(n_bins[by_category].sum()))
        sets = iter(np.split(flags, np.cumsum(n_bins[by_category])[:-1]))
        named = []
        for k, column in enumerate(columns):
            right = tuple(np.flatnonzero(next(sets)).tolist()) if by_category[k] else None
            if right is not None and (not right or message.last_left[k] != -1):
                raise ProtocolError("a split by categories where no category goes right")
            named.append(NamedSplit(column, int(message.last_left[k]), bool(message.default_left[k]), right))
        return named

    def check_candidate(self, node: int, split: NamedSplit) -> None:
        """Raise `ProtocolError` unless a node can be split there into two sides with sampled rows."""
        place = int(np.searchsorted(self.columns, split.column))
        if not self.n_levels or node not in self.with_statistics or place == len(self.columns):
            raise ProtocolError("a split of a node or column without statistics")
        first, end = self.rows.bin_offsets[place : place + 2]
        counts = self.histograms.counts[self.slots[node], first:end]
        goes_left = bins_to_left(len(counts) - 1, split.last_left, split.default_left, split.right)
        if not -1 <= split.last_left < len(counts) - 1 or not 0 < counts[goes_left].sum() < counts.sum():
            raise ProtocolError("a split that does not divide its node")
