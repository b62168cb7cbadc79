"""One run of secure sums at one party: from its introduction to the model, one question after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Abort, Done, Message
from gbdt_parties.secure_sum import messages as wire
from gbdt_parties.secure_sum.contributions import Attempt
from gbdt_parties.secure_sum.membership import Membership, Participation
from gbdt_parties.secure_sum.questions import Computation, Question
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

    Parameters
    ----------
    task : str
        As it was proposed.
    statement : bytes
        32 bytes that stand for all that the parties agree on.
    min_parties : int
        Parties that must take part in every sum, by this party's demand and the run's.
    begin : callable
        Starts the computation, with the roster and the key of the public stream.
    """

    task: str
    statement: bytes
    min_parties: int
    begin: Callable[[Roster, bytes], Computation[Any, Any]]


class Subject(ABC):
    """The subject of one run at one party: everything but messages, signatures and masks.

    Parameters
    ----------
    name : str
        The party's.
    credentials : Credentials
        It signs with.
    allowed : AllowList
        Parties that it adds its numbers to.
    participation : Participation
    """

    def __init__(
        self, name: str, credentials: Credentials, allowed: AllowList, participation: Participation
    ) -> None:
        self.name, self.credentials, self.allowed = name, credentials, allowed
        self.participation = participation

    @property
    def rows(self) -> str:
        """Names the rows that a run must find as they were when it is taken up; empty if it need not."""
        return ""

    @abstractmethod
    def description(self) -> str:
        """Description of the party's columns, as JSON."""

    @abstractmethod
    def proposed(self, task: str) -> Proposal:
        """Check what is to be trained, before anything is signed."""

    @abstractmethod
    def answer(self, question: Any, roster: bytes, attempt: Attempt, sign: Callable[[Words], bytes]) -> bytes:
        """The answer to an attempt, the same one however often it is asked for.

        Parameters
        ----------
        question : object
            Of the subject's computation.
        roster : bytes
            Digest of the roster, which stands for the run: its number is the coordinator's choice.
        attempt : Attempt
        sign : callable
            Masks and signs the party's vector.
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

    def check_given(self, roster: bytes, attempt: Attempt) -> None:  # noqa: B027 (some keep no answers)
        """Raise a ProtocolError if this party does not know of an answer of its own that is being opened."""

    def close(self) -> None:  # noqa: B027 (most have nothing open)
        """Let go of files, and of memory that was reserved."""


class PartyRun:
    """A run, as one party sees it.

    Parameters
    ----------
    subject : Subject
    run : bytes
        16 bytes.
    request : str
        Of the run; the subject was made for it.
    kept : mapping, optional
        Result of `to_dict`: the run begins again, from its first sum, and answers are those that were given.

    Raises
    ------
    ProtocolError, AuthenticationError
        If it cannot be taken up.
    """

    def __init__(
        self, subject: Subject, run: bytes, request: str, kept: Mapping[str, Any] | None = None
    ) -> None:
        self.subject, self.run, self.request = subject, run, request
        member = None if kept is None else kept["member"]
        self._member = Membership(subject.name, subject.credentials, subject.allowed, run, member)
        self._proposal: Proposal | None = None
        self._computation: Computation[Any, Any] | None = None
        self._end: SignedEnd | None = None
        if kept is not None:
            self._take_up(kept)

    def _take_up(self, kept: Mapping[str, Any]) -> None:
        if kept["rows"] != self.subject.rows:
            raise ProtocolError("this party has other rows than when the run began")
        self._proposal = self.subject.proposed(kept["task"])
        agreed = self._proposal.statement, self._proposal.min_parties
        public_seed = self._member.take_up(kept["member"], *agreed)
        if public_seed is None:
            raise ProtocolError("the run had not begun")
        self._start(public_seed)

    def close(self) -> None:
        """Let go of memory and files; an ended session may still refer to this object."""
        self._proposal = self._computation = self._end = None
        self.subject.close()

    def to_dict(self) -> dict[str, Any]:
        """Everything that a restarted party needs; secret, for the keys in it."""
        return {
            "request": self.request,
            "task": self._agreed().task,
            "rows": self.subject.rows,
            "member": self._member.to_dict(),
        }

    @property
    def has_begun(self) -> bool:
        """Whether all parties have signed the roster and revealed their seeds."""
        return self._computation is not None

    @property
    def n_opened(self) -> int:
        """Sums that were opened; the number of the next round."""
        return self._member.n_opened

    def introduced(self, session: bytes) -> wire.Introduced:
        """Introduce this party in a coordinator's session."""
        own = self._member.introduction.to_bytes()
        said = wire.Introduced(own, self.subject.description(), self._member.n_opened)
        return replace(said, proof=self.subject.credentials.sign(said.digest(session)))

    def answer(self, message: Message) -> Message:
        """Answer a request."""
        if isinstance(message, wire.AskSum):
            if message.opened:
                self.open(wire.Opened.from_bytes(message.opened))
            return wire.Contributed(
                self.contribution(message.round, message.number, message.members.tolist())
            )
        if isinstance(message, wire.OpenSum):
            self.open(wire.Opened.from_bytes(message.opened))
        elif isinstance(message, wire.ProposeRoster):
            return wire.Endorsed(self._endorse(message))
        elif isinstance(message, wire.ConfirmRoster):
            return wire.Revealed(self._reveal(wire.unpack(message.signatures)))
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
        signature = self._member.endorse(roster, proposal.statement, proposal.min_parties)
        # Not before: what is trained is what was signed.
        self._proposal = proposal
        return signature

    def _reveal(self, signatures: Sequence[bytes]) -> bytes:
        self._check_not_begun()
        return self._member.reveal(signatures)

    def _agreed(self) -> Proposal:
        if self._proposal is None:
            raise ProtocolError("the run was not proposed yet")
        return self._proposal

    def _begin(self, seeds: Sequence[bytes]) -> None:
        self._check_not_begun()
        self._start(self._member.begin(seeds))

    def _start(self, public_seed: bytes) -> None:
        roster, _ = self._member.parts()
        computation = self._agreed().begin(roster, public_seed)
        computation.question()  # raises what the settings and the rows do not allow
        self._computation = computation

    def _begun(self) -> Computation[Any, Any]:
        if self._computation is None:
            raise ProtocolError("the run has not begun yet")
        return self._computation

    # Rounds.

    def _attempt(
        self, question: Question, asked: tuple[int, int], members: Sequence[int], own: int | None
    ) -> Attempt:
        """The attempt that is asked for, if it is one that this party takes part in."""
        roster, _ = self._member.parts()
        self.subject.participation.check(asked, members, self.n_opened, self._member.n_parties)
        attempt = self._member.attempt(question.parts, asked[1], members)
        attempt.check(own, roster, self._agreed().min_parties)
        return attempt

    def contribution(self, round_number: int, number: int, members: Sequence[int]) -> bytes:
        """The masked and signed answer to this party's own question; nothing if training has ended.

        An attempt is answered once: asked again, the same bytes are given again.

        Raises
        ------
        ProtocolError
            If another attempt is asked for than the run's next one, or the subject refuses.
        """
        question = self._begun().question()
        if question is None:
            return b""
        roster, session = self._member.parts()
        attempt = self._attempt(question, (round_number, number), members, session.place)

        def sign(values: Words) -> bytes:
            return b"".join(session.contribute(attempt, question.ring, values))

        return self.subject.answer(question, roster.digest, attempt, sign)

    def open(self, opened: wire.Opened) -> None:
        """Add up all members' contributions to this party's own question, and go on to the next one.

        A sum that was opened before is not opened again.

        Raises
        ------
        ProtocolError
            If a contribution is missing, is not signed by its member for this attempt and this question, or
            the sum is out of range.
        """
        computation = self._begun()
        if opened.round < self.n_opened:
            return
        question = computation.question()
        if question is None:
            raise ProtocolError("training has ended; there is nothing to open")
        asked = opened.round, opened.number
        attempt = self._attempt(question, asked, sorted(opened.contributions), None)
        roster, session = self._member.parts()
        total = session.add_up(attempt, question.ring, question.n_values, opened.contributions)
        if session.place in attempt.members:
            self.subject.check_given(roster.digest, attempt)
        released = self.subject.released(question, total, len(attempt.members))
        self._member.note_opened(attempt, total)
        computation.tell(released)

    # The end.

    def _content(self) -> Sequence[bytes]:
        return self.subject.content(self._begun().result())

    @property
    def end(self) -> SignedEnd:
        """The end of the run, signed by this party; a ProtocolError before the end."""
        if self._end is None:
            self._end = self._member.signed_end(self._content())
        return self._end

    def _finish(self, signatures: Sequence[bytes]) -> None:
        """Keep the result, if enough parties have signed the same end as this one."""
        end = replace(self.end, signatures=signatures)
        end.check(self.subject.participation.least_at_end(self._member.n_parties))
        self.subject.finished(self._begun().result(), end.to_json())
