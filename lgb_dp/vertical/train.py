"""`lgb_dp.vertical.train`: one private model of two parties' columns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lightgbm

from lgb_dp.accounting.shares import CLOSENESS_SHARE
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.labels import LabelScale
from lgb_dp.boosting.params import training_parameters
from lgb_dp.boosting.run_rows import RunRows, rows_of_run
from lgb_dp.checks import checked_integer
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
from lgb_dp.newton.losses.loss import Loss
from lgb_dp.newton.trainer import NewtonBoost
from lgb_dp.vertical.columns import JointColumns, joined_bins
from lgb_dp.vertical.in_process import ProtocolSums
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.report import MaskedTraffic
from lgb_dp.vertical.sums import ColumnRows, MakeSums, PointHolder, TableHolder, VerticalSums
from lgb_dp.vertical.training import VerticalNewton

TREES_PER_ROUND = 4
_FIXED = ("rounds", "structure", "subsample", "random_state", "public_init_model", "hessian_share")
"""Settings of `NewtonBoost` that columns apart leave at their defaults."""


def train(
    params: Mapping[str, Any],
    train_set: Dataset,
    num_boost_round: int = 200,
    *,
    parties: Sequence[ColumnParty],
    callbacks: Sequence[NewtonBoost],
    trees_per_round: int = TREES_PER_ROUND,
    name: str = "labels",
    traffic: MaskedTraffic | None = None,
) -> DPBooster:
    """Train a model on the columns of two parties, which learn that model and nothing else of each other.

    Both parties are in this process, each with a thread, keys and randomness of its own.  Rows are in the
    same order.  Every tree splits on the columns of one party; owners take turns.  A round refreshes
    gradients once and grows several trees on them, whose sums both parties noise before they are opened
    (`gbdt_parties.two_party`, `lgb_dp.vertical.noise`).  Parties are assumed to follow the protocol.

    Parameters
    ----------
    params : mapping
        As for `lightgbm.train`; `objective` is "binary" or one for regression.
    train_set : Dataset
        Columns and labels of the party with the labels, with public bounds.
    num_boost_round : int
        Trees, of both parties together.
    parties : sequence of ColumnParty
        The other party, one.
    callbacks : sequence of NewtonBoost
        One, which says the budget.  Noise of either party alone keeps to it; sums have that of both.
    trees_per_round : int
        Trees that share gradients.  Learning rate times these is at most 1.5.
    name : str
        Of the party with the labels, in `traffic`.
    traffic : MaskedTraffic, optional
        Counts messages and bytes of both directions.

    Returns
    -------
    DPBooster
        A native LightGBM model of the columns of both, those of the party with the labels first.  Its report
        states the guarantee towards the world, and in its notes those towards the other party.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
        Naming the argument that is not accepted; nothing has been released then.

    Examples
    --------
    >>> bank = lgb_dp.vertical.ColumnParty(X_bank, name="bank", bounds=bounds_bank)   # doctest: +SKIP
    >>> rows = lgb_dp.Dataset(X, y, bounds=bounds, max_bin=255, spacing="mixed")        # doctest: +SKIP
    >>> booster = lgb_dp.vertical.train({"objective": "binary"}, rows, parties=[bank],
    ...                                 callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])      # doctest: +SKIP
    """
    party, trainer = _only_party(parties), _only_trainer(callbacks)
    if name == party.name:
        raise InvalidArgumentError(f"name={name!r} is that of the other party, too")
    counted = MaskedTraffic() if traffic is None else traffic
    n_rounds = checked_integer("num_boost_round", num_boost_round, 1)
    per_round = checked_integer("trees_per_round", trees_per_round, 1, n_rounds)

    made: list[ProtocolSums] = []

    def sums(tables: TableHolder, points: PointHolder) -> VerticalSums:
        names = name, party.name
        made.append(ProtocolSums(tables, points, names, -(-n_rounds // per_round), counted))
        return made[-1]

    try:
        booster = train_with(sums, params, train_set, n_rounds, party, trainer, per_round)
        made[-1].end()
        party.answers.remember(booster, party.bins, train_set.label_bounds)
        return booster
    finally:
        for one in made:
            one.close()


def train_with(
    make: Callable[[TableHolder, PointHolder], VerticalSums],
    params: Mapping[str, Any],
    train_set: Dataset,
    n_rounds: int,
    party: ColumnParty,
    trainer: NewtonBoost,
    per_round: int,
) -> DPBooster:
    """Train with sums of any making: ``make(tables, points)`` gives the `VerticalSums` of both holders."""
    own, other = _checked_rows(train_set), party
    if own.num_data() != other.codes.n_rows:
        raise InvalidArgumentError(
            f"train_set has {own.num_data()} rows and party {party.name!r} {other.codes.n_rows}: both must "
            "have the same rows, in the same order"
        )
    for who, known in (("train_set", own.bins), (f"party {party.name!r}", other.bins)):
        if not (known.n_bins > 1).any():
            raise InvalidArgumentError(
                f"{who} has no feature with two bins, so that there is nothing to split"
            )
    n_threads = training_parameters(params, own.max_bin).n_threads
    bins = joined_bins(own.bins, other.bins, party.name)
    n_own, n_all = len(own.bins.names), len(bins.names)

    def sums(loss: Loss, scale: LabelScale) -> VerticalSums:
        rows = ColumnRows(own.codes, range(n_own), n_threads)
        return make(
            TableHolder(rows, own.label, loss, scale),
            PointHolder(ColumnRows(other.codes, range(n_own, n_all), n_threads)),
        )

    make_sums: MakeSums = sums
    less = {one: getattr(trainer, one) * (1 - CLOSENESS_SHARE) for one in ("epsilon", "delta")}
    names = inspect.signature(NewtonBoost).parameters
    settings = {one: getattr(trainer, one) for one in names} | less
    asked = trainer.epsilon, trainer.delta
    booster = lightgbm.train(
        {"verbosity": -1, **params},
        JointColumns(own, bins, n_own, make_sums),
        n_rounds,
        callbacks=[VerticalNewton(settings, asked, per_round)],
    )
    assert isinstance(booster, DPBooster)
    return booster


def _checked_rows(train_set: Any) -> RunRows:
    """The rows of the party with the labels."""
    if not isinstance(train_set, Dataset):
        raise ArgumentTypeError(f"train_set must be an lgb_dp.Dataset, got {type(train_set).__name__}")
    rows = rows_of_run(train_set, None)
    given = {"weight": rows.weight, "groups": rows.group_of_row, "init_score": rows.start_scores}
    for argument, value in given.items():
        if value is not None:
            raise UnsupportedParameterError(
                f"{argument} is not supported with columns apart; leave it out of the Dataset"
            )
    if rows.fold_part is not None:
        raise UnsupportedParameterError("folds are not supported with columns apart; pass a whole Dataset")
    if rows.provenance.leaks:
        raise InvalidArgumentError(f"declarations of train_set must be public: {rows.provenance.leaks[0]}")
    return rows


def _only_party(parties: Any) -> ColumnParty:
    if not isinstance(parties, Sequence) or not all(isinstance(one, ColumnParty) for one in parties):
        raise ArgumentTypeError("parties must be a sequence of lgb_dp.vertical.ColumnParty")
    if len(parties) != 1:
        raise UnsupportedParameterError(
            f"parties holds {len(parties)} parties; private training with columns apart is between two: "
            "the one with the labels, and one other"
        )
    party: ColumnParty = parties[0]
    return party


def _only_trainer(callbacks: Any) -> NewtonBoost:
    trainers = callbacks if isinstance(callbacks, Sequence) else ()
    if len(trainers) != 1 or not isinstance(trainers[0], NewtonBoost):
        raise UnsupportedParameterError("callbacks must hold one lgb_dp.NewtonBoost and nothing else")
    trainer = trainers[0].with_settings()
    defaults = inspect.signature(NewtonBoost).parameters
    for setting in _FIXED:
        if getattr(trainer, setting) != defaults[setting].default:
            raise UnsupportedParameterError(
                f"{setting}={getattr(trainer, setting)!r} of NewtonBoost is not supported with columns apart"
            )
    if math.isinf(trainer.epsilon):
        raise InvalidArgumentError("epsilon must be finite with columns apart, got inf")
    return trainer
