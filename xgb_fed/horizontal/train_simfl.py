"""SimFL (Li, Wen and He, 2020): the gradients of a builder's rows also stand for similar rows elsewhere.

In preprocessing, the parties hash their rows by common locality-sensitive functions and learn each other's
hashes.  Each party finds the most similar row of every other party for each of its own rows, and keeps the
result to itself.  In training, before a party grows a tree, the others send it, for each of its
rows, the sum of the gradients of their rows that are similar to it, in small groups that stay together.  The
gradients that a tree is grown on then add up to those of all parties.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.loop import LoopOptions
from xgb_fed.errors import HeuristicProtectionWarning, InvalidArgumentError
from xgb_fed.horizontal.common.model import HorizontalModel, horizontal_settings, of_classes
from xgb_fed.horizontal.common.rows import MIN_SIMILAR
from xgb_fed.horizontal.parties import as_parties
from xgb_fed.horizontal.simfl.checkpoint import SimFLCheckpoint, SimFLProgress
from xgb_fed.horizontal.simfl.coordinator import SimFL

WARNING = (
    "SimFL protects rows and labels by a heuristic only: hashes, sums of gradients and trees travel in clear "
    "text, and other parties may infer labels and values from them (see the guide to SimFL)"
)


def train_simfl(
    params: Mapping[str, Any],
    parties: Sequence[Any],
    num_boost_round: int = 10,
    *,
    n_hashes: int | None = None,
    min_similar: int = MIN_SIMILAR,
    known_features: int = 0,
    rounds_per_turn: int = 1,
    as_published: bool = False,
    hash_seed: int | None = None,
    evals: Sequence[tuple[tuple[Any, ...], str]] = (),
    early_stopping_rounds: int | None = None,
    verbose_eval: bool | int = True,
    callbacks: Sequence[Any] = (),
    checkpoint: str | Path | None = None,
    patience: float = 0.0,
    traffic: Traffic | None = None,
) -> HorizontalModel:
    """Train on rows that several parties hold, with the same columns.

    Parameters
    ----------
    params : mapping
        XGBoost's parameters; see `Settings`.  ``objective="auto"`` is ``binary:logistic``, or
        ``multi:softprob`` where a party has more than two classes.
    parties : sequence
        Pairs (X, y), triples (X, y, sample_weight), or `HorizontalParty` objects; at least two.
    num_boost_round : int
        Number of rounds of all parties together.
    n_hashes : int, optional
        Number L of hashes per row.  By default the paper's min(40, d − 1), or fewer where a party allows
        fewer (see `max_hashes`).
    min_similar : int, default=3
        Minimum number of rows whose gradients are sent as one sum, for parties given as (X, y).  With 1, the
        value of the paper, parties can read single labels.  `HorizontalParty` objects have their own.
    known_features : int, default=0
        Number k of features of a row that others may know: L is at most d − 1 − k.
    rounds_per_turn : int, default=1
        Rounds that a party grows before the next one's turn.
    as_published : bool, default=False
        Whether rows are hashed as they are with the paper's r = 4, ties drawn once and penalties not scaled.
        It needs ``min_similar=1``.  `HorizontalParty` objects must have been made with the same value.
        Hashes of columns that vary by much more than 4 nearly tell their values.
    hash_seed : int, optional
        Determines the draws of parties given as (X, y), and with them the hash functions.  Drawn from the
        operating system by default.  `HorizontalParty` objects draw by their own ``random_state``.
    evals : sequence of ((X, y) or (X, y, weight), str)
        Rows of the coordinator's own to compute metrics on.
    early_stopping_rounds : int, optional
        Stop when the last metric of the last evaluation set has not improved for this many rounds.
    verbose_eval : bool or int
        Whether to print metrics, or after how many rounds each time.
    callbacks : sequence of xgboost.callback.TrainingCallback
        Called before and after every round.
    checkpoint : path, optional
        Directory for the coordinator's progress.  The same call after a crash goes on after the last finished
        round, and ends in the same model; callbacks see all rounds again.  The parties must keep their part
        too: servers do, and `HorizontalParty` objects with a ``directory``.
    patience : float, default=0.0
        Seconds to wait for a party that is unavailable before giving up; training then goes on after the last
        finished round.
    traffic : Traffic, optional
        Counts what is sent, also if training fails; with a `checkpoint`, what earlier calls sent is counted
        unless they have done so.  `HorizontalModel.traffic` counts all calls.

    Returns
    -------
    HorizontalModel

    Raises
    ------
    InvalidArgumentError, UnsupportedParameterError
        For parameters that cannot be trained with; the text names them.
    InvalidDataError
        For rows or labels that cannot be trained on.
    ProtocolError, PartyRefusedError
        If a party breaks the protocol, or refuses.
    PartyUnavailableError
        If a party is lost, and not back within `patience` seconds.
    CheckpointError
        If `checkpoint` belongs to another training run, or another one is using it now.

    Warns
    -----
    HeuristicProtectionWarning
        Once per call: what SimFL does not protect.
    """
    warnings.warn(WARNING, HeuristicProtectionWarning, stacklevel=2)
    params, is_auto = of_classes(params)
    settings = horizontal_settings(params)
    options = LoopOptions(num_boost_round, early_stopping_rounds, verbose_eval, callbacks, bool(evals))
    members = as_parties(
        parties,
        hash_seed,
        categorical_labels=settings.objective != "reg:squarederror",
        min_similar=min_similar,
        as_published=as_published,
    )
    if checkpoint is not None and any(isinstance(party, (tuple, list)) for party in parties):
        raise InvalidArgumentError(
            f"checkpoint={str(checkpoint)!r} needs parties that keep their part of the run: servers, "
            "or HorizontalParty objects with a directory"
        )
    with ExitStack() as stack:
        kept = None if checkpoint is None else stack.enter_context(SimFLCheckpoint(checkpoint).taken_up())
        progress = SimFLProgress()
        try:
            training = SimFL(
                settings,
                members,
                evals,
                n_hashes,
                known_features,
                as_published,
                rounds_per_turn=rounds_per_turn,
                max_rounds=num_boost_round,
                checkpoint=kept,
                patience=patience,
                progress=progress,
                is_auto=is_auto,
            )
            return training.run(options)
        finally:
            if traffic is not None:
                traffic.add(progress.traffic.less(progress.counted))
                progress.counted.flows = deepcopy(progress.traffic.flows)
            if kept is not None:
                # A full disk is not to hide why a run has failed.
                with suppress(OSError):
                    kept.save_traffic(progress)
