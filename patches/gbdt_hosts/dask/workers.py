"""A cluster's workers: what they hold for a client, which of them are alive, and which are given up."""

from __future__ import annotations

import asyncio
import logging
import math
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Real
from typing import Any, TypeVar

from distributed import Client, Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.errors import places_of

logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")
Message = Mapping[str, Any]


class WorkerState(ABC):
    """A client's state at a worker, pickled before it begins; errors stay out of Dask's log."""

    def __init__(self) -> None:
        self.n_threads = 0

    def begin(self, n_threads: int) -> None:
        """Called once on every worker, which has as many threads."""
        self.n_threads = n_threads

    @abstractmethod
    def answer(self, message: Message) -> dict[str, Any]:
        """The answer to a message, both of plain types."""

    def is_quick(self, message: Message) -> bool:
        """Whether the answer takes less time than waking another thread."""
        return False

    def answer_or_failure(self, message: Message) -> dict[str, Any]:
        """The answer to a message, or the name of an error, whose text may quote a value."""
        try:
            with silent_arithmetic():
                return self.answer(message)
        except Exception as error:
            logger.error("a message could not be answered: %s", places_of(error))
            return {"failed": type(error).__name__}


class StatePlugin(WorkerPlugin):
    """Gives every worker, present and future, a state that answers messages; its operation is `name`.

    The state is unpickled beside the event loop: that imports much, and a worker that imports is not to be
    taken for one that is lost.
    """

    def __init__(self, name: str, state: WorkerState | bytes) -> None:
        self.name = name
        self._pickled = state if isinstance(state, bytes) else pickle.dumps(state)
        self._executor: ThreadPoolExecutor | None = None
        self._state: Future[WorkerState] = Future()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self._pickled)

    def setup(self, worker: Worker) -> None:
        """Begin to answer messages on this worker."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=self.name)
        self._state = self._executor.submit(self._begun, int(worker.state.nthreads))
        worker.handlers[self.name] = self._handle

    def teardown(self, worker: Worker) -> None:
        """Forget the state."""
        worker.handlers.pop(self.name, None)
        self._state = Future()
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def state(self) -> WorkerState | None:
        """The worker's state, for its tasks; None if it could not be made.

        The client learns the reason when it asks.  Of a task that fails, Dask would log the arguments.
        """
        try:
            return self._state.result()
        except Exception:
            return None

    def _begun(self, n_threads: int) -> WorkerState:
        state: WorkerState = pickle.loads(self._pickled)
        state.begin(n_threads)
        return state

    async def _handle(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            if not self._state.done():  # else the answer would wait for another turn of the event loop
                await asyncio.wrap_future(self._state)
            state = self._state.result()
        except Exception as error:  # of an import
            return {"failed": f"{type(error).__name__}: {error}"}
        if state.is_quick(message):
            return state.answer_or_failure(message)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, state.answer_or_failure, message)


def state_of_task(name: str) -> Any:
    """The state of a name on the worker that runs the calling task; None without it."""
    plugin = get_worker().plugins.get(name)
    return plugin.state() if isinstance(plugin, StatePlugin) else None


def check_client(
    client: Any, timeout: Any, waiting: str, wrong_type: type[Exception], wrong_value: type[Exception]
) -> None:
    """Raise unless a client is connected and waits for its results, and its timeout is a number of seconds.

    `waiting` is the end of the message about an asynchronous client: what waits for the results.
    """
    if not isinstance(client, Client):
        raise wrong_type(f"client must be a distributed.Client, got {type(client).__name__}")
    if client.status != "running":
        raise wrong_value(f"client must be connected to its scheduler, got one that is {client.status!r}")
    if client.asynchronous:
        raise wrong_value(f"client must not be asynchronous: {waiting}")
    if not (isinstance(timeout, Real) and math.isfinite(timeout) and float(timeout) > 0):
        raise wrong_value(f"timeout={timeout!r} must be a finite number of seconds above 0")


def in_loop(client: Any, function: Callable[..., Coroutine[Any, Any, _Result]], *args: Any) -> _Result:
    """Wait in the calling thread for a coroutine in the client's event loop; an interrupt cancels it.

    `Client.sync` would take some more turns of the loop, which count in rounds of a millisecond.
    """
    future = asyncio.run_coroutine_threadsafe(function(*args), client.loop.asyncio_loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def heartbeats(client: Any) -> Mapping[str, float]:
    """The scheduler's workers by address, and when it last heard of each, by its own clock.

    `OSError` if the scheduler cannot be reached.
    """
    identity = await client.scheduler.identity()
    return {str(address): float(known["last_seen"]) for address, known in identity["workers"].items()}


async def remove_worker(client: Any, address: str) -> None:
    """Make the scheduler give up a worker that answers nothing: what it held is computed elsewhere.

    If the worker ever goes on, it finds itself removed, and closes.
    """
    await client.run_on_scheduler(_remove_worker, address)


async def _remove_worker(address: str, dask_scheduler: Any = None) -> None:
    if address in dask_scheduler.workers:
        await dask_scheduler.remove_worker(address, stimulus_id="veilboost-worker-is-silent")
