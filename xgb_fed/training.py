"""Federated training: the loop over rounds, as the active party runs it."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from gbdt_hosts.xgboost_training import Callbacks, EvaluationSet, MetricBooster, intercept
from gbdt_kernels import arithmetic_compiled_on_this_machine
from numpy.typing import NDArray
from tqdm.auto import tqdm

from xgb_fed import messages
from xgb_fed.checkpoint import Checkpoint, Progress, digest_of
from xgb_fed.cipher import PrivatePart, Scheme
from xgb_fed.errors import (
    CheckpointError,
    CipherError,
    InvalidDataError,
    LabelLeakWarning,
    NotEncryptedWarning,
    PartyUnavailable,
    ProtocolError,
    UnsupportedParameterError,
)
from xgb_fed.features import Columns, bin_features, check_weight, numeric_vector, read_columns
from xgb_fed.finders import OwnColumns, PassivePeer, SplitFinder, send_gradients
from xgb_fed.gradients import FixedPointGradients, packing_for
from xgb_fed.grower import grow_tree
from xgb_fed.model import Router, VerticalModel, add_leaves, route, row_positions
from xgb_fed.objectives import Objective
from xgb_fed.paillier import Paillier
from xgb_fed.party import Channel, check_parties
from xgb_fed.passive import FEWEST_ROWS, read_public_key
from xgb_fed.plain import Plain
from xgb_fed.settings import Settings
from xgb_fed.share import Share
from xgb_fed.traffic import Traffic
from xgb_fed.tree_modes import TreeMode

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger("xgb_fed.training")

MOST_FEATURES = 1 << 20
"""Columns of a party at most."""

CHUNK_BYTES = 8 << 20
"""Bytes of ciphertexts in one message."""

SECONDS_BETWEEN_TRIES = 0.5
"""Between two tries to reach a party that is unavailable."""


@dataclass
class ActiveData:
    """The active party's rows: its columns, the labels, and weights.

    Parameters
    ----------
    data : matrix of shape (n_rows, n_features), or None
        None if the active party has no columns.
    label : array-like of shape (n_rows,)
    weight : array-like of shape (n_rows,), optional
    rows : array-like of int of shape (n_rows,), optional
        Positions of these rows in the passive parties' data, if those have more.
    """

    data: Any
    label: Any
    weight: Any = None
    rows: Any = None


@dataclass
class _Rows:
    """Checked rows of the active party."""

    columns: Columns | None
    y: NDArray[np.float32]
    weight: NDArray[np.float32] | None
    positions: NDArray[np.int32]

    @classmethod
    def read(cls, given: ActiveData, objective: Objective, argument: str) -> _Rows:
        y = numeric_vector(given.label, f"label of {argument}")
        columns = None if given.data is None else read_columns(given.data, f"data of {argument}")
        if columns is not None and columns.n_rows != len(y):
            raise InvalidDataError(f"{argument} has {columns.n_rows} rows and {len(y)} labels")
        if not len(y):
            raise InvalidDataError(f"{argument} has no rows")
        objective.check_labels(y)
        weight = check_weight(given.weight, len(y), f"weight of {argument}")
        if columns is not None and columns.n_features == 0:
            columns = None
        return cls(columns, y, weight, row_positions(given.rows))

    @property
    def n_rows(self) -> int:
        return len(self.y)


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
    checkpoint : path, optional
        Directory for this party's progress.  The same call after a crash goes on at the last finished tree,
        and ends in the same model; callbacks see all rounds again.  It holds no keys and nothing of the other
        parties; remove it when the model is saved.
    patience : float
        Seconds to wait for a party that is unavailable before giving up; the training then goes on at the
        last finished tree.

    Returns
    -------
    VerticalModel

    Raises
    ------
    UnsupportedParameterError, InvalidDataError, ValueError
        For what cannot be trained, before anything leaves.
    ProtocolError
        If a party refuses, or breaks the protocol.
    PartyUnavailable
        If a party is dead or silent, and not back within `patience` seconds.
    CheckpointError
        If `checkpoint` is another training's.
    """
    settings = Settings.from_params(params)
    training = Training(settings, active_data, parties, evals, cipher if cipher is not None else Paillier())
    _check_loop(num_boost_round, early_stopping_rounds, callbacks, evals)
    if not (np.isfinite(patience) and patience >= 0):
        raise ValueError(f"patience={patience!r} must be a finite number of seconds of at least 0")
    kept = None if checkpoint is None else Checkpoint(checkpoint, training.digest())
    return training.run(
        num_boost_round, early_stopping_rounds, evals_result, verbose_eval, callbacks, kept, patience
    )


