"""One exact training run at one party: its terms, what it answers, and its own copy of the model."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from gbdt_hosts.xgboost.model import as_json
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.messages import Abort, Done, Finish, Message
from gbdt_parties.secure_sum.membership import Membership
from gbdt_parties.secure_sum.messages import (
    AskModel,
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    Endorsed,
    FinishedModel,
    Opened,
    OpenSum,
    Revealed,
    unpack,
)
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from xgb_fed.boosting.features import Columns
from xgb_fed.boosting.objectives import Objective
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.exact_cuts import DIGITS
from xgb_fed.horizontal.exact_messages import ExactIntroduced, ProposeExact
from xgb_fed.horizontal.exact_questions import Asking, Question
from xgb_fed.horizontal.exact_task import GIVEN, MIN_ROWS_PER_NODE, ExactTask, check_whole
from xgb_fed.horizontal.exact_training import ExactModel, ExactTraining, LabelledRows
from xgb_fed.horizontal.party_rows import PartyRows

ANSWERED = (ProposeExact, ConfirmRoster, BeginRounds, AskSum, OpenSum, AskModel, Finish, Abort)
"""Requests of an open session."""


@dataclass(frozen=True)
class ExactTerms:
    """What a party demands of exact training, and brings to it beside its rows.

    Parameters
    ----------
    min_rows_per_node : int, default=10
        Rows of all parties that a node must have, at least, before more than its sums is asked for.  Training
        runs with a lower minimum are refused.
    min_parties : int, default=2
        Parties that must take part, at least.  Of two parties, each learns the other's sums.
    cuts : sequence of str, default=("grid",)
        How columns may be cut: "grid", "exact", "given".  Whoever gives cuts can choose bins that few rows
        are in, and learn their labels from the sums.
    max_bin : int, default=256
        Bins of a column, at most; more bins have fewer rows each.
    held_out : sequence of (X, y) or (X, y, sample_weight), default=()
        Sets of rows that are not trained on.  Metrics of a set are means over all parties' rows in it; a
        place can be None where others have rows.
    tls : TLS or path, optional
        The party's certificate and key, and the authorities that it trusts.  Without it, it signs with a
        certificate of its own making, which is for parties in one process.
    allowed : sequence of str, optional
        Whom it adds its numbers to: ``sha256:`` and a certificate's fingerprint, or names with
        `trust_authority`.  Required with `tls`.
    trust_authority : bool, default=False
        Whether names are enough: whoever runs the authority can then be all other parties.

    Raises
    ------
    InvalidArgumentError, PartyArgumentError
        Naming the argument.

    Examples
    --------
    >>> import numpy as np
    >>> from xgb_fed import ExactTerms, HorizontalParty
    >>> X, y = np.zeros((20, 3)), np.arange(20) % 2
    >>> HorizontalParty(X, y, "north", categorical_labels=True, exact=ExactTerms(min_parties=3))
    HorizontalParty('north', 20 rows, 3 columns)
    """

    min_rows_per_node: int = MIN_ROWS_PER_NODE
    min_parties: int = 2
    cuts: Sequence[str] = ("grid",)
    max_bin: int = 256
    held_out: Sequence[Any] = ()
    tls: TLS | str | Path | None = None
    allowed: Sequence[str] | None = None
    trust_authority: bool = False

    def __post_init__(self) -> None:
        check_whole("min_rows_per_node", self.min_rows_per_node, 1)
        check_whole("min_parties", self.min_parties, 2)
        check_whole("max_bin", self.max_bin, 2)
        if isinstance(self.cuts, str) or not set(self.cuts) <= {*DIGITS, GIVEN}:
            raise InvalidArgumentError(f"cuts={self.cuts!r} must be some of {[*DIGITS, GIVEN]}")
        if self.tls is not None and self.allowed is None:
            raise InvalidArgumentError(
                "allowed=None would add this party's numbers to anybody's that the authority vouches for; "
                "name the other parties by 'sha256:' and the fingerprints of their certificates"
            )
        for k, given in enumerate(self.held_out):
            if given is not None and not (isinstance(given, (tuple, list)) and len(given) in (2, 3)):
                raise InvalidArgumentError(f"held_out[{k}] must be (X, y), (X, y, sample_weight) or None")


@dataclass(frozen=True, eq=False)
class ExactSide:
    """What a party brings to all of its exact training runs.

    Parameters
    ----------
    terms : ExactTerms
    rows : PartyRows
    held_out : list of PartyRows or None
    tls : TLS or None
    allowed : AllowList
    seed : bytes
        Of the streams that its rows are drawn from.
    """

    terms: ExactTerms
    rows: PartyRows
    held_out: list[PartyRows | None]
    tls: TLS | None
    allowed: AllowList
    seed: bytes

    @classmethod
    def of(cls, terms: ExactTerms, rows: PartyRows, random_state: int | None) -> ExactSide:
        """Check what a party brings."""
        tls = TLS.from_directory(terms.tls) if isinstance(terms.tls, (str, Path)) else terms.tls
        name = rows.name if tls is None else Identity.of(Credentials.of(tls).certificates).name
        if name != rows.name:
            raise InvalidArgumentError(f"name={rows.name!r} is not that of the party's certificate, {name!r}")
        held_out = []
        for k, given in enumerate(terms.held_out):
            held_out.append(None if given is None else rows.like(*given, argument=f"held_out[{k}]"))
        authority = b"" if tls is None else tls.authority
        seed = os.urandom(32) if random_state is None else f"exact {random_state}".encode()
        allowed = AllowList(terms.allowed, authority, terms.trust_authority)
        return cls(terms, rows, held_out, tls, allowed, seed)

    def credentials(self) -> Credentials:
        """What the party signs a session's keys with."""
        return Credentials.self_signed(self.rows.name) if self.tls is None else Credentials.of(self.tls)


