"""Which public keys a session accepts, and which of them give the same secrets.

Keys come from parties that may collude, and both curves have more than a prime number of points.  So one key
has several spellings, there are keys that give all parties the same secret, and every key has *twins*: other
canonical keys whose secrets are the same as its own, with any other side.
"""

from __future__ import annotations

from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

KEY_BYTES = 32
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P)
"""Of Ed25519's curve, -x² + y² = 1 + d x² y²."""

_MULTIPLY = X25519PrivateKey.from_private_bytes(bytes(KEY_BYTES))
"""No secret, but a number: X25519 makes 2^254 of zeros, as it makes a multiple of 8 of every private key."""


@lru_cache(maxsize=4096)
def class_of_secrets(exchange_key: bytes) -> bytes:
    """The same bytes for two X25519 keys if, and only if, they give somebody the same secret.

    Proof.  A private key stands for a number 8m with 2^251 <= m < 2^252, the curve and its twist have 8 and 4
    times a prime number of points, and both primes are above 2^252.  So m is invertible modulo either, and
    8mP = ±8mQ if and only if P ∓ Q has an order that divides 8, whatever m is; 2^254 is one of these numbers.
    (A point of the curve and one of the twist never give the same.)

    Parameters
    ----------
    exchange_key : bytes
        32 bytes.

    Raises
    ------
    ValueError
        If the key is not canonical, that is below p = 2^255 - 19, or if its order divides 8, so that every
        secret would be zero.
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

    Parameters
    ----------
    signing_key : bytes
        32 bytes: y, and the lowest bit of x.

    Raises
    ------
    ValueError
        If y is not below p, there is no such point, or its order divides 8.
    """
    y = _number(signing_key[:-1] + bytes([signing_key[-1] & 0x7F]))
    if pow((y * y - 1) * (_D * y * y + 1), (_P - 1) // 2, _P) == _P - 1:
        raise ValueError("it is not a point of the curve")
    # The inverse modulo p, and 0 of 0.
    u = (1 + y) * pow(1 - y, _P - 2, _P) % _P
    class_of_secrets(u.to_bytes(KEY_BYTES, "little"))


def _number(key: bytes) -> int:
    number = int.from_bytes(key, "little")
    if len(key) != KEY_BYTES or number >= _P:
        raise ValueError("it is not canonical")
    return number
