"""One run of secure sums at one party: from its introduction to the model, one question after the other."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Abort, Done, Message
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.engine import Computation
from gbdt_parties.run.exchange import MaskedSums, Participation
from gbdt_parties.run.log import MAX_RUNS, RunLog
from gbdt_parties.secure_sum import messages as wire
from gbdt_parties.secure_sum.contributions import Attempt
from gbdt_parties.secure_sum.rings import Words
from gbdt_parties.secure_sum.roster import Roster, SignedEnd
from gbdt_parties.secure_sum.trust import AllowList, Credentials

ANSWERED = (
    wire.ProposeRoster,
    wire.ConfirmRoster,
    wire.BeginRounds,
    wire.AskSum,
    wire.OpenSum,
    wire.AskModel,
    wire.EndRun,
    Abort,
)
"""Requests of an open session."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A proposal that a party has checked and may sign.

    The statement, 32 bytes, stands for all that the parties agree on; `min_parties` must take part in every
    sum, by this party's demand and the run's.  `begin` starts the computation, with the roster, the key of
    the public stream, and a secret key of this party and run, which a restart does not change.
    """

    task: str
    statement: bytes
    min_parties: int
    begin: Callable[[Roster, bytes, bytes], Computation[Any, Any]]


class Subject(ABC):
    """The subject of one run at one party: everything but messages, signatures and masks.

    It has the party's name, the credentials that it signs with, and the parties that it adds its numbers to.
    """

    def __init__(
        self, name: str, credentials: Credentials, allowed: AllowList, participation: Participation
    ) -> None:
        self.name, self.credentials, self.allowed = name, credentials, allowed
        self.participation = participation

    def rows(self, auditable: bool) -> str:
        """Names the rows that a run must find as they were when it is taken up; empty if it need not."""
        return ""

    @abstractmethod
    def description(self) -> str:
        """Description of the party's columns, as JSON."""

    @abstractmethod
    def proposed(self, task: str) -> Proposal:
        """Check what is to be trained, before anything is signed."""

    @abstractmethod
    def pay(self, question: Any, roster: bytes, attempt: Attempt) -> None:
        """Charge for an attempt before it is answered for the first time, or refuse it.

        The roster's digest stands for the run, whose number is the coordinator's choice.
        """

    @abstractmethod
    def vector(self, question: Any, n_members: int, noise_key: bytes | None) -> Words:
        """The vector of this party for a sum over so many parties.

        Noise is drawn from the stream of the key, 32 bytes, or anew: there is no key unless the run is
        auditable.
        """

    @abstractmethod
    def released(self, question: Any, total: Words, n_members: int) -> Any:
        """Answer to the computation, made of an opened sum; a SumRangeError if it is out of range."""

    @abstractmethod
    def content(self, result: Any) -> Sequence[bytes]:
        """The result, the same at all parties: the model as it is kept, and what is sent with it."""

    @abstractmethod
    def finished(self, result: Any, signatures: str) -> None:
        """Keep the result, with the signatures of those that have the same one (`SignedEnd.to_json`)."""

    def close(self) -> None:  # noqa: B027 (most have nothing open)
        """Let go of memory that was reserved."""


