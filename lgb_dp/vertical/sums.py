"""Noised sums over the leaves of both parties' trees: what the trainer asks for, and what each party gives.

Either party's trainer sees released counts and opened sums alone.  `TableHolder` has labels and columns,
`PointHolder` columns; `lgb_dp.vertical.replica` answers the trainer's questions, with the other party.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import BinLayout, DenseColumns, SparseColumns, feature_counts
from gbdt_parties.run.flights.driver import Inputs
from gbdt_parties.two_party.layout import RoundLayout, TreeLayout, rows_per_message
from gbdt_parties.two_party.leaf_sums import message_bytes
from gbdt_parties.two_party.names import Seat
from gbdt_parties.two_party.session import Draws
from lgb_dp.accounting.ledger import Release
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import Loss
from lgb_dp.newton.releases.trees import PublicTree, ReleasedTree
from lgb_dp.vertical.noise import sum_noise
from lgb_dp.vertical.numbers import PublicNumbers
from lgb_dp.vertical.tables import PointTables, to_points

TABLES_PLACE, POINTS_PLACE = 0, 1
"""Places of the party with the labels, and of the other one; owners of trees."""

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class OneAgainstRest:
    """One of several classes, numbered from 0 on, in a run that tells it from all others."""

    number: int
    n_classes: int

    def labels(self, label: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 for rows of the class, 0 for those of others, NaN for labels that are no class's number."""
        is_class = np.isin(label, np.arange(self.n_classes))
        return np.where(is_class, (label == self.number).astype(np.float64), np.nan)


@dataclass(frozen=True, eq=False)
class Refresh:
    """A round: gradients are refreshed once, and summed over the leaves of some trees of either party.

    All of it is public, and the same at both parties.  Rounds are numbered from 0 on.  A tree splits on the
    columns of its owner alone, who has a place.  `released` are all trees of the model so far, the clip is
    that which the loss's `start` found, and F_B is rounded to the points.
    """

    number: int
    trees: tuple[PublicTree, ...]
    owners: tuple[int, ...]
    prior: float
    released: Sequence[ReleasedTree]
    clip: float
    points: tuple[float, ...]
    numbers: PublicNumbers

    @property
    def digest(self) -> bytes:
        """32 bytes for all that both parties must have worked out alike; earlier rounds have their own."""
        numbers = self.numbers
        # No text of a float: those of NumPy's differ between its releases.
        integers = (self.number, *self.owners, numbers.max_rows, numbers.steps, *numbers.variances)
        digest = hashlib.sha256(repr((*map(int, integers), len(self.released))).encode())
        digest.update(np.array([self.prior, self.clip, numbers.mu], dtype="<f8").tobytes())
        for tree in self.trees:
            digest.update(tree.feature.astype("<i4").tobytes() + tree.goes_left.tobytes())
        for one in self.released:
            digest.update(one.value.astype("<f8").tobytes())
        return digest.digest()

    def layout(self, seats: tuple[Seat, Seat], n_rows: int) -> RoundLayout:
        """The numbers that messages follow from."""
        trees = tuple(
            TreeLayout((owner,), 0, n_leaves(tree).bit_length() - 1)
            for tree, owner in zip(self.trees, self.owners, strict=True)
        )
        numbers, corrections = self.numbers, [0, 0]
        for tree, owner in zip(trees, self.owners, strict=True):
            corrections[owner] += message_bytes(1, tree.levels, numbers.ring_bits)
        return RoundLayout(
            seats,
            n_rows,
            self.points,
            1,
            numbers.ring_bits,
            trees,
            numbers.bounds,
            rows_per_message=rows_per_message(max(corrections)),
            about=self.digest,
        )


def n_leaves(tree: PublicTree) -> int:
    """Leaves of a complete tree."""
    return len(tree.feature) + 1


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """A question about counts, to which each party adds its own noise to its own.

    The release was charged in the trainer's ledger.  Sums are as this party has counted, of `label_counts`,
    or of `feature_counts` for those released; those of both parties are side by side, as many as
    `sizes` says.  The scale is the standard deviation of the noise.
    """

    release: Release
    sums: NDArray[np.int64] = field(repr=False)
    scale: float
    sizes: tuple[int, int]


@dataclass(frozen=True, eq=False)
class OpenedSums:
    """A question about the sums of all trees of a round, which get both noises, with this party's rows."""

    refresh: Refresh
    holder: Holder


