"""Sessions with the passive parties, opened anew after one of them was lost."""

from __future__ import annotations

import logging
import os
import warnings
from contextlib import suppress
from dataclasses import replace

import numpy as np

from gbdt_parties import messages
from gbdt_parties.channel import Channel, blaming
from gbdt_parties.errors import ProtocolError
from gbdt_parties.patience import Fanout, Reconnector
from xgb_fed.boosting.categories import CategoryRules
from xgb_fed.errors import LabelLeakWarning
from xgb_fed.vertical.growing.bin_sums import AgreedColumns
from xgb_fed.vertical.growing.passive_columns import PassiveFinder
from xgb_fed.vertical.growing.row_places import RowPlaces
from xgb_fed.vertical.protocol.messages import (
    MIN_ROWS,
    CategoriesOpened,
    OpenTraining,
    ResumeTraining,
    TrainingOpened,
)
from xgb_fed.vertical.protocol.splits import NamedSplit
from xgb_fed.vertical.training.run_state import RunState
from xgb_fed.vertical.training.task import TrainingTask

SMALL_CATEGORY = 20
"""Rows of a category below which it is small."""

MANY = 0.01
"""Fraction of all rows that may be in small categories of a column without a warning."""


def warn_of_small_categories(name: str, columns: AgreedColumns, rules: CategoryRules, n_rows: int) -> None:
    """Warn of columns that a party announces, with a `LabelLeakWarning` for each.

    A split by categories names every category that goes right, the ones of lowest weight: up to one bit about
    the mean label of each category, and for a category of a few rows about their labels.  Columns split one
    category against all others tell far less, and so do, with versions of XGBoost that have them, categories
    tied at weight 0 because their hessians are below `min_child_weight`.
    """
    for column, n_small in rows_in_small_categories(columns, rules).items():
        if n_small > MANY * n_rows:
            warnings.warn(
                f"party {name!r}, column {column}: {n_small} rows are in categories of fewer than "
                f"{SMALL_CATEGORY} rows. Each split by category tells the party which of these have low "
                "gradients, and so much about labels. A larger max_cat_to_onehot reveals less",
                LabelLeakWarning,
                stacklevel=2,
            )


def rows_in_small_categories(columns: AgreedColumns, rules: CategoryRules) -> dict[int, int]:
    """Rows in small categories, by column that is split by sets of categories."""
    rows = {}
    for column in sorted(columns.categorical):
        if columns.n_bins[column] >= rules.max_cat_to_onehot:
            counts = columns.counts[columns.offsets[column] : columns.offsets[column + 1] - 1]
            rows[column] = int(counts[counts < SMALL_CATEGORY].sum())
    return rows


logger = logging.getLogger(__name__)


