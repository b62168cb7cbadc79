"""Which way every row goes at every split of some trees, whatever its path: what explanations are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.channel import Channel, blaming
from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import from_bits, to_bits
from xgb_fed.boosting.features import Columns
from xgb_fed.vertical.protocol.messages import SidesTold, TellSides, splits_at_once
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.tree import LEAF, FederatedTree

OWN = 0
"""The active party, as an owner of splits."""


@dataclass(frozen=True)
class Sides:
    """Sides of all rows, a bit each (1 is left); `lines` has each split's in `table`, by owner and number."""

    table: NDArray[np.uint8]
    lines: Mapping[tuple[int, int], int]
    n_rows: int

    def lines_of(self, tree: FederatedTree) -> NDArray[np.int32]:
        """The line of each node's split; 0 for leaves."""
        places = zip(tree.owner, tree.split_id, strict=True)
        return np.array(
            [0 if owner == LEAF else self.lines[owner, split] for owner, split in places], dtype=np.int32
        )

    def leaves(self, trees: Sequence[FederatedTree]) -> NDArray[np.int32]:
        """Each row's leaf in each tree, shape (n_rows, n_trees)."""
        leaves = np.zeros((self.n_rows, len(trees)), dtype=np.int32)
        byte, shift = np.divmod(np.arange(self.n_rows), 8)
        shift = (7 - shift).astype(np.uint8)
        for t, tree in enumerate(trees):
            # A leaf is its own child.
            stay = np.arange(len(tree))
            is_leaf = np.array(tree.owner) == LEAF
            children = np.where(is_leaf, stay, [tree.right, tree.left])
            lines = self.lines_of(tree)
            node = leaves[:, t]
            while not is_leaf[node].all():
                goes_left = (self.table[lines[node], byte] >> shift) & 1
                node[:] = children[goes_left, node]
        return leaves


def splits_of(trees: Sequence[FederatedTree]) -> dict[int, tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Numbers of the splits in some trees, tree by tree, ascending, and each one's tree; by owner."""
    found: dict[int, list[tuple[int, int]]] = {}
    for t, tree in enumerate(trees):
        for owner, split in sorted(zip(tree.owner, tree.split_id, strict=True)):
            if owner != LEAF:
                found.setdefault(owner, []).append((split, t))
    return {
        owner: (np.array(places, dtype=np.int32)[:, 0], np.array(places, dtype=np.int32)[:, 1])
        for owner, places in sorted(found.items())
    }


def ask_sides(
    trees: Sequence[FederatedTree],
    splits: Splits,
    columns: Columns | None,
    channels: Mapping[int, Channel],
    n_rows: int,
) -> Sides:
    """All parties' sides at all their splits in some trees; `ConsentError` names one that refuses."""
    wanted = splits_of(trees)
    n_splits = sum(len(numbers) for numbers, _ in wanted.values())
    table = np.zeros((n_splits, -(-n_rows // 8)), dtype=np.uint8)
    lines: dict[tuple[int, int], int] = {}
    everyone = np.arange(n_rows)
    for owner, (numbers, _) in wanted.items():
        first = len(lines)
        lines.update({(owner, int(split)): first + k for k, split in enumerate(numbers)})
        if owner == OWN and columns is not None:  # without columns, no split is the active party's
            for k, split in enumerate(numbers.tolist()):
                table[first + k] = to_bits(splits.goes_left(split, columns, everyone))
            continue
        at_once = splits_at_once(n_rows)
        for k in range(0, len(numbers), at_once):
            asked = numbers[k : k + at_once]
            table[first + k : first + k + len(asked)] = _told(channels[owner], asked, n_rows)
    return Sides(table, lines, n_rows)


def _told(channel: Channel, splits: NDArray[np.int32], n_rows: int) -> NDArray[np.uint8]:
    """One party's answer, checked, shape (n_splits, n_rows / 8)."""
    answer = channel.ask(TellSides(splits), SidesTold)
    size = -(-n_rows // 8)
    if len(answer.left_rows) != size * len(splits):
        raise ProtocolError(f"party {channel.name!r} sent sides of other rows or splits than requested")
    sides = answer.left_rows.reshape(len(splits), size)
    with blaming(channel.name):
        for line in sides:
            from_bits(line, n_rows)
    return sides
