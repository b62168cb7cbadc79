"""The coordinator of a private training run: it forwards messages, and sees masked sums only."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from gbdt_parties.agreed import read_json
from gbdt_parties.channel import Party, check_parties
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.coordinator import Purpose, coordinate
from gbdt_parties.run.exchange import Participation
from gbdt_parties.run.progress import Checkpoint, Memory
from gbdt_parties.secure_sum.messages import unpack
from gbdt_parties.traffic import Traffic
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.checks import checked_integer
from lgb_dp.errors import (
    ArgumentTypeError,
    FederatedCheckpointError,
    FewPartiesWarning,
    InvalidArgumentError,
    UnsupportedParameterError,
)
from lgb_dp.federated.task import (
    MAX_ATTEMPTS,
    FederatedTask,
    OpenPrivateRun,
    check_same,
    settings_of,
    statement,
)
from lgb_dp.newton.trainer import NewtonBoost

SPARE_ATTEMPTS = 0.06
"""Attempts beyond n rounds that noise is planned for, unless `max_attempts` says otherwise.

They must pay for any release once more, or one lost party would end a run after all else was paid for.  The
dearest are the histograms, 0.05 of μ² (`budget_plan`), beside 0.01 for counts and 0.02 for the level: s spare
attempts are worth ``0.92 s / (n + s)``, which is at least 0.05 from ``s = 0.0575 n`` on.
"""


def train(
    params: Mapping[str, Any],
    parties: Sequence[Party],
    num_boost_round: int = 100,
    *,
    callbacks: Sequence[Callable[..., Any]],
    min_parties: int | None = None,
    colluding: int = 1,
    max_attempts: int | None = None,
    parties_per_person: int = 1,
    trees_per_round: int = 1,
    traffic: Traffic | None = None,
    checkpoint: str | Path | None = None,
    patience: float = 0.0,
) -> DPBooster:
    """Train a model on the rows of several parties, which reveal only noised sums.

    The model is that of `lightgbm.train` with the same `NewtonBoost` on all rows in one place, but for the
    noise: every party adds a share of it to the sums over its rows, so that the shares of all but `colluding`
    parties are as much noise as the budget demands.

    Parameters
    ----------
    params : mapping
        As for `lightgbm.train`.
    parties : sequence of Party
        `lgb_dp.federated.Party`, here or elsewhere; at least two.
    num_boost_round : int
        Trees (times classes), at most 100,000.
    callbacks : sequence
        One `lgb_dp.NewtonBoost`, which says the budget. ε covers what up to `colluding` parties, together
        with the caller of this function, learn about one row of another party.
    min_parties : int, optional
        Parties that must take part in every sum; by default one more than `colluding`.
    colluding : int
        Parties whose noise counts as known: those that pool their knowledge, or that add none.
    max_attempts : int, optional
        Releases that the noise is planned for; by default 6 per cent more than `num_boost_round`, rounded up
        to whole rounds of `trees_per_round`.  A round during which a party is lost takes one round more.
    parties_per_person : int
        Parties that may have rows of one person.
    trees_per_round : int
        Trees that share gradients, and whose sums are asked for together, for networks whose round trips are
        slow; times the learning rate at most 1.5.
    traffic : Traffic, optional
        Counts what is sent.
    checkpoint : path, optional
        Folder of the coordinator's progress.  Called again with the same settings, parties and folder, a
        run that was interrupted goes on, and one that has ended gives its model again; for another run,
        remove the folder.
    patience : float
        Seconds to wait, in all within one round, when fewer than `min_parties` can be reached.

    Returns
    -------
    DPBooster
        With the guarantee inside, which every party computes for itself.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
        Naming the argument that is not accepted.
    PartiesDifferError
        If the parties declare different columns, types, bounds or labels; nothing has left them then.
    PartyRefusedError
        If a party refuses, for example because its budget is spent.
    PartyUnavailableError
        If so many parties are lost that fewer than `min_parties` are left.
    FederatedCheckpointError
        If the checkpoint is of another run, in use, or damaged.

    Warns
    -----
    FewPartiesWarning
        If there are two.

    Examples
    --------
    >>> parties = [lgb_dp.federated.Party(X, y, name=name, bounds=bounds, folder=name)
    ...            for name, X, y in hospitals]                                         # doctest: +SKIP
    >>> booster = lgb_dp.federated.train({"objective": "binary"}, parties, 500,
    ...                                  callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])     # doctest: +SKIP
    """
    members = check_parties(parties)
    n_rounds = checked_integer("num_boost_round", num_boost_round, 1)
    colluding = checked_integer("colluding", colluding, 1)
    if max_attempts is None:
        max_attempts = n_attempts(n_rounds, checked_integer("trees_per_round", trees_per_round, 1))
    task = FederatedTask(
        dict(params),
        settings_of(_trainer_among(callbacks)),
        n_rounds,
        max_attempts,
        colluding,
        colluding + 1 if min_parties is None else min_parties,
        parties_per_person,
        trees_per_round,
    )
    if len(members) < task.min_parties:
        raise InvalidArgumentError(
            f"{len(members)} parties; at least {task.min_parties} must take part in every sum; with "
            "one, train by lightgbm.train"
        )
    if len(members) == 2:
        warnings.warn(
            "with two parties, each adds all the noise that protects it from the other, and only that "
            "noise protects both from the view of others",
            FewPartiesWarning,
            stacklevel=2,
        )
    if not (isinstance(patience, Real) and math.isfinite(patience) and patience >= 0):
        raise InvalidArgumentError(f"patience={patience!r} must be a finite number of seconds of at least 0")
    kept = Memory() if checkpoint is None else Checkpoint(checkpoint, FederatedCheckpointError)
    counted = Traffic() if traffic is None else traffic
    request = task.to_json()
    agreement, part = partial(_agreement, request), Participation(task.min_parties)
    with tqdm(desc="private training", unit=" sums", disable=None, leave=False) as bar:
        purpose = Purpose(OpenPrivateRun, request, part, agreement, lambda n_sums: bar.update(n_sums - bar.n))
        progress = coordinate(members, purpose, request, counted, float(patience), kept)
    try:
        (content,) = unpack(progress.model)
        booster = DPBooster(model_str=content.decode())
    except ValueError:
        raise ProtocolError("the parties' model is not a text") from None
    booster.signatures = progress.signatures
    return booster


def n_attempts(n_rounds: int, trees_per_round: int) -> int:
    """Releases that noise is planned for by default: a lost party takes a round's trees once more."""
    spare = math.ceil((1 + SPARE_ATTEMPTS) * n_rounds) - n_rounds
    spare += -spare % trees_per_round
    return min(n_rounds + spare, max(n_rounds, MAX_ATTEMPTS))


