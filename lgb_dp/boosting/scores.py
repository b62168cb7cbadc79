"""The raw scores of a data set's rows, brought up to date only when they are read.

A row of DPBoost is read once per ensemble, when its tree's turn comes; adding
every tree to every row at once would cost more than growing the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import Codes, add_trees
from lgb_dp.boosting.tree import PrivateTree

_UNKNOWN = -1
"""Number of iterations of rows whose scores were being written when that was interrupted."""


class Scores:
    """Scores of one data set under a growing list of iterations, each of `n_outputs` trees.

    Before the first iteration they are `start`, shape (n_rows, n_outputs); None means 0.
    """

    def __init__(
        self, codes: Codes, start: NDArray[np.float64] | None, n_outputs: int, n_threads: int
    ) -> None:
        shape = (codes.n_rows, n_outputs)
        self._codes = codes
        self._start = np.broadcast_to(0.0, shape) if start is None else start.reshape(shape)
        self._n_threads = n_threads

    # Made when they are read first: NewtonBoost keeps scores of its own.

    @cached_property
    def _scores(self) -> NDArray[np.float64]:
        return np.array(self._start, order="F")

    @cached_property
    def _n_added(self) -> NDArray[np.int32]:
        return np.zeros(self._codes.n_rows, dtype=np.int32)

    def of(
        self, rows: NDArray[np.int32], codes: Codes, iterations: Sequence[Sequence[PrivateTree]]
    ) -> NDArray[np.float64]:
        """Scores, (len(rows), n_outputs), of distinct rows with these `codes` after all trees so far."""
        self._restart(rows[self._n_added[rows] == _UNKNOWN])
        n_added = self._n_added[rows]
        # Rows that lack the most trees come first, so that each tree is added to a head of them, at one go.
        order = np.arange(len(rows)) if (np.diff(n_added) >= 0).all() else np.argsort(n_added, kind="stable")
        scores = np.asfortranarray(self._scores[rows[order]])
        behind = np.flatnonzero(np.bincount(n_added, minlength=len(iterations))[: len(iterations)])
        if len(behind):
            ordered = codes if (np.diff(order) == 1).all() else codes.take(order)
            stops = [*behind[1:].tolist(), len(iterations)]
            ends = np.searchsorted(n_added[order], behind, side="right").tolist()
            for n, stop, end in zip(behind.tolist(), stops, ends, strict=True):
                self._add(ordered.head(end), iterations[n:stop], scores[:end])
            self.write(rows[order], scores, len(iterations))
        in_turn = np.empty_like(scores)
        in_turn[order] = scores
        return in_turn

    def all(self, iterations: Sequence[Sequence[PrivateTree]]) -> NDArray[np.float64]:
        """Scores of all rows after all `iterations`, shape (n_rows, n_outputs), not to be written to."""
        n_added = int(self._n_added[0])
        if n_added == _UNKNOWN or (self._n_added != n_added).any():
            return self.of(np.arange(len(self._n_added), dtype=np.int32), self._codes, iterations)
        if n_added < len(iterations):
            new = self._scores.copy(order="F")
            self._add(self._codes, iterations[n_added:], new)
            self.write(slice(None), new, len(iterations))
        scores: NDArray[np.float64] = self._scores.view()
        scores.flags.writeable = False
        return scores

    def forget(self, iterations: Sequence[Sequence[PrivateTree]], last: Sequence[PrivateTree]) -> None:
        """Subtract an iteration that came after `iterations` from the rows to which it was added."""
        rows = np.flatnonzero(self._n_added > len(iterations))
        scores = np.asfortranarray(self._scores[rows])
        self._add(self._codes.take(rows), [[replace(t, leaf_value=-t.leaf_value) for t in last]], scores)
        self.write(rows, scores, len(iterations))

    def write(self, rows: NDArray[Any] | slice, scores: NDArray[np.float64], n_added: int) -> None:
        """Replace the scores of some rows; an interrupt in between makes them start anew."""
        self._n_added[rows] = _UNKNOWN
        self._scores[rows] = scores
        self._n_added[rows] = n_added

    def _restart(self, rows: NDArray[Any]) -> None:
        if len(rows):
            self.write(rows, self._start[rows], 0)

    def _add(
        self, codes: Codes, iterations: Sequence[Sequence[PrivateTree]], scores: NDArray[np.float64]
    ) -> None:
        for _, of_one_size in groupby(iterations, key=lambda trees: len(trees[0].feature)):
            forest = list(of_one_size)
            for k in range(scores.shape[1]):
                add_trees(
                    codes,
                    _stacked([trees[k].feature for trees in forest]),
                    _stacked([trees[k].goes_left for trees in forest]),
                    _stacked([trees[k].leaf_value for trees in forest]),
                    scores[:, k],
                    self._n_threads,
                )


def _stacked(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays along a new first axis; one alone, as after every iteration, is not copied."""
    return np.stack(arrays) if len(arrays) > 1 else arrays[0][np.newaxis]
