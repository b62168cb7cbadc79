"""An auditor's repetition of one party's side of a run, to the byte.

The auditor has the party's rows, its kept keys and seed, and the messages that it received.  All that it sent
follows from these: a party that trained on other numbers than its rows give, or drew other noise than its
keys do, is found out.

*Of sums over parties, the record cannot be made up*: contributions of the other parties are signed by them,
together with all sums before, and so is the end of the run.  A contribution that the party sent instead of
that of its record is in such a sum, and differs from the one that is repeated.
*The noise was not chosen*: it follows from the key in the party's introduction, and from seeds that all
parties have revealed after they were bound to theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import Store
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.messages import read, write
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.log import ANSWERS, END, RUNS, RunLog
from gbdt_parties.run.party_run import PartyRun, Proposal, Subject
from gbdt_parties.run.record import KeptExchange, summary
from gbdt_parties.secure_sum.messages import AskSum, Contributed, Opened, OpenSum


@dataclass(frozen=True)
class Replay:
    """Comparison of a party's record of a run with a repetition of it.

    `rounds` (or sums) were opened alike; `attempts` were begun alike, abandoned ones included; `connections`
    (or processes) were repeated; `messages` and `bytes` that the party sent were repeated to the byte;
    `has_ended` says whether the record comes to the end. `difference` names the first thing that differs;
    None without one.
    """

    rounds: int
    attempts: int
    connections: int
    messages: int
    bytes: int
    has_ended: bool
    difference: str | None

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None


class DifferenceError(Exception):
    """The repetition differs from the record."""


class Compared:
    """Messages that were compared, one after the other."""

    def __init__(self) -> None:
        self.n_connections = self.n_messages = self.n_bytes = self.number = 0

    def check(self, exchange: KeptExchange, sent: bytes, name: str) -> None:
        """Compare a message with the one that was sent."""
        self.number += 1
        if exchange.sent != summary(sent):
            self.differs(f"{type(read(sent).message).__name__}, sent with {name},")
        self.n_messages += 1
        self.n_bytes += exchange.n_bytes

    def check_content(self, found: bytes, made: bytes, name: str) -> None:
        """Compare all bytes of what others have received with what is made again."""
        if found != made:
            pairs = enumerate(zip(found, made, strict=False))
            place = next((k for k, (a, b) in pairs if a != b), min(len(found), len(made)))
            self.differs(f"byte {place} of {name}")

    def report(self, rounds: int, attempts: int, has_ended: bool, difference: str | None) -> Replay:
        """How far the repetition has come."""
        done = self.n_connections, self.n_messages, self.n_bytes
        return Replay(rounds, attempts, *done, has_ended, difference)

    def differs(self, name: str) -> NoReturn:
        """Raise a DifferenceError that names the message."""
        raise DifferenceError(f"{name} does not follow from the party's keys, rows and received messages")


class PastRun(PartyRun):
    """A run that an auditor begins again: no other party is heard, and certificates may have expired."""

    def agreed(self, kept: Mapping[str, Any], proposal: Proposal) -> Agreement:
        """The agreement as all have signed it."""
        return Agreement.past(kept, proposal.statement, self.subject.allowed)


def chosen(stores: Iterable[Store], run: str | None) -> RunLog:
    """The log of an auditable run; PartyArgumentError for no such number, or several and none given."""
    kept = {key: RunLog(part, bytes.fromhex(key)) for part in stores for key in part.keys(RUNS)}
    logs = {key: log for key, log in kept.items() if log.is_auditable}
    if run is None and len(logs) == 1:
        return next(iter(logs.values()))
    if run is None or run not in logs:
        known = ", ".join(logs) or "none is of such rows and was auditable=True"
        raise PartyArgumentError(f"run={run!r} is not one of the runs in the folder: {known}")
    return logs[run]


def replayed(log: RunLog, subject_of: Callable[[bytes, str], Subject], store: Store) -> Replay:
    """Repeat a party's side of an auditable run of secure sums, and compare it with the party's record.

    Subjects are made from a run's number and request, with the auditor's rows.  In the store, the repetition
    keeps answers and charges, as the party did in its own.
    """
    kept, done, attempts, n_opened = log.past(), Compared(), set[int](), 0
    again = RunLog(store, log.run)
    again.begin({**kept, "has_ended": False})
    run: PartyRun | None = None
    difference, name = None, "the beginning of the run"
    try:
        for exchange in log.record.entries():
            if exchange is None or run is None:
                done.n_connections += 1
                subject = subject_of(log.run, kept["request"])
                run = PastRun(subject, again, kept)
            if exchange is None:
                continue
            message = read(exchange.received).message
            name = f"request {done.number} ({type(message).__name__})"
            opened = getattr(message, "opened", b"")
            if exchange.was_refused:
                # It said nothing of rows; a sum that came with it may have been opened before.
                message = OpenSum(opened)
                if not opened:
                    continue
            try:
                with again.store.transaction():
                    own = _own(run, Opened.from_bytes(opened)) if opened else None
                    answer = run.answer(message)
            except VeilboostError:
                if exchange.was_refused:
                    continue
                raise
            if own is not None:
                done.check_content(*own)
            n_opened = max(n_opened, run.n_opened)
            if not exchange.was_refused:
                done.check(exchange, write(bytes(16), 0, answer), name)
            if isinstance(message, AskSum) and isinstance(answer, Contributed) and answer.content:
                attempts.add(message.number)
        if kept.get("has_ended") and not again.has_ended:
            raise DifferenceError("the end of the run, which has ended, is not among the party's messages")
        if run is not None:
            _check_log(log, again, run.subject.participation.repeats)
    except DifferenceError as error:
        difference = str(error)
    except VeilboostError as error:
        difference = f"{name} is refused: {error}"
    ended = again.has_ended and difference is None
    return done.report(n_opened, len(attempts), ended, difference)


def _check_log(log: RunLog, again: RunLog, repeats: bool) -> None:
    """Check that the answers and the end that a party has kept are those made again.

    The party may have kept more: an answer is there before its message is.  Those that cost nothing may have
    been lost with a machine, together with their messages.
    """
    kept = {answer.number: answer for answer in log.store.entries(ANSWERS, "")}
    for answer in again.store.entries(ANSWERS, ""):
        found = kept.get(answer.number)
        if found != answer and not (found is None and repeats):
            what = "is missing" if found is None else "is another one"
            raise DifferenceError(f"the answer to attempt {answer.number} in the party's log {what}")
    if (end := again.store.get(END, "")) is not None and end != log.store.get(END, ""):
        raise DifferenceError("the end that the party's log says it has signed is another one")


def _own(run: PartyRun, opened: Opened) -> tuple[bytes, bytes, str] | None:
    """The party's contribution to a sum as all others have it, as it is made again, and its name."""
    found = opened.contributions.get(run.place)
    if opened.round != run.n_opened or found is None:
        return None
    made = run.contribution(opened.round, opened.number, sorted(opened.contributions))
    return found, made, f"this party's contribution to sum {opened.round}, attempt {opened.number},"
