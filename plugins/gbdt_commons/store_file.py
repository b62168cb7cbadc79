"""A store in one SQLite file, which one process uses at a time."""

from __future__ import annotations

import logging
import os
import weakref
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from gbdt_commons.errors import StoreError
from gbdt_commons.key_stream import this_process
from gbdt_commons.store import OwnStore
from gbdt_commons.store_connection import (
    BESIDE,
    LOCK,
    HeldFile,
    beside,
    check_regular,
    digest_of,
    locked,
    refusal,
)

logger = logging.getLogger(__name__)

_LOG_BYTES = 4 << 20
"""A log that is longer is written into the file."""

_DEAD_BYTES = 64 << 10
"""Removed records that take more than this, and more than half of the file, are cut out of it."""

_ERASED = "kind", "key", "salt", "content"
_BYTES = "COALESCE(SUM(length(content) + length(CAST(kind || key AS BLOB)) + 100), 0)"
"""Of records, about."""

_ZEROS = ", ".join(f"{name} = zeroblob(length(CAST({name} AS BLOB)))" for name in _ERASED)
_EMPTY = ", ".join(f"{name} = x''" for name in _ERASED)
_OF_TAIL = "WHERE is_live AND kind = ? AND key = ? AND place >= ?"

_NEXT_IS_LIVE = (
    "COALESCE((SELECT n.is_live FROM record n WHERE n.number > record.number ORDER BY n.number LIMIT 1), 1)"
)
_LAST_LIVE = (
    "COALESCE((SELECT l.number FROM record l WHERE l.number < record.number AND l.is_live "
    "ORDER BY l.number DESC LIMIT 1), 0)"
)


