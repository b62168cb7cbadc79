"""A cluster's workers: their handlers and plugins, which of them are alive, and those given up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

__all__ = [
    "WorkerPlugin",
    "add_handler",
    "heartbeats",
    "in_loop",
    "is_closed",
    "plugin_of_task",
    "remove_handler",
    "remove_worker",
    "threads_of",
]

_Result = TypeVar("_Result")
Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def add_handler(worker: Worker, operation: str, handler: Handler) -> None:
    """Let a worker answer messages of a new operation, on its event loop.

    Parameters
    ----------
    worker : distributed.Worker
    operation : str
    handler : callable
        Takes a message of plain types and returns another; it must not raise, since the worker would log it.
    """

    async def handle(message: dict[str, Any]) -> dict[str, Any]:
        return await handler(message)

    worker.handlers[operation] = handle


def remove_handler(worker: Worker, operation: str) -> None:
    """Take an operation away again."""
    worker.handlers.pop(operation, None)


def threads_of(worker: Worker) -> int:
    """Threads that a worker was given."""
    return int(worker.state.nthreads)


def plugin_of_task(name: str) -> Any:
    """The plugin of a name of the worker that runs the calling task, None without it."""
    return get_worker().plugins.get(name)


def is_closed(client: Any) -> bool:
    """Whether a client is not connected to its scheduler."""
    return bool(client.status != "running")


def in_loop(client: Any, function: Callable[..., Awaitable[_Result]], *args: Any) -> _Result:
    """Wait in the calling thread for a coroutine in the client's event loop."""
    result: _Result = client.sync(function, *args, asynchronous=False)
    return result


async def heartbeats(client: Any) -> Mapping[str, float]:
    """The scheduler's workers by address, and when it last heard of each, by its own clock.

    Raises
    ------
    OSError
        If the scheduler cannot be reached.
    """
    identity = await client.scheduler.identity()
    return {str(address): float(known["last_seen"]) for address, known in identity["workers"].items()}


async def remove_worker(client: Any, address: str) -> None:
    """Make the scheduler give up a worker that answers nothing: what it held is computed elsewhere.

    If the worker ever goes on, it is told to close, and its nanny starts another one.
    """
    await client.run_on_scheduler(_remove_worker, address)


async def _remove_worker(address: str, dask_scheduler: Any = None) -> None:
    if address in dask_scheduler.workers:
        await dask_scheduler.remove_worker(address, stimulus_id="veilboost-worker-is-silent")
