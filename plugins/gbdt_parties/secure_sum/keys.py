"""The keys, the nonce and the seed that a party draws for one session, and which public keys it accepts.

Keys come from parties that may collude, and both curves have more than a prime number of points.  So one key
has several spellings, there are keys that give all parties the same secret, and every key has *twins*: other
canonical keys whose secrets are the same as its own, with any other side.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gbdt_parties.errors import AuthenticationError

SIZE = 32
"""Bytes of every key, nonce, seed and digest."""

_COMMITMENT = b"veilboost secure sum seed 1\0"
_NOISE = b"veilboost secure sum noise 1\0"
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P)
"""Of Ed25519's curve, -x² + y² = 1 + d x² y²."""

_MULTIPLY = X25519PrivateKey.from_private_bytes(bytes(SIZE))
"""No secret, but a number: X25519 makes 2^254 of zeros, as it makes a multiple of 8 of every private key."""


def commitment_to(seed: bytes) -> bytes:
    """The digest that binds a party to its seed; uniform seeds of 32 bytes are hidden by it."""
    return hashlib.sha256(_COMMITMENT + seed).digest()


@dataclass(frozen=True)
class SessionKeys:
    """Secrets that a party draws for one session; seed and nonce have 32 bytes each."""

    exchange: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate, repr=False)
    signing: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate, repr=False)
    seed: bytes = field(default_factory=lambda: os.urandom(SIZE), repr=False)
    nonce: bytes = field(default_factory=lambda: os.urandom(SIZE))
    kem: MLKEM768PrivateKey = field(default_factory=MLKEM768PrivateKey.generate, repr=False)

    def to_secret(self) -> bytes:
        """Everything, for a file that only its owner can read: a restarted party goes on with its session."""
        keys = (self.exchange.private_bytes_raw(), self.signing.private_bytes_raw())
        return b"".join((*keys, self.seed, self.nonce, self.kem.private_bytes_raw()))

    @classmethod
    def from_secret(cls, secret: bytes) -> SessionKeys:
        """Read back what `to_secret` gave."""
        if len(secret) != 6 * SIZE:
            raise ValueError("not the keys of a session")
        exchange, signing, seed, nonce = (secret[i : i + SIZE] for i in range(0, 4 * SIZE, SIZE))
        return cls(
            X25519PrivateKey.from_private_bytes(exchange),
            Ed25519PrivateKey.from_private_bytes(signing),
            seed,
            nonce,
            MLKEM768PrivateKey.from_seed_bytes(secret[4 * SIZE :]),
        )

    def noise_key(self, roster: bytes, attempt: bytes) -> bytes:
        """Key of the noise of one attempt, 32 bytes, where an auditor is to draw it again.

        The signing key in the party's introduction binds it, and no other party can compute it.  An attempt
        has the digest of seeds that all parties have revealed after they were introduced, so that no party
        can choose its noise by its key.  The roster's digest covers the session; of the attempt, round,
        members and question count, whatever its number: no other vector gets the same noise.
        """
        hkdf = HKDF(hashes.SHA256(), SIZE, salt=roster, info=_NOISE + attempt)
        return hkdf.derive(self.signing.private_bytes_raw())

    def secret_with(self, public_key: bytes) -> bytes:
        """Secret that only this party and the holder of another key know.

        An AuthenticationError says that the key is none, or one of those that give all parties the same
        secret.
        """
        try:
            return self.exchange.exchange(X25519PublicKey.from_public_bytes(public_key))
        except ValueError:
            raise AuthenticationError("a party's public key for masks is not usable") from None

    def decapsulated(self, ciphertext: bytes) -> bytes:
        """The secret in a ciphertext, or another one if it was not made for this party's key."""
        try:
            return self.kem.decapsulate(ciphertext)
        except ValueError:
            raise AuthenticationError("a ciphertext of ML-KEM-768 has not 1088 bytes") from None


@lru_cache(maxsize=4096)
def class_of_secrets(exchange_key: bytes) -> bytes:
    """The same bytes for two X25519 keys if, and only if, they give somebody the same secret.

    Proof.  A private key stands for a number 8m with 2^251 <= m < 2^252, the curve and its twist have 8 and 4
    times a prime number of points, and both primes are above 2^252.  So m is invertible modulo either, and
    8mP = ±8mQ if and only if P ∓ Q has an order that divides 8, whatever m is; 2^254 is one of these numbers.
    (A point of the curve and one of the twist never give the same.)

    A ValueError says that the key is not canonical, that is below p = 2^255 - 19, or that its order divides
    8, so that every secret would be zero.
    """
    _number(exchange_key)
    try:
        return _MULTIPLY.exchange(X25519PublicKey.from_public_bytes(exchange_key))
    except ValueError:
        raise ValueError("it is of small order") from None


@lru_cache(maxsize=4096)
def check_signing_key(signing_key: bytes) -> None:
    """Check an Ed25519 key: under one of small order, one signature is good for many messages.

    Proof.  u = (1 + y) / (1 - y) maps Ed25519's curve to X25519's, and orders to orders, but for the neutral
    element and the point of order 2, which are both mapped to u = 0.

    The key is y, and the lowest bit of x.  A ValueError says that y is not below p, that there is no such
    point, or that its order divides 8.
    """
    y = _number(signing_key[:-1] + bytes([signing_key[-1] & 0x7F]))
    if pow((y * y - 1) * (_D * y * y + 1), (_P - 1) // 2, _P) == _P - 1:
        raise ValueError("it is not a point of the curve")
    # The inverse modulo p, and 0 of 0.
    u = (1 + y) * pow(1 - y, _P - 2, _P) % _P
    class_of_secrets(u.to_bytes(SIZE, "little"))


@lru_cache(maxsize=4096)
def is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a message is signed by a key; several parties of one process check the same signatures."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _number(key: bytes) -> int:
    number = int.from_bytes(key, "little")
    if len(key) != SIZE or number >= _P:
        raise ValueError("it is not canonical")
    return number
