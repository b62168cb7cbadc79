"""The roster of a session: who takes part, under which keys, their public stream, and the end they sign."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from gbdt_commons.quoting import quoted
from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.secure_sum.keys import (
    SIZE,
    SessionKeys,
    check_signing_key,
    class_of_secrets,
    commitment_to,
    is_signed,
)
from gbdt_parties.secure_sum.messages import MAX_PARTIES, pack, unpack
from gbdt_parties.secure_sum.trust import AllowList, Credentials, check_signature, key_pin

FORMAT = 3
"""Of introductions: parties of different formats would derive different masks, and share no roster."""

_DOMAIN, _STREAM = b"veilboost secure sum session 2\0", b"veilboost secure sum stream 1\0"
_END = b"veilboost secure sum end 1\0"
_FORMAT = b"veilboost introduction %d"
SESSION_BYTES = 16


@dataclass(frozen=True)
class Introduction:
    """How a party introduces itself for a session.

    The name is the common name of its certificate, the first of those in PEM.  The nonce, 32 bytes, is fresh;
    the public keys are of X25519, Ed25519 and ML-KEM-768, and the commitment is to its seed.
    """

    name: str
    certificates: bytes
    nonce: bytes
    exchange_key: bytes
    signing_key: bytes
    commitment: bytes
    kem_key: bytes

    @classmethod
    def of(cls, name: str, credentials: Credentials, keys: SessionKeys) -> Introduction:
        """A party's introduction."""
        return cls(name, credentials.certificates, **public_keys(keys))

    def to_bytes(self) -> bytes:
        """Format and all fields, each after its length: no two introductions have the same bytes."""
        return pack([_FORMAT % FORMAT, *self._parts])

    @property
    def _parts(self) -> list[bytes]:
        return [self.name.encode(), *(getattr(self, f.name) for f in fields(self)[1:])]

    @property
    def of_draws(self) -> bytes:
        """All that public draws follow from, as format 2 wrote it: keys of ML-KEM-768 change no tree."""
        return pack([_FORMAT % 2, *self._parts[:-1]])

    @classmethod
    def from_bytes(cls, data: bytes) -> Introduction:
        """Read what `to_bytes` wrote; ProtocolError for anything else, also of another format."""
        n_fields, parts = len(fields(cls)), unpack(data)
        other = next((k for k in range(2, FORMAT) if parts[:1] == [_FORMAT % k]), None)
        if len(parts) == n_fields - 1 and parts[0] != _FORMAT % FORMAT:
            other = 1  # which did not say so
        if other is not None:
            raise ProtocolError(
                f"an introduction of format {other}, not {FORMAT}: another release of veilboost made it"
            )
        if len(parts) != 1 + n_fields or parts[0] != _FORMAT % FORMAT:
            raise ProtocolError(f"an introduction that is not of format {FORMAT}")
        name, certificates, *numbers = parts[1:]
        if any(len(number) != size for number, size in zip(numbers, _SIZES, strict=True)):
            raise ProtocolError(f"an introduction has numbers of other lengths than {_SIZES} bytes")
        try:
            return cls(name.decode(), certificates, *numbers)
        except UnicodeDecodeError:
            raise ProtocolError("the name in an introduction is not UTF-8") from None


def public_keys(keys: SessionKeys) -> dict[str, bytes]:
    """The parts of an introduction that follow from a session's keys."""
    return {
        "nonce": keys.nonce,
        "exchange_key": keys.exchange.public_key().public_bytes_raw(),
        "signing_key": keys.signing.public_key().public_bytes_raw(),
        "commitment": commitment_to(keys.seed),
        "kem_key": keys.kem.public_key().public_bytes_raw(),
    }


