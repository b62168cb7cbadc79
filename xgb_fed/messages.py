"""Messages between the active party and a passive one: typed, versioned, parsed strictly.

::

    magic "VBMS" | version u16 | kind u16 | session 16 bytes | sequence u64 | fields in order

A field is a tag and a value: ``i`` a signed 64-bit integer, ``b`` bytes and ``s`` UTF-8 text (u64 length
before them), ``c`` ciphertexts in the format of `wire` (u64 length); ``B``, ``I``, ``L`` and ``F`` are vectors
of uint8, int32, int64 and float32 (u64 number of items before them), little-endian.  Everything but ``c`` is in clear.

Whoever holds both ends of a connection numbers its requests; the answer carries the request's session and
number.  A message that is cut off, extended, of another session or out of turn is refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from xgb_fed.errors import ProtocolError

VERSION = 1
_MAGIC = b"VBMS"
_HEADER = struct.Struct("<4sHH16sQ")
_I64 = struct.Struct("<q")
_U64 = struct.Struct("<Q")
_DTYPES = {"B": "<u1", "i": "<i4", "l": "<i8", "f": "<f4"}

M = TypeVar("M", bound="Message")


def integer() -> Any:
    """A field that is a signed 64-bit integer."""
    return field(metadata={"tag": "i"})


def text() -> Any:
    """A field that is text."""
    return field(metadata={"tag": "s"})


def octets() -> Any:
    """A field that is bytes."""
    return field(metadata={"tag": "b"})


def ciphertexts() -> Any:
    """A field that is ciphertexts, or a public key, as `cipher.PublicPart` writes them."""
    return field(metadata={"tag": "c"})


def array(dtype: str) -> Any:
    """A field that is a vector: "B" uint8, "i" int32, "l" int64, "f" float32."""
    return field(metadata={"tag": "a" + dtype})


@dataclass(frozen=True, eq=False)
class Message:
    """Base of all kinds."""

    kind: ClassVar[int] = 0

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of ciphertexts in this message."""
        return sum(len(getattr(self, f.name)) for f in fields(self) if f.metadata["tag"] == "c")


@dataclass(frozen=True)
class Envelope:
    """A message with its session and number."""

    session: bytes
    sequence: int
    message: Message


@dataclass(frozen=True, eq=False)
class OpenTraining(Message):
    """Active to passive: start a training session."""

    kind: ClassVar[int] = 1
    public_key: bytes = ciphertexts()
    n_rows: int = integer()
    max_bin: int = integer()
    field_bits: int = integer()
    """Bits of one packed sum (of all classes in a ciphertext)."""
    n_groups: int = integer()
    """Ciphertexts of a row."""
    eval_rows: NDArray[np.int64] = array("l")
    """Rows of each evaluation set."""


@dataclass(frozen=True, eq=False)
class TrainingOpened(Message):
    """Passive to active: ready."""

    kind: ClassVar[int] = 2
    n_features: int = integer()


@dataclass(frozen=True, eq=False)
class StartTree(Message):
    """Active to passive: a tree on some rows and columns."""

    kind: ClassVar[int] = 3
    tree: int = integer()
    sampled_rows: NDArray[np.uint8] = array("B")
    """One bit a row; empty means all."""
    columns: NDArray[np.int32] = array("i")
    """Columns that may split."""


@dataclass(frozen=True, eq=False)
class Gradients(Message):
    """Active to passive: encrypted gradients of consecutive sampled rows."""

    kind: ClassVar[int] = 4
    group: int = integer()
    start: int = integer()
    values: bytes = ciphertexts()


@dataclass(frozen=True, eq=False)
class FindSplits(Message):
    """Active to passive: how the level above was split, and which nodes of this one want statistics."""

    kind: ClassVar[int] = 5
    fate: NDArray[np.uint8] = array("B")
    """Of each node of the level above: `LEAF`, `SPLIT_BY_OTHERS` or `SPLIT_BY_YOU`; empty at the root."""
    left_rows: NDArray[np.uint8] = array("B")
    """For nodes split by others, one after the other, one bit a row of the node: 1 goes left."""
    wanted: NDArray[np.uint8] = array("B")
    """One flag for each node of this level."""


