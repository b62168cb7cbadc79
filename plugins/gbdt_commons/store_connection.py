"""The SQLite file of a store: whole, of this release, and one process's.

Each record has a digest of itself, with a salt, and of the digest before it.  What is removed is overwritten
in its place with zeros, but for its digest, which tells nothing without the salt.  It is not deleted: SQLite
would move its neighbours to other pages, and leave copies of them there, whatever `secure_delete` says.  When
removed records are many, they are joined, and `VACUUM` writes the file anew.

SQLite forgets its log from the first damaged frame on, without a word.  So the user of a store notes, in the
file that it locks, up to which record all is on the disk; and a closed store says which record is its last.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import logging
import os
import sqlite3
import stat
import struct
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from gbdt_commons.errors import StoreError, StoreInUseError
from gbdt_commons.files import make_folder, sync_folder
from gbdt_commons.key_stream import this_process

logger = logging.getLogger(__name__)

VERSION = 5
"""Of the tables, and of everything that packages keep in them: all of it changes together."""

Migration = Callable[[str, str, str, bytes], tuple[str, str, bytes]]
MIGRATIONS: dict[int, Migration] = {}
"""By a former version, a function of a record's role, kind, key and content: it gives the last three as the
next version has them.  Stores of versions without one are refused by name."""

APPLICATION = int.from_bytes(b"vbst", "big")

BESIDE = LOG, INDEX, LOCK = "-wal", "-shm", "-lock"
"""Ends of the names of files beside a store: its log, the index of that, and what its user locks."""

_NOTE = struct.Struct(">Q")
SECONDS_TO_WAIT = 10
"""For another connection, such as that of the command ``sqlite3``."""

_SETTINGS = "secure_delete = ON", "synchronous = FULL", "temp_store = MEMORY", "wal_autocheckpoint = 0"
_TABLES = f"""
CREATE TABLE about (role TEXT NOT NULL, sealed INTEGER);
CREATE TABLE record (
    number INTEGER PRIMARY KEY, covers INTEGER NOT NULL, is_live INTEGER NOT NULL,
    kind NOT NULL, key NOT NULL, place INTEGER NOT NULL,
    salt BLOB NOT NULL, digest BLOB NOT NULL, content BLOB NOT NULL
);
CREATE UNIQUE INDEX entry ON record (kind, key, place) WHERE is_live;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
PRAGMA journal_mode = WAL;
"""
"""`sealed` is the last number of a closed store, and NULL in one that is in use; a removed record covers its
own number and those of the records before it that it was joined with."""

_LAST = "SELECT COALESCE(MAX(number), 0) FROM record"


class HeldFile:
    """A store's file, locked or only read, and a connection; `log_bytes` is the log's last seen size."""

    def __init__(self, path: Path, role: str | None, *, read_only: bool) -> None:
        self.path, self.is_read_only, self._role, self._process = path, read_only, role, this_process()
        self._is_closed, self._is_noted = False, True
        self._ends = [(end, f"{path}{end}") for end in ("", LOG, LOCK)]
        self.log_bytes = 0
        with ExitStack() as stack:
            self._holder: BinaryIO | None = None
            if not read_only:
                make_folder(path.parent)
                self._holder = stack.enter_context(locked(path))
            self._connection = self._connected_to_read() if read_only else _opened(path, role)
            stack.pop_all()
        if not read_only:
            self._known = self._signature()
            self.confirm()

    @property
    def n_changes(self) -> int:
        """Number of records that were changed since the file was opened."""
        return self._connection.total_changes

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Rows of a statement; OSError of the disk, StoreError if the file is damaged or locked."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _translated(self.path, error) from None

    def roll_back(self) -> None:
        """Undo the transaction, if one has begun."""
        if self._connection.in_transaction:
            self.rows("ROLLBACK")

    def check(self) -> None:
        """Refuse a file that is closed, or was removed or replaced while it was in use, with its log or lock.

        Another process may have a lock, and a store, of its own by now.  A file that is only read is checked
        anew after it was changed, and a transaction that an interrupt has left is undone.
        """
        if self._is_closed:
            raise StoreError(f"{self.path.name!r} is closed")
        if not self._is_noted:
            self._note()
        if self._signature() != self._known:
            if not self.is_read_only:
                raise StoreError(f"{self.path.name!r} was removed or replaced while it was in use")
            self._connection.close()
            self._connection = self._connected_to_read()
        self.roll_back()

    def _connected_to_read(self) -> sqlite3.Connection:
        """A connection to a file that its user may be opening or closing at this moment."""
        while True:
            self._known = self._signature()
            try:
                return checked(self.path, self._role)
            except StoreError:
                known, self._known = self._known, ()
                if self._signature() == known:
                    raise

    def empty_log(self) -> bool:
        """Write the log into the file, and cut it off; False if a reader needs it."""
        self._is_noted = False
        is_busy = self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        self._note()
        return not is_busy

    def confirm(self) -> None:
        """Note that all records are on the disk."""
        assert self._holder is not None
        with suppress(OSError):
            os.pwrite(self._holder.fileno(), _NOTE.pack(self.rows(_LAST)[0][0]), 0)

    def close(self) -> None:
        """Close the file, with a seal if it is in order and was not only read."""
        if self._is_closed or self._process != this_process():
            return
        is_sealed = False
        try:
            if not self.is_read_only:
                self.check()
        except StoreError:
            # To close the connection would write its log into a file that is another one's by now.
            self.leak()
            return
        finally:
            self._is_closed = True
        with suppress(OSError, StoreError):
            if not self.is_read_only:
                self.rows("PRAGMA synchronous = FULL")
                self.rows(f"UPDATE about SET sealed = ({_LAST})")
                is_sealed = self.empty_log()
        self._connection.close()
        if self._holder is not None:
            with self._holder, suppress(OSError):
                os.ftruncate(self._holder.fileno(), 0 if is_sealed else _NOTE.size)

    def leak(self) -> None:
        """Let go of the lock, and keep the connection from ever being closed, also in a forked child.

        The last connection that is closed writes its log into the file, and removes it.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
        if self._holder is not None:
            self._holder.close()

    def _signature(self) -> tuple[Any, ...]:
        """Tells the file, with its log and lock, from others, and from itself after it was changed."""
        which: list[Any] = []
        changed: tuple[int, ...] = ()
        for end, path in self._ends:
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                continue
            which += end, found.st_dev, found.st_ino
            if not end:
                changed = found.st_size, found.st_mtime_ns
            elif end == LOG:
                self.log_bytes = found.st_size
        return which, changed

    def _note(self) -> None:
        """Know the file as it was changed here; another one in its place stays unknown."""
        now = self._signature()
        if now[0] == self._known[0]:
            self._known = now
        self._is_noted = True


