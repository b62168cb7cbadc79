"""`lgb_dp.vertical.train`: one private model of two parties' columns."""

from __future__ import annotations

import hashlib
import inspect
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from gbdt_commons.errors import StoreError
from gbdt_commons.store import Store, bytes_kind, json_kind
from gbdt_hosts.lightgbm import resolve_aliases
from gbdt_kernels.trees import DenseCodes, SparseCodes
from gbdt_parties.channel import Channel as Session
from gbdt_parties.channel import Party
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.identity.row_ids import check_ids
from gbdt_parties.messages import Abort, Done
from gbdt_parties.patience import Reconnector, Wait
from gbdt_parties.run.flights.polled import Asking
from gbdt_parties.run.log import THIS_PROCESS, runs_of
from gbdt_parties.secure_sum.roster import SESSION_BYTES
from gbdt_parties.secure_sum.trust import AllowList, credentials_of
from gbdt_parties.traffic import Traffic
from lgb_dp.accounting.unit import ONE_ROW
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.params import training_parameters
from lgb_dp.boosting.run_rows import RunRows, rows_of_run
from lgb_dp.checks import checked_budget, checked_integer
from lgb_dp.data.bins import public_bins
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import (
    ArgumentTypeError,
    FederatedCheckpointError,
    InvalidArgumentError,
    UnsupportedParameterError,
)
from lgb_dp.federated.ledger import PartyLedger
from lgb_dp.newton.model_memory import memory_limit
from lgb_dp.newton.trainer import NewtonBoost
from lgb_dp.vertical.columns import declaration
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.replica import PartyRows, check_settings
from lgb_dp.vertical.report import MaskedTraffic
from lgb_dp.vertical.run import (
    MODELS,
    OWN_RUNS,
    RUN,
    ActiveRun,
    ColumnRun,
    ColumnSessions,
    ColumnSide,
    digest_of_rows,
    kept_run,
)
from lgb_dp.vertical.task import SETTINGS, ColumnTask, Flights

logger = logging.getLogger(__name__)
Codes: TypeAlias = DenseCodes | SparseCodes
ABOUT, ALIGNED = bytes_kind("about a run with columns apart"), json_kind("aligned ids")
TREES_PER_ROUND = 4
_FIXED = (
    *("rounds", "structure", "subsample", "validation_fraction", "by"),
    *("random_state", "public_init_model", "hessian_share", "budget"),
)
"""Settings of `NewtonBoost` that columns apart leave at their defaults."""

_OF_THE_CALL = {"max_bin", "num_iterations"}
"""Parameters that the data set or an argument says."""