class Sessions:
    """One session with every passive party.

    A party that is unavailable has `patience` seconds to come back.  `n_rounds` are all of the run, 0 if
    early stopping decides.  `passive` has a finder by each party's number, and is empty before `open`.
    `reconnecting` does repeatable work in the sessions, again in new ones after a party was lost.
    """

    def __init__(
        self, training: TrainingTask, state: RunState, for_each: Fanout, patience: float, n_rounds: int = 0
    ) -> None:
        self.training, self.state, self.for_each, self._n_rounds = training, state, for_each, n_rounds
        self.passive: dict[int, PassiveFinder] = {}
        self._places: dict[int, RowPlaces] = {}
        self.reconnecting = Reconnector(patience, self._resume, state.traffic, must_reopen=state.is_kept)

    def open(self) -> None:
        """Start, or take up, a session with every party."""
        self.reconnecting(lambda: None if self.passive else self._open(resumed=False))

    @property
    def channels(self) -> dict[int, Channel]:
        """The channel to each party, by its number."""
        return {number: finder.channel for number, finder in self.passive.items()}

    def _n_trees(self, party: int) -> int:
        """Trees of the rounds to come in which a party takes part; 0 if that is not known."""
        settings, turns = self.training.settings, self.training.mode.n_turns
        if not self._n_rounds or settings.max_leaves:
            return 0
        together = settings.multi_output or settings.n_classes == 1
        n_rounds = turns(party, self._n_rounds) - turns(party, self.state.n_finished)
        return n_rounds * (1 if together else settings.n_classes) * settings.num_parallel_tree

    def _resume(self) -> None:
        """Go on in new sessions with every party."""
        self._open(resumed=True)
        logger.info("all parties are available; resuming at tree %d", len(self.state.model.trees))

    def _open(self, resumed: bool) -> None:
        """Start a session with every party; the first one's name is the model's."""
        settings, rows = self.training.settings, self.training.rows
        opening = OpenTraining(
            public_key=self.state.key.public.public_bytes(),
            n_rows=rows.n_rows,
            max_bin=settings.max_bin,
            field_bits=self.state.packing.gh.bits * self.state.packing.classes_per_ciphertext,
            n_groups=len(self.state.packing.groups),
            max_depth=self.training.mode.passive_depth,
            rows=rows.positions,
            eval_rows=np.array([e.n_rows for e, _ in self.training.evals], dtype=np.int64),
            resumes=self.state.model.model_id if resumed else b"",
        )
        session = os.urandom(16) if resumed else self.state.model.model_id
        channels = [Channel(party, session, self.state.traffic) for party in self.training.parties]
        openings = [replace(opening, n_trees=self._n_trees(k)) for k in range(1, len(channels) + 1)]
        opened = self.for_each(
            lambda job: job[0].ask(job[1], TrainingOpened), list(zip(channels, openings, strict=True))
        )
        if resumed:
            self.for_each(
                lambda job: job[1].ask(
                    ResumeTraining(self.state.model.model_id, self.state.n_known_splits(job[0])),
                    messages.Done,
                ),
                list(enumerate(channels, start=1)),
            )
        if self.training.earlier is not None and not self.state.model.trees:
            self.training.earlier.tell(dict(enumerate(channels, start=1)))
        agreed = [
            self._agreed(channel.name, answer) for channel, answer in zip(channels, opened, strict=True)
        ]
        digests = [columns.digest() for columns in agreed]
        for channel, now, before in zip(channels, digests, self.state.progress.agreed, strict=False):
            if now != before:
                raise ProtocolError(f"party {channel.name!r} announces other columns than the run began with")
        if not self.state.progress.agreed:
            for channel, columns in zip(channels, agreed, strict=True):
                warn_of_small_categories(channel.name, columns, settings.category_rules, rows.n_rows)
        self.state.progress.agreed = digests
        self.state.model.party_features = [len(columns.n_bins) for columns in agreed]
        for number, (channel, columns) in enumerate(zip(channels, agreed, strict=True), start=1):
            named = self.state.progress.named.setdefault(number, [])
            del named[self.state.n_splits(number) :]
            self.passive[number] = PassiveFinder(
                channel,
                self.state.key,
                number,
                settings.split_gain,
                columns,
                self.state.record,
                self._places_of(number, channel.name, columns, named),
                named,
                settings.category_rules,
                self.state.first_split(number),
            )
        self.state.progress.kept_leaves.clear()

    def _places_of(self, number: int, name: str, agreed: AgreedColumns, named: list[NamedSplit]) -> RowPlaces:
        """Places that a party's splits have revealed, including those of trees from a checkpoint."""
        if number not in self._places:
            places = self._places[number] = RowPlaces(agreed, self.training.rows.n_rows)
            kept = self.state.progress.kept_leaves
            trees = self.state.model.trees[: len(kept)]
            with blaming(name):
                places.replay(number, named, trees, kept, self.state.first_split(number))
        return self._places[number]

    def _agreed(self, name: str, answer: TrainingOpened) -> AgreedColumns:
        """The columns that a party announces, checked."""
        columns = AgreedColumns(
            answer.n_bins.astype(np.int64),
            answer.counts.astype(np.int64),
            max(answer.min_node_rows, MIN_ROWS),
            frozenset(answer.categorical.tolist() if isinstance(answer, CategoriesOpened) else ()),
        )
        with blaming(name):
            columns.check(self.training.rows.n_rows, self.training.settings.max_bin)
        self.training.settings.check_categories(len(columns.categorical), f"party {name!r}")
        return columns

    def abort(self) -> None:
        """Let parties forget a run that failed; a party that does not answer need not be told."""
        for channel in self.channels.values():
            with suppress(Exception):
                channel.ask(messages.Abort(), messages.Done)

    def finish(self) -> None:
        """End the sessions; every party keeps its splits."""
        self.reconnecting(self._finish)

    def _finish(self) -> None:
        for channel in self.channels.values():
            channel.ask(messages.Finish(), messages.Done)
