"""Federated training: the loop over rounds, as the active party runs it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from gbdt_hosts.xgboost_training import Callbacks, EvaluationSet, MetricBooster, intercept
from numpy.typing import NDArray
from tqdm.auto import tqdm

from xgb_fed import messages
from xgb_fed.cipher import PrivatePart, Scheme
from xgb_fed.errors import InvalidDataError, NotEncryptedWarning, UnsupportedParameterError
from xgb_fed.features import Columns, bin_features, read_columns
from xgb_fed.finders import OwnColumns, PassivePeer, SplitFinder, send_gradients
from xgb_fed.gradients import FixedPointGradients, packing_for
from xgb_fed.grower import grow_tree
from xgb_fed.model import Router, VerticalModel, add_leaves, route, row_positions
from xgb_fed.objectives import Objective
from xgb_fed.paillier import Paillier
from xgb_fed.party import Channel, check_parties
from xgb_fed.plain import Plain
from xgb_fed.settings import Settings
from xgb_fed.share import Share
from xgb_fed.traffic import Traffic
from xgb_fed.tree_modes import TreeMode

T = TypeVar("T")
R = TypeVar("R")

CHUNK_BYTES = 8 << 20
"""Bytes of ciphertexts in one message."""


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
        y = _vector(given.label, f"label of {argument}")
        columns = None if given.data is None else read_columns(given.data, f"data of {argument}")
        if columns is not None and columns.n_rows != len(y):
            raise InvalidDataError(f"{argument} has {columns.n_rows} rows and {len(y)} labels")
        if not len(y):
            raise InvalidDataError(f"{argument} has no rows")
        objective.check_labels(y)
        weight = None if given.weight is None else _vector(given.weight, f"weight of {argument}")
        if weight is not None:
            if len(weight) != len(y):
                raise InvalidDataError(f"{argument} has {len(weight)} weights for {len(y)} rows")
            if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
                raise InvalidDataError(f"weight of {argument} must be finite, not negative, and not all zero")
        if columns is not None and columns.n_features == 0:
            columns = None
        return cls(columns, y, weight, row_positions(given.rows))

    @property
    def n_rows(self) -> int:
        return len(self.y)


def _vector(values: Any, argument: str) -> NDArray[np.float32]:
    try:
        vector = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidDataError(f"{argument} must be numbers: {error}") from None
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise InvalidDataError(f"{argument} has shape {vector.shape}; a vector is accepted")
    return vector


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

    Returns
    -------
    VerticalModel

    Raises
    ------
    UnsupportedParameterError, InvalidDataError, ValueError
        For what cannot be trained, before anything leaves.
    ProtocolError
        If a party refuses, or breaks the protocol.
    """
    settings = Settings.from_params(params)
    training = Training(settings, active_data, parties, evals, cipher if cipher is not None else Paillier())
    _check_loop(num_boost_round, early_stopping_rounds, callbacks, evals)
    return training.run(num_boost_round, early_stopping_rounds, evals_result, verbose_eval, callbacks)


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
        self.cipher = cipher
        if isinstance(cipher, Plain) and self.parties:
            warnings.warn(
                "cipher=Plain(): gradients, and with them labels, leave this party in CLEAR TEXT",
                NotEncryptedWarning,
                stacklevel=4,
            )

    def _check_evals(self) -> None:
        names = [name for _, name in self.evals]
        if len(set(names)) != len(names) or any("-" in name for name in names):
            raise ValueError(f"evaluation sets must have different names without '-', not {names}")
        own = None if self.rows.columns is None else self.rows.columns.n_features
        for rows, name in self.evals:
            if (None if rows.columns is None else rows.columns.n_features) != own:
                raise InvalidDataError(f"evaluation set {name!r} has other columns than active_data")

    def run(
        self,
        n_rounds: int,
        early_stopping_rounds: int | None,
        evals_result: dict[str, Any] | None,
        verbose: bool | int,
        callbacks: Sequence[Any],
    ) -> VerticalModel:
        """Train; parties' sessions end whether or not it succeeds."""
        with ThreadPoolExecutor(max(1, len(self.parties)), thread_name_prefix="xgb_fed") as pool:
            rounds = _Rounds(self, _Together(pool))
            sets = [EvaluationSet(name, rows.y, rows.weight) for rows, name in self.evals]
            metrics = MetricBooster(
                self.settings.of_xgboost, sets, lambda: rounds.eval_margins, rounds.model.num_boosted_rounds
            )
            loop = Callbacks(metrics, sets, callbacks, early_stopping_rounds, verbose)
            loop.before_training()
            for number in tqdm(range(n_rounds), desc="federated rounds", disable=None, leave=False):
                if loop.before_round(number):
                    break
                rounds.grow(number)
                if loop.after_round(number):
                    break
            loop.after_training()
            rounds.finish()
        model = rounds.model
        model.evals_result = loop.history
        if evals_result is not None:
            evals_result.update(loop.history)
        if loop.best is not None:
            model.best_iteration, model.best_score = loop.best
        return model


