"""Bytes in parts: the first parts can be sent while the last ones are still being made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future


class Parts:
    """Bytes whose number is known before all of them are there.

    Parameters
    ----------
    n_bytes : int
        Bytes of all parts together.
    parts : iterable of bytes, Parts or Future
        In order; the result of a future is bytes.
    """

    def __init__(self, n_bytes: int, parts: Iterable[bytes | Parts | Future[bytes]]) -> None:
        self._n_bytes = n_bytes
        self._parts = list(parts)

    def __len__(self) -> int:
        """Bytes of all parts together."""
        return self._n_bytes

    @property
    def are_there(self) -> bool:
        """Whether all parts have been made, so that none is waited for."""
        return all(
            part.are_there if isinstance(part, Parts) else not isinstance(part, Future) or _is_made(part)
            for part in self._parts
        )

    def __iter__(self) -> Iterator[bytes]:
        """Give the parts one by one, waiting for each; any number of threads may do so.

        Raises
        ------
        Exception
            Exception from the making of a part.
        """
        for part in self._parts:
            if isinstance(part, Parts):
                yield from part
            else:
                yield part.result() if isinstance(part, Future) else part

    def __bytes__(self) -> bytes:
        """Wait for all parts and join them."""
        return b"".join(self)


def _is_made(part: Future[bytes]) -> bool:
    return part.done() and not part.cancelled() and part.exception() is None
