"""One private training run, as its coordinator leads it: introductions, rounds, the model."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from time import monotonic, sleep
from typing import TypeVar

import numpy as np

from gbdt_commons.quoting import quoted
from gbdt_parties.channel import Party
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from gbdt_parties.messages import Done, Finish, Message
from gbdt_parties.secure_sum.messages import (
    AskModel,
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    Endorsed,
    FinishedModel,
    Opened,
    ProposeRoster,
    Revealed,
    pack,
)
from gbdt_parties.secure_sum.roster import SESSION_BYTES, Introduction, Roster
from gbdt_parties.traffic import Traffic
from lgb_dp.federated.checkpoint import ATTEMPTS_PER_START, Checkpoint
from lgb_dp.federated.member import Member
from lgb_dp.federated.run import model_digest
from lgb_dp.federated.task import FederatedTask, check_same, statement

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_TRIES, MAX_SECONDS_BETWEEN_TRIES = 0.5, 20.0
"""Between the first two tries to reach parties without which the run cannot go on; each further pause is
twice as long."""

ROUNDS_PER_LINE = 100
"""Rounds after which the log says how far the run has come."""

R = TypeVar("R")
M = TypeVar("M", bound=Message)


class Coordinator:
    """One run.

    Parties of this process are asked in turn, all others at once.

    Parameters
    ----------
    parties : sequence of Party
    task : FederatedTask
    traffic : Traffic
    patience : float
        Seconds to wait for parties within a round, if too few are left.
    checkpoint : Checkpoint, optional
    """

    def __init__(
        self,
        parties: Sequence[Party],
        task: FederatedTask,
        traffic: Traffic,
        patience: float,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.members = [Member(party, traffic) for party in parties]
        self.task, self.task_text = task, task.to_json()
        self._patience, self._checkpoint = patience, checkpoint
        self._session = b""
        self._history: list[bytes] = []
        self._number = 0
        self._attempted: tuple[int, tuple[int, ...]] | None = None
        self._give_up: float | None = None
        n_elsewhere = sum(member.is_elsewhere for member in self.members)
        # Twice: while some are being asked, others that were lost are waited for.
        self._pool = ThreadPoolExecutor(2 * n_elsewhere) if n_elsewhere else None

    def run(self) -> str:
        """Everything, from introductions to the model's text."""
        lock = nullcontext() if self._checkpoint is None else self._checkpoint.locked()
        with lock:
            try:
                return self._taken_up() or self._trained()
            finally:
                self._end()

    def _taken_up(self) -> str:
        """Read the checkpoint; gives the model, if that is in there."""
        if self._checkpoint is None:
            return ""
        progress = self._checkpoint.load(self.task_text, [member.name for member in self.members])
        if progress.run:
            self._session, self._history = progress.run, progress.history
            self._number = progress.n_starts * ATTEMPTS_PER_START
            self._attempted = progress.attempt
            for place, (member, own) in enumerate(zip(self.members, progress.introductions, strict=True)):
                member.place, member.introduction = place, own
        return progress.model

    def _trained(self) -> str:
        if self._session:
            logger.info("the training run resumes after %d rounds", len(self._history))
            self._reach(self.members)
        else:
            self._introduce_patiently()
        if self._checkpoint is not None:
            self._checkpoint.note_start(self._session, [member.introduction for member in self.members])
        while self._round():
            if len(self._history) % ROUNDS_PER_LINE == 0:
                logger.info("%d rounds done", len(self._history))
        return self._model()

    def _end(self) -> None:
        """Give up what is still under way."""
        if self._pool is not None:
            for member in self.members:
                if member.coming is not None:
                    member.party.interrupt()  # type: ignore[attr-defined]  # it is elsewhere
            self._pool.shutdown(wait=True, cancel_futures=True)

    # Several parties.

    def _of_each(
        self, members: Sequence[Member], work: Callable[[Member], R]
    ) -> tuple[dict[Member, R], list[Member]]:
        """Results for each party, and the parties that were lost.

        After a loss, parties of this process are not asked any more.
        """
        results: dict[Member, R] = {}
        lost: list[Member] = []
        futures = {member: self._submit(work, member) for member in members if member.is_elsewhere}
        try:
            for member in members:
                try:
                    if member in futures:
                        results[member] = futures[member].result()
                    elif not lost:
                        results[member] = work(member)
                except PartyUnavailableError as error:
                    logger.warning("%s", error)
                    member.lose(len(self._history))
                    lost.append(member)
        finally:
            wait(futures.values())
        return results, lost

    def _submit(self, work: Callable[[Member], R], member: Member) -> Future[R]:
        assert self._pool is not None
        return self._pool.submit(work, member)

    def _ask(self, member: Member, message: Message, answer: type[M], n_known: int | None = None) -> M:
        """Ask a party that knows all sums, or the first `n_known` of them."""
        history = self._history[:n_known]
        return member.ask(self._session, self.task_text, history, message, answer)

    def _ask_all(self, message: Message, answer: type[M]) -> list[M]:
        """Ask all parties; none of them may be lost."""

        def ask(member: Member) -> M | PartyUnavailableError:
            try:
                return self._ask(member, message, answer)
            except PartyUnavailableError as error:
                return error

        answers, _ = self._of_each(self.members, ask)
        found = []
        for one in answers.values():
            if isinstance(one, PartyUnavailableError):
                raise one
            found.append(one)
        return found

    # Beginning of a run: no party may be lost here.

    def _introduce_patiently(self) -> None:
        """Introduce the parties; nothing has been answered yet, so every try is a new run."""
        give_up, pause = monotonic() + self._patience, SECONDS_BETWEEN_TRIES
        while True:
            try:
                return self._introduce()
            except PartyUnavailableError as error:
                left = give_up - monotonic()
                if left <= 0:
                    raise
                logger.warning("%s", error)
                sleep(min(pause, left))
                pause = min(2 * pause, MAX_SECONDS_BETWEEN_TRIES)

    def _introduce(self) -> None:
        self._session = os.urandom(SESSION_BYTES)
        for member in self.members:
            member.introduction = b""
            member.connect(self._session, self.task_text)
        declarations = {member.name: member.declared() for member in self.members}
        check_same(declarations)
        introductions = tuple(Introduction.from_bytes(member.introduction) for member in self.members)
        for place, (member, own) in enumerate(zip(self.members, introductions, strict=True)):
            member.place = place
            if own.name != member.name:
                raise ProtocolError(f"party {member.name!r} introduced itself as {quoted(own.name)!r}")
        declaration = declarations[self.members[0].name]
        roster = Roster(self._session, statement(self.task_text, declaration), introductions)
        signed = self._ask_all(ProposeRoster(roster.to_bytes()), Endorsed)
        confirmed = ConfirmRoster(pack([one.signature for one in signed]))
        revealed = self._ask_all(confirmed, Revealed)
        self._ask_all(BeginRounds(pack([one.seed for one in revealed])), Done)

    # Participants.

    def _reach(self, members: Sequence[Member]) -> None:
        """Connect to parties, and wait until they are there or not."""
        self._of_each(
            [member for member in members if member.coming is None],
            lambda member: member.reach(self._session, self.task_text, self._history),
        )

    def _welcome(self) -> None:
        """Try parties that were lost, and take in those that are back; those elsewhere come in their time."""
        n_opened, due = len(self._history), []
        for member in self.members:
            if member.coming is not None and member.coming.done():
                coming, member.coming = member.coming, None
                try:
                    coming.result()
                    logger.info("party %r is back", member.name)
                except PartyUnavailableError:
                    member.lose(n_opened)
            elif not member.is_connected and member.coming is None and member.is_due(n_opened):
                due.append(member)
        for member in due:
            if member.is_elsewhere:
                member.coming = self._submit(
                    lambda one: one.reach(self._session, self.task_text, self._history), member
                )
            else:
                self._reach([member])

    def _members(self) -> list[Member]:
        """Those who take part in the next attempt, as soon as they are enough."""
        n_opened, pause = len(self._history), SECONDS_BETWEEN_TRIES
        others = [m for m in self.members if not m.is_connected and m.lost_in < n_opened]
        while True:
            members = [member for member in self.members if member.is_connected]
            if len(members) >= self.task.min_parties:
                return members
            if others:
                self._wait_for(others)
                others = []
                continue
            now = monotonic()
            self._give_up = now + self._patience if self._give_up is None else self._give_up
            if now >= self._give_up:
                raise PartyUnavailableError(
                    f"of the parties, only {sorted(m.name for m in members)} are left; at least "
                    f"{self.task.min_parties} must take part in every sum"
                )
            sleep(min(pause, self._give_up - now))
            pause = min(2 * pause, MAX_SECONDS_BETWEEN_TRIES)
            others = [member for member in self.members if not member.is_connected]

    def _wait_for(self, members: Sequence[Member]) -> None:
        """Wait for parties that are being tried already, and try the others."""
        self._reach(members)
        wait([member.coming for member in members if member.coming is not None])
        for member in members:
            if member.coming is not None:
                coming, member.coming = member.coming, None
                if coming.exception() is not None:
                    member.lose(len(self._history))

    # Rounds.

    def _round(self) -> bool:
        """Collect all contributions to the next sum; whether training goes on."""
        self._welcome()
        self._give_up = None
        contributions = None
        while contributions is None:
            contributions = self._attempt(self._members())
        if not any(contributions.values()):
            return False
        assert self._attempted is not None
        opened = Opened(len(self._history), self._attempted[0], contributions).to_bytes()
        if self._checkpoint is not None:
            self._checkpoint.note_opened(opened)
        self._history.append(opened)
        self._attempted = None
        return True

    def _attempt(self, members: Sequence[Member]) -> dict[int, bytes] | None:
        """The contributions of all members, or None if one was lost.

        An attempt that was made with the same members before is made again: who answered it answers the same
        bytes, and is not charged twice.
        """
        places = tuple(member.place for member in members)
        if self._attempted is None or self._attempted[1] != places:
            self._number += 1
            self._attempted = self._number, places
            if self._checkpoint is not None:
                self._checkpoint.note_attempt(self._number, places)
        n_opened = len(self._history)
        number, content = self._attempted[0], np.array(places, dtype=np.int32)

        def ask(member: Member) -> bytes:
            # The last sum travels with the question, unless the party has it already.
            opened = self._history[-1] if member.n_opened < n_opened else b""
            question = AskSum(n_opened, number, content, opened)
            return self._ask(member, question, Contributed, n_opened - bool(opened)).content

        contributions, lost = self._of_each(members, ask)
        for member in contributions:
            member.failures, member.n_opened = 0, n_opened
        if lost:
            return None
        if len({bool(given) for given in contributions.values()}) > 1:
            raise ProtocolError("the parties disagree about whether training has ended")
        return {member.place: given for member, given in contributions.items()}

    # The model.

    def _model(self) -> str:
        """The model of all parties that are there, which must be one and the same."""
        there = [member for member in self.members if member.is_connected]
        answers, _ = self._of_each(there, lambda member: self._ask(member, AskModel(0), FinishedModel))
        text = ""
        for member in answers:
            try:
                text = text or self._ask(member, AskModel(1), FinishedModel).text
            except PartyUnavailableError:
                continue
        if not text:
            raise PartyUnavailableError("no party is left that could give the model")
        for member, answer in answers.items():
            if answer.digest != model_digest(text):
                raise ProtocolError(f"party {member.name!r} has another model than the others")
        if self._checkpoint is not None:
            self._checkpoint.note_model(text)
        self._of_each(list(answers), lambda member: self._ask(member, Finish(), Done))
        return text
