"""Secrets of pairs by ML-KEM-768, beside those by X25519: the later party of two encapsulates to the earlier.

A party signs the digests of its ciphertexts with the key of its introduction, so that all parties agree on
all ciphertexts, though each is sent its own alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey

from gbdt_commons.quoting import quoted
from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.secure_sum.keys import SIZE, SessionKeys, is_signed
from gbdt_parties.secure_sum.messages import pack, unpack
from gbdt_parties.secure_sum.roster import Roster

CIPHERTEXT_BYTES, _SIGNATURE_BYTES = 1088, 64
_DOMAIN, _CONFIRMED = b"veilboost encapsulations 1\0", b"veilboost confirmed roster 1\0"


@dataclass(frozen=True)
class Encapsulations:
    """Secrets of 32 bytes for all earlier parties of a roster, and their ciphertexts, in its order."""

    secrets: bytes
    ciphertexts: bytes

    @classmethod
    def to_earlier(cls, roster: Roster, place: int) -> Encapsulations:
        """Fresh ones, of the party at a place; an AuthenticationError names the owner of a wrong key."""
        made = []
        for one in roster.introductions[:place]:
            try:
                made.append(MLKEM768PublicKey.from_public_bytes(one.kem_key).encapsulate())
            except ValueError:
                raise AuthenticationError(
                    f"the ML-KEM-768 key of party {quoted(one.name)!r} is not usable"
                ) from None
        return cls(b"".join(secret for secret, _ in made), b"".join(sent for _, sent in made))

    def signed(self, roster: Roster, place: int, keys: SessionKeys) -> bytes:
        """The message to the coordinator: a signature, and the ciphertexts."""
        return keys.signing.sign(_said(roster, place, _digests(self.ciphertexts))) + self.ciphertexts


@dataclass(frozen=True)
class PairSecrets:
    """Shared with each other party, by its place; the digest stands for the roster and all ciphertexts."""

    secrets: dict[int, bytes]
    ciphertexts: dict[int, bytes]
    digest: bytes

    @classmethod
    def of(
        cls, roster: Roster, place: int, keys: SessionKeys, own: Encapsulations, forwarded: bytes
    ) -> PairSecrets:
        """Check what the coordinator has forwarded, and decapsulate.

        An AuthenticationError names the party that has not signed what it is said to have sent, or a
        ciphertext of which has another digest; a ProtocolError says that something is missing.
        """
        n, parts = len(roster.introductions), unpack(forwarded)
        if len(parts) != 2 * n - place - 1:
            raise ProtocolError(
                f"{len(parts)} parts of ciphertexts, not {2 * n - place - 1}: digests of {n} parties, and a "
                "ciphertext of each that is later in the roster"
            )
        heads, received = parts[:n], dict(enumerate(parts[n:], start=place + 1))
        for k, (one, head) in enumerate(zip(roster.introductions, heads, strict=True)):
            signature, digests = head[:_SIGNATURE_BYTES], head[_SIGNATURE_BYTES:]
            is_whole = len(digests) == SIZE * k and (k != place or digests == _digests(own.ciphertexts))
            if not is_whole or not is_signed(one.signing_key, signature, _said(roster, k, digests)):
                raise AuthenticationError(
                    f"the ciphertexts of party {quoted(one.name)!r} are not those it signed"
                )
            sent = received.get(k, b"")
            if k > place and hashlib.sha256(sent).digest() != digests[SIZE * place :][:SIZE]:
                raise AuthenticationError(
                    f"a ciphertext of party {quoted(one.name)!r} is not the one that it signed"
                )
        secrets = {k: own.secrets[SIZE * k :][:SIZE] for k in range(place)}
        secrets |= {k: keys.decapsulated(sent) for k, sent in received.items()}
        size = CIPHERTEXT_BYTES
        ciphertexts = {k: own.ciphertexts[size * k :][:size] for k in range(place)} | received
        said = pack([roster.digest, *(head[_SIGNATURE_BYTES:] for head in heads)])
        return cls(secrets, ciphertexts, hashlib.sha256(_CONFIRMED + said).digest())


def forwarded_to(place: int, names: Sequence[str], sent: Sequence[bytes]) -> bytes:
    """The part of all messages that is forwarded to a party: all digests, and its own ciphertexts.

    A ProtocolError names the party that has not sent one ciphertext for each earlier one.
    """
    heads, own = [], []
    for k, (name, one) in enumerate(zip(names, sent, strict=True)):
        ciphertexts = one[_SIGNATURE_BYTES:]
        if len(one) != _SIGNATURE_BYTES + CIPHERTEXT_BYTES * k:
            raise ProtocolError(f"party {name!r} sent {len(one)} bytes in place of {k} signed ciphertexts")
        heads.append(one[:_SIGNATURE_BYTES] + _digests(ciphertexts))
        if k > place:
            own.append(ciphertexts[CIPHERTEXT_BYTES * place :][:CIPHERTEXT_BYTES])
    return pack([*heads, *own])


def _digests(ciphertexts: bytes) -> bytes:
    starts = range(0, len(ciphertexts), CIPHERTEXT_BYTES)
    return b"".join(hashlib.sha256(ciphertexts[k : k + CIPHERTEXT_BYTES]).digest() for k in starts)


def _said(roster: Roster, place: int, digests: bytes) -> bytes:
    return _DOMAIN + roster.digest + place.to_bytes(2, "little") + digests
