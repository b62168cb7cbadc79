"""Boosting rounds of vertical training: one tree after another, from the last finished one."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_hosts.xgboost.draws import Draws, draws_of
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import ProtocolError
from gbdt_parties.patience import Fanout, Reconnector
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.adaptive import leaf_quantiles
from xgb_fed.boosting.features import bin_features
from xgb_fed.boosting.sampling import TreeColumns
from xgb_fed.ciphers.base import PrivateKey
from xgb_fed.ciphers.plain import Plain
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.errors import CipherError, UnsupportedParameterError
from xgb_fed.vertical.growing.bin_sums import AgreedColumns
from xgb_fed.vertical.growing.finder import SplitFinder
from xgb_fed.vertical.growing.gradients import FixedPointGradients, packing_for
from xgb_fed.vertical.growing.gradients_ahead import GradientsAhead
from xgb_fed.vertical.growing.grower import grow_tree
from xgb_fed.vertical.growing.own_columns import OwnColumns
from xgb_fed.vertical.growing.passive_columns import PassiveFinder
from xgb_fed.vertical.growing.row_places import RowPlaces
from xgb_fed.vertical.growing.small_categories import warn_of_small_categories
from xgb_fed.vertical.model.model import VerticalModel
from xgb_fed.vertical.protocol.messages import (
    MIN_ROWS,
    CategoriesOpened,
    OpenTraining,
    ResumeTraining,
    TrainingOpened,
)
from xgb_fed.vertical.protocol.splits import NamedSplit, Splits
from xgb_fed.vertical.training.checkpoint import Checkpoint, Progress
from xgb_fed.vertical.training.task import TrainingTask
from xgb_fed.vertical.trees.constraints import Constraints, PooledColumns, TreeRules
from xgb_fed.vertical.trees.expansion import Expansion
from xgb_fed.vertical.trees.routing import Router, route
from xgb_fed.vertical.trees.tree_record import TreeRecord

logger = logging.getLogger(__name__)

CHUNK_BYTES = 8 << 20
"""Bytes of ciphertexts in one message."""


def stream_of_tree(seed: int, tree: int) -> SecretStream:
    """Randomness of one tree's draws: the same whenever the tree is grown again, and no guide to the seed."""
    return SecretStream(
        hashlib.sha256(f"veilboost draws of rows and columns {seed} {tree}".encode()).digest()
    )


