"""Sums over leaves: the one place of NewtonBoost where private rows are read.

The trainer asks for integer sums and adds the noise; it does not know where the rows are.  `LocalLeafSums`
holds them in this process.  An answer is a function of the question, so that it can be asked for again:
scores are the start scores, the prior, and the values of the released trees, added in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import BinLayout, Columns, add_leaf_values, feature_counts, leaf_sums, row_tags
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import Loss
from lgb_dp.newton.releases.held_out_rows import HeldOutCells, HeldOutRows
from lgb_dp.newton.releases.trees import HELD_OUT_SHARE, ReleasedTree, Round

ROWS_AT_ONCE = 1 << 16
"""Rows whose labels are counted at a time."""


def held_out(columns: Columns, salt: int, n_threads: int) -> NDArray[np.bool_]:
    """Which rows are held out: a tenth of all different rows, by their own codes and a public salt.

    A row's place does not depend on other rows, on their order or on where they are.
    """
    return np.asarray(row_tags(columns, salt, n_threads) < np.uint64(int(HELD_OUT_SHARE * 2.0**64)))


class LeafSums(Protocol):
    """Holder of the rows that sums their contributions to the leaves of a tree."""

    def label_counts(self) -> NDArray[np.int64]:
        """Sum of the rows' memberships of the classes times their weights, as many as the loss's `n_counts`.

        A row adds `STEPS` times its integer weight, all to its class or, in regression, divided between two
        points of the label's range.
        """

    def feature_counts(self, layout: BinLayout) -> NDArray[np.int64]:
        """Sum of the rows' integer weights in every bin of every feature, that of missing values too."""

    def sums(self, question: Round) -> NDArray[np.int64]:
        """Gradients and hessians per leaf and output; the same again if the same question is asked again.

        Shape (n_cells, n_outputs, 2), of the leaves, and if rows are held out, then of these in the leaves.
        Sums are in steps of `lgb_dp.losses.loss`, times the rows' integer weights.
        """

    def sums_of(self, questions: Sequence[Round]) -> list[NDArray[np.int64]]:
        """The sums of several trees of the same released trees; rows far away answer them together."""

    def held_out_counts(self, question: Round, cells: HeldOutCells) -> NDArray[np.int64]:
        """Sum of the integer weights of rows that train nothing, by cell, after a question's trees."""


@dataclass(frozen=True)
class _RowState:
    """Where the rows stand after some rounds, and in which leaves of the next round's tree.

    `score` has the values of the released trees up to number `last`, 0 without one; it determines the
    trees before. Leaves are of the tree of the round `pending`; the leaf of a row that is held out is as many
    more as there are leaves.
    """

    last: int
    pending: int
    score: NDArray[np.float64]
    leaf: NDArray[np.uint16]


