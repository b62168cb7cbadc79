"""Contributions of the columns to the predictions of a vertical model: XGBoost's ``pred_contribs``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees.contributions import CoverTree, add_contributions, expected_values
from gbdt_parties.channel import ACTIVE, Channel
from gbdt_parties.errors import ProtocolError
from xgb_fed.vertical.explaining.sides import OWN, Sides, splits_of
from xgb_fed.vertical.protocol.messages import ColumnsTold, TellColumns
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.tree import LEAF, FederatedTree


@dataclass(frozen=True)
class ModelColumns:
    """Columns in the pooled order, a party that consents to no more in one.

    Their names are the active party's, ``"bank: column 3"`` for the column at position 3 of a passive party's
    data, and ``"bank"`` for all of them together.  By owner and number, each split has its place in `names`,
    and in `players` a number that two splits of a tree have in common if they are on the same column.
    """

    names: list[str]
    players: Mapping[tuple[int, int], int]
    places: Mapping[tuple[int, int], int]

    def of_tree(self, tree: FederatedTree) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Each node's player and place; 0 for leaves."""
        splits = list(zip(tree.owner, tree.split_id, strict=True))
        return tuple(  # type: ignore[return-value]  # of two
            np.array([0 if split[0] == LEAF else numbers[split] for split in splits], dtype=np.int32)
            for numbers in (self.players, self.places)
        )


def ask_columns(
    trees: Sequence[FederatedTree],
    splits: Splits,
    parties: Sequence[str],
    party_features: Sequence[int],
    channels: Mapping[int, Channel],
) -> ModelColumns:
    """Ask the parties which of their splits in some trees share a column.

    `splits` are the active party's.  The channels lead to every party, by number: the level of consent shows
    also where a party has no split.  Raises `ConsentError` naming a party that does not consent to
    explanations.
    """
    wanted = splits_of(trees)
    names, n_players = list(splits.names), len(splits.names)
    players: dict[tuple[int, int], int] = {}
    none = np.empty(0, dtype=np.int32)
    for split in wanted.get(OWN, (none, none))[0].tolist():
        players[OWN, split] = splits.features[split]
    places = dict(players)
    for owner, (name, n_features) in enumerate(zip(parties, party_features, strict=True), start=1):
        first, named = len(names), [f"{name}: column {k}" for k in range(n_features)]
        numbers, tree_of = wanted.get(owner, (none, none))
        told = _told(channels[owner], numbers, tree_of, n_features)
        for split, column in zip(numbers.tolist(), told.columns.tolist(), strict=True):
            players[owner, split] = n_players + column
            places[owner, split] = first + (column if told.per_feature else 0)
        names += named if told.per_feature else [name]
        n_players += n_features
    others = set(names[len(splits.names) :])
    own = [f"{ACTIVE}: {name}" if name in others else name for name in splits.names]
    return ModelColumns(own + names[len(own) :], players, places)


def _told(
    channel: Channel, splits: NDArray[np.int32], trees: NDArray[np.int32], n_features: int
) -> ColumnsTold:
    """One party's answer, checked."""
    told = channel.ask(TellColumns(splits, trees), ColumnsTold)
    columns = told.columns
    if len(columns) != len(splits) or told.per_feature not in (0, 1):
        raise ProtocolError(f"party {channel.name!r} names columns of other splits than requested")
    if not ((columns >= 0) & (columns < n_features)).all():
        raise ProtocolError(f"party {channel.name!r} names columns that it does not have")
    return told


BYTES_AT_ONCE = 64 << 20
"""Of contributions in double precision."""


@dataclass(frozen=True)
class Explanation:
    """Contributions of columns to the margins of some rows.

    Attributes
    ----------
    contributions : ndarray of float32, shape (n_rows, n_columns + 1) or (n_rows, n_classes, n_columns + 1)
        As XGBoost's ``pred_contribs=True`` gives them: the last column is the bias, and a row adds up to its
        margin.
    feature_names : list of str
        One per column: the active party's names; ``"bank: column 3"`` for the column at position 3 of a
        passive party's data; ``"bank"`` where that party consents to the sum of its columns only.
    """

    contributions: NDArray[np.float32]
    feature_names: list[str]


def contributions_of(
    trees: Sequence[FederatedTree],
    groups: Sequence[int | None],
    n_classes: int,
    columns: ModelColumns,
    sides: Sides,
) -> NDArray[np.float32]:
    """Path-dependent Tree SHAP values, shape (n_rows, n_classes, n_columns + 1).

    The last column is the output of the trees for a row without known values.  A tree's group is the class
    that it belongs to; None if its leaves have a value for every class.
    """
    n_columns = len(columns.names)
    first_class = [0 if group is None else group for group in groups]
    cover_trees = [_cover_tree(tree, columns, sides) for tree in trees]
    expected = np.zeros(n_classes)
    for tree, first in zip(cover_trees, first_class, strict=True):
        expected[first : first + tree.value.shape[1]] += expected_values(tree)
    out = np.empty((sides.n_rows, n_classes, n_columns + 1), dtype=np.float32)
    at_once = max(1, BYTES_AT_ONCE // (8 * n_classes * n_columns))
    for start in range(0, sides.n_rows, at_once):
        stop = min(start + at_once, sides.n_rows)
        part = np.zeros((stop - start, n_classes, n_columns))
        for tree, first in zip(cover_trees, first_class, strict=True):
            add_contributions(tree, sides.table, (start, stop), part, first)
        out[start:stop, :, :-1] = part
    out[:, :, -1] = expected
    return out


def _cover_tree(tree: FederatedTree, columns: ModelColumns, sides: Sides) -> CoverTree:
    players, places = columns.of_tree(tree)
    return CoverTree(
        np.array(tree.left, dtype=np.int32),
        np.array(tree.right, dtype=np.int32),
        sides.lines_of(tree),
        players,
        places,
        np.array(tree.sum_hessian, dtype=np.float64),
        tree.values().astype(np.float64),
    )
