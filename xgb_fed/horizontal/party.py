"""A party of SimFL: its rows and labels stay here.  Takes messages as bytes, answers in bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xgboost
from gbdt_hosts.xgboost.boosting import TreeGrower
from gbdt_kernels.similarity.collisions import MAX_HASHES, most_similar
from gbdt_parties import messages
from gbdt_parties.channel import ACTIVE
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.messages import Message
from gbdt_parties.session import SessionHandler
from numpy.typing import NDArray

from xgb_fed.boosting.features import check_weight, numeric_vector
from xgb_fed.boosting.objectives import Objective
from xgb_fed.boosting.params import Settings
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.lsh import MIN_ROWS, TIE_DRAWS, Moments, hash_rows, max_hashes
from xgb_fed.horizontal.messages import (
    AggregatedGradients,
    AggregateGradients,
    ColumnMoments,
    FinishBoosting,
    GrowTrees,
    HashRows,
    HashTable,
    HorizontalOpened,
    Introduce,
    Introduction,
    OpenHorizontal,
    StartBoosting,
    TellMoments,
    Trees,
)
from xgb_fed.horizontal.shared_model import (
    PENALTIES,
    TREE_PARAMETERS,
    SharedTrees,
    add_round,
    read_rows,
    settings_of,
)

COORDINATOR = "coordinator"
"""The name, in tables, of whoever passes the parties' messages on."""


@dataclass
class _Boosting:
    """What a party keeps from round to round.

    Attributes
    ----------
    objective : Objective
    y, weight : ndarray of float32, shape (n_rows,)
    place : int
        This party's, among `party_rows`.
    hashes : ndarray of int32 or None
        Of its own rows.
    similar : dict of ndarray of int32, shape (TIE_DRAWS, n_rows)
        This party's column of the similarity matrix for each other party (S of the paper), with ties drawn
        again in each row of the array.
    margin, others : ndarray of float32, shape (n_rows, n_classes)
        Of all trees, and of all but those grown here.
    gradients : (g, h) or None
        Of the present margins.
    g, h : ndarray of float32, shape (n_classes, n_rows), or None
        Sums of all other parties, received for the tree to grow here.
    """

    settings: Settings
    objective: Objective
    y: NDArray[np.float32]
    weight: NDArray[np.float32]
    place: int
    party_rows: list[int]
    known_features: int = 0
    n_hashes_allowed: int = 0
    hashes: NDArray[np.int32] | None = None
    similar: dict[int, NDArray[np.int32]] = field(default_factory=dict)
    shared: SharedTrees | None = None
    margin: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 1), dtype=np.float32))
    others: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 1), dtype=np.float32))
    grower: TreeGrower | None = None
    tree_seed: int = 0
    gradients: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    g: NDArray[np.float32] | None = None
    h: NDArray[np.float32] | None = None

    @property
    def tree_parameters(self) -> dict[str, Any]:
        """What to grow trees by on sums of all parties: penalties times rows summed, over own rows.

        XGBoost's penalties are set against sums of one gradient a row.  Here a row holds N/n of them, so a
        single row would outweigh ``min_child_weight`` and be a leaf.  Gains and weights with penalties times
        N/n are N/n times and just those of sums times n/N with the penalties as given:
        −(n/N)G / ((n/N)H + λ) = −G / (H + (N/n)λ), and so for α, γ and the least H of a child.
        Without received sums the factor is 1.
        """
        own = self.party_rows[self.place]
        factor = (own + sum(self.party_rows[place] for place in self.similar)) / own
        params = {name: getattr(self.settings, name) for name in TREE_PARAMETERS}
        return params | {name: factor * params[name] for name in PENALTIES}