def train(
    params: Mapping[str, Any],
    train_set: Dataset,
    num_boost_round: int = 200,
    *,
    parties: Sequence[Any],
    callbacks: Sequence[NewtonBoost],
    trees_per_round: int = TREES_PER_ROUND,
    name: str | None = None,
    ids: Sequence[str] | None = None,
    tls: TLS | str | Path | None = None,
    allowed: Sequence[str] | None = None,
    trust_authority: bool = False,
    checkpoint: str | Path | None = None,
    folder: str | Path | None = None,
    budget: tuple[float, float] | None = None,
    traffic: MaskedTraffic | None = None,
    patience: float = 0.0,
    auditable: bool = False,
) -> DPBooster:
    """Train a model on the columns of two parties, which learn that model and nothing else of each other.

    Each party has a trainer, a ledger, keys and randomness of its own, and the same model at the end.  The
    other party is in this process, or behind a server.  Every tree splits on the columns of one party; owners
    take turns.  A round refreshes gradients once and grows several trees on them, whose sums both parties
    noise before they are opened (`gbdt_parties.two_party`, `lgb_dp.vertical.noise`).  Parties are assumed to
    follow the protocol.

    Parameters
    ----------
    params : mapping
        As for `lightgbm.train`; `objective` is "binary", "multiclassova" or one for regression.  Of several
        classes, at most 64, each has trees of its own against all others, and all of them share ε and δ.
    train_set : Dataset
        Columns and labels of the party with the labels, with public bounds.
    num_boost_round : int
        Trees, of both parties together; of each class, where there are several.
    parties : sequence of ColumnParty or RemoteParty
        The other party, one.
    callbacks : sequence of NewtonBoost
        One, which says the budget.  Noise of either party alone keeps to it; sums have that of both.
    trees_per_round : int
        Trees that share gradients; no more than there are.  Learning rate times these is at most 1.5.
    name : str, optional
        Of the party with the labels; "labels" without `tls`, and its certificate's common name with it.
    ids : sequence of str, optional
        A name for each row of `train_set`: rows are those in common with the other party, which has ids, too.
        By default rows are in the same order.
    tls, allowed, trust_authority
        Of the party with the labels, as of `ColumnParty`; needed for a party behind a server.
    checkpoint : path, optional
        Folder of the run's progress.  Called again with the same arguments, a run that was interrupted goes
        on, and one that has ended gives its model again; for another run, remove the folder.
    folder : path, optional
        Where this party keeps its ledger, with the keys of runs that have not ended, across runs and
        restarts; not that of `checkpoint`.  Without it the ledger is that of this run, in `checkpoint`, and
        nothing limits what many runs cost together.
    budget : (epsilon, delta), optional
        Of all that is recorded in `folder` together.  A new ledger without it takes that of its first run.
    traffic : MaskedTraffic, optional
        Counts messages and bytes of both directions from the first one that depends on the rows.
    patience : float
        Seconds to wait, in all, for a party behind a server that cannot be reached.
    auditable : bool
        Whether the ledger's folder keeps all messages that this party receives, digests of those that it
        sends, and the keys of the run, which are otherwise removed after it.  An auditor can then `replay`
        this side.  Messages take as much room as `traffic` counts.

    Returns
    -------
    DPBooster
        A native LightGBM model of the columns of both, those of the party with the labels first.  Its report
        states the guarantee towards the world, and in its notes those towards the other party.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
        Naming the argument that is not accepted; nothing has been released then.
    FederatedCheckpointError
        If the checkpoint is of another run.
    BudgetExceededError
        If this party's budget is spent; nothing has left then.
    StoreError
        If a folder is in use, or damaged.
    PartyRefusedError
        If the other party refuses, for example because its budget is spent.
    PartyUnavailableError
        If it is lost for longer than `patience`: the run can go on from its checkpoint.
    AuthenticationError, ProtocolError
        If it is not the one that is allowed, or deviates, or its store is an older one.

    Examples
    --------
    >>> bank = lgb_dp.vertical.ColumnParty(X_bank, name="bank", bounds=bounds_bank)   # doctest: +SKIP
    >>> rows = lgb_dp.Dataset(X, y, bounds=bounds, max_bin=255, spacing="mixed")        # doctest: +SKIP
    >>> booster = lgb_dp.vertical.train({"objective": "binary"}, rows, parties=[bank],
    ...                                 callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])      # doctest: +SKIP
    """
    party, trainer = _only_party(parties), _only_trainer(callbacks)
    rows = checked_rows(train_set)
    if auditable and checkpoint is None and folder is None:
        raise InvalidArgumentError("auditable=True needs a checkpoint or a folder, where messages are kept")
    if not (isinstance(patience, Real) and math.isfinite(patience) and patience >= 0):
        raise InvalidArgumentError(f"patience={patience!r} must be a finite number of seconds of at least 0")
    is_here = isinstance(party, ColumnParty)
    if not is_here and tls is None:
        raise InvalidArgumentError(
            f"tls=None with party {party.name!r} behind a server: pass this party's certificate, as to "
            "RemoteParty, and allowed="
        )
    if isinstance(tls, (str, Path)):
        tls = TLS.from_directory(tls)
    if name is None:
        name = "labels" if tls is None else Identity.of(tls.certificate).name
    if name == party.name:
        raise InvalidArgumentError(f"name={name!r} is that of the other party, too")
    credentials, known = credentials_of(name, tls, allowed, trust_authority, InvalidArgumentError)
    if not is_here:
        # Before anything is sent: its certificate's name is what the authority says.
        _accept_only(party, known, ids is not None)
    n_trees, per_round = _checked_trees(params, num_boost_round, trees_per_round)
    asked = task_of(params, rows, trainer, n_trees, per_round, name, rows.codes.n_rows)
    _check_settings(asked, rows)
    counted = MaskedTraffic() if traffic is None else traffic
    with _opened(checkpoint, folder, budget) as (store, ledger):
        # Before the other party is asked anything; what the run costs is checked again with every charge.
        _check_cost(store, ledger, asked, budget)
        codes, label, sessions = rows.codes, rows.label, party
        if ids is not None:
            ids = _checked_ids(ids, rows)
            alignment, sessions = _aligned(party, ids, store, float(patience))
            codes, label = _rows_of(alignment, ids, rows)
        elif is_here and party.ids is not None:
            raise InvalidArgumentError(f"party {party.name!r} has ids; pass those of train_set as ids=")
        elif is_here:
            # Of this run alone: another one, in another thread, must not end them.
            sessions = party.for_caller(THIS_PROCESS)
        if is_here and codes.n_rows != sessions.codes.n_rows:
            raise InvalidArgumentError(
                f"train_set has {codes.n_rows} rows and party {party.name!r} {sessions.codes.n_rows}: both "
                "must have the same rows, in the same order"
            )
        task = task_of(params, rows, trainer, n_trees, per_round, name, codes.n_rows)
        task.check_size(len(rows.bins.names), memory_limit() or math.inf, not is_here)
        run = ActiveRun(ColumnSide(name, credentials, known, ledger, auditable), task, codes, label, store)
        store.put(ABOUT, "", _checked_about(store, task, codes, label))
        if run.model is not None and run.has_ended:
            return run.model
        return _connected(run, sessions, name, counted, float(patience))


