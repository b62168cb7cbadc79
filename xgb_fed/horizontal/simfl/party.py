"""A party of SimFL: one organisation's rows and labels, which stay here, and the answers to messages.

The contents of a party's answers are decided here alone: it trusts neither the coordinator nor the other
parties, whose hash tables, moments and trees may be made up to read its rows or labels.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xgboost

from gbdt_commons.store import Store
from gbdt_hosts.xgboost.boosting import growing_bytes
from gbdt_hosts.xgboost.model import as_json
from gbdt_kernels.similarity.collisions import most_similar
from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.messages import Message
from gbdt_parties.run.log import RunLog
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.common.introductions import names_to_json
from xgb_fed.horizontal.common.kept_models import KeptModels
from xgb_fed.horizontal.common.messages import HorizontalOpened, Introduce, OpenHorizontal, RowShape, Trees
from xgb_fed.horizontal.common.model import SharedTrees, check_base_score, settings_of
from xgb_fed.horizontal.common.party_state import PartyState
from xgb_fed.horizontal.common.row_groups import RowGroups, hashing_bytes
from xgb_fed.horizontal.common.rows import HorizontalLimits, HorizontalRows
from xgb_fed.horizontal.simfl import messages as wire
from xgb_fed.horizontal.simfl.boosting_state import BoostingRounds, BoostingState, Turns, similar_bytes
from xgb_fed.horizontal.simfl.disclosures import Disclosures
from xgb_fed.horizontal.simfl.journal import RunJournal, size_of
from xgb_fed.horizontal.simfl.lsh import TIE_DRAWS
from xgb_fed.horizontal.simfl.own_hashes import OwnHashes

logger = logging.getLogger(__name__)

_MODEL_MEMORY = 32
"""Bytes of memory per byte of trees: XGBoost takes up to 22 while it reads the model that is made of them."""


class SimFLSide:
    """A party's side of the SimFL training runs of one coordinator, whose begun runs are in a store."""

    def __init__(
        self,
        rows: HorizontalRows,
        kept: PartyState,
        n_jobs: int,
        runs: Store,
        models: KeptModels | None,
        limits: HorizontalLimits,
        memory: MemoryAllowance,
    ) -> None:
        self.name = rows.name
        self.rows, self._X, self._y = rows, rows.X, rows.y
        self.kept, self._n_jobs, self.runs = kept, n_jobs, runs
        self._limits, self._memory, self._models = limits, memory, models
        self.disclosures = Disclosures(kept)
        self.disclosures.check_size(rows.min_similar)
        self._own_hashes = OwnHashes(rows, self.disclosures, n_jobs)
        self._boosting: BoostingState | None = None
        self._session = b""
        self._model: tuple[SharedTrees, int | None] | None = None

    def get_booster(self) -> xgboost.Booster:
        """Return the party's copy of the model.

        Raises
        ------
        InvalidArgumentError
            Before a training run has finished.
        """
        if self._model is None:
            raise InvalidArgumentError(f"party {self.name!r} has no model yet")
        shared, best = self._model
        return shared.booster(self.rows.names, best)

    def answer(self, session: bytes, message: Message) -> Message:
        """Answer a request of an open session."""
        if type(message) not in self._answers:
            raise ProtocolError(f"{type(message).__name__} is not a request")
        if self._boosting is None and not isinstance(message, (OpenHorizontal, wire.ResumeBoosting)):
            raise ProtocolError("the training run was not opened")
        self._session = session
        return self._answers[type(message)](self, message)

    def closed(self) -> None:
        """Drop the training run."""
        self._boosting = None

    @property
    def groups(self) -> RowGroups | None:
        """The groups of rows, once rows were hashed."""
        return self.disclosures.groups

    @property
    def state(self) -> BoostingState:
        """The training run that is open."""
        if self._boosting is None:
            raise ProtocolError("the training run was not opened")
        return self._boosting

    @property
    def _rounds(self) -> BoostingRounds:
        if self.state.rounds is None:
            raise ProtocolError("boosting has not started")
        return self.state.rounds

    def introduced(self, message: Introduce) -> Message:
        """Introduce this party to a coordinator."""
        classes = json.dumps(self.rows.classes()) if message.wants_classes else ""
        names = names_to_json(self.rows.names)
        return RowShape(self._X.shape[0], self._X.shape[1], names, classes)

    def _open_training(self, message: OpenHorizontal) -> Message:
        state = self._begin(message)
        self.kept.tell()
        self._own_hashes.start_session(state.place, len(state.party_rows))
        if state.objective.n_classes > 1:
            return HorizontalOpened(np.empty(0))
        exact = state.weight.astype(np.float64)
        return HorizontalOpened(np.array([exact.sum(), (exact * state.y).sum()]))

    def _begin(self, opening: OpenHorizontal, n_taken: int = 0) -> BoostingState:
        """Check what is trained, and make the state of a training run that had rounds counted before."""
        if self._boosting is not None:
            raise ProtocolError("the training run was opened already")
        settings = settings_of(opening.params)
        turns = Turns(len(opening.party_rows), int(opening.rounds_per_turn), int(opening.max_rounds))
        self.rows.check_accepted(settings, opening)
        self._limits.check(settings)
        self.kept.check_rounds(max(0, turns.max_rounds - n_taken), self.rows.max_rounds)
        objective = XGBoostObjective(settings.objective, settings.n_classes, settings.scale_pos_weight)
        y = self.rows.encoded(opening.classes, settings)
        objective.check_labels(y)
        # Margins three times, gradients and hessians of this party, of the others and of the tree's classes.
        room = self._memory.reserve(4 * len(y) * (10 * objective.n_classes + 2), "margins and gradients")
        growing = self._memory.reserve(
            growing_bytes(self._X.shape, settings.max_depth, settings.max_bin), "bins and histograms of trees"
        )
        state = BoostingState(settings, objective, y, self.rows.weights, turns, opening)
        state.rooms["run"], state.as_published = [room, growing], self.rows.as_published
        self._boosting = state
        return state

    def _tell_moments(self, message: wire.TellMoments) -> Message:
        return self._own_hashes.tell_moments(int(message.known_features))

    def _commit_seed(self, message: wire.CommitSeed) -> Message:
        return self._own_hashes.commit()

    def _reveal_seed(self, message: wire.RevealSeed) -> Message:
        return wire.SeedContribution(self._own_hashes.reveal(message.commitments))

    def _hash_rows(self, message: wire.HashRows) -> Message:
        state, counted = self.state, self.rows.counted()
        size = hashing_bytes(len(self._y), max(0, int(message.n_hashes)))
        state.rooms["hashes"] = [self._memory.reserve(size, "hashes")]
        state.hashes, state.functions = self._own_hashes.hash(message)
        with self.kept.locked():
            self.disclosures.group(state.hashes, counted, self.rows.min_similar, state.functions)
        order = self.disclosures.order(len(self._y))
        return wire.HashTable(state.place, state.hashes[order].reshape(-1))

    def _find_similar(self, message: wire.HashTable) -> Message:
        state, place = self.state, int(message.place)
        hashes, groups = state.hashes, self.groups
        out_of_turn = state.rounds is not None or place in state.similar
        is_other = 0 <= place < len(state.party_rows) and place != state.place
        if hashes is None or groups is None or out_of_turn or not is_other:
            raise ProtocolError("a hash table out of turn, or of no other party")
        if len(message.hashes) != state.party_rows[place] * hashes.shape[1]:
            raise ProtocolError("a hash table of another size than its party's rows")
        theirs = message.hashes.reshape(state.party_rows[place], -1)
        state.rooms["run"].append(self._memory.reserve(4 * TIE_DRAWS * len(groups.starts), "similar rows"))
        size = 4 * (TIE_DRAWS * len(self._y) + 3 * (hashes.size + theirs.size))
        search = self._memory.reserve(size, "the search for similar rows")
        # The same for the same tables, however often somebody asks.
        random = self.kept.stream(
            "similar rows",
            state.functions,
            place.to_bytes(8, "little"),
            np.ascontiguousarray(theirs).tobytes(),
        )
        words = random.words(len(self._y), 1)[:, 0]
        found, _ = most_similar(hashes, theirs, words, TIE_DRAWS, self._n_jobs)
        state.similar[place] = np.take_along_axis(found, groups.members(TIE_DRAWS, random), axis=1)
        del search
        return messages.Done()

    def _start_boosting(self, message: wire.StartBoosting) -> Message:
        state = self.state
        if state.rounds is not None:
            raise ProtocolError("boosting has started already")
        check_base_score(state.objective, message.base_score)
        given = state.settings.random_state
        drawn = self.kept.stream("trees", state.functions).words(1, 1)[0, 0]
        start = state.run_start(message.base_score.tolist(), int(drawn if given is None else given))
        # Two copies while the journal is written: its arrays as one file, and the entry around them.
        written = self._memory.reserve(2 * similar_bytes(state.similar), "the journal of the training run")
        self.kept.begin_run(self._session)
        journal = RunJournal.begin(RunLog(self.runs, self._session), start, self.rows.digest())
        rounds = state.start(self._X, journal, self._n_jobs)
        del written
        state.rooms.pop("hashes", None)
        _ = rounds.grower  # bins the rows now
        logger.info(
            "a training run on %d rows of %d parties begins", sum(state.party_rows), len(state.party_rows)
        )
        return messages.Done()

    def _resume(self, message: wire.ResumeBoosting) -> Message:
        """Take up a training run: its trees, and this party's part in it, come from the journal."""
        log = RunLog(self.runs, message.run)
        read = self._memory.reserve(size_of(log), "the journal of the training run")
        journal = RunJournal.take_up(log, self.rows.digest())
        if not 0 <= message.n_rounds <= len(journal.rounds):
            raise ProtocolError(f"this party has {len(journal.rounds)} rounds of the training run")
        start = journal.start
        n_counted = max(len(journal.rounds), self.kept.n_counted(message.run))
        state = self._begin(start.opening(int(message.max_rounds)), n_counted)
        state.rooms["run"].append(self._memory.reserve(similar_bytes(start.similar), "similar rows"))
        rounds = state.start(self._X, journal, self._n_jobs)
        for trees, is_own in journal.rounds[: message.n_rounds]:
            self._add(trees, is_own)
        del read
        logger.info("the training run resumes after %d rounds", len(rounds.shared.rounds))
        return messages.Done()

    def _aggregate(self, message: wire.AggregateGradients) -> Message:
        if self.groups is None:
            raise ProtocolError("the rows were not hashed yet")
        state, place = self.state, int(message.place)
        if place in state.similar:
            # Sums as they are computed, and as they travel: 8 bytes, three times.
            size = 24 * state.party_rows[place] * (state.objective.n_classes + 1)
            state.rooms.pop("sums", None)
            state.rooms["sums"] = [self._memory.reserve(size, "sums of gradients")]
        return self._rounds.sums_for(place, self.groups, self.rows.min_similar == 1)

    def _receive(self, message: wire.AggregatedGradients) -> Message:
        self._rounds.receive(message, self.disclosures.order(len(self._y)))
        return messages.Done()

    def _grow(self, message: wire.GrowTrees) -> Message:
        """Grow trees on the own rows with own and received gradients (Algorithm 2, lines 9 to 21)."""
        rounds, number = self._rounds, int(message.round)
        if number != len(rounds.shared.rounds):
            raise ProtocolError("a round out of turn")
        rounds.check_turn(self.state.place)
        if number < len(rounds.journal.rounds):
            # The answer was lost: it is given again, whatever sums were received this time.
            known, _ = rounds.journal.rounds[number]
            rounds.received = None
            self._add(known, is_own=True)
            return known
        self.kept.count_round(rounds.journal.log.run, number, self.rows.max_rounds)
        grown, values = rounds.grow()
        self._reserve(grown)
        rounds.journal.add(grown, is_own=True)
        rounds.add_own(grown, values)
        logger.info("round %d: grown here", number + 1)
        return grown

    def _add_trees(self, message: Trees) -> Message:
        rounds, number = self._rounds, len(self._rounds.shared.rounds)
        self._limits.check_size(message)
        if rounds.builder == self.state.place:
            raise ProtocolError("trees of another party in this party's turn")
        rounds.journal.check(number, message)
        self._reserve(message)
        values = rounds.values_of(message)
        if number >= len(rounds.journal.rounds):
            self.kept.count_round(rounds.journal.log.run, number, self.rows.max_rounds)
            rounds.journal.add(message, is_own=False)
        rounds.add_others(message, values)
        logger.info("round %d: received", number + 1)
        rounds.present_gradients()  # while the other parties do the same
        return messages.Done()

    def _add(self, trees: Trees, is_own: bool) -> None:
        """Add a round's trees to the margins."""
        self._reserve(trees)
        rounds = self._rounds
        values = rounds.values_of(trees)
        if is_own:
            rounds.add_own(trees, values)
        else:
            rounds.add_others(trees, values)

    def _reserve(self, trees: Trees) -> None:
        size = _MODEL_MEMORY * len(trees.models)
        self.state.rooms["run"].append(self._memory.reserve(size, "the trees so far, and their model"))

    def _finish(self, message: wire.FinishBoosting) -> Message:
        best = int(message.best_iteration)
        rounds = self._rounds
        if best >= len(rounds.shared.rounds):
            raise ProtocolError("the best round is not one of the training run")
        self._model = rounds.shared, None if best < 0 else best
        if self._models is not None:
            self._models.keep(rounds.journal.log.run, as_json(self.get_booster()))
        logger.info("end of the training run: %d rounds", len(rounds.shared.rounds))
        return messages.Done()

    _answers: ClassVar[Mapping[type[Message], Callable[[Any, Any], Message]]] = {
        OpenHorizontal: _open_training,
        wire.ResumeBoosting: _resume,
        wire.TellMoments: _tell_moments,
        wire.CommitSeed: _commit_seed,
        wire.RevealSeed: _reveal_seed,
        wire.HashRows: _hash_rows,
        wire.HashTable: _find_similar,
        wire.StartBoosting: _start_boosting,
        wire.AggregateGradients: _aggregate,
        wire.AggregatedGradients: _receive,
        wire.GrowTrees: _grow,
        Trees: _add_trees,
        wire.FinishBoosting: _finish,
    }
    requests = tuple(_answers)
    """Everything but introductions that sessions answer."""


@dataclass(frozen=True, eq=False)
class SimFLSession:
    """An open session of a party's side."""

    side: SimFLSide
    number: bytes

    def answer(self, message: Message) -> Message:
        """Answer a request."""
        return self.side.answer(self.number, message)

    def closed(self) -> None:
        """Drop the training run, which is taken up from its journal."""
        self.side.closed()
