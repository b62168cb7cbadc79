"""One party's own copy of a run: both parties work out every tree from the same releases and opened sums.

A copy asks for the same values and rounds whenever it begins; those that are over are answered from the
party's store, so that a party that was restarted goes on where the run was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import lightgbm
import numpy as np
from numpy.typing import NDArray

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.store import Store
from gbdt_hosts.lightgbm import check_parameters
from gbdt_kernels.trees import BinLayout, DenseCodes, SparseCodes, by_columns
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.flights.driver import Exchange, PointExchange, TableExchange, fresh_nonce
from gbdt_parties.run.flights.frames import FrameChannel
from gbdt_parties.run.flights.kept import KeptFailures
from gbdt_parties.run.flights.terms import Terms
from gbdt_parties.run.log import RunLog
from gbdt_parties.two_party.life import Failures
from lgb_dp.accounting.ledger import Release
from lgb_dp.accounting.shares import closeness
from lgb_dp.accounting.unit import ONE_ROW
from lgb_dp.boosting.booster import DPBooster, trained
from lgb_dp.boosting.params import training_parameters
from lgb_dp.boosting.training import answered
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
    MakeSums,
    OneAgainstRest,
    PointHolder,
    Refresh,
    TableHolder,
    Words,
    n_leaves,
)
from lgb_dp.vertical.task import ColumnTask
from lgb_dp.vertical.training import RunOfParties, SeveralClasses, VerticalCore, begun

Charge = Callable[[str, float, float], None]
"""Charges for something that is about to leave: its name, its μ, and its closeness."""


@dataclass(frozen=True)
class PartyRows:
    """Rows of one party, and the bins of both.

    Parameters
    ----------
    codes : DenseCodes or SparseCodes
        Its own.
    label : ndarray of float64 or None
        At the party with the labels.
    bins : (PublicBins, PublicBins)
        Of the party with the labels, and of the other one.
    other_name : str
        Of the party with columns alone.
    """

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
    ) -> TableHolder | PointHolder:
        """Make the inputs of this party to rounds, of one class if classes take turns."""
        rows = columns.with_new_scores()
        if self.label is None:
            return PointHolder(rows, loss)
        return TableHolder(rows, self.label if turn is None else turn.labels(self.label), loss, scale)


class ReplicaSums:
    """One party's `VerticalSums`: its own exact counts, both parties' releases, and opened sums.

    Parameters
    ----------
    exchange : Exchange
        Connected.
    terms : Terms
    holder : TableHolder or PointHolder
    loss : Loss
    charges : callable
        `Charges`, or an auditor's, which charges for nothing.
    values : iterator of int
        Numbers of the values that are released, of all classes in turn.
    """

    def __init__(
        self,
        exchange: Exchange,
        terms: Terms,
        holder: TableHolder | PointHolder,
        loss: Loss,
        charges: Charge,
        values: Iterator[int],
    ) -> None:
        self._exchange, self.holder, self._loss, self._charges = exchange, holder, loss, charges
        self._place, self._values = terms.own.place, values
        seats = sorted((terms.own, terms.other), key=lambda seat: seat.place)
        self._seats = seats[0], seats[1]

    def label_counts(self) -> NDArray[np.int64]:
        """As for `VerticalSums`."""
        if isinstance(self.holder, TableHolder):
            return self.holder.label_counts()
        return np.zeros(self._loss.n_counts(1), dtype=np.int64)

    def feature_counts(self, layout: BinLayout) -> NDArray[np.int64]:
        """As for `VerticalSums`."""
        return self.holder.rows.feature_counts(layout)

    def released(
        self, release: Release, sums: NDArray[np.int64], scale: float, sizes: tuple[int, int]
    ) -> NDArray[np.int64]:
        """As for `VerticalSums`: drawn once by the party that has the rows' values, and kept by both."""
        bound = math.ceil(STEPS * self.holder.rows.n_rows + TAIL * scale)

        def check(content: bytes) -> None:
            if (np.abs(np.frombuffer(content, dtype="<i8").astype(np.float64)) > bound).any():
                raise ProtocolError(f"{release.what} of the other party are out of range")

        parts = np.split(sums, [sizes[TABLES_PLACE]])
        released = []
        for place, part in enumerate(parts):
            if not part.size:
                continue

            def make(stream: WordSource, part: NDArray[np.int64] = part) -> bytes:
                self._charges(release.what, release.mu, 0.0)
                return release_gaussian(part, scale, stream).astype("<i8").tobytes()

            own = make if place == self._place else None
            content = self._exchange.value(next(self._values), 8 * part.size, check, own)
            released.append(np.frombuffer(content, dtype="<i8").astype(np.int64))
        return np.concatenate(released)

    def opened(self, refresh: Refresh) -> list[Words]:
        """As for `VerticalSums`."""
        layout = refresh.layout(self._seats, self.holder.rows.n_rows)
        n_values = 2 * sum(n_leaves(tree) for tree in refresh.trees)
        mu = refresh.numbers.mu * math.sqrt(len(refresh.trees))

        def pay() -> None:
            close = n_values * closeness(min(refresh.numbers.variances), 1)
            self._charges("leaf sums", mu, close)

        def inputs(draws: Any) -> Any:
            return self.holder.inputs(refresh, draws)

        return self._exchange.round(refresh.number, layout, inputs, pay, refresh.numbers.to_bytes())


