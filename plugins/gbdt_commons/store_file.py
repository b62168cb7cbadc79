"""A store in one SQLite file, which one process uses at a time."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple
from urllib.parse import quote

from gbdt_commons.errors import StoreError
from gbdt_commons.files import make_folder, sync_folder
from gbdt_commons.key_stream import this_process
from gbdt_commons.store import Store
from gbdt_commons.write_ahead_log import is_whole

logger = logging.getLogger(__name__)

VERSION = 1
"""Of the tables, and of everything that packages keep in them: all of it changes together."""

APPLICATION = int.from_bytes(b"vbst", "big")
_PLACES = 1 << 32
"""Entries of a sequence; a record's number is that of its sequence times this, plus its place."""

_LOG_PAGES = 4000
"""Pages of 4 KiB of a log that is written into the file and emptied."""

_OUT_OF_ROOM = ("database or disk is full", "disk I/O error")
"""Errors of writing, in SQLite's words: Python 3.10 gives no number with them."""

_LOG, _INDEX, _LOCK = "-wal", "-shm", "-lock"
"""Ends of the names of files beside a store in use: its log, the index of that, and what its user locks."""

_TABLES = f"""
CREATE TABLE about (role TEXT NOT NULL, is_open INTEGER NOT NULL);
CREATE TABLE sequence (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (kind, key));
CREATE TABLE record (
    number INTEGER PRIMARY KEY, change INTEGER NOT NULL, digest BLOB NOT NULL, content BLOB NOT NULL
);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
PRAGMA journal_mode = WAL;
"""


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
    patience : float
        Seconds to wait for another user of the file.
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
        patience: float = 0.0,
        read_only: bool = False,
    ) -> None:
        self._path, self._process, self._lock = Path(path), this_process(), RLock()
        self._is_changing, self._has_removed, self._synchronous = False, False, ""
        _refuse_former(self._path.parent, former)
        if read_only:
            self._path.stat()
            self._connection, self._holder = _checked(self._path, role), None
        else:
            make_folder(self._path.parent)
            self._holder = _lock_of(self._path, patience)
            try:
                self._connection = _opened(self._path, role)
            except BaseException:
                self._holder.close()
                raise
        self._known = _signature(self._path)
        self._close = weakref.finalize(self, _close, self._connection, self._holder, self._process)
        _open.add(self)
        self._sequences: dict[tuple[str, str], _Sequence] = {}
        self._last = self._execute("SELECT COALESCE(MAX(change), 0) FROM record").fetchone()[0]

    def __reduce__(self) -> Any:
        """Refuse to be copied: one object uses the file."""
        raise TypeError("a store in a file cannot be pickled or copied")

    def close(self) -> None:
        """Let go of the file; another process, or object, can use it then."""
        with self._lock:
            self._close()

    def _check_process(self) -> None:
        if self._process != this_process():
            raise StoreError(f"{self._path.name!r} is its parent process's: a forked one cannot use it")

    def _check_usable(self) -> None:
        if not self._close.alive:
            raise StoreError(f"{self._path.name!r} is closed")
        if self._holder is not None and not self._is_changing and _signature(self._path) != self._known:
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
            self._set_synchronous("FULL" if sync else "NORMAL")
            self._execute("BEGIN IMMEDIATE")
            self._is_changing, self._has_removed, last = True, False, self._last
            try:
                yield
                self._execute("COMMIT")
            except BaseException:
                self._last = last
                self._sequences.clear()
                if self._connection.in_transaction:
                    self._execute("ROLLBACK")
                raise
            finally:
                self._is_changing = False
                self._known = _signature(self._path)
            if self._has_removed:
                # What was removed is zeros in the file then, and the log is empty.  If that fails, the change
                # is kept all the same, and the log is emptied when the store is closed.
                with suppress(sqlite3.Error):
                    _empty_log(self._connection)
                self._known = _signature(self._path)

    def _set_synchronous(self, level: str) -> None:
        if level != self._synchronous:
            self._execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, values)
        except sqlite3.Error as error:
            raise _translation(self._path, error) from None

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
            first = rows[0][0] * _PLACES
            sql = "SELECT COALESCE(MAX(number) + 1, ?1) FROM record WHERE number >= ?1 AND number < ?2"
            found = _Sequence(first, self._rows(sql, first, first + _PLACES)[0][0] - first)
            if self._holder is not None:
                self._sequences[kind, key] = found
            return found

    def _read(self, kind: str, key: str, place: int) -> bytes | None:
        number = self._sequence(kind, key).first + place
        rows = self._rows("SELECT change, digest, content FROM record WHERE number = ?", number)
        return _content(self._path, (kind, key, place), *rows[0]) if rows else None

    def _size(self, kind: str, key: str) -> int:
        return self._sequence(kind, key).size

    def _keys(self, kind: str) -> list[str]:
        last = "SELECT MAX(number) FROM record WHERE number >= id * ?1 AND number < (id + 1) * ?1"
        changed = f"SELECT key, (SELECT change FROM record WHERE number = ({last})) AS last FROM sequence"
        sql = f"SELECT key FROM ({changed} WHERE kind = ?2) WHERE last IS NOT NULL ORDER BY last"
        return [key for (key,) in self._rows(sql, _PLACES, kind)]

    def _write(self, kind: str, key: str, place: int, content: bytes) -> None:
        self._remove(kind, key, place + 1)
        first = self._sequence(kind, key).first
        if not first:
            sql = "INSERT INTO sequence (kind, key) VALUES (?, ?)"
            first = (self._execute(sql, kind, key).lastrowid or 0) * _PLACES
        self._last += 1
        digest = _digest((kind, key, place, self._last), content)
        self._execute("REPLACE INTO record VALUES (?, ?, ?, ?)", first + place, self._last, digest, content)
        self._sequences[kind, key] = _Sequence(first, place + 1)

    def _remove(self, kind: str, key: str, start: int) -> None:
        first, size = self._sequence(kind, key)
        if start < size:
            sql = "DELETE FROM record WHERE number >= ? AND number < ?"
            self._execute(sql, first + start, first + size)
            self._sequences[kind, key], self._has_removed = _Sequence(first, start), True