class Rounds:
    """The state of a training run between rounds, and the growing of each round."""

    def __init__(
        self, training: TrainingTask, for_each: Fanout, checkpoint: Checkpoint | None, patience: float
    ) -> None:
        self.training, self.for_each = training, for_each
        self.checkpoint = checkpoint
        settings, rows = training.settings, training.rows
        self.key: PrivateKey = training.cipher.generate()
        if isinstance(self.key, Plain) and not isinstance(training.cipher, Plain):
            raise UnsupportedParameterError(f"cipher={training.cipher!r} gives a key that does not encrypt")
        try:
            read_public_key(self.key.public.public_bytes())
        except CipherError as error:
            raise UnsupportedParameterError(
                f"cipher={training.cipher!r} gives keys that parties do not read; "
                "use Paillier(), OkamotoUchiyama() or Plain()"
            ) from error
        self.traffic = Traffic(encrypted=not isinstance(self.key, Plain))
        self.packing = packing_for(
            rows.n_rows,
            settings.n_classes if settings.multi_output else 1,
            self.key.public.plaintext_limit,
        )
        names = [] if rows.columns is None else rows.columns.names
        categories = {} if rows.columns is None else rows.columns.categories
        self.model = VerticalModel(
            os.urandom(16),
            training.objective,
            training.base_score,
            Splits(names, categories=categories) if training.earlier is None else training.earlier.splits,
            [party.name for party in training.parties],
            [],
        )
        self.progress = self._beginning()
        kept = checkpoint is not None and checkpoint.load(self.progress)
        self.model.model_id, self.model.restarts = self.progress.model_id, self.progress.restarts
        self.model.traffic = self.traffic
        self.record = TreeRecord()
        if checkpoint is not None:
            self.record = TreeRecord(checkpoint.keep_under_way, checkpoint.under_way)
        self.traffic.restarts = [str(r) for r in [*self.progress.restarts, *self.record.restarts]]
        self.finders: dict[int, OwnColumns | PassiveFinder] = {}
        self._learning_rate = np.float32(settings.learning_rate)
        self._n_made: dict[int, int] = {}
        self._note_splits()
        self._places: dict[int, RowPlaces] = {}
        self._reconnecting = Reconnector(patience, self._resume, self.traffic, must_reopen=kept)

    def open(self) -> None:
        """Start, or take up, a session with every party."""
        rows = self.training.rows
        self._reconnecting(lambda: None if self.passive_finders else self._open(resumed=False))
        has_begun = self.checkpoint is not None and self.checkpoint.has_begun
        if self.training.earlier is not None and not has_begun:
            self._reconnecting(self._start_from_earlier)
        if self.checkpoint is not None and not has_begun:
            # The first tree must be grown again under the same name and from the same draws.
            self.checkpoint.begin(self.progress)
        own = self.model.splits.names
        self._pooled = PooledColumns(own, self.model.parties, self.model.party_features)
        self._constraints = Constraints.of(self.training.settings, self._pooled)
        if rows.columns is not None:
            features = bin_features(rows.columns, self.training.settings.max_bin)
            settings = self.training.settings
            self.finders[0] = OwnColumns(
                features, self.model.splits, settings.split_gain, settings.category_rules
            )

    @property
    def passive_finders(self) -> dict[int, PassiveFinder]:
        """The passive parties, once there is a session with them."""
        return {number: f for number, f in self.finders.items() if isinstance(f, PassiveFinder)}

    @property
    def n_finished(self) -> int:
        """Rounds whose trees are all there."""
        return self.model.num_boosted_rounds()

    def _beginning(self) -> Progress:
        model, training = self.model, self.training
        margins = [training.first_margins(rows) for rows in [training.rows, *training.eval_rows]]
        state = training.settings.random_state
        seed = int.from_bytes(os.urandom(32), "little") if state is None else int(state)
        return Progress(
            model.model_id,
            seed,
            model.trees,
            model.rounds,
            model.splits,
            margins[0],
            margins[1:],
            n_drawn=training.n_draws_before,
            n_drawn_before=training.n_draws_before,
            traffic=self.traffic,
        )

    def _start_from_earlier(self) -> None:
        """Begin with the margins of the model that is continued."""
        assert self.training.earlier is not None
        sets = [self.training.rows, *self.training.eval_rows]
        channels = {number: finder.channel for number, finder in self.passive_finders.items()}
        self.progress.margin, *self.progress.eval_margins = self.training.earlier.margins_of(sets, channels)
        self.progress.continues = True

    def _resume(self) -> None:
        """Go on in new sessions with every party."""
        self._open(resumed=True)
        logger.info("all parties are available; resuming at tree %d", len(self.model.trees))

    def _n_splits(self, owner: int) -> int:
        """Splits of one party that were made while the finished trees grew, those that were cut off too."""
        return self._n_made.get(owner, 0)

    def _first_split(self, owner: int) -> int:
        """Number of a passive party's first split, after those of a model that is continued."""
        return 0 if self.training.earlier is None else self.training.earlier.n_splits(owner)

    def _n_known_splits(self, owner: int) -> int:
        """Splits that a passive party has when the run is taken up; none before the first finished tree."""
        return self._first_split(owner) + self._n_splits(owner) if self.model.trees else 0

    def _note_splits(self) -> None:
        """All splits so far are those of finished trees."""
        self._n_made = {owner: len(named) for owner, named in self.progress.named.items()}
        self._n_made[0] = len(self.model.splits)

    def _open(self, resumed: bool) -> None:
        """Start a session with every party; the first one's name is the model's."""
        settings, rows = self.training.settings, self.training.rows
        opening = OpenTraining(
            public_key=self.key.public.public_bytes(),
            n_rows=rows.n_rows,
            max_bin=settings.max_bin,
            field_bits=self.packing.gh.bits * self.packing.classes_per_ciphertext,
            n_groups=len(self.packing.groups),
            max_depth=self.training.mode.passive_depth,
            rows=rows.positions,
            eval_rows=np.array([e.n_rows for e, _ in self.training.evals], dtype=np.int64),
            resumes=self.model.model_id if resumed else b"",
        )
        session = os.urandom(16) if resumed else self.model.model_id
        channels = [Channel(party, session, self.traffic) for party in self.training.parties]
        opened = self.for_each(lambda c: c.ask(opening, TrainingOpened), channels)
        if resumed:
            self.for_each(
                lambda job: job[1].ask(
                    ResumeTraining(self.model.model_id, self._n_known_splits(job[0])), messages.Done
                ),
                list(enumerate(channels, start=1)),
            )
        if self.training.earlier is not None and not self.model.trees:
            self.training.earlier.tell(dict(enumerate(channels, start=1)))
        agreed = [
            self._agreed(channel.name, answer) for channel, answer in zip(channels, opened, strict=True)
        ]
        digests = [columns.digest() for columns in agreed]
        for channel, now, before in zip(channels, digests, self.progress.agreed, strict=False):
            if now != before:
                raise ProtocolError(f"party {channel.name!r} announces other columns than the run began with")
        if not self.progress.agreed:
            for channel, columns in zip(channels, agreed, strict=True):
                warn_of_small_categories(channel.name, columns, settings.category_rules, rows.n_rows)
        self.progress.agreed = digests
        self.model.party_features = [len(columns.n_bins) for columns in agreed]
        for number, (channel, columns) in enumerate(zip(channels, agreed, strict=True), start=1):
            named = self.progress.named.setdefault(number, [])
            del named[self._n_splits(number) :]
            self.finders[number] = PassiveFinder(
                channel,
                self.key,
                number,
                settings.split_gain,
                columns,
                self.record,
                self._places_of(number, channel.name, columns, named),
                named,
                settings.category_rules,
                self._first_split(number),
            )
        self.progress.kept_leaves.clear()

    def _places_of(self, number: int, name: str, agreed: AgreedColumns, named: list[NamedSplit]) -> RowPlaces:
        """Places that a party's splits have revealed, including those of trees from a checkpoint."""
        if number not in self._places:
            places = self._places[number] = RowPlaces(agreed, self.training.rows.n_rows)
            try:
                kept = self.progress.kept_leaves
                trees = self.model.trees[: len(kept)]
                places.replay(number, named, trees, kept, self._first_split(number))
            except ProtocolError as error:
                raise ProtocolError(f"party {name!r}: {error}") from None
        return self._places[number]

    def _agreed(self, name: str, answer: TrainingOpened) -> AgreedColumns:
        """The columns that a party announces, checked."""
        columns = AgreedColumns(
            answer.n_bins.astype(np.int64),
            answer.counts.astype(np.int64),
            max(answer.min_node_rows, MIN_ROWS),
            frozenset(answer.categorical.tolist() if isinstance(answer, CategoriesOpened) else ()),
        )
        try:
            columns.check(self.training.rows.n_rows, self.training.settings.max_bin)
        except ProtocolError as error:
            raise ProtocolError(f"party {name!r}: {error}") from None
        self.training.settings.check_categories(len(columns.categorical), f"party {name!r}")
        return columns

    def abort(self) -> None:
        """Let parties forget a run that failed; a party that does not answer need not be told."""
        for finder in self.passive_finders.values():
            with suppress(Exception):
                finder.channel.ask(messages.Abort(), messages.Done)

    def grow(self, number: int) -> None:
        """One boosting round: a forest, or one per class, on gradients of the same margins."""
        training = self.training
        settings, progress = training.settings, self.progress
        n_draws = training.gradients.n_draws
        g, h = training.gradients.at(progress.margin, progress.n_drawn_before if n_draws else number)
        if not progress.leaves:
            progress.n_drawn = progress.n_drawn_before + n_draws
        together = settings.multi_output or settings.n_classes == 1
        classes = [slice(None)] if together else [slice(k, k + 1) for k in range(settings.n_classes)]
        groups = [group for group in classes for _ in range(settings.num_parallel_tree)]
        for group in groups[len(progress.leaves) :]:
            leaf = self._reconnecting(partial(self._grow_tree, number, g[:, group], h[:, group]))
            progress.leaves.append(leaf)
            if self.checkpoint is not None:
                self.checkpoint.add_tree(progress)
        first = len(self.model.trees) - len(groups)
        routed = self._reconnecting(partial(self._route_evals, first))
        if self.checkpoint is not None:
            self.checkpoint.add_round(progress, routed)
        progress.end_round(routed)

    def set_learning_rate(self, value: Any) -> None:
        """Use another learning rate from the next round on.

        Raises
        ------
        InvalidArgumentError
            If it is not a positive number.
        """
        self._learning_rate = np.float32(replace(self.training.settings, learning_rate=value).learning_rate)

    def _route_evals(self, first: int) -> list[NDArray[np.int32]]:
        """Leaves of every evaluation set's rows in the trees from some tree on."""
        channels = {number: finder.channel for number, finder in self.passive_finders.items()}
        return [
            route(
                self.model.trees[first:],
                rows.n_rows,
                Router(self.model.splits, rows.columns, channels, k),
            )
            for k, rows in enumerate(self.training.eval_rows, start=1)
        ]

    def _grow_tree(self, number: int, g: NDArray[np.float32], h: NDArray[np.float32]) -> NDArray[np.int32]:
        training, settings = self.training, self.training.settings
        number_of_tree = len(self.model.trees)
        # A tree that was begun before is begun again: without its splits, with the same draws.
        self.model.splits.truncate(self._n_splits(0))
        self._name_restarts(number_of_tree, digest_of(g, h) if training.obj is not None else "")
        random = stream_of_tree(self.progress.seed, number_of_tree)
        seed = settings.seed_of_rows
        draws = None if seed is None else draws_of(seed, self.progress.n_drawn)
        rows_of_xgboost = None if draws is None else partial(draws.rows, number_of_tree)
        sample = settings.sampling.draw_rows(g, random, rows_of_xgboost)
        factor = sample.factor.astype(np.float64)[:, None]
        gradients = FixedPointGradients.scaled(
            np.where(sample.rows[:, None], g * factor, 0.0),
            np.where(sample.rows[:, None], h * factor, 0.0),
            self.packing,
        )
        plan = training.mode.plan(number)
        levels = {0: plan.active, **plan.passive}
        # No party is asked about a sample that is too small to be split.
        able = self.finders.items() if sample.rows.sum() >= MIN_ROWS else ()
        searching = {k: f for k, f in able if len(levels.get(k, ()))}
        of_columns = None if settings.seed_of_columns is None else draws
        columns = self._columns_among(searching, random, of_columns)
        rules = TreeRules(self._constraints, self._pooled.first, columns)
        finders = self._with_columns(searching, columns.of_tree)
        passive_finders = [finder for finder in finders.values() if isinstance(finder, PassiveFinder)]
        rows = (
            np.flatnonzero(sample.rows).astype(np.int32) if passive_finders else np.empty(0, dtype=np.int32)
        )
        with GradientsAhead(self.key, gradients, rows, self._rows_at_once()) as messages_ahead:
            self.for_each(
                lambda job: job[1].start_tree(self._number_for(job[0], number), gradients, sample.rows),
                list(finders.items()),
            )
            for message in messages_ahead:
                self.for_each(partial(PassiveFinder.send, message=message), passive_finders)
        split_gain = settings.split_gain.of_forest(self._learning_rate, settings.num_parallel_tree)
        tree, leaf = grow_tree(
            dict(sorted(finders.items())),
            levels,
            gradients,
            sample.rows,
            training.max_depth,
            split_gain,
            rules,
            Expansion(settings.grow_policy == "lossguide", settings.max_leaves),
            self.for_each,
        )
        if training.objective.alpha is not None:
            # XGBoost leaves out rows without hessian, and all of a sample that was not drawn.
            used = sample.rows & (h[:, 0] != 0)
            margin = self.progress.margin[:, 0]
            quantiles = leaf_quantiles(leaf, used, margin, training.rows.targets, training.objective.alpha)
            tree.set_values(quantiles, split_gain.learning_rate)
        self.model.trees.append(tree)
        self._note_splits()
        if draws is not None:
            self.progress.n_drawn = draws.n_taken
        self.progress.restarts += self.record.restarts
        return leaf

    def _number_for(self, party: int, round_number: int) -> int:
        """The number of the tree that is about to be grown, among those that one party takes part in."""
        number, first = len(self.model.trees), self.model.rounds[-1]
        per_round = first // round_number if round_number else 0
        return self.training.mode.n_turns(party, round_number) * per_round + number - first

    def _name_restarts(self, tree: int, gradients: str) -> None:
        """Begin the record of a tree; names a party that was lost after it had received its splits."""
        for restart in self.record.start(tree, gradients):
            logger.warning("%s; it is grown again from the same statistics", restart)
            self.traffic.restarts.append(str(restart))

    def _rows_at_once(self) -> int:
        """Rows whose ciphertexts make a message of `CHUNK_BYTES`."""
        # A ciphertext is at most twice as long as the modulus whose residues hold the plaintexts.
        return max(256, CHUNK_BYTES // max(1, self.key.public.plaintext_limit.bit_length() // 4))

    def _columns_among(
        self, finders: Iterable[int], random: SecretStream, draws: Draws | None
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
        if self.checkpoint is not None:
            # Parties that were told of the end do not go back to an earlier tree.
            self.checkpoint.sync()
        self._reconnecting(self._finish)

    def _finish(self) -> None:
        for finder in self.passive_finders.values():
            finder.channel.ask(messages.Finish(), messages.Done)
