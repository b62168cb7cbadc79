"""One exact training run at one party: what it checks, sums up, and keeps of its answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import scipy.sparse
import xgboost

from gbdt_commons.store import Store
from gbdt_parties.agreed import TEXT_BYTES
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.memory import MemoryAllowance, Room
from gbdt_parties.run.engine import Computation
from gbdt_parties.run.exchange import Participation
from gbdt_parties.run.party_run import Proposal, Subject
from gbdt_parties.run.replay import Replay, chosen, replayed
from gbdt_parties.run.sessions import Runs
from gbdt_parties.secure_sum.contributions import Attempt
from gbdt_parties.secure_sum.rings import Words
from gbdt_parties.secure_sum.roster import Roster
from xgb_fed.boosting.features import Columns
from xgb_fed.horizontal.common.introductions import names_to_json
from xgb_fed.horizontal.common.kept_models import KeptModels
from xgb_fed.horizontal.common.party_state import MAX_RUNS, PartyState
from xgb_fed.horizontal.common.rows import HorizontalLimits, HorizontalRows
from xgb_fed.horizontal.exact.exchange import REQUESTS, ExactDescription, content_of
from xgb_fed.horizontal.exact.metrics import metrics_of
from xgb_fed.horizontal.exact.questions import Flight, in_flights
from xgb_fed.horizontal.exact.rows.samples import RowDraws
from xgb_fed.horizontal.exact.sizes import LabelledRows
from xgb_fed.horizontal.exact.task import ExactTask
from xgb_fed.horizontal.exact.terms import ExactSide
from xgb_fed.horizontal.exact.training import ExactModel, ExactTraining, RoundsDone

# What a party reserves before anything is allocated: every number and list that a coordinator chooses is in
# `needed_bytes`, or is bounded where the task is read.
_ROW_BYTES = 192
"""Of a row's gradient and hessian of one class: fixed-point numbers, and those they are made of."""

_XGBOOST_ROW_BYTES = 2000
"""Of a row whose gradients XGBoost computes, while it reads the tree that it computes them by."""

_BIN_BYTES = 256
"""Of a bin of one node: its sums here, of all parties, in its parent's, and as gains of candidates."""

_CELL_BYTES = 640
"""Of a cell that cuts are searched in: the counts by its 16 next digits, of this party and of all."""

_VALUE_BYTES = 6
"""Of a value of a row: its key while cuts are searched, and the number of its bin."""

_LOSS_BYTES = 32
"""Of the loss of a held-out row: one, weighted, and what it is computed by."""

_METRIC_BYTES = 96
"""Of a metric of one set and round: a number, in a list and in the text that the model is sent as."""

_NODE_BYTES = 3000
"""Of a node of a finished tree: numbers in lists, in the model's text, and in XGBoost that reads it."""


def needed_bytes(task: ExactTask, n_rows: Sequence[int]) -> int:
    """An upper bound of the arrays of a run at a party, beside its rows and held-out sets."""
    settings = task.settings
    n_classes, n_bins = max(1, settings.n_classes), task.n_columns * (task.max_bin + 1)
    n_metrics = len(metrics_of(settings))
    # Bins; gradients and hessians as words, twice while they are made; floats, margins, nodes.
    of_rows = n_rows[0] * (_VALUE_BYTES * task.n_columns + n_classes * (_ROW_BYTES + 16))
    of_rows += sum(n_rows) * 64 * n_classes + max(n_rows[1:], default=0) * _LOSS_BYTES * (1 + n_metrics)
    of_rows += 0 if settings.loss.is_closed_form else n_rows[0] * _XGBOOST_ROW_BYTES
    n_nodes = 1 << (settings.max_depth - 1)
    of_bins = n_bins * (n_nodes * n_classes * _BIN_BYTES + _CELL_BYTES)
    of_model = task.n_rounds * (
        4 * n_nodes * n_classes * _NODE_BYTES + task.n_sets * n_metrics * _METRIC_BYTES
    )
    return of_rows + of_bins + of_model


MAX_OPENED_BYTES = 32 << 20
"""Length of all parties' contributions to one sum together: longer vectors are asked for in parts."""


class ExactRuns(Runs):
    """Exact training runs of one coordinator at one party, within the coordinator's memory.

    The store has digests of their answers; the state counts the rounds and samples of all runs, and has the
    key that rows are drawn by.  `booster` is that of the last run that has ended.
    """

    def __init__(
        self,
        side: ExactSide,
        store: Store,
        models: KeptModels | None,
        limits: HorizontalLimits,
        memory: MemoryAllowance,
        state: PartyState,
        auditable: bool = False,
    ) -> None:
        super().__init__(partial(ExactSubject, self), store, auditable)
        self.side, self.limits, self.memory, self.state = side, limits, memory, state
        self.booster: xgboost.Booster | None = None
        self._models = models

    def replayed(self, stores: Iterable[Store], run: str | None, counted: Mapping[str, int]) -> Replay:
        """Repeat a run whose record is in one of the stores, with the rows of this side and its counts."""
        report = replayed(chosen(stores, run), partial(ExactSubject, self), self.state.store)
        is_missing = bool(self.state.rounds_of.items() - counted.items()) and len(counted) < MAX_RUNS
        if not (report.agrees and is_missing):
            return report
        return replace(report, difference="the party has not counted the rounds of the run", has_ended=False)

    @property
    def done(self) -> RoundsDone:
        """Rounds of the run under way."""
        subject = None if self.live is None else self.live.subject
        return subject.done if isinstance(subject, ExactSubject) else RoundsDone()

    def finished(self, run: bytes, model: ExactModel, signatures: str) -> None:
        """Keep the model of a run that has ended; its number may be that of another one from now on."""
        self.booster = model.booster
        if self._models is not None:
            self._models.keep(run, content_of(model)[0], signatures)


