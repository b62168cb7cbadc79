"""Public keys of every scheme, from bytes."""

from __future__ import annotations

from xgb_fed.ciphers.base import PublicKey
from xgb_fed.ciphers.plain import Plain
from xgb_fed.ciphers.residue_key import ResidueKey, unpack_key


def read_public_key(data: bytes) -> PublicKey:
    """The active party's public key, of whatever scheme."""
    message = unpack_key(data)
    return Plain.from_public_bytes(data) if message.scheme == "plain" else ResidueKey.from_public_bytes(data)
