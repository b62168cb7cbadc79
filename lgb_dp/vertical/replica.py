"""One party's own copy of a run: both parties work out every tree from the same releases and opened sums.

A copy asks for the same values and rounds whenever it begins; those over are answered from the
party's store, so that a party that was restarted goes on where the run was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import Any, cast

import lightgbm
import numpy as np
from numpy.typing import NDArray

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.store import Store
from gbdt_hosts.lightgbm import check_parameters
from gbdt_kernels.trees import DenseCodes, SparseCodes, by_columns
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.engine import Steps, drive
from gbdt_parties.run.flights.driver import Exchange, PointExchange, TableExchange
from gbdt_parties.run.flights.frames import FrameChannel
from gbdt_parties.run.flights.kept import KeptFailures
from gbdt_parties.run.flights.terms import Terms
from gbdt_parties.run.log import RunLog
from gbdt_parties.two_party.life import Failures
from lgb_dp.accounting.shares import closeness
from lgb_dp.accounting.unit import ONE_ROW
from lgb_dp.boosting.booster import DPBooster, trained
from lgb_dp.boosting.params import training_parameters
from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.ledger import Charges, PartyLedger
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import STEPS, Loss
from lgb_dp.mechanisms.noise import release_gaussian
from lgb_dp.mechanisms.rng import WordSource
from lgb_dp.newton.monotone import MonotoneConstraints
from lgb_dp.newton.trainer import NewtonBoost
from lgb_dp.vertical.columns import joined_bins, joint_rows
from lgb_dp.vertical.numbers import TAIL, PublicNumbers
from lgb_dp.vertical.sums import (
    TABLES_PLACE,
    ColumnRows,
    Holder,
    MakeHolder,
    OneAgainstRest,
    OpenedSums,
    PointHolder,
    ReleasedCounts,
    TableHolder,
    Words,
    n_leaves,
)
from lgb_dp.vertical.task import ColumnTask
from lgb_dp.vertical.training import RunOfParties, SeveralClasses, VerticalCore, begun

Charge = Callable[[str, float, float], None]
"""Charges for something that is about to leave: its name, its μ, and its closeness."""

LEAF_SUMS = "leaf sums"
"""In ledgers: what a round of opened sums costs."""


@dataclass(frozen=True)
class PartyRows:
    """One party's rows, with the label where it is; `bins` of both, and the other's name."""

    codes: DenseCodes | SparseCodes = field(repr=False)
    label: NDArray[np.float64] | None = field(repr=False)
    bins: tuple[PublicBins, PublicBins]
    other_name: str

    @property
    def joined(self) -> PublicBins:
        """Bins of all features."""
        return joined_bins(*self.bins, self.other_name)

    def columns(self, n_threads: int) -> ColumnRows:
        """The columns of this party, which all classes share."""
        n_own, n_other = (len(one.names) for one in self.bins)
        features = range(n_own, n_own + n_other) if self.label is None else range(n_own)
        return ColumnRows(by_columns(self.codes, n_threads), features, n_threads)

    def holder(
        self, columns: ColumnRows, loss: Loss, scale: LabelScale, turn: OneAgainstRest | None
    ) -> Holder:
        """Make the inputs of this party to rounds, of one class if classes take turns."""
        rows = columns.with_new_scores()
        if self.label is None:
            return PointHolder(rows, loss)
        return TableHolder(rows, self.label if turn is None else turn.labels(self.label), loss, scale)


class ReplicaAnswers:
    """Answers to a trainer's questions over a connection: releases of both parties, and opened sums.

    They are paid for by `Charges`, or an auditor's, which charges for nothing.
    """

    def __init__(self, exchange: Exchange, terms: Terms, n_rows: int, charges: Charge) -> None:
        self._exchange, self._n_rows, self._charges = exchange, n_rows, charges
        self.place, self._values = terms.own.place, count()
        seats = sorted((terms.own, terms.other), key=lambda seat: seat.place)
        self._seats = seats[0], seats[1]

    def answer(self, question: ReleasedCounts | OpenedSums) -> Steps[Any]:
        """Answer a question, with the other party."""
        return self.opened(question) if isinstance(question, OpenedSums) else self.released(question)

    def released(self, asked: ReleasedCounts) -> Steps[NDArray[np.int64]]:
        """Counts, drawn once by the party that has the rows' values, and kept by both."""
        release, scale = asked.release, asked.scale
        bound = math.ceil(STEPS * self._n_rows + TAIL * scale)

        def check(content: bytes) -> None:
            if (np.abs(np.frombuffer(content, dtype="<i8").astype(np.float64)) > bound).any():
                raise ProtocolError(f"{release.what} of the other party are out of range")

        parts = np.split(asked.sums, [asked.sizes[TABLES_PLACE]])
        released = []
        for place, part in enumerate(parts):
            if not part.size:
                continue

            def make(stream: WordSource, part: NDArray[np.int64] = part) -> bytes:
                self._charges(release.what, release.mu, 0.0)
                return release_gaussian(part, scale, stream).astype("<i8").tobytes()

            own = make if place == self.place else None
            content = yield from self._exchange.value(next(self._values), 8 * part.size, check, own)
            released.append(np.frombuffer(content, dtype="<i8").astype(np.int64))
        return np.concatenate(released)

    def opened(self, asked: OpenedSums) -> Steps[list[Words]]:
        """Sums of every tree of a round, as ring elements."""
        refresh, holder = asked.refresh, asked.holder
        layout = refresh.layout(self._seats, self._n_rows)
        n_values = 2 * sum(n_leaves(tree) for tree in refresh.trees)
        mu = refresh.numbers.mu * math.sqrt(len(refresh.trees))

        def pay() -> None:
            close = n_values * closeness(min(refresh.numbers.variances), 1)
            self._charges(LEAF_SUMS, mu, close)

        inputs = partial(holder.inputs, refresh)
        return self._exchange.round(refresh.number, layout, inputs, pay, refresh.numbers.to_bytes())


