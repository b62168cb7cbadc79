"""A party of SimFL: one organisation's rows and labels, which stay here, and the answers to messages.

What a party sends is decided here alone: it trusts neither the coordinator nor the other parties, whose hash
tables, moments and trees may be made up to read its rows or labels.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_hosts.xgboost.boosting import TreeGrower, without_statistics
from gbdt_kernels.similarity.collisions import most_similar
from gbdt_parties import messages
from gbdt_parties.channel import ACTIVE
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.messages import Message
from gbdt_parties.session import SessionHandler
from xgb_fed.boosting.features import check_weight, numeric_vector
from xgb_fed.boosting.objectives import Objective
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.boosting_state import BoostingState
from xgb_fed.horizontal.lsh import TIE_DRAWS
from xgb_fed.horizontal.messages import (
    AggregatedGradients,
    AggregateGradients,
    CommitSeed,
    FinishBoosting,
    GrowTrees,
    HashRows,
    HashTable,
    HorizontalOpened,
    Introduce,
    Introduction,
    OpenHorizontal,
    RevealSeed,
    SeedContribution,
    StartBoosting,
    TellMoments,
    Trees,
)
from xgb_fed.horizontal.own_hashes import OwnHashes
from xgb_fed.horizontal.row_groups import RowGroups, group_rows
from xgb_fed.horizontal.shared_model import SharedTrees, add_round, read_rows, settings_of

COORDINATOR = "coordinator"
"""The name, in tables, of whoever passes the parties' messages on."""

MIN_SIMILAR = 3
"""Default minimum number of rows whose gradients are sent as one sum."""

MAX_CLASSES = 256
"""Maximum number of distinct labels that a party tells."""

MAX_ROWS = 10_000_000
"""Default maximum number of rows of all parties together."""