@contextmanager
def _opened(
    checkpoint: str | Path | None,
    folder: str | Path | None,
    budget: tuple[float, float] | None,
    *,
    read_only: bool = False,
) -> Iterator[tuple[Store, PartyLedger]]:
    """The records of a checkpoint, and the ledger, which is the checkpoint's own unless it has a folder."""
    budget = checked_budget(budget)
    if folder is None and budget is not None:
        raise InvalidArgumentError(
            f"budget={budget} is that of all runs together, whose ledger is in a folder: pass folder="
        )
    if folder is not None and checkpoint is not None and Path(folder).resolve() == Path(checkpoint).resolve():
        raise InvalidArgumentError(
            f"folder={str(folder)!r} and checkpoint must differ: a new run empties the checkpoint"
        )
    with ExitStack() as stack:
        own = ledger = _ledger_in("checkpoint", checkpoint, None, read_only)
        stack.callback(own.close)
        if folder is not None:
            ledger = _ledger_in("folder", folder, budget, read_only)
            stack.callback(ledger.close)
        yield runs_of(own.store, OWN_RUNS), ledger


def _ledger_in(
    argument: str, folder: str | Path | None, budget: tuple[float, float] | None, read_only: bool
) -> PartyLedger:
    """A ledger, whose errors name the argument."""
    try:
        return PartyLedger(None if folder is None else Path(folder), budget, read_only=read_only)
    except StoreError as error:
        raise StoreError(f"{argument}={str(folder)!r}: {error}") from None


def check(
    params: Mapping[str, Any],
    train_set: Dataset,
    num_boost_round: int = 200,
    *,
    callbacks: Sequence[NewtonBoost],
    trees_per_round: int = TREES_PER_ROUND,
    name: str = "labels",
    ids: Sequence[str] | None = None,
    checkpoint: str | Path | None = None,
    folder: str | Path | None = None,
    budget: tuple[float, float] | None = None,
) -> None:
    """Refuse everything of the party with the labels that `train` would refuse; no other party is asked.

    Nothing is written, and the folders may be in use. Arguments and errors are those of `train`.
    """
    trainer, rows = _only_trainer(callbacks), checked_rows(train_set)
    trees = _checked_trees(params, num_boost_round, trees_per_round)
    asked = task_of(params, rows, trainer, *trees, name, rows.codes.n_rows)
    _check_settings(asked, rows)
    with _opened(checkpoint, folder, budget, read_only=True) as (store, ledger):
        codes, label, kept = rows.codes, rows.label, store.get(ALIGNED, "")
        if ids is not None:
            ids = _checked_ids(ids, rows)
            if kept is not None:
                codes, label = _rows_of(Alignment(tuple(kept)), ids, rows)
        task = replace(asked, n_rows=codes.n_rows)
        _checked_about(store, task, codes, label)
        if ids is None or kept is not None:
            task.check_size(len(rows.bins.names), memory_limit() or math.inf, True)
        if store.get(MODELS, "") is None:
            kept_run(store, runs_of(ledger.store, OWN_RUNS))
            _check_cost(store, ledger, asked, budget)


