"""Messages to one worker: over a connection of our own, or by way of the scheduler where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from distributed.comm.core import connect as _connect

connect: Any = _connect


class DirectConnection:
    """A connection to a worker, opened with the client's own security."""

    def __init__(self, comm: Any, operation: str) -> None:
        self._comm, self._operation = comm, operation

    async def ask(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The worker's answer, None if it does not know the operation; `OSError` if it is out of reach."""
        await self._comm.write({"op": self._operation, "message": dict(message)})
        answer: dict[str, Any] | None = await self._comm.read()
        return answer

    def close(self) -> None:
        """End the connection."""
        self._comm.abort()


class RelayedConnection:
    """Messages through the scheduler, for a worker that cannot be reached directly."""

    def __init__(self, client: Any, address: str, operation: str) -> None:
        self._client, self._address, self._operation = client, address, operation

    async def ask(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """As for `DirectConnection`."""
        answers = await self._client.run(
            _handle, self._operation, dict(message), workers=[self._address], on_error="return"
        )
        answer: dict[str, Any] | None = answers.get(self._address)
        if isinstance(answer, OSError):
            raise answer
        return answer if isinstance(answer, dict) else None

    def close(self) -> None:
        """Nothing to end."""


async def _handle(operation: str, message: dict[str, Any], dask_worker: Any = None) -> Any:
    handler = dask_worker.handlers.get(operation)
    return None if handler is None else await handler(message)


async def connected(
    client: Any, address: str, operation: str, timeout: float, relays: bool = True
) -> DirectConnection | RelayedConnection:
    """A connection to a worker, directly if it accepts one within `timeout` seconds.

    Otherwise messages go by way of the scheduler, or, if nothing may be relayed, an `OSError` is raised.
    """
    try:
        comm = await asyncio.wait_for(connect(address, timeout=timeout, **client.connection_args), timeout)
    except (OSError, asyncio.TimeoutError):
        if not relays:
            raise OSError("the worker cannot be reached directly") from None
        return RelayedConnection(client, address, operation)
    return DirectConnection(comm, operation)