def _check_loop(rounds: Any, stopping: Any, callbacks: Sequence[Any], evals: Sequence[Any]) -> None:
    if not (isinstance(rounds, (int, np.integer)) and rounds >= 1):
        raise ValueError(f"num_boost_round={rounds!r} must be an integer of at least 1")
    if stopping is not None and not evals:
        raise ValueError("early_stopping_rounds needs an evaluation set")
    if any(getattr(callback, "save_best", False) for callback in callbacks):
        raise UnsupportedParameterError("EarlyStopping(save_best=True) is not supported; use iteration_range")


class Training:
    """One training.

    Parameters
    ----------
    settings : Settings
    active_data : ActiveData
    parties : sequence of Party
    evals : sequence of (ActiveData, str)
    cipher : Scheme
    """

    def __init__(
        self,
        settings: Settings,
        active_data: ActiveData,
        parties: Sequence[Any],
        evals: Sequence[tuple[ActiveData, str]],
        cipher: Scheme,
    ) -> None:
        self.settings = settings
        self.objective = Objective(settings.objective, settings.n_classes, settings.scale_pos_weight)
        self.rows = _Rows.read(active_data, self.objective, "active_data")
        self.parties = check_parties(parties)
        self.evals = [(_Rows.read(data, self.objective, name), str(name)) for data, name in evals]
        self._check_evals()
        n_own = 0 if self.rows.columns is None else self.rows.columns.n_features
        if not self.parties and not n_own:
            raise InvalidDataError("no columns: the active party has none, and there are no parties")
        self.mode = TreeMode(
            settings.tree_mode,
            settings.max_depth,
            settings.trees_per_party,
            settings.active_depth,
            len(self.parties),
            n_own > 0,
        )
        if isinstance(cipher, type) or not hasattr(cipher, "generate"):
            raise TypeError(f"cipher={cipher!r} must be a scheme, such as Paillier() or OkamotoUchiyama()")
        self.cipher = cipher
        if settings.goss is not None and self.parties:
            warnings.warn(
                "goss: passive parties see which rows are sampled; those left out have small gradients. "
                "On imbalanced data this discloses most labels to them",
                LabelLeakWarning,
                stacklevel=4,
            )
        if isinstance(cipher, Plain) and self.parties:
            warnings.warn(
                "cipher=Plain(): gradients, and with them labels, leave this party in CLEAR TEXT",
                NotEncryptedWarning,
                stacklevel=4,
            )

    @property
    def eval_rows(self) -> list[_Rows]:
        """Rows of each evaluation set."""
        return [rows for rows, _ in self.evals]

    def digest(self) -> str:
        """Names the training: equal for equal data, settings, and parties' names."""
        sets = [self.rows, *self.eval_rows]
        arrays = [
            part
            for rows in sets
            for part in (
                None if rows.columns is None else rows.columns.data,
                rows.y,
                rows.weight,
                rows.positions,
            )
        ]
        own = None if self.rows.columns is None else self.rows.columns.names
        names = [party.name for party in self.parties], [name for _, name in self.evals], own
        return digest_of(self.settings, names, *arrays)

    def _check_evals(self) -> None:
        names = [name for _, name in self.evals]
        if len(set(names)) != len(names) or any("-" in name for name in names):
            raise ValueError(f"evaluation sets must have different names without '-', not {names}")
        own = None if self.rows.columns is None else self.rows.columns.n_features
        for rows, name in self.evals:
            if (None if rows.columns is None else rows.columns.n_features) != own:
                raise InvalidDataError(f"evaluation set {name!r} has other columns than active_data")

    def _announced(self) -> str:
        """What the progress bar says; who waits for the compiler on this machine is told so, once."""
        if not self.parties or isinstance(self.cipher, Plain) or arithmetic_compiled_on_this_machine():
            return "federated rounds"
        logger.info("compiling kernels for this machine (once; they are cached)")
        return "federated rounds, the first while kernels are compiled (once)"

    def run(
        self,
        n_rounds: int,
        early_stopping_rounds: int | None,
        evals_result: dict[str, Any] | None,
        verbose: bool | int,
        callbacks: Sequence[Any],
        checkpoint: Checkpoint | None = None,
        patience: float = 0.0,
    ) -> VerticalModel:
        """Train; parties' sessions end whether or not it succeeds."""
        with ThreadPoolExecutor(max(1, len(self.parties)), thread_name_prefix="xgb_fed") as pool:
            rounds = _Rounds(self, _Together(pool, self.parties), checkpoint, patience)
            if rounds.n_finished > n_rounds:
                raise CheckpointError(
                    f"the checkpoint has {rounds.n_finished} rounds; num_boost_round={n_rounds}"
                )
            sets = [EvaluationSet(name, rows.y, rows.weight) for rows, name in self.evals]
            metrics = MetricBooster(
                self.settings.of_xgboost,
                sets,
                lambda: rounds.progress.eval_margins,
                lambda: rounds.n_shown,
            )
            metrics.lines = rounds.progress.evaluations
            loop = Callbacks(metrics, sets, callbacks, early_stopping_rounds, verbose)
            try:
                rounds.open()
                loop.before_training()
                for number in tqdm(range(n_rounds), desc=self._announced(), disable=None, leave=False):
                    if loop.before_round(number):
                        break
                    if number >= rounds.n_finished:
                        rounds.grow(number)
                    rounds.n_shown = number + 1
                    if loop.after_round(number):
                        break
                loop.after_training()
                rounds.finish()
            except PartyUnavailable:
                # One party cannot be told, and waiting for it once more would hide the error.
                raise
            except BaseException:
                rounds.abort()
                raise
        model = rounds.model
        model.evals_result = loop.history
        if evals_result is not None:
            evals_result.update(loop.history)
        if loop.best is not None:
            model.best_iteration, model.best_score = loop.best
        return model


