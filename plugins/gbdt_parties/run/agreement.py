"""A party's way to a run that all have signed: it introduces itself, endorses a roster, and takes signatures.

Where the seeds of all parties are revealed then, the public stream follows from them.  A party whose noise is
drawn from its seed keeps it: the stream follows from the roster alone, which has fresh nonces of all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.secure_sum.encapsulations import Encapsulations, PairSecrets
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.messages import MAX_PARTIES
from gbdt_parties.secure_sum.roster import FORMAT, Introduction, Roster, public_keys
from gbdt_parties.secure_sum.trust import AllowList, Credentials

_PUBLIC_STREAM = b"veilboost two-party public stream 1"


class Agreement:
    """One party's part in agreeing on a run, with the parties of an allow-list.

    The name is the common name of its certificate; an auditor has no credentials.  With what `to_dict` gave
    before a restart, the keys, and with them the introduction, are the same again, and `take_up` does the
    rest; a ProtocolError says that another release gave it.  `signatures` are those of all parties, once
    known.
    """

    def __init__(
        self,
        name: str,
        credentials: Credentials | None,
        allowed: AllowList,
        run: bytes,
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        self.run, self.credentials, self._allowed = run, credentials, allowed
        if kept is not None:
            self.keys, self.introduction = _own(kept)
        elif credentials is not None:
            self.keys = SessionKeys()
            self.introduction = Introduction.of(name, credentials, self.keys)
        self._roster: Roster | None = None
        self.signatures: list[bytes] = []
        self._own: Encapsulations | None = None
        self._forwarded = b""
        self._seeds: list[bytes] = []

    def to_dict(self) -> dict[str, Any]:
        """Everything that a restarted party needs, in JSON's types; secret, for the keys in it."""
        return {
            "format": FORMAT,
            "keys": self.keys.to_secret().hex(),
            "introduction": self.introduction.to_bytes().hex(),
            "roster": self.roster.to_bytes().hex(),
            "signatures": [one.hex() for one in self.signatures],
            "seeds": [one.hex() for one in self._seeds],
            "encapsulated": [] if self._own is None else [one.hex() for one in astuple(self._own)],
            "ciphertexts": self._forwarded.hex(),
        }

    def take_up(self, kept: Mapping[str, Any], statement: bytes, least: int, most: int = MAX_PARTIES) -> None:
        """Go through what `to_dict` gave before a restart, with the other arguments of `endorse`.

        Everything is checked again: certificates may have expired, and the allow-list may have changed.
        """
        self.endorse(Roster.from_bytes(bytes.fromhex(kept["roster"])), statement, least, most)
        self._take_signatures(kept)
        if kept["seeds"]:
            self.begin([bytes.fromhex(one) for one in kept["seeds"]])

    @classmethod
    def past(cls, kept: Mapping[str, Any], statement: bytes, allowed: AllowList) -> Agreement:
        """An agreement for an auditor, who computes with no party; certificates may have expired since.

        A party can make up a whole run, with others of its own making: `allowed` says who they must be.
        Raises ProtocolError or AuthenticationError if it is of another format, or the settings are not those
        of the roster, or a party has not signed it, or another party is not allowed.
        """
        roster = Roster.from_bytes(bytes.fromhex(kept["roster"]))
        if roster.statement != statement:
            raise ProtocolError("settings or columns of the run differ from the signed ones")
        found = cls("", None, allowed, roster.session, kept)
        found._roster = roster
        own = found.introduction
        if own != Introduction(own.name, own.certificates, **public_keys(found.keys)):
            raise ProtocolError("the keys of the run differ from the party's introduction")
        for one in roster.introductions:
            if one != own:
                allowed.check_holder(Identity.of(one.certificates))
        found._take_signatures(kept)
        if kept["seeds"]:
            found.begin([bytes.fromhex(one) for one in kept["seeds"]])
        return found

    def _take_signatures(self, kept: Mapping[str, Any]) -> None:
        if kept["encapsulated"]:
            self._own = Encapsulations(*map(bytes.fromhex, kept["encapsulated"]))
        self.confirm([bytes.fromhex(one) for one in kept["signatures"]], bytes.fromhex(kept["ciphertexts"]))

    @property
    def roster(self) -> Roster:
        """The roster that this party has signed; a ProtocolError before."""
        if self._roster is None:
            raise ProtocolError("there is no roster yet")
        return self._roster

    def endorse(self, roster: Roster, statement: bytes, least: int, most: int = MAX_PARTIES) -> bytes:
        """Sign a roster, which must be of this run and of parties that this one accepts.

        The statement, 32 bytes, stands for all that the parties agree on, as this one understands it; there
        must be `least` to `most` parties.  Raises ProtocolError or AuthenticationError if the roster is
        another one.
        """
        if self.credentials is None:
            raise ProtocolError("an auditor signs no roster")
        if self._roster is not None and roster != self._roster:
            raise ProtocolError("another roster was signed in this run")
        if roster.session != self.run:
            raise ProtocolError("the roster is of another run")
        if roster.statement != statement:
            raise ProtocolError(
                "the roster is for other settings, columns or rows than this party has worked out"
            )
        n_parties = len(roster.introductions)
        if not least <= n_parties <= most:
            raise ProtocolError(
                f"a roster of {n_parties} parties; this party takes part with at least {least}, and at most "
                f"{most}"
            )
        roster.place_of(self.introduction)
        roster.check_members(self.introduction, self._allowed)
        roster.check_keys()
        self._roster = roster
        return self.credentials.sign(roster.digest)

    def encapsulated(self) -> bytes:
        """The other parties' part of masks (`Encapsulations.signed`); asked again, the same."""
        place = self.roster.place_of(self.introduction)
        if self._own is None:
            self._own = Encapsulations.to_earlier(self.roster, place)
        return self._own.signed(self.roster, place, self.keys)

    def confirm(self, signatures: Sequence[bytes], ciphertexts: bytes = b"") -> None:
        """Take all signatures in the roster's order, and of sums what was forwarded of ciphertexts.

        An AuthenticationError says that a signature is not of this roster; for others, see `PairSecrets.of`.
        """
        self.roster.check_endorsements(signatures)
        if self._own is not None:
            if self._forwarded not in (b"", ciphertexts):
                raise ProtocolError("other ciphertexts were confirmed in this run")
            self.pairs(ciphertexts)
            self._forwarded = ciphertexts
        self.signatures = list(signatures)

    def pairs(self, ciphertexts: bytes | None = None) -> PairSecrets:
        """Secrets with all other parties, by ciphertexts that were confirmed; a ProtocolError before."""
        if self._own is None:
            raise ProtocolError("this party has encapsulated no secrets in this run")
        forwarded = self._forwarded if ciphertexts is None else ciphertexts
        place = self.roster.place_of(self.introduction)
        return PairSecrets.of(self.roster, place, self.keys, self._own, forwarded)

    def begin(self, seeds: Sequence[bytes]) -> None:
        """Take the seeds that all parties have revealed, after each has the signatures of all.

        Raises ProtocolError if one is not that to which its party is committed, or signatures are missing.
        """
        self.check_signed()
        self.roster.public_seed(dict(enumerate(seeds)))
        self._seeds = list(seeds)

    def check_signed(self) -> None:
        """Raise a ProtocolError before all parties have signed the roster."""
        if not self.signatures:
            raise ProtocolError("the roster is not signed by all parties yet")

    @property
    def public_seed(self) -> bytes:
        """Key of a stream that all parties draw alike, 32 bytes."""
        self.check_signed()
        if self._seeds:
            return self.roster.public_seed(dict(enumerate(self._seeds)))
        return hashlib.sha256(length_prefixed([_PUBLIC_STREAM, self.roster.of_draws])).digest()


def _own(kept: Mapping[str, Any]) -> tuple[SessionKeys, Introduction]:
    """The keys and the introduction of a party that was restarted."""
    if kept.get("format") != FORMAT:
        raise ProtocolError("the run was begun by another release of veilboost; start a new run")
    return (
        SessionKeys.from_secret(bytes.fromhex(kept["keys"])),
        Introduction.from_bytes(bytes.fromhex(kept["introduction"])),
    )