@dataclass(frozen=True)
class Roster:
    """All participants of a session of 16 bytes, in an order that they agree on.

    The statement, 32 bytes, is a digest of what the session is for, which all must agree on.  A ProtocolError
    says that a name, certificate, key, nonce or commitment occurs twice, or that there are fewer than two
    parties.
    """

    session: bytes
    statement: bytes
    introductions: tuple[Introduction, ...]

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES or len(self.statement) != SIZE:
            raise ProtocolError("a roster has a session of 16 bytes and a statement of 32")
        if not 2 <= len(self.introductions) <= MAX_PARTIES:
            raise ProtocolError(
                f"a roster of {len(self.introductions)} parties; 2 to {MAX_PARTIES} are accepted"
            )
        unique = {name: [getattr(one, name) for one in self.introductions] for name in _UNIQUE}
        # Two certificates of one key are one holder's, who would stand for two parties, also behind one pin.
        unique["key of a certificate"] = [key_pin(one.certificates) for one in self.introductions]
        for what, values in unique.items():
            if len(set(values)) < len(values):
                raise ProtocolError(f"two parties of a roster have the same {what.replace('_', ' ')}")

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that stand for all of it."""
        return self._digest([one.to_bytes() for one in self.introductions])

    @cached_property
    def of_draws(self) -> bytes:
        """32 bytes that public draws follow from, which no party could choose: nonces of all go in."""
        return self._digest([one.of_draws for one in self.introductions])

    def _digest(self, parts: Sequence[bytes]) -> bytes:
        return hashlib.sha256(_DOMAIN + pack([self.session, self.statement, *parts])).digest()

    @property
    def names(self) -> list[str]:
        """The parties' names."""
        return [one.name for one in self.introductions]

    def place_of(self, own: Introduction) -> int:
        """A party's place; ProtocolError if it is not there as it introduced itself."""
        if own not in self.introductions:
            raise ProtocolError("this party is not in the roster as it introduced itself")
        return self.introductions.index(own)

    def check_members(self, own: Introduction, allowed: AllowList) -> None:
        """AuthenticationError, by name, unless all other parties are on a party's allow-list."""
        for one in self.introductions:
            if one != own:
                allowed.check(one.certificates, one.name)

    def check_keys(self) -> None:
        """Check that every public key is usable, and that no two for masks give the same secrets.

        Masks are bound to both keys of a pair, so that they differ even where secrets do not.  But a party
        whose key gives the secrets of another one does not know them, and does not follow the protocol.  An
        AuthenticationError names the owner of the key.
        """
        owners: dict[bytes, str] = {}
        for one in self.introductions:
            name, purpose = quoted(one.name), "masks"
            try:
                secrets = class_of_secrets(one.exchange_key)
                purpose = "signatures"
                check_signing_key(one.signing_key)
            except ValueError as error:
                raise AuthenticationError(
                    f"the public key for {purpose} of party {name!r} is not usable: {error}"
                ) from None
            if secrets in owners:
                raise AuthenticationError(
                    f"the public keys for masks of parties {owners[secrets]!r} and {name!r} give the same "
                    "secrets: one is made of the other"
                )
            owners[secrets] = name

    def check_endorsements(self, endorsements: Sequence[bytes]) -> None:
        """Check that all parties signed this roster.

        An AuthenticationError names the first that did not.
        """
        if len(endorsements) != len(self.introductions):
            raise AuthenticationError(
                f"{len(endorsements)} signatures for a roster of {len(self.introductions)} parties"
            )
        for one, signature in zip(self.introductions, endorsements, strict=True):
            check_signature(one.certificates, self.digest, signature, one.name)

    def public_seed(self, seeds: Mapping[int, bytes]) -> bytes:
        """A key of 32 bytes for the public stream, from all parties' seeds.

        An honest party has drawn its seed at random and revealed it after all were committed, so that no
        party could choose the result; one that did not like it could only stop the session.  A ProtocolError
        says that a seed is missing, or is not the one that its party is committed to.
        """
        for place, one in enumerate(self.introductions):
            if commitment_to(seeds.get(place, b"")) != one.commitment:
                raise ProtocolError(
                    f"the seed of party {quoted(one.name)!r} is not the one that it is committed to"
                )
        parts = (seeds[place] for place in range(len(self.introductions)))
        return hashlib.sha256(_STREAM + pack([self.of_draws, *parts])).digest()

    def to_bytes(self) -> bytes:
        """The whole roster."""
        return pack([self.session, self.statement, *(one.to_bytes() for one in self.introductions)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Roster:
        """Read what `to_bytes` wrote; raises a ProtocolError if the bytes are anything else."""
        parts = unpack(data)
        if len(parts) < 2:
            raise ProtocolError(f"{len(parts)} parts where a roster was expected")
        session, statement, *parts = parts
        return cls(session, statement, tuple(Introduction.from_bytes(part) for part in parts))


@dataclass(frozen=True)
class SignedEnd:
    """The end of a run, and the parties that have signed it with the keys of their roster.

    A party signs one end of a run. Of two ends that more than half have signed, some party signed both, and
    the signatures show which one. `endorsements` are the certificates' signatures of the roster, `transcript`
    32 bytes that stand for it and all attempts and sums that were opened, `digests` the SHA-256 of the model
    and of each part that is sent with it, `signatures` in the roster's order, empty for a party that has not
    signed.
    """

    roster: Roster
    endorsements: Sequence[bytes]
    transcript: bytes
    digests: Sequence[bytes]
    signatures: Sequence[bytes]

    def __post_init__(self) -> None:
        if not self.digests or {len(one) for one in (self.transcript, *self.digests)} != {SIZE}:
            raise ProtocolError("the end of a run has a transcript and digests of 32 bytes")
        if len(self.signatures) != len(self.roster.introductions):
            raise ProtocolError("the end of a run has other signatures than one for each place in the roster")

    @property
    def message(self) -> bytes:
        """Everything that is signed; no two ends have the same."""
        return _END + pack([self.roster.digest, self.transcript, *self.digests])

    @property
    def signers(self) -> list[Introduction]:
        """The parties that have signed, in the roster's order."""
        return [own for own, one in zip(self.roster.introductions, self.signatures, strict=True) if one]

    def check(self, least: int) -> None:
        """Check that certificates have signed the roster, and at least so many of its parties this end.

        An AuthenticationError names the party whose signature is of something else, or those that have
        signed.
        """
        self.roster.check_endorsements(self.endorsements)
        for own, one in zip(self.roster.introductions, self.signatures, strict=True):
            if one and not is_signed(own.signing_key, one, self.message):
                raise AuthenticationError(
                    f"party {quoted(own.name)!r} has not signed this end of the run: it has another model, "
                    "other sums, or none"
                )
        names = [quoted(one.name) for one in self.signers]
        if len(names) < least:
            raise AuthenticationError(
                f"of {len(self.signatures)} parties, only {names} have signed the end of the run; at least "
                f"{least} must"
            )

    def to_json(self) -> str:
        """All of it, in hexadecimal digits."""
        single = {"roster": self.roster.to_bytes().hex(), "transcript": self.transcript.hex()}
        return json.dumps({**single, **{name: [one.hex() for one in getattr(self, name)] for name in _LISTS}})

    @classmethod
    def from_json(cls, text: str) -> SignedEnd:
        """Read what `to_json` wrote; raises a ProtocolError if the text is anything else."""
        try:
            values = json.loads(text)
            roster = Roster.from_bytes(bytes.fromhex(values["roster"]))
            roster.check_keys()
            lists = {name: [bytes.fromhex(one) for one in values[name]] for name in _LISTS}
            return cls(roster, transcript=bytes.fromhex(values["transcript"]), **lists)
        except (ValueError, TypeError, LookupError, RecursionError):
            raise ProtocolError("signatures of the end of a run that cannot be read") from None


_LISTS = ("endorsements", "digests", "signatures")
_UNIQUE = ("name", "nonce", "exchange_key", "signing_key", "commitment", "kem_key")
_SIZES = (*[SIZE] * 4, 1184)