class HorizontalParty(SessionHandler[None]):
    """One organisation's rows.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Same columns as every other party's.  NaN, and entries that a sparse matrix does not store, are
        missing to XGBoost.  To the hashes NaN is the column's mean and an unstored entry is zero.
    y : array-like of shape (n_rows,)
        Labels.
    name : str
        Unique among the parties.
    sample_weight : array-like of shape (n_rows,), optional
        Factors on gradients and hessians.
    known_features : int
        Features of these rows that others may know; it lowers the number of hashes given away.  The training
        may ask for more, never for fewer.
    random_state : int, optional
        Fixes which of equally similar rows is chosen; from the operating system by default.
    n_jobs : int
        Threads; 0 means all available processors.
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
        known_features: int = 0,
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
        if not (isinstance(known_features, (int, np.integer)) and known_features >= 0):
            raise InvalidArgumentError(f"known_features={known_features!r} must be an integer of at least 0")
        self.name = name
        self._weight = check_weight(sample_weight, len(self._y), f"sample_weight of party {name!r}")
        self._known_features, self._n_jobs = int(known_features), n_jobs
        key = None if random_state is None else int(random_state).to_bytes(32, "little")
        self._random = SecretStream(key)
        self._boosting: _Boosting | None = None
        self._hashes_told: dict[bytes, int] = {}
        self._model: tuple[SharedTrees, int | None] | None = None
        self._answers: dict[type[Message], Callable[[Any], Message]] = {
            OpenHorizontal: self._open_training,
            TellMoments: self._tell_moments,
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
        """Name and shape."""
        return f"HorizontalParty({self.name!r}, {self._X.shape[0]} rows, {self._X.shape[1]} columns)"

    def get_booster(self) -> xgboost.Booster:
        """The party's copy of the model.

        Raises
        ------
        ValueError
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
        return self._answers[type(message)](message)

    def closed(self, kept: None) -> None:
        """Drop the training run."""
        self._boosting = None

    @property
    def _state(self) -> _Boosting:
        if self._boosting is None:
            raise ProtocolError("the training run was not opened")
        return self._boosting

    @property
    def _shared(self) -> SharedTrees:
        if self._state.shared is None:
            raise ProtocolError("boosting has not started")
        return self._state.shared

    def _introduce(self, message: Introduce) -> Message:
        classes = ""
        if message.wants_classes:
            values = np.unique(self._y[~_missing(self._y)]) if _missing(self._y).any() else np.unique(self._y)
            if _missing(self._y).any():
                raise InvalidDataError("y has missing labels")
            classes = json.dumps(values.tolist())
        names = json.dumps(self._names) if self._names else ""
        return Introduction(self._X.shape[0], self._X.shape[1], names, classes)

    def _open_training(self, message: OpenHorizontal) -> Message:
        settings = settings_of(message.params)
        rows = message.party_rows.tolist()
        if not 0 <= message.place < len(rows) or rows[message.place] != len(self._y):
            raise ProtocolError("this party's place or number of rows is wrong")
        objective = Objective(settings.objective, settings.n_classes, settings.scale_pos_weight)
        y = self._encoded(message.classes)
        objective.check_labels(y)
        weight = np.ones(len(y), dtype=np.float32) if self._weight is None else self._weight
        self._boosting = _Boosting(settings, objective, y, weight, int(message.place), rows)
        if objective.n_classes > 1:
            return HorizontalOpened(np.empty(0))
        exact = weight.astype(np.float64)
        return HorizontalOpened(np.array([exact.sum(), (exact * y).sum()]))

    def _encoded(self, classes: str) -> NDArray[np.float32]:
        if not classes:
            return numeric_vector(self._y, "y")
        known = np.array(json.loads(classes))
        place = np.minimum(np.searchsorted(known, self._y), len(known) - 1)
        if not (known[place] == self._y).all():
            raise InvalidDataError("y has labels that are not among the agreed classes")
        return place.astype(np.float32)

    def _tell_moments(self, message: TellMoments) -> Message:
        state, n_rows = self._state, len(self._y)
        if n_rows < MIN_ROWS:
            raise InvalidDataError(f"{n_rows} rows: moments of fewer than {MIN_ROWS} give the rows away")
        if message.known_features < 0:
            raise ProtocolError("known_features is negative")
        moments = Moments.of(self._X)
        known = max(self._known_features, int(message.known_features))
        state.n_hashes_allowed = min(MAX_HASHES, max_hashes(n_rows, moments.n_varying - known))
        if state.n_hashes_allowed < 1:
            raise InvalidDataError(
                f"{n_rows} rows with {moments.n_varying} columns that vary, {known} of them known to others, "
                "cannot be hashed: one hash a row and the columns' moments are as many equations as unknowns"
            )
        return ColumnMoments(moments.count, moments.mean, moments.squares, state.n_hashes_allowed)

    def _hash_rows(self, message: HashRows) -> Message:
        state = self._state
        if not 1 <= message.n_hashes <= state.n_hashes_allowed:
            raise InvalidDataError(
                f"{message.n_hashes} hashes of a row; this party gives 1 to {state.n_hashes_allowed} (L < d)"
            )
        if state.hashes is not None:
            raise ProtocolError("rows are hashed once in a session: more hashes are more equations")
        n_features, window = self._X.shape[1], message.window
        fine = (
            len(message.seed) == 32 and window.shape == (1,) and np.isfinite(window).all() and window[0] > 0
        )
        for vector in (message.mean, message.std):
            fine = fine and vector.shape == (n_features,) and bool(np.isfinite(vector).all())
        if not fine or (message.std < 0).any():
            raise ProtocolError("seed, window, mean or std is malformed")
        # Equations add up over training runs, but the same hash functions give no new ones.
        parts = (message.seed, window.tobytes(), message.mean.tobytes(), message.std.tobytes())
        functions = hashlib.sha256(b"".join(parts)).digest()
        told = {**self._hashes_told, functions: max(message.n_hashes, self._hashes_told.get(functions, 0))}
        if len(told) > 1 and sum(told.values()) > state.n_hashes_allowed:
            raise InvalidDataError(
                f"{sum(self._hashes_told.values())} hashes of each row were given away in earlier training "
                f"runs, {state.n_hashes_allowed} are allowed: use one of those hash seeds, or fewer hashes"
            )
        self._hashes_told = told
        state.hashes = hash_rows(
            self._X, message.mean, message.std, message.seed, message.n_hashes, window[0], self._n_jobs
        )
        return HashTable(state.place, state.hashes.reshape(-1))

    def _find_similar(self, message: HashTable) -> Message:
        state, place = self._state, int(message.place)
        if state.hashes is None or not 0 <= place < len(state.party_rows) or place == state.place:
            raise ProtocolError("a hash table out of turn, or of no other party")
        if len(message.hashes) != state.party_rows[place] * state.hashes.shape[1]:
            raise ProtocolError("a hash table of another size than its party's rows")
        theirs = message.hashes.reshape(state.party_rows[place], -1)
        words = self._random.words(len(self._y), 1)[:, 0]
        state.similar[place], _ = most_similar(state.hashes, theirs, words, TIE_DRAWS, self._n_jobs)
        return messages.Done()

    def _start_boosting(self, message: StartBoosting) -> Message:
        state = self._state
        if state.shared is not None:
            raise ProtocolError("boosting has started already")
        base_score = message.base_score
        if len(base_score) not in (1, state.objective.n_classes) or not np.isfinite(base_score).all():
            raise ProtocolError("the base score is malformed")
        if state.objective.name == "binary:logistic" and not ((base_score > 0) & (base_score < 1)).all():
            raise ProtocolError("the base score is no probability")
        state.shared = SharedTrees(state.objective, self._X.shape[1], base_score.tolist())
        state.margin = state.shared.start(len(self._y))
        state.others = state.margin.copy()
        given = state.settings.random_state
        state.tree_seed = int(self._random.words(1, 1)[0, 0]) if given is None else int(given)
        state.grower = TreeGrower(self._X, state.tree_parameters, state.objective.n_classes, self._n_jobs)
        return messages.Done()

    def _gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradients and hessians of the present margins, computed once per round."""
        state = self._state
        if state.gradients is None:
            state.gradients = state.objective.gradients(state.margin, state.y, state.weight)
        return state.gradients

    def _aggregate(self, message: AggregateGradients) -> Message:
        """Algorithm 2, lines 2 to 8 of the paper; its line 6 means H + h where it prints G + h."""
        state, place = self._state, int(message.place)
        n_rounds = len(self._shared.rounds)
        if place not in state.similar:
            raise ProtocolError("no rows similar to that party's are known")
        # Another draw of the ties every time the turn comes round; the same one if asked twice.
        draw = n_rounds // len(state.party_rows) % TIE_DRAWS
        rows, n_rows = state.similar[place][draw], state.party_rows[place]
        sums = [
            np.concatenate([np.bincount(rows, column, n_rows) for column in one.T]).astype(np.float32)
            for one in self._gradients()
        ]
        return AggregatedGradients(*sums)

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
        """Algorithm 2, lines 9 to 21: trees on the own rows with own and received gradients."""
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
            models.append(model)
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
    """Which labels are NaN or None."""
    return np.asarray(y != y) if y.dtype != object else np.array([v is None or v != v for v in y], dtype=bool)
