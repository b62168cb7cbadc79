"""Masked and signed vectors: how a party makes its own, and adds up all of them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gbdt_commons.key_stream import KeyStream
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.secure_sum.encapsulations import PairSecrets
from gbdt_parties.secure_sum.keys import SIZE, SessionKeys, is_signed
from gbdt_parties.secure_sum.masks import mask_stream, masked, pair_of, signs
from gbdt_parties.secure_sum.rings import Ring, Words, WordStream
from gbdt_parties.secure_sum.roster import Introduction, Roster

_DOMAIN = b"veilboost secure sum contribution 2\0"
_HEAD = struct.Struct("<HHQ")
_NUMBERS = struct.Struct("<QQH")
SIGNATURE_BYTES = 64
MAX_NUMBER = 2**63
"""Numbers of rounds and attempts are below."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at one sum, over the vectors of members whose places in the roster ascend.

    Attempts of a session are numbered through, so that none is made twice.  The question is a digest of what
    is being answered, 32 bytes, which every member computes for itself.
    """

    round: int
    number: int
    members: tuple[int, ...]
    question: bytes

    def check(self, own: int | None, roster: Roster, min_parties: int) -> None:
        """Check that a party may take part, or, without `own`, that it may open the sum of others.

        A ProtocolError says that the members are not different places of the roster in order, that the party
        is not among them, that they are fewer than it demands, or that the attempt has no number.
        """
        if not (0 <= self.round < MAX_NUMBER and 0 < self.number < MAX_NUMBER):
            raise ProtocolError("rounds and attempts are numbered from 0 and 1 on")
        n_places, members = len(roster.introductions), self.members
        if (
            list(members) != sorted(set(members))
            or not members
            or not 0 <= members[0] <= members[-1] < n_places
        ):
            raise ProtocolError("the members of an attempt must be different places of the roster, in order")
        if own is not None and own not in members:
            raise ProtocolError("this party is not a member of the attempt")
        if len(members) < min_parties:
            raise ProtocolError(
                f"a sum over {len(members)} parties; this party demands at least {min_parties}"
            )

    def to_bytes(self) -> bytes:
        """All of it; no two attempts have the same bytes."""
        places = struct.pack(f"<{len(self.members)}H", *self.members)
        return _NUMBERS.pack(self.round, self.number, len(self.members)) + places + self.question


class SecureSession:
    """One party's side of a session whose roster all parties have signed.

    The roster is checked: `Roster.check_members` and `Roster.check_endorsements`; `pairs` are the secrets by
    ML-KEM-768.  An AuthenticationError says that somebody's public key is not usable (`Roster.check_keys`).
    """

    def __init__(self, keys: SessionKeys, roster: Roster, own: Introduction, pairs: PairSecrets) -> None:
        roster.check_keys()
        self._confirmed = pairs.digest
        self.roster, self.place = roster, roster.place_of(own)
        self._signing = keys.signing
        self._signed = b"", b""
        self._secrets: dict[int, bytes] = {}
        self._pairs: dict[int, bytes] = {}
        for place, one in enumerate(roster.introductions):
            if place != self.place:
                self._secrets[place] = keys.secret_with(one.exchange_key) + pairs.secrets[place]
                pair = pair_of((self.place, own.exchange_key), (place, one.exchange_key))
                kem_key = roster.introductions[min(place, self.place)].kem_key
                # A digest of the long part: it goes into every mask.
                self._pairs[place] = pair + hashlib.sha256(kem_key + pairs.ciphertexts[place]).digest()

    def streams(self, attempt: Attempt) -> dict[int, KeyStream]:
        """The masks of an attempt that this party shares with each other member, by its place."""
        what = attempt.to_bytes()
        return {
            other: mask_stream(self._secrets[other], self._pairs[other], self._confirmed, what)
            for other in attempt.members
            if other != self.place
        }

    def contribute(self, attempt: Attempt, ring: Ring, values: Words) -> bytes:
        """A masked, signed vector of this party for a checked attempt, answered once by the caller."""
        streams, added, subtracted = self.streams(attempt), list[WordStream](), list[WordStream]()
        for other, sign in signs(self.place, attempt.members).items():
            (added if sign > 0 else subtracted).append(streams[other])
        head, digest, chunks = _HEAD.pack(self.place, ring.bits, len(values)), hashlib.sha256(), list[bytes]()
        for chunk in masked(ring, values, added, subtracted):
            chunks.append(ring.to_bytes(chunk))
            digest.update(chunks[-1])
        message = self._what_is_signed(attempt) + head + digest.digest()
        signature = self._signing.sign(message)
        self._signed = signature, message
        return b"".join([head, *chunks, signature])

    def sign(self, message: bytes) -> bytes:
        """Sign with the session's key; the same message has the same signature."""
        return self._signing.sign(message)

    def _what_is_signed(self, attempt: Attempt) -> bytes:
        """Bytes that a signature covers, before the head and the digest of the vector."""
        return _DOMAIN + self._confirmed + hashlib.sha256(attempt.to_bytes()).digest()

    def add_up(
        self, attempt: Attempt, ring: Ring, n_values: int, contributions: Mapping[int, bytes]
    ) -> Words:
        """The sum of all members' vectors, each checked and added by this party itself.

        Its range is left to the caller.  A ProtocolError says that the contributions, by their places, are
        not those of exactly the members, or that one has not so many values; an AuthenticationError, that one
        is not signed by its member for this attempt.
        """
        if tuple(sorted(contributions)) != attempt.members:
            raise ProtocolError("a sum needs one contribution of each member of the attempt")
        total, signed = ring.zeros(n_values), self._what_is_signed(attempt)
        for place in attempt.members:
            total = ring.add(total, self._verified(signed, ring, n_values, place, contributions[place]))
        return total

    def _verified(self, signed: bytes, ring: Ring, n_values: int, place: int, received: bytes) -> Words:
        name = quoted(self.roster.introductions[place].name)
        if len(received) != _HEAD.size + 8 * ring.words_per_value * n_values + SIGNATURE_BYTES:
            raise ProtocolError(
                f"the contribution of party {name!r} does not have the {n_values} values asked for"
            )
        head, vector = received[: _HEAD.size], received[_HEAD.size : -SIGNATURE_BYTES]
        signed += head + hashlib.sha256(vector).digest()
        key, signature = self.roster.introductions[place].signing_key, received[-SIGNATURE_BYTES:]
        is_own = place == self.place and (signature, signed) == self._signed
        # A signature that this party made of the same bytes need not be verified.
        if not is_own and not is_signed(key, signature, signed):
            raise AuthenticationError(
                f"the contribution of party {name!r} is not signed by it for this attempt"
            )
        if _HEAD.unpack(head) != (place, ring.bits, n_values):
            raise ProtocolError("a contribution is of another party, or of other numbers")
        return ring.from_bytes(vector)


def question_digest(parts: Sequence[bytes]) -> bytes:
    """32 bytes that stand for a question: its parts, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    assert digest.digest_size == SIZE
    return digest.digest()