class StoreFile(OwnStore):
    """A store in a file of its owner (mode 0600), with its log beside it and a file that its user locks.

    The file is made if it is missing, with its folder. `role` says whose state it is; a store of another role
    is refused, and None reads that of any. `read_only` reads records of a store that another process may be
    using.

    Raises StoreError if the file is in use, damaged, foreign, or of another role or release; it stays as it
    is. Raises FileNotFoundError if it is only to be read, or that of any role, and is missing, and OSError if
    it cannot be opened or made.
    """

    def __init__(self, path: str | Path, role: str | None, *, read_only: bool = False) -> None:
        super().__init__()
        # The process may go to another working folder.
        self.path, self._process = Path(path).absolute(), this_process()
        check_regular(self.path)
        if read_only or role is None:
            self.path.stat()
        self._file = HeldFile(self.path, role, read_only=read_only)
        self._close = weakref.finalize(self, self._file.close)
        open_stores.add(self)
        self._role: str = self._rows("SELECT role FROM about")[0][0]
        self._synchronous, self._must_empty, self._is_behind, self._n_changes = "", False, False, 0
        self._n_dead: int = self._rows(f"SELECT {_BYTES} FROM record WHERE NOT is_live")[0][0]

    def __reduce__(self) -> Any:
        """Refuse to be copied: one object uses the file."""
        raise TypeError("a store in a file cannot be pickled or copied")

    def close(self) -> None:
        """Let go of the file; another process, or object, can use it then."""
        if self._process == this_process():
            with self._lock.held():
                self._close()

    def _held(self) -> AbstractContextManager[Any]:
        if self._process != this_process():
            raise StoreError(f"{self.path.name!r} is its parent process's: a forked one cannot use it")
        return super()._held()

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._held():
            if not self.is_changing:
                self._file.check()
            return self._file.rows(sql, *values)

    def _begin(self, sync: bool) -> None:
        self._file.check()
        if self._file.is_read_only:
            raise StoreError(f"{self.path.name!r} cannot be changed: it was opened readonly")
        level = "FULL" if sync else "NORMAL"
        if level != self._synchronous:
            self._file.rows(f"PRAGMA synchronous = {level}")
            self._synchronous = level
        self._file.rows("BEGIN IMMEDIATE")
        self._n_changes = self._file.n_changes

    def _commit(self) -> None:
        self._file.rows("COMMIT")

    def _undo(self) -> None:
        if self.is_changing:
            self._file.roll_back()
            # The log may hold the transaction, whole if only its sync has failed.
            self._must_empty = True
            self._clean()

    def _tidy(self, sync: bool) -> None:
        has_changed = self._file.n_changes != self._n_changes
        # The sync of a change is one of the whole log.
        self._must_empty |= sync and self._is_behind and not has_changed
        self._is_behind = has_changed and not sync
        self._clean()
        # A log that could not be emptied may not be on the disk.
        if sync and not self._must_empty:
            self._file.confirm()

    def _clean(self) -> None:
        """Leave nothing of what was removed or undone; if that fails, it is tried again."""
        try:
            if self._n_dead > _DEAD_BYTES and 2 * self._n_dead > self.path.stat().st_size:
                self._compact()
            if self._must_empty or self._file.log_bytes > _LOG_BYTES:
                self._must_empty = not self._file.empty_log()
        except Exception as error:
            logger.warning("%s is not cleaned: %s", self.path, str(error) or type(error).__name__)

    def _compact(self) -> None:
        """Join records that were removed, and write the file anew without their content.

        This takes about 3 s of processor time, the memory of all records, and the writing, for each GiB.
        """
        # Tried again, if it fails, when as much has been removed again.
        self._n_dead, self._must_empty = 0, True
        self._file.rows("BEGIN IMMEDIATE")
        try:
            joined = f"{_EMPTY}, covers = number - {_LAST_LIVE}"
            self._file.rows(f"UPDATE record SET {joined} WHERE NOT is_live AND {_NEXT_IS_LIVE}")
            self._file.rows(f"DELETE FROM record WHERE NOT is_live AND NOT {_NEXT_IS_LIVE}")
            self._file.rows("COMMIT")
        finally:
            self._file.roll_back()
        self._file.rows("VACUUM")

    def _read(self, kind: str, key: str, place: int) -> bytes | None:
        names = _stored(kind), _stored(key), place
        rows = self._rows(
            "SELECT number, salt, digest, content, (SELECT digest FROM record WHERE number = r.number - 1) "
            "FROM record r WHERE is_live AND kind = ? AND key = ? AND place = ?",
            *names,
        )
        if not rows:
            return None
        number, salt, digest, content, before = rows[0]
        if digest != digest_of(before, (number, *names), salt, content, self._role):
            raise refusal(self.path, f"it is damaged at record {number}")
        return bytes(content)

    def _size(self, kind: str, key: str) -> int:
        sql = "SELECT COALESCE(MAX(place) + 1, 0) FROM record WHERE is_live AND kind = ? AND key = ?"
        size: int = self._rows(sql, _stored(kind), _stored(key))[0][0]
        return size

    def _keys(self, kind: str) -> list[str]:
        sql = "SELECT key FROM record WHERE is_live AND kind = ? GROUP BY key ORDER BY MAX(number)"
        return [_name(key) for (key,) in self._rows(sql, _stored(kind))]

    def kinds(self) -> list[str]:
        """Names of the kinds that have entries."""
        return [_name(kind) for (kind,) in self._rows("SELECT DISTINCT kind FROM record WHERE is_live")]

    def write_entry(self, kind: str, key: str, place: int, content: bytes) -> None:
        """Make an entry the last one."""
        self._erase(kind, key, place)
        last, before, salt = self._rows(
            # Of SQLite's own: no draw of a run depends on what is kept.
            "SELECT last, (SELECT digest FROM record WHERE number = last), randomblob(16) "
            "FROM (SELECT COALESCE(MAX(number), 0) AS last FROM record)"
        )[0]
        named = last + 1, _stored(kind), _stored(key), place
        digest = digest_of(before, named, salt, content, self._role)
        self._rows(
            "INSERT INTO record (number, kind, key, place, salt, digest, content, covers, is_live) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 1, 1)",
            *named,
            salt,
            digest,
            content,
        )

    def _remove(self, kind: str, key: str, start: int) -> None:
        self._must_empty |= self._erase(kind, key, start)

    def _erase(self, kind: str, key: str, start: int) -> bool:
        """Overwrite entries with as many zeros; whether there were any."""
        names = _stored(kind), _stored(key), start
        n_bytes = self._rows(f"SELECT {_BYTES} FROM record {_OF_TAIL}", *names)[0][0]
        if n_bytes:
            # Those of a transaction that is undone are counted again: the file is written anew a bit early.
            self._n_dead += n_bytes
            self._rows(f"UPDATE record SET is_live = 0, {_ZEROS} {_OF_TAIL}", *names)
        return bool(n_bytes)


def remove_store(path: str | Path) -> None:
    """Remove a store, if any, and the files beside it; StoreError if it is in use, or a link."""
    path = Path(path).absolute()
    check_regular(path)
    if not path.exists() and not beside(path, LOCK).exists():
        return
    with locked(path):
        for end in ("", *BESIDE):
            beside(path, end).unlink(missing_ok=True)


def _stored(name: str) -> str | bytes:
    """A name as SQLite takes it: bytes where it is no text, as with half of a surrogate pair."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")
    return name


def _name(stored: str | bytes) -> str:
    """The name that `_stored` gave."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


open_stores: weakref.WeakSet[StoreFile] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Keep a forked child from closing its parent's connections, and from holding its parent's locks."""
    for store in list(open_stores):
        store._file.leak()


os.register_at_fork(after_in_child=_leave_to_parent)
