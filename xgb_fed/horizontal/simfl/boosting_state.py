"""State of a horizontal party in one training run, and its sums of gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.boosting import NativeTreeGrower, read_tree, write_tree
from gbdt_parties.errors import ProtocolError
from gbdt_parties.memory import Room
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.boosting.params import PENALTIES, TREE_PARAMETERS, Settings
from xgb_fed.horizontal.common.messages import OpenHorizontal, Trees
from xgb_fed.horizontal.common.model import SharedTrees, add_round
from xgb_fed.horizontal.common.row_groups import RowGroups
from xgb_fed.horizontal.simfl.journal import RunJournal, RunStart
from xgb_fed.horizontal.simfl.lsh import TIE_DRAWS
from xgb_fed.horizontal.simfl.messages import AggregatedGradients


@dataclass(frozen=True)
class Turns:
    """Rounds of a run: M parties grow s successive ones each; ProtocolError for impossible numbers."""

    n_parties: int
    rounds_per_turn: int
    max_rounds: int

    def __post_init__(self) -> None:
        """Check the numbers, which come from another party."""
        if self.rounds_per_turn < 1 or self.max_rounds < 0:
            raise ProtocolError("the number of rounds, or of rounds per turn, is malformed")

    def builder(self, number: int) -> int:
        """Place of the party that builds round `number`, from 0; ProtocolError beyond the last round."""
        if number >= self.max_rounds:
            raise ProtocolError(f"the training run was opened for {self.max_rounds} rounds")
        return number // self.rounds_per_turn % self.n_parties


@dataclass
class BoostingState:
    """State of a training run at one party from its opening on.

    `opening` is the message that opened the run, `functions` the digest of the hash functions, and `hashes`
    are those of its own rows. For each other party, `similar` has the row that a member of each group of own
    rows is most similar to (this party's column of the paper's matrix S), int32 of shape (TIE_DRAWS,
    n_groups); in each row of the array, members and ties are drawn again. `rooms` is the memory reserved for
    this run, by what it is for. `rounds` are there from the start of boosting on. With `as_published`, ties
    are drawn once and penalties are not scaled.
    """

    settings: Settings
    objective: XGBoostObjective
    y: NDArray[np.float32]
    weight: NDArray[np.float32]
    turns: Turns
    opening: OpenHorizontal
    functions: bytes = b""
    hashes: NDArray[np.int32] | None = None
    similar: dict[int, NDArray[np.int32]] = field(default_factory=dict)
    rooms: dict[str, list[Room]] = field(default_factory=dict)
    rounds: BoostingRounds | None = None
    as_published: bool = False

    @property
    def place(self) -> int:
        """Place of the party among all parties."""
        return int(self.opening.place)

    @property
    def party_rows(self) -> list[int]:
        """Rows of every party."""
        rows: list[int] = self.opening.party_rows.tolist()
        return rows

    def run_start(self, base_score: list[float], tree_seed: int) -> RunStart:
        """Start of the run, the first entry of its journal."""
        opening = self.opening
        return RunStart(
            opening.params,
            opening.classes,
            self.place,
            self.party_rows,
            self.turns.rounds_per_turn,
            base_score,
            tree_seed,
            self.similar,
        )

    @property
    def tree_parameters(self) -> dict[str, Any]:
        """Parameters to grow trees by on sums of all parties: penalties are multiplied by N/n.

        XGBoost's penalties are meant for sums of one gradient per row.  Here each of the n own rows holds N/n
        gradients on average, so that a single row would outweigh ``min_child_weight`` and be a leaf.  The
        factor has the same effect as n/N times the sums: −(n/N)G / ((n/N)H + λ) = −G / (H + (N/n)λ), and
        likewise for α, γ and the minimum H of a child.  Without received sums, and as published, it is 1.
        """
        own = self.party_rows[self.place]
        others = () if self.as_published else self.similar
        factor = (own + sum(self.party_rows[place] for place in others)) / own
        params = {name: getattr(self.settings, name) for name in TREE_PARAMETERS}
        return params | {name: factor * params[name] for name in PENALTIES}

    def start(self, X: Any, journal: RunJournal, n_threads: int) -> BoostingRounds:
        """Begin with the margins of the own rows before the first tree."""
        self.similar = journal.start.similar
        base_score, max_depth = journal.start.base_score, self.settings.max_depth
        shared = SharedTrees(self.objective, X.shape[1], base_score, max_depth)
        self.rounds = BoostingRounds(self, X, n_threads, journal, shared)
        return self.rounds


class BoostingRounds:
    """The rounds of a training run at one party, with its own rows, and the trees so far.

    `margin` and `others` are margins under all trees, and under all but those grown here, which contribute
    `own`; float32 of shape (n_rows, n_classes). `gradients` are those of the present margins. `label_sums`,
    float64 of shape (n_groups, n_classes), is what each group's labels contribute to its sum of gradients,
    whatever the margins. `received` has the sums of all other parties for the tree to grow here, of shape
    (n_classes, n_rows).
    """

    def __init__(
        self, state: BoostingState, X: Any, n_threads: int, journal: RunJournal, shared: SharedTrees
    ) -> None:
        self.state, self.journal, self.shared = state, journal, shared
        self._X, self._n_threads = X, n_threads
        self.margin = shared.start(len(state.y))
        self.others, self.own = self.margin.copy(), np.zeros_like(self.margin)
        self.gradients: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self.label_sums: NDArray[np.float64] | None = None
        self.received: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    @cached_property
    def grower(self) -> NativeTreeGrower:
        """Grower of trees on this party's rows."""
        return NativeTreeGrower(self._X, self.state.tree_parameters, self._n_threads)

    def add_own(self, trees: Trees, values: NDArray[np.float32]) -> None:
        """Add a round that was grown here, with the leaf values of the own rows.

        Such trees are added up by themselves: in float32 the order of additions matters, and it is the same
        whether a round was just grown or comes from a journal.
        """
        self.own += values
        self.margin = self.others + self.own
        self.shared.rounds.append(trees)
        self.gradients = None

    def add_others(self, trees: Trees, values: NDArray[np.float32]) -> None:
        """Add a round that another party has grown, with the leaf values of the own rows."""
        self.margin += values
        self.others += values
        self.shared.rounds.append(trees)
        self.gradients = None

    def values_of(self, trees: Trees) -> NDArray[np.float32]:
        """Leaf values of the own rows in a round's trees, shape (n_rows, n_classes)."""
        values = np.zeros_like(self.margin)
        add_round(values, self._X, self.shared.read_round(trees), self._n_threads)
        return values

    @property
    def builder(self) -> int:
        """The place of the party that grows the trees of the round under way."""
        return self.state.turns.builder(len(self.shared.rounds))

    def check_turn(self, place: int) -> None:
        """Refuse another party's turn: a round is asked for once, for one builder."""
        builder = self.builder
        if place != builder:
            raise ProtocolError(f"it is the turn of the party at place {builder}, and not {place}")

    def grow(self) -> tuple[Trees, NDArray[np.float32]]:
        """The next round's trees on own and received gradients, and own leaf values, (n_rows, n_classes)."""
        g, h = (one.T for one in self.present_gradients())
        if self.received is not None:
            g, h = self.received[0] + g, self.received[1] + h
            self.received = None
        seed = (self.journal.start.tree_seed + len(self.shared.rounds)) % 2**31
        models, values = [], np.empty_like(self.margin)
        for k in range(self.state.objective.n_classes):
            model, values[:, k] = self.grower.grow(
                np.ascontiguousarray(g[k]), np.ascontiguousarray(h[k]), seed
            )
            models.append(write_tree(read_tree(model, self.shared.n_features)))
        return Trees(np.array([len(model) for model in models], dtype=np.int64), b"".join(models)), values

    def present_gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return gradients and hessians of the present margins, computed once per round."""
        if self.gradients is None:
            self.gradients = self.state.objective.gradients(self.margin, self.state.y, self.state.weight)
        return self.gradients

    def sums_for(self, place: int, groups: RowGroups, alone: bool) -> AggregatedGradients:
        """The groups' sums at the builder's rows that they are most similar to (Algorithm 2, lines 2 to 8).

        Line 6 of the algorithm means H + h where it prints G + h.
        """
        if place not in self.state.similar:
            raise ProtocolError("no rows similar to that party's are known")
        self.check_turn(place)
        # Each turn takes another draw of the ties; asked twice in a turn, the party answers the same.
        turn = 0 if self.state.as_published else len(self.shared.rounds) // len(self.state.party_rows)
        rows, n_rows = self.state.similar[place][turn % TIE_DRAWS], self.state.party_rows[place]
        sums = np.empty((2, self.state.objective.n_classes, n_rows), dtype=np.float32)
        for which, of_groups in enumerate(self.group_sums(groups, alone)):
            for k, column in enumerate(of_groups.T):
                sums[which, k] = np.bincount(rows, column, n_rows)
        g, h = sums.reshape(2, -1)
        return AggregatedGradients(g, h)

    def receive(self, message: AggregatedGradients, order: NDArray[np.int64]) -> None:
        """Take the sums of all others for the trees that are to be grown here.

        The order has the row that each place in the message stands for.  A ProtocolError says that they are
        out of turn or malformed, or that the hashes of another party were not seen: only parties that have
        exchanged hashes have sums by each other's rows.
        """
        self.check_turn(self.state.place)
        n_others = len(self.state.party_rows) - 1
        if not n_others or len(self.state.similar) < n_others:
            raise ProtocolError("aggregated gradients of parties whose hashes were not seen")
        shape = (self.state.objective.n_classes, len(self.state.y))
        if message.g.size != shape[0] * shape[1] or message.h.size != message.g.size:
            raise ProtocolError("aggregated gradients of another number of rows")
        if not (np.isfinite(message.g).all() and np.isfinite(message.h).all() and (message.h >= 0).all()):
            raise ProtocolError("aggregated gradients that are not finite, or hessians below 0")
        if self.received is not None:
            raise ProtocolError("sent the aggregated gradients of a tree a second time")
        g, h = (np.empty(shape, dtype=np.float32) for _ in range(2))
        g[:, order], h[:, order] = message.g.reshape(shape), message.h.reshape(shape)
        self.received = g, h

    def group_sums(self, groups: RowGroups, alone: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of gradients and hessians of the present margins, each of shape (n_groups, n_classes).

        Labels enter by sums over groups that are computed once, unless each row is a group of its own
        (`alone`). Gradients of single rows, p − y, are rounded by amounts that depend on p and y, so that
        their sum could tell the labels apart to somebody who knows p, which made-up trees can set for each
        row.
        """
        reference = self.state.y if alone else np.zeros_like(self.state.y)
        if self.label_sums is None:
            start = np.zeros_like(self.margin)
            of_labels, _ = self.state.objective.gradients(start, self.state.y, self.state.weight)
            of_reference, _ = self.state.objective.gradients(start, reference, self.state.weight)
            self.label_sums = groups.exact_sums(of_labels.astype(np.float64) - of_reference)
        g, h = self.state.objective.gradients(self.margin, reference, self.state.weight)
        return groups.sums(g) + self.label_sums, groups.sums(h)


def similar_bytes(similar: Mapping[int, NDArray[np.int32]]) -> int:
    """Bytes of the rows that groups are most similar to, in memory and, nearly, in a journal."""
    return sum(rows.nbytes for rows in similar.values())