def exchange_of(
    terms: Terms,
    task: ColumnTask,
    rows: PartyRows,
    store: Store,
    failures: Failures,
    nonces: Callable[[], bytes] = fresh_nonce,
    is_recorded: bool = False,
) -> Exchange:
    """Make a party's side of the rounds; others are parameters of `Exchange`."""
    kind = PointExchange if rows.label is None else TableExchange

    def check(public: bytes, sums: Sequence[Words]) -> None:
        PublicNumbers.from_bytes(public).check_range(sums)

    return kind(terms, store, failures, check, nonces, is_recorded)


def trained_over(
    exchange: Exchange, terms: Terms, task: ColumnTask, rows: PartyRows, public_seed: bytes, charges: Charge
) -> DPBooster:
    """Train this party's copy over a connection, and compare the model with the other party's.

    Parameters
    ----------
    exchange : Exchange
        Connected.
    terms, task, rows, public_seed, charges
        As of `train_replica`.
    """
    columns, values = rows.columns(task.n_threads), count()

    def make_sums(loss: Loss, scale: LabelScale, turn: OneAgainstRest | None) -> ReplicaSums:
        holder = rows.holder(columns, loss, scale, turn)
        return ReplicaSums(exchange, terms, holder, loss, charges, values)

    booster = trained_with(task, rows, public_seed, make_sums)
    exchange.end(model_text(booster).encode())
    return booster


def train_replica(
    task: ColumnTask,
    rows: PartyRows,
    agreement: Agreement,
    log: RunLog,
    ledger: PartyLedger,
    channel: FrameChannel,
    is_recorded: bool,
) -> DPBooster:
    """Train this party's copy over one connection, and compare the model with the other party's.

    Parameters
    ----------
    task : ColumnTask
    rows : PartyRows
    agreement : Agreement
        Signed by both parties.
    log : RunLog
        Beside the ledger.
    ledger : PartyLedger
    channel : FrameChannel
    is_recorded : bool
        Whether all messages are kept, for an auditor.

    Raises
    ------
    PartyUnavailableError
        If the connection is lost: a copy that begins again goes on.
    PartyRefusedError, ProtocolError
        If the other party refuses, or deviates.
    """
    terms = Terms.of(agreement, task.n_rounds)
    failures = KeptFailures(ledger.store, terms.peer)
    exchange = exchange_of(terms, task, rows, log.store, failures, is_recorded=is_recorded)
    exchange.connect(channel)
    try:
        charges = Charges(ledger, terms.run, task.granted, task.budget, ONE_ROW)
        return trained_over(exchange, terms, task, rows, agreement.public_seed, charges)
    except BaseException as error:
        exchange.stop(error)
        raise


def begun_with(
    task: ColumnTask, rows: PartyRows, public_seed: bytes, make_sums: MakeSums
) -> VerticalCore | SeveralClasses:
    """Begin a run with sums of any making: ``make_sums(loss, scale, turn)`` gives the `VerticalSums`.

    Raises
    ------
    InvalidArgumentError, UnsupportedParameterError
        For settings that are not accepted, before anything is released.
    """
    n_own, params = len(rows.bins[0].names), {"verbosity": -1, **task.params}
    columns = joint_rows(rows.joined, task.label_bounds, task.provenance)
    run = RunOfParties(task.budget, task.per_round, task.n_trees, public_seed, n_own, make_sums, count())
    trainer = NewtonBoost(**task.trainer_settings())
    with silent_arithmetic():
        given = trainer.task(columns, params, task.n_trees)
        try:
            check_parameters(params, len(columns.bins.names))
        except lightgbm.basic.LightGBMError as error:
            raise InvalidArgumentError(f"params are not accepted by LightGBM: {error}") from None
        return begun(given, trainer, run)


def trained_with(task: ColumnTask, rows: PartyRows, public_seed: bytes, make_sums: MakeSums) -> DPBooster:
    """Train with sums of any making, as for `begun_with`."""
    core = begun_with(task, rows, public_seed, make_sums)
    with silent_arithmetic():
        return answered(trained(core, task.n_trees))


def check_settings(task: ColumnTask, rows: PartyRows) -> None:
    """Refuse settings that the trainer or LightGBM does not accept, before anything is signed or kept.

    Raises
    ------
    InvalidArgumentError, UnsupportedParameterError
        Naming the setting.
    """
    MonotoneConstraints(training_parameters(task.params, None).monotone, rows.joined)
    # A run that has not grown a tree asks nothing of its rows.
    begun_with(task, rows, bytes(32), cast(MakeSums, lambda loss, scale, turn: None))


def model_text(booster: DPBooster) -> str:
    """The whole model, which both parties have alike."""
    return str(booster.model_to_string(num_iteration=-1))
