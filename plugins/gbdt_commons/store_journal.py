"""The file of a store: a journal that only grows, with an entry for each transaction.

A header names the format, its version and the file itself (16 random bytes), and has a seal: where the file
ended when it was closed.  An entry is the lengths of its two parts, a checksum of these, a digest, a table,
the contents, and a line end.  The digest is one of the digest before it, at first the file's random bytes,
and of the table, which holds a digest of each content; so an entry that is removed, repeated, exchanged or
moved is damage.  The table also says how much of the file was on the disk when the entry was written.  The
first entry names the role.

After a crash, the file has no seal and ends within its last entries, or in zeros that were never
written; they are cut off.  A power failure can also leave holes before that end: sectors that were never
written are zeros, whatever of those behind them is on the disk.  Where the first entry that does not fit has
such a hole, it and all behind it are cut off.  This loses nothing that was confirmed: `fdatasync` had
returned for all confirmed entries, so that they have no holes.  The converse is refused as damage where there
is a proof of it: a later entry which says that the place of the hole was on the disk.  Without one, for the
entry that was confirmed last, the file is the same as if its sync had not returned, and nothing can tell.

Anything else that does not fit is damage, and in a sealed file that holds for every byte.  In a file without
a seal, a cut and zeros in the place of all its last bytes pass for a crash.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
import weakref
import zlib
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from gbdt_commons.files import sync_folder
from gbdt_commons.store_index import Index

VERSION = 3
"""Of the format, and of everything that packages keep in it: all of it changes together."""

_MAGIC = b"veilboost.store\n"
_FORMER_MAGIC = b"SQLite format 3\0"
_FRONT = struct.Struct("<16sI")
_SEAL = struct.Struct("<QI")
_LENGTHS = struct.Struct("<QQ")
_HEAD = struct.Struct("<QQI16s")
_END = b"\n"
"""Not 0, so that zeros at the end of a file are never part of a whole entry."""

_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

_ROLE = "", "role", 0
"""Kind, key and place of the record that names the role."""

_NO_SEAL = (1 << 64) - 1
_DIGEST_BYTES = 16
_SECTOR = 512
"""Bytes that a disk writes as a whole or not at all, at least, and at a multiple of as many."""

_BLOCK = 1 << 20
_DEAD_BYTES = 64 << 10
"""Bytes of replaced records beyond as many as there are live ones: a file with more of them is rewritten."""

_BATCH = 1000
"""Records of one entry of a rewritten file."""


class MisfitError(Exception):
    """A file is no store, damaged, or of another role or release."""


class _HoleError(MisfitError):
    """A part of an entry, from a place in the file to another one, does not fit."""

    def __init__(self, reason: str, start: int, stop: int) -> None:
        super().__init__(reason)
        self.start, self.stop = start, stop


@dataclass(slots=True)
class Record:
    """Where a content is in the file, and itself until it is kept there."""

    start: int
    size: int
    digest: bytes
    content: bytes | None = None


class _Change(NamedTuple):
    """A record, or none, in the place of a sequence's tail."""

    kind: str
    key: str
    place: int
    record: Record | None


class _Tip(NamedTuple):
    """The end of the last transaction, its digest, and what is in the file and counts no more."""

    end: int
    digest: bytes
    n_dead: int = 0
    has_removed: bool = False
    start: int | None = None
    """Where the transaction begins; None if there is none."""


