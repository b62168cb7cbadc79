"""Masks between pairs of parties, which cancel when all vectors are added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gbdt_commons.key_stream import KEY_BYTES, KeyStream
from gbdt_parties.secure_sum.rings import Ring, Words, WordStream

_DOMAIN = b"veilboost secure sum mask 3\0"
CHUNK = 1 << 14
"""Values that are masked at a time: what a chunk and its masks take stays in the processor's cache."""


def pair_of(one: tuple[int, bytes], other: tuple[int, bytes]) -> bytes:
    """Two parties by place and X25519 key, in an agreed order; no two pairs have the same bytes."""
    return b"".join(place.to_bytes(2, "little") + key for place, key in sorted((one, other)))


def mask_stream(secret: bytes, pair: bytes, roster: bytes, attempt: bytes) -> KeyStream:
    """The stream of one pair of parties for one attempt: its round, number, members and question.

    The secret, by X25519 and then by ML-KEM-768, does not say who they are: a party that announces a key
    derived from another one's can have the same first half with a third party as that one has.  So the pair
    (`pair_of`, and the key and ciphertext of ML-KEM-768) goes in, too, and the digest of the confirmed roster
    (`PairSecrets.digest`), which covers the session.
    """
    key = HKDF(hashes.SHA256(), KEY_BYTES, salt=roster, info=_DOMAIN + pair + attempt).derive(secret)
    return KeyStream(key)


def masked(
    ring: Ring, values: Words, added: Sequence[WordStream], subtracted: Sequence[WordStream]
) -> Iterator[Words]:
    """A vector with the next values of some streams added, and those of others subtracted, in chunks."""
    for first in range(0, len(values), CHUNK):
        chunk = values[first : first + CHUNK]
        for stream in added:
            chunk = ring.add(chunk, ring.uniform(stream, len(chunk)))
        for stream in subtracted:
            chunk = ring.subtract(chunk, ring.uniform(stream, len(chunk)))
        yield chunk


def signs(own: int, others: Iterable[int]) -> dict[int, int]:
    """Whether a party adds (1) or subtracts (-1) each shared mask: the first in the roster adds."""
    return {other: 1 if own < other else -1 for other in others if other != own}
