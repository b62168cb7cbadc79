"""A store in one file, a journal of its transactions, which one process uses at a time."""

from __future__ import annotations

import logging
import os
import stat
import time
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, BinaryIO

from gbdt_commons.errors import StoreError
from gbdt_commons.files import make_folder
from gbdt_commons.key_stream import this_process
from gbdt_commons.locks import block
from gbdt_commons.store import Store, check_whole
from gbdt_commons.store_journal import Journal, MisfitError, lock, part_of, signature

logger = logging.getLogger(__name__)

_TRIES = 5
"""How often a file is read that its user may be changing at that moment."""

_SECONDS_BETWEEN_TRIES = 0.02


class StoreFile(Store):
    """A store in a file of its owner (mode 0600), with a file beside it that its user locks.

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
        If it is only to be read, or that of any role, and is missing.
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
        # The process may go to another working folder.
        self._path, self._role = Path(path).absolute(), role
        self._is_changing = self._is_spoilt = False
        self._process, self._lock = this_process(), RLock()
        self._name = str(self._path)
        refuse_former(self._path.parent, former)
        _check_regular(self._path)
        if read_only or role is None:
            self._path.stat()
        self._holder: BinaryIO | None = None
        if read_only:
            self._journal = _read(self._path, role)
        else:
            make_folder(self._path.parent)
            self._holder = _locked(self._path)
            try:
                self._journal = _opened(self._path, role)
            except BaseException:
                self._holder.close()
                raise
        self._close = weakref.finalize(self, _close, self._journal, self._holder, self._process)
        _open.add(self)
        if not read_only:
            self._rewrite_if_due()

    def __reduce__(self) -> Any:
        """Refuse to be copied: one object uses the file."""
        raise TypeError("a store in a file cannot be pickled or copied")

    def close(self) -> None:
        """Let go of the file; another process, or object, can use it then."""
        # A thread that the fork has not copied may have held the lock.
        if self._process == this_process():
            with self._lock:
                if self._close.alive and self._holder is not None and not self._is_changing:
                    with suppress(StoreError):
                        self._check_usable()
                        self._rewrite_if_due()
                self._close()

    def _check_process(self) -> None:
        if self._process != this_process():
            raise StoreError(f"{self._path.name!r} is its parent process's: a forked one cannot use it")

    def _check_usable(self) -> None:
        """Refuse a store that is closed or exchanged; one that is only read is read as far as it is now."""
        if not self._close.alive:
            raise StoreError(f"{self._path.name!r} is closed")
        if self._is_changing:
            return
        if self._holder is None:
            self._follow()
            return
        if not self._journal.is_settled:
            self._journal.settle(failed=True)
        # Another process may have a lock, and a store, of its own by now.
        if _signature(self._name) != self._journal.seen:
            raise StoreError(f"{self._path.name!r} was removed or replaced while it was in use")

    def _follow(self) -> None:
        now, journal = _signature(self._name), self._journal
        # Two changes in one tick of the file system's clock leave the same signature.
        if now[:2] == journal.seen[:2]:
            with suppress(MisfitError):
                if now != journal.seen or not journal.has_last:
                    journal.follow()
                return
        journal.become(_read(self._path, self._role))

    @block
    def transaction(self, *, sync: bool = True) -> Generator[None, None, None]:
        """See `Store`."""
        self._check_process()
        with self._lock:
            if self._is_changing:
                try:
                    yield
                except BaseException:
                    self._is_spoilt = True
                    raise
                return
            self._check_usable()
            if self._holder is None:
                raise StoreError(f"{self._path.name!r} cannot be changed: it was opened readonly")
            self._rewrite_if_due(before_change=True)
            self._is_changing, self._is_spoilt = True, False
            try:
                yield
                check_whole(self._is_spoilt)
                self._journal.commit(sync=sync)
            except BaseException as error:
                self._journal.settle(failed=isinstance(error, Exception))
                raise
            finally:
                self._is_changing = False
            self._rewrite_if_due()

    def _rewrite_if_due(self, *, before_change: bool = False) -> None:
        """Write the file anew without what counts no more; if that fails, it is tried again.

        Before a change, an error is raised if it is not known to be on the disk.  After one, no error is, for
        the change is kept.
        """
        if not self._journal.is_due:
            return
        try:
            self._journal.rewrite(self._path)
        except Exception as error:
            logger.warning("%s is not written anew: %s", self._path, str(error) or type(error).__name__)
            if before_change and self._journal.must_rewrite:
                raise _refusal(self._path, str(error)) if isinstance(error, MisfitError) else error from None

    def _read(self, kind: str, key: str, place: int) -> bytes | None:
        self._check_process()
        with self._lock:
            self._check_usable()
            record = self._journal.index.get(kind, key, place)
            with _refusing(self._path):
                return None if record is None else self._journal.content(record)

    def _size(self, kind: str, key: str) -> int:
        self._check_process()
        with self._lock:
            self._check_usable()
            return self._journal.index.size(kind, key)

    def _keys(self, kind: str) -> list[str]:
        self._check_process()
        with self._lock:
            self._check_usable()
            return self._journal.index.keys(kind)

    def _write(self, kind: str, key: str, place: int, content: bytes) -> None:
        self._journal.change(kind, key, place, content)

    def _remove(self, kind: str, key: str, start: int) -> None:
        if start < self._journal.index.size(kind, key):
            self._journal.change(kind, key, start)


def remove_store(path: str | Path) -> None:
    """Remove a store, whatever is in it, with its lock; nothing if there is none.

    Raises
    ------
    StoreError
        If it is in use, or a link; it stays as it is.
    """
    path = Path(path).absolute()
    _check_regular(path)
    lock_file = _lock_of(path)
    if not path.exists() and not lock_file.exists():
        return
    holder = _locked(path)
    try:
        # Its user holds this lock, too, if somebody has removed the file of the other one.
        with suppress(FileNotFoundError), open(path, "rb") as store, _refusing(path):
            lock(store.fileno())
            path.unlink()
        part_of(path).unlink(missing_ok=True)
        lock_file.unlink()
    finally:
        holder.close()


def refuse_former(folder: Path, patterns: Sequence[str]) -> None:
    """Refuse a folder with files of certain names."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            raise _refusal(
                path, "an earlier release kept state in it, which is not read; begin with another folder"
            )


