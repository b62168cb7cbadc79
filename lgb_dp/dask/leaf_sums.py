"""Sums over the rows of a cluster: exact integers, added up here whatever happens to the workers.

The partitions that a worker adopts together are a lease.  A round is complete when the leases that have
answered hold every partition once.  If a worker is lost, its partitions are computed and adopted elsewhere,
and asked the same round; a partition that has answered is never counted again.  Integer sums do not depend on
how rows are divided, so that neither partitions nor losses change the model.
"""

from __future__ import annotations

import secrets
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray

from gbdt_kernels._version import __version__
from gbdt_kernels.trees import BinLayout
from lgb_dp import errors
from lgb_dp.dask.cluster import Answer, Cluster, KnownWorker
from lgb_dp.dask.partitions import RowRules
from lgb_dp.dask.worker_rows import RowsOfWorker, load_partition
from lgb_dp.errors import ClusterError, InvalidArgumentError, PartitionError
from lgb_dp.newton.leaf_sums import Round

_ATTEMPTS = 5
"""Times that a partition is computed before it is given up."""
_GROUPS_AT_ONCE = 2**20
"""Groups whose hashes the client compares together."""


def _is_error(answer: Answer) -> bool:
    """Whether a worker says that it has no answer, or Dask says so in its place."""
    return "failed" in answer or "status" in answer


@dataclass(frozen=True)
class _Lease:
    number: int
    address: str
    partitions: frozenset[int]


