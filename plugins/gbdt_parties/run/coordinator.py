"""The coordinator of a run of secure sums: it forwards what the parties sign, and sees masked sums only."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from gbdt_commons.quoting import quoted
from gbdt_parties.channel import Party
from gbdt_parties.errors import PartyError, PartyUnavailableError, ProtocolError, RunLostError
from gbdt_parties.messages import Abort, Done, Message
from gbdt_parties.patience import Reconnector, Wait
from gbdt_parties.run.exchange import Participation
from gbdt_parties.run.member import Member
from gbdt_parties.run.progress import Checkpoint, Memory, Progress
from gbdt_parties.secure_sum import messages as wire
from gbdt_parties.secure_sum.encapsulations import forwarded_to
from gbdt_parties.secure_sum.roster import SESSION_BYTES, Introduction, Roster, SignedEnd
from gbdt_parties.traffic import Traffic

logger = logging.getLogger(__name__)

SECONDS_TO_ASK_AGAIN = 1.0
"""A party that is lost within this time is connected to and asked once more: a connection broke, or a server
was restarted.  One that was silent for longer has kept all parties waiting already."""

SECONDS_BETWEEN_INTERRUPTS = 0.1
"""Of a party that is still being reached when the run has ended."""

ATTEMPTS_PER_START = 1 << 32
"""Attempts are numbered on from the next multiple of this whenever a coordinator takes a run up: the last
numbers that were used may not have reached the disk when the machine failed, and none may be used twice."""

SUMS_PER_LINE = 200
"""Sums after which the log says how far the run has come."""

R = TypeVar("R")
M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Purpose:
    """Purpose of a run: everything but the order of messages.

    A session is opened with a subclass of `OpenRun`, which tells ways of training apart, and JSON of the
    settings that are known before the parties describe themselves.  `agreement` checks the parties' names and
    descriptions; it gives JSON of the settings that follow from them, empty if the request was all, and the
    statement: 32 bytes that stand for all that the parties agree on.  `watch` is called with the number of
    sums after each of them, and when there are no more.
    """

    opening: type[wire.OpenRun]
    request: str
    participation: Participation
    agreement: Callable[[Sequence[tuple[str, str]]], tuple[str, bytes]]
    watch: Callable[[int], None] = lambda _: None


def coordinate(
    parties: Sequence[Party],
    purpose: Purpose,
    about: Any,
    traffic: Traffic,
    patience: float,
    checkpoint: Checkpoint | Memory,
) -> Progress:
    """Lead a run, or go on with the one in the checkpoint; the result has the model and the task.

    `about` names the run in its checkpoint, in JSON's types; `patience` is how many seconds to wait for lost
    parties, in all within one round. Raises `PartyUnavailableError` if too few parties are left for a sum,
    and `PartyRefusedError` or `ProtocolError` if one refuses or breaks the protocol.
    """
    with checkpoint.taken_up(about, [party.name for party in parties]) as progress:
        if not progress.is_told:
            _Coordinator(parties, purpose, traffic, patience, progress).run()
        return progress


class _Coordinator:
    """One run.

    Parties elsewhere are asked at once.  Those of this process are asked in turn, and no more after a loss,
    unless their answers cost nothing (`Participation.repeats`).
    """

    def __init__(
        self,
        parties: Sequence[Party],
        purpose: Purpose,
        traffic: Traffic,
        patience: float,
        progress: Progress,
    ) -> None:
        self._members = [Member(place, party, traffic) for place, party in enumerate(parties)]
        self._purpose, self._participation = purpose, purpose.participation
        self._traffic, self._patience, self._progress = traffic, patience, progress
        self._least = self._participation.least(len(parties))
        self._least_at_end = self._participation.least_at_end(len(parties))
        self._number = progress.n_starts * ATTEMPTS_PER_START
        self._is_proposed = progress.roster is not None
        self._loss = ""
        # Twice: while some are being asked, others that were lost are waited for.
        self._pool = ThreadPoolExecutor(2 * len(parties), thread_name_prefix="veilboost")

    def run(self) -> None:
        """Everything, from introductions to the model."""
        with self._pool:
            try:
                self._begin()
                if not self._progress.model:
                    while self._round():
                        self._purpose.watch(self._progress.n_opened)
                        if self._progress.n_opened % SUMS_PER_LINE == 0:
                            logger.info("%d sums over all parties", self._progress.n_opened)
                    self._purpose.watch(self._progress.n_opened)
                    self._end()
                self._tell()
            except PartyUnavailableError:
                # Sessions stay open: the run may be taken up again.
                raise
            except BaseException:
                self._abort()
                raise
            finally:
                for member in self._members:
                    while member.coming is not None and not member.coming.done():
                        # Repeatedly: an interrupt that falls between two requests is lost.
                        member.party.interrupt()  # type: ignore[attr-defined]  # it is elsewhere
                        wait([member.coming], SECONDS_BETWEEN_INTERRUPTS)

    def _abort(self) -> None:
        """End the sessions of a run that was proposed."""

        def abort(member: Member) -> None:
            with suppress(Exception):
                member.ask(Abort(), Done)

        if self._is_proposed:
            self._of_each([member for member in self._members if member.is_connected], abort)

    # Several parties.

    def _of_each(
        self, members: Sequence[Member], work: Callable[[Member], R]
    ) -> tuple[dict[Member, R], list[PartyUnavailableError]]:
        """Results for each party, and the losses of the others."""
        results: dict[Member, R] = {}
        losses: list[PartyUnavailableError] = []
        at_once = self._participation.repeats
        futures = {m: self._pool.submit(work, m) for m in members if at_once or m.is_elsewhere}
        try:
            for member in members:
                try:
                    if member in futures:
                        results[member] = futures[member].result()
                    elif not losses and not any(one.forgot for one in members):
                        results[member] = work(member)
                except PartyUnavailableError as error:
                    losses.append(error)
                    self._lose(member, error)
                except RunLostError as error:
                    self._forget(member, error)
        finally:
            wait(futures.values())
        return results, losses

    def _lose(self, member: Member, error: PartyUnavailableError) -> None:
        logger.warning("%s", error)
        self._loss = str(error)
        member.lose(self._progress.n_opened)

    def _forget(self, member: Member, error: RunLostError) -> None:
        """Go on without a party that does not know the run any more, if the others are enough."""
        member.forgot = True
        if sum(not one.forgot for one in self._members) < max(self._least, self._least_at_end):
            raise error
        logger.warning("%s", error)
        member.lose(self._progress.n_opened)

    def _of_all(self, work: Callable[[Member], R]) -> list[R]:
        """Results for all parties; the loss of one is an error."""
        results, losses = self._of_each(self._members, work)
        if losses:
            raise losses[0]
        return list(results.values())

    # How a run begins.

    def _begin(self) -> None:
        progress = self._progress
        if progress.roster is not None:
            logger.info("the training run resumes after %d sums", progress.n_opened)
            for member, own in zip(self._members, progress.roster.introductions, strict=True):
                member.introduction = own.to_bytes()
            progress.note_start(progress.roster, progress.endorsements, progress.task)
            if not progress.model:
                self._of_each(self._members, self._reach)
            return
        waiting = Wait(self._patience, self._traffic, SECONDS_TO_ASK_AGAIN)
        while progress.roster is None:
            try:
                progress.note_start(*self._introduce())
            except PartyUnavailableError as error:
                # Nothing was answered yet, so that every try is a new run.
                waiting.pause(error)

    def _introduce(self) -> tuple[Roster, list[bytes], str]:
        run = os.urandom(SESSION_BYTES)
        opening = self._purpose.opening(run, self._purpose.request, wire.NEW_RUN)
        self._of_all(lambda member: member.open(opening))
        own = tuple(map(_introduction_of, self._members))
        task, statement = self._purpose.agreement([(one.name, one.description) for one in self._members])
        roster = Roster(run, statement, own)
        self._is_proposed = True
        signed = self._ask_all(wire.ProposeRoster(task, roster.to_bytes()), wire.Endorsed)
        endorsements = [one.signature for one in signed]
        signatures, sent = wire.pack(endorsements), [one.ciphertexts for one in signed]

        def confirm(member: Member) -> wire.Revealed:
            ciphertexts = forwarded_to(member.place, roster.names, sent)
            return member.ask(wire.ConfirmRoster(signatures, ciphertexts), wire.Revealed)

        revealed = self._of_all(confirm)
        self._ask_all(wire.BeginRounds(wire.pack([one.seed for one in revealed])), Done)
        return roster, endorsements, task

    @property
    def _roster(self) -> Roster:
        assert self._progress.roster is not None, "the run has not begun"
        return self._progress.roster

    def _ask_all(self, message: Message, answer: type[M]) -> list[M]:
        return self._of_all(lambda member: member.ask(message, answer))

    # Participants.

    def _reach(self, member: Member, but: int = 0) -> None:
        """Open a new session with a party, and send it what it has missed, `but` for the last sums."""
        run, n_opened = self._roster.session, self._progress.n_opened
        member.open(self._purpose.opening(run, self._purpose.request, n_opened))
        self._catch_up(member, but)

    def _catch_up(self, member: Member, but: int = 0) -> None:
        """Send the sums that a party has missed, `but` for the last ones."""
        while member.n_opened < self._progress.n_opened - but:
            member.ask(wire.OpenSum(self._progress.opened(member.n_opened)), Done)
            member.n_opened += 1

    def _ask(self, member: Member, message: Message, answer: type[M], but: int = 0) -> M:
        """Ask a party that knows all sums `but` the last, twice if it is lost; PartyUnavailableError then."""
        asked = monotonic()
        try:
            self._catch_up(member, but)
            return member.ask(message, answer)
        except PartyUnavailableError:
            if monotonic() - asked > SECONDS_TO_ASK_AGAIN:
                raise
        self._reach(member, but)
        return member.ask(message, answer)

    def _welcome(self) -> None:
        """Try parties that were lost, and take in those that are back; those elsewhere come in their time."""
        due = []
        for member in self._members:
            if member.coming is not None:
                if member.coming.done():
                    self._arrive(member, member.coming)
            elif not member.is_connected and member.is_due(self._progress.n_opened):
                due.append(member)
        for member in due:
            if member.is_elsewhere:
                member.coming = self._pool.submit(self._reach, member)
            else:
                self._of_each([member], self._reach)

    def _arrive(self, member: Member, coming: Future[None]) -> None:
        """Take in a party that was waited for, if it has come."""
        member.coming = None
        try:
            coming.result()
            logger.info("party %r is back", member.name)
        except PartyUnavailableError as error:
            self._lose(member, error)
        except RunLostError as error:
            self._forget(member, error)

    def _enough(self, least: int, waiting: Wait) -> list[Member]:
        """Parties that are there, as soon as they are enough."""
        others = [m for m in self._members if not m.is_connected and m.lost_in < self._progress.n_opened]
        while True:
            members = [member for member in self._members if member.is_connected]
            if len(members) >= least:
                return members
            if not others:
                waiting.pause(
                    PartyUnavailableError(
                        f"of the parties, only {sorted(m.name for m in members)} are left; at least {least} "
                        f"must take part: {self._loss}"
                    )
                )
                others = [member for member in self._members if not member.is_connected]
            self._wait_for([member for member in others if not member.forgot])
            others = []

    def _wait_for(self, members: Sequence[Member]) -> None:
        """Wait for parties that are being tried already, and try the others."""
        self._of_each([member for member in members if member.coming is None], self._reach)
        for member in members:
            if member.coming is not None:
                self._arrive(member, member.coming)

    # Rounds.

    def _round(self) -> bool:
        """Collect all contributions to the next sum; whether there was one."""
        self._welcome()
        waiting = Wait(self._patience, self._traffic)
        contributions = None
        while contributions is None:
            contributions = self._attempt(self._enough(self._least, waiting))
        number, contents = contributions
        if not any(contents.values()):
            return False
        opened = wire.Opened(self._progress.n_opened, number, contents).to_bytes()
        self._progress.note_opened(opened, sync=not self._participation.repeats)
        return True

    def _attempt(self, members: Sequence[Member]) -> tuple[int, dict[int, bytes]] | None:
        """Number and contributions of an attempt, or None if a member was lost.

        An attempt that was made with the same members before is made again: who answered it answers the same
        bytes, and is not charged twice.
        """
        progress = self._progress
        n_opened, places = progress.n_opened, tuple(member.place for member in members)
        if progress.attempt is not None and progress.attempt[1] == places:
            number = progress.attempt[0]
        else:
            number = self._number = self._participation.number(n_opened, self._number)
            if not self._participation.repeats:
                progress.note_attempt(number, places)
        content = np.array(places, dtype=np.int32)
        last = progress.opened(n_opened - 1) if n_opened else b""

        def ask(member: Member) -> bytes:
            # The last sum travels with the question, unless the party has it already.
            opened = last if member.n_opened < n_opened else b""
            question = wire.AskSum(n_opened, number, content, opened)
            return self._ask(member, question, wire.Contributed, but=1 if opened else 0).content

        contents, losses = self._of_each(members, ask)
        for member in contents:
            member.failures, member.n_opened = 0, n_opened
        if losses or len(contents) < len(members):
            return None
        if len(set(map(bool, contents.values()))) > 1:
            raise ProtocolError("the parties disagree about whether training has ended")
        return number, {member.place: given for member, given in contents.items()}

    # The model.

    def _end(self) -> None:
        """Get the model, which enough parties must have signed."""
        waiting = Wait(self._patience, self._traffic)
        answers: dict[Member, wire.FinishedModel] = {}
        whole: dict[Member, wire.FinishedModel] = {}
        while len(answers) < self._least_at_end or not whole:
            members = self._enough(self._least_at_end, waiting)
            answers, _ = self._of_each(
                members, lambda one: self._ask(one, wire.AskModel(0), wire.FinishedModel)
            )
            whole, _ = self._of_each(
                list(answers)[:1], lambda m: self._ask(m, wire.AskModel(1), wire.FinishedModel)
            )
        (first,) = whole.values()
        digests = [hashlib.sha256(part).digest() for part in wire.unpack(first.content)]
        for member, answer in answers.items():
            if (answer.transcript, answer.digests) != (first.transcript, b"".join(digests)):
                raise ProtocolError(f"party {member.name!r} has another model than the others")
        signatures = [answers[one].signature if one in answers else b"" for one in self._members]
        end = SignedEnd(self._roster, self._progress.endorsements, first.transcript, digests, signatures)
        end.check(self._least_at_end)
        self._progress.note_model(first.content, end)

    def _tell(self) -> None:
        """Let those that have signed keep the model with all signatures; until all do, each call tries it."""
        signatures = SignedEnd.from_json(self._progress.signatures).signatures
        message = wire.EndRun(wire.pack(signatures))
        signers = [member for member in self._members if signatures[member.place]]
        told, _ = self._of_each(signers, lambda one: self._finish(one, message))
        if all(told.values()):
            self._progress.note_told()

    def _finish(self, member: Member, message: wire.EndRun) -> bool:
        """Let a party keep the model; whether it has ended, as one that does not know the run any more."""
        reconnecting = Reconnector(self._patience, lambda: None, self._traffic)
        try:
            reconnecting(lambda: self._ask(member, message, Done))
        except PartyError as error:
            logger.warning("the model is there; at the end of the run, %s", error)
            return isinstance(error, RunLostError)
        return True


def _introduction_of(member: Member) -> Introduction:
    """How a party introduces itself, which must be by its name."""
    try:
        own = Introduction.from_bytes(member.introduction)
        if own.name != member.name:
            raise ProtocolError(f"the name {quoted(own.name)!r}")
    except ProtocolError as error:
        raise ProtocolError(f"party {member.name!r} introduces itself with {quoted(str(error))}") from None
    return own
