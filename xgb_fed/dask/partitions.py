"""The partitions of a party's matrix on a cluster, and where each row is."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_hosts import dask as host
from gbdt_parties.errors import InvalidDataError
from xgb_fed import errors
from xgb_fed.dask.worker_columns import ColumnsOfWorker

Part = dict[str, Any]


def _wrong(index: int, kind: str, text: str) -> Exception:
    """The error of a partition: of its data if reading it said what is wrong with them."""
    if kind:
        return InvalidDataError(f"partition {index}: {text}")
    return errors.PartitionError(f"partition {index} could not be read ({text})")


ERRORS = host.ClusterErrors(
    errors.ClusterError, errors.WorkersLostError, errors.SchedulerLostError, errors.PartitionError, _wrong
)
"""Errors that a party raises when a cluster fails."""


class Partitions(host.Leases):
    """The partitions of a matrix on a cluster, and what their workers answer.

    One after the other, they have the matrix's rows.  All have the columns and data types that `types_of`
    `declared`.  Silence of `timeout` seconds means that something is lost.

    Raises `InvalidDataError` if a partition has other columns than declared, or values that cannot be used,
    or there are no rows, and `ClusterError` if no worker can compute it.
    """

    def __init__(
        self,
        client: Any,
        partitions: Sequence[Any],
        declared: tuple[str, ...],
        names: list[str],
        timeout: float,
    ) -> None:
        self.names = names
        held, parts = ColumnsOfWorker(declared, len(names)), [(part,) for part in partitions]
        super().__init__(client, "veilboost-party", held, parts, timeout, ERRORS)
        self._lock = RLock()
        self._numbers = count()
        self._views: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.lengths = np.array([self.adopted[k][0] for k in range(len(partitions))], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def n_rows(self) -> int:
        """Rows of all partitions."""
        return int(self.starts[-1])

    @property
    def digests(self) -> list[bytes]:
        """The digest of each partition's values."""
        return [self.adopted[k][1] for k in range(len(self.lengths))]

    @property
    def digest(self) -> str:
        """The digest of all values, as they are divided."""
        return digest_of(self.names, self.lengths, *self.digests)

    def labels(self) -> list[list[Any] | None]:
        """The index of each partition of a data frame, None for other partitions."""
        found: dict[int, list[Any] | None] = {}
        for leases, answer in self.answers_of(lambda lease: {}, ask="index"):
            for lease in leases:
                found.update(zip(sorted(lease.partitions), answer["index"][lease.number], strict=True))
        return [found[k] for k in sorted(found)]

    def answers_of(
        self, part: Callable[[host.Lease], Part | None], **message: Any
    ) -> list[tuple[list[host.Lease], host.Answer]]:
        """Answers of all workers to a message.

        `part` gives the content for a lease, None to leave it out; `message` is content for all of them.
        """

        def make(_: host.KnownWorker, leases: list[host.Lease]) -> Mapping[str, Any]:
            parts = {lease.number: part(lease) for lease in leases}
            named = {number: own for number, own in parts.items() if own is not None}
            return {**message, "parts": named, "views": list(self._views)}

        with self._lock:
            return self.answers(make)

    def remember(self, view: object) -> int:
        """A number for a session's bins, which workers keep for as long as these exist."""
        number = next(self._numbers)
        self._views[number] = view
        return number


class Places:
    """Where rows are: in which partition, and at which place there, as int32 of shape (n_rows,)."""

    def __init__(self, partitions: Partitions, rows: NDArray[np.integer[Any]]) -> None:
        starts = partitions.starts
        self._lengths = partitions.lengths
        self.partition = (np.searchsorted(starts, rows, side="right") - 1).astype(np.int32)
        self.within = (rows - starts[self.partition]).astype(np.int32)

    def are_in(self, lease: host.Lease, rows: NDArray[np.integer[Any]] | None = None) -> NDArray[np.bool_]:
        """Which rows, of all or some, a lease has."""
        mine = np.zeros(len(self._lengths), dtype=bool)
        mine[list(lease.partitions)] = True
        flags: NDArray[np.bool_] = mine[self.partition if rows is None else self.partition[rows]]
        return flags

    def in_lease(self, lease: host.Lease, rows: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        """Places of rows among all that a lease has, whose partitions follow each other in it."""
        held = sorted(lease.partitions)
        base = np.zeros(len(self._lengths), dtype=np.int64)
        base[held] = np.concatenate([[0], np.cumsum(self._lengths[held])[:-1]])
        places: NDArray[np.int32] = (base[self.partition[rows]] + self.within[rows]).astype(np.int32)
        return places
