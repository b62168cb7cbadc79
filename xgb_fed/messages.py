"""Messages between the active party and a passive one: typed, versioned, parsed strictly.

::

    magic "VBMS" | version u16 | kind u16 | session 16 bytes | sequence u64 | fields in order

A field is a tag and a value: ``i`` a signed 64-bit integer, ``b`` bytes and ``s`` UTF-8 text (u64 length
before them), ``c`` ciphertexts in the format of `wire` (u64 length); ``B``, ``I``, ``L``, ``F``, ``D`` are
vectors of uint8, int32, int64, float32 and float64 (u64 number of items before them), little-endian.
Everything but ``c`` is in clear.  A kind joins `KINDS` when its class is made, in whatever module.

Whoever holds both ends of a connection numbers its requests; the answer carries the request's session and
number.  A message that is cut off, extended, of another session or out of turn is refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from xgb_fed.errors import ProtocolError

VERSION = 1
_MAGIC = b"VBMS"
_HEADER = struct.Struct("<4sHH16sQ")
_I64 = struct.Struct("<q")
_U64 = struct.Struct("<Q")
_DTYPES = {"B": "<u1", "I": "<i4", "L": "<i8", "F": "<f4", "D": "<f8"}


Integer = Annotated[int, "i"]
Text = Annotated[str, "s"]
Octets = Annotated[bytes, "b"]
Encrypted = Annotated[bytes, "c"]
"""Ciphertexts, as `cipher.PublicPart` writes them."""
Bits = Annotated[NDArray[np.uint8], "B"]
Int32s = Annotated[NDArray[np.int32], "I"]
Int64s = Annotated[NDArray[np.int64], "L"]
Float32s = Annotated[NDArray[np.float32], "F"]
Float64s = Annotated[NDArray[np.float64], "D"]

KINDS: dict[int, type[Message]] = {}
"""Classes of messages by their number."""


@dataclass(frozen=True, eq=False)
class Message:
    """Base of all kinds."""

    kind: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        """Take the kind's number."""
        if KINDS.setdefault(cls.kind, cls) is not cls:
            raise TypeError(f"{cls.__name__} and {KINDS[cls.kind].__name__} are both of kind {cls.kind}")

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of ciphertexts in this message."""
        return sum(len(getattr(self, name)) for name, tag in tags(type(self)).items() if tag == "c")


def tags(cls: type[Message]) -> dict[str, str]:
    """Fields of a kind of message, in order, and the tag of each."""
    return _tags_of(cls.kind)


@cache
def _tags_of(kind: int) -> dict[str, str]:
    """Once for each kind: reading annotations takes longer than reading a message."""
    cls = KINDS[kind]
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name].__metadata__[0] for f in fields(cls)}


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
    public_key: Octets
    n_rows: Integer
    max_bin: Integer
    field_bits: Integer
    """Bits of one packed sum (of all classes in a ciphertext)."""
    n_groups: Integer
    """Ciphertexts of a row."""
    rows: Int32s
    """Positions of the rows in the party's data; empty means all."""
    eval_rows: Int64s
    """Rows of each evaluation set."""


@dataclass(frozen=True, eq=False)
class TrainingOpened(Message):
    """Passive to active: ready."""

    kind: ClassVar[int] = 2
    n_features: Integer


@dataclass(frozen=True, eq=False)
class StartTree(Message):
    """Active to passive: a tree on some rows and columns; numbers ascend."""

    kind: ClassVar[int] = 3
    tree: Integer
    sampled_rows: Bits
    """One bit a row; empty means all."""
    columns: Int32s
    """Columns that may split."""


@dataclass(frozen=True, eq=False)
class Gradients(Message):
    """Active to passive: encrypted gradients of consecutive sampled rows."""

    kind: ClassVar[int] = 4
    group: Integer
    start: Integer
    values: Encrypted


@dataclass(frozen=True, eq=False)
class FindSplits(Message):
    """Active to passive: how the level above was split, and which nodes of this one want statistics."""

    kind: ClassVar[int] = 5
    fate: Bits
    """Of each node of the level above: `LEAF`, `SPLIT_BY_OTHERS` or `SPLIT_BY_YOU`; empty at the root."""
    left_rows: Bits
    """For nodes split by others, one after the other, one bit a row of the node: 1 goes left."""
    wanted: Bits
    """One flag for each node of this level."""


LEAF, SPLIT_BY_OTHERS, SPLIT_BY_YOU = range(3)


@dataclass(frozen=True, eq=False)
class SplitStatistics(Message):
    """Passive to active: left-hand sums of shuffled candidate splits, encrypted; row counts in clear."""

    kind: ClassVar[int] = 6
    n_candidates: Int32s
    """Of each wanted node."""
    counts: Int32s
    """Sampled rows to the left of each candidate, node by node."""
    sums: Encrypted
    """For each group: of every wanted node its total and its candidates' sums, compressed, re-randomised."""


@dataclass(frozen=True, eq=False)
class SplitNodes(Message):
    """Active to passive: these nodes are split by you, at the first of these candidates in your order."""

    kind: ClassVar[int] = 7
    nodes: Int32s
    n_tied: Int32s
    tied: Int32s
    """Numbers of candidates with the same gain, node by node."""


@dataclass(frozen=True, eq=False)
class Assignments(Message):
    """Passive to active: where the rows of the nodes go, and the number under which the split is kept."""

    kind: ClassVar[int] = 8
    split_ids: Int32s
    left_rows: Bits
    """Node by node, one bit a row of the node."""