class _Sequence(NamedTuple):
    """Number of a sequence's first record, 0 before it has one, and its size."""

    first: int
    size: int


def remove_store(path: Path) -> None:
    """Remove a store that is not in use, and what is beside it."""
    for end in ("", _LOG, _INDEX, _LOCK):
        _beside(path, end).unlink(missing_ok=True)


def _opened(path: Path, role: str | None) -> sqlite3.Connection:
    """A connection to a store that is whole.

    While it is open, the file itself says so: without its log, which has the last changes, it is refused.
    """
    _make_if_missing(path, role)
    log = _beside(path, _LOG)
    has_log = log.exists()
    if not is_whole(log):
        raise _refusal(path, "its log is damaged")
    with closing(_checked(path, role)) as checked:
        if checked.execute("SELECT is_open FROM about").fetchone()[0] and not has_log:
            raise _refusal(
                path, f"it was in use when it was copied, or its process ended, and {log.name!r} is missing"
            )
    with _translated(path):
        connection = _connected(path, "rw")
        connection.execute("UPDATE about SET is_open = 1")
        _empty_log(connection)
    return connection


def _empty_log(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _signature(path: Path) -> tuple[int, ...]:
    """Tells a file from others, and from itself after it was changed; empty if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


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


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _refusal(path: Path, reason: str) -> StoreError:
    logger.error("%s: %s", path, reason)
    return StoreError(f"{path.name!r} cannot be used: {reason}")


def _refuse_former(folder: Path, patterns: Sequence[str]) -> None:
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            raise _refusal(
                path, "an earlier release kept state in it, which is not read; begin with another folder"
            )


def _lock_of(path: Path, patience: float) -> Any:
    """An open file beside the store, with a lock that ends with this object or process."""
    descriptor = os.open(_beside(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    holder, last = os.fdopen(descriptor, "wb", buffering=0), time.monotonic() + patience
    while True:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return holder
        except BlockingIOError:
            if time.monotonic() >= last:
                holder.close()
                raise _refusal(
                    path, "it is in use by another process, or another object of this one"
                ) from None
            time.sleep(0.01)


def _make_if_missing(path: Path, role: str | None) -> None:
    """Make a store that a crash leaves whole or absent."""
    if path.exists():
        return
    if _beside(path, _LOG).exists():
        raise _refusal(
            path, "it was removed, and its log, of the same name with -wal, was not; restore or remove both"
        )
    new = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with _translated(path):
            connection = _connected(new, "rw")
            try:
                connection.executescript(_TABLES)
                connection.execute("INSERT INTO about VALUES (?, 0)", (role,))
            finally:
                connection.close()
        os.replace(new, path)
    finally:
        remove_store(new)
    sync_folder(path.parent)


def _translation(path: Path, error: sqlite3.Error) -> Exception:
    """An `OSError` if room is what is missing, and a refusal for any other error of SQLite."""
    _check_descriptors(path.parent)
    if str(error) in _OUT_OF_ROOM:
        logger.error("%s: %s", path, error)
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return _refusal(path, f"it is damaged, or no store ({error})")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _translation(path, error) from None


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    for setting in (
        "secure_delete = ON",
        "temp_store = MEMORY",
        "journal_size_limit = 0",
        f"wal_autocheckpoint = {_LOG_PAGES}",
    ):
        connection.execute(f"PRAGMA {setting}").fetchall()
    return connection


def _checked(path: Path, role: str | None) -> sqlite3.Connection:
    """A connection that only reads a store, all of which was found to be whole."""
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(closing(_connected(path, "ro")))
            _check(connection, path, role)
        except sqlite3.Error as error:
            # Nothing is written here: what SQLite calls an error of the disk is a page that is not there.
            _check_descriptors(path.parent)
            raise _refusal(path, f"it is damaged, or no store ({error})") from None
        stack.pop_all()
    return connection


def _check_descriptors(folder: Path) -> None:
    """Raise the `OSError` of a process that can open no more files: SQLite names none."""
    with ExitStack() as opened:
        for _ in range(4):
            opened.callback(os.close, os.open(folder, os.O_RDONLY))


def _check(connection: sqlite3.Connection, path: Path, role: str | None) -> None:
    """Refuse a file unless it is a whole store of a role."""

    def one(sql: str) -> Any:
        return connection.execute(sql).fetchone()[0]

    if one("PRAGMA application_id") != APPLICATION:
        raise _refusal(path, "it is no store of this program")
    version = one("PRAGMA user_version")
    if version != VERSION:
        release = "a later" if version > VERSION else "an earlier"
        raise _refusal(path, f"{release} release wrote it, in version {version}; this one has {VERSION}")
    if one("PRAGMA journal_mode") != "wal" or one("PRAGMA integrity_check") != "ok":
        raise _refusal(path, "it is damaged")
    of = one("SELECT role FROM about")
    if role not in (None, of):
        raise _refusal(path, f"it keeps the state of {of}, and not of {role}")
    sql = (
        "SELECT kind, key, number - id * ?1, change, digest, content "
        "FROM record LEFT JOIN sequence ON id = number / ?1"
    )
    for *named, change, digest, content in connection.execute(sql, (_PLACES,)):
        _content(path, tuple(named), change, digest, content)


def _content(path: Path, named: tuple[Any, ...], change: int, digest: bytes, content: bytes) -> bytes:
    """Content of a record, checked."""
    if not isinstance(content, bytes) or digest != _digest((*named, change), content):
        raise _refusal(path, "a record is damaged")
    return content


def _digest(named: tuple[Any, ...], content: bytes) -> bytes:
    digest = hashlib.blake2b(repr(named).encode(), digest_size=16)
    digest.update(content)
    return digest.digest()