LEAF, SPLIT_BY_OTHERS, SPLIT_BY_YOU = range(3)


@dataclass(frozen=True, eq=False)
class SplitStatistics(Message):
    """Passive to active: left-hand sums of shuffled candidate splits, encrypted, and their row counts in clear."""

    kind: ClassVar[int] = 6
    n_candidates: NDArray[np.int32] = array("i")
    """Of each wanted node."""
    counts: NDArray[np.int32] = array("i")
    """Sampled rows to the left of each candidate, node by node."""
    sums: bytes = ciphertexts()
    """For each group: of every wanted node its total and its candidates' sums, compressed, re-randomised."""


@dataclass(frozen=True, eq=False)
class SplitNodes(Message):
    """Active to passive: these nodes are split by you, at the first of these candidates in your order."""

    kind: ClassVar[int] = 7
    nodes: NDArray[np.int32] = array("i")
    n_tied: NDArray[np.int32] = array("i")
    tied: NDArray[np.int32] = array("i")
    """Numbers of candidates with the same gain, node by node."""


@dataclass(frozen=True, eq=False)
class Assignments(Message):
    """Passive to active: where the rows of the nodes go, and the number under which the split is kept."""

    kind: ClassVar[int] = 8
    split_ids: NDArray[np.int32] = array("i")
    candidates: NDArray[np.int32] = array("i")
    """Which of the tied candidates came first."""
    left_rows: NDArray[np.uint8] = array("B")
    """Node by node, one bit a row of the node."""


@dataclass(frozen=True, eq=False)
class RouteRows(Message):
    """Active to passive: send rows through your splits."""

    kind: ClassVar[int] = 9
    dataset: int = integer()
    """0: the rows trained on (or the only ones); k: the k-th evaluation set."""
    split_ids: NDArray[np.int32] = array("i")
    n_rows: NDArray[np.int32] = array("i")
    """Rows that reach each split."""
    rows: NDArray[np.uint8] = array("B")
    """For each split, one bit a row of the data set."""


@dataclass(frozen=True, eq=False)
class Routed(Message):
    """Passive to active: for each split, one bit for each row that reached it: 1 goes left."""

    kind: ClassVar[int] = 10
    left_rows: NDArray[np.uint8] = array("B")


@dataclass(frozen=True, eq=False)
class OpenModel(Message):
    """Active to passive: a prediction session with a trained model."""

    kind: ClassVar[int] = 11
    model: bytes = octets()
    n_rows: int = integer()
    """Rows of the active party; 0 if it has no columns of its own."""


@dataclass(frozen=True, eq=False)
class ModelOpened(Message):
    """Passive to active: ready."""

    kind: ClassVar[int] = 17
    n_rows: int = integer()


@dataclass(frozen=True, eq=False)
class RevealSplits(Message):
    """Active to passive: give your part of the model away, if you consent."""

    kind: ClassVar[int] = 12


@dataclass(frozen=True, eq=False)
class RevealedSplits(Message):
    """Passive to active: column, threshold and default direction of every split, by its number."""

    kind: ClassVar[int] = 13
    features: NDArray[np.int32] = array("i")
    thresholds: NDArray[np.float32] = array("f")
    default_left: NDArray[np.uint8] = array("B")
    names: str = text()
    """Column names, a JSON list."""


@dataclass(frozen=True, eq=False)
class Finish(Message):
    """Active to passive: the session ends; a model trained in it is kept."""

    kind: ClassVar[int] = 14


@dataclass(frozen=True, eq=False)
class Done(Message):
    """Passive to active: done, nothing to say."""

    kind: ClassVar[int] = 15