class Journal:
    """Records in a file, and the changes of a transaction that is under way."""

    def __init__(self) -> None:
        self.index: Index[Record] = Index()
        self.seen: tuple[int, ...] = ()
        self.must_rewrite = False
        self._descriptor = -1
        self._tip = _Tip(0, b"")
        self._is_sealed = False
        self._synced_end = 0
        self._changes: list[_Change] = []
        self._n_dead, self._has_removed = 0, False
        self._replaced: set[tuple[str, str]] = set()
        self._coming: _Tip | None = None
        self._is_writing = False
        _journals.add(self)

    def make(self, path: Path, role: str) -> None:
        """Begin a file, which a crash leaves whole or absent."""
        self.change(*_ROLE, role.encode())
        self.rewrite(path)

    def load(self, path: Path, role: str | None, *, read_only: bool) -> None:
        """Read a file, and lock it unless it is only to be read.

        Raises
        ------
        MisfitError
            If it is not a whole store of the role, of any if that is None, or is in use.
        """
        access = os.O_RDONLY if read_only else os.O_RDWR
        self._descriptor = os.open(path, access | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not read_only:
                lock(self._descriptor)
            self._tip = _read_header(self._descriptor)
            self.follow()
            record = self.index.get(*_ROLE)
            if record is None:
                raise MisfitError("it is damaged")
            of = self.content(record).decode()
            if role not in (None, of):
                raise MisfitError(f"it keeps the state of {of}, and not of {role}")
        except BaseException:
            self.close(seal=False)
            raise

    def follow(self) -> None:
        """Take in the transactions behind the last known one.

        Raises
        ------
        MisfitError
            If what follows is damaged, and no crash has left it so.
        """
        self.seen = signature(os.fstat(self._descriptor))
        if not self.has_last:
            raise MisfitError("it is damaged: a transaction that was read is not there any more")
        sealed_end = _read_seal(self._descriptor)
        self._is_sealed = sealed_end != _NO_SEAL
        end = sealed_end if self._is_sealed else _written_end(self._descriptor)
        try:
            while self._tip.end + _HEAD.size <= end and self._take_entry(end):
                pass
        except _HoleError as error:
            if self._is_sealed or not self._is_crash(error, end):
                raise
        if self._is_sealed and not self._tip.end == end == self._size():
            raise MisfitError("it is damaged: it was cut off, or copied in part")

    @property
    def has_last(self) -> bool:
        """Whether the last known transaction is in the file; its user may have undone it, or made another."""
        _, digest, _, _, start = self._tip
        if self._size() < self._tip.end:
            return False
        return start is None or _HEAD.unpack(_read(self._descriptor, start, _HEAD.size))[-1] == digest

    @property
    def is_torn(self) -> bool:
        """Whether anything follows the last whole transaction."""
        return self._size() > self._tip.end

    def recover(self) -> None:
        """Cut off what a crash left of a transaction, and put the others on the disk."""
        if not self._is_sealed:
            self._cut()
            self._sync()
            self.seen = signature(os.fstat(self._descriptor))

    def content(self, record: Record) -> bytes:
        """Content of a record.

        Raises
        ------
        MisfitError
            If it is damaged.
        """
        if record.content is not None:
            return record.content
        content = _read(self._descriptor, record.start, record.size)
        if _digest(content) != record.digest:
            raise MisfitError("a record is damaged")
        return content

    def change(self, kind: str, key: str, place: int, *content: bytes) -> None:
        """Put a content, or none, in the place of a sequence's tail, until `commit` or `settle`."""
        records = [Record(0, len(one), _digest(one), one) for one in content]
        self._changes.append(self._replace(kind, key, place, *records))

    def commit(self, *, sync: bool) -> None:
        """Keep all changes.  An error leaves them, and perhaps a part of them in the file, to `settle`."""
        if self._changes:
            self._is_writing = True
            if self._is_sealed:
                # On the disk first: a crash may cut off what follows.
                self._write_seal(_NO_SEAL)
            _write(self._descriptor, self._entry(), self._tip.end)
        if sync and self._synced_end < self._size():
            self._sync()
        self._keep()

    @property
    def is_settled(self) -> bool:
        """Whether no changes are left to `commit` or `settle`."""
        return not self._changes

    def settle(self, *, failed: bool) -> None:
        """Keep the changes if they are whole in the file, unless that has failed, and undo them otherwise.

        So the next user of the file, after a crash, finds what this one has.
        """
        coming = self._coming
        if coming is not None and coming is not self._tip and not failed and self._size() == coming.end:
            with suppress(OSError):
                self._sync()
                self._tip = coming
        if coming is not None and coming is self._tip:
            self._keep()
            return
        if self._is_writing:
            is_torn = self.is_torn
            try:
                self._cut()
                if is_torn and not self.must_rewrite:
                    # On the disk, too: a hole in what takes its place has zeros, and not what was cut off.
                    self._sync()
            except OSError:
                self.must_rewrite = True
            self.seen = signature(os.fstat(self._descriptor))
        self.index.undo()
        self._n_dead, self._has_removed = self._tip.n_dead, self._tip.has_removed
        self._coming, self._is_writing = None, False
        self._changes = []

    @property
    def is_due(self) -> bool:
        """Whether the file should be rewritten: a sync has failed, or it has too much that does not count."""
        tip = self._tip
        return self.must_rewrite or tip.has_removed or 2 * tip.n_dead > tip.end + _DEAD_BYTES

    def rewrite(self, path: Path) -> None:
        """Write all records, and nothing else, to a new file in the place of this one.

        This takes about 3 s of processor time, and the writing, for each GiB of records, for which all users
        of the store wait: a removal ends when its content is gone, and later changes go to the new file.

        Raises
        ------
        OSError
            If that failed; the file before is as it was, or it is the new one.
        MisfitError
            If a record is damaged, or another file is in the place of this one.
        """
        part = part_of(path)
        part.unlink(missing_ok=True)
        new = Journal()
        new._descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Before others can open it under the store's name.
            lock(new._descriptor)
            self._copy_to(new)
            os.fsync(new._descriptor)
            if self._descriptor >= 0 and signature(os.lstat(path))[:2] != self.seen[:2]:
                raise MisfitError("it was removed or replaced while it was in use")
            os.replace(part, path)
            # Until the new name is on the disk, a crash may bring the old file back.
            new.must_rewrite, new._synced_end = True, new._tip.end
            new.seen = signature(os.fstat(new._descriptor))
            self.become(new)
        except BaseException:
            if self._descriptor != new._descriptor:
                new.close(seal=False)
            part.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
        self.must_rewrite = False

    def become(self, other: Journal) -> None:
        """Be another one, in one step that no interrupt divides."""
        before = self._descriptor
        vars(self).update(vars(other))
        if before >= 0:
            os.close(before)

    def close(self, *, seal: bool) -> None:
        """Close the file, with a seal if it is whole."""
        if seal and not self._is_sealed and not self.must_rewrite and self.is_settled:
            with suppress(OSError):
                if signature(os.fstat(self._descriptor)) == self.seen:
                    self._sync()
                    self._write_seal(self._tip.end)
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _copy_to(self, new: Journal) -> None:
        """Write a header and all records."""
        salt = os.urandom(_DIGEST_BYTES)
        header = _FRONT.pack(_MAGIC, VERSION) + _seal(_NO_SEAL) + salt
        _write(new._descriptor, header, 0)
        new._tip = _Tip(len(header), salt)
        n_records = n_bytes = 0
        for kind, key, place, record in self.index:
            # Its digest has been compared just now, and takes as long as all else again.
            copy = Record(0, record.size, record.digest, self.content(record))
            new._changes.append(new._replace(kind, key, place, copy))
            n_records, n_bytes = n_records + 1, n_bytes + record.size
            if n_records >= _BATCH or n_bytes >= _BLOCK:
                new.commit(sync=False)
                n_records = n_bytes = 0
        new.commit(sync=False)
        # The file gets its name once it is on the disk; so there is no crash that leaves a hole in it.
        new._synced_end = new._tip.end
        _write(new._descriptor, new._entry(), new._tip.end)
        new._keep()

    def _entry(self) -> bytes:
        """The entry of the changes, whose records then know where they will be."""
        named, contents = [], []
        for kind, key, place, record in self._changes:
            if record is None:
                named.append([kind, key, place])
            else:
                named.append([kind, key, place, record.size, record.digest.hex()])
                contents.append(record.content or b"")
        table = _table([self._synced_end, *named])
        lengths = _LENGTHS.pack(len(table), sum(map(len, contents)))
        digest = _digest(self._tip.digest, lengths, table)
        head = lengths + zlib.crc32(lengths).to_bytes(4, "little") + digest
        start = self._tip.end
        at = start + _HEAD.size + len(table)
        for _, _, _, record in self._changes:
            if record is not None:
                record.start, at = at, at + record.size
        self._coming = _Tip(at + len(_END), digest, self._n_dead, self._has_removed, start)
        return b"".join((head, table, *contents, _END))

    def _replace(self, kind: str, key: str, place: int, *record: Record) -> _Change:
        """Change the index, and count what counts no more."""
        replaced = self.index.replace(kind, key, place, *record)
        n_bytes = sum(one.size for one in replaced) if replaced else 0
        # Behind an entry without content, there may be that of one that it has replaced.
        self._has_removed |= not record and (n_bytes > 0 or (kind, key) in self._replaced)
        if n_bytes:
            self._replaced.add((kind, key))
        # A record, or a removal, takes about as much as its names in the table, apart from its content.
        n_dead = len(replaced) + (not record)
        self._n_dead += n_bytes + n_dead * (len(_table([kind, key])) + 2 * _HEAD.size)
        return _Change(kind, key, place, record[0] if record else None)

    def _keep(self) -> None:
        """Count the changes, which are in the file; called again after an interrupt, it goes on."""
        if self._coming is not None:
            self._tip = self._coming
        self.index.keep()
        for _, _, _, record in self._changes:
            if record is not None:
                record.content = None
        self.seen = signature(os.fstat(self._descriptor))
        self._coming, self._is_writing = None, False
        self._changes = []

    def _take_entry(self, end: int) -> bool:
        """Take in the next entry; False if it is not whole."""
        start = self._tip.end
        head = _read(self._descriptor, start, _HEAD.size)
        n_table, n_contents, checksum, digest = _HEAD.unpack(head)
        lengths = head[: _LENGTHS.size]
        at = start + _HEAD.size + n_table
        if checksum != zlib.crc32(lengths):
            raise _HoleError("the length of a record is damaged", start, start + _HEAD.size)
        stop = at + n_contents + len(_END)
        if stop > end:
            return False
        table = _read(self._descriptor, start + _HEAD.size, n_table)
        if digest != _digest(self._tip.digest, lengths, table):
            raise _HoleError("a record is damaged", start, at)
        changes = []
        for kind, key, place, *content in json.loads(table)[1:]:
            record = [Record(at, content[0], bytes.fromhex(content[1]))] if content else []
            for one in record:
                at += one.size
                try:
                    self.content(one)
                except MisfitError as error:
                    raise _HoleError(str(error), one.start, at) from None
            changes.append((kind, key, place, *record))
        if _read(self._descriptor, at, len(_END)) != _END:
            raise _HoleError("a record is damaged", at, stop)
        for change in changes:
            self._replace(*change)
        self._tip = _Tip(stop, digest, self._n_dead, self._has_removed, start)
        self.index.keep()
        return True

    def _is_crash(self, error: _HoleError, end: int) -> bool:
        """Whether a power failure can have left what does not fit in the next entry.

        There has to be a hole, and no proof that its place was on the disk before the power failed.
        """
        start = self._tip.end
        # What is before the entry may be on the disk, with zeros behind it in the same sector.
        edges = [start, *range(start - start % _SECTOR + _SECTOR, end, _SECTOR), end]
        has_hole = any(
            after > error.start and before < error.stop and not any(self._between(before, after))
            for before, after in pairwise(edges)
        )
        return has_hole and not self._was_synced(start, end)

    def _was_synced(self, start: int, end: int) -> bool:
        """Whether an entry behind a place says that what is there was on the disk when it was written."""
        for first in range(start, end, _BLOCK):
            block = self._between(first, min(first + _BLOCK + _HEAD.size, end))
            at = block.find(_END) + 1
            while 0 < at <= min(_BLOCK, len(block) - _HEAD.size):
                n_table, _, checksum, _ = _HEAD.unpack_from(block, at)
                place = first + at + _HEAD.size
                is_head = checksum == zlib.crc32(block[at : at + _LENGTHS.size])
                if is_head and place + n_table <= end:
                    with suppress(ValueError, LookupError, TypeError):
                        if start < json.loads(self._between(place, place + n_table))[0] <= first + at:
                            return True
                at = block.find(_END, at) + 1
        return False

    def _between(self, start: int, end: int) -> bytes:
        return _read(self._descriptor, start, end - start)

    def _write_seal(self, end: int) -> None:
        _write(self._descriptor, _seal(end), _FRONT.size)
        self._sync()
        self._is_sealed = end != _NO_SEAL

    def _sync(self) -> None:
        end = self._size()
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            # What is on the disk is unknown, and another call would not tell.
            self.must_rewrite = True
            raise
        self._synced_end = end

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _cut(self) -> None:
        if self.is_torn:
            self._synced_end = min(self._synced_end, self._tip.end)
            os.ftruncate(self._descriptor, self._tip.end)


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Keep a forked child from holding its parent's locks."""
    for descriptor in {journal._descriptor for journal in list(_journals)} - {-1}:
        with suppress(OSError):
            os.close(descriptor)
    for journal in list(_journals):
        journal._descriptor = -1


os.register_at_fork(after_in_child=_leave_to_parent)


def lock(descriptor: int) -> None:
    """Lock a file for this object, until it is closed or its process ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MisfitError("it is in use by another process, or another object of this one") from None


def part_of(path: Path) -> Path:
    """The file that takes the place of a store's when it is whole."""
    return path.with_name(f".{path.name}.part")


def signature(found: os.stat_result) -> tuple[int, ...]:
    """Tells a file from others, and from itself after it was changed."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _read_header(descriptor: int) -> _Tip:
    """The end of a store's header, and the digest before its first entry."""
    front = os.pread(descriptor, _FRONT.size, 0).ljust(_FRONT.size, b"\0")
    magic, version = _FRONT.unpack(front)
    if magic == _FORMER_MAGIC:
        version = VERSION - 1
    elif magic != _MAGIC:
        raise MisfitError("it is damaged, or no store of this program")
    if version != VERSION:
        release = "a later" if version > VERSION else "an earlier"
        raise MisfitError(f"{release} release wrote it, in version {version}; this one has {VERSION}")
    start = _FRONT.size + _SEAL.size
    return _Tip(start + _DIGEST_BYTES, _read(descriptor, start, _DIGEST_BYTES))


def _seal(end: int) -> bytes:
    return _SEAL.pack(end, zlib.crc32(end.to_bytes(8, "little")))


def _read_seal(descriptor: int) -> int:
    """Where the file ended when it was closed, or `_NO_SEAL`."""
    seal = _read(descriptor, _FRONT.size, _SEAL.size)
    end = int(_SEAL.unpack(seal)[0])
    if seal != _seal(end):
        raise MisfitError("it is damaged")
    return end


def _table(values: list[Any]) -> bytes:
    """JSON as `json.loads` reads it: each half of a surrogate pair, as a name may have, is by itself."""
    return _to_json(values).encode("utf-8", "surrogatepass")


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _read(descriptor: int, start: int, size: int) -> bytes:
    """Bytes of a file, as many as were asked for."""
    found = os.pread(descriptor, size, start)
    while len(found) < size:
        more = os.pread(descriptor, size - len(found), start + len(found))
        if not more:
            raise MisfitError("it is damaged: it ends too early")
        found += more
    return found


def _write(descriptor: int, content: bytes, start: int) -> None:
    left = memoryview(content)
    while left:
        n_written = os.pwrite(descriptor, left, start)
        left, start = left[n_written:], start + n_written


def _written_end(descriptor: int) -> int:
    """Length of a file without the zeros at its end."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _BLOCK)
        kept = len(_read(descriptor, start, end - start).rstrip(b"\0"))
        if kept:
            return start + kept
        end = start
    return 0
