"""Sums over the rows of a cluster: exact integers, added up here whatever happens to the workers.

Integer sums do not depend on how rows are divided, so that neither partitions nor losses change the model.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts import dask as host
from gbdt_kernels.trees import BinLayout
from lgb_dp import errors
from lgb_dp.dask.messages import SentTrees, packed_cells
from lgb_dp.dask.worker_rows import RowsOfWorker
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.newton.releases.held_out_rows import HeldOutCells
from lgb_dp.newton.releases.partitions import RowRules, refusal
from lgb_dp.newton.releases.trees import Round

_GROUPS_AT_ONCE = 2**20
"""Groups whose hashes the client compares together."""


ERRORS = host.ClusterErrors(
    errors.ClusterError,
    errors.WorkersLostError,
    errors.SchedulerLostError,
    errors.PartitionError,
    refusal,
    "; the trees trained so far are in the trainer's booster_",
)
"""Errors that private training raises when a cluster fails."""


class DaskLeafSums:
    """The rows of a cluster, summed by its workers.

    Partitions are tuples of X, y, weight and groups, delayed, or None for each that was not given. After
    `timeout` seconds, silence means that something is lost. `InvalidArgumentError` if a partition does not
    match what was declared; `ClusterError` if no worker can compute it.
    """

    def __init__(
        self, client: Any, partitions: Sequence[tuple[Any, ...]], rules: RowRules, timeout: float
    ) -> None:
        self._rules = rules
        seed = {"seed": secrets.token_bytes(32)}
        held = RowsOfWorker(rules)
        self._leases = host.Leases(client, "veilboost", held, partitions, timeout, ERRORS, seed)
        try:
            if not sum(n_rows for n_rows, _ in self._leases.adopted.values()):
                raise InvalidArgumentError("X has no rows")
            if rules.rows_per_group is not None:
                self._check_groups()
        except BaseException:
            self.close()
            raise

    def label_counts(self) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        return self._total(
            lambda _: {"ask": "counts"}, (self._rules.loss.n_counts(self._rules.scale.n_outputs),)
        )

    def feature_counts(self, layout: BinLayout) -> NDArray[np.int64]:
        """As for `LeafSums`; the workers know the bins."""
        return self._total(lambda _: {"ask": "features"}, (layout.n_total_bins,))

    def sums(self, question: Round) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        shape = (question.n_cells, self._rules.scale.n_outputs, 2)
        return self._total(lambda worker: {"ask": "sums", **_trees_of(worker).message(question)}, shape)

    def sums_of(self, questions: Sequence[Round]) -> list[NDArray[np.int64]]:
        """As for `LeafSums`, one after the other: a message takes less time than the sums."""
        return [self.sums(one) for one in questions]

    def held_out_counts(self, question: Round, cells: HeldOutCells) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        asked = {"ask": "held out", "cells": packed_cells(cells)}
        shape = (cells.n_groups * cells.per_group(self._rules.scale),)
        return self._total(lambda worker: {**asked, **_trees_of(worker).message(question)}, shape)

    def close(self) -> None:
        """Make the workers forget the rows, as far as they can be reached."""
        self._leases.close()

    def _total(
        self, make: Callable[[host.KnownWorker], Mapping[str, Any]], shape: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """The sum over all partitions of what the message asks for."""
        total = np.zeros(shape, dtype=np.int64)
        for answer in self._answers(make):
            if answer["sums"]:  # the worker has rows
                total += np.frombuffer(answer["sums"], dtype=np.int64).reshape(shape)
        return total

    def _answers(self, make: Callable[[host.KnownWorker], Mapping[str, Any]]) -> list[host.Answer]:
        """Answers to a message that speak of every partition once."""
        return [answer for _, answer in self._leases.answers(lambda worker, _: make(worker))]

    def _check_groups(self) -> None:
        """Raise an InvalidArgumentError if rows of one group are in several partitions."""

        def hashes(bucket: int, buckets: int) -> list[host.Answer]:
            return self._answers(lambda _: {"ask": "groups", "bucket": bucket, "buckets": buckets})

        n_groups = sum(answer["n_groups"] for answer in hashes(0, 1 << 30))
        buckets = 1 + n_groups // _GROUPS_AT_ONCE
        for bucket in range(buckets):
            answers = hashes(bucket, buckets)
            found = np.concatenate([np.frombuffer(a["hashes"], dtype=np.uint64) for a in answers])
            if len(np.unique(found)) < len(found):
                raise InvalidArgumentError(
                    "groups must not span partitions: put all rows of a group into one, for example by "
                    "shuffle() of a dask data frame"
                )


def _trees_of(worker: host.KnownWorker) -> SentTrees:
    """Released trees that a worker has received."""
    trees: SentTrees = worker.told.setdefault("trees", SentTrees())
    return trees
