"""Names of everything that keys are bound to: parties, sessions, directions, steps and batches."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.secure_sum.masks import pair_of

DIGEST_BYTES = 32
"""Bytes of a digest, nonce, seed and public key."""

_SESSION, _DIRECTION, _STEP = (
    b"veilboost two-party session 1",
    b"veilboost two-party direction 1",
    b"veilboost two-party step 1",
)


@dataclass(frozen=True, order=True)
class Seat:
    """A party of a run: its place in the roster, below 2**16, and the public key that the roster gives it."""

    place: int
    key: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.place < 1 << 16:
            raise PartyArgumentError(f"place={self.place} of a party must be 0 to 65535")
        if len(self.key) != DIGEST_BYTES:
            raise PartyArgumentError(f"key of {len(self.key)} bytes: a public key has {DIGEST_BYTES}")

    def to_bytes(self) -> bytes:
        """Place and key, of fixed length."""
        return self.place.to_bytes(2, "little") + self.key


def session_digest(run: bytes, one: Seat, other: Seat, nonces: tuple[bytes, bytes]) -> bytes:
    """The digest that names a session of two parties, whose roster has the digest `run`.

    Different inputs are different texts, so that two sessions with one digest are a collision of SHA-256; and
    either side's nonce, which is fresh, makes it another one.  The nonces are those of `one` and of `other`;
    the digest is the same with both pairs exchanged.  Raises `PartyArgumentError` if the two have one place,
    or one key.
    """
    if one.place == other.place or one.key == other.key:
        raise PartyArgumentError(f"two parties must differ in place ({one.place}, {other.place}) and key")
    first, second = nonces if one.place < other.place else nonces[::-1]
    pair = pair_of((one.place, one.key), (other.place, other.key))
    return hashlib.sha256(length_prefixed([_SESSION, run, pair, first, second])).digest()


def direction_digest(session: bytes, sender: Seat, receiver: Seat) -> bytes:
    """The digest of one direction of a session: `sender` has the secret difference, `receiver` chooses."""
    texts = [_DIRECTION, session, sender.to_bytes(), receiver.to_bytes()]
    return hashlib.sha256(length_prefixed(texts)).digest()


@dataclass(frozen=True, order=True)
class Step:
    """A flight of an attempt of a round; steps are ordered as they happen.

    The numbers are below 2**32 (round), 2**16 (attempt) and 2**8 (flight).
    """

    round: int
    attempt: int
    flight: int

    def __post_init__(self) -> None:
        limits = {"round": 32, "attempt": 16, "flight": 8}
        for name, bits in limits.items():
            if not 0 <= getattr(self, name) < 1 << bits:
                raise PartyArgumentError(f"{name}={getattr(self, name)} must be 0 to {(1 << bits) - 1}")

    def to_bytes(self) -> bytes:
        """Seven bytes, which no other step has."""
        return struct.pack("<IHB", self.round, self.attempt, self.flight)

    def digest(self, context: bytes, *more: bytes) -> bytes:
        """A digest that names this step of a direction, or of a session, and what it is for."""
        return hashlib.sha256(length_prefixed([_STEP, context, self.to_bytes(), *more])).digest()
