"""Kept state: typed records by kind and key, changed in transactions, in memory or in one file.

Under a kind and a key there is a sequence of entries; a single value is a sequence of one.  All that one
transaction changes is kept, or none of it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gbdt_commons.errors import StoreError
from gbdt_commons.locks import OwnLock, block

T = TypeVar("T")

_Entries = tuple[tuple[int, bytes], ...]
"""Contents of a sequence in memory, each with the number of the change that wrote it."""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A type of records, written and read back; an error of `read` means that the record is damaged."""

    name: str
    write: Callable[[T], bytes]
    read: Callable[[bytes], T]


def bytes_kind(name: str) -> Kind[bytes]:
    """Records that are bytes already."""
    return Kind(name, bytes, bytes)


def json_kind(name: str) -> Kind[Any]:
    """Records of JSON's types."""
    return Kind(name, lambda value: json.dumps(value).encode(), json.loads)


class Store(ABC):
    """Records of one party in one role, for several threads; a lone change is a transaction of its own."""

    @abstractmethod
    def transaction(self, *, sync: bool = True) -> AbstractContextManager[None]:
        """Keep all changes of a block at its end, or none of them if it raises an error.

        Other threads wait meanwhile. A transaction within another one is part of that one, which keeps
        nothing, either, if the inner one raises an error; the `sync` of the outer one holds. With it, the
        changes are on the disk, and not only with the operating system, at the end of the block; all earlier
        ones are then, too. Without it, a failure of the machine, but not of the process, can undo the last
        transactions.

        Raises OSError if the disk is full; everything is as it was before, and the store can be used on.
        Raises StoreError if the file was removed or replaced, or in a forked process, whose parent uses the
        store; and if an inner transaction has raised an error that the block has suppressed.
        """

    def put(self, kind: Kind[T], key: str, value: T) -> None:
        """Keep a value as the only entry.

        Replaced contents are gone from the file at the next deletion, when the store is closed, and at the
        latest some mebibytes of changes later.
        """
        content = kind.write(value)
        with self.transaction():
            self.write_entry(kind.name, key, 0, content)

    def get(self, kind: Kind[T], key: str, place: int = 0) -> T | None:
        """An entry, the first one by default; None without one."""
        content = self._read(kind.name, key, place)
        return None if content is None else _value(kind, content)

    def append(self, kind: Kind[T], key: str, value: T) -> None:
        """Keep a value as one more entry."""
        content = kind.write(value)
        with self.transaction():
            self.write_entry(kind.name, key, self._size(kind.name, key), content)

    def entries(self, kind: Kind[T], key: str) -> Iterator[T]:
        """All entries, in order, each read when it is due."""
        for place in range(self.size(kind, key)):
            content = self._read(kind.name, key, place)
            if content is None:
                raise StoreError(f"an entry of {kind.name} was removed while it was read")
            yield _value(kind, content)

    def size(self, kind: Kind[T], key: str) -> int:
        """Number of entries."""
        return self._size(kind.name, key)

    def keys(self, kind: Kind[T]) -> list[str]:
        """All keys with entries, those whose entries changed last at the end."""
        return self._keys(kind.name)

    def delete(self, kind: Kind[T], key: str, start: int = 0) -> None:
        """Remove all entries, or those from a place on.

        At the end of the transaction, no trace of their content is left in the folder, nor of any that was
        replaced before; a reader who keeps an older state meanwhile puts that off to the next transaction.
        """
        with self.transaction():
            self._remove(kind.name, key, start)

    def clear(self) -> None:
        """Remove all records, with no trace of them, as `delete` does; of a part, its own."""
        with self.transaction():
            for kind in self.kinds():
                for key in self._keys(kind):
                    self._remove(kind, key, 0)

    def part(self, name: str) -> Store:
        """The records of one owner, such as one caller of a party; other parts do not see them."""
        return _Part(self, name)

    @abstractmethod
    def close(self) -> None:
        """Let go of the file, which another process can use then."""

    @abstractmethod
    def _read(self, kind: str, key: str, place: int) -> bytes | None: ...

    @abstractmethod
    def _size(self, kind: str, key: str) -> int: ...

    @abstractmethod
    def _keys(self, kind: str) -> list[str]: ...

    @abstractmethod
    def kinds(self) -> list[str]:
        """Names of the kinds that have entries."""

    @abstractmethod
    def write_entry(self, kind: str, key: str, place: int, content: bytes) -> None:
        """Make an entry the last one: one at its place, and those behind, are replaced."""

    @abstractmethod
    def _remove(self, kind: str, key: str, start: int) -> None: ...


def _value(kind: Kind[T], content: bytes) -> T:
    try:
        return kind.read(content)
    except Exception as error:
        # Damaged content makes its readers raise nearly anything.
        raise StoreError(f"a record of {kind.name} cannot be read: {type(error).__name__}") from None


