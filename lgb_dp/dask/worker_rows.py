"""A worker's share of a training run: the rows of its partitions, and their positions.

A Dask plugin holds it, so that a worker that joins later has it, too.  Partitions are put there by tasks,
which give nothing back; what is computed from rows leaves in answers to the client's own messages alone.
Nothing here raises within Dask, which would log the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons._version import __version__
from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_hosts import dask as host
from gbdt_kernels.trees import by_columns
from lgb_dp.dask.messages import ReceivedTrees
from lgb_dp.dask.partitions import (
    Partition,
    RowRules,
    TrainingRows,
    joined_codes,
    read_partition,
    training_rows,
)
from lgb_dp.data.groups import draw_words
from lgb_dp.errors import PrivateTrainingError
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums

_SCORES_AT_ONCE = 2**20
"""Scores of a worker's rows up to which its event loop sums them itself: it takes milliseconds, and waking a
thread on a busy machine takes longer."""
_ROWS_TOGETHER = 2**16
"""Rows from which on partitions are not put together: a call per partition then costs next to nothing."""


class RowsOfWorker:
    """The rows of one training run on one worker; as for `gbdt_hosts.dask`'s `WorkerState`.

    Parameters
    ----------
    rules : RowRules
    """

    def __init__(self, rules: RowRules) -> None:
        self._rules, self._n_threads = rules, rules.n_threads
        self._loaded: dict[int, Partition | PrivateTrainingError | str | None] = {}
        self._leases: dict[int, list[LocalLeafSums]] = {}
        self._group_hashes: dict[int, NDArray[np.uint64]] = {}
        self._n_rows, self._is_compiled, self._trees = 0, False, ReceivedTrees()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rules,)  # rows never travel

    def begin(self, n_threads: int) -> None:
        """Begin on a worker of as many threads."""
        self._n_threads = self._n_threads or n_threads

    # Calls of tasks.

    def store(self, index: int, X: Any, y: Any, weight: Any, groups: Any) -> None:
        """Keep a partition, or what was wrong with it, until the client asks."""
        try:
            with silent_arithmetic():
                self._loaded[index] = read_partition(self._rules, X, y, weight, groups)
        except PrivateTrainingError as error:
            self._loaded[index] = type(error)(*error.args)
        except Exception as error:
            self._loaded[index] = type(error).__name__

    # Questions of the client.

    def work(self, message: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Function that answers one of the client's messages."""
        answers: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "loaded": self._which_are_loaded,
            "adopt": self._adopt,
            "groups": self._groups,
            "counts": self._counts,
            "features": self._feature_counts,
            "sums": self._sums,
        }
        return partial(self._guarded, answers[message["ask"]], message)

    def is_quick(self, message: dict[str, Any]) -> bool:
        """Whether the answer takes less time than waking another thread."""
        n_scores = self._n_rows * self._rules.scale.n_outputs
        return message["ask"] == "sums" and self._is_compiled and n_scores <= _SCORES_AT_ONCE

    def _guarded(
        self, answer: Callable[[Mapping[str, Any]], dict[str, Any]], message: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            with silent_arithmetic():
                return answer(message)
        except Exception as error:  # its text may quote a row
            return {"failed": type(error).__name__}

    def _which_are_loaded(self, message: Mapping[str, Any]) -> dict[str, Any]:
        return {"version": __version__, "loaded": sorted(self._loaded)}

    def _adopt(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Make leases of partitions; all leases that the client does not list are forgotten."""
        self._leases = {number: self._leases[number] for number in message["keep"]}
        self._group_hashes = {number: self._group_hashes[number] for number in message["keep"]}
        adopted: list[tuple[int, int, bytes]] = []
        for lease, indices in message["leases"]:
            parts: list[TrainingRows] = []
            hashes = [np.empty(0, dtype=np.uint64)]
            for index in indices:
                partition = self._loaded.pop(index)
                if isinstance(partition, str):
                    return {"wrong": (index, "", partition)}
                try:
                    if isinstance(partition, PrivateTrainingError):
                        raise partition
                    if partition is None:
                        adopted.append((index, 0, b""))
                        continue
                    seed = int.from_bytes(message["seed"], "big") + index
                    parts.append(training_rows(self._rules, partition, seed))
                except PrivateTrainingError as error:
                    return {"wrong": (index, type(error).__name__, str(error))}
                adopted.append((index, len(partition.label), partition.digest))
                self._n_rows += len(partition.label)
                hashes.append(partition.group_hash)
            partition = None
            lists = _together(parts)
            parts.clear()
            self._leases[lease] = []
            self._group_hashes[lease] = np.concatenate(hashes)
            while lists:
                self._leases[lease].append(self._summed(lists.pop()))
        self._loaded.clear()
        return {"adopted": adopted}

    def _summed(self, rows: list[TrainingRows]) -> LocalLeafSums:
        """Rows that are next to each other from now on; `rows` is emptied.

        Codes leave as soon as they are put by columns, so that only those of these rows are there twice.
        """
        codes = [part.codes for part in rows]
        label = np.concatenate([part.label for part in rows])
        weight = np.concatenate([part.weight for part in rows])
        numbers = _joined_groups([part.group for part in rows])
        rows.clear()
        joined = joined_codes(codes)
        codes.clear()
        columns = by_columns(joined, self._n_threads)
        del joined
        return LocalLeafSums(
            columns,
            label,
            weight,
            self._rules.loss,
            self._rules.scale,
            None,
            self._n_threads,
            self._rules.subsample,
            partial(draw_words, SecureRandom(), len(weight), numbers),
        )

    def _groups(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Hashes of the leases' groups, of one of several buckets."""
        if not self._leases.keys() >= set(message["leases"]):
            return {"unknown": True}
        hashes = np.concatenate([self._group_hashes[lease] for lease in message["leases"]])
        mine = hashes % np.uint64(message["buckets"]) == message["bucket"]
        return {"hashes": hashes[mine].tobytes(), "n_groups": len(hashes)}

    def _counts(self, message: Mapping[str, Any]) -> dict[str, Any]:
        n_counts = self._rules.loss.n_counts(self._rules.scale.n_outputs)
        return self._total(message, n_counts, LocalLeafSums.label_counts)

    def _feature_counts(self, message: Mapping[str, Any]) -> dict[str, Any]:
        layout = self._rules.bins.layout()
        return self._total(message, layout.n_total_bins, lambda rows: rows.feature_counts(layout))

    def _total(
        self, message: Mapping[str, Any], n: int, counts: Callable[[LocalLeafSums], NDArray[np.int64]]
    ) -> dict[str, Any]:
        """`n` sums over the rows of the leases that a message names."""
        if not self._leases.keys() >= set(message["leases"]):
            return {"unknown": True}
        sums = np.zeros(n, dtype=np.int64)
        for lease in message["leases"]:
            for rows in self._leases[lease]:
                sums += counts(rows)
        return {"sums": sums.tobytes()}

    def _sums(self, message: Mapping[str, Any]) -> dict[str, Any]:
        question = self._trees.question(message)
        if not self._leases.keys() >= set(message["leases"]):
            return {"unknown": True}
        shape = (question.n_cells, self._rules.scale.n_outputs, 2)
        sums = np.zeros(shape, dtype=np.int64)
        for lease in message["leases"]:
            for rows in self._leases[lease]:
                sums += rows.sums(question)
        self._is_compiled = True
        return {"sums": sums.tobytes()}


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


def load_partition(name: str, index: int, X: Any, y: Any, weight: Any, groups: Any) -> None:
    """The task that puts a partition where it runs; its result says nothing."""
    rows = host.state_of_task(name)
    if isinstance(rows, RowsOfWorker):
        rows.store(index, X, y, weight, groups)
