"""Boosting rounds of vertical training: one tree after another, from the last finished one."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_hosts.xgboost.draws import XGBoostDraws, draws_of
from gbdt_hosts.xgboost.targets import Targets
from xgb_fed.boosting.features import bin_features
from xgb_fed.boosting.sampling import TreeColumns
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.vertical.growing.finder import OwnColumns, SplitFinder
from xgb_fed.vertical.growing.gradients import FixedPointGradients, GradientsAhead
from xgb_fed.vertical.growing.grower import grow_tree
from xgb_fed.vertical.growing.passive_columns import PassiveFinder
from xgb_fed.vertical.protocol.messages import MIN_ROWS
from xgb_fed.vertical.training.checkpoint import VerticalJournal
from xgb_fed.vertical.training.continuation import EarlierModel
from xgb_fed.vertical.training.run_state import RunState
from xgb_fed.vertical.training.sessions import Sessions
from xgb_fed.vertical.training.task import TrainingTask
from xgb_fed.vertical.trees.constraints import Constraints, PooledColumns, TreeRules
from xgb_fed.vertical.trees.expansion import Expansion
from xgb_fed.vertical.trees.routing import Router, route

Vector = NDArray[np.float32]


def quantile(values: Vector, alpha: float) -> float:
    """Quantile `alpha`, from 0 to 1, of some numbers, in XGBoost's definition and precision."""
    ordered, n = np.sort(values), len(values)
    if alpha <= 1 / (n + 1):
        return float(ordered[0])
    if alpha >= n / (n + 1):
        return float(ordered[-1])
    place = alpha * (n + 1) - 1
    below = int(np.floor(place))
    rise = np.float64(ordered[below + 1] - ordered[below])
    return float(np.float32(ordered[below] + (place - below) * rise))


def weighted_quantile(values: Vector, weight: Vector, alpha: float) -> float:
    """Quantile of weighted numbers: the first at which the running weight reaches its part of the total."""
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weight[order], dtype=np.float32)
    place = int(np.searchsorted(running, np.float32(np.float64(running[-1]) * alpha)))
    return float(values[order[min(place, len(order) - 1)]])


def leaf_quantiles(
    leaf: NDArray[np.integer], rows: NDArray[np.bool_], margin: Vector, targets: Targets, alpha: float
) -> dict[int, float]:
    """Leaf values before the learning rate, by the tree's `rows` and the margins before it."""
    chosen = np.flatnonzero(rows)
    chosen = chosen[np.argsort(leaf[chosen], kind="stable")]
    residual, numbers = (targets.label - margin)[chosen], leaf[chosen]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    parts = np.split(np.arange(len(chosen)), starts[1:]) if len(chosen) else []
    if targets.weight is None:
        return {int(numbers[part[0]]): quantile(residual[part], alpha) for part in parts}
    weight = targets.weight[chosen]
    return {int(numbers[part[0]]): weighted_quantile(residual[part], weight[part], alpha) for part in parts}


logger = logging.getLogger(__name__)

CHUNK_BYTES = 8 << 20
"""Bytes of ciphertexts in one message."""


def stream_of_tree(seed: int, tree: int) -> SecretStream:
    """Randomness of one tree's draws: the same whenever the tree is grown again, and no guide to the seed."""
    return SecretStream(
        hashlib.sha256(f"veilboost draws of rows and columns {seed} {tree}".encode()).digest()
    )