def _agreement(request: str, descriptions: Sequence[tuple[str, str]]) -> tuple[str, bytes]:
    """The settings and the declarations, which must be the same at all parties."""
    declarations = {name: _declared(name, text) for name, text in descriptions}
    check_same(declarations)
    return "", statement(request, next(iter(declarations.values())))


def _declared(name: str, text: str) -> dict[str, str]:
    """Declaration of a party about its columns: a digest of each part.

    Raises
    ------
    ProtocolError
        If it cannot be read.
    """
    try:
        return {str(part): str(digest) for part, digest in read_json(text).items()}
    except (ValueError, AttributeError):
        raise ProtocolError(f"party {name!r} sent a declaration that cannot be read") from None


def _trainer_among(callbacks: Sequence[Callable[..., Any]]) -> NewtonBoost:
    if not isinstance(callbacks, Sequence):
        raise ArgumentTypeError(f"callbacks must be a sequence, got {type(callbacks).__name__}")
    for callback in callbacks:
        if not isinstance(callback, NewtonBoost):
            raise UnsupportedParameterError(
                f"callbacks holds a {type(callback).__name__}; across parties, NewtonBoost alone is supported"
            )
    if len(callbacks) != 1:
        raise InvalidArgumentError(f"callbacks must hold one NewtonBoost, got {len(callbacks)}")
    trainer = callbacks[0]
    assert isinstance(trainer, NewtonBoost)
    return trainer