def digest_of(before: bytes | None, named: tuple[Any, ...], salt: bytes, content: bytes, role: str) -> bytes:
    """Digest of a record: of its number, kind, key and place, its salt and content, and the digest before it.

    The role takes the place of the digest before the first one.
    """
    digest = hashlib.blake2b(repr((before or role, salt, named)).encode(), digest_size=16)
    # SQLite keeps values of any type in any column.
    digest.update(content if isinstance(content, bytes) else b"no bytes")
    return digest.digest()


def beside(path: Path, end: str) -> Path:
    """A file beside a store."""
    return path.with_name(path.name + end)


def refusal(path: Path, reason: str) -> StoreError:
    """The error for a file that cannot be used."""
    logger.error("%s: %s", path, reason)
    return StoreError(f"{path.name!r} cannot be used: {reason}")


def check_regular(path: Path) -> None:
    """Refuse a link, a folder or a device in the place of a store.

    Behind a link, the log and the lock would have other names; and one whose target is not there now, such as
    on a disk that is not mounted, is no reason to begin with nothing.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise refusal(path, "it is a link, or no regular file")


def locked(path: Path) -> BinaryIO:
    """An open file beside the store, with a lock that ends with this object or process."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        with ExitStack() as stack:
            descriptor = os.open(beside(path, LOCK), flags, 0o600)
            holder = stack.enter_context(os.fdopen(descriptor, "wb", buffering=0))
            try:
                fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _in_use(path) from None
            # Whoever removes a store may have removed the file after it was opened here.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.lstat(beside(path, LOCK))):
                    stack.pop_all()
                    return holder


