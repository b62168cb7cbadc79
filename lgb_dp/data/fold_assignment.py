"""Which fold of a cross-validation each row drew, and on which training parts models were trained.

A fold's training part is used when training starts on it, not when its rows are looked up: `lightgbm.cv`
asks for the rows of test parts too, and with two folds the one's test part is the other's training part.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.key_stream import this_process
from gbdt_commons.read_only import read_only
from lgb_dp.errors import ForkedProcessError


class FoldAssignment:
    """Which of `k` folds each row drew, int64 (n_rows,), and which cross-validation over them is the last."""

    def __init__(self, fold_of_row: NDArray[np.int64], k: int) -> None:
        self._fold_of_row = read_only(fold_of_row.copy())
        self.k = k
        self._numbers = itertools.count(1)
        self.start()

    @property
    def fold_of_row(self) -> NDArray[np.int64]:
        """The fold that each row drew, shape (n_rows,), read-only: folds are checked against it."""
        return self._fold_of_row

    def start(self) -> None:
        """Begin a cross-validation: no training part of it is used yet."""
        self.current = CrossValidation(next(self._numbers), self.k)

    def training_part(self, rows: NDArray[np.int64]) -> tuple[CrossValidation, int] | None:
        """The cross-validation in progress, and its fold whose training part `rows` are.

        That is all rows but the fold's, each once; None if they are no fold's.  Folds that no row drew have
        the same training part; they are returned in turn.
        """
        folds = [
            fold for fold in range(self.k) if np.array_equal(rows, np.flatnonzero(self.fold_of_row != fold))
        ]
        current = self.current
        return (current, current.next_of(folds)) if folds else None


class CrossValidation:
    """One pass over the `k` folds: what their training parts were used for, and what they were granted.

    A part belongs to the pass in which it was made, whichever passes other threads begin. `number` counts the
    passes over the same folds so far; `id` is a name that no other pass has, for a budget in a file.
    """

    def __init__(self, number: int, k: int) -> None:
        self.number, self.id = number, secrets.token_hex(8)
        self._process = this_process()
        self._granted: dict[Hashable, object] = {}
        self._used_for: dict[tuple[int, int], object] = {}
        self._n_returned = [0] * k

    def next_of(self, folds: Sequence[int]) -> int:
        """The one of some folds that was returned least often."""
        fold = min(folds, key=lambda fold: self._n_returned[fold])
        self._n_returned[fold] += 1
        return fold

    def use(self, fold: int, nesting: int, purpose: object) -> bool:
        """Whether a fold's training part is used for the first time, or again for the same purpose.

        `nesting` is 0 to train on the part itself, more to train on parts of it; each is counted separately.
        The purpose is a training run, or the assignment that divides the part further.
        """
        self._refuse_fork()
        return self._used_for.setdefault((fold, nesting), purpose) is purpose

    def granted(self, key: Hashable, cost: object) -> object:
        """Grant of the first run that shares the key; `cost`, if this is the first."""
        self._refuse_fork()
        return self._granted.setdefault(key, cost)

    def _refuse_fork(self) -> None:
        """ForkedProcessError in a child: it and its parent would not know each other's fits."""
        if self._process != this_process():
            raise ForkedProcessError(
                "a cross-validation cannot continue in a forked process: its parent trains on the same folds"
            )


@dataclass(frozen=True)
class FoldPart:
    """The training part of a fold, of one pass over the folds; `outer` is the part that is divided here, if
    any.
    """

    assignment: FoldAssignment
    validation: CrossValidation
    fold: int
    outer: FoldPart | None

    @classmethod
    def of(
        cls, assignment: FoldAssignment | None, rows: NDArray[np.int64], outer: FoldPart | None
    ) -> FoldPart | None:
        """The part that some rows of `outer`, or of the whole, are; None if they are no fold's."""
        found = None if assignment is None else assignment.training_part(rows)
        return None if assignment is None or found is None else cls(assignment, *found, outer)

    @property
    def n_folds(self) -> tuple[int, ...]:
        """Number of folds of every cross-validation, the innermost first."""
        return (self.assignment.k, *(self.outer.n_folds if self.outer else ()))

    def use(self, purpose: object) -> bool:
        """Whether this training run is the first on this part, counted for every level of nesting."""
        part: FoldPart | None = self
        nesting, is_first = 0, True
        while part is not None:
            is_first &= part.validation.use(part.fold, nesting, purpose)
            nesting, purpose, part = nesting + 1, part.assignment, part.outer
        return is_first

    def granted(self, cost: object) -> object:
        """Grant of the first run of the cross-validation; `cost`, if this is the first.

        Each model's report covers all of them together, which holds if all are granted the same.  Folds of
        all outer parts are taken together, however often inner ones were divided.
        """
        return self._outermost.granted(len(self.n_folds), cost)

    @property
    def payment(self) -> tuple[Hashable, ...]:
        """Runs that one pays for: all of the cross-validation, and of this repetition of inner ones."""
        return self._outermost.id, self._rounds

    @property
    def _outermost(self) -> CrossValidation:
        return self.outer._outermost if self.outer else self.validation

    @property
    def _rounds(self) -> tuple[int, ...]:
        """Which repetition of every inner cross-validation this is, the innermost first."""
        return (self.validation.number, *self.outer._rounds) if self.outer else ()

    @property
    def models_per_row(self) -> int:
        """Models that train on a row: k - 1 of every cross-validation, multiplied."""
        return int(np.prod([k - 1 for k in self.n_folds]))

    @property
    def note(self) -> str:
        """Note on the guarantee of one of the models."""
        inner, *outer = self.n_folds
        if not outer:
            return f"epsilon covers all {inner} folds together, if the reports of all say private"
        return (
            f"epsilon covers the models of all {inner} inner folds of all {' x '.join(map(str, outer))} "
            "outer folds together, if the reports of all say private; models of whole outer training parts, "
            "and other results on these rows, must be composed with it (lgb_dp.compose)"
        )
