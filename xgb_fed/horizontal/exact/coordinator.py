"""The coordinator of exact training: it forwards what the parties sign, and sees masked sums only.

Every sum is over all parties.  If one is lost, the others wait: a sum without it would give it away.  It is
sent what it has missed, and answers what it was asked before with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import xgboost

from gbdt_commons.quoting import quoted
from gbdt_parties.channel import Channel, Party
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.messages import Abort, Done, Finish, Message
from gbdt_parties.patience import Fanout, Reconnector
from gbdt_parties.secure_sum.messages import (
    AskModel,
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    Endorsed,
    Opened,
    OpenSum,
    Revealed,
    pack,
)
from gbdt_parties.secure_sum.roster import SESSION_BYTES, Introduction, Roster
from gbdt_parties.traffic import Traffic
from xgb_fed.horizontal.common.introductions import read_classes
from xgb_fed.horizontal.common.model import HorizontalModel
from xgb_fed.horizontal.common.rows import COORDINATOR
from xgb_fed.horizontal.exact.checkpoint import ExactCheckpoint
from xgb_fed.horizontal.exact.messages import NEW_RUN, ExactFinished, ExactIntroduced, OpenExact, ProposeExact
from xgb_fed.horizontal.exact.task import MAX_SETS, ExactTask, read_names

logger = logging.getLogger(__name__)
SUMS_PER_LINE = 200
"""Sums after which the log says how far the run has come."""

M = TypeVar("M", bound=Message)


class _Member:
    """A party, its session, and how far it has come.

    Attributes
    ----------
    introduction : bytes
    n_opened : int
        Sums that the party has opened.
    """

    def __init__(self, party: Party, traffic: Traffic) -> None:
        self.party, self.name, self._traffic = party, party.name, traffic
        self.introduction, self.n_opened = b"", 0
        self._channel: Channel | None = None

    def open(self, run: bytes, wants_classes: bool, n_known: int) -> ExactIntroduced:
        """Open a session of a new run, or of one that is known."""
        self._channel = Channel(self.party, os.urandom(SESSION_BYTES), self._traffic, COORDINATOR)
        answer = self.ask(OpenExact(run, int(wants_classes), n_known), ExactIntroduced)
        if n_known == NEW_RUN:
            self.introduction = answer.introduction
        elif answer.introduction != self.introduction or not 0 <= answer.n_opened <= n_known:
            raise ProtocolError(f"party {self.name!r} does not take up the run where it left it")
        self.n_opened = answer.n_opened
        return answer

    def ask(self, message: Message, answer: type[M]) -> M:
        """Ask in the open session."""
        assert self._channel is not None
        return self._channel.ask(message, answer)


class ExactCoordinator:
    """One run.

    Parameters
    ----------
    parties : sequence of Party
    wants_classes : bool
        Whether labels are classes, which all parties tell.
    traffic : Traffic
    checkpoint : ExactCheckpoint or None
        Without it, no party can catch up.
    patience : float
        Seconds to wait for lost parties, in all within one question.
    """

    def __init__(
        self,
        parties: Sequence[Party],
        wants_classes: bool,
        traffic: Traffic,
        checkpoint: ExactCheckpoint | None = None,
        patience: float = 0.0,
    ) -> None:
        self.traffic = traffic
        self._members = [_Member(party, traffic) for party in parties]
        self._wants_classes, self._checkpoint, self._patience = wants_classes, checkpoint, patience
        self._run, self._n_opened, self._last = b"", 0, b""
        self._classes: list[Any] | None = None
        self._pool = ThreadPoolExecutor(len(parties), thread_name_prefix="xgb_fed")
        self._together = Fanout(self._pool, parties)

    def run(self, about: Any, task_of: Callable[[Sequence[ExactIntroduced]], ExactTask]) -> HorizontalModel:
        """Everything, from introductions to the model.

        Parameters
        ----------
        about : object
            Request for training, in JSON's types.
        task_of : callable
            Gives the task when the parties have introduced themselves.
        """
        with self._pool:
            try:
                return self._model(self._taken_up(about) or self._trained(task_of))
            except PartyUnavailableError:
                # Sessions stay open: the run may be taken up again.
                raise
            except BaseException:
                self._together(self._abort, self._members)
                raise

    @staticmethod
    def _abort(member: _Member) -> None:
        with suppress(Exception):
            member.ask(Abort(), Done)

    def _taken_up(self, about: Any) -> bytes:
        """Read the checkpoint; gives the model, if that is in there."""
        if self._checkpoint is None:
            return b""
        progress = self._checkpoint.load(about, [member.name for member in self._members])
        self._run, self._n_opened, self._last = progress.run, progress.n_opened, progress.last
        self._classes = progress.classes
        for member, own in zip(self._members, progress.introductions, strict=False):
            member.introduction = own
        return progress.model

    def _trained(self, task_of: Callable[[Sequence[ExactIntroduced]], ExactTask]) -> bytes:
        is_known = bool(self._run)
        if is_known:
            logger.info("the training run resumes after %d sums", self._n_opened)
        else:
            # Nothing was answered before it has begun, so that every try is a new run.
            Reconnector(self._patience, lambda: None, self.traffic)(lambda: self._introduce(task_of))
            if self._checkpoint is not None:
                own = [member.introduction for member in self._members]
                self._checkpoint.note_start(self._run, own, self._classes)
        reconnecting = Reconnector(self._patience, self._reopen, self.traffic, must_reopen=is_known)
        while self._sum(reconnecting):
            if self._n_opened % SUMS_PER_LINE == 0:
                logger.info("%d sums over all parties", self._n_opened)
        content = self._agreed_model(reconnecting)
        if self._checkpoint is not None:
            self._checkpoint.note_model(content)
        self._finish()
        return content

    def _ask_all(self, message: Message, answer: type[M]) -> list[M]:
        """Ask all parties the same, at the same time."""
        return self._together(lambda member: member.ask(message, answer), self._members)

    # How a run begins.

    def _introduce(self, task_of: Callable[[Sequence[ExactIntroduced]], ExactTask]) -> None:
        self._run = os.urandom(SESSION_BYTES)
        introduced = self._together(
            lambda member: member.open(self._run, self._wants_classes, NEW_RUN), self._members
        )
        own = []
        for member, answer in zip(self._members, introduced, strict=True):
            own.append(_checked(member.name, answer, self._wants_classes))
        task = task_of(introduced)
        self._classes = None if task.classes is None else list(task.classes)
        roster = Roster(self._run, task.statement, tuple(own))
        signatures = self._ask_all(ProposeExact(task.to_json(), roster.to_bytes()), Endorsed)
        seeds = self._ask_all(ConfirmRoster(pack([one.signature for one in signatures])), Revealed)
        self._ask_all(BeginRounds(pack([one.seed for one in seeds])), Done)

    # Rounds.

    def _reopen(self) -> None:
        """Open new sessions with all parties, and send them the sums that they have missed."""
        self._together(self._reopen_one, self._members)

    def _reopen_one(self, member: _Member) -> None:
        member.open(self._run, self._wants_classes, self._n_opened)
        while member.n_opened < self._n_opened:
            assert self._checkpoint is not None
            member.ask(OpenSum(self._checkpoint.opened(member.n_opened)), Done)
            member.n_opened += 1

    def _sum(self, reconnecting: Reconnector) -> bool:
        """Collect all parties' answers to the next question; whether there was one."""
        contents = reconnecting(self._answers)
        if not any(contents):
            return False
        if not all(contents):
            raise ProtocolError("the parties disagree about whether training has ended")
        self._last = Opened(self._n_opened, self._n_opened + 1, dict(enumerate(contents))).to_bytes()
        if self._checkpoint is not None:
            self._checkpoint.note_opened(self._last)
        self._n_opened += 1
        return True

    def _answers(self) -> list[bytes]:
        number = self._n_opened
        places = np.arange(len(self._members), dtype=np.int32)

        def ask(member: _Member) -> bytes:
            # The last sum travels with the question, unless the party has it already.
            opened = self._last if member.n_opened < number else b""
            answer = member.ask(AskSum(number, number + 1, places, opened), Contributed)
            member.n_opened = number
            return answer.content

        return self._together(ask, self._members)

    # The model.

    def _agreed_model(self, reconnecting: Reconnector) -> bytes:
        """The model, which all parties must have alike."""
        first = self._members[0]
        content = reconnecting(lambda: first.ask(AskModel(1), ExactFinished)).content
        digest = hashlib.sha256(content).digest()
        answers = reconnecting(lambda: self._ask_all(AskModel(0), ExactFinished))
        for member, answer in zip(self._members, answers, strict=True):
            if answer.digest != digest:
                raise ProtocolError(f"party {member.name!r} has another model than the others")
        return content

    def _finish(self) -> None:
        """Let the parties keep the model; one whose answer was lost may have done so already."""

        def finish(member: _Member) -> None:
            reconnecting = Reconnector(self._patience, lambda: self._reopen_one(member), self.traffic)
            try:
                reconnecting(lambda: member.ask(Finish(), Done))
            except (PartyUnavailableError, PartyRefusedError) as error:
                logger.warning("the model is there; at the end of the run, %s", error)

        self._together(finish, self._members)

    def _model(self, content: bytes) -> HorizontalModel:
        """The model that the parties agree on.

        Raises
        ------
        ProtocolError
            If it is none.
        """
        try:
            values = json.loads(content)
            # Python's parser bounds the depth; XGBoost's would run out of stack.
            json.loads(values["booster"])
            booster = xgboost.Booster()
            booster.load_model(bytearray(values["booster"].encode()))
            return HorizontalModel(
                booster,
                None if self._classes is None else np.array(self._classes),
                self.traffic,
                values["best_iteration"],
                values["best_score"],
                values["evals_result"],
                [np.array(own, dtype=np.float32) for own in values["cuts"]],
            )
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            # An XGBoostError is a ValueError.
            raise ProtocolError(f"the parties' model cannot be read: {type(error).__name__}") from None


def _checked(party: str, answer: ExactIntroduced, wants_classes: bool) -> Introduction:
    """Description of a party's columns, checked before use."""
    try:
        own = Introduction.from_bytes(answer.introduction)
        if own.name != party:
            raise ProtocolError(f"the name {quoted(own.name)!r}")
        names = read_names(answer.names)
        if not 1 <= answer.n_features < 2**31 or len(names) not in (0, answer.n_features):
            raise ProtocolError(f"{answer.n_features} columns and {len(names)} names")
        if not 0 <= answer.n_sets <= MAX_SETS:
            raise ProtocolError(f"{answer.n_sets} sets of held-out rows")
        if wants_classes:
            read_classes(answer.classes)
    except (ProtocolError, InvalidDataError) as error:
        raise ProtocolError(f"party {party!r} introduces itself with {quoted(str(error))}") from None
    return own