class PartyRun:
    """A run, as one party sees it.

    The record has the request, for which the subject was made, and whether the run is auditable.  With that
    of the log, the run begins again, from its first sum, and answers are those given; a
    ProtocolError or AuthenticationError says that it cannot be taken up.
    """

    def __init__(self, subject: Subject, log: RunLog, record: Mapping[str, Any]) -> None:
        self.subject, self.log = subject, log
        self.request, self.is_auditable = record["request"], record["auditable"]
        self._proposal: Proposal | None = None
        self._computation: Computation[Any, Any] | None = None
        self._sums: MaskedSums | None = None
        self._end: SignedEnd | None = None
        if "agreement" not in record:
            self._agreement = Agreement(subject.name, subject.credentials, subject.allowed, log.run)
            return
        if record["rows"] != subject.rows(self.is_auditable):
            raise ProtocolError("this party has other rows than when the run began")
        self._proposal = subject.proposed(record["task"])
        self._agreement = self.agreed(record["agreement"], self._proposal)
        self._start(self._proposal)

    def agreed(self, kept: Mapping[str, Any], proposal: Proposal) -> Agreement:
        """The agreement on a run that is taken up."""
        own = self.subject
        agreement = Agreement(own.name, own.credentials, own.allowed, self.log.run, kept)
        agreement.take_up(kept, proposal.statement, proposal.min_parties)
        return agreement

    def close(self) -> None:
        """Let go of memory; an ended session may still refer to this object."""
        self._proposal = self._computation = self._sums = self._end = None
        self.subject.close()

    @property
    def has_begun(self) -> bool:
        """Whether all parties have signed the roster and revealed their seeds."""
        return self._computation is not None

    @property
    def n_opened(self) -> int:
        """Sums that were opened; the number of the next round."""
        return 0 if self._sums is None else self._sums.n_opened

    @property
    def place(self) -> int:
        """Place of this party in the roster; a ProtocolError before the run has begun."""
        return self._begun()[1].place

    def introduced(self, session: bytes) -> wire.Introduced:
        """Introduce this party in a coordinator's session."""
        own = self._agreement.introduction.to_bytes()
        said = wire.Introduced(own, self.subject.description(), self.n_opened)
        return replace(said, proof=self.subject.credentials.sign(said.digest(session)))

    def answer(self, message: Message) -> Message:
        """Answer a request; what must outlive this process is kept before the answer leaves."""
        if isinstance(message, wire.AskSum):
            if message.opened:
                self.open(wire.Opened.from_bytes(message.opened))
            return wire.Contributed(
                self.contribution(message.round, message.number, message.members.tolist())
            )
        if isinstance(message, wire.OpenSum):
            self.open(wire.Opened.from_bytes(message.opened))
        elif isinstance(message, wire.ProposeRoster):
            return wire.Endorsed(self._endorse(message), self._agreement.encapsulated())
        elif isinstance(message, wire.ConfirmRoster):
            self._check_not_begun()
            self._agreement.confirm(wire.unpack(message.signatures), message.ciphertexts)
            return wire.Revealed(self._agreement.keys.seed)
        elif isinstance(message, wire.BeginRounds):
            self._begin(wire.unpack(message.seeds))
        elif isinstance(message, wire.AskModel):
            end, content = self.end, wire.pack(self._content()) if message.whole else b""
            return wire.FinishedModel(
                b"".join(end.digests), end.transcript, b"".join(end.signatures), content
            )
        elif isinstance(message, wire.EndRun):
            self._finish(wire.unpack(message.signatures))
        elif not isinstance(message, Abort):
            raise ProtocolError(f"unexpected {type(message).__name__} message")
        return Done()

    # How a run begins: everything is checked before anything of the rows leaves.

    def _check_not_begun(self) -> None:
        """Refuse to go back: a run that has begun would be kept as a beginning, too, and outlive its end."""
        if self.has_begun:
            raise ProtocolError("the run has begun already")

    def _endorse(self, message: wire.ProposeRoster) -> bytes:
        self._check_not_begun()
        proposal = self.subject.proposed(message.task)
        roster = Roster.from_bytes(message.roster)
        signature = self._agreement.endorse(roster, proposal.statement, proposal.min_parties)
        # Not before: what is trained is what was signed.
        self._proposal = proposal
        return signature

    def _begin(self, seeds: Sequence[bytes]) -> None:
        self._check_not_begun()
        self._agreement.begin(seeds)
        if self._proposal is None:
            raise ProtocolError("the run was not proposed yet")
        self._start(self._proposal)
        self.log.begin(
            {
                "request": self.request,
                "task": self._proposal.task,
                "rows": self.subject.rows(self.is_auditable),
                "agreement": self._agreement.to_dict(),
                "auditable": self.is_auditable,
            },
            MAX_RUNS,
        )

    def _start(self, proposal: Proposal) -> None:
        self._sums = MaskedSums(self._agreement, self.subject.participation, proposal.min_parties)
        agreement, roster = self._agreement, self._agreement.roster
        own_key = agreement.keys.noise_key(roster.digest, b"beginning")
        computation = proposal.begin(roster, agreement.public_seed, own_key)
        computation.question()  # raises what the settings and the rows do not allow
        self._computation = computation

    def _begun(self) -> tuple[Computation[Any, Any], MaskedSums]:
        if self._computation is None or self._sums is None:
            raise ProtocolError("the run has not begun yet")
        return self._computation, self._sums

    # Rounds.

    def contribution(self, round_number: int, number: int, members: Sequence[int]) -> bytes:
        """The masked and signed answer to this party's own question; nothing if training has ended.

        An attempt is answered once: asked again, the same bytes are given again.  A ProtocolError says that
        another one than the run's next one is asked for, or that the subject refuses.
        """
        computation, sums = self._begun()
        question = computation.question()
        if question is None:
            return b""
        attempt, roster = sums.attempt(question, (round_number, number), members, is_own=True), sums.roster

        def make() -> bytes:
            key = sums.noise_key(attempt) if self.is_auditable else None
            return sums.masked(attempt, question, self.subject.vector(question, len(attempt.members), key))

        def pay() -> None:
            self.subject.pay(question, roster.digest, attempt)

        asked = roster.digest + attempt.to_bytes()
        if not self.subject.participation.repeats:
            return self.log.answer(number, asked, make, pay)
        # A digest is enough.  The first answer may pay for all others, which need not be on the disk.
        content = make()
        digest = hashlib.sha256(content).digest()
        if self.log.answer(number, asked, lambda: digest, pay, sync=number == 1) != digest:
            raise ProtocolError(
                f"attempt {number} was answered before, with other bytes than this party computes now: the "
                "data, CPU or library versions have changed"
            )
        return content

    def open(self, opened: wire.Opened) -> None:
        """Add up all members' contributions to this party's own question, and go on to the next one.

        A sum that was opened before is not opened again.  A ProtocolError says that a contribution is
        missing, or is not signed by its member for this attempt and this question, that the sum is out of
        range, or that this party has charged for less than has left it.
        """
        computation, sums = self._begun()
        if opened.round < sums.n_opened:
            return
        question = computation.question()
        if question is None:
            raise ProtocolError("training has ended; there is nothing to open")
        asked, members = (opened.round, opened.number), sorted(opened.contributions)
        attempt = sums.attempt(question, asked, members, is_own=False)
        total = sums.total(attempt, question, opened.contributions)
        is_lost = sums.place in attempt.members and not self.log.knows(attempt.number)
        if is_lost and self.subject.participation.repeats:
            # It went with the machine's power.  A coordinator that has lost this sum, too, asks for it again,
            # after later ones.
            self.contribution(*asked, members)
        elif is_lost:
            raise ProtocolError(
                f"this party's folder is an older copy: attempt {attempt.number}, which it has answered, is "
                "not in its ledger; go on with the newer folder"
            )
        released = self.subject.released(question, total, len(attempt.members))
        sums.note_opened(attempt, total)
        computation.tell(released)

    # The end.

    def _content(self) -> Sequence[bytes]:
        return self.subject.content(self._begun()[0].result())

    @property
    def end(self) -> SignedEnd:
        """The end of the run, signed by this party, which signs no other one; a ProtocolError before it."""
        if self._end is None:
            self._end = self._begun()[1].signed_end(self._content())
        self.log.sign_end(self._end.message)
        return self._end

    def _finish(self, signatures: Sequence[bytes]) -> None:
        """Keep the result, if enough parties have signed the same end as this one, and forget the keys."""
        computation, sums = self._begun()
        end = replace(self.end, signatures=signatures)
        end.check(self.subject.participation.least_at_end(len(sums.roster.introductions)))
        self.subject.finished(computation.result(), end.to_json())
        (self.log.end_for_audit if self.is_auditable else self.log.end)()
