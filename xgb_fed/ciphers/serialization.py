"""Keys and ciphertext arrays as bytes: a header, a payload, a digest of both.

::

    magic "VBCT" | version u16 | kind u8 | scheme u8 | key id, 16 bytes | rows u64 | words u64
    payload | SHA-256

The digest finds damage, not forgery: who may send what is the transport's business.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from xgb_fed.errors import CorruptDataError, VersionError

VERSION = 1
SCHEMES = {"paillier": 0, "okamoto-uchiyama": 1, "plain": 3}
"""Numbers of schemes in headers."""

MAX_WORDS = 1 << 16
"""Words of a row at most: far beyond any key."""

_MAGIC = b"VBCT"
_HEADER = struct.Struct("<4sHBB16sQQ")
_DIGEST_BYTES = 32


class PayloadKind(IntEnum):
    """Kind of a payload."""

    CIPHERTEXTS = 1
    PUBLIC_KEY = 2
    PRIVATE_KEY = 3
    SHORT_CIPHERTEXTS = 4


@dataclass(frozen=True)
class CipherMessage:
    """A parsed header and its payload, an array of words."""

    kind: PayloadKind
    scheme: str
    key_id: bytes
    rows: NDArray[np.uint64]


def key_id(scheme: str, public_number: int) -> bytes:
    """Name of a key: a digest of its scheme and public number."""
    number = public_number.to_bytes(-(-public_number.bit_length() // 8), "little")
    return hashlib.sha256(f"veilboost key {scheme} ".encode() + number).digest()[:16]


def pack(kind: PayloadKind, scheme: str, key: bytes, rows: NDArray[np.uint64]) -> bytes:
    """Header, payload and digest."""
    return b"".join(pack_parts(kind, scheme, key, rows.shape, (rows,)))


def pack_parts(
    kind: PayloadKind, scheme: str, key: bytes, shape: tuple[int, ...], parts: Iterable[NDArray[np.uint64]]
) -> Iterator[bytes]:
    """Result of `pack` for all parts together: the header, each part, the digest.

    The shape is that of all rows together.  Each part is taken once the bytes before it were given.
    """
    header = _HEADER.pack(_MAGIC, VERSION, kind, SCHEMES[scheme], key, *shape)
    digest = hashlib.sha256(header)
    yield header
    for rows in parts:
        payload = np.ascontiguousarray(rows, dtype="<u8").tobytes()
        digest.update(payload)
        yield payload
    yield digest.digest()


def packed_bytes(n_rows: int, n_words: int) -> int:
    """Length of what `pack` gives for so many rows and words."""
    return _HEADER.size + 8 * n_rows * n_words + _DIGEST_BYTES


def unpack(data: bytes) -> CipherMessage:
    """Parse what `pack` wrote.

    Raises `CorruptDataError` if the data is not such bytes, or was truncated, extended or altered, and
    `VersionError` if it is of a version this release does not know.
    """
    data = bytes(data)
    if len(data) < _HEADER.size + _DIGEST_BYTES:
        raise CorruptDataError(f"{len(data)} bytes are too few for a header and a digest")
    magic, version, kind, scheme, key, n_rows, n_words = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptDataError("these bytes are not veilboost keys or ciphertexts")
    if version != VERSION:
        raise VersionError(f"format version {version}; this release reads version {VERSION}")
    payload = memoryview(data)[_HEADER.size : -_DIGEST_BYTES]
    if not 0 < n_words <= MAX_WORDS or len(payload) != 8 * n_rows * n_words:
        raise CorruptDataError(f"{len(payload)} bytes of payload, but the header says {8 * n_rows * n_words}")
    if hashlib.sha256(memoryview(data)[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise CorruptDataError("the digest does not match: the bytes were altered")
    names = {number: name for name, number in SCHEMES.items()}
    if kind not in set(PayloadKind) or scheme not in names:
        raise CorruptDataError(f"unknown kind {kind} or scheme {scheme}")
    rows = np.frombuffer(payload, dtype="<u8").reshape(n_rows, n_words).astype(np.uint64)
    return CipherMessage(PayloadKind(kind), names[scheme], key, rows)
