"""One exact training run at one party: what it answers, and its own copy of the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse

from gbdt_commons.errors import VeilboostError
from gbdt_hosts.xgboost.model import as_json
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.memory import MemoryAllowance, Room
from gbdt_parties.messages import Abort, Done, Finish, Message
from gbdt_parties.secure_sum.answers import AnswerJournal
from gbdt_parties.secure_sum.membership import Membership
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
    unpack,
)
from gbdt_parties.secure_sum.roster import Roster
from xgb_fed.boosting.features import Columns
from xgb_fed.horizontal.common.kept_state import KeptState
from xgb_fed.horizontal.common.rows import PartyRows, RunLimits
from xgb_fed.horizontal.exact.memory import TEXT_BYTES, needed_bytes
from xgb_fed.horizontal.exact.messages import ExactFinished, ExactIntroduced, ProposeExact
from xgb_fed.horizontal.exact.questions import Asking, Question, in_parts
from xgb_fed.horizontal.exact.rows.samples import RowDraws
from xgb_fed.horizontal.exact.sizes import LabelledRows
from xgb_fed.horizontal.exact.task import ExactTask
from xgb_fed.horizontal.exact.terms import ExactSide
from xgb_fed.horizontal.exact.training import ExactModel, ExactTraining

ANSWERED = (ProposeExact, ConfirmRoster, BeginRounds, AskSum, OpenSum, AskModel, Finish, Abort)
"""Requests of an open session."""

MAX_OPENED_BYTES = 32 << 20
"""Length of all parties' contributions to one sum together: longer vectors are asked for in parts."""


@dataclass(frozen=True, eq=False)
class RunConditions:
    """Conditions of a run beside the party's rows and terms.

    Parameters
    ----------
    limits : RunLimits
    memory : MemoryAllowance
        Of the coordinator.
    kept : KeptState
        Counts the rounds and samples of all runs, and has the key that rows are drawn by.
    open_journal : callable
        Gives the journal of a run's answers.
    """

    limits: RunLimits
    memory: MemoryAllowance
    kept: KeptState
    open_journal: Callable[[bytes], AnswerJournal]


@dataclass
class _Answers:
    """The journal of what was answered, opened with the first answer, and the last answer itself."""

    open_journal: Callable[[], AnswerJournal]
    journal: AnswerJournal | None = None
    last: tuple[int, bytes] = field(default=(-1, b""), repr=False)


