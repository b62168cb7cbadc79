"""Universal Binary JSON (ubjson.org, draft 12) as XGBoost writes it: typed arrays become numpy arrays."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_NUMBERS = {
    b"i": ">i1",
    b"U": ">u1",
    b"I": ">i2",
    b"l": ">i4",
    b"L": ">i8",
    b"d": ">f4",
    b"D": ">f8",
}
_FORMATS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
_DEEPEST = 64


def parse(data: bytes) -> Any:
    """The value that the bytes are.

    Raises
    ------
    ValueError
        If they are no value, or more than one.
    """
    reader = _Reader(data)
    try:
        value = reader.value(reader.mark(), 0)
    except (struct.error, UnicodeDecodeError, IndexError):
        raise ValueError("malformed UBJSON") from None
    if reader.at != len(data):
        raise ValueError("UBJSON with bytes too many")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise ValueError("UBJSON is cut off")
        self.at += count
        return self.data[self.at - count : self.at]

    def mark(self) -> bytes:
        return self.take(1)

    def number(self, mark: bytes) -> Any:
        if mark not in _FORMATS:
            raise ValueError("UBJSON lacks a number")
        layout = _FORMATS[mark]
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def length(self) -> int:
        count = self.number(self.mark())
        if not isinstance(count, int) or count < 0:
            raise ValueError("UBJSON has a length that is none")
        return count

    def text(self) -> str:
        return str(self.take(self.length()), "utf-8")

    def value(self, mark: bytes, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("UBJSON is nested too deep")
        if mark in _FORMATS:
            return self.number(mark)
        if mark == b"S":
            return self.text()
        if mark in (b"T", b"F", b"Z"):
            return {b"T": True, b"F": False, b"Z": None}[mark]
        if mark == b"[":
            return self.array(depth)
        if mark == b"{":
            return self.object(depth)
        raise ValueError("UBJSON has an unknown mark")

    def array(self, depth: int) -> Any:
        mark = self.mark()
        if mark == b"$":
            layout = _NUMBERS.get(self.mark())
            if layout is None or self.mark() != b"#":
                raise ValueError("UBJSON has an array of no numbers")
            count = self.length()
            return np.frombuffer(self.take(count * np.dtype(layout).itemsize), dtype=layout)
        items = []
        if mark == b"#":
            return [self.value(self.mark(), depth + 1) for _ in range(self.length())]
        while mark != b"]":
            items.append(self.value(mark, depth + 1))
            mark = self.mark()
        return items

    def object(self, depth: int) -> dict[str, Any]:
        items = {}
        mark = self.mark()
        while mark != b"}":
            key = str(self.take(self.number(mark)), "utf-8")
            items[key] = self.value(self.mark(), depth + 1)
            mark = self.mark()
        return items