class LocalLeafSums:
    """The rows in this process, summed by its threads; labels fit the scale.

    Training starts from the raw scores `start`, shape (n_rows, n_outputs), if there are any. A round sums a
    share `subsample` of the rows, in (0, 1]. `draw_words` returns a new secret random word per row, the same
    for all rows of a person. Rows that are `held_out` have weight 0 and are counted alone.
    """

    def __init__(
        self,
        columns: Columns,
        label: NDArray[np.float64],
        weight: NDArray[np.int32],
        loss: Loss,
        scale: LabelScale,
        start: NDArray[np.float64] | None,
        n_threads: int,
        subsample: float,
        draw_words: Callable[[], NDArray[np.uint64]],
        held_out: HeldOutRows | None = None,
    ) -> None:
        self._n_rows, self._n_outputs = len(label), scale.n_outputs
        # A row more must not give others' labels to the rows behind it.
        assert columns.n_rows == len(weight) == self._n_rows
        assert start is None or start.size == self._n_rows * self._n_outputs
        self._columns = columns
        self._target = loss.targets(label, scale)
        self._loss = loss
        self._clip, self.pairs = 1.0, loss.pairs(self._target, 1.0)
        self._weight = weight
        self._scale = scale
        self._start = start
        self._n_threads = n_threads
        self._subsample = subsample
        self._draw_words, self._held_out_rows = draw_words, held_out
        self._rows: _RowState | None = None
        self._last: tuple[tuple[object, ...], NDArray[np.int64]] | None = None
        self._held: tuple[int, NDArray[np.bool_]] | None = None

    def label_counts(self) -> NDArray[np.int64]:
        """As for `LeafSums`; in parts of the rows, whose counts add up exactly and take less memory."""
        parts = (slice(k, k + ROWS_AT_ONCE) for k in range(0, max(self._n_rows, 1), ROWS_AT_ONCE))
        counts = [
            self._loss.label_counts(self._target[part], self._weight[part], self._n_outputs) for part in parts
        ]
        return np.asarray(np.sum(counts, axis=0, dtype=np.int64))

    def feature_counts(self, layout: BinLayout) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        return feature_counts(self._columns, self._weight, layout.bin_offsets, self._n_threads)

    def sums(self, question: Round) -> NDArray[np.int64]:
        """As for `LeafSums`; with a subsample, of rows that are drawn anew in every round."""
        key = question.key
        if self._last is not None and self._last[0] == key:
            return np.array(self._last[1])
        weight = self._weight if self._subsample == 1 else self.secret_sample()
        rows = self.current_rows(question)
        tree, last = question.tree, question.last
        value = np.tile(question.released[-1].value, (2, 1)) if last != rows.last else None
        n_leaves = len(tree.feature) + 1
        held = None if question.salt is None else self._held_out(question.salt)

        def move(first: int, stop: int) -> None:
            if value is not None:
                add_leaf_values(rows.leaf, value, first, stop, rows.score)
            self._columns.leaves(tree.feature, tree.goes_left, first, stop, rows.leaf)
            if held is not None:
                leaf = rows.leaf[first:stop]
                np.add(leaf, np.uint16(n_leaves), out=leaf, where=held[first:stop])

        if question.clip != self._clip:
            self._clip, self.pairs = question.clip, self._loss.pairs(self._target, question.clip)
        sums = leaf_sums(self.pairs, rows.score, weight, rows.leaf, question.n_cells, self._n_threads, move)
        self._rows = replace(rows, last=last, pending=question.number)
        self._last = (key, sums)
        return np.array(sums)

    def sums_of(self, questions: Sequence[Round]) -> list[NDArray[np.int64]]:
        """As for `LeafSums`."""
        return [self.sums(one) for one in questions]

    def scores(self, question: Round) -> NDArray[np.float64]:
        """Scores of all rows after the released trees of a question, shape (n_rows, n_outputs)."""
        rows = self.current_rows(question)
        if rows.last != question.last:
            rows = self._moved_on(rows, question.released[-1:])
        self._rows = rows
        return np.array(rows.score)

    def resume(self, last: int, score: NDArray[np.float64]) -> None:
        """Go on from earlier `scores`, a copy, after the released trees up to number `last`."""
        self._rows = _RowState(last, last, score, np.zeros(self._n_rows, dtype=np.uint16))

    def held_out_counts(self, question: Round, cells: HeldOutCells) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        assert self._held_out_rows is not None
        return self._held_out_rows.counts(cells, self._scale, self.scores(question))

    def _held_out(self, salt: int) -> NDArray[np.bool_]:
        if self._held is None or self._held[0] != salt:
            self._held = (salt, held_out(self._columns, salt, self._n_threads))
        return self._held[1]

    def current_rows(self, question: Round) -> _RowState:
        """The rows after all released trees, or after all but the last, whose leaves they are in."""
        rows, released = self._rows, question.released
        self._rows = None  # until they are in a consistent state again
        if rows is None:
            return self._moved_on(self._first_rows(question), released)
        before = released[-2].number if len(released) > 1 else 0
        if question.last == rows.last or (question.last, before) == (rows.pending, rows.last):
            return rows
        # Trees of one round are released together, and only the last one's leaves are known.
        known = next((k for k, one in enumerate(released) if one.number == rows.last), -1)
        if known < 0 < rows.last:
            return self._moved_on(self._first_rows(question), released)
        return self._moved_on(rows, released[known + 1 :])

    def _first_rows(self, question: Round) -> _RowState:
        """The rows before the first tree."""
        score = np.zeros((self._n_rows, self._n_outputs))
        if self._start is not None:
            score += (self._start.reshape(score.shape) - self._scale.centre) / self._scale.scale
        score += question.prior
        return _RowState(0, 0, score, np.zeros(self._n_rows, dtype=np.uint16))

    def _moved_on(self, rows: _RowState, released: Sequence[ReleasedTree]) -> _RowState:
        """The rows after some more trees."""
        for one in released:
            self._columns.leaves(one.tree.feature, one.tree.goes_left, 0, self._n_rows, rows.leaf)
            add_leaf_values(rows.leaf, one.value, 0, self._n_rows, rows.score)
        last = released[-1].number if released else rows.last
        return replace(rows, last=last, pending=last)

    def secret_sample(self) -> NDArray[np.int32]:
        """Weights of a Poisson sample of rows, or persons; the draws never leave this method."""
        taken = self._draw_words() < np.uint64(int(self._subsample * 2.0**64))
        return np.asarray(np.where(taken, self._weight, 0), dtype=np.int32)
