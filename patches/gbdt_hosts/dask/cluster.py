"""The client's view of a cluster: which workers are alive, and what they answer.

Every wait is raced against the scheduler's list of workers.  A worker is lost if its connection ends, if it
leaves the list, or if the scheduler has heard nothing of it for `timeout` seconds: Dask itself takes minutes
to notice a worker that was stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from gbdt_hosts.dask.connections import connected
from gbdt_hosts.dask.workers import StatePlugin, WorkerState, heartbeats, in_loop, remove_worker

_LOADING_POLL = 0.02
_POLL = 0.5
"""Seconds between two looks at the scheduler's list while something is waited for."""
_CONNECT = 5.0
"""Seconds at most before a worker is taken to be out of reach of direct connections."""
_PATIENCE = 10
"""Times `timeout` that a worker may take for an answer if the scheduler hears of it all the while."""
_ATTEMPTS = 5
"""Times that workers may be lost while a plugin is sent to them."""
_Result = TypeVar("_Result")
Answer = dict[str, Any]


@dataclass(frozen=True)
class ClusterErrors:
    """Exception types that a package raises when a cluster fails.

    `wrong` is given the partition's number, the name of the error that reading it raised, or nothing if the
    error was not one of ours, and a text.
    """

    cluster: type[Exception]  # the cluster cannot do what it is asked
    workers: type[Exception]  # no worker is left
    scheduler: type[Exception]  # the scheduler is out of reach
    partition: type[Exception]  # a partition cannot be computed, or another time is another one
    wrong: Callable[[int, str, str], Exception]  # makes the error of a partition
    aftermath: str = ""  # end of a text about a loss


class KnownWorker:
    """One worker: its connection, opened if needed or relayed by the scheduler, and what it knows."""

    def __init__(self, client: Any, address: str, operation: str, timeout: float, relays: bool) -> None:
        self.address, self._relays = address, relays
        self.told: dict[str, Any] = {}
        self._client, self._operation = client, operation
        self._timeout = min(timeout, _CONNECT)
        self._connection: Any = None

    async def ask(self, message: Mapping[str, Any]) -> Answer | None:
        """The worker's answer; raises an OSError without one."""
        if self._connection is None:
            self._connection = await connected(
                self._client, self.address, self._operation, self._timeout, self._relays
            )
        try:
            answer: Answer | None = await self._connection.ask(message)
        except BaseException:  # an interrupt, too: the answer to this message must not be taken for the next
            self.close()
            raise
        return answer

    def close(self) -> None:
        """End the connection; the worker keeps its rows."""
        connection, self._connection = self._connection, None
        self.told = {}
        if connection is not None:
            connection.close()