class _Part(Store):
    """The records of one owner: their kinds carry its name."""

    def __init__(self, whole: Store, name: str) -> None:
        # No name runs into that of a part within the part.
        self._whole, self._prefix = whole, name.replace("%", "%25").replace("/", "%2F") + "/"

    def transaction(self, *, sync: bool = True) -> AbstractContextManager[None]:
        return self._whole.transaction(sync=sync)

    def close(self) -> None:
        """Leave the file to the other parts."""

    def _read(self, kind: str, key: str, place: int) -> bytes | None:
        return self._whole._read(self._prefix + kind, key, place)

    def _size(self, kind: str, key: str) -> int:
        return self._whole._size(self._prefix + kind, key)

    def _keys(self, kind: str) -> list[str]:
        return self._whole._keys(self._prefix + kind)

    def kinds(self) -> list[str]:
        """Names of the kinds that have entries in the part."""
        n = len(self._prefix)
        return [kind[n:] for kind in self._whole.kinds() if kind.startswith(self._prefix)]

    def write_entry(self, kind: str, key: str, place: int, content: bytes) -> None:
        """Make an entry of the part the last one."""
        self._whole.write_entry(self._prefix + kind, key, place, content)

    def _remove(self, kind: str, key: str, start: int) -> None:
        self._whole._remove(self._prefix + kind, key, start)


class OwnStore(Store):
    """A store that has its records itself: a transaction of one thread at a time."""

    def __init__(self) -> None:
        self._lock = OwnLock()
        self.is_changing = self._is_spoilt = False

    @block
    def transaction(self, *, sync: bool = True) -> Generator[None, None, None]:
        """See `Store`."""
        with self._held():
            if self.is_changing:
                try:
                    yield
                except BaseException:
                    self._is_spoilt = True
                    raise
                return
            try:
                self._begin(sync)
                self.is_changing, self._is_spoilt = True, False
                yield
                if self._is_spoilt:
                    raise StoreError("a part of the transaction has failed: nothing of it is kept")
                self._commit()
            except BaseException:
                self._undo()
                raise
            finally:
                self.is_changing = False
            self._tidy(sync)

    def _held(self) -> AbstractContextManager[Any]:
        return self._lock.held()

    @abstractmethod
    def _begin(self, sync: bool) -> None:
        """Begin changes, after those that an interrupt has left undone are."""

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _undo(self) -> None:
        """Take back the changes unless they were committed; called again after an interrupt, it goes on."""

    @abstractmethod
    def _tidy(self, sync: bool) -> None:
        """Do what a kept transaction leaves to do, without an error: it is kept."""


class MemoryStore(OwnStore):
    """A store that ends with the process; copies and pickles of it have the same records."""

    def __init__(self) -> None:
        super().__init__()
        self._sequences: dict[str, dict[str, _Entries]] = {}
        self._n_written = 0
        self._before: list[tuple[str, str, _Entries]] = []

    def close(self) -> None:
        """Keep everything: nothing is open."""

    def _begin(self, sync: bool) -> None:
        self._undo()

    def _commit(self) -> None:
        self._before = []

    def _undo(self) -> None:
        for kind, key, entries in reversed(self._before):
            self._set(kind, key, entries)
        self._before = []

    def _tidy(self, sync: bool) -> None:
        pass

    def _entries(self, kind: str, key: str) -> _Entries:
        with self._held():
            return self._sequences.get(kind, {}).get(key, ())

    def _set(self, kind: str, key: str, entries: _Entries) -> None:
        if entries:
            self._sequences.setdefault(kind, {})[key] = entries
        else:
            self._sequences.get(kind, {}).pop(key, None)

    def _read(self, kind: str, key: str, place: int) -> bytes | None:
        found = self._entries(kind, key)[place : place + 1]
        return found[0][1] if found else None

    def _size(self, kind: str, key: str) -> int:
        return len(self._entries(kind, key))

    def _keys(self, kind: str) -> list[str]:
        with self._held():
            last = {key: entries[-1][0] for key, entries in self._sequences.get(kind, {}).items()}
        return sorted(last, key=last.__getitem__)

    def kinds(self) -> list[str]:
        """Names of the kinds that have entries."""
        with self._held():
            return [kind for kind, sequences in self._sequences.items() if sequences]

    def write_entry(self, kind: str, key: str, place: int, content: bytes) -> None:
        """Make an entry the last one."""
        self._n_written += 1
        self._remove(kind, key, place, (self._n_written, content))

    def _remove(self, kind: str, key: str, start: int, *instead: tuple[int, bytes]) -> None:
        before = self._entries(kind, key)
        self._before.append((kind, key, before))
        self._set(kind, key, (*before[:start], *instead))