@dataclass(frozen=True, eq=False)
class Refusal(Message):
    """Passive to active: no, and why, in words that hold no data."""

    kind: ClassVar[int] = 16
    reason: str = text()
    consent: int = integer()
    """1 if the reason is that consent was not given."""


KINDS: dict[int, type[Message]] = {cls.kind: cls for cls in Message.__subclasses__()}


def write(session: bytes, sequence: int, message: Message) -> bytes:
    """A message as bytes."""
    parts = [_HEADER.pack(_MAGIC, VERSION, message.kind, session, sequence)]
    for f in fields(message):
        value, tag = getattr(message, f.name), f.metadata["tag"]
        if tag == "i":
            parts += [b"i", _I64.pack(value)]
        elif tag[0] == "a":
            items = np.ascontiguousarray(value, dtype=_DTYPES[tag[1]])
            parts += [tag[1].upper().encode(), _U64.pack(items.size), items.tobytes()]
        else:
            data = value.encode() if tag == "s" else value
            parts += [tag.encode(), _U64.pack(len(data)), data]
    return b"".join(parts)


def read(data: bytes) -> Envelope:
    """Parse what `write` wrote.

    Raises
    ------
    ProtocolError
        If the bytes are anything else; the text says what, and quotes none of them.
    """
    view = memoryview(data)
    if len(view) < _HEADER.size:
        raise ProtocolError(f"a message of {len(view)} bytes is too short")
    magic, version, kind, session, sequence = _HEADER.unpack_from(view)
    if magic != _MAGIC:
        raise ProtocolError("these bytes are no veilboost message")
    if version != VERSION:
        raise ProtocolError(f"message version {version}; this release speaks version {VERSION}")
    if kind not in KINDS:
        raise ProtocolError(f"unknown kind of message {kind}")
    cls, at, values = KINDS[kind], _HEADER.size, {}
    try:
        for f in fields(cls):
            values[f.name], at = _read_field(view, at, f.metadata["tag"])
    except (struct.error, ValueError):
        raise ProtocolError(f"a {cls.__name__} message is malformed") from None
    if at != len(view):
        raise ProtocolError(f"a {cls.__name__} message has {len(view) - at} bytes too many")
    return Envelope(session, sequence, cls(**values))


def _read_field(view: memoryview, at: int, tag: str) -> tuple[Any, int]:
    if tag == "i":
        _expect(view, at, b"i")
        return _I64.unpack_from(view, at + 1)[0], at + 9
    _expect(view, at, tag[1].upper().encode() if tag[0] == "a" else tag.encode())
    at += 1
    size = np.dtype(_DTYPES[tag[1]]).itemsize if tag[0] == "a" else 1
    (count,) = _U64.unpack_from(view, at)
    at += 8
    if count > (len(view) - at) // size:
        raise ValueError("longer than the message")
    content = view[at : at + count * size]
    at += count * size
    if tag[0] == "a":
        return np.frombuffer(content, dtype=_DTYPES[tag[1]]).astype(_DTYPES[tag[1]][1:]), at
    return (str(content, "utf-8") if tag == "s" else bytes(content)), at


def _expect(view: memoryview, at: int, mark: bytes) -> None:
    if view[at : at + 1] != mark:
        raise ValueError("another field")


def to_bits(flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """One bit a flag."""
    return np.packbits(flags)


def from_bits(bits: NDArray[np.uint8], count: int) -> NDArray[np.bool_]:
    """The first `count` flags.

    Raises
    ------
    ProtocolError
        If there are not exactly as many bytes as that takes, or bits set beyond.
    """
    if len(bits) != -(-count // 8):
        raise ProtocolError(f"{len(bits)} bytes of flags for {count} rows")
    flags = np.unpackbits(bits).astype(bool)
    if flags[count:].any():
        raise ProtocolError("flags beyond the last row")
    return flags[:count]