def _checked_trees(params: Mapping[str, Any], num_boost_round: int, trees_per_round: int) -> tuple[int, int]:
    """Trees of the run, and of a round."""
    # As in lightgbm.train, the parameter wins.
    asked = resolve_aliases(params).get("num_iterations", num_boost_round)
    n_trees = checked_integer("num_boost_round", asked, 1)
    return n_trees, min(checked_integer("trees_per_round", trees_per_round, 1), n_trees)


def _check_settings(task: ColumnTask, rows: RunRows) -> None:
    """Refuse settings before the other party's columns are known: it has one column of two bins meanwhile."""
    other = public_bins(np.zeros((1, 1)), ("of the other party",), (-1.0, 1.0), 2, None, None)
    # They are as many as the features of both.
    params = {k: v for k, v in task.params.items() if "monotone_constraints" not in resolve_aliases({k: v})}
    check_settings(
        replace(task, params=params), PartyRows(rows.codes, rows.label, (rows.bins, other), "the other party")
    )


class _Way:
    """The connection of one session, which is made once both parties have signed.

    `sessions` is the other party, here or behind a server; the first of the `names` is that of the party with
    the labels.
    """

    def __init__(
        self,
        sessions: ColumnSessions | Party,
        session: Session,
        number: bytes,
        names: tuple[str, str],
        traffic: MaskedTraffic,
    ) -> None:
        self._sessions, self._session, self._number = sessions, session, number
        self._names, self._traffic = names, traffic
        self._other: ColumnRun | None = None
        self.bar = tqdm(desc="private training", unit=" messages", disable=None, leave=False)

    def __call__(self) -> Asking:
        """Make it."""
        if isinstance(self._sessions, ColumnSessions):
            self._other = self._sessions.run_of(self._number)
            # From here, whose observer of releases observes those of the other party, too.
            self._other.begin()
        count, (own, other) = self._traffic.count, self._names
        return Asking(self._begin, partial(count, own, other), partial(count, other, own))

    def _begin(self, content: bytes, is_last: bool) -> Callable[[], bytes | memoryview]:
        self.bar.update()
        wait = self._session.begin(Flights(content, int(not is_last)), Flights)
        return lambda: wait().content

    def other_error(self) -> BaseException | None:
        """End it; the error for which the other party in this process has stopped, if it is its own."""
        if self._other is None:
            return None
        self._other.stop()
        error = self._other.error
        return None if isinstance(error, (PartyUnavailableError, PartyRefusedError)) else error


def _connected(
    run: ActiveRun, sessions: Any, name: str, counted: MaskedTraffic, patience: float
) -> DPBooster:
    """Train over one connection after the other."""
    traffic = Traffic()
    wait = Wait(patience, traffic)
    while True:
        number = os.urandom(SESSION_BYTES)
        session = Session(sessions, number, traffic, name)
        way = _Way(sessions, session, number, (name, sessions.name), counted)
        try:
            with way.bar:
                return run.connected(session, way)
        except PartyUnavailableError as error:
            reason = way.other_error()
            if reason is not None:
                raise reason from None
            try:
                wait.pause(error)
            except PartyUnavailableError:
                if run.model is None:
                    raise
                logger.warning("party %r was not told the end: call again", sessions.name)
                return run.model
        except BaseException as error:
            found = way.other_error()
            reason = found if isinstance(error, PartyRefusedError) else None
            if isinstance(error, Exception):
                with suppress(Exception):
                    session.ask(Abort(), Done)
            if reason is not None:
                raise reason from None
            raise