class _Together:
    """Runs functions at the same time: one question to every party.

    When a party is lost, questions to the others are given up, and nothing is under way any more.
    """

    def __init__(self, pool: ThreadPoolExecutor, parties: Sequence[Any]) -> None:
        self._pool = pool
        self._interrupts = [party.interrupt for party in parties if hasattr(party, "interrupt")]

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        lost: list[PartyUnavailable] = []

        def attempt(item: T) -> R:
            try:
                return work(item)
            except PartyUnavailable as error:
                lost.append(error)
                for interrupt in self._interrupts:
                    interrupt()
                raise

        # The first runs here: the active party's own search, or the only question.
        others = [self._pool.submit(attempt, item) for item in items[1:]]
        try:
            results = [attempt(item) for item in items[:1]]
            return results + [future.result() for future in others]
        except PartyUnavailable:
            # Later ones are the questions given up.
            raise lost[0] from None
        finally:
            wait(others)


class _Rounds:
    """What changes from round to round."""

    def __init__(
        self, training: Training, together: _Together, checkpoint: Checkpoint | None, patience: float
    ) -> None:
        self.training, self.together = training, together
        self.checkpoint, self.patience = checkpoint, patience
        self.n_shown = 0
        """Rounds that callbacks know of: after a crash they see them all again."""
        settings, rows = training.settings, training.rows
        self.key: PrivatePart = training.cipher.generate()
        if isinstance(self.key, Plain) and not isinstance(training.cipher, Plain):
            raise UnsupportedParameterError(f"cipher={training.cipher!r} gives a key that does not encrypt")
        try:
            read_public_key(self.key.public.public_bytes())
        except CipherError as error:
            raise UnsupportedParameterError(
                f"cipher={training.cipher!r} gives keys that parties do not read; "
                "Paillier(), OkamotoUchiyama() and Plain() give such that they do"
            ) from error
        self.traffic = Traffic(encrypted=not isinstance(self.key, Plain))
        self.packing = packing_for(
            rows.n_rows,
            settings.n_classes if settings.multi_output else 1,
            self.key.public.plaintext_limit,
        )
        names = [] if rows.columns is None else rows.columns.names
        self.model = VerticalModel(
            os.urandom(16),
            training.objective,
            self._base_score(),
            Share(names),
            [party.name for party in training.parties],
            [],
        )
        kept = checkpoint.load(names) if checkpoint is not None else None
        self.progress = kept or self._beginning()
        if kept is not None:
            self.model.model_id, self.model.share = kept.model_id, kept.share
            self.model.trees, self.model.rounds = kept.trees, kept.rounds
            self.traffic.flows = kept.traffic.flows
        self.model.traffic = self.progress.traffic = self.traffic
        self.finders: dict[int, OwnColumns | PassivePeer] = {}
        self._must_resume = kept is not None

    def open(self) -> None:
        """Start, or take up, a session with every party."""
        rows = self.training.rows
        self._steadily(lambda: None if self.peers else self._open(resumed=False))
        if rows.columns is not None:
            features = bin_features(rows.columns, self.training.settings.max_bin)
            regularization = self.training.settings.regularization
            self.finders[0] = OwnColumns(features, self.model.share, regularization)

    @property
    def peers(self) -> dict[int, PassivePeer]:
        """The passive parties, once there is a session with them."""
        return {number: f for number, f in self.finders.items() if isinstance(f, PassivePeer)}

    @property
    def n_finished(self) -> int:
        """Rounds whose trees are all there."""
        return self.model.num_boosted_rounds()

    def _beginning(self) -> Progress:
        model, training = self.model, self.training
        margins = [np.tile(model.base_margin, (r.n_rows, 1)) for r in [training.rows, *training.eval_rows]]
        state = training.settings.random_state
        seed = int.from_bytes(os.urandom(16), "little") if state is None else int(state)
        return Progress(model.model_id, seed, model.trees, model.rounds, model.share, margins[0], margins[1:])

    def _steadily(self, work: Callable[[], R]) -> R:
        """Do something that can be done again; when a party was lost, again, in new sessions.

        Raises
        ------
        PartyUnavailable
            If the party is not back within the training's patience.
        """
        give_up = None
        while True:
            try:
                if self._must_resume:
                    self._open(resumed=True)
                    self._must_resume = False
                    logger.info("all parties are there; on from tree %d", len(self.model.trees))
                return work()
            except PartyUnavailable as error:
                self._must_resume = True
                now = time.monotonic()
                if give_up is None:
                    give_up = now + self.patience
                    logger.warning("%s", error)
                if now >= give_up:
                    raise
                time.sleep(min(SECONDS_BETWEEN_TRIES, give_up - now))

    def _n_splits(self, owner: int) -> int:
        """Splits of one party in finished trees."""
        return sum(tree.owner.count(owner) for tree in self.model.trees)

    def _base_score(self) -> list[float]:
        settings, rows = self.training.settings, self.training.rows
        if settings.base_score is not None:
            return [float(settings.base_score)]
        params = {k: v for k, v in settings.of_xgboost.items() if k != "eval_metric"}
        return [float(value) for value in intercept(params, rows.y, rows.weight)]

    def _open(self, resumed: bool) -> None:
        """Start a session with every party; the first one's name is the model's."""
        settings, rows = self.training.settings, self.training.rows
        opening = messages.OpenTraining(
            public_key=self.key.public.public_bytes(),
            n_rows=rows.n_rows,
            max_bin=settings.max_bin,
            field_bits=self.packing.gh.bits * self.packing.classes_per_ciphertext,
            n_groups=len(self.packing.groups),
            rows=rows.positions,
            eval_rows=np.array([e.n_rows for e, _ in self.training.evals], dtype=np.int64),
        )
        session = os.urandom(16) if resumed else self.model.model_id
        channels = [Channel(party, session, self.traffic) for party in self.training.parties]
        opened = self.together(lambda c: c.ask(opening, messages.TrainingOpened), channels)
        if resumed:
            self.together(
                lambda job: job[1].ask(
                    messages.ResumeTraining(self.model.model_id, self._n_splits(job[0])), messages.Done
                ),
                list(enumerate(channels, start=1)),
            )
        self.model.party_features = []
        for number, (channel, answer) in enumerate(zip(channels, opened, strict=True), start=1):
            if not 1 <= answer.n_features <= MOST_FEATURES:
                raise ProtocolError(f"party {channel.name!r} says it has {answer.n_features} columns")
            self.model.party_features.append(answer.n_features)
            self.finders[number] = PassivePeer(
                channel, self.key, number, settings, answer.n_features, self._n_splits(number)
            )

    def abort(self) -> None:
        """Let parties forget a training that failed; one that does not answer has nothing to be told."""
        for peer in self.peers.values():
            with suppress(Exception):
                peer.channel.ask(messages.Abort(), messages.Done)

    def grow(self, number: int) -> None:
        """One boosting round: a tree, or one a class, on gradients of the same margins."""
        training = self.training
        rows, settings = training.rows, training.settings
        weight = np.ones(rows.n_rows, dtype=np.float32) if rows.weight is None else rows.weight
        progress = self.progress
        g, h = training.objective.gradients(progress.margin, rows.y, weight)
        if not (np.isfinite(g).all() and np.isfinite(h).all()):
            raise InvalidDataError("labels or weights are so large that gradients are infinite in float32")
        together = settings.multi_output or settings.n_classes == 1
        groups = [slice(None)] if together else [slice(k, k + 1) for k in range(settings.n_classes)]
        for group in groups[len(progress.leaves) :]:
            leaf = self._steadily(partial(self._grow_tree, number, g[:, group], h[:, group]))
            progress.leaves.append(leaf)
            if self.checkpoint is not None:
                self.checkpoint.save(progress)
        first = len(self.model.trees) - len(groups)
        routed = self._steadily(partial(self._route_evals, first))
        self.model.rounds.append(len(self.model.trees))
        for tree, leaf in enumerate(progress.leaves, start=first):
            self._add(tree, progress.margin, leaf)
        progress.leaves.clear()
        for margin, leaves in zip(progress.eval_margins, routed, strict=True):
            for tree in range(first, len(self.model.trees)):
                self._add(tree, margin, leaves[:, tree - first])

    def _route_evals(self, first: int) -> list[NDArray[np.int32]]:
        """Leaves of every evaluation set's rows in the trees from some tree on."""
        channels = {number: peer.channel for number, peer in self.peers.items()}
        return [
            route(
                self.model.trees[first:],
                rows.n_rows,
                Router(self.model.share, rows.columns, channels, k),
            )
            for k, rows in enumerate(self.training.eval_rows, start=1)
        ]

    def _add(self, tree: int, margin: NDArray[np.float32], leaf: NDArray[np.int32]) -> None:
        add_leaves(margin, self.model.trees[tree].values()[leaf], self.model.group_of(tree))

    def _grow_tree(self, number: int, g: NDArray[np.float32], h: NDArray[np.float32]) -> NDArray[np.int32]:
        training, settings = self.training, self.training.settings
        number_of_tree = len(self.model.trees)
        # A tree that was begun before is begun again: without its splits, with the same draws.
        self.model.share.truncate(self._n_splits(0))
        random = np.random.default_rng([self.progress.seed, number_of_tree])
        sample = settings.sampling.draw_rows(g, random)
        factor = sample.factor.astype(np.float64)[:, None]
        gradients = FixedPointGradients.scaled(
            np.where(sample.rows[:, None], g * factor, 0.0),
            np.where(sample.rows[:, None], h * factor, 0.0),
            self.packing,
        )
        plan = training.mode.plan(number)
        levels = {0: plan.active, **plan.passive}
        # A sample too small to be split is no party's business.
        able = self.finders.items() if sample.rows.sum() >= FEWEST_ROWS else ()
        searching = {k: f for k, f in able if len(levels.get(k, ()))}
        finders = self._with_columns(searching, random)
        self.together(lambda f: f.start_tree(number_of_tree, gradients, sample.rows), list(finders.values()))
        peers = [finder for finder in finders.values() if isinstance(finder, PassivePeer)]
        if peers:
            rows = np.flatnonzero(sample.rows).astype(np.int32)
            send_gradients(peers, self.key, gradients, rows, self.together, self._rows_at_once())
        tree, leaf = grow_tree(
            dict(sorted(finders.items())),
            levels,
            gradients,
            sample.rows,
            settings.max_depth,
            settings.regularization,
            self.together,
        )
        self.model.trees.append(tree)
        return leaf

    def _rows_at_once(self) -> int:
        """Rows whose ciphertexts make a message of `CHUNK_BYTES`."""
        # A ciphertext is at most twice as long as the modulus whose residues hold the plaintexts.
        return max(256, CHUNK_BYTES // max(1, self.key.public.plaintext_limit.bit_length() // 4))

    def _with_columns(self, finders: dict[int, Any], random: np.random.Generator) -> dict[int, SplitFinder]:
        """Draw the tree's columns among those of the finders; one without any sits out."""
        own = self.training.rows.columns
        counts = {0: 0 if own is None else own.n_features}
        counts |= dict(enumerate(self.model.party_features, start=1))
        if not finders:
            return {}
        numbers = sorted(finders)
        bounds = np.cumsum([0, *(counts[k] for k in numbers)])
        drawn = self.training.settings.sampling.draw_columns(int(bounds[-1]), random)
        searching: dict[int, SplitFinder] = {}
        for k, first, last in zip(numbers, bounds[:-1], bounds[1:], strict=True):
            columns = drawn[(drawn >= first) & (drawn < last)] - first
            if len(columns):
                finders[k].use_columns(columns)
                searching[k] = finders[k]
        return searching

    def finish(self) -> None:
        """End the sessions; every party keeps its share."""
        self._steadily(self._finish)

    def _finish(self) -> None:
        for peer in self.peers.values():
            peer.channel.ask(messages.Finish(), messages.Done)