def _noted(path: Path) -> int | None:
    """The last record that is on the disk, as its user has noted; None of a store that is closed."""
    with suppress(FileNotFoundError, struct.error):
        noted: int = _NOTE.unpack(beside(path, LOCK).read_bytes())[0]
        return noted
    return None


def checked(path: Path, role: str | None, *, any_version: bool = False) -> sqlite3.Connection:
    """A connection that only reads a store, which was found to be whole."""
    # First: its user notes a record behind the transaction that wrote it.
    noted = _noted(path)
    log = beside(path, LOG)
    has_log = log.exists()
    with ExitStack() as stack:
        try:
            # Without a log, nothing is behind the file: it is read alone, and no empty log is made.
            connection = stack.enter_context(closing(_connected(path, "ro" if has_log else "ro&immutable=1")))
            last, sealed = _check(connection, path, role, any_version=any_version)
            if has_log and connection.execute("PRAGMA journal_mode").fetchall() != [("wal",)]:
                raise refusal(path, "it is damaged")
        except (sqlite3.Error, UnicodeDecodeError, TypeError) as error:
            # SQLite quotes a damaged description of a table as it is, in bytes that are no text.
            raise _translated(path, error, is_read=True) from None
        if sealed is None and not has_log and last != noted:
            raise refusal(path, f"it was in use when it was copied or killed, and {log.name!r} is missing")
        if noted is not None and last < noted:
            reason = (
                f"{beside(path, LOCK).name!r} says that {noted} were kept; an older copy needs it removed"
            )
            raise refusal(path, f"it is damaged at record {last + 1}: {reason}")
        stack.pop_all()
    return connection


def _check(
    connection: sqlite3.Connection, path: Path, role: str | None, *, any_version: bool
) -> tuple[int, int | None]:
    """Refuse a file unless it is a whole store of a role; its last number, and that which its seal says."""

    def one(sql: str) -> Any:
        return connection.execute(sql).fetchone()[0]

    if one("PRAGMA application_id") != APPLICATION:
        raise refusal(path, "it is no store of this program")
    version = one("PRAGMA user_version")
    is_former = set(range(version, VERSION)) <= set(MIGRATIONS)
    if version > VERSION or not (is_former if any_version else version == VERSION):
        release = "a later" if version > VERSION else "an earlier"
        mend = ", and migrates it when its owner is started" if version < VERSION and is_former else ""
        raise refusal(path, f"{release} release wrote it, in version {version}; this one has {VERSION}{mend}")
    about = connection.execute("SELECT role, sealed FROM about").fetchall()
    if one("PRAGMA integrity_check") != "ok" or len(about) != 1:
        raise refusal(path, "it is damaged")
    of, sealed = about[0]
    if role not in (None, of):
        raise refusal(path, f"it keeps the state of {of}, and not of {role}")
    last, before = 0, None
    sql = (
        "SELECT number, covers, is_live, kind, key, place, salt, digest, content FROM record ORDER BY number"
    )
    for number, covers, is_live, kind, key, place, salt, digest, content in connection.execute(sql):
        if is_live:
            is_whole = digest == digest_of(before, (number, kind, key, place), salt, content, of)
        else:
            is_whole = not any(map(any, (kind, key, salt, content)))
        if not is_whole or number != last + covers or (is_live and covers != 1):
            raise refusal(path, f"it is damaged at record {number}")
        last, before = number, digest
    if sealed not in (None, last):
        raise refusal(path, f"it is damaged at record {last + 1}: it was closed with {sealed}")
    return last, sealed