@dataclass(frozen=True, eq=False)
class RouteRows(Message):
    """Active to passive: send rows through your splits."""

    kind: ClassVar[int] = 9
    dataset: Integer
    """0: the rows trained on (or the only ones); k: the k-th evaluation set."""
    split_ids: Int32s
    n_rows: Int32s
    """Rows that reach each split."""
    rows: Bits
    """For each split, one bit a row of the data set."""


@dataclass(frozen=True, eq=False)
class Routed(Message):
    """Passive to active: for each split, one bit for each row that reached it: 1 goes left."""

    kind: ClassVar[int] = 10
    left_rows: Bits


@dataclass(frozen=True, eq=False)
class OpenModel(Message):
    """Active to passive: a prediction session with a trained model."""

    kind: ClassVar[int] = 11
    model: Octets
    n_rows: Integer
    """Rows of the active party; 0 if it has no columns of its own."""
    rows: Int32s
    """Positions of the rows in the party's data; empty means all."""


@dataclass(frozen=True, eq=False)
class ModelOpened(Message):
    """Passive to active: ready."""

    kind: ClassVar[int] = 17
    n_rows: Integer


@dataclass(frozen=True, eq=False)
class RevealSplits(Message):
    """Active to passive: give your part of the model away, if you consent."""

    kind: ClassVar[int] = 12


@dataclass(frozen=True, eq=False)
class RevealedSplits(Message):
    """Passive to active: column, threshold and default direction of every split, by its number."""

    kind: ClassVar[int] = 13
    features: Int32s
    thresholds: Float32s
    default_left: Bits
    names: Text
    """Column names, a JSON list."""


@dataclass(frozen=True, eq=False)
class Finish(Message):
    """Active to passive: the session ends; a model trained in it is kept."""

    kind: ClassVar[int] = 14


@dataclass(frozen=True, eq=False)
class Abort(Message):
    """Active to passive: the session ends; there is no model, but the training may be taken up again."""

    kind: ClassVar[int] = 18


@dataclass(frozen=True, eq=False)
class Done(Message):
    """Passive to active: done, nothing to say."""

    kind: ClassVar[int] = 15


@dataclass(frozen=True, eq=False)
class Refusal(Message):
    """Passive to active: no, and why, in words that hold no data."""

    kind: ClassVar[int] = 16
    reason: Text
    code: Integer
    """`NO_CONSENT`, `NO_SESSION`, or 0 for another reason."""


OTHER_REASON, NO_CONSENT, NO_SESSION = range(3)


@dataclass(frozen=True, eq=False)
class ResumeTraining(Message):
    """Active to passive, in a session just opened: it goes on with a training that was interrupted."""

    kind: ClassVar[int] = 23
    model: Octets
    n_splits: Integer
    """Of the trees that are finished; later ones are forgotten."""


@dataclass(frozen=True, eq=False)
class IntersectIds(Message):
    """Active to passive: ids blinded for private set intersection."""

    kind: ClassVar[int] = 19
    blinded: Octets
    n_ids: Integer


@dataclass(frozen=True, eq=False)
class BlindedIds(Message):
    """Passive to active: its own ids blinded, and the other's blinded once more."""

    kind: ClassVar[int] = 20
    setup: Octets
    response: Octets


@dataclass(frozen=True, eq=False)
class AlignRows(Message):
    """Active to passive: the ids in common, an id a line, in the order of the rows from now on."""

    kind: ClassVar[int] = 21
    ids: Text


@dataclass(frozen=True, eq=False)
class RowsAligned(Message):
    """Passive to active: the digest under which requests name these rows."""

    kind: ClassVar[int] = 22
    digest: Octets


def write(session: bytes, sequence: int, message: Message) -> bytes:
    """A message as bytes."""
    parts = [_HEADER.pack(_MAGIC, VERSION, message.kind, session, sequence)]
    for name, tag in tags(type(message)).items():
        value = getattr(message, name)
        if tag == "i":
            parts += [b"i", _I64.pack(value)]
        elif tag in _DTYPES:
            items = np.ascontiguousarray(value, dtype=_DTYPES[tag])
            parts += [tag.encode(), _U64.pack(items.size), items.tobytes()]
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
        for name, tag in tags(cls).items():
            values[name], at = _read_field(view, at, tag)
    except (struct.error, ValueError):
        raise ProtocolError(f"a {cls.__name__} message is malformed") from None
    if at != len(view):
        raise ProtocolError(f"a {cls.__name__} message has {len(view) - at} bytes too many")
    return Envelope(session, sequence, cls(**values))


def _read_field(view: memoryview, at: int, tag: str) -> tuple[Any, int]:
    if view[at : at + 1] != tag.encode():
        raise ValueError("another field")
    at += 1
    if tag == "i":
        return _I64.unpack_from(view, at)[0], at + 8
    dtype = np.dtype(_DTYPES.get(tag, "<u1"))
    (count,) = _U64.unpack_from(view, at)
    at += 8
    if count > (len(view) - at) // dtype.itemsize:
        raise ValueError("longer than the message")
    content = view[at : at + count * dtype.itemsize]
    at += len(content)
    if tag in _DTYPES:
        return np.frombuffer(content, dtype=dtype).astype(dtype.newbyteorder("=")), at
    return (str(content, "utf-8") if tag == "s" else bytes(content)), at


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