class ExactRun:
    """A run, as one party sees it.

    Parameters
    ----------
    side : ExactSide
    session : bytes
        16 bytes.

    Attributes
    ----------
    model : ExactModel or None
        Once training has ended.
    """

    def __init__(self, side: ExactSide, session: bytes) -> None:
        self._side = side
        self._member = Membership(side.rows.name, side.credentials(), side.allowed, session)
        self._task: ExactTask | None = None
        self._training: ExactTraining | None = None
        self._steps: Asking[ExactModel] | None = None
        self._question: Question | None = None
        self.model: ExactModel | None = None

    def introduced(self, wants_classes: bool) -> ExactIntroduced:
        """Introduce this party."""
        rows = self._side.rows
        return ExactIntroduced(
            self._member.introduction.to_bytes(),
            rows.X.shape[1],
            json.dumps(rows.names) if rows.names else "",
            json.dumps(rows.classes()) if wants_classes else "",
            len(self._side.held_out),
        )

    def answer(self, message: Message) -> Message:
        """Answer a request."""
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
            text = self._model_text()
            return FinishedModel(hashlib.sha256(text.encode()).digest(), text if message.with_text else "")
        elif not isinstance(message, (Finish, Abort)):
            raise ProtocolError(f"unexpected {type(message).__name__} message")
        return Done()

    # How a run begins: everything is checked before anything of the rows leaves.

    def _endorse(self, message: ProposeExact) -> bytes:
        task, side = ExactTask.from_json(message.task), self._side
        rows, terms = side.rows, side.terms
        if (task.n_columns, list(task.names)) != (rows.X.shape[1], rows.names):
            raise InvalidDataError("the run is for other columns than this party has")
        if task.min_rows_per_node < terms.min_rows_per_node:
            raise InvalidDataError(
                f"min_rows_per_node={task.min_rows_per_node}; this party demands {terms.min_rows_per_node}"
            )
        if task.how_cut not in terms.cuts:
            raise InvalidDataError(f"cuts={task.how_cut!r}; this party accepts {list(terms.cuts)}")
        if task.max_bin > terms.max_bin:
            raise InvalidDataError(f"max_bin={task.max_bin}; this party accepts at most {terms.max_bin}")
        if task.n_sets < len(side.held_out):
            raise ProtocolError("a run without all of this party's held-out rows")
        if task.n_rounds > rows.max_rounds:
            raise InvalidDataError(
                f"{task.n_rounds} rounds; this party takes part in at most {rows.max_rounds}"
            )
        labelled = self._labelled(rows, task)
        held_out = [None if own is None else self._labelled(own, task) for own in side.held_out]
        held_out += [None] * (task.n_sets - len(held_out))
        self._training = ExactTraining(task, labelled, held_out, b"", side.seed)
        roster = Roster.from_bytes(message.roster)
        return self._member.endorse(roster, task.statement, max(task.min_parties, terms.min_parties))

    def _labelled(self, rows: PartyRows, task: ExactTask) -> LabelledRows:
        settings = task.settings
        y = rows.encoded("" if task.classes is None else json.dumps(list(task.classes)), settings)
        Objective(settings.objective, settings.n_classes, settings.scale_pos_weight).check_labels(y)
        data = rows.X.tocsc() if scipy.sparse.issparse(rows.X) else rows.X
        names = rows.names or [f"f{k}" for k in range(rows.X.shape[1])]
        return LabelledRows(Columns(data, names), y, rows.weights)

    def _begin(self, seeds: list[bytes]) -> None:
        if self._training is None or self._steps is not None:
            raise ProtocolError("the run was not proposed yet, or has begun")
        self._training.public_seed = self._member.begin(seeds)
        self._steps = self._training.run()
        self._question = next(self._steps)

    # Rounds.

    def _contribution(self) -> bytes:
        """The masked answer to this party's own question; nothing if training has ended."""
        question = self._question
        if question is None:
            if self.model is None:
                raise ProtocolError("the run has not begun yet")
            return b""
        return self._member.contribute(question.text, question.ring, question.values)

    def _open(self, opened: Opened) -> None:
        """Add up everybody's answers to this party's own question, and go on to the next one."""
        question, steps = self._question, self._steps
        if opened.round < self._member.n_opened:
            return
        if question is None or steps is None:
            raise ProtocolError("there is nothing to open")
        self._member.check_asked(opened.round, opened.number, sorted(opened.contributions))
        total = self._member.open(question.text, question.ring, len(question.values), opened.contributions)
        try:
            self._question = steps.send(question.checked(total))
        except StopIteration as end:
            self._question, self.model = None, end.value

    def _model_text(self) -> str:
        """Model, cuts and metrics, the same at all parties."""
        if self.model is None:
            raise ProtocolError("training has not ended yet")
        model = self.model
        return json.dumps(
            {
                "booster": as_json(model.booster).decode(),
                "cuts": [own.astype(np.float64).tolist() for own in model.cuts],
                "evals_result": model.evals_result,
                "best_iteration": model.best_iteration,
                "best_score": model.best_score,
            }
        )
