"""Whether the log of an SQLite database that was not closed is whole, as far as it was written.

SQLite ends a log at the first frame that does not fit its checksum, which is right for a frame that a crash
cut off.  After damage, the transactions behind it would be forgotten without a word.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct(">IIIIIIII")
_FRAME = struct.Struct(">IIIIII")
_BIG_ENDIAN = 1
"""Bit of the magic number that says in which order of bytes checksums read their words."""


def is_whole(path: Path) -> bool:
    """Whether every transaction that was written to the end is one that SQLite finds.

    The end of a transaction names, in its last frame, the size of the database.  A frame like that behind the
    first one that does not fit was written, and so was all before it.  Zeros at the end of a file that ends
    within a frame were never written; those of a whole frame may be its page's.

    Parameters
    ----------
    path : Path
        Of a log that no process uses; there need not be one.
    """
    log = path.read_bytes() if path.exists() else b""
    written = log.rstrip(b"\0")
    if len(written) < _HEADER.size + _FRAME.size:
        return True
    magic, _, page_size, _, *salts, first, second = _HEADER.unpack_from(log)
    if (len(log) - _HEADER.size) % (_FRAME.size + page_size):
        log = written
    order = ">" if magic & _BIG_ENDIAN else "<"
    sums = _checksum((0, 0), log[: _HEADER.size - 8], order)
    if sums != (first, second):
        return not any(log[_HEADER.size :])
    starts = range(_HEADER.size, len(log) - _FRAME.size - page_size + 1, _FRAME.size + page_size)
    fits = True
    for start in starts:
        _, n_pages, *salts_here, first, second = _FRAME.unpack_from(log, start)
        if fits:
            page = log[start + _FRAME.size : start + _FRAME.size + page_size]
            sums = _checksum(sums, log[start : start + 8] + page, order)
            fits = salts_here == salts and sums == (first, second)
        if not fits and n_pages and salts_here == salts:
            return False
    return True


def _checksum(sums: tuple[int, int], content: bytes, order: str) -> tuple[int, int]:
    """SQLite's checksum of pairs of 32-bit words, continued."""
    one, two = sums
    for even, odd in struct.iter_unpack(f"{order}II", content):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two
