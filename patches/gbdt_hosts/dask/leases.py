"""Partitions of a collection on a cluster's workers, each on one of them, whatever happens to the workers.

The partitions that a worker adopts together are a lease.  A question is answered when the leases that have
answered it hold every partition once.  If a worker is lost, its partitions are computed and adopted
elsewhere, and asked the same question; a partition that has answered is never asked again.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dask.delayed import delayed

from gbdt_commons._version import __version__
from gbdt_hosts.dask.cluster import Answer, Cluster, ClusterErrors, KnownWorker
from gbdt_hosts.dask.partitions import HeldPartitions, load_partition

_ATTEMPTS = 5
"""Times that a partition is computed before it is given up."""


@dataclass(frozen=True)
class Lease:
    """Partitions that one worker holds together."""

    number: int
    address: str
    partitions: frozenset[int]


class Leases:
    """All partitions of a collection, each in the lease of some worker; a loss raises one of `errors`.

    `held` is the state of every worker, and a partition is a tuple of delayed parts. The workers' plugin has
    a name that begins with `prefix`. After `timeout` seconds, silence means that something is lost. Every
    ``adopt`` message has the content of `extra`, too.
    """

    def __init__(
        self,
        client: Any,
        prefix: str,
        held: HeldPartitions[Any],
        partitions: Sequence[tuple[Any, ...]],
        timeout: float,
        errors: ClusterErrors,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._name, self._task = f"{prefix}-{uuid.uuid4().hex}", delayed(load_partition, pure=False)
        self.cluster = Cluster(client, self._name, timeout, errors)
        self._partitions, self._extra = partitions, dict(extra or {})
        self._present: list[Lease] = []
        self._n_leases = self._n_loads = 0
        self._failures: dict[int, int] = defaultdict(int)
        self._all = frozenset(range(len(partitions)))
        self.adopted: dict[int, tuple[int, bytes]] = {}
        """Rows and digest of each partition."""
        try:
            self.cluster.register(held)
            self.load()
        except BaseException:
            self.close()
            raise

    @property
    def present(self) -> list[Lease]:
        """The leases of all partitions, as far as is known."""
        return list(self._present)

    def answers(
        self, make: Callable[[KnownWorker, list[Lease]], Mapping[str, Any]]
    ) -> list[tuple[list[Lease], Answer]]:
        """Answers to a question that speak of every partition once, whatever happens meanwhile.

        `make` makes the message for a worker and the leases that it is about.
        """
        answers: list[tuple[list[Lease], Answer]] = []
        answered: frozenset[int] = frozenset()
        while answered != self._all:
            asked: dict[str, list[Lease]] = defaultdict(list)
            for lease in self._present:
                if not lease.partitions <= answered:
                    asked[lease.address].append(lease)

            def message(worker: KnownWorker, asked: dict[str, list[Lease]] = asked) -> Mapping[str, Any]:
                leases = asked[worker.address]
                return {**make(worker, leases), "leases": [lease.number for lease in leases]}

            for address, answer in self.ask(dict.fromkeys(asked, message)).items():
                answers.append((asked[address], answer))
                answered = answered.union(*(lease.partitions for lease in asked[address]))
            self.load(answered)
        return answers

    def ask(self, messages: Mapping[str, Callable[[KnownWorker], Mapping[str, Any]]]) -> dict[str, Answer]:
        """Answers of some workers; leases of workers that gave none, or know of none, end."""
        answers = self.cluster.ask(messages)
        # Dask answers with a "status" in place of a worker that failed.
        failed = [
            a.get("failed", "an unknown error") for a in answers.values() if "failed" in a or "status" in a
        ]
        if failed:
            raise self.cluster.errors.cluster(f"a worker could not answer: {failed[0]}")
        for address in [address for address, answer in answers.items() if "unknown" in answer]:
            del answers[address]
            self.cluster.worker(address).told.clear()
        lost = messages.keys() - answers.keys()
        self._present = [lease for lease in self._present if lease.address not in lost]
        return answers

    def load(self, answered: frozenset[int] = frozenset()) -> None:
        """Have workers adopt all partitions that none has, those that have answered apart from the others."""
        while missing := self._all.difference(*(lease.partitions for lease in self._present)):
            self._compute(missing)
            self._adopt(missing, answered)

    def forget(self) -> None:
        """Know of no lease any more."""
        self._present = []

    def close(self) -> None:
        """Make the workers forget the rows, as far as they can be reached."""
        self.cluster.close()
        self.forget()

    def _compute(self, missing: frozenset[int]) -> None:
        """Wait until tasks have put the partitions somewhere."""
        # Workers that come meanwhile receive the plugin from the scheduler, before they get a task.
        self._n_loads += 1
        tasks = {
            i: self._task(
                self._name, i, *self._partitions[i], dask_key_name=f"{self._name}-{self._n_loads}-{i}"
            )
            for i in sorted(missing)
        }
        self.cluster.compute(tasks, self._note_failure)

    def _note_failure(self, index: int, future: Any) -> None:
        """Let a partition be computed again, unless it is the partition's own fault."""
        self._failures[index] += 1
        error = future.exception(timeout=self.cluster.timeout) if future.status == "error" else None
        own = error is not None and type(error).__name__ not in ("KilledWorker", "FutureCancelledError")
        if own or self._failures[index] >= _ATTEMPTS:
            why = "it was lost with its workers" if error is None else type(error).__name__
            raise self.cluster.errors.partition(
                f"partition {index} could not be computed ({why}); compute it alone to see the error"
            )

    def _adopt(self, missing: frozenset[int], answered: frozenset[int]) -> None:
        """Divide the partitions that tasks have put on workers among leases."""
        errors = self.cluster.errors
        living = self.cluster.living()
        loaded = self.ask(dict.fromkeys(living, lambda _: {"ask": "loaded"}))
        self._check_versions(loaded)
        new: dict[str, list[Lease]] = {address: [] for address in loaded}
        rest = set(missing)
        for address, answer in loaded.items():
            here = rest.intersection(answer["loaded"])
            rest -= here
            for part in (here & answered, here - answered):
                if part:
                    self._n_leases += 1
                    new[address].append(Lease(self._n_leases, address, frozenset(part)))
        for index in rest:
            self._failures[index] += 1
            if self._failures[index] >= _ATTEMPTS:
                raise errors.partition(f"partition {index} was computed {_ATTEMPTS} times and lost each time")

        def message(worker: KnownWorker) -> Mapping[str, Any]:
            return {
                "ask": "adopt",
                "keep": [lease.number for lease in self._present if lease.address == worker.address],
                "leases": [(lease.number, sorted(lease.partitions)) for lease in new[worker.address]],
                **self._extra,
            }

        for address, answer in self.ask(dict.fromkeys(loaded, message)).items():
            if "wrong" in answer:
                raise errors.wrong(*answer["wrong"])
            for index, n_rows, digest in answer["adopted"]:
                if self.adopted.setdefault(index, (n_rows, digest)) != (n_rows, digest):
                    raise errors.partition(
                        f"partition {index} was computed again, and its rows are not those of the first "
                        "time; training needs partitions that are the same whenever they are computed"
                    )
            self._present += new[address]

    def _check_versions(self, loaded: Mapping[str, Answer]) -> None:
        others = sorted({answer["version"] for answer in loaded.values()} - {__version__})
        if others:
            raise self.cluster.errors.cluster(
                f"workers have veilboost {', '.join(others)}, and the client has {__version__}; "
                "install the same"
            )
