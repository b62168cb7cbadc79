"""A party's side of a session of secure sums, from its introduction to sums that it has opened itself.

Each question follows from the sums before: each question is signed together with the transcript of all that
was opened.  Where every sum is over all parties, round k is attempted once, as attempt k + 1.  A party's
vector is then a function of what it holds and of the sums before, and a question that is asked again gets the
same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.secure_sum.contributions import Attempt, SecureSession, question_digest
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.rings import Ring, Words
from gbdt_parties.secure_sum.roster import FORMAT, Introduction, Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials


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
        self._credentials, self._allowed = credentials, allowed
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
        return self._credentials.sign(roster.digest)

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

    def note_opened(self, attempt: Attempt, total: NDArray[Any]) -> None:
        """Go on to the next round: every later question is signed together with this sum."""
        self._transcript = question_digest([self._transcript, attempt.to_bytes(), total.tobytes()])
        self.n_opened += 1

    # Sums over all parties.

    def _by_all(self, question: bytes) -> Attempt:
        return self.attempt([question], self.n_opened + 1, range(self.n_parties))

    def check_asked(self, round_number: int, number: int, members: Sequence[int]) -> None:
        """Refuse to answer unless the next sum is asked for, and over all parties.

        Raises
        ------
        ProtocolError
            Saying what was asked instead.
        """
        if round_number != self.n_opened or number != round_number + 1:
            raise ProtocolError(
                f"round {round_number}, attempt {number} was asked for; round {self.n_opened}, attempt "
                f"{self.n_opened + 1} is next"
            )
        if list(members) != list(range(self.n_parties)):
            raise ProtocolError("a sum over some parties was asked for; every sum here is over all of them")

    def asked(self, question: bytes) -> tuple[bytes, bytes]:
        """Key of the next sum's answer: the session as all have signed it, and all that is asked.

        See `gbdt_parties.secure_sum.answers`.
        """
        roster, _ = self.parts()
        return roster.digest, roster.digest + self._by_all(question).to_bytes()

    def contribute(self, question: bytes, ring: Ring, values: Words) -> bytes:
        """Mask and sign this party's vector for the next sum.

        Parameters
        ----------
        question : bytes
            The question, as this party has worked it out.
        ring : Ring
        values : ndarray of uint64
        """
        _, secure = self.parts()
        return b"".join(secure.contribute(self._by_all(question), ring, values))

    def open(self, question: bytes, ring: Ring, n_values: int, contributions: Mapping[int, bytes]) -> Words:
        """Add up all parties' vectors for the next sum; their range is left to the caller.

        Raises
        ------
        ProtocolError, AuthenticationError
            If a vector is missing, or not signed by its party as the answer to this question.
        """
        _, secure = self.parts()
        attempt = self._by_all(question)
        total = secure.add_up(attempt, ring, n_values, contributions)
        self.note_opened(attempt, total)
        return total
