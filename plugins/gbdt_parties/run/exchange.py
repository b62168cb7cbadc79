"""Answers to the questions of a run: masked sums over all parties, which each adds up itself.

Each question follows from the sums before: each question is signed together with the transcript of all that
was opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.engine import Question
from gbdt_parties.secure_sum.contributions import Attempt, SecureSession, question_digest
from gbdt_parties.secure_sum.rings import Words
from gbdt_parties.secure_sum.roster import SignedEnd


@dataclass(frozen=True)
class Participation:
    """Whose vectors the sums of a run are over, and how attempts at them are numbered.

    With `min_parties`, sums are over the parties that are there, as many at least, and attempts are numbered
    throughout the run.  Without it, every sum is over all parties, and round k is attempted once, as attempt
    k + 1.
    """

    min_parties: int | None = None

    @property
    def repeats(self) -> bool:
        """Whether a party asked again, also under another number, sends what it has sent, at no cost.

        Its vector is then a function of what it holds and of the sums before.  So nothing is lost if the
        coordinator forgets its latest sums, or asks parties in vain: it neither waits for the disk nor asks
        the parties of its own process one after the other.
        """
        return self.min_parties is None

    def least(self, n_parties: int) -> int:
        """Parties that every sum must be over, of those in the roster."""
        return n_parties if self.min_parties is None else self.min_parties

    def least_at_end(self, n_parties: int) -> int:
        """Parties that must have signed the end: all, or more than half, so that two ends share one."""
        return max(self.least(n_parties), n_parties // 2 + 1)

    def number(self, round_number: int, last: int) -> int:
        """Number of an attempt with new members, after the last one."""
        return round_number + 1 if self.repeats else last + 1

    def check(self, asked: tuple[int, int], members: Sequence[int], next_round: int, n_parties: int) -> None:
        """ProtocolError for an attempt, by round and number, that is not the run's next one."""
        if asked[0] != next_round or (self.repeats and asked[1] != next_round + 1):
            raise ProtocolError(
                f"round {asked[0]}, attempt {asked[1]} was asked for; round {next_round} is next"
            )
        if self.repeats and list(members) != list(range(n_parties)):
            raise ProtocolError("a sum over some parties was asked for; every sum here is over all of them")


class MaskedSums:
    """One party's part in the sums of a run, from its own vectors to sums that it has opened itself.

    All parties have signed the agreement.  Every sum is over `min_parties` at least, by this party's demand
    and the run's.  `n_opened` sums were opened, which is the number of the next round.
    """

    def __init__(self, agreement: Agreement, participation: Participation, min_parties: int) -> None:
        agreement.check_signed()
        self._agreement, self._participation = agreement, participation
        self._min_parties, self.roster = min_parties, agreement.roster
        self._session = SecureSession(agreement.keys, self.roster, agreement.introduction, agreement.pairs())
        self._transcript = question_digest([self.roster.digest, agreement.public_seed])
        self.n_opened = 0

    @property
    def place(self) -> int:
        """Place of this party in the roster."""
        return self._session.place

    def attempt(
        self, question: Question, asked: tuple[int, int], members: Sequence[int], *, is_own: bool
    ) -> Attempt:
        """The attempt that is asked for by round and number, at this party's own question.

        A ProtocolError if this party takes no part in it; `is_own` says whether it must be a member.
        """
        self._participation.check(asked, members, self.n_opened, len(self.roster.introductions))
        digest = question_digest([self._transcript, *question.parts])
        attempt = Attempt(self.n_opened, asked[1], tuple(members), digest)
        attempt.check(self.place if is_own else None, self.roster, self._min_parties)
        return attempt

    def masked(self, attempt: Attempt, question: Question, values: Words) -> bytes:
        """The vector of this party, masked and signed."""
        return self._session.contribute(attempt, question.ring, values)

    def noise_key(self, attempt: Attempt) -> bytes:
        """See `SessionKeys.noise_key`."""
        # A party that is also the coordinator could try numbers until it likes its noise.
        unnumbered = replace(attempt, number=0).to_bytes()
        return self._agreement.keys.noise_key(self.roster.digest, unnumbered)

    def total(self, attempt: Attempt, question: Question, contributions: Mapping[int, bytes]) -> Words:
        """The sum of all members' vectors; errors as of `SecureSession.add_up`."""
        return self._session.add_up(attempt, question.ring, question.n_values, contributions)

    def note_opened(self, attempt: Attempt, total: Words) -> None:
        """Go on to the next round: every later question is signed together with this sum."""
        self._transcript = question_digest([self._transcript, attempt.to_bytes(), total.tobytes()])
        self.n_opened += 1

    def signed_end(self, parts: Sequence[bytes]) -> SignedEnd:
        """The end of the run as this party has it, with the parts of the result, signed by it alone."""
        digests = [hashlib.sha256(part).digest() for part in parts]
        signatures = [b""] * len(self.roster.introductions)
        end = SignedEnd(self.roster, self._agreement.signatures, self._transcript, digests, signatures)
        signatures[self.place] = self._session.sign(end.message)
        return end
