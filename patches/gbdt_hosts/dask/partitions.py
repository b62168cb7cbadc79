"""The partitions of a collection on one worker, and the leases that the client makes of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gbdt_commons._version import __version__
from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_hosts.dask.workers import Message, WorkerState, state_of_task

_Lease = TypeVar("_Lease")


class HeldPartitions(WorkerState, Generic[_Lease]):
    """Rows of partitions, which tasks put there and which never travel.

    Tasks give nothing back: what is computed from rows leaves in answers to the client's messages alone.
    `leases` has partitions that are held together, by number.
    """

    refusals: tuple[type[Exception], ...] = ()
    """Errors that say what is wrong with a partition, and quote no value."""

    def __init__(self) -> None:
        super().__init__()
        self._loaded: dict[int, Any] = {}
        self.leases: dict[int, _Lease] = {}

    @abstractmethod
    def read(self, *parts: Any) -> Any:
        """A partition as it is kept until the client asks."""

    @abstractmethod
    def chosen(self, index: int, partition: Any, message: Message) -> tuple[Any, int, bytes]:
        """The part of a partition that a lease keeps, its number of rows and its digest."""

    @abstractmethod
    def lease(self, parts: list[Any]) -> _Lease:
        """The lease that some partitions make; the list may be emptied."""

    @abstractmethod
    def questions(self) -> dict[str, Callable[[Message], dict[str, Any]]]:
        """Functions that answer messages about leases."""

    def store(self, index: int, *parts: Any) -> None:
        """Keep a partition, or what was wrong with it, until the client asks."""
        try:
            with silent_arithmetic():
                self._loaded[index] = self.read(*parts)
        except self.refusals as error:
            self._loaded[index] = type(error)(*error.args)  # without the traceback, which holds rows
        except Exception as error:
            self._loaded[index] = type(error).__name__

    def answer(self, message: Message) -> dict[str, Any]:
        """The answer to one of the client's messages."""
        if message["ask"] == "loaded":
            return {"version": __version__, "loaded": sorted(self._loaded)}
        if message["ask"] == "adopt":
            return self._adopt(message)
        if not self.leases.keys() >= set(message["leases"]):
            return {"unknown": True}
        return self.questions()[message["ask"]](message)

    def _adopt(self, message: Message) -> dict[str, Any]:
        """Make leases of partitions; all leases that the client does not list are forgotten."""
        self.leases = {number: self.leases[number] for number in message["keep"]}
        adopted: list[tuple[int, int, bytes]] = []
        for number, indices in message["leases"]:
            parts: list[Any] = []
            for index in indices:
                partition = self._loaded.pop(index)
                if isinstance(partition, str):
                    return {"wrong": (index, "", partition)}
                try:
                    if isinstance(partition, Exception):
                        raise partition
                    part, n_rows, digest = self.chosen(index, partition, message)
                except self.refusals as error:
                    return {"wrong": (index, type(error).__name__, str(error))}
                adopted.append((index, n_rows, digest))
                parts.append(part)
                del part, partition
            self.leases[number] = self.lease(parts)
        self._loaded.clear()
        return {"adopted": adopted}


def load_partition(name: str, index: int, *parts: Any) -> None:
    """The task that puts a partition where it runs; its result says nothing."""
    held = state_of_task(name)
    if isinstance(held, HeldPartitions):
        held.store(index, *parts)
