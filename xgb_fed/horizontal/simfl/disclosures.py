"""What a party of SimFL has told in all sessions: groups and hashes of its rows, its part in hash seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.store import json_kind
from xgb_fed.horizontal.common.party_state import SIZE, PartyState
from xgb_fed.horizontal.common.row_groups import GROUPS, RowGroups

TOLD = json_kind("told hashes")


@dataclass(frozen=True)
class Told:
    """Hashes and contributions to hash seeds that were given away; bytes are in hexadecimal digits.

    Attributes
    ----------
    hashes : dict
        Number of hashes of each row, by digest of the hash functions.
    last_seed : str
        The seed of the last hash functions; empty before the first ones.
    n_revealed, n_abandoned : int
        Contributions that were revealed, and those of them that were not used.
    commitments : str
        Commitments of all parties in the last agreement in which this party revealed its contribution.
    is_pending : bool
        Whether that agreement has not been used yet.
    """

    hashes: dict[str, int] = field(default_factory=dict)
    last_seed: str = ""
    n_revealed: int = 0
    n_abandoned: int = 0
    commitments: str = ""
    is_pending: bool = False


class Disclosures:
    """Disclosures of one party; several objects of one state know the same.

    Parameters
    ----------
    state : PartyState
    """

    def __init__(self, state: PartyState) -> None:
        self.state, self._store = state, state.store
        self._groups: RowGroups | None = None
        self._order = np.empty(0, dtype=np.int64)
        _ = self.told, self.groups  # damage is noticed now

    @property
    def told(self) -> Told:
        """What was given away so far."""
        return Told(**(self._store.get(TOLD, "") or {}))

    def change(self, **fields: Any) -> None:
        """Keep what is about to be given away, before it leaves."""
        self._store.put(TOLD, "", asdict(replace(self.told, **fields)))

    def contribution(self, place: int = 0) -> bytes:
        """The next contribution to a hash seed that is to be revealed; with −1 the one revealed last."""
        stream = self.state.stream("contribution", (self.told.n_revealed + place).to_bytes(8, "little"))
        return stream.words(1, SIZE // 8).tobytes()

    @property
    def groups(self) -> RowGroups | None:
        """The groups of rows, once there are any."""
        if self._groups is None:
            self._groups = self._store.get(GROUPS, "")
        return self._groups

    def keep_groups(self, groups: RowGroups) -> None:
        """Keep the groups, for good: other groups of the same rows would tell rows apart."""
        self._store.put(GROUPS, "", groups)

    def order(self, n_rows: int) -> NDArray[np.int64]:
        """The order in which other parties know the rows: a secret one, in all training runs the same.

        That of a file may follow the labels, and hashes show where a file goes from one class to the next.
        """
        if len(self._order) != n_rows:
            self._order = self.state.stream("order of rows").permutation(n_rows)
        return self._order
