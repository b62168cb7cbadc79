"""Rows that several organisations have in common, in the order in which all of them take them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import write_atomically
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.row_ids import fault_of


@dataclass(frozen=True)
class Alignment:
    """Ids in the order in which all parties take their rows: sorted, so that it tells nothing.

    Attributes
    ----------
    ids : tuple of str
        Canonical (see `row_ids`).
    """

    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check what makes the text of it unique."""
        if any(fault_of(one) for one in self.ids) or list(self.ids) != sorted(set(self.ids)):
            raise InvalidDataError("aligned ids must be sorted, different, and each canonical and printable")

    @property
    def text(self) -> str:
        """The ids, one per line."""
        return "".join(f"{one}\n" for one in self.ids)

    @property
    def digest(self) -> bytes:
        """32 bytes that name these rows in requests (`RemoteParty` calls them a row set)."""
        return hashlib.sha256(self.text.encode()).digest()

    def positions(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Where the rows are among a party's.

        Parameters
        ----------
        ids : sequence of str
            Canonical ids of the party's rows, in its own order.

        Returns
        -------
        ndarray of int64, shape (n_aligned,)

        Raises
        ------
        InvalidDataError
            If the party has not all of them.
        """
        places = {one: k for k, one in enumerate(ids)}
        try:
            return np.array([places[one] for one in self.ids], dtype=np.int64)
        except KeyError:
            raise InvalidDataError("an aligned id is not in the data") from None

    def save(self, path: str | Path) -> None:
        """Write the ids, one per line.

        Parameters
        ----------
        path : path
            Replaced only when the new file is complete.
        """
        write_atomically(path, self.text)

    @classmethod
    def load(cls, path: str | Path) -> Alignment:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        Alignment

        Raises
        ------
        InvalidDataError
            If the file holds no such ids.
        OSError
            If it cannot be read.
        """
        try:
            *ids, rest = Path(path).read_bytes().decode().split("\n")
        except UnicodeDecodeError:
            # Without the path: this text may go to another party.
            raise InvalidDataError("aligned ids are not text") from None
        if rest:
            raise InvalidDataError("the last line of aligned ids has no end")
        return cls(tuple(ids))