class ExactRun:
    """A run, as one party sees it.

    Answers follow from the rows, the keys and the sums before: asked again, also after a restart, a party
    computes the same bytes.  It keeps a digest of each answer, so that another one never leaves.

    Parameters
    ----------
    side : ExactSide
    run : bytes
        16 bytes.
    conditions : RunConditions
    kept : mapping, optional
        Result of `to_dict`: the run begins again, from its first sum.

    Attributes
    ----------
    model : ExactModel or None
        Once training has ended.
    """

    def __init__(
        self,
        side: ExactSide,
        run: bytes,
        conditions: RunConditions,
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        self.run = run
        self.model: ExactModel | None = None
        self._side, self._conditions = side, conditions
        member = None if kept is None else kept["member"]
        self._member = Membership(side.rows.name, side.credentials(), side.allowed, run, member)
        self._answers = _Answers(lambda: conditions.open_journal(run))
        self._training: ExactTraining | None = None
        self._steps: Asking[ExactModel] | None = None
        self._question: Question | None = None
        self._failure = ""
        self._rooms: list[Room] = []
        if kept is not None:
            self._take_up(kept)

    def _take_up(self, kept: Mapping[str, Any]) -> None:
        if kept["rows"] != self._side.digest:
            raise InvalidDataError("this party has other rows than when the run began")
        task = self._task(kept["task"])
        self._training = self._proposed(task)
        public_seed = self._member.take_up(kept["member"], task.statement, self._min_parties(task))
        if public_seed is None:
            raise ProtocolError("the run had not begun")
        self._start(public_seed)

    def to_dict(self) -> dict[str, Any]:
        """State that a restarted party needs to take part again; secret."""
        assert self._training is not None
        return {
            "task": self._training.task.to_json(),
            "rows": self._side.digest,
            "member": self._member.to_dict(),
        }

    @property
    def has_begun(self) -> bool:
        """Whether all parties have signed the roster and revealed their seeds."""
        return self._steps is not None

    @property
    def n_opened(self) -> int:
        """Sums that were opened."""
        return self._member.n_opened

    def close(self) -> None:
        """Let go of the journal of answers."""
        if self._answers.journal is not None:
            self._answers.journal.close()

    def introduced(self, wants_classes: bool) -> ExactIntroduced:
        """Introduce this party."""
        rows = self._side.rows
        return ExactIntroduced(
            self._member.introduction.to_bytes(),
            rows.X.shape[1],
            json.dumps(rows.names) if rows.names else "",
            json.dumps(rows.classes()) if wants_classes else "",
            len(self._side.held_out),
            self.n_opened,
        )

    def answer(self, message: Message) -> Message:
        """Answer a request."""
        if self._failure:
            raise ProtocolError(f"the run has failed at this party: {self._failure}")
        if isinstance(message, AskSum):
            if message.opened:
                self._open(Opened.from_bytes(message.opened))
            self._member.check_asked(message.round, message.number, message.members.tolist())
            return Contributed(self._contribution())
        if isinstance(message, OpenSum):
            self._open(Opened.from_bytes(message.opened))
        elif isinstance(message, ProposeExact):
            return Endorsed(self._endorse(message))
        elif isinstance(message, ConfirmRoster):
            return Revealed(self._member.reveal(unpack(message.signatures)))
        elif isinstance(message, BeginRounds):
            self._begin(unpack(message.seeds))
        elif isinstance(message, AskModel):
            content = self._model_text()
            return ExactFinished(hashlib.sha256(content).digest(), content if message.with_text else b"")
        elif not isinstance(message, (Finish, Abort)):
            raise ProtocolError(f"unexpected {type(message).__name__} message")
        return Done()

    # How a run begins: everything is checked before anything of the rows leaves.

    def _endorse(self, message: ProposeExact) -> bytes:
        if self._steps is not None:
            raise ProtocolError("the run has begun already")
        task = self._task(message.task)
        training = self._proposed(task)
        roster = Roster.from_bytes(message.roster)
        signature = self._member.endorse(roster, task.statement, self._min_parties(task))
        # Not before: what is trained is what was signed.
        self._training = training
        return signature

    def _task(self, text: str) -> ExactTask:
        """Read what is to be trained, within the coordinator's memory."""
        room = self._conditions.memory.reserve(len(text) * TEXT_BYTES, "the settings of a run")
        self._rooms = [room]
        return ExactTask.from_json(text)

    def _min_parties(self, task: ExactTask) -> int:
        return max(task.min_parties, self._side.terms.min_parties)

    def _proposed(self, task: ExactTask) -> ExactTraining:
        """Check what is to be trained, and get the rows ready."""
        side, limits = self._side, self._conditions.limits
        rows, terms = side.rows, side.terms
        if (task.n_columns, list(task.names)) != (rows.X.shape[1], rows.names):
            raise InvalidDataError("the run is for other columns than this party has")
        if task.min_rows_per_node < terms.min_rows_per_node:
            raise InvalidDataError(
                f"min_rows_per_node={task.min_rows_per_node}; this party demands {terms.min_rows_per_node}"
            )
        if task.how_cut not in terms.cuts:
            raise InvalidDataError(f"cuts={task.how_cut!r}; this party accepts {list(terms.cuts)}")
        max_bin = min(terms.max_bin, limits.max_bin)
        if task.max_bin > max_bin:
            raise InvalidDataError(f"max_bin={task.max_bin}; this party accepts at most {max_bin}")
        if task.settings.max_depth > limits.max_depth:
            raise InvalidDataError(
                f"max_depth={task.settings.max_depth}; this party accepts at most {limits.max_depth}"
            )
        if task.n_sets < len(side.held_out):
            raise ProtocolError("a run without all of this party's held-out rows")
        if task.n_rounds > rows.max_rounds:
            raise InvalidDataError(
                f"{task.n_rounds} rounds; this party takes part in at most {rows.max_rounds}"
            )
        n_rows = [len(rows.y), *(0 if own is None else len(own.y) for own in side.held_out)]
        size = needed_bytes(task, n_rows)
        self._rooms.append(self._conditions.memory.reserve(size, "gradients and histograms"))
        labelled = self._labelled(rows, task)
        held_out = [None if own is None else self._labelled(own, task) for own in side.held_out]
        held_out += [None] * (task.n_sets - len(held_out))
        draws = RowDraws(self._conditions.kept, side.digest_of_rows, terms.max_samples)
        return ExactTraining(task, labelled, held_out, b"", draws, rows.max_rows)

    def _labelled(self, rows: PartyRows, task: ExactTask) -> LabelledRows:
        settings = task.settings
        y = rows.encoded("" if task.classes is None else json.dumps(list(task.classes)), settings)
        settings.loss.check_labels(y)
        if settings.objective == "count:poisson" and (y < 0).any():
            raise InvalidDataError("y must be at least 0 for count:poisson")
        data = rows.X.tocsc() if scipy.sparse.issparse(rows.X) else rows.X
        names = rows.names or [f"f{k}" for k in range(rows.X.shape[1])]
        return LabelledRows(Columns(data, names), y, rows.weights)

    def _begin(self, seeds: list[bytes]) -> None:
        if self._training is None or self._steps is not None:
            raise ProtocolError("the run was not proposed yet, or has begun")
        self._start(self._member.begin(seeds))

    def _start(self, public_seed: bytes) -> None:
        assert self._training is not None
        self._training.public_seed = public_seed
        roster, _ = self._member.parts()
        self._training.draws = replace(self._training.draws, members=roster.names)
        self._steps = in_parts(self._training.run(), MAX_OPENED_BYTES // self._member.n_parties)
        self._question = next(self._steps)

    # Rounds.

    def _contribution(self) -> bytes:
        """The masked answer to this party's own question; nothing if training has ended."""
        question, answers = self._question, self._answers
        if question is None:
            if self.model is None:
                raise ProtocolError("the run has not begun yet")
            return b""
        number = self.n_opened + 1
        if answers.last[0] != number:
            answers.last = number, self._answered(question, number)
        return answers.last[1]

    def _answered(self, question: Question, number: int) -> bytes:
        assert self._training is not None
        n_rounds = self._training.task.n_rounds

        session, asked = self._member.asked(question.text)

        def prepare() -> Mapping[str, Any]:
            if number == 1:
                # By what all have signed: the run's number is the coordinator's choice.
                self._conditions.kept.count_run(session, n_rounds, self._side.rows.max_rounds)
            return {}

        if self._answers.journal is None:
            self._answers.journal = self._answers.open_journal()
        answer = self._member.contribute(question.text, question.ring, question.values)
        digest = hashlib.sha256(answer).digest()
        if self._answers.journal.once(session, number, asked, prepare, lambda: digest) != digest:
            raise ProtocolError(
                f"attempt {number} was answered before, with other bytes than this party computes now: the "
                "data, CPU or library versions have changed"
            )
        return answer

    def _open(self, opened: Opened) -> None:
        """Add up all parties' answers to this party's own question, and go on to the next one."""
        question, steps = self._question, self._steps
        if opened.round < self.n_opened:
            return
        if question is None or steps is None:
            raise ProtocolError("there is nothing to open")
        self._member.check_asked(opened.round, opened.number, sorted(opened.contributions))
        total = self._member.open(question.text, question.ring, len(question.values), opened.contributions)
        try:
            self._question = steps.send(question.checked(total))
        except StopIteration as end:
            self._question, self.model = None, end.value
        except BaseException as error:
            # The sum is opened, and there is no way back from it.
            self._failure = str(error) if isinstance(error, VeilboostError) else "internal error"
            raise

    def _model_text(self) -> bytes:
        """Model, cuts and metrics, the same at all parties."""
        if self.model is None:
            raise ProtocolError("training has not ended yet")
        model = self.model
        content = {
            "booster": as_json(model.booster).decode(),
            "cuts": [own.astype(np.float64).tolist() for own in model.cuts],
            "evals_result": model.evals_result,
            "best_iteration": model.best_iteration,
            "best_score": model.best_score,
        }
        return json.dumps(content).encode()
