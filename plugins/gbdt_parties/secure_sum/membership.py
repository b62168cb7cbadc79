"""A party's side of a session of secure sums, from its introduction to sums that it has opened itself.

Each question follows from the sums before: each question is signed together with the transcript of all that
was opened.  `AllParties` and `PresentParties` say whose vectors a sum may be over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gbdt_parties.errors import ProtocolError
from gbdt_parties.secure_sum.contributions import Attempt, SecureSession, question_digest
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.rings import Words
from gbdt_parties.secure_sum.roster import FORMAT, Introduction, Roster, SignedEnd
from gbdt_parties.secure_sum.trust import AllowList, Credentials


class AllParties:
    """Every sum is over all parties, and round k is attempted once, as attempt k + 1.

    A party's vector is then a function of what it holds and of the sums before, and a question that is asked
    again gets the same bytes.
    """

    repeats = True
    """Whether a party asked again, also under another number, sends what it has sent, at no cost.

    Then nothing is lost if the coordinator forgets its latest sums, or asks parties in vain: it neither
    waits for the disk nor asks the parties of its own process one after the other.
    """

    def least(self, n_parties: int) -> int:
        """Parties that every sum must be over, of those in the roster."""
        return n_parties

    def least_at_end(self, n_parties: int) -> int:
        """Parties that must have signed the end."""
        return n_parties

    def number(self, round_number: int, last: int) -> int:
        """Number of an attempt with new members, after the last one."""
        return round_number + 1

    def check(self, asked: tuple[int, int], members: Sequence[int], next_round: int, n_parties: int) -> None:
        """Refuse to take part in another attempt than the run's next one.

        Parameters
        ----------
        asked : (int, int)
            Round and number.
        members : sequence of int
        next_round, n_parties : int

        Raises
        ------
        ProtocolError
            Saying what was asked instead.
        """
        if asked != (next_round, next_round + 1):
            raise ProtocolError(
                f"round {asked[0]}, attempt {asked[1]} was asked for; round {next_round}, attempt "
                f"{next_round + 1} is next"
            )
        if list(members) != list(range(n_parties)):
            raise ProtocolError("a sum over some parties was asked for; every sum here is over all of them")


@dataclass(frozen=True)
class PresentParties:
    """Sums are over the parties that are there; attempts are numbered throughout the run.

    Parameters
    ----------
    min_parties : int
        That every sum must be over.
    """

    min_parties: int
    repeats = False

    def least(self, n_parties: int) -> int:
        """The number that was agreed on."""
        return self.min_parties

    def least_at_end(self, n_parties: int) -> int:
        """More than half of all: a run that is split up ends twice only if a party signs twice."""
        return max(self.min_parties, n_parties // 2 + 1)

    def number(self, round_number: int, last: int) -> int:
        """The next one; none is used twice."""
        return last + 1

    def check(self, asked: tuple[int, int], members: Sequence[int], next_round: int, n_parties: int) -> None:
        """Refuse another round than the next one; `Attempt.check` has the rest."""
        if asked[0] != next_round:
            raise ProtocolError(f"round {asked[0]} was asked for; {next_round} is next")


Participation = AllParties | PresentParties
"""Whose vectors the sums of a run are over, and how attempts at them are numbered."""


class Membership:
    """Membership of a party in one session.

    Parameters
    ----------
    name : str
        The common name of its certificate.
    credentials : Credentials
    allowed : AllowList
    session : bytes
        16 bytes.
    kept : mapping, optional
        Result of `to_dict` before a restart: the keys, and with them the introduction, are the same again.
        `take_up` does the rest.  A ProtocolError if another release gave it.

    Attributes
    ----------
    introduction : Introduction
    n_opened : int
        Sums that were opened; the number of the next round.
    """

    def __init__(
        self,
        name: str,
        credentials: Credentials,
        allowed: AllowList,
        session: bytes,
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        self.session = session
        self.credentials, self._allowed = credentials, allowed
        if kept is None:
            self._keys = SessionKeys()
            self.introduction = Introduction.of(name, credentials, self._keys)
        else:
            if kept.get("format") != FORMAT:
                raise ProtocolError(
                    "the run was begun by another release of veilboost, with other masks; start a new run"
                )
            self._keys = SessionKeys.from_secret(bytes.fromhex(kept["keys"]))
            self.introduction = Introduction.from_bytes(bytes.fromhex(kept["introduction"]))
        self._roster: Roster | None = None
        self._secure: SecureSession | None = None
        self._signatures: list[bytes] = []
        self._seeds: list[bytes] = []
        self._transcript = b""
        self.n_opened = 0

    def to_dict(self) -> dict[str, Any]:
        """Everything that a restarted party needs; secret, for the keys in it."""
        return {
            "format": FORMAT,
            "keys": self._keys.to_secret().hex(),
            "introduction": self.introduction.to_bytes().hex(),
            "roster": "" if self._roster is None else self._roster.to_bytes().hex(),
            "signatures": [signature.hex() for signature in self._signatures],
            "seeds": [seed.hex() for seed in self._seeds],
        }

    def take_up(self, kept: Mapping[str, Any], statement: bytes, min_parties: int) -> bytes | None:
        """Go through what was agreed before a restart; gives the public stream's key if the run had begun.

        Everything is checked again: certificates may have expired, and the allow-list may have changed.

        Parameters
        ----------
        kept : mapping
            As in `Membership`.
        statement, min_parties
            As in `endorse`.
        """
        if kept["roster"]:
            self.endorse(Roster.from_bytes(bytes.fromhex(kept["roster"])), statement, min_parties)
        if kept["signatures"]:
            self.reveal([bytes.fromhex(signature) for signature in kept["signatures"]])
        return self.begin([bytes.fromhex(seed) for seed in kept["seeds"]]) if kept["seeds"] else None

    def endorse(self, roster: Roster, statement: bytes, min_parties: int) -> bytes:
        """Sign a roster, which must be of this session and of parties that this one accepts.

        Parameters
        ----------
        roster : Roster
        statement : bytes
            Purpose of the session, as this party understands it.
        min_parties : int
            Parties that there must be.

        Raises
        ------
        ProtocolError, AuthenticationError
            If it is not.
        """
        if self._roster is not None and roster != self._roster:
            raise ProtocolError("another roster was signed in this run")
        if roster.session != self.session:
            raise ProtocolError("the roster is of another run")
        if roster.statement != statement:
            raise ProtocolError("the roster is for other settings than this party received")
        if len(roster.introductions) < min_parties:
            raise ProtocolError(
                f"a roster of {len(roster.introductions)} parties; this party takes part with at least "
                f"{min_parties}"
            )
        roster.place_of(self.introduction)
        roster.check_members(self.introduction, self._allowed)
        roster.check_keys()
        self._roster = roster
        return self.credentials.sign(roster.digest)

    def reveal(self, signatures: Sequence[bytes]) -> bytes:
        """Reveal this party's seed, once all parties have signed the roster."""
        if self._roster is None:
            raise ProtocolError("there is no roster yet")
        self._roster.check_endorsements(signatures)
        self._signatures = list(signatures)
        self._secure = SecureSession(self._keys, self._roster, self.introduction)
        return self._keys.seed

    def begin(self, seeds: Sequence[bytes]) -> bytes:
        """The key of the public stream, which the seeds of all parties give."""
        roster, _ = self.parts()
        public_seed = roster.public_seed(dict(enumerate(seeds)))
        self._seeds = list(seeds)
        self._transcript = question_digest([roster.digest, public_seed])
        return public_seed

    @property
    def n_parties(self) -> int:
        """Parties in the roster."""
        return len(self.parts()[0].introductions)

    def parts(self) -> tuple[Roster, SecureSession]:
        """The roster and the session, once all parties have signed.

        Raises
        ------
        ProtocolError
            Before.
        """
        if self._roster is None or self._secure is None:
            raise ProtocolError("the roster is not signed by all parties yet")
        return self._roster, self._secure

    def attempt(self, question: Sequence[bytes], number: int, members: Sequence[int]) -> Attempt:
        """An attempt at this party's own question: an answer to any other question does not fit it."""
        digest = question_digest([self._transcript, *question])
        return Attempt(self.n_opened, number, tuple(members), digest)

    def note_opened(self, attempt: Attempt, total: Words) -> None:
        """Go on to the next round: every later question is signed together with this sum."""
        self._transcript = question_digest([self._transcript, attempt.to_bytes(), total.tobytes()])
        self.n_opened += 1

    def signed_end(self, parts: Sequence[bytes]) -> SignedEnd:
        """The end of the run as this party has it, signed by it alone.

        Parameters
        ----------
        parts : sequence of bytes
            Of the result.
        """
        roster, session = self.parts()
        digests = [hashlib.sha256(part).digest() for part in parts]
        signatures = [b""] * self.n_parties
        end = SignedEnd(roster, self._signatures, self._transcript, digests, signatures)
        signatures[session.place] = session.sign(end.message)
        return end
