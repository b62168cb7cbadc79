"""A file of entries that only grows: after a crash at any byte, every whole entry is found again.

An entry is its length, a checksum of the length, a digest of the content, the content, and a line end.
Remains of the last entry after a crash, and blocks of zeros that were never written, count as absent.
Anything else that does not fit its digest is damage, and an error.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from gbdt_commons.files import open_to_append
from gbdt_parties.errors import ProtocolError

_LENGTH = struct.Struct("<Q")
_HEAD = struct.Struct("<QI16s")
_END = b"\n"
_BLOCK = 1 << 16


def entry_of(content: bytes) -> bytes:
    """The bytes that stand for a content in a file of entries."""
    head = _HEAD.pack(len(content), zlib.crc32(_LENGTH.pack(len(content))), _digest(content))
    # The last byte is not 0, so that zeros at the end of a file are never part of a whole entry.
    return head + content + _END


def read_entries(path: Path) -> Iterator[tuple[bytes, int]]:
    """Read the whole entries from a file's beginning, one at a time.

    Yields
    ------
    content : bytes
    end : int
        Where the entry ends in the file, in bytes.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If an entry is damaged rather than cut off.
    """
    with open(path, "rb") as file:
        left = _written_bytes(file)
        file.seek(0)
        end = 0
        while left >= _HEAD.size:
            length, checksum, digest = _HEAD.unpack(file.read(_HEAD.size))
            if checksum != zlib.crc32(_LENGTH.pack(length)):
                raise ValueError("the length of an entry is damaged")
            size = _HEAD.size + length + len(_END)
            if size > left:
                return
            content = file.read(length)
            if file.read(len(_END)) != _END or digest != _digest(content):
                raise ValueError("an entry is damaged")
            left, end = left - size, end + size
            yield content, end


class EntryFile:
    """Adds entries to a file; threads may share it.

    The file stays open, so that a process that runs out of file descriptors can go on.

    Parameters
    ----------
    path : Path
    size : int
        Bytes of its whole entries, as `read_entries` found them; what follows is cut off.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._descriptor = open_to_append(path)
        weakref.finalize(self, os.close, self._descriptor)
        self._size = size
        self._lock = Lock()

    def append(self, content: bytes, *, sync: bool) -> int:
        """Add an entry; returns where it begins in the file.

        Parameters
        ----------
        content : bytes
        sync : bool
            Whether it must be on the disk, and not only with the operating system, when this returns; all
            entries before it are then on the disk, too.

        Raises
        ------
        OSError
            If the disk is full, for example; the entry then does not count, or is whole.
        ProtocolError
            If the file was changed through another object, in this process or another; it stays as it is.
        """
        entry = entry_of(content)
        with self._lock:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                self._check_size()
                left = memoryview(entry)
                while left:
                    left = left[os.write(self._descriptor, left) :]
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            start, self._size = self._size, self._size + len(entry)
        if sync:
            self.sync()
        return start

    def read(self, start: int) -> bytes:
        """The content of the entry that begins at a place in the file.

        Raises
        ------
        ValueError
            If there is none, or it is damaged.
        """
        head = os.pread(self._descriptor, _HEAD.size, start)
        if len(head) < _HEAD.size:
            raise ValueError("an entry is cut off")
        length, checksum, digest = _HEAD.unpack(head)
        if checksum != zlib.crc32(_LENGTH.pack(length)):
            raise ValueError("the length of an entry is damaged")
        content = os.pread(self._descriptor, length, start + _HEAD.size)
        if digest != _digest(content):
            raise ValueError("an entry is damaged")
        return content

    def _check_size(self) -> None:
        """Cut off what a crash, or an append that failed, left of an entry; refuse what somebody else did."""
        size = os.fstat(self._descriptor).st_size
        head = os.pread(self._descriptor, _HEAD.size, self._size)
        if len(head) == _HEAD.size:
            length, checksum, _ = _HEAD.unpack(head)
            fits = checksum == zlib.crc32(_LENGTH.pack(length)) and self._size + _HEAD.size + length < size
            if fits and os.pread(self._descriptor, 1, self._size + _HEAD.size + length) == _END:
                raise ProtocolError("this run is continued elsewhere, from the same files")
        if size < self._size:
            raise ProtocolError("the files of this run were cut off while it was going on")
        if size > self._size:
            os.ftruncate(self._descriptor, self._size)

    def sync(self) -> None:
        """Wait until all entries are on the disk."""
        os.fdatasync(self._descriptor)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _written_bytes(file: BinaryIO) -> int:
    """Length of a file without the zeros at its end."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        kept = len(file.read(end - start).rstrip(b"\0"))
        if kept:
            return start + kept
        end = start
    return 0
