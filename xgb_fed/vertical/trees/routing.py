"""Rows sent through the trees of a model whose splits lie with several parties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.channel import Channel, blaming
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.messages import from_bits, to_bits
from xgb_fed.boosting.features import Columns
from xgb_fed.vertical.protocol.messages import Routed, RouteRows
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.partition import Partition
from xgb_fed.vertical.trees.tree import LEAF, FederatedTree

MAX_BITMAP_BYTES = 8 << 20
"""Bytes of row flags in one message."""

MAX_ROWS = 1 << 31
"""Row positions are 32-bit integers."""


def row_positions(rows: Any) -> NDArray[np.int32]:
    """Positions for a message, none for all rows; `InvalidDataError` unless integers from 0."""
    if rows is None:
        return np.empty(0, dtype=np.int32)
    positions = np.asarray(rows)
    if positions.ndim != 1 or not len(positions) or positions.dtype.kind not in "iu" or positions.min() < 0:
        raise InvalidDataError("row positions must be a vector of integers from 0")
    return positions.astype(np.int32)


def ascending(
    positions: NDArray[np.int32], n_rows: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Bring rows into the order of their positions, in which they leave; gives this order and the positions.

    The order of a data frame may follow the labels or earlier predictions; positions that ascend say nothing
    but which rows there are.  No positions mean all rows, and an empty order that rows stay as they are.
    `n_rows` is the number of the active party's rows, if it has columns or labels of them.

    Raises `InvalidDataError` if there are not as many positions as rows.
    """
    if len(positions) and n_rows not in (None, len(positions)):
        raise InvalidDataError(f"{len(positions)} row positions for {n_rows} rows")
    if (np.diff(positions) >= 0).all():
        return np.empty(0, dtype=np.int64), positions
    order = np.argsort(positions, kind="stable")
    return order, positions[order]


@dataclass
class Router:
    """Sends rows through splits, the active party's here, the others' at their owners.

    The columns are the active party's of the rows, the channels go by party number.  The data set says which
    rows at the passive parties: 0, or the number of an evaluation set.
    """

    splits: Splits
    columns: Columns | None
    channels: dict[int, Channel]
    dataset: int

    def goes_left(
        self, owner: int, splits: list[int], rows: list[NDArray[np.int32]], n_rows: int
    ) -> list[NDArray[np.bool_]]:
        """Which of the rows that reach some splits of one owner go left."""
        if owner == 0 and self.columns is not None:  # without columns, no split is the active party's
            return [self.splits.goes_left(s, self.columns, r) for s, r in zip(splits, rows, strict=True)]
        at_once = max(1, MAX_BITMAP_BYTES // -(-n_rows // 8))
        flags: list[NDArray[np.bool_]] = []
        for k in range(0, len(splits), at_once):
            flags += self._ask(self.channels[owner], splits[k : k + at_once], rows[k : k + at_once], n_rows)
        return flags

    def _ask(
        self, channel: Channel, splits: list[int], rows: list[NDArray[np.int32]], n_rows: int
    ) -> list[NDArray[np.bool_]]:
        bitmaps = []
        for reached in rows:
            flags = np.zeros(n_rows, dtype=bool)
            flags[reached] = True
            bitmaps.append(to_bits(flags))
        sizes = np.array([len(reached) for reached in rows], dtype=np.int32)
        request = RouteRows(self.dataset, np.array(splits, dtype=np.int32), sizes, np.concatenate(bitmaps))
        answer = channel.ask(request, Routed)
        with blaming(channel.name):
            together = from_bits(answer.left_rows, int(sizes.sum()))
        return np.split(together, np.cumsum(sizes)[:-1])


def route(trees: list[FederatedTree], n_rows: int, router: Router) -> NDArray[np.int32]:
    """Each row's leaf in each tree, (n_rows, n_trees): level by level, one question to each owner."""
    leaves = np.zeros((n_rows, len(trees)), dtype=np.int32)
    everyone = Partition.root(n_rows).rows
    frontier = [(t, 0, everyone) for t in range(len(trees))]
    while frontier:
        below: list[tuple[int, int, NDArray[np.int32]]] = []
        by_owner: dict[int, list[tuple[int, int, NDArray[np.int32]]]] = {}
        for t, node, rows in frontier:
            owner = trees[t].owner[node]
            if owner == LEAF:
                leaves[rows, t] = node
            elif len(rows):
                by_owner.setdefault(owner, []).append((t, node, rows))
        for owner in sorted(by_owner):
            places = by_owner[owner]
            splits = [trees[t].split_id[node] for t, node, _ in places]
            flags = router.goes_left(owner, splits, [rows for _, _, rows in places], n_rows)
            for (t, node, rows), left in zip(places, flags, strict=True):
                below.append((t, trees[t].left[node], rows[left]))
                below.append((t, trees[t].right[node], rows[~left]))
        frontier = below
    return leaves
