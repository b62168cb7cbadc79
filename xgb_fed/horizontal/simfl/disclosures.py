"""All that a party of SimFL has told: groups and hashes of its rows, its part in hash seeds."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_commons.store import Kind, json_kind
from gbdt_parties.errors import InvalidDataError
from xgb_fed.horizontal.common.party_state import SIZE, PartyState
from xgb_fed.horizontal.common.row_groups import (
    GROUPS,
    KeptGroups,
    RowGroups,
    arrays_of,
    bytes_of,
    group_rows,
)
from xgb_fed.horizontal.common.told_rows import ToldRows
from xgb_fed.horizontal.simfl.lsh import Moments

logger = logging.getLogger(__name__)

TOLD = json_kind("told hashes")
MOMENTS = Kind(
    "told moments",
    lambda told: bytes_of(count=told.count, mean=told.mean, squares=told.squares),
    lambda content: Moments(**arrays_of(content)),
)


@dataclass(frozen=True)
class Told:
    """Hashes and contributions to hash seeds that were given away; bytes are in hexadecimal digits.

    `hashes` numbers those of each row by digest of the hash functions; `last_seed` is the seed of the last
    ones, empty before the first. `n_revealed` contributions were revealed, and `n_abandoned` of them not
    used; `commitments` are those of all parties in the last agreement in which this party revealed its own,
    and `is_pending` says that it has not been used yet.
    """

    hashes: dict[str, int] = field(default_factory=dict)
    last_seed: str = ""
    n_revealed: int = 0
    n_abandoned: int = 0
    commitments: str = ""
    is_pending: bool = False


class Disclosures:
    """Disclosures of one party; several objects of one state know the same."""

    def __init__(self, state: PartyState) -> None:
        self.state, self._store = state, state.store
        self._groups: RowGroups | None = None
        self._order = np.empty(0, dtype=np.int64)
        _ = self.told, self._store.get(GROUPS, "")  # damage is noticed now

    @property
    def told(self) -> Told:
        """Everything that was given away so far."""
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
        """The groups of the present rows, once they were hashed."""
        if self._groups is None and (kept := self._kept) is not None:
            self._groups = kept.whole(self._rows.codes(kept.names))
        return self._groups

    def check_size(self, min_rows: int) -> None:
        """Refuse another minimum size than the groups were made with: other groups would tell rows apart."""
        kept = self._kept
        if kept is not None and kept.min_rows != min_rows:
            raise InvalidDataError(
                f"min_similar={min_rows}; this party's groups were made with min_similar={kept.min_rows}, "
                f"and other groups of the same rows would tell rows apart; accepted is {kept.min_rows}"
            )

    def group(
        self, hashes: NDArray[np.int32], counted: NDArray[np.bool_], min_rows: int, functions: bytes
    ) -> None:
        """Divide rows that are in no group, by their hashes, and keep the groups for good.

        Fewer than `min_rows` such rows take no part, nor do the others of a group that has lost one.
        """
        none = np.empty(0, np.uint64), np.empty(0, np.int64)
        kept = self._kept or KeptGroups(*none, self._rows.names, min_rows)
        codes = self._rows.codes(kept.names)
        new = counted & ~np.isin(codes, kept.codes)
        if new.sum() >= min_rows:
            random = self.state.stream("groups", functions)
            self._store.put(GROUPS, "", kept.and_of(codes, group_rows(hashes, new, min_rows, random)))
            self._groups = None
        n_out = int(counted.sum()) - (0 if self.groups is None else len(self.groups.order))
        if n_out:
            logger.warning(
                "%d rows take no part in SimFL: too few are new, or others of their groups are gone", n_out
            )
        if self.groups is None or not len(self.groups.starts):
            raise InvalidDataError(f"this party has no group of min_similar={min_rows} rows")

    @property
    def _rows(self) -> ToldRows:
        assert self.state.rows is not None
        return self.state.rows

    @property
    def _kept(self) -> KeptGroups | None:
        """Groups whose rows can be compared with the present ones."""
        kept = self._store.get(GROUPS, "")
        return kept if kept is not None and set(kept.names) <= set(self._rows.names) else None

    def moments(self, own: Moments) -> Moments:
        """The moments to tell, those of the first rows: later ones are hashed by the same functions, too.

        Others would be further equations about rows that stay.
        """
        key = digest_of(*self._rows.names)
        with self.state.locked():
            told = self._store.get(MOMENTS, key)
            if told is None:
                self._store.put(MOMENTS, key, told := own)
        return told

    def order(self, n_rows: int) -> NDArray[np.int64]:
        """The order in which other parties know the rows: a secret one, in all training runs the same.

        That of a file may follow the labels, and hashes show where a file goes from one class to the next.
        """
        if len(self._order) != n_rows:
            self._order = self.state.stream("order of rows").permutation(n_rows)
        return self._order
