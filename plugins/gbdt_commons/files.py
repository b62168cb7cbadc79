"""Files that a crash leaves whole: atomic writes, appended lines, private folders, digests."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

SIGNATURES = ".signatures"
"""Ending of the file beside a model that says which parties have signed it."""


def digest_of(*parts: Any) -> str:
    """A digest of texts, arrays, sparse matrices, and None, as they follow each other."""
    digest = hashlib.sha256()
    for part in parts:
        arrays = [part]
        if hasattr(part, "indptr"):
            arrays = [part.shape, part.indptr, part.indices, part.data]
        for array in arrays:
            if isinstance(array, np.ndarray):
                digest.update(f"{array.dtype}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
            else:
                digest.update(repr(array).encode())
            digest.update(b"\0")
    return digest.hexdigest()


OUT_OF_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that end when a disk, or a process under its limits, has room or descriptors again."""


def is_out_of_room(error: OSError) -> bool:
    """Whether a disk is full or files cannot be opened for now: worth waiting for, and not a refusal."""
    return error.errno in OUT_OF_ROOM


def make_folder(path: str | Path) -> Path:
    """Make a folder, and those above it that are missing, for this user only; gives its path."""
    path = Path(path)
    for folder in reversed([path, *path.parents]):
        # One by one: with `parents`, the mode would be the last one's only.
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    return path


def open_to_append(path: str | Path) -> int:
    """A descriptor whose writes all go to the end of a file; a new one is for its owner only."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, 0o600)


def append_lines(descriptor: int, lines: str) -> None:
    """Write whole lines; a line that an earlier failure tore is ended first, so that it spoils no other.

    Raises
    ------
    OSError
        If not all could be written.
    """
    size = os.fstat(descriptor).st_size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    left = (("\n" if torn else "") + lines).encode()
    while left:
        left = left[os.write(descriptor, left) :]


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write a file so that a failure, or the end of the process, leaves the old one as it was.

    Its owner only can read it.  On return it is on the disk, under its name.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # A file left by a process with the same number, or put there by another user, is not written to.
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_signed(path: Path, model: str | bytes, signatures: str) -> None:
    """Write a model's file and, before it, that of its signatures; none of another model stay beside it."""
    beside = path.with_suffix(SIGNATURES)
    if signatures:
        write_atomically(beside, signatures)
    else:
        beside.unlink(missing_ok=True)
    write_atomically(path, model)


def sync_folder(folder: Path) -> None:
    """A new name is on the disk only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
