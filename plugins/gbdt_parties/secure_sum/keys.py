"""The keys, the nonce and the seed that a party draws for one session."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from gbdt_parties.errors import AuthenticationError

SIZE = 32
"""Bytes of every key, nonce, seed and digest."""

_COMMITMENT = b"veilboost secure sum seed 1\0"


def commitment_to(seed: bytes) -> bytes:
    """The digest that binds a party to its seed; uniform seeds of 32 bytes are hidden by it."""
    return hashlib.sha256(_COMMITMENT + seed).digest()


@dataclass(frozen=True)
class SessionKeys:
    """Secrets that a party draws for one session.

    Parameters
    ----------
    exchange : X25519PrivateKey
    signing : Ed25519PrivateKey
    seed, nonce : bytes
        32 bytes each.
    """

    exchange: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate, repr=False)
    signing: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate, repr=False)
    seed: bytes = field(default_factory=lambda: os.urandom(SIZE), repr=False)
    nonce: bytes = field(default_factory=lambda: os.urandom(SIZE))

    def to_secret(self) -> bytes:
        """Everything, for a file that only its owner can read: a restarted party goes on with its session."""
        keys = (self.exchange.private_bytes_raw(), self.signing.private_bytes_raw())
        return b"".join((*keys, self.seed, self.nonce))

    @classmethod
    def from_secret(cls, secret: bytes) -> SessionKeys:
        """Read back what `to_secret` gave."""
        if len(secret) != 4 * SIZE:
            raise ValueError("not the keys of a session")
        exchange, signing, seed, nonce = (secret[i : i + SIZE] for i in range(0, 4 * SIZE, SIZE))
        return cls(
            X25519PrivateKey.from_private_bytes(exchange),
            Ed25519PrivateKey.from_private_bytes(signing),
            seed,
            nonce,
        )

    def secret_with(self, public_key: bytes) -> bytes:
        """Secret that only this party and the holder of another key know.

        Raises
        ------
        AuthenticationError
            If the key is none, or one of those that give all parties the same secret.
        """
        try:
            return self.exchange.exchange(X25519PublicKey.from_public_bytes(public_key))
        except ValueError:
            raise AuthenticationError("a party's public key for masks is not usable") from None
