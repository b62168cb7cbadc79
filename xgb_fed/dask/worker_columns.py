"""A worker's share of a passive party: columns of its rows, and the ciphertexts of a growing tree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.tables.frames import check_types, index_of
from gbdt_hosts.dask import HeldPartitions, Message
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.messages import to_bits
from xgb_fed.boosting.features import Columns, SplitRule, codes_of, offsets_of, read_columns
from xgb_fed.ciphers.base import Ciphertexts, PublicKey
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.ciphers.residue_key import ResidueKey
from xgb_fed.errors import ArgumentTypeError
from xgb_fed.vertical.passive.held_rows import TreeRowsHere, tree_rows
from xgb_fed.vertical.passive.histogram import Histograms


@dataclass
class _GrowingTree:
    """The rows of a growing tree, and their ciphertexts as far as they have come."""

    rows: TreeRowsHere
    sources: dict[int, Ciphertexts] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)

    def receive(self, group: int, width: int, data: bytes) -> None:
        """Keep the ciphertexts of the next rows."""
        part = np.frombuffer(data, dtype=np.uint64).reshape(-1, width)
        if group not in self.sources:
            self.sources[group] = np.empty((self.rows.n_rows, width), dtype=np.uint64)
        start = self.received.get(group, 0)
        self.sources[group][start : start + len(part)] = part
        self.received[group] = start + len(part)


@dataclass
class _View:
    """The rows of a session, cut into bins."""

    codes: NDArray[np.unsignedinteger[Any]]
    bin_offsets: NDArray[np.int64]


@dataclass
class _ColumnLease:
    """Partitions that are held together, one after the other."""

    columns: Columns
    index: list[Any]
    views: dict[int, _View] = field(default_factory=dict)
    trees: dict[int, _GrowingTree] = field(default_factory=dict)
    """Of the views, by the same numbers: the tree that each is growing."""


class ColumnsOfWorker(HeldPartitions[_ColumnLease]):
    """The columns of one matrix on one worker; every partition has the types that `types_of` `declared`."""

    refusals = (InvalidDataError, ArgumentTypeError)

    def __init__(self, declared: tuple[str, ...], n_features: int) -> None:
        super().__init__()
        self._declared, self._n_features = declared, n_features
        self._keys: dict[bytes, PublicKey] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._declared, self._n_features)  # rows never travel

    def read(self, *parts: Any) -> tuple[Columns | None, Any]:
        """A matrix, None if it has no rows, and the labels of its rows."""
        (X,) = parts
        check_types(X, self._declared, InvalidDataError)
        index = index_of(X)
        labels = None if index is None else index.to_numpy()
        return (read_columns(X, "it") if X.shape[0] else None), labels

    def chosen(
        self, index: int, partition: tuple[Columns | None, Any], message: Message
    ) -> tuple[tuple[Columns | None, Any], int, bytes]:
        """All of a partition."""
        columns, _ = partition
        return partition, *((0, b"") if columns is None else (columns.n_rows, digest_of_values(columns)))

    def lease(self, parts: list[tuple[Columns | None, Any]]) -> _ColumnLease:
        """Partitions one after the other."""
        columns = [own for own, _ in parts if own is not None]
        return _ColumnLease(_joined(columns, self._n_features), [labels for _, labels in parts])

    def is_quick(self, message: Message) -> bool:
        """Whether the answer takes less time than waking another thread."""
        return bool(message["ask"] == "loaded")

    def questions(self) -> dict[str, Callable[[Message], dict[str, Any]]]:
        """Functions that answer messages about leases."""
        return {
            "index": self._index,
            "values": self._values,
            "sides": self._sides,
            "hear": self._hear,
            "histograms": self._histograms,
        }

    def _index(self, message: Message) -> dict[str, Any]:
        """The labels of rows, partition by partition."""
        found = {number: self.leases[number].index for number in message["parts"]}
        return {
            "index": {
                number: [None if labels is None else labels.tolist() for labels in index]
                for number, index in found.items()
            }
        }

    def _values(self, message: Message) -> dict[str, Any]:
        """Some columns of some rows."""
        values = {}
        for number, part in message["parts"].items():
            columns, rows = self.leases[number].columns, np.frombuffer(part["rows"], dtype=np.int32)
            of_lease = [columns.column(feature)[rows] for feature in message["features"]]
            values[number] = np.concatenate([np.empty(0, dtype=np.float32), *of_lease]).tobytes()
        return {"values": values}

    def _sides(self, message: Message) -> dict[str, Any]:
        """Which rows go left, question by question."""
        sides = {}
        for number, part in message["parts"].items():
            columns, rows = self.leases[number].columns, np.frombuffer(part["rows"], dtype=np.int32)
            starts = part["starts"]
            flags = [
                columns.goes_left(SplitRule(*rule), rows[starts[k] : starts[k + 1]])
                for k, rule in enumerate(message["rules"])
            ]
            sides[number] = to_bits(np.concatenate([np.empty(0, dtype=bool), *flags])).tobytes()
        return {"sides": sides}

    def _hear(self, message: Message) -> dict[str, Any]:
        """Keep the received state of a session and its tree."""
        views = set(message["views"])
        for lease in self.leases.values():
            lease.views = {number: view for number, view in lease.views.items() if number in views}
            lease.trees = {number: tree for number, tree in lease.trees.items() if number in views}
        for number, part in message["parts"].items():
            lease = self.leases[number]
            for told in part["told"]:
                if "cuts" in told:
                    cuts = [np.frombuffer(own, dtype=np.float32) for own in told["cuts"]]
                    rows = np.frombuffer(told["rows"], dtype=np.int32)
                    lease.views[told["view"]] = _View(
                        codes_of(lease.columns.take(rows), cuts), offsets_of(cuts)
                    )
                elif "sampled" in told:
                    view = lease.views[told["view"]]
                    lease.trees.pop(told["view"], None)
                    columns = np.frombuffer(told["columns"], dtype=np.int32)
                    sampled = np.frombuffer(told["sampled"], dtype=bool)
                    lease.trees[told["view"]] = _GrowingTree(
                        tree_rows(view.codes, view.bin_offsets, columns, sampled)
                    )
                else:
                    lease.trees[told["view"]].receive(told["group"], told["width"], told["ciphertexts"])
        return {}

    def _histograms(self, message: Message) -> dict[str, Any]:
        """The sums of this worker's rows, all leases together."""
        self._hear(message)
        key = self._key(message["key"])
        total: Histograms | None = None
        for number, part in message["parts"].items():
            tree = self.leases[number].trees[message["view"]]
            rows = np.frombuffer(part["rows"], dtype=np.int32)
            starts = np.frombuffer(part["starts"], dtype=np.int64)
            sources = {group: tree.sources[group] for group in message["groups"]}
            own = tree.rows.histograms(key, sources, rows, starts)
            total = own if total is None else total.plus(key, own)
        if total is None:
            return {}
        return {"counts": total.counts.tobytes(), "sums": [sums.tobytes() for sums in total.sums]}

    def _key(self, data: bytes) -> PublicKey:
        if data not in self._keys:
            key = read_public_key(data)
            if isinstance(key, ResidueKey):
                key = ResidueKey(key.scheme, key.n, self.n_threads)
            self._keys = {data: key}
        return self._keys[data]


def _joined(parts: list[Columns], n_features: int) -> Columns:
    """The rows of several partitions, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Columns(np.empty((0, n_features), dtype=np.float32), [])
    if scipy.sparse.issparse(parts[0].data):
        return Columns(scipy.sparse.vstack([part.data for part in parts]).tocsc(), parts[0].names)
    return Columns(np.concatenate([part.data for part in parts]), parts[0].names)


def digest_of_values(columns: Columns) -> bytes:
    """The digest of a partition's values."""
    hashed = hashlib.blake2b(digest_size=32)
    data = columns.data
    arrays = (data.indptr, data.indices, data.data) if scipy.sparse.issparse(data) else (data,)
    for array in arrays:
        hashed.update(np.ascontiguousarray(array).view(np.uint8).data)
    return hashed.digest()