class _Together:
    """Runs functions at the same time: one question to every party."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        # The first runs here: the active party's own search, or the only question.
        others = [self._pool.submit(work, item) for item in items[1:]]
        results = [work(item) for item in items[:1]]
        return results + [future.result() for future in others]


class _Rounds:
    """What changes from round to round."""

    def __init__(self, training: Training, together: _Together) -> None:
        self.training, self.together = training, together
        settings, rows = training.settings, training.rows
        self.key: PrivatePart = training.cipher.generate()
        self.traffic = Traffic(encrypted=not isinstance(self.key, Plain))
        self.packing = packing_for(
            rows.n_rows,
            settings.n_classes if settings.multi_output else 1,
            self.key.public.plaintext_limit,
        )
        self.random = np.random.default_rng(settings.random_state)
        own = Share([] if rows.columns is None else rows.columns.names)
        self.model = VerticalModel(
            os.urandom(16),
            training.objective,
            self._base_score(),
            own,
            [party.name for party in training.parties],
            [],
            traffic=self.traffic,
        )
        self.peers = self._open()
        self.finders: dict[int, OwnColumns | PassivePeer] = dict(self.peers)
        if rows.columns is not None:
            features = bin_features(rows.columns, settings.max_bin)
            self.finders[0] = OwnColumns(features, own, settings.regularization)
        self.margin = np.tile(self.model.base_margin, (rows.n_rows, 1))
        self.eval_margins = [np.tile(self.model.base_margin, (e.n_rows, 1)) for e, _ in training.evals]

    def _base_score(self) -> list[float]:
        settings, rows = self.training.settings, self.training.rows
        if settings.base_score is not None:
            return [float(settings.base_score)]
        params = {k: v for k, v in settings.of_xgboost.items() if k != "eval_metric"}
        return [float(value) for value in intercept(params, rows.y, rows.weight)]

    def _open(self) -> dict[int, PassivePeer]:
        """Start a session with every party."""
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
        channels = [Channel(party, self.model.model_id, self.traffic) for party in self.training.parties]
        opened = self.together(lambda c: c.ask(opening, messages.TrainingOpened), channels)
        self.model.party_features = [answer.n_features for answer in opened]
        return {
            number: PassivePeer(channel, self.key, number, settings.regularization)
            for number, channel in enumerate(channels, start=1)
        }

    def grow(self, number: int) -> None:
        """One boosting round: a tree, or one a class, on gradients of the same margins."""
        training = self.training
        rows, settings = training.rows, training.settings
        weight = np.ones(rows.n_rows, dtype=np.float32) if rows.weight is None else rows.weight
        g, h = training.objective.gradients(self.margin, rows.y, weight)
        together = settings.multi_output or settings.n_classes == 1
        groups = [slice(None)] if together else [slice(k, k + 1) for k in range(settings.n_classes)]
        grown = [self._grow_tree(number, g[:, group], h[:, group]) for group in groups]
        self.model.rounds.append(len(self.model.trees))
        first = len(self.model.trees) - len(grown)
        for tree, leaf in enumerate(grown, start=first):
            self._add(tree, self.margin, leaf)
        for k, (evaluated, _) in enumerate(training.evals):
            router = Router(
                self.model.share, evaluated.columns, {n: p.channel for n, p in self.peers.items()}, k + 1
            )
            leaves = route(self.model.trees[first:], evaluated.n_rows, router)
            for tree in range(first, len(self.model.trees)):
                self._add(tree, self.eval_margins[k], leaves[:, tree - first])

    def _add(self, tree: int, margin: NDArray[np.float32], leaf: NDArray[np.int32]) -> None:
        add_leaves(margin, self.model.trees[tree].values()[leaf], self.model.group_of(tree))

    def _grow_tree(self, number: int, g: NDArray[np.float32], h: NDArray[np.float32]) -> NDArray[np.int32]:
        training, settings = self.training, self.training.settings
        sample = settings.sampling.draw_rows(g, self.random)
        factor = sample.factor.astype(np.float64)[:, None]
        gradients = FixedPointGradients.scaled(
            np.where(sample.rows[:, None], g * factor, 0.0),
            np.where(sample.rows[:, None], h * factor, 0.0),
            self.packing,
        )
        plan = training.mode.plan(number)
        levels = {0: plan.active, **plan.passive}
        finders = self._with_columns({k: f for k, f in self.finders.items() if len(levels.get(k, ()))})
        number_of_tree = len(self.model.trees)
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

    def _with_columns(self, finders: dict[int, Any]) -> dict[int, SplitFinder]:
        """Draw the tree's columns among those of the finders; one without any sits out."""
        own = self.training.rows.columns
        counts = {0: 0 if own is None else own.n_features}
        counts |= dict(enumerate(self.model.party_features, start=1))
        numbers = sorted(finders)
        bounds = np.cumsum([0, *(counts[k] for k in numbers)])
        drawn = self.training.settings.sampling.draw_columns(int(bounds[-1]), self.random)
        searching: dict[int, SplitFinder] = {}
        for k, first, last in zip(numbers, bounds[:-1], bounds[1:], strict=True):
            columns = drawn[(drawn >= first) & (drawn < last)] - first
            if len(columns):
                finders[k].use_columns(columns)
                searching[k] = finders[k]
        return searching

    def finish(self) -> None:
        """End the sessions; every party keeps its share."""
        for peer in self.peers.values():
            peer.channel.ask(messages.Finish(), messages.Done)