class Cluster:
    """The workers of a client's cluster, whose plugin answers to the name `operation`.

    Methods raise one of `errors` if the scheduler is out of reach for `timeout` seconds, and those that need
    a worker if there is none within this time. With `relays`, messages to workers that cannot be reached
    directly may go by way of the scheduler.
    """

    def __init__(
        self, client: Any, operation: str, timeout: float, errors: ClusterErrors, relays: bool = True
    ) -> None:
        self.client, self.timeout, self.errors, self._relays = client, timeout, errors, relays
        self._operation = operation
        self._workers: dict[str, KnownWorker] = {}
        self._heard: dict[str, tuple[float, float]] = {}

    def register(self, state: WorkerState) -> None:
        """Give all workers, also later ones, a state that answers; one of `errors` if it cannot load."""
        plugin = StatePlugin(self._operation, state)
        for _ in range(_ATTEMPTS):
            try:
                in_loop(self.client, self._patiently, self.client.register_plugin, plugin, self._operation)
                return
            except OSError:  # one of the workers is lost, of which the scheduler knows by now
                continue
            except self.errors.cluster:
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            raise self.errors.cluster(
                f"the workers cannot load veilboost, which must be installed there ({why})"
            )
        raise self.errors.cluster(f"workers were lost {_ATTEMPTS} times while they loaded veilboost")

    def worker(self, address: str) -> KnownWorker:
        """The worker at an address."""
        if address not in self._workers:
            self._workers[address] = KnownWorker(
                self.client, address, self._operation, self.timeout, self._relays
            )
        return self._workers[address]

    def living(self) -> list[str]:
        """Addresses of the workers that the scheduler hears of; it is made to give up the others."""
        return in_loop(self.client, self._living)

    def await_workers(self) -> list[str]:
        """Addresses of the living workers, at least one."""
        deadline = time.monotonic() + self.timeout
        while not (living := self.living()):
            if time.monotonic() > deadline:
                raise self.errors.workers(
                    f"the cluster has no worker, and none came within timeout={self.timeout:g} s"
                    f"{self.errors.aftermath}"
                )
            time.sleep(_POLL / 5)
        return living

    def ask(self, messages: Mapping[str, Callable[[KnownWorker], Mapping[str, Any]]]) -> dict[str, Answer]:
        """Answers of workers to messages made by address, asked at once; lost ones are forgotten."""
        return in_loop(self.client, self._ask, messages)

    def compute(self, tasks: Mapping[int, Any], note_failure: Callable[[int, Any], None]) -> dict[int, Any]:
        """Wait for tasks (Delayed) of living workers, however long they take; futures of those that finished.

        A task that failed is left out, and noted with its number and its future.
        """
        self.await_workers()
        pending = dict(zip(tasks, self.client.compute(list(tasks.values())), strict=True))
        finished: dict[int, Any] = {}
        checked = time.monotonic()
        while pending:
            for number, future in list(pending.items()):
                status = future.status
                if status == "finished":
                    finished[number] = pending.pop(number)
                elif status != "pending":
                    note_failure(number, pending.pop(number))
            if time.monotonic() - checked > _POLL:
                if not self.living():
                    self.await_workers()
                checked = time.monotonic()
            if pending:
                time.sleep(_LOADING_POLL)
        return finished

    def gathered(self, futures: Sequence[Any]) -> list[Any]:
        """Results of finished tasks."""
        return list(in_loop(self.client, self._patiently, self.client.gather, list(futures)))

    def close(self) -> None:
        """End all connections, and take the plugin away, as far as the cluster can be reached."""
        with suppress(Exception):  # whatever Dask raises about a cluster that is gone
            in_loop(self.client, self._leave)

    # In the client's event loop.

    async def _leave(self) -> None:
        while self._workers:
            self._workers.popitem()[1].close()
        await asyncio.wait_for(self.client.unregister_worker_plugin(self._operation), self.timeout)

    async def _patiently(self, function: Callable[..., Awaitable[_Result]], *args: Any) -> _Result:
        """The result of a coroutine, awaited for as long as the scheduler is there."""
        task = asyncio.ensure_future(function(*args))
        try:
            while not (await asyncio.wait({task}, timeout=_POLL))[0]:
                await self._living()
        finally:
            task.cancel()
        return task.result()

    async def _ask(
        self, messages: Mapping[str, Callable[[KnownWorker], Mapping[str, Any]]]
    ) -> dict[str, Answer]:
        tasks: dict[asyncio.Task[Answer | None], str] = {}
        for address, make in messages.items():
            worker = self.worker(address)
            tasks[asyncio.ensure_future(worker.ask(make(worker)))] = address
        answers: dict[str, Answer] = {}
        pending, start = set(tasks), time.monotonic()
        try:
            while pending:
                done, pending = await asyncio.wait(pending, timeout=_POLL)
                for task in done:
                    try:
                        answer = task.result()
                    except OSError:
                        answer = None
                    if answer is None:  # out of reach, or without rows of the run
                        self._forget(tasks[task])
                    else:
                        answers[tasks[task]] = answer
                if done or not pending:
                    continue
                living = await self._living()
                is_late = time.monotonic() - start > _PATIENCE * self.timeout
                for task in [t for t in pending if is_late or tasks[t] not in living]:
                    pending.discard(task)
                    task.cancel()
                    self._forget(tasks[task])
                    if is_late:
                        await self._remove(tasks[task])
        finally:
            for task in pending:
                task.cancel()
        return answers

    def _forget(self, address: str) -> None:
        worker = self._workers.pop(address, None)
        if worker is not None:
            worker.close()

    async def _living(self) -> list[str]:
        try:
            beats = await asyncio.wait_for(heartbeats(self.client), self.timeout)
        except (OSError, asyncio.TimeoutError):
            raise self.errors.scheduler(
                f"the scheduler of the cluster could not be reached within timeout={self.timeout:g} s"
                f"{self.errors.aftermath}"
            ) from None
        now, living = time.monotonic(), []
        for address, beat in beats.items():
            known = self._heard.get(address)
            if known is None or known[0] != beat:
                known = self._heard[address] = (beat, now)
            if now - known[1] > self.timeout:
                await self._remove(address)
            else:
                living.append(address)
        self._heard = {address: self._heard[address] for address in living}
        return living

    async def _remove(self, address: str) -> None:
        """Make the scheduler give a worker up; whether it could be told is seen when it is asked next."""
        self._forget(address)
        with suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(remove_worker(self.client, address), self.timeout)
