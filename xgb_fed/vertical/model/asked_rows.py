"""The rows of one prediction or explanation, and the session with the parties that are asked about them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gbdt_parties import messages
from gbdt_parties.channel import Channel, Party
from gbdt_parties.errors import ConsentError, InvalidDataError, ProtocolError
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.features import Columns
from xgb_fed.vertical.explaining.sides import Sides, ask_sides
from xgb_fed.vertical.protocol.messages import ModelOpened, OpenModel
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.routing import MAX_ROWS, Router, ascending, route
from xgb_fed.vertical.trees.tree import FederatedTree

A = TypeVar("A", bound=np.generic)


@dataclass(frozen=True)
class PredictionRows:
    """Rows in the order in which they leave, and a channel to each party that is asked, by its number.

    Splits and columns are the active party's.  `order` says which of the caller's rows each one is; it is
    empty if they are in the caller's order.
    """

    splits: Splits
    columns: Columns | None
    channels: dict[int, Channel]
    n_rows: int
    order: NDArray[np.int64]

    @classmethod
    def open(
        cls,
        model_id: bytes,
        splits: Splits,
        columns: Columns | None,
        parties: Sequence[Party],
        trees: Sequence[FederatedTree] | None,
        positions: NDArray[np.int32],
        traffic: Traffic | None,
    ) -> PredictionRows:
        """Open a session with parties, which come in the order of the model's.

        The active party's columns, and the positions of the rows in the parties' data, are in the caller's
        order; no positions mean all rows.  Parties that have no split in the trees are not asked, unless no
        other party has rows; None in place of trees asks all.
        """
        order, positions = ascending(positions, columns.n_rows if columns is not None else None)
        if len(order) and columns is not None:
            columns = columns.take(order)
        session = os.urandom(16)
        traffic = traffic if traffic is not None else Traffic()
        used = {owner for tree in trees or () for owner in tree.owner}
        n_rows = columns.n_rows if columns is not None else len(positions)
        channels = {}
        for k, party in enumerate(parties, start=1):
            if trees is None or k in used or columns is None:
                channels[k] = Channel(party, session, traffic)
                opened = channels[k].ask(OpenModel(model_id, n_rows, positions), ModelOpened)
                if not 0 < opened.n_rows < MAX_ROWS:
                    raise ProtocolError(f"party {party.name!r} says it has {opened.n_rows} rows")
                if n_rows not in (0, opened.n_rows):
                    raise InvalidDataError(f"party {party.name!r} has {opened.n_rows} rows, others {n_rows}")
                n_rows = opened.n_rows
        return cls(splits, columns, channels, n_rows, order)

    def leaves(self, trees: Sequence[FederatedTree]) -> NDArray[np.int32]:
        """Each row's leaf in each tree: parties are asked about the rows that reach their splits."""
        return route(list(trees), self.n_rows, Router(self.splits, self.columns, self.channels, dataset=0))

    def sides(self, trees: Sequence[FederatedTree]) -> Sides:
        """Each row's side at every split: parties do not learn which splits it reaches."""
        return ask_sides(trees, self.splits, self.columns, self.channels, self.n_rows)

    def __enter__(self) -> PredictionRows:
        """Return the session."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the session; an error other than a lacking consent has ended it, or the party is gone."""
        if kind is None or issubclass(kind, ConsentError):
            for channel in self.channels.values():
                channel.ask(messages.Finish(), messages.Done)

    def restored(self, values: NDArray[A]) -> NDArray[A]:
        """Values of the rows in the caller's order."""
        return values[np.argsort(self.order)] if len(self.order) else values
