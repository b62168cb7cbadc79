"""How a store's file is made, checked and opened: it is whole, of this release, and one process's.

SQLite checks neither the content of its pages nor, beyond its first damaged frame, that of its log; so the
records carry digests, the log is read through, and an open store says in its file that it has a log.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gbdt_commons.errors import StoreError
from gbdt_commons.files import sync_folder
from gbdt_commons.write_ahead_log import is_whole

logger = logging.getLogger(__name__)

VERSION = 1
"""Of the tables, and of everything that packages keep in them: all of it changes together."""

APPLICATION = int.from_bytes(b"vbst", "big")
PLACES = 1 << 32
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


def remove_store(path: Path) -> None:
    """Remove a store that is not in use, and what is beside it."""
    for end in ("", _LOG, _INDEX, _LOCK):
        _beside(path, end).unlink(missing_ok=True)


def opened(path: Path, role: str | None) -> sqlite3.Connection:
    """A connection to a store that is whole, for the process that has locked it."""
    _make_if_missing(path, role)
    if not is_whole(_beside(path, _LOG)):
        raise _refusal(path, "its log is damaged")
    checked(path, role).close()
    # A copy brought back from a backup may be readable by others; the log gets the mode of the file.
    path.chmod(0o600)
    with _reading(path):
        connection = _connected(path, "rw")
        _check_mode(connection, path)
        connection.execute("SELECT is_open FROM about").fetchall()
    with _translated(path):
        # On the disk at once, in the file itself: without its log it is refused from now on.
        connection.execute("UPDATE about SET is_open = 1")
        empty_log(connection)
    return connection


def empty_log(connection: sqlite3.Connection) -> bool:
    """Write the log into the file, and cut it off; False if a reader needs it."""
    is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return not is_busy


def signature(path: Path) -> tuple[int, ...]:
    """Tells a file from others, and from itself after it was changed; empty if there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def check_regular(path: Path) -> None:
    """Refuse a link, a folder or a device in the place of a store.

    Behind a link, the log and the lock would have other names; and one whose target is not there now, such as
    on a disk that is not mounted, is no reason to begin with nothing.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise _refusal(path, "it is a link, or no regular file")


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _refusal(path: Path, reason: str) -> StoreError:
    logger.error("%s: %s", path, reason)
    return StoreError(f"{path.name!r} cannot be used: {reason}")


def refuse_former(folder: Path, patterns: Sequence[str]) -> None:
    """Refuse a folder with files of certain names."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            raise _refusal(
                path, "an earlier release kept state in it, which is not read; begin with another folder"
            )


def locked(path: Path) -> Any:
    """An open file beside the store, with a lock that ends with this object or process."""
    descriptor = os.open(_beside(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    holder = os.fdopen(descriptor, "wb", buffering=0)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder.close()
        raise _refusal(path, "it is in use by another process, or another object of this one") from None
    return holder


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


def translation(path: Path, error: sqlite3.Error) -> Exception:
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
        raise translation(path, error) from None


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


def checked(path: Path, role: str | None) -> sqlite3.Connection:
    """A connection that only reads a store, which was found to be whole."""
    log = _beside(path, _LOG)
    has_log = log.exists()
    with ExitStack() as stack, _reading(path):
        # Without a log, nothing is behind the file: it is read alone, and no empty log is made.
        connection = stack.enter_context(closing(_connected(path, "ro" if has_log else "ro&immutable=1")))
        _check(connection, path, role)
        if has_log:
            _check_mode(connection, path)
        elif connection.execute("SELECT is_open FROM about").fetchone()[0]:
            raise _refusal(path, f"it was in use when it was copied or killed, and {log.name!r} is missing")
        stack.pop_all()
    return connection


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into refusals: where nothing is written, one of the disk is a missing page."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite quotes a damaged description of a table as it is, in bytes that are no text.
        _check_descriptors(path.parent)
        raise _refusal(path, f"it is damaged, or no store ({error})") from None


def _check_descriptors(folder: Path) -> None:
    """Raise the `OSError` of a process that can open no more files: SQLite names none."""
    with ExitStack() as opened:
        for _ in range(4):
            opened.callback(os.close, os.open(folder, os.O_RDONLY))


def _check_mode(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file whose log SQLite would not read, or not make."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        raise _refusal(path, "it is damaged")


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
    if one("PRAGMA integrity_check") != "ok":
        raise _refusal(path, "it is damaged")
    about = connection.execute("SELECT role FROM about").fetchall()
    if len(about) != 1:
        raise _refusal(path, "it is damaged")
    of = about[0][0]
    if role not in (None, of):
        raise _refusal(path, f"it keeps the state of {of}, and not of {role}")
    sql = (
        "SELECT kind, key, number - id * ?1, change, digest, content "
        "FROM record LEFT JOIN sequence ON id = number / ?1"
    )
    for *named, change, digest, content in connection.execute(sql, (PLACES,)):
        content_of(path, tuple(named), change, digest, content)


def content_of(path: Path, named: tuple[Any, ...], change: int, digest: bytes, content: bytes) -> bytes:
    """Content of a record, checked."""
    if not isinstance(content, bytes) or digest != digest_of_record((*named, change), content):
        raise _refusal(path, "a record is damaged")
    return content


def digest_of_record(named: tuple[Any, ...], content: bytes) -> bytes:
    """Digest of a record's kind, key, place and change, and of its content."""
    digest = hashlib.blake2b(repr(named).encode(), digest_size=16)
    digest.update(content)
    return digest.digest()