class DaskLeafSums:
    """The rows of a cluster, summed by its workers.

    Parameters
    ----------
    client : distributed.Client
    partitions : sequence of tuple
        X, y, weight and groups of each partition, delayed, or None for what there is none of.
    rules : RowRules
    timeout : float
        Seconds after which silence means that something is lost.

    Raises
    ------
    InvalidArgumentError
        If a partition does not match what was declared.
    ClusterError
        If no worker can compute it.
    """

    def __init__(
        self, client: Any, partitions: Sequence[tuple[Any, ...]], rules: RowRules, timeout: float
    ) -> None:
        self._name = f"veilboost-{uuid.uuid4().hex}"
        self._client, self._partitions, self._rules = client, partitions, rules
        self._cluster = Cluster(client, self._name, timeout)
        self._seed = secrets.token_bytes(32)
        self._leases: list[_Lease] = []
        self._n_leases = self._n_loads = 0
        self._adopted: dict[int, tuple[int, bytes]] = {}
        self._failures: dict[int, int] = defaultdict(int)
        self._all = frozenset(range(len(partitions)))
        try:
            self._cluster.register(RowsOfWorker(rules))
            self._load(frozenset())
            if not sum(n_rows for n_rows, _ in self._adopted.values()):
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
        shape = (len(question.tree.feature) + 1, self._rules.scale.n_outputs, 2)
        return self._total(lambda worker: {"ask": "sums", **worker.trees.message(question)}, shape)

    def close(self) -> None:
        """Make the workers forget the rows, as far as they can be reached."""
        try:
            self._cluster.close()
            self._cluster.unregister()
        except Exception:  # whatever Dask raises about a cluster that is gone
            pass
        self._leases = []

    def _total(
        self, make: Callable[[KnownWorker], Mapping[str, Any]], shape: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """The sum over all partitions of what the message asks for."""
        total = np.zeros(shape, dtype=np.int64)
        for answer in self._answers(make):
            total += np.frombuffer(answer["sums"], dtype=np.int64).reshape(shape)
        return total

    def _answers(self, make: Callable[[KnownWorker], Mapping[str, Any]]) -> list[Answer]:
        """Answers to a message that speak of every partition once, whatever happens meanwhile."""
        answers: list[Answer] = []
        answered: frozenset[int] = frozenset()
        while answered != self._all:
            asked: dict[str, list[_Lease]] = defaultdict(list)
            for lease in self._leases:
                if not lease.partitions <= answered:
                    asked[lease.address].append(lease)

            def message(worker: KnownWorker, asked: dict[str, list[_Lease]] = asked) -> Mapping[str, Any]:
                leases = [lease.number for lease in asked[worker.address]]
                return {**make(worker), "leases": leases}

            for address, answer in self._ask(dict.fromkeys(asked, message)).items():
                answers.append(answer)
                answered = answered.union(*(lease.partitions for lease in asked[address]))
            self._load(answered)
        return answers

    def _ask(self, messages: Mapping[str, Callable[[KnownWorker], Mapping[str, Any]]]) -> dict[str, Answer]:
        """The answers; leases of workers that gave none end."""
        answers = self._cluster.ask(messages)
        failed = [
            answer.get("failed", "an unknown error") for answer in answers.values() if _is_error(answer)
        ]
        if failed:
            raise ClusterError(f"a worker could not answer: {failed[0]}")
        answers = {address: answer for address, answer in answers.items() if "unknown" not in answer}
        lost = messages.keys() - answers.keys()
        self._leases = [lease for lease in self._leases if lease.address not in lost]
        return answers

    # Partitions.

    def _load(self, answered: frozenset[int]) -> None:
        """Have workers adopt all partitions that none has, those that have answered apart from the others."""
        while missing := self._all.difference(*(lease.partitions for lease in self._leases)):
            self._compute(missing)
            self._adopt(missing, answered)

    def _compute(self, missing: frozenset[int]) -> None:
        """Wait until tasks have put the partitions somewhere."""
        # Workers that come meanwhile are told of the plugin by the scheduler, before they get a task.
        self._n_loads += 1
        task = delayed(load_partition, pure=False)
        tasks = {
            i: task(self._name, i, *self._partitions[i], dask_key_name=f"{self._name}-{self._n_loads}-{i}")
            for i in sorted(missing)
        }
        self._cluster.compute(tasks, self._note_failure)

    def _note_failure(self, index: int, future: Any) -> None:
        """Let a partition be computed again, unless it is the partition's own fault."""
        self._failures[index] += 1
        error = future.exception(timeout=self._cluster.timeout) if future.status == "error" else None
        own = error is not None and type(error).__name__ not in ("KilledWorker", "FutureCancelledError")
        if own or self._failures[index] >= _ATTEMPTS:
            why = "it was lost with its workers" if error is None else type(error).__name__
            raise PartitionError(
                f"partition {index} could not be computed ({why}); compute it alone to see what is wrong"
            )

    def _adopt(self, missing: frozenset[int], answered: frozenset[int]) -> None:
        """Divide the partitions that tasks have put on workers among leases."""
        living = self._cluster.living()
        loaded = self._ask(dict.fromkeys(living, lambda _: {"ask": "loaded"}))
        self._check_versions(loaded)
        new: dict[str, list[_Lease]] = {address: [] for address in loaded}
        rest = set(missing)
        for address, answer in loaded.items():
            here = rest.intersection(answer["loaded"])
            rest -= here
            for part in (here & answered, here - answered):
                if part:
                    self._n_leases += 1
                    new[address].append(_Lease(self._n_leases, address, frozenset(part)))
        for index in rest:
            self._failures[index] += 1
            if self._failures[index] >= _ATTEMPTS:
                raise PartitionError(f"partition {index} was computed {_ATTEMPTS} times and lost each time")

        def message(worker: KnownWorker) -> Mapping[str, Any]:
            return {
                "ask": "adopt",
                "keep": [lease.number for lease in self._leases if lease.address == worker.address],
                "leases": [(lease.number, sorted(lease.partitions)) for lease in new[worker.address]],
                "seed": self._seed,
            }

        for address, answer in self._ask(dict.fromkeys(loaded, message)).items():
            if "wrong" in answer:
                self._raise_wrong(*answer["wrong"])
            for index, n_rows, digest in answer["adopted"]:
                if self._adopted.setdefault(index, (n_rows, digest)) != (n_rows, digest):
                    raise PartitionError(
                        f"partition {index} was computed again, and its rows are not those of the first "
                        "time; training needs partitions that are the same whenever they are computed"
                    )
            self._leases += new[address]

    @staticmethod
    def _check_versions(loaded: Mapping[str, Answer]) -> None:
        others = sorted({answer["version"] for answer in loaded.values()} - {__version__})
        if others:
            raise ClusterError(
                f"workers have veilboost {', '.join(others)}, and the client has {__version__}; "
                "install the same"
            )

    @staticmethod
    def _raise_wrong(index: int, kind: str, text: str) -> None:
        """Raise what was wrong with a partition, by the name of our own error if it is one."""
        if not kind:
            raise PartitionError(f"partition {index} could not be read ({text})")
        raise getattr(errors, kind, PartitionError)(f"partition {index}: {text}")

    def _check_groups(self) -> None:
        """Raise an InvalidArgumentError if rows of one group are in several partitions."""

        def hashes(bucket: int, buckets: int) -> list[Answer]:
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