def _refusal(path: Path, reason: str) -> StoreError:
    logger.error("%s: %s", path, reason)
    return StoreError(f"{path.name!r} cannot be used: {reason}")


def _check_regular(path: Path) -> None:
    """Refuse a link, a folder or a device in the place of a store.

    Behind a link, the lock would have another name; and one whose target is not there now, such as on a disk
    that is not mounted, is no reason to begin with nothing.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise _refusal(path, "it is a link, or no regular file")


def _locked(path: Path) -> BinaryIO:
    """An open file beside the store, with a lock that ends with this object or process.

    It makes one of two processes begin a new store, and lasts while the store is written anew.  The store
    itself is locked, too, so that the removal of this file lets in no second user.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        holder = os.fdopen(os.open(_lock_of(path), flags, 0o600), "wb", buffering=0)
        try:
            with _refusing(path):
                lock(holder.fileno())
            # Whoever removes a store may have removed the file after it was opened here.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(holder.fileno()), os.lstat(_lock_of(path))):
                    return holder
        except BaseException:
            holder.close()
            raise
        holder.close()


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-lock")


def _opened(path: Path, role: str | None) -> Journal:
    """The journal of a store, for the process that has locked it."""
    # A process that was killed as it wrote the file anew has left it.
    part_of(path).unlink(missing_ok=True)
    journal = Journal()
    try:
        if role is not None and not path.exists():
            journal.make(path, role)
            return journal
        with _refusing(path):
            journal.load(path, role, read_only=False)
        if journal.is_torn:
            logger.warning("%s: a crash has cut off its last transaction, which counts as absent", path)
        journal.recover()
        # A copy brought back from a backup may be readable by others.
        path.chmod(0o600)
    except BaseException:
        # Its lock would keep this process out until it ends.
        journal.close(seal=False)
        raise
    return journal


def _read(path: Path, role: str | None) -> Journal:
    """The journal of a store that its user may be changing, or writing anew, at this moment."""
    for n_left in reversed(range(_TRIES)):
        journal = Journal()
        try:
            journal.load(path, role, read_only=True)
            break
        except MisfitError as error:
            if not n_left:
                raise _refusal(path, str(error)) from None
            time.sleep(_SECONDS_BETWEEN_TRIES)
    return journal


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn a misfit into a refusal that names the file."""
    try:
        yield
    except MisfitError as error:
        raise _refusal(path, str(error)) from None


def _signature(path: str) -> tuple[int, ...]:
    """See `signature`; empty if there is no file."""
    try:
        return signature(os.lstat(path))
    except FileNotFoundError:
        return ()


def _close(journal: Journal, holder: BinaryIO | None, process: object) -> None:
    if process == this_process():
        journal.close(seal=holder is not None)
        if holder is not None:
            holder.close()


_open: weakref.WeakSet[StoreFile] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Keep a forked child from holding its parent's locks."""
    for store in list(_open):
        if store._holder is not None:
            store._holder.close()


os.register_at_fork(after_in_child=_leave_to_parent)