class Rounds:
    """The growing of a run's rounds, in sessions that are open."""

    def __init__(
        self, training: TrainingTask, state: RunState, sessions: Sessions, journal: VerticalJournal | None
    ) -> None:
        self.training, self.state, self.sessions, self.journal = training, state, sessions, journal
        settings, model, columns = training.settings, state.model, training.rows.columns
        self._learning_rate = np.float32(settings.learning_rate)
        self._pooled = PooledColumns(model.splits.names, model.parties, model.party_features)
        self._constraints = Constraints.of(settings, self._pooled)
        self._own: dict[int, OwnColumns] = {}
        if columns is not None:
            features = bin_features(columns, settings.max_bin)
            self._own[0] = OwnColumns(features, model.splits, settings.split_gain, settings.category_rules)

    @classmethod
    def open(
        cls, training: TrainingTask, state: RunState, sessions: Sessions, journal: VerticalJournal | None
    ) -> Rounds:
        """Open the sessions; a run that begins takes the margins of the model that it continues."""
        sessions.open()
        if journal is None or not journal.has_begun:
            if training.earlier is not None:
                sessions.reconnecting(partial(_start_from, training.earlier, training, state, sessions))
            if journal is not None:
                # The first tree must be grown again under the same name and from the same draws.
                journal.begin(state.progress)
        return cls(training, state, sessions, journal)

    def grow(self, number: int) -> None:
        """One boosting round: a forest, or one per class, on gradients of the same margins."""
        training = self.training
        settings, progress = training.settings, self.state.progress
        n_draws = training.gradients.n_draws
        g, h = training.gradients.at(progress.margin, progress.n_drawn_before if n_draws else number)
        if not progress.leaves:
            progress.n_drawn = progress.n_drawn_before + n_draws
        together = settings.multi_output or settings.n_classes == 1
        classes = [slice(None)] if together else [slice(k, k + 1) for k in range(settings.n_classes)]
        groups = [group for group in classes for _ in range(settings.num_parallel_tree)]
        for group in groups[len(progress.leaves) :]:
            leaf = self.sessions.reconnecting(partial(self._grow_tree, number, g[:, group], h[:, group]))
            progress.leaves.append(leaf)
            if self.journal is not None:
                self.journal.add_tree(progress)
        first = len(self.state.model.trees) - len(groups)
        routed = self.sessions.reconnecting(partial(self._route_evals, first))
        if self.journal is not None:
            self.journal.add_round(progress, routed)
        progress.end_round(routed)

    def set_learning_rate(self, value: Any) -> None:
        """Use another learning rate from the next round on; `InvalidArgumentError` unless positive."""
        self._learning_rate = np.float32(replace(self.training.settings, learning_rate=value).learning_rate)

    def _route_evals(self, first: int) -> list[NDArray[np.int32]]:
        """Leaves of every evaluation set's rows in the trees from some tree on."""
        model, channels = self.state.model, self.sessions.channels
        return [
            route(model.trees[first:], rows.n_rows, Router(model.splits, rows.columns, channels, k))
            for k, rows in enumerate(self.training.eval_rows, start=1)
        ]

    def _grow_tree(self, number: int, g: NDArray[np.float32], h: NDArray[np.float32]) -> NDArray[np.int32]:
        training, settings = self.training, self.training.settings
        if self.state.secrets is not None:
            self.state.secrets.begin_tree(self.state.key)
        number_of_tree = len(self.state.model.trees)
        # A tree that was begun before is begun again: without its splits, with the same draws.
        self.state.model.splits.truncate(self.state.n_splits(0))
        self._name_restarts(number_of_tree, digest_of(g, h) if training.obj is not None else "")
        random = stream_of_tree(self.state.progress.seed, number_of_tree)
        seed = settings.seed_of_rows
        draws = None if seed is None else draws_of(seed, self.state.progress.n_drawn)
        rows_of_xgboost = None if draws is None else partial(draws.rows, number_of_tree)
        sample = settings.sampling.draw_rows(g, random, rows_of_xgboost)
        factor = sample.factor.astype(np.float64)[:, None]
        gradients = FixedPointGradients.scaled(
            np.where(sample.rows[:, None], g * factor, 0.0),
            np.where(sample.rows[:, None], h * factor, 0.0),
            self.state.packing,
        )
        plan = training.mode.plan(number)
        levels = {0: plan.active, **plan.passive}
        # No party is asked about a sample that is too small to be split.
        able = {**self._own, **self.sessions.passive} if sample.rows.sum() >= MIN_ROWS else {}
        searching = {k: finder for k, finder in able.items() if len(levels.get(k, ()))}
        of_columns = None if settings.seed_of_columns is None else draws
        columns = self._columns_among(searching, random, of_columns)
        rules = TreeRules(self._constraints, self._pooled.first, columns)
        finders = self._with_columns(searching, columns.of_tree)
        passive_finders = [finder for finder in finders.values() if isinstance(finder, PassiveFinder)]
        rows = (
            np.flatnonzero(sample.rows).astype(np.int32) if passive_finders else np.empty(0, dtype=np.int32)
        )
        with GradientsAhead(self.state.key, gradients, rows, self._rows_at_once()) as messages_ahead:
            self.sessions.for_each(
                lambda job: job[1].start_tree(self._number_for(job[0], number), sample.rows),
                list(finders.items()),
            )
            for message in messages_ahead:
                self.sessions.for_each(partial(PassiveFinder.send, message=message), passive_finders)
        split_gain = settings.split_gain.of_forest(self._learning_rate, settings.num_parallel_tree)
        tree, leaf = grow_tree(
            dict(sorted(finders.items())),
            levels,
            gradients,
            sample.rows,
            max_depth=training.max_depth,
            split_gain=split_gain,
            rules=rules,
            expansion=Expansion(settings.grow_policy == "lossguide", settings.max_leaves),
            for_each=self.sessions.for_each,
        )
        if training.objective.alpha is not None:
            # XGBoost leaves out rows without hessian, and all of a sample that was not drawn.
            used = sample.rows & (h[:, 0] != 0)
            margin = self.state.progress.margin[:, 0]
            quantiles = leaf_quantiles(leaf, used, margin, training.rows.targets, training.objective.alpha)
            tree.set_values(quantiles, split_gain.learning_rate)
        self.state.model.trees.append(tree)
        self.state.note_splits()
        if draws is not None:
            self.state.progress.n_drawn = draws.n_taken
        self.state.model.restarts += self.state.record.restarts
        return leaf

    def _number_for(self, party: int, round_number: int) -> int:
        """The number of the tree that is about to be grown, among those that one party takes part in."""
        number, first = len(self.state.model.trees), self.state.model.rounds[-1]
        per_round = first // round_number if round_number else 0
        return self.training.mode.n_turns(party, round_number) * per_round + number - first

    def _name_restarts(self, tree: int, gradients: str) -> None:
        """Begin the record of a tree; names a party that was lost after it had received its splits."""
        for restart in self.state.record.start(tree, gradients):
            logger.warning("%s; it is grown again from the same statistics", restart)
            self.state.traffic.restarts.append(str(restart))

    def _rows_at_once(self) -> int:
        """Rows whose ciphertexts make a message of `CHUNK_BYTES`."""
        # A ciphertext is at most twice as long as the modulus whose residues hold the plaintexts.
        return max(256, CHUNK_BYTES // max(1, self.state.key.public.plaintext_limit.bit_length() // 4))

    def _columns_among(
        self, finders: Iterable[int], random: SecretStream, draws: XGBoostDraws | None
    ) -> TreeColumns:
        """Draw the tree's columns, as XGBoost does or among those of some parties."""
        first, sampling = self._pooled.first, self.training.settings.sampling
        if draws is not None:
            everything = np.arange(first[-1], dtype=np.int64)
            if draws.draws_first_columns_twice and not draws.n_taken:
                sampling.draw_columns(everything, random, draws.some_of)
            return sampling.draw_columns(everything, random, draws.some_of)
        parts = [np.arange(first[k], first[k + 1]) for k in sorted(finders)]
        among = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
        return sampling.draw_columns(among, random)

    def _with_columns(self, finders: dict[int, Any], drawn: NDArray[np.int64]) -> dict[int, SplitFinder]:
        """The finders that have any of the tree's columns."""
        searching: dict[int, SplitFinder] = {}
        first = self._pooled.first
        for k in sorted(finders):
            columns = drawn[(drawn >= first[k]) & (drawn < first[k + 1])] - first[k]
            if len(columns):
                finders[k].use_columns(columns)
                searching[k] = finders[k]
        return searching

    def finish(self) -> None:
        """End the sessions; every party keeps its splits."""
        if self.journal is not None:
            self.journal.add_end(self.state.progress)
        self.sessions.finish()


def _start_from(earlier: EarlierModel, training: TrainingTask, state: RunState, sessions: Sessions) -> None:
    """Begin with the margins of the model that is continued."""
    progress, margins = state.progress, []
    for k, rows in enumerate([training.rows, *training.eval_rows]):
        router = Router(earlier.model.splits, rows.columns, sessions.channels, k)
        leaves = route(earlier.trees, rows.n_rows, router)
        margins.append(earlier.model.margins(leaves, range(len(earlier.trees)), rows.base_margin))
    progress.margin, *progress.eval_margins = margins
    progress.continues = True
