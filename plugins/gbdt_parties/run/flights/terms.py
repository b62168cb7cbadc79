"""Terms of a run of two parties: who computes with whom, under which keys, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gbdt_commons.quoting import quoted
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import AuthenticationError, PartyArgumentError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.secure_sum.keys import check_signing_key, commitment_to
from gbdt_parties.secure_sum.trust import key_pin
from gbdt_parties.two_party.names import DIGEST_BYTES, Seat

SIGNATURE_BYTES = 64
MAX_ROUNDS = 60_000
_SPARE_ATTEMPTS = 5
_DOMAIN = b"veilboost two-party signature 1"


def attempts_at(n_rounds: int) -> int:
    """Attempts that all rounds may have together, so that noise is planned for as many."""
    return n_rounds + max(_SPARE_ATTEMPTS, -(-n_rounds // 20))


@dataclass(frozen=True)
class Terms:
    """The things that one party's side of a run is bound to.

    `run` is the digest of the roster that both signed; seats are places there, with public keys of Ed25519.
    The other party has a name for errors, and one over all runs, that of its certificate's key.  This
    party is committed to its seed, 32 secret bytes, in the roster.  An AuthenticationError if the other
    party's key is not usable, a PartyArgumentError if another argument is out of range.
    """

    run: bytes
    own: Seat
    other: Seat
    name: str
    peer: str
    seed: bytes = field(repr=False)
    signing: Ed25519PrivateKey = field(repr=False)
    n_rounds: int

    def __post_init__(self) -> None:
        for name, value in (("run", self.run), ("seed", self.seed)):
            if len(value) != DIGEST_BYTES:
                raise PartyArgumentError(f"{name} of {len(value)} bytes: it must have {DIGEST_BYTES}")
        if not 1 <= self.n_rounds <= MAX_ROUNDS:
            raise PartyArgumentError(f"n_rounds={self.n_rounds} must be 1 to {MAX_ROUNDS}")
        if self.own.place == self.other.place or self.own.key == self.other.key:
            raise PartyArgumentError("two parties must differ in place and key")
        if self.signing.public_key().public_bytes_raw() != self.own.key:
            raise PartyArgumentError("signing is not the private key of this party's seat")
        try:
            check_signing_key(self.other.key)
        except ValueError as error:
            raise AuthenticationError(
                f"the public key for signatures of party {quoted(self.name)!r} is not usable: {error}"
            ) from None

    @classmethod
    def of(cls, agreement: Agreement, n_rounds: int) -> Terms:
        """Terms of an agreement of two parties that both have signed, with the seed that is committed to."""
        agreement.check_signed()
        roster, own, keys = agreement.roster, agreement.introduction, agreement.keys
        if len(roster.introductions) != 2:
            raise PartyArgumentError(f"a roster of {len(roster.introductions)} parties; two compute here")
        roster.check_keys()
        place = roster.place_of(own)
        if commitment_to(keys.seed) != own.commitment:
            raise PartyArgumentError("keys have another seed than the one that the roster is committed to")
        other = roster.introductions[1 - place]
        return cls(
            roster.of_draws,  # columns apart have no masks, and so no use for keys of ML-KEM-768
            Seat(place, own.signing_key),
            Seat(1 - place, other.signing_key),
            other.name,
            key_pin(other.certificates),
            keys.seed,
            keys.signing,
            n_rounds,
        )

    @property
    def max_attempts(self) -> int:
        """Attempts at all rounds together: each of them may be charged for."""
        return attempts_at(self.n_rounds)

    @property
    def is_first(self) -> bool:
        """Whether this party has the lower place."""
        return self.own.place < self.other.place

    def in_order(self, own: bytes, other: bytes) -> list[bytes]:
        """Messages of both sides, in an order on which they agree."""
        return [own, other] if self.is_first else [other, own]

    def sign(self, purpose: bytes, digest: bytes) -> bytes:
        """Sign a digest for a purpose."""
        return self.signing.sign(self._signed(self.own, purpose, digest))

    def check_signature(self, purpose: bytes, digest: bytes, signature: bytes) -> None:
        """Check that the other party signed a digest for a purpose; an AuthenticationError if it did not."""
        key = Ed25519PublicKey.from_public_bytes(self.other.key)
        try:
            key.verify(signature, self._signed(self.other, purpose, digest))
        except InvalidSignature:
            raise AuthenticationError(
                f"party {quoted(self.name)!r} did not sign this side's {purpose.decode()}"
            ) from None

    def _signed(self, seat: Seat, purpose: bytes, digest: bytes) -> bytes:
        """Text that is signed: neither another purpose, run or signer's."""
        return length_prefixed([_DOMAIN, purpose, self.run, seat.to_bytes(), digest])
