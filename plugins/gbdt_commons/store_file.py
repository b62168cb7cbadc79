"""A store in one SQLite file, which one process uses at a time."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from gbdt_commons.errors import StoreError
from gbdt_commons.files import make_folder
from gbdt_commons.key_stream import this_process
from gbdt_commons.store import Store
from gbdt_commons.store_opening import (
    PLACES,
    check_regular,
    checked,
    content_of,
    digest_of_record,
    empty_log,
    locked,
    opened,
    refuse_former,
    signature,
    translation,
)


class StoreFile(Store):
    """A store in a file of its owner (mode 0600), with a write-ahead log beside it while it is open.

    Parameters
    ----------
    path : path
        Made if it is missing, with its folder.
    role : str or None
        Whose state it is; a store of another role is refused.  None reads that of any.
    former : sequence of str
        Patterns of files in the folder that earlier releases kept such state in: they are refused.
    read_only : bool
        Read records only, of a store that another process may be using.

    Raises
    ------
    StoreError
        If the file is in use, damaged, foreign, or of another role or release; it stays as it is.
    FileNotFoundError
        If it is only to be read, and is missing.
    OSError
        If it cannot be opened or made.
    """

    def __init__(
        self,
        path: str | Path,
        role: str | None,
        *,
        former: Sequence[str] = (),
        read_only: bool = False,
    ) -> None:
        self._path, self._process, self._lock = Path(path), this_process(), RLock()
        self._is_changing, self._must_empty, self._synchronous = False, False, ""
        refuse_former(self._path.parent, former)
        check_regular(self._path)
        if read_only:
            self._path.stat()
            self._connection, self._holder = checked(self._path, role), None
        else:
            make_folder(self._path.parent)
            self._holder = locked(self._path)
            try:
                self._connection = opened(self._path, role)
            except BaseException:
                self._holder.close()
                raise
        self._known = signature(self._path)
        self._close = weakref.finalize(self, _close, self._connection, self._holder, self._process)
        _open.add(self)
        self._sequences: dict[tuple[str, str], _Sequence] = {}
        self._last = self._execute("SELECT COALESCE(MAX(change), 0) FROM record").fetchone()[0]

    def __reduce__(self) -> Any:
        """Refuse to be copied: one object uses the file."""
        raise TypeError("a store in a file cannot be pickled or copied")

    def close(self) -> None:
        """Let go of the file; another process, or object, can use it then."""
        # A thread that the fork has not copied may have held the lock.
        if self._process == this_process():
            with self._lock:
                self._close()

    def _check_process(self) -> None:
        if self._process != this_process():
            raise StoreError(f"{self._path.name!r} is its parent process's: a forked one cannot use it")

    def _check_usable(self) -> None:
        if not self._close.alive:
            raise StoreError(f"{self._path.name!r} is closed")
        if self._holder is not None and not self._is_changing and signature(self._path) != self._known:
            # Another process may have a lock, and a store, of its own by now.
            raise StoreError(f"{self._path.name!r} was removed or replaced while it was in use")

    @contextmanager
    def transaction(self, *, sync: bool = True) -> Iterator[None]:
        """See `Store`."""
        self._check_process()
        with self._lock:
            if self._is_changing:
                yield
                return
            self._check_usable()
            self._empty_log()
            self._set_synchronous("FULL" if sync else "NORMAL")
            self._execute("BEGIN IMMEDIATE")
            self._is_changing, last = True, self._last
            try:
                yield
                self._execute("COMMIT")
            except BaseException:
                # The log may hold the transaction whole, if only its sync has failed: behind a shorter one,
                # and after a crash, it would pass for damage.
                self._last, self._must_empty = last, True
                self._sequences.clear()
                if self._connection.in_transaction:
                    self._execute("ROLLBACK")
                raise
            finally:
                self._is_changing = False
                self._note_change()
            self._empty_log()

    def _note_change(self) -> None:
        """Know the file as it was changed here; another one in its place stays unknown."""
        # No error here: the transaction is kept.
        with suppress(OSError):
            now = signature(self._path)
            if now[:2] == self._known[:2]:
                self._known = now

    def _empty_log(self) -> None:
        """Leave zeros in the file, and nothing in the log, of what was removed or undone.

        If that fails, it is tried again at the next transaction, and when the store is closed.
        """
        if self._must_empty:
            with suppress(sqlite3.Error):
                self._must_empty = not empty_log(self._connection)
            self._note_change()

    def _set_synchronous(self, level: str) -> None:
        if level != self._synchronous:
            self._execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise translation(self._path, error) from None

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        self._check_process()
        with self._lock:
            self._check_usable()
            return self._execute(sql, *values).fetchall()

    def _sequence(self, kind: str, key: str) -> _Sequence:
        """First number and size of a sequence, which need not have been begun."""
        self._check_process()
        with self._lock:
            if (kind, key) in self._sequences:
                return self._sequences[kind, key]
            rows = self._rows("SELECT id FROM sequence WHERE kind = ? AND key = ?", kind, key)
            if not rows:
                return _Sequence(0, 0)
            first = rows[0][0] * PLACES
            sql = "SELECT COALESCE(MAX(number) + 1, ?1) FROM record WHERE number >= ?1 AND number < ?2"
            found = _Sequence(first, self._rows(sql, first, first + PLACES)[0][0] - first)
            if self._holder is not None:
                self._sequences[kind, key] = found
            return found

    def _read(self, kind: str, key: str, place: int) -> bytes | None:
        number = self._sequence(kind, key).first + place
        rows = self._rows("SELECT change, digest, content FROM record WHERE number = ?", number)
        return content_of(self._path, (kind, key, place), *rows[0]) if rows else None

    def _size(self, kind: str, key: str) -> int:
        return self._sequence(kind, key).size

    def _keys(self, kind: str) -> list[str]:
        last = "SELECT MAX(number) FROM record WHERE number >= id * ?1 AND number < (id + 1) * ?1"
        changed = f"SELECT key, (SELECT change FROM record WHERE number = ({last})) AS last FROM sequence"
        sql = f"SELECT key FROM ({changed} WHERE kind = ?2) WHERE last IS NOT NULL ORDER BY last"
        return [key for (key,) in self._rows(sql, PLACES, kind)]

    def _write(self, kind: str, key: str, place: int, content: bytes) -> None:
        self._remove(kind, key, place + 1)
        first = self._sequence(kind, key).first
        if not first:
            sql = "INSERT INTO sequence (kind, key) VALUES (?, ?)"
            first = (self._execute(sql, kind, key).lastrowid or 0) * PLACES
        self._last += 1
        digest = digest_of_record((kind, key, place, self._last), content)
        self._execute("REPLACE INTO record VALUES (?, ?, ?, ?)", first + place, self._last, digest, content)
        self._sequences[kind, key] = _Sequence(first, place + 1)

    def _remove(self, kind: str, key: str, start: int) -> None:
        first, size = self._sequence(kind, key)
        if start < size:
            sql = "DELETE FROM record WHERE number >= ? AND number < ?"
            self._execute(sql, first + start, first + size)
            self._sequences[kind, key], self._must_empty = _Sequence(first, start), True


class _Sequence(NamedTuple):
    """Number of a sequence's first record, 0 before it has one, and its size."""

    first: int
    size: int


def _close(connection: sqlite3.Connection, holder: Any, process: object) -> None:
    if process != this_process():
        return
    if holder is not None:
        with suppress(sqlite3.Error):
            connection.execute("UPDATE about SET is_open = 0")
    connection.close()
    if holder is not None:
        holder.close()


_open: weakref.WeakSet[StoreFile] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Keep a forked child from closing its parent's connections, and from holding its parent's locks.

    The last connection that is closed writes its log into the file: a child's would be out of date.
    """
    for store in list(_open):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(store._connection))
        if store._holder is not None:
            store._holder.close()


os.register_at_fork(after_in_child=_leave_to_parent)
