"""Federated training: the loop over rounds, as the active party runs it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from gbdt_hosts.xgboost.evaluation import CustomMetric, EvaluationSet
from gbdt_hosts.xgboost.gradients import CustomObjective
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.patience import Fanout
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.loop import LoopOptions, boost, check_patience
from xgb_fed.boosting.params import Settings
from xgb_fed.ciphers.base import Scheme
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.errors import CheckpointError
from xgb_fed.vertical.model.model import VerticalModel
from xgb_fed.vertical.training.auditing import Recording, go_without_record
from xgb_fed.vertical.training.checkpoint import VerticalCheckpoint
from xgb_fed.vertical.training.rounds import Rounds
from xgb_fed.vertical.training.run_state import RunState
from xgb_fed.vertical.training.sessions import Sessions
from xgb_fed.vertical.training.task import ActiveData, TrainingTask

logger = logging.getLogger(__name__)


def train(
    params: Mapping[str, Any],
    active_data: ActiveData,
    parties: Sequence[Any],
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[ActiveData, str]] = (),
    cipher: Scheme | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int = True,
    callbacks: Sequence[Any] = (),
    checkpoint: str | Path | None = None,
    patience: float = 0.0,
    obj: CustomObjective | None = None,
    custom_metric: CustomMetric | None = None,
    xgb_model: Any = None,
    traffic: Traffic | None = None,
    auditable: bool = False,
) -> VerticalModel:
    """Train on columns that several parties hold of the same rows, as ``xgboost.train`` would on all of them.

    Parameters
    ----------
    params : mapping
        XGBoost's parameters, and `tree_mode`, `trees_per_party`, `active_depth`, `multi_output`, `goss`.
        See `Settings`.  `max_depth`, `max_bin` and so on have XGBoost's defaults.
    active_data : ActiveData
        This party's columns and the labels.
    parties : sequence of Party
        Passive parties; pooled columns are this party's, then theirs in this order.
    num_boost_round : int
    evals : sequence of (ActiveData, str)
        Evaluation sets; every passive party holds its columns of them in the same order.
    cipher : Scheme, optional
        ``Paillier(2048)`` by default.
    early_stopping_rounds : int, optional
    evals_result : dict, optional
        Filled with metrics by set.
    verbose_eval : bool or int
        Whether, or every how many rounds, to print metrics.
    callbacks : sequence of xgboost.callback.TrainingCallback
        They may set ``learning_rate``, as `xgboost.callback.LearningRateScheduler` does.
    checkpoint : path, optional
        Directory for this party's progress.  The same call after a crash goes on at the last finished tree,
        and ends in the same model; callbacks see all rounds again.  It holds no keys and nothing of the other
        parties; remove it when the model is saved.
    patience : float
        Seconds to wait for a party that is unavailable before giving up, in all within one tree; training
        then continues at the last finished tree.
    obj : callable, optional
        Your own objective, as in ``xgboost.train``: it receives margins and a DMatrix that has the labels,
        weights and queries of the rows but no columns, and returns gradients and hessians, which must not be
        negative. ``params["objective"]`` then says what margins mean.
    custom_metric : callable, optional
        Your own metric, as in ``xgboost.train``: it is given predictions, or margins if there is `obj`, and
        such a DMatrix, and returns the metric's name and value.

    xgb_model : VerticalModel, estimator or xgboost.Booster, optional
        A model to continue, whose trees come first.  Its parties must take part, with the same columns; other
        parties may join.  Of a native booster, all columns must be the active party's.
    traffic : Traffic, optional
        Counts what is sent, also if training fails; with a `checkpoint`, what earlier calls sent is counted
        unless they have done so.  `VerticalModel.traffic` counts all calls.
    auditable : bool
        Whether `checkpoint` keeps, beside the progress, the key, the seed and the messages of the run for an
        auditor (`replay`), until another run begins there: it is then as secret as the labels.

    Returns
    -------
    VerticalModel

    Raises
    ------
    InvalidArgumentError, ArgumentTypeError, InvalidDataError
        For what cannot be trained, before anything leaves.
    RowMismatchError
        If the index of a data frame names other rows than a party's, or another order.
    ProtocolError
        If a party refuses, or breaks the protocol.
    PartyUnavailableError
        If a party is dead or silent, and not back within `patience` seconds.
    CheckpointError
        If `checkpoint` belongs to another training run, or another one is using it now.
    """
    if auditable:
        parties = Recording(checkpoint, parties).parties
    settings = Settings.from_params(params)
    training = TrainingTask(
        settings, active_data, parties, evals, cipher if cipher is not None else Paillier(), obj, xgb_model
    )
    options = LoopOptions(
        num_boost_round, early_stopping_rounds, verbose_eval, callbacks, bool(evals), custom_metric
    )
    check_patience(patience)
    kept = None if checkpoint is None else VerticalCheckpoint(checkpoint, training.digest())
    return run(training, options, evals_result, kept, patience, traffic)


def run(
    task: TrainingTask,
    options: LoopOptions,
    evals_result: dict[str, Any] | None = None,
    checkpoint: VerticalCheckpoint | None = None,
    patience: float = 0.0,
    traffic: Traffic | None = None,
) -> VerticalModel:
    """Train; the parties' sessions end whether or not training succeeds."""
    opened = nullcontext() if checkpoint is None else checkpoint.taken_up()
    audit = next((party.audit for party in task.parties if hasattr(party, "audit")), None)
    with (
        opened as journal,
        nullcontext() if audit is None else audit.begun(journal) as secrets,
        ThreadPoolExecutor(max(1, len(task.parties)), thread_name_prefix="xgb_fed") as pool,
    ):
        if checkpoint is not None and journal is not None and audit is None:
            go_without_record(checkpoint.folder, journal)
        state = RunState(task, journal, secrets)
        n_finished = state.n_finished
        if n_finished > options.num_boost_round:
            raise CheckpointError(
                f"the checkpoint has {n_finished} rounds; num_boost_round={options.num_boost_round}"
            )

        patience = max(patience, 0.0 if audit is None else audit.patience)
        n_rounds = options.num_boost_round if options.early_stopping_rounds is None else 0
        sessions = Sessions(task, state, Fanout(pool, task.parties), patience, n_rounds)
        try:
            rounds = Rounds.open(task, state, sessions, journal)

            def grow(number: int) -> None:
                if number >= n_finished:
                    rounds.grow(number)

            result = boost(
                options,
                task.settings.of_xgboost,
                [EvaluationSet(name, rows.targets) for rows, name in task.evals],
                lambda: state.progress.eval_margins,
                grow,
                description=task.announced(),
                known_metrics=state.progress.evaluations,
                set_learning_rate=rounds.set_learning_rate,
                n_before=0 if task.earlier is None else task.earlier.model.num_boosted_rounds(),
                of_margins=task.obj is not None,
            )
            rounds.finish()
        except PartyUnavailableError:
            # One party cannot be told, and waiting for it once more would hide the error.
            raise
        except BaseException:
            sessions.abort()
            raise
        finally:
            state.count(traffic, journal)
    model = state.model
    if task.earlier is not None:
        task.earlier.put_before(model)
    model.evals_result = result.evals_result
    model.best_iteration, model.best_score = result.best_iteration, result.best_score
    if evals_result is not None:
        evals_result.update(result.evals_result)
    return model