class ExactSubject(Subject):
    """The subject of one run at one party (`gbdt_parties.run.party_run.Subject`).

    Answers follow from the rows, the keys and the sums before: asked again, also after a restart, a party
    computes the same bytes.  The request is one of `REQUESTS`.
    """

    def __init__(self, runs: ExactRuns, run: bytes, request: str) -> None:
        if request not in REQUESTS:
            raise ProtocolError("the run is of another method than exact training")
        side = runs.side
        super().__init__(side.rows.name, side.credentials(), side.allowed, Participation())
        self._side, self._runs, self._run, self._wants_classes = side, runs, run, REQUESTS[request]
        self._rooms: list[Room] = []
        self._n_rounds = 0
        self._begun: ExactTraining | None = None

    def rows(self, auditable: bool) -> str:
        """Names all rows of this party."""
        return self._side.digest

    def description(self) -> str:
        """Columns, and nothing of rows but their labels, if those are classes."""
        rows = self._side.rows
        return ExactDescription(
            rows.X.shape[1],
            names_to_json(rows.names),
            json.dumps(rows.classes()) if self._wants_classes else "",
            len(self._side.held_out),
        ).to_json()

    # How a run begins: everything is checked before anything of the rows leaves.

    def proposed(self, task: str) -> Proposal:
        """Check the settings, within the coordinator's memory, and get the rows ready."""
        memory = self._runs.memory
        self._rooms = [memory.reserve(len(task) * TEXT_BYTES, "the settings of a run")]
        settings = ExactTask.from_json(task)
        min_parties = max(settings.min_parties, self._side.terms.min_parties)
        training = self._training(settings)
        return Proposal(task, settings.statement, min_parties, partial(self.begin, training))

    def _training(self, task: ExactTask) -> ExactTraining:
        """Check what is to be trained, and get the rows ready."""
        side, limits = self._side, self._runs.limits
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
        self._rooms.append(self._runs.memory.reserve(size, "gradients and histograms"))
        labelled = self._labelled(rows, task)
        held_out = [None if own is None else self._labelled(own, task) for own in side.held_out]
        held_out += [None] * (task.n_sets - len(held_out))
        draws = RowDraws(self._runs.state, side.digest_of_rows, terms.max_samples)
        return ExactTraining(task, labelled, held_out, b"", draws, rows.max_rows)

    def _labelled(self, rows: HorizontalRows, task: ExactTask) -> LabelledRows:
        settings = task.settings
        bounds = rows.bounds(settings)
        if bounds is None:
            y = rows.encoded("" if task.classes is None else json.dumps(list(task.classes)), settings)
            settings.loss.check_range(y)
        else:
            y = bounds[0]
        data = rows.X.tocsc() if scipy.sparse.issparse(rows.X) else rows.X
        names = rows.names or [f"f{k}" for k in range(rows.X.shape[1])]
        return LabelledRows(Columns(data, names), y, rows.weights, None if bounds is None else bounds[1])

    def begin(
        self, training: ExactTraining, roster: Roster, public_seed: bytes, own_key: bytes
    ) -> Computation[Flight, ExactModel]:
        """Train with the seed and the names that all parties agreed on, and no draws of this party's own."""
        training.public_seed = public_seed
        training.draws = replace(training.draws, members=roster.names)
        self._n_rounds, self._begun = training.task.n_rounds, training
        return Computation(in_flights(training.run(), MAX_OPENED_BYTES // len(roster.names)))

    # Rounds.

    def pay(self, question: Flight, roster: bytes, attempt: Attempt) -> None:
        """Count all rounds, and note the rows, before the first answer, once."""
        if attempt.number == 1:
            self._runs.state.tell()
            # By what all have signed: the run's number is the coordinator's choice.
            self._runs.state.count_run(roster, self._n_rounds, self._side.rows.max_rounds)

    def vector(self, question: Flight, n_members: int, noise_key: bytes | None) -> Words:
        """The sums of this party's rows."""
        return question.values

    def released(self, question: Flight, total: Words, n_members: int) -> Any:
        """The sums as the computation reads them; a SumRangeError if one is out of range."""
        return question.checked(total)

    @property
    def done(self) -> RoundsDone:
        """Rounds that the run has had."""
        return RoundsDone() if self._begun is None else self._begun.done

    # The model.

    def content(self, result: ExactModel) -> Sequence[bytes]:
        """The model; cuts and metrics."""
        return content_of(result)

    def finished(self, result: ExactModel, signatures: str) -> None:
        """Keep the model."""
        self._runs.finished(self._run, result, signatures)

    def close(self) -> None:
        """Let go of reserved memory."""
        self._rooms = []
