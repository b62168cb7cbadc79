"""Typed, versioned messages between organisations, parsed strictly."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.quoting import quoted
from gbdt_parties import protocol
from gbdt_parties.errors import ProtocolError

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """What Python has since 3.11 for type checkers alone."""
        return lambda cls: cls


class Parts:
    """Bytes whose number, `n_bytes`, is known before all `parts` (bytes, Parts or futures) are made."""

    def __init__(self, n_bytes: int, parts: Iterable[bytes | Parts | Future[bytes]]) -> None:
        self._n_bytes = n_bytes
        self._parts = list(parts)

    def __len__(self) -> int:
        """Bytes of all parts together."""
        return self._n_bytes

    @property
    def are_there(self) -> bool:
        """Whether all parts have been made, so that none is waited for."""
        return all(
            part.are_there if isinstance(part, Parts) else not isinstance(part, Future) or _is_made(part)
            for part in self._parts
        )

    def __iter__(self) -> Iterator[bytes]:
        """Give the parts in order to any threads, waiting for each, or raise the error of its making."""
        for part in self._parts:
            if isinstance(part, Parts):
                yield from part
            else:
                yield part.result() if isinstance(part, Future) else part

    def __bytes__(self) -> bytes:
        """Wait for all parts and join them."""
        return b"".join(self)


def _is_made(part: Future[bytes]) -> bool:
    return part.done() and not part.cancelled() and part.exception() is None


MAX_TEXT_BYTES = 4 << 20
"""Maximum length of a text: in memory, one rare character makes each of its characters take four bytes."""

_MAGIC = b"VBMS"
_HEADER = struct.Struct("<4sHH16sQ")
_I64 = struct.Struct("<q")
_U64 = struct.Struct("<Q")
_DTYPES = {"B": "<u1", "I": "<i4", "L": "<i8", "F": "<f4", "D": "<f8"}
MAX_INTEGER = (1 << 31) - 1
Integer = Annotated[int, "i", 0, MAX_INTEGER]
"""An integer with the ends of its range, which `read` checks: handlers compute with what it gives."""

Flag = Annotated[int, "i", 0, 1]
NumberOrNone = Annotated[int, "i", -1, MAX_INTEGER]
"""-1 stands for none."""

Text = Annotated[str, "s"]
Octets = Annotated[bytes, "b"]
View = Annotated[bytes | memoryview, "v"]
"""Long octets: those of a message that was read are a view of it, and no copy."""

Encrypted = Annotated[bytes | Parts, "c"]
"""Ciphertexts, as `cipher.PublicKey` writes them; those of a message that was read are bytes."""

Bits = Annotated[NDArray[np.uint8], "B"]
Int32s = Annotated[NDArray[np.int32], "I"]
Int64s = Annotated[NDArray[np.int64], "L"]
Float32s = Annotated[NDArray[np.float32], "F"]
Float64s = Annotated[NDArray[np.float64], "D"]
KINDS: dict[int, type[Message]] = {}
"""Classes of messages by their number."""


@dataclass_transform(frozen_default=True, eq_default=False)
@dataclass(frozen=True, eq=False)
class Message:
    """Base of all kinds, which are dataclasses: ``class Done(Message, kind=15)``."""

    kind: ClassVar[int] = 0

    def __init_subclass__(cls, kind: int) -> None:
        """Take the kind's number."""
        cls.kind = kind
        dataclass(frozen=True, eq=False)(cls)
        if KINDS.setdefault(cls.kind, cls) is not cls:
            raise TypeError(f"{cls.__name__} and {KINDS[cls.kind].__name__} are both of kind {cls.kind}")

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of ciphertexts in this message."""
        return sum(len(getattr(self, name)) for name, tag in tags(type(self)).items() if tag == "c")


def tags(cls: type[Message]) -> dict[str, str]:
    """Fields of a kind of message, in order, and the tag of each."""
    return {name: tag for name, (tag, *_) in declared(cls.kind).items()}


@cache
def declared(kind: int) -> dict[str, tuple[Any, ...]]:
    """Fields of a kind of message: the tag of each, and the least and largest integer, or number of items.

    Once for each kind: reading annotations takes longer than reading a message.
    """
    cls = KINDS[kind]
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name].__metadata__ for f in fields(cls)}


@dataclass(frozen=True)
class Envelope:
    """A message with its session and number, and the version of the protocol that it was written in."""

    session: bytes
    sequence: int
    message: Message
    version: int = protocol.VERSION


class Finish(Message, kind=14):
    """Active to passive: the session ends; a model trained in it is kept."""


class Abort(Message, kind=18):
    """Active to passive: the session ends; there is no model, but the training run may be resumed."""


class Done(Message, kind=15):
    """Passive to active: the request was carried out, and there is nothing to report."""


class Refusal(Message, kind=16):
    """Passive to active: the request is refused, with a reason that holds no data."""

    reason: Text
    code: Integer
    """`NO_CONSENT`, `NO_SESSION`, `NO_RUN`, `NO_VERSION`, or 0 for another reason."""


OTHER_REASON, NO_CONSENT, NO_SESSION, NO_RUN, NO_VERSION = range(5)

MAX_REASON = 1000
"""Characters of a reason: it is sent, logged, and kept in memory while refusals are counted."""


def refusal(reason: str, code: int = OTHER_REASON) -> Refusal:
    """A refusal for a reason that may quote the request: escaped and cut, however long the request was."""
    return Refusal(quoted(reason, MAX_REASON), code)


def write(session: bytes, sequence: int, message: Message, version: int | None = None) -> bytes:
    """A message as bytes; see `write_parts`."""
    return bytes(write_parts(session, sequence, message, version))


def write_parts(session: bytes, sequence: int, message: Message, version: int | None = None) -> Parts:
    """The bytes of a message; those of `Encrypted` fields need not all be there yet.

    Raises `ProtocolError` if the `version` of the protocol, by default the own one, has no such message:
    nothing is left out without a word.
    """
    version, kind = version or protocol.VERSION, type(message).__name__
    parts: list[Any] = [_HEADER.pack(_MAGIC, version, message.kind, session, sequence)]
    lacking = protocol.lacking(version, kind)
    for name, default in lacking.items():
        if not name or not np.array_equal(getattr(message, name), default):
            raise ProtocolError(f"the other party speaks version {version}, without this {kind}: upgrade it")
    for name, tag in tags(type(message)).items():
        value = getattr(message, name)
        if name in lacking:
            continue
        if tag == "i":
            parts += [b"i", _I64.pack(value)]
        elif tag in _DTYPES:
            items = np.ascontiguousarray(value, dtype=_DTYPES[tag])
            parts += [tag.encode(), _U64.pack(items.size), items.tobytes()]
        else:
            data = value.encode() if tag == "s" else value
            parts += [tag.encode(), _U64.pack(len(data)), data]
    return Parts(sum(map(len, parts)), parts)


def address(data: bytes) -> tuple[bytes, int]:
    """Session and number of a message, whose refusal has them, too; zeros if it has no header.

    A message that cannot be read, such as one of a kind that this party does not know, is refused to the
    session that sent it: its caller would take a refusal of any other for a mistaken answer.
    """
    if len(data) < _HEADER.size:
        return bytes(16), 0
    magic, _, _, session, sequence = _HEADER.unpack_from(data)
    return (session, sequence) if magic == _MAGIC else (bytes(16), 0)


def unread(data: bytes, reason: str) -> Refusal:
    """The refusal of a message that cannot be read here: in the version of the refusal, it may be."""
    is_later = len(data) >= _HEADER.size and _HEADER.unpack_from(data)[1] > protocol.VERSION
    return refusal(reason, NO_VERSION if is_later else OTHER_REASON)


def readdressed(data: bytes, session: bytes = bytes(16), sequence: int = 0) -> bytes:
    """A message moved to another place, by default none; bytes without a header stay as they are."""
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        return data
    magic, version, kind, _, _ = _HEADER.unpack_from(data)
    return _HEADER.pack(magic, version, kind, session, sequence) + data[_HEADER.size :]


def is_refusal(data: bytes) -> bool:
    """Whether a message is a refusal, for those who pass messages on without knowing their kinds."""
    if len(data) < _HEADER.size:
        return False
    magic, _, kind, _, _ = _HEADER.unpack_from(data)
    return bool(magic == _MAGIC and kind == Refusal.kind)


def read(data: bytes) -> Envelope:
    """Parse bytes that `write` wrote; a ProtocolError of others names the fault and quotes none of them."""
    view = memoryview(data)
    if len(view) < _HEADER.size:
        raise ProtocolError(f"a message of {len(view)} bytes is too short")
    magic, version, kind, session, sequence = _HEADER.unpack_from(view)
    if magic != _MAGIC:
        raise ProtocolError("these bytes are not a veilboost message")
    protocol.check_spoken(version)
    if kind not in KINDS:
        raise ProtocolError(f"unknown kind of message {kind}, which is not of this kind of training")
    cls, at, values = KINDS[kind], _HEADER.size, {}
    lacking = protocol.lacking(version, cls.__name__)
    if "" in lacking:
        raise ProtocolError(f"version {version} of messages has no {cls.__name__}")
    try:
        for name, (tag, *ends) in declared(kind).items():
            if name in lacking:
                values[name] = lacking[name]
                continue
            values[name], at = _read_field(view, at, tag, *ends)
    except _OutOfRangeError as error:
        raise ProtocolError(f"{name} of {cls.__name__} must be {error}") from None
    except (struct.error, ValueError):
        raise ProtocolError(f"a {cls.__name__} message is malformed") from None
    if at != len(view):
        raise ProtocolError(f"a {cls.__name__} message has {len(view) - at} bytes too many")
    return Envelope(session, sequence, cls(**values), version)


class _OutOfRangeError(Exception):
    """A number, or a number of items, is not in the range of its field."""


def _read_field(view: memoryview, at: int, tag: str, low: int = 0, high: int = 1 << 63) -> tuple[Any, int]:
    """The field of this tag at a place, checked before anything is made of it, and the place after it."""
    if view[at : at + 1] != tag.encode():
        raise ValueError("another field")
    at += 1
    value = (_I64 if tag == "i" else _U64).unpack_from(view, at)[0]
    if not low <= value <= high:
        raise _OutOfRangeError(f"{low} to {high}" + ("" if tag == "i" else " items"))
    if tag == "i":
        return value, at + 8
    dtype = np.dtype(_DTYPES.get(tag, "<u1"))
    count, at = value, at + 8
    if tag == "s" and count > MAX_TEXT_BYTES:
        raise ValueError("a text that is too long")
    if count > (len(view) - at) // dtype.itemsize:
        raise ValueError("longer than the message")
    content = view[at : at + count * dtype.itemsize]
    at += len(content)
    if tag in _DTYPES:
        return np.frombuffer(content, dtype=dtype).astype(dtype.newbyteorder("=")), at
    if tag == "v":
        return content, at
    return (str(content, "utf-8") if tag == "s" else bytes(content)), at


def to_bits(flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Pack flags, one bit per flag."""
    return np.packbits(flags)


def from_bits(bits: NDArray[np.uint8], count: int) -> NDArray[np.bool_]:
    """The first `count` flags; ProtocolError for another number of bytes, or bits set beyond."""
    if len(bits) != -(-count // 8):
        raise ProtocolError(f"{len(bits)} bytes of flags for {count} rows")
    flags = np.unpackbits(bits).astype(bool)
    if flags[count:].any():
        raise ProtocolError("flags beyond the last row")
    return flags[:count]