class HorizontalParty(SessionHandler[None]):
    """One organisation's rows and labels in horizontal training.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows, with the same columns as every other party's.  NaN, and entries that a sparse matrix does not
        store, are missing values to XGBoost.  To the hashes NaN is the column's mean and an unstored entry is
        zero.
    y : array-like of shape (n_rows,)
        Labels.
    name : str, default="party"
        Name, unique among the parties.
    sample_weight : array-like of shape (n_rows,), optional
        Factors of gradients and hessians.
    categorical_labels : bool, default=False
        Declares that the labels are classes.  Only then does the party tell which distinct labels it has, as
        classification requires; there may be at most 256.
    min_similar : int, default=3
        Minimum number of rows (of weights above 0) whose gradients are sent as one sum.  The value of the
        paper is 1, with which the other parties can read single labels.
    known_features : int, default=0
        Number of features of these rows that others may know; it lowers the number of hashes given away.  The
        training run may ask for more, never for fewer.
    max_rows : int, default=10_000_000
        Maximum number of rows of all parties together; training runs with more are refused.
    random_state : int, optional
        Determines the party's contribution to the hash seed and which of equally similar rows is chosen.
        Drawn from the operating system by default.
    n_jobs : int, default=0
        Number of threads; 0 means all available processors.

    Raises
    ------
    InvalidArgumentError, InvalidDataError
        Naming the argument.
    """

    opening = (Introduce,)
    closing = (FinishBoosting,)

    def __init__(
        self,
        X: Any,
        y: Any,
        name: str = "party",
        *,
        sample_weight: Any = None,
        categorical_labels: bool = False,
        min_similar: int = MIN_SIMILAR,
        known_features: int = 0,
        max_rows: int = MAX_ROWS,
        random_state: int | None = None,
        n_jobs: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(name, str) or not name or name in (ACTIVE, COORDINATOR) or not name.isprintable():
            raise InvalidArgumentError(
                f"name={name!r} must be a printable text other than {ACTIVE!r} and {COORDINATOR!r}"
            )
        self._X, self._names = read_rows(X, f"X of party {name!r}")
        self._y = np.asarray(y)
        if self._y.ndim == 2 and self._y.shape[1] == 1:
            self._y = self._y[:, 0]
        if self._y.shape != (self._X.shape[0],):
            raise InvalidDataError(
                f"party {name!r} has {self._X.shape[0]} rows and labels of shape {self._y.shape}"
            )
        for argument, value, least in (
            ("min_similar", min_similar, 1),
            ("known_features", known_features, 0),
            ("max_rows", max_rows, 1),
        ):
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise InvalidArgumentError(f"{argument}={value!r} must be an integer of at least {least}")
        self.name = name
        self._weight = check_weight(sample_weight, len(self._y), f"sample_weight of party {name!r}")
        self._categorical_labels = bool(categorical_labels)
        self._min_similar, self._max_rows, self._n_jobs = int(min_similar), int(max_rows), n_jobs
        key = None if random_state is None else int(random_state).to_bytes(32, "little")
        self._random = SecretStream(key)
        self._own_hashes = OwnHashes(self._X, int(known_features), self._random, n_jobs)
        self._groups: RowGroups | None = None
        self._boosting: BoostingState | None = None
        self._model: tuple[SharedTrees, int | None] | None = None
        self._answers: dict[type[Message], Callable[[Any], Message]] = {
            OpenHorizontal: self._open_training,
            TellMoments: self._tell_moments,
            CommitSeed: self._commit_seed,
            RevealSeed: self._reveal_seed,
            HashRows: self._hash_rows,
            HashTable: self._find_similar,
            StartBoosting: self._start_boosting,
            AggregateGradients: self._aggregate,
            AggregatedGradients: self._receive,
            GrowTrees: self._grow,
            Trees: self._add_trees,
            FinishBoosting: self._finish,
        }

    def __repr__(self) -> str:
        """Show the name and the shape of the rows."""
        return f"HorizontalParty({self.name!r}, {self._X.shape[0]} rows, {self._X.shape[1]} columns)"

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
        return shared.booster(self._names, best)

    def open(self, message: Message, session: bytes) -> tuple[None, Message]:
        """Introduce this party to a coordinator."""
        assert isinstance(message, Introduce)
        return None, self._introduce(message)

    def answer(self, kept: None, message: Message) -> Message:
        """Answer a request of the open session."""
        if type(message) not in self._answers:
            raise ProtocolError(f"{type(message).__name__} is not a request")
        if self._boosting is None and not isinstance(message, OpenHorizontal):
            raise ProtocolError("the training run was not opened")
        return self._answers[type(message)](message)

    def closed(self, kept: None) -> None:
        """Drop the training run."""
        self._boosting = None

    @property
    def _state(self) -> BoostingState:
        assert self._boosting is not None
        return self._boosting

    @property
    def _shared(self) -> SharedTrees:
        if self._state.shared is None:
            raise ProtocolError("boosting has not started")
        return self._state.shared

    def _introduce(self, message: Introduce) -> Message:
        classes = json.dumps(self._classes()) if message.wants_classes else ""
        names = json.dumps(self._names) if self._names else ""
        return Introduction(self._X.shape[0], self._X.shape[1], names, classes)

    def _classes(self) -> list[Any]:
        """Return the distinct labels, which only a party that has declared them to be classes tells."""
        if not self._categorical_labels:
            raise InvalidDataError(
                "classes are told only of labels that the party has declared with categorical_labels=True"
            )
        if _missing(self._y).any():
            raise InvalidDataError("y has missing labels")
        classes: list[Any] = np.unique(self._y).tolist()
        if len(classes) > MAX_CLASSES:
            raise InvalidDataError(f"y has {len(classes)} classes; at most {MAX_CLASSES} are told")
        return classes

    def _open_training(self, message: OpenHorizontal) -> Message:
        if self._boosting is not None:
            raise ProtocolError("the training run was opened already")
        settings = settings_of(message.params)
        rows = message.party_rows.tolist()
        if not 0 <= message.place < len(rows) or rows[message.place] != len(self._y):
            raise ProtocolError("this party's place or number of rows is wrong")
        if min(rows) < 1 or sum(rows) > self._max_rows:
            raise InvalidDataError(f"{sum(rows)} rows of all parties; this party accepts {self._max_rows}")
        if self._min_similar > 1 and settings.scale_pos_weight != 1:
            raise InvalidDataError(
                f"scale_pos_weight={settings.scale_pos_weight} makes gradients depend on labels by another "
                "factor in each row, so that a sum can tell single labels: only parties with min_similar=1 "
                "accept it"
            )
        objective = Objective(settings.objective, settings.n_classes, settings.scale_pos_weight)
        y = self._encoded(message.classes)
        objective.check_labels(y)
        weight = np.ones(len(y), dtype=np.float32) if self._weight is None else self._weight
        self._boosting = BoostingState(settings, objective, y, weight, int(message.place), rows)
        self._own_hashes.start_session(int(message.place), len(rows))
        if objective.n_classes > 1:
            return HorizontalOpened(np.empty(0))
        exact = weight.astype(np.float64)
        return HorizontalOpened(np.array([exact.sum(), (exact * y).sum()]))

    def _encoded(self, classes: str) -> NDArray[np.float32]:
        if not classes:
            return numeric_vector(self._y, "y")
        self._classes()  # they are told, so that agreed classes cannot be used to guess at labels
        known = np.array(json.loads(classes))
        place = np.minimum(np.searchsorted(known, self._y), len(known) - 1)
        if not (known[place] == self._y).all():
            raise InvalidDataError("y has labels that are not among the agreed classes")
        return place.astype(np.float32)

    def _tell_moments(self, message: TellMoments) -> Message:
        return self._own_hashes.tell_moments(int(message.known_features))

    def _commit_seed(self, message: CommitSeed) -> Message:
        return self._own_hashes.commit()

    def _reveal_seed(self, message: RevealSeed) -> Message:
        return SeedContribution(self._own_hashes.reveal(message.commitments))

    def _hash_rows(self, message: HashRows) -> Message:
        state = self._state
        counted = state.weight > 0
        if counted.sum() < self._min_similar:
            raise InvalidDataError(
                f"{counted.sum()} rows of weights above 0 are fewer than min_similar={self._min_similar}"
            )
        state.hashes = self._own_hashes.hash(message)
        if self._groups is None:  # and never again: other groups would tell rows apart
            self._groups = group_rows(state.hashes, counted, self._min_similar, self._random)
        return HashTable(state.place, state.hashes.reshape(-1))

    def _find_similar(self, message: HashTable) -> Message:
        state, place = self._state, int(message.place)
        out_of_turn = state.hashes is None or state.shared is not None or place in state.similar
        if out_of_turn or not 0 <= place < len(state.party_rows) or place == state.place:
            raise ProtocolError("a hash table out of turn, or of no other party")
        assert state.hashes is not None
        assert self._groups is not None
        if len(message.hashes) != state.party_rows[place] * state.hashes.shape[1]:
            raise ProtocolError("a hash table of another size than its party's rows")
        theirs = message.hashes.reshape(state.party_rows[place], -1)
        words = self._random.words(len(self._y), 1)[:, 0]
        found, _ = most_similar(state.hashes, theirs, words, TIE_DRAWS, self._n_jobs)
        state.similar[place] = np.take_along_axis(
            found, self._groups.members(TIE_DRAWS, self._random), axis=1
        )
        return messages.Done()

    def _start_boosting(self, message: StartBoosting) -> Message:
        state = self._state
        if state.shared is not None:
            raise ProtocolError("boosting has started already")
        base_score = message.base_score
        if len(base_score) not in (1, state.objective.n_classes) or not np.isfinite(base_score).all():
            raise ProtocolError("the base score is malformed")
        if state.objective.name == "binary:logistic" and not ((base_score > 0) & (base_score < 1)).all():
            raise ProtocolError("the base score is not a probability")
        state.shared = SharedTrees(state.objective, self._X.shape[1], base_score.tolist())
        state.margin = state.shared.start(len(self._y))
        state.others = state.margin.copy()
        given = state.settings.random_state
        state.tree_seed = int(self._random.words(1, 1)[0, 0]) if given is None else int(given)
        state.grower = TreeGrower(self._X, state.tree_parameters, state.objective.n_classes, self._n_jobs)
        return messages.Done()

    def _gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return gradients and hessians of the present margins, computed once per round."""
        state = self._state
        if state.gradients is None:
            state.gradients = state.objective.gradients(state.margin, state.y, state.weight)
        return state.gradients

    def _group_sums(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of gradients and hessians of the present margins, each of shape (n_groups, n_classes).

        Labels enter by sums over groups that are computed once.  Gradients of single rows, p − y, are rounded
        by amounts that depend on p and y, so that their sum could tell the labels apart to somebody who knows
        p, which made-up trees can set for each row.
        """
        state, groups = self._state, self._groups
        assert groups is not None
        alone = self._min_similar == 1
        reference = state.y if alone else np.zeros_like(state.y)
        if state.label_sums is None:
            start = np.zeros_like(state.margin)
            of_labels, _ = state.objective.gradients(start, state.y, state.weight)
            of_reference, _ = state.objective.gradients(start, reference, state.weight)
            state.label_sums = groups.exact_sums(of_labels.astype(np.float64) - of_reference)
        g, h = state.objective.gradients(state.margin, reference, state.weight)
        return groups.sums(g) + state.label_sums, groups.sums(h)

    def _aggregate(self, message: AggregateGradients) -> Message:
        """Sum the groups' gradients at the rows that they are most similar to (Algorithm 2, lines 2 to 8).

        Line 6 of the algorithm means H + h where it prints G + h.
        """
        state, place = self._state, int(message.place)
        n_rounds = len(self._shared.rounds)
        if place not in state.similar:
            raise ProtocolError("no rows similar to that party's are known")
        # Each turn takes another draw of the ties; asked twice in a turn, the party answers the same.
        draw = n_rounds // len(state.party_rows) % TIE_DRAWS
        rows, n_rows = state.similar[place][draw], state.party_rows[place]
        sums = [
            np.concatenate([np.bincount(rows, column, n_rows) for column in one.T])
            for one in self._group_sums()
        ]
        return AggregatedGradients(*(one.astype(np.float32) for one in sums))

    def _receive(self, message: AggregatedGradients) -> Message:
        self._shared  # noqa: B018 - checks that boosting has started
        state = self._state
        shape = (state.objective.n_classes, len(self._y))
        if message.g.size != shape[0] * shape[1] or message.h.size != message.g.size:
            raise ProtocolError("aggregated gradients of another number of rows")
        if not (np.isfinite(message.g).all() and np.isfinite(message.h).all() and (message.h >= 0).all()):
            raise ProtocolError("aggregated gradients that are not finite, or hessians below 0")
        if state.g is not None:
            raise ProtocolError("aggregated gradients for a tree twice")
        state.g, state.h = message.g.reshape(shape), message.h.reshape(shape)
        return messages.Done()

    def _grow(self, message: GrowTrees) -> Message:
        """Grow trees on the own rows with own and received gradients (Algorithm 2, lines 9 to 21)."""
        state, shared = self._state, self._shared
        if state.grower is None or message.round != len(shared.rounds):
            raise ProtocolError("a round out of turn")
        g, h = (one.T for one in self._gradients())
        if state.g is not None and state.h is not None:
            g, h = state.g + g, state.h + h
            state.g = state.h = None
        seed = (state.tree_seed + int(message.round)) % 2**31
        models = []
        for k in range(state.objective.n_classes):
            model, values = state.grower.grow(k, np.ascontiguousarray(g[k]), np.ascontiguousarray(h[k]), seed)
            state.margin[:, k] = state.others[:, k] + values
            models.append(without_statistics(model))
        grown = Trees(np.array([len(model) for model in models], dtype=np.int64), b"".join(models))
        shared.rounds.append(grown)
        state.gradients = None
        return grown

    def _add_trees(self, message: Trees) -> Message:
        state, shared = self._state, self._shared
        grown = np.zeros_like(state.margin)
        add_round(grown, self._X, shared.read_round(message), self._n_jobs)
        state.margin += grown
        state.others += grown
        shared.rounds.append(message)
        state.gradients = None
        self._gradients()  # while the other parties do the same
        return messages.Done()

    def _finish(self, message: FinishBoosting) -> Message:
        best = int(message.best_iteration)
        self._model = self._shared, None if best < 0 else best
        return messages.Done()


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which labels are NaN or None."""
    return np.asarray(y != y) if y.dtype != object else np.array([v is None or v != v for v in y], dtype=bool)
