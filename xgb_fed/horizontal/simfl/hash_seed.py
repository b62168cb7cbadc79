"""The hash seed that all parties agree on by commitment: neither a party nor the coordinator can choose it.

Each party draws 32 bytes and first sends their SHA-256 digest. It reveals the bytes only after it has seen
all digests, and the seed is the digest of all revealed bytes. One honest party thus makes it uniform (Blum,
1983).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from gbdt_parties.errors import ProtocolError
from xgb_fed.horizontal.common.party_state import SIZE

MAX_ABANDONED = 100
"""Seeds that may be revealed but not used: a coordinator that draws again until it likes one is stopped."""


def commitment_to(contribution: bytes, place: int) -> bytes:
    """Commitment of the party at a place among the parties, bound to the place so that none is a copy."""
    return hashlib.sha256(b"veilboost hash seed\0" + place.to_bytes(8, "little") + contribution).digest()


def seed_from(contributions: bytes) -> bytes:
    """The seed that all parties' contributions, one after the other, give."""
    return hashlib.sha256(b"veilboost hash functions\0" + contributions).digest()


def identity_of(seed: bytes) -> bytes:
    """Digest that tells seeds apart without giving the seed away."""
    return hashlib.sha256(b"veilboost seed name\0" + seed).digest()


def pieces(octets: bytes, n_parties: int) -> list[bytes]:
    """One piece of `SIZE` bytes per party; a ProtocolError says that there are more or fewer bytes."""
    if len(octets) != SIZE * n_parties:
        raise ProtocolError(f"{len(octets)} bytes for {n_parties} parties; {SIZE} per party are expected")
    return [octets[start : start + SIZE] for start in range(0, len(octets), SIZE)]


def agreed_seed(contributions: bytes, commitments: bytes) -> bytes:
    """The seed of all contributions; ProtocolError unless each matches its commitment."""
    if not commitments:
        raise ProtocolError("the parties have not agreed on a hash seed")
    committed = pieces(commitments, len(commitments) // SIZE)
    for place, (contribution, commitment) in enumerate(
        zip(pieces(contributions, len(committed)), committed, strict=True)
    ):
        if not hmac.compare_digest(commitment_to(contribution, place), commitment):
            raise ProtocolError(f"party {place} revealed another hash seed than it had committed to")
    return seed_from(contributions)


@dataclass
class SeedAgreement:
    """One party's part, at its place, in agreeing on a seed; its `SIZE` bytes are not revealed yet."""

    contribution: bytes
    place: int
    n_parties: int
    has_committed: bool = False
    commitments: bytes = b""

    def commit(self) -> bytes:
        """Return the commitment to this party's contribution; a ProtocolError the second time."""
        if self.has_committed:
            raise ProtocolError("a hash seed is committed to once in a session")
        self.has_committed = True
        return commitment_to(self.contribution, self.place)

    def check(self, commitments: bytes) -> None:
        """Check all commitments, which are then known, before the contribution is revealed.

        A ProtocolError before `commit`, the second time, or if this party's own commitment is not in its
        place.
        """
        if not self.has_committed or self.commitments:
            raise ProtocolError("a hash seed is revealed once in a session, after all parties have committed")
        told = pieces(commitments, self.n_parties)
        if not hmac.compare_digest(told[self.place], commitment_to(self.contribution, self.place)):
            raise ProtocolError("this party's commitment was replaced")
        self.commitments = commitments
