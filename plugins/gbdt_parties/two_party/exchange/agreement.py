"""The way of one party to the terms of a run: it introduces itself, signs a roster, keeps both signatures.

The seed to which a party commits itself stays with it, unlike that of a secure sum: its noise is drawn from
it.  So the stream of public draws follows from the roster alone, which has fresh nonces of both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import ProtocolError
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.two_party.exchange.terms import Terms

_PUBLIC_STREAM = b"veilboost two-party public stream 1"
_FORMAT = 1


class Agreement:
    """One party's part in agreeing on a run with one other party.

    Parameters
    ----------
    name : str
        The common name of its certificate.
    credentials : Credentials
    allowed : AllowList
        Parties that it computes with.
    run : bytes
        16 bytes.

    Attributes
    ----------
    introduction : Introduction
    """

    def __init__(self, name: str, credentials: Credentials, allowed: AllowList, run: bytes) -> None:
        self.run, self._credentials, self._allowed = run, credentials, allowed
        self._keys = SessionKeys()
        self.introduction = Introduction.of(name, credentials, self._keys)
        self._roster: Roster | None = None
        self._signatures: tuple[bytes, ...] = ()

    @classmethod
    def kept(
        cls, values: Mapping[str, Any], credentials: Credentials, allowed: AllowList, run: bytes
    ) -> Agreement:
        """An agreement as `to_dict` wrote it; whether the other party is allowed is checked again.

        Raises
        ------
        ProtocolError
            If it is of another format, or damaged.
        AuthenticationError
            If the other party is not allowed any more, or its certificate has expired.
        """
        kept = _Kept.of(values)
        found = cls(kept.introduction.name, credentials, allowed, run)
        found._keys, found.introduction = kept.keys, kept.introduction
        found._check(kept.roster, kept.roster.statement)
        found._roster = kept.roster
        found.confirm(kept.signatures)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything that a restarted party needs, in JSON's types; secret, for the keys in it."""
        return {
            "format": _FORMAT,
            "keys": self._keys.to_secret().hex(),
            "introduction": self.introduction.to_bytes().hex(),
            "roster": self.roster.to_bytes().hex(),
            "signatures": [one.hex() for one in self._signatures],
        }

    @property
    def roster(self) -> Roster:
        """The roster that this party has signed; a ProtocolError before."""
        if self._roster is None:
            raise ProtocolError("there is no roster yet")
        return self._roster

    def endorse(self, roster: Roster, statement: bytes) -> bytes:
        """Sign a roster of this run, of two parties that accept each other.

        Parameters
        ----------
        roster : Roster
        statement : bytes
            32 bytes that stand for all settings, as this party understands them.

        Raises
        ------
        ProtocolError, AuthenticationError
            If it is anything else.
        """
        if self._roster is not None and roster != self._roster:
            raise ProtocolError("another roster was signed in this run")
        self._check(roster, statement)
        self._roster = roster
        return self._credentials.sign(roster.digest)

    def _check(self, roster: Roster, statement: bytes) -> None:
        if roster.session != self.run:
            raise ProtocolError("the roster is of another run")
        if roster.statement != statement:
            raise ProtocolError(
                "the roster is for other settings, columns or rows than this party has worked out"
            )
        if len(roster.introductions) != 2:
            raise ProtocolError(f"a roster of {len(roster.introductions)} parties; two compute here")
        roster.place_of(self.introduction)
        roster.check_members(self.introduction, self._allowed)
        roster.check_keys()

    def confirm(self, signatures: Sequence[bytes]) -> None:
        """Take both parties' signatures, in the roster's order.

        Raises
        ------
        ProtocolError, AuthenticationError
            If one is not of this roster.
        """
        self.roster.check_endorsements(signatures)
        self._signatures = tuple(signatures)

    def terms(self, n_rounds: int) -> Terms:
        """The terms of the run, once both have signed."""
        return Terms.of(self.roster, self._signatures, self.introduction, self._keys, n_rounds)

    @property
    def public_seed(self) -> bytes:
        """Key of a stream that both parties draw alike, 32 bytes."""
        return _public_seed(self.roster)


def _public_seed(roster: Roster) -> bytes:
    return hashlib.sha256(length_prefixed([_PUBLIC_STREAM, roster.digest])).digest()


@dataclass(frozen=True)
class _Kept:
    """Everything that `Agreement.to_dict` wrote."""

    keys: SessionKeys
    introduction: Introduction
    roster: Roster
    signatures: tuple[bytes, ...]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> _Kept:
        if values.get("format") != _FORMAT:
            raise ProtocolError("the run was begun by another release of veilboost; start a new run")
        keys, introduction, roster = (bytes.fromhex(values[k]) for k in ("keys", "introduction", "roster"))
        return cls(
            SessionKeys.from_secret(keys),
            Introduction.from_bytes(introduction),
            Roster.from_bytes(roster),
            tuple(bytes.fromhex(one) for one in values["signatures"]),
        )


@dataclass(frozen=True)
class PastAgreement:
    """An agreement for an auditor, who computes with no party.

    Attributes
    ----------
    roster : Roster
    terms : Terms
    public_seed : bytes
        As of `Agreement`.
    """

    roster: Roster
    terms: Terms
    public_seed: bytes

    @classmethod
    def of(cls, values: Mapping[str, Any], statement: bytes, n_rounds: int) -> PastAgreement:
        """Read what `Agreement.to_dict` wrote; certificates may have expired since.

        Parameters
        ----------
        values : mapping
        statement : bytes
            32 bytes that stand for all settings, which both parties must have signed.
        n_rounds : int

        Raises
        ------
        ProtocolError, AuthenticationError, PartyArgumentError
            If it is of another format, or the settings or the seed are not those of the roster, or one party
            has not signed it.
        """
        kept = _Kept.of(values)
        if kept.roster.statement != statement:
            raise ProtocolError("the settings or columns of the run are not those that both parties signed")
        terms = Terms.of(kept.roster, kept.signatures, kept.introduction, kept.keys, n_rounds)
        return cls(kept.roster, terms, _public_seed(kept.roster))