def _opened(path: Path, role: str | None) -> sqlite3.Connection:
    """A connection to a store that is whole, for the process that has locked it."""
    if role is not None and not path.exists():
        _make(path, role)
    checked(path, role, any_version=True).close()
    # A copy brought back from a backup may be readable by others; the log gets the mode of the file.
    path.chmod(0o600)
    with ExitStack() as stack:
        connection = stack.enter_context(closing(_connected(path, "rw")))
        try:
            _migrate(connection, path)
            # On the disk at once, in the file itself: without its log it is refused from now on.
            connection.execute("UPDATE about SET sealed = NULL")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise _translated(path, error) from None
        stack.pop_all()
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Make a store of a former version one of this, in one transaction; all records keep their numbers."""
    version, role = connection.execute("SELECT user_version, role FROM pragma_user_version, about").fetchone()
    if version == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    before, sql = None, "SELECT is_live, digest, kind, key, content, place, salt FROM record WHERE number = ?"
    for (number,) in connection.execute("SELECT number FROM record ORDER BY number").fetchall():
        is_live, digest, *record, place, salt = connection.execute(sql, (number,)).fetchone()
        if is_live:
            try:
                for step in range(version, VERSION):
                    record = list(MIGRATIONS[step](role, *record))
            except Exception as error:
                what = f"record {number} of version {version}"
                raise refusal(path, f"{what} cannot be migrated: {type(error).__name__}") from None
            kind, key, content = record
            digest = digest_of(before, (number, kind, key, place), salt, content, role)
            named = "kind = ?, key = ?, content = ?, digest = ?"
            connection.execute(f"UPDATE record SET {named} WHERE number = ?", (*record, digest, number))
        before = digest
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    logger.info("%s was migrated from version %d to %d", path, version, VERSION)


def _make(path: Path, role: str) -> None:
    """Make a store that a crash leaves whole or absent."""
    # Either tells of records that would be forgotten without a word.
    for end, is_there in (LOG, beside(path, LOG).exists()), (LOCK, bool(_noted(path))):
        if is_there:
            name = beside(path, end).name
            raise refusal(path, f"it was removed, and {name!r} was not; restore or remove both")
    new = path.with_name(f".{path.name}.part")
    parts = [new, beside(new, LOG), beside(new, INDEX)]
    try:
        for part in parts:
            part.unlink(missing_ok=True)
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            with closing(_connected(new, "rw")) as connection:
                connection.executescript(_TABLES)
                connection.execute("INSERT INTO about VALUES (?, 0)", (role,))
        except sqlite3.Error as error:
            raise _translated(new, error) from None
        os.replace(new, path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    sync_folder(path.parent)


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=SECONDS_TO_WAIT,
    )
    for setting in _SETTINGS:
        connection.execute(f"PRAGMA {setting}").fetchall()
    return connection


def _in_use(path: Path) -> StoreError:
    # Not in the log: who waits for a turn asks again and again.
    return StoreInUseError(
        f"{path.name!r} cannot be used: it is in use by another process, or another object of this one"
    )


def _translated(path: Path, error: Exception, *, is_read: bool = False) -> Exception:
    """The error of the system behind one of SQLite, which does not name it, or a refusal of the file.

    Where nothing is written, an error of the disk is a missing page.
    """
    text, found = str(error), None
    is_of_disk = "disk" in text and not is_read
    probe = path.with_name(f".{path.name}.probe")
    with ExitStack() as opened:
        try:
            for _ in range(4):
                opened.callback(os.close, os.open(path.parent, os.O_RDONLY))
            if is_of_disk:
                opened.callback(probe.unlink, missing_ok=True)
                with open(probe, "wb") as file:
                    file.seek(max(one.stat().st_size for one in (path, beside(path, LOG)) if one.exists()))
                    file.write(bytes(4096))
                number = errno.ENOSPC if "full" in text else errno.EIO
                found = OSError(number, os.strerror(number))
        except OSError as of_system:
            found = of_system
    if found is not None:
        logger.error("%s: %s (%s)", path, found, text)
        return found
    if "locked" in text:
        return _in_use(path)
    return refusal(path, f"it is damaged, or no store of this program ({text})")