class ColumnRows:
    """Binned columns of one party, with their numbers among all features, and its part of every score."""

    def __init__(self, columns: DenseColumns | SparseColumns, features: range, n_threads: int) -> None:
        self._columns, self._features, self._n_threads = columns, features, n_threads
        self.n_rows = columns.n_rows
        self._score, self._n_known = np.zeros(self.n_rows), 0

    def with_new_scores(self) -> ColumnRows:
        """The same columns for another model, whose scores are 0 yet."""
        return ColumnRows(self._columns, self._features, self._n_threads)

    def feature_counts(self, layout: BinLayout) -> NDArray[np.int64]:
        """Rows in every bin of this party's features, exact, and zeros for others; shape (n_total_bins,)."""
        offsets = layout.bin_offsets[self._features.start : self._features.stop + 1]
        ones, counts = np.ones(self.n_rows, dtype=np.int32), np.zeros(layout.bin_offsets[-1], dtype=np.int64)
        own = feature_counts(self._columns, ones, offsets - offsets[0], self._n_threads)
        counts[offsets[0] : offsets[-1]] = own
        return counts

    def _leaves(self, tree: PublicTree) -> NDArray[np.uint16]:
        leaf = np.empty(self.n_rows, dtype=np.uint16)
        feature = tree.feature - np.int32(self._features.start)
        self._columns.leaves(feature, tree.goes_left, 0, self.n_rows, leaf)
        return leaf

    def _owns(self, tree: PublicTree) -> bool:
        return int(tree.feature[0]) in self._features

    def score(self, released: Sequence[ReleasedTree]) -> NDArray[np.float64]:
        """Sum of the values of this party's trees for every row, without the prior, shape (n_rows,).

        All trees of the model so far are given; those of earlier calls come first.
        """
        for one in released[self._n_known :]:
            if self._owns(one.tree):
                self._score += one.value[self._leaves(one.tree), 0]
            self._n_known += 1
        return self._score

    def own_leaves(self, trees: Sequence[PublicTree]) -> list[NDArray[np.uint8]]:
        """Leaves of this party's trees among the given ones."""
        return [self._leaves(tree).astype(np.uint8) for tree in trees if self._owns(tree)]


def _noise(refresh: Refresh, draws: Draws) -> list[Words]:
    """The whole noise of one party, of all trees of an attempt."""
    stream = draws.stream(b"noise")
    return [sum_noise(refresh.numbers, n_leaves(tree), stream) for tree in refresh.trees]


def _dither(n_rows: int, draws: Draws) -> NDArray[np.uint32]:
    """A number per row, of a stream of its own: it may become known, and must say nothing of the noise."""
    return draws.stream(b"dither").words(-(-n_rows // 2)).view(np.uint32)[:n_rows]


class Holder(ABC):
    """The rows of one party, of one class if classes take turns."""

    def __init__(self, rows: ColumnRows, loss: Loss) -> None:
        self.rows, self._loss = rows, loss

    @abstractmethod
    def label_counts(self) -> NDArray[np.int64]:
        """As for `LeafSums`; zeros at the party that has none."""

    def feature_counts(self, layout: BinLayout) -> NDArray[np.int64]:
        """As for `LeafSums`; zeros for the features of the other party."""
        return self.rows.feature_counts(layout)

    @abstractmethod
    def inputs(self, refresh: Refresh, draws: Draws) -> Inputs:
        """The inputs of this party to one attempt at a round."""


MakeHolder = Callable[[Loss, LabelScale, OneAgainstRest | None], Holder]


class TableHolder(Holder):
    """The party with the labels; `LabelScale.clipped` is for those outside their public range or classes."""

    def __init__(self, rows: ColumnRows, label: NDArray[np.float64], loss: Loss, scale: LabelScale) -> None:
        super().__init__(rows, loss)
        label, counts = scale.clipped(label)
        self._target, self._weight = loss.targets(label, scale), counts.astype(np.int32)

    def label_counts(self) -> NDArray[np.int64]:
        """As for `LeafSums`, exact."""
        return self._loss.label_counts(self._target, self._weight, 1)

    def inputs(self, refresh: Refresh, draws: Draws) -> Inputs:
        """Tables, leaves and noise of one attempt."""
        score = refresh.prior + self.rows.score(refresh.released)
        tables = PointTables(self._loss, refresh.numbers, self._target, self._weight.astype(np.float64))
        made = tables.at(score, refresh.points, _dither(self.rows.n_rows, draws), refresh.clip)
        return Inputs(made, self.rows.own_leaves(refresh.trees), _noise(refresh, draws))


class PointHolder(Holder):
    """The party with columns alone."""

    def label_counts(self) -> NDArray[np.int64]:
        """Zeros."""
        return np.zeros(self._loss.n_counts(1), dtype=np.int64)

    def inputs(self, refresh: Refresh, draws: Draws) -> Inputs:
        """Points, leaves and noise of one attempt."""
        score = self.rows.score(refresh.released)
        dither = _dither(self.rows.n_rows, draws)
        points = to_points(score, refresh.points, dither, self._loss.interpolation_exponent)
        return Inputs(points, self.rows.own_leaves(refresh.trees), _noise(refresh, draws))
