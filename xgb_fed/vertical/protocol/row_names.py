"""Names of rows: the index of a data frame, by which parties find out that their rows are not the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_commons.tables.frames import index_of
from gbdt_parties.errors import RowMismatchError
from xgb_fed.boosting.features import Columns


@dataclass(frozen=True)
class RowNames:
    """The index of a data frame.

    A default one is pandas' 0 to n_rows − 1, which names nothing.
    """

    labels: NDArray[Any]
    is_default: bool

    @classmethod
    def of(cls, X: Any) -> RowNames | None:
        """The names of a data frame's rows; None for what has no index."""
        index = index_of(X)
        if index is None:
            return None
        is_range = all(hasattr(index, name) for name in ("start", "stop", "step"))
        return cls(index.to_numpy(), is_range and (index.start, index.step) == (0, 1))

    @property
    def digest(self) -> bytes:
        """The digest that an `Alignment` of these ids in this order has."""
        text = "".join(map(_line, self.labels.tolist()))
        return hashlib.sha256(text.encode()).digest()

    def agrees(self, other: RowNames) -> bool | None:
        """Whether two parties' rows are the same; None if a default index leaves that open.

        A default index beside its own numbers in another order is no open question: one of the two frames was
        shuffled.
        """
        if self.is_default or other.is_default:
            both_numbers = self.labels.dtype.kind in "iuf" and other.labels.dtype.kind in "iuf"
            if (self.is_default and other.is_default) or not both_numbers:
                return None
            if not np.array_equal(np.sort(self.labels), np.sort(other.labels)):
                return None
            return np.array_equal(self.labels, other.labels)
        return self.labels.tolist() == other.labels.tolist() or self.digest == other.digest

    def take(self, positions: NDArray[np.integer[Any]]) -> RowNames:
        """The names of some rows; all if there are no positions."""
        return RowNames(self.labels[positions], self.is_default) if len(positions) else self


def _line(label: Any) -> str:
    """A label as a line.  No id is empty or has several lines: an empty line announces such labels."""
    text = str(label)
    return f"{text}\n" if text and "\n" not in text else f"\n{len(text)}\n{text}\n"


def check_rows(
    own: RowNames | None,
    parties: Sequence[Any],
    argument: str,
    positions: NDArray[np.int32],
    dataset: int = 0,
) -> None:
    """Compare the names of the active party's rows with the passive parties', as far as there are any.

    Parties in this process have the names of their rows, those elsewhere the digest of the aligned ids.  The
    positions are those of the rows in the parties' data, empty for all.  The data set is 0 for the rows to
    train on or to predict, k for the k-th evaluation set.

    Raises `RowMismatchError` naming the party whose rows are others, or in another order.
    """
    if own is None:
        return
    for party in parties:
        if _same_rows(own, party, positions, dataset) is False:
            raise RowMismatchError(
                f"the index of {argument} names other rows than those of party {party.name!r}, or another "
                "order; bring both into the same order (after align, that of Alignment.ids), or use "
                "reset_index(drop=True) if the index does not say which rows they are"
            )


def _same_rows(own: RowNames, party: Any, positions: NDArray[np.int32], dataset: int) -> bool | None:
    names: Sequence[RowNames | None] = getattr(party, "row_names", ())
    digests: Sequence[bytes] = getattr(party, "row_sets", ())
    if dataset < len(names):
        theirs = names[dataset]
        if theirs is None or (len(positions) and positions.max() >= len(theirs.labels)):
            return None
        theirs = theirs.take(positions)
        # Another number of rows is refused by the party, which says both numbers.
        return own.agrees(theirs) if len(own.labels) == len(theirs.labels) else None
    if dataset < len(digests) and not own.is_default and not len(positions):
        return own.digest == digests[dataset]
    return None


@dataclass(frozen=True)
class RowIdentity:
    """Identity of rows that parties were asked about: digests of columns and of an index, if not default."""

    n_rows: int
    names: bytes | None
    values: str

    @classmethod
    def of(cls, X: Any, columns: Columns) -> RowIdentity:
        """Of a matrix, and its columns in the model's order."""
        names = RowNames.of(X)
        named = names is not None and not names.is_default
        return cls(columns.n_rows, names.digest if names and named else None, digest_of(columns.data))

    def check(self, now: RowIdentity, argument: str) -> None:
        """Raise `RowMismatchError` unless the rows are the same: by their names, else by their values."""
        if self.names is not None and now.names is not None:
            same = self.names == now.names
        else:
            same = self.values == now.values
        if not same:
            raise RowMismatchError(
                f"{argument} ({now.n_rows} rows) holds other rows than the {self.n_rows} rows of the kept "
                "parties: give parties that hold these rows, "
                "parties=[party.with_rows(...)]"
            )
