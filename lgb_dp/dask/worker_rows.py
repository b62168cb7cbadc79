"""A worker's share of a training run: the rows of its partitions, and their positions.

A Dask plugin holds it, so that a worker that joins later has it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.dask import HeldPartitions, Message
from gbdt_kernels.trees import by_columns
from lgb_dp.dask.messages import ReceivedTrees, unpacked_cells
from lgb_dp.data.groups import draw_words
from lgb_dp.errors import PrivateTrainingError
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums
from lgb_dp.newton.releases.partitions import (
    BinnedPartition,
    RowRules,
    TrainingRows,
    joined_codes,
    read_partition,
    training_rows,
)

_SCORES_AT_ONCE = 2**20
"""Scores of a worker's rows up to which its event loop sums them itself: it takes milliseconds, and waking a
thread on a busy machine takes longer."""
_ROWS_TOGETHER = 2**16
"""Rows from which on partitions are not put together: a call per partition then costs next to nothing."""


@dataclass(frozen=True)
class _RowLease:
    """Rows that are summed together, and the hashes of their groups."""

    sums: list[LocalLeafSums]
    n_rows: int
    group_hashes: NDArray[np.uint64]


class RowsOfWorker(HeldPartitions[_RowLease]):
    """The rows of one training run on one worker."""

    refusals = (PrivateTrainingError,)

    def __init__(self, rules: RowRules) -> None:
        super().__init__()
        self._rules, self._is_compiled, self._trees = rules, False, ReceivedTrees()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rules,)  # rows never travel

    def begin(self, n_threads: int) -> None:
        """Begin on a worker of as many threads."""
        super().begin(self._rules.n_threads or n_threads)

    def read(self, *parts: Any) -> BinnedPartition | None:
        """Check and bin X, y, weight and groups."""
        return read_partition(self._rules, *parts)

    def chosen(
        self, index: int, partition: BinnedPartition | None, message: Message
    ) -> tuple[tuple[TrainingRows, NDArray[np.uint64]] | None, int, bytes]:
        """The rows of a partition to train on, and the hashes of its groups."""
        if partition is None:
            return None, 0, b""
        rows = training_rows(self._rules, partition, int.from_bytes(message["seed"], "big") + index)
        return (rows, partition.group_hash), len(partition.label), partition.digest

    def lease(self, parts: list[tuple[TrainingRows, NDArray[np.uint64]] | None]) -> _RowLease:
        """Partitions, the small ones put together."""
        kept = [part for part in parts if part is not None]
        parts.clear()
        hashes = np.concatenate([np.empty(0, dtype=np.uint64), *(own for _, own in kept)])
        n_rows = sum(len(rows.label) for rows, _ in kept)
        lists = _together([rows for rows, _ in kept])
        kept.clear()
        sums = []
        while lists:
            sums.append(self._summed(lists.pop()))
        return _RowLease(sums, n_rows, hashes)

    def is_quick(self, message: Message) -> bool:
        """Whether the answer takes less time than waking another thread."""
        n_scores = sum(lease.n_rows for lease in self.leases.values()) * self._rules.scale.n_outputs
        return message["ask"] == "sums" and self._is_compiled and n_scores <= _SCORES_AT_ONCE

    def questions(self) -> dict[str, Callable[[Message], dict[str, Any]]]:
        """Functions that answer messages about leases."""
        return {
            "groups": self._groups,
            "counts": self._counts,
            "features": self._feature_counts,
            "sums": self._sums,
            "held out": self._held_out_counts,
        }

    def _summed(self, rows: list[TrainingRows]) -> LocalLeafSums:
        """Rows that are next to each other from now on; `rows` is emptied.

        Codes leave as soon as they are put by columns, so that only those of these rows are there twice.
        """
        codes = [part.codes for part in rows]
        label = np.concatenate([part.label for part in rows])
        weight = np.concatenate([part.weight for part in rows])
        is_held, hold_out, held = np.concatenate([part.is_held for part in rows]), self._rules.hold_out, None
        numbers = _joined_groups([part.group for part in rows])
        rows.clear()
        joined = joined_codes(codes)
        codes.clear()
        if hold_out is not None:
            weight, held = hold_out.divided(is_held, joined, label, weight)
        columns = by_columns(joined, self.n_threads)
        del joined
        return LocalLeafSums(
            columns,
            label,
            weight,
            self._rules.loss,
            self._rules.scale,
            None,
            self.n_threads,
            self._rules.subsample,
            partial(draw_words, SecureRandom(), len(weight), numbers),
            held,
        )

    def _groups(self, message: Message) -> dict[str, Any]:
        """Hashes of the leases' groups, of one of several buckets."""
        hashes = np.concatenate([self.leases[number].group_hashes for number in message["leases"]])
        mine = hashes % np.uint64(message["buckets"]) == message["bucket"]
        return {"hashes": hashes[mine].tobytes(), "n_groups": len(hashes)}

    def _counts(self, message: Message) -> dict[str, Any]:
        return self._total(message, LocalLeafSums.label_counts)

    def _feature_counts(self, message: Message) -> dict[str, Any]:
        layout = self._rules.bins.layout()
        return self._total(message, lambda rows: rows.feature_counts(layout))

    def _sums(self, message: Message) -> dict[str, Any]:
        question = self._trees.question(message)
        total = self._total(message, lambda rows: rows.sums(question))
        self._is_compiled = True
        return total

    def _held_out_counts(self, message: Message) -> dict[str, Any]:
        question, cells = self._trees.question(message), unpacked_cells(message["cells"])
        return self._total(message, lambda rows: rows.held_out_counts(question, cells))

    def _total(
        self, message: Message, of_rows: Callable[[LocalLeafSums], NDArray[np.int64]]
    ) -> dict[str, Any]:
        """Sums over the rows of the leases that a message names; empty without rows."""
        total: NDArray[np.int64] | None = None
        for number in message["leases"]:
            for rows in self.leases[number].sums:
                own = of_rows(rows)
                total = own.copy() if total is None else np.add(total, own, out=total)
        return {"sums": b"" if total is None else total.tobytes()}


def _together(parts: Sequence[TrainingRows]) -> list[list[TrainingRows]]:
    """Small partitions in lists of some size, all others alone; none is dense in part and sparse in part."""
    lists: list[list[TrainingRows]] = []
    room = 0
    for part in parts:
        n_rows = len(part.label)
        if lists and n_rows <= room and type(part.codes) is type(lists[-1][0].codes):
            lists[-1].append(part)
            room -= n_rows
        else:
            lists.append([part])
            room = _ROWS_TOGETHER - n_rows
    return lists


def _joined_groups(groups: Sequence[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    """Groups of several partitions, numbered apart since no partition has a group of another."""
    joined: list[NDArray[np.int64]] = []
    first = 0
    for group in groups:
        if group is None:
            return None
        joined.append(group + first)
        first += int(group.max(initial=-1)) + 1
    return np.concatenate(joined)