def task_of(
    params: Mapping[str, Any],
    rows: RunRows | Dataset,
    trainer: NewtonBoost,
    n_trees: int,
    per_round: int,
    name: str,
    n_rows: int,
) -> ColumnTask:
    """The public settings of a run, and what the party with the labels declares."""
    training_parameters(params, rows.max_bin)
    if not (rows.bins.n_bins > 1).any():
        raise InvalidArgumentError(
            "train_set has no feature with two bins, so that there is nothing to split"
        )
    task = ColumnTask(
        name,
        {
            key: value
            for key, value in params.items()
            if not _OF_THE_CALL & set(resolve_aliases({key: value}))
        },
        {one: getattr(trainer, one) for one in SETTINGS},
        n_trees,
        per_round,
        n_rows,
        rows.label_bounds,
        declaration(rows.bins),
        rows.provenance.notes,
        tuple(report.to_dict() for report in rows.provenance.paid_for),
    )
    # As the other party reads it.
    return ColumnTask.from_json(task.to_json())


def _checked_ids(ids: Sequence[str], rows: RunRows) -> list[str]:
    """Canonical ids, one for each row."""
    checked, n_rows = check_ids(list(ids), "ids of train_set"), rows.codes.n_rows
    if len(checked) != n_rows:
        raise InvalidArgumentError(f"ids has {len(checked)} entries for {n_rows} rows of train_set")
    return checked


def _aligned(party: Any, ids: list[str], store: Store, patience: float) -> tuple[Alignment, Any]:
    """The rows in common, and the other party's sessions about these; a party that is lost is waited for."""
    if isinstance(party, ColumnParty):
        return party.aligned(ids)
    kept, traffic = store.get(ALIGNED, ""), Traffic()
    again = Reconnector(patience, lambda: None, traffic)
    alignment = again(lambda: align([party], ids, traffic)) if kept is None else Alignment(tuple(kept))
    store.put(ALIGNED, "", list(alignment.ids))
    return alignment, party.with_rows(alignment.digest)


def _rows_of(alignment: Alignment, ids: Sequence[str], rows: RunRows) -> tuple[Codes, NDArray[np.float64]]:
    """Codes and labels of the rows in common; FederatedCheckpointError if some are not here any more."""
    absent = len(set(alignment.ids) - set(ids))
    if absent:
        raise FederatedCheckpointError(
            f"{absent} of {len(alignment.ids)} ids in common are not in train_set any more: the run in "
            "checkpoint needs their rows; begin another run with another checkpoint"
        )
    positions = alignment.positions(ids)
    return rows.codes.take(positions), rows.label[positions]


def _check_cost(
    store: Store, ledger: PartyLedger, task: ColumnTask, budget: tuple[float, float] | None
) -> None:
    """Refuse a run that has not begun if the ledger does not have all that it may cost."""
    if store.get(RUN, "") is None:
        ledger.check_own_run(task.granted, ONE_ROW, budget or task.budget)


def _checked_about(store: Store, task: ColumnTask, codes: Codes, label: NDArray[np.float64]) -> bytes:
    """A digest of a run's task and rows; FederatedCheckpointError if the progress is that of another run."""
    texts = task.to_json(), digest_of_rows(codes, label)
    digest = hashlib.sha256(length_prefixed([text.encode() for text in texts])).digest()
    if store.get(ABOUT, "") not in (None, digest):
        raise FederatedCheckpointError(
            "checkpoint is of another run: its settings, columns or rows differ, or it was begun on a "
            "processor or with libraries that round otherwise, or by another version; remove the folder, or "
            "pass another one"
        )
    return digest


def checked_rows(train_set: Any) -> RunRows:
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


def _accept_only(party: Any, known: AllowList, has_ids: bool) -> None:
    """Let a party behind a server be one of those allowed, by its certificate."""
    if hasattr(party, "accept_only"):
        party.accept_only(known)
    elif has_ids:
        raise InvalidArgumentError(
            f"party {party.name!r} shows no certificate before ids are aligned; pass a RemoteParty"
        )


def _only_party(parties: Any) -> Any:
    are_parties = isinstance(parties, Sequence) and all(
        hasattr(one, "handle") and hasattr(one, "name") for one in parties
    )
    if not are_parties:
        raise ArgumentTypeError("parties must be a sequence of lgb_dp.vertical.ColumnParty, or RemoteParty")
    if len(parties) != 1:
        raise UnsupportedParameterError(
            f"parties holds {len(parties)} parties; private training with columns apart is between two: "
            "the one with the labels, and one other"
        )
    return parties[0]


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