@dataclass(frozen=True)
class Replica:
    """One party's own copy of a run that both have signed."""

    task: ColumnTask
    rows: PartyRows
    agreement: Agreement

    @cached_property
    def terms(self) -> Terms:
        """The terms of the rounds."""
        return Terms.of(self.agreement, self.task.n_rounds)

    def side(self, store: Store, failures: Failures, is_recorded: bool = False) -> Exchange:
        """The side of this party in the rounds; the arguments are those of `Exchange`."""
        kind = PointExchange if self.rows.label is None else TableExchange

        def check(public: bytes, sums: Sequence[Words]) -> None:
            PublicNumbers.from_bytes(public).check_range(sums)

        return kind(self.terms, store, failures, check, is_recorded)

    def trained_over(self, exchange: Exchange, charges: Charge) -> Steps[DPBooster]:
        """Train over a connection, and compare the model with the other party's."""
        task, rows = self.task, self.rows
        answers = ReplicaAnswers(exchange, self.terms, task.n_rows, charges)
        holder = partial(rows.holder, rows.columns(task.n_threads))
        booster = yield from drive(run_of(task, rows, self.agreement.public_seed, holder), answers.answer)
        yield from exchange.end(model_text(booster).encode())
        return booster

    def trained(self, log: RunLog, ledger: PartyLedger, channel: FrameChannel) -> Steps[DPBooster]:
        """Train over one connection; the log of the run is beside the ledger, and ends with the run.

        The steps stop wherever a message of the other party is due.  A PartyUnavailableError says that the
        connection is lost: a copy that begins again goes on.  The other party may refuse, or deviate
        (PartyRefusedError, ProtocolError).
        """
        failures = KeptFailures(ledger.store, self.terms.peer)
        charges = Charges(ledger, self.terms.run, self.task.granted, self.task.budget, ONE_ROW)
        exchange = self.side(log.store, failures, log.is_auditable)
        return exchange.over(channel, lambda connected: self.trained_over(connected, charges))


def begun_with(
    task: ColumnTask, rows: PartyRows, public_seed: bytes, make_holder: MakeHolder
) -> VerticalCore | SeveralClasses:
    """Begin a run with rows of any making: ``make_holder(loss, scale, turn)`` gives the `Holder`.

    Settings that are not accepted are refused by name, before anything is released.
    """
    n_own, params = len(rows.bins[0].names), {"verbosity": -1, **task.params}
    columns = joint_rows(rows.joined, task.label_bounds, task.provenance)
    run = RunOfParties(task.budget, task.per_round, task.n_trees, public_seed, n_own, make_holder, count())
    trainer = NewtonBoost(**task.trainer_settings())
    with silent_arithmetic():
        given = trainer.task(columns, params, task.n_trees)
        try:
            check_parameters(params, len(columns.bins.names))
        except lightgbm.basic.LightGBMError as error:
            raise InvalidArgumentError(f"params are not accepted by LightGBM: {error}") from None
        return begun(given, trainer, run)


def run_of(
    task: ColumnTask, rows: PartyRows, public_seed: bytes, make_holder: MakeHolder
) -> Steps[DPBooster]:
    """The training run of either party, as for `begun_with`: it asks `ReleasedCounts` and `OpenedSums`."""
    return (yield from trained(begun_with(task, rows, public_seed, make_holder), task.n_trees))


def check_settings(task: ColumnTask, rows: PartyRows) -> None:
    """Refuse settings that the trainer or LightGBM does not accept, before anything is signed or kept."""
    MonotoneConstraints(training_parameters(task.params, None).monotone, rows.joined)
    # A run that has not grown a tree asks nothing of its rows.
    begun_with(task, rows, bytes(32), cast(MakeHolder, lambda loss, scale, turn: None))


def model_text(booster: DPBooster) -> str:
    """The whole model, which both parties have alike."""
    return str(booster.model_to_string(num_iteration=-1))
