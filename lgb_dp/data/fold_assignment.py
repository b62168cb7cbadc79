"""Which fold of a cross-validation each row drew, and on which training parts models were trained.

A training part is used when training starts on it, not when its rows are looked up: `lightgbm.cv` asks for
the rows of test parts too, and with two folds the one's test part is the other's training part.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.read_only import read_only
from gbdt_parties.key_stream import this_process
from lgb_dp.errors import ForkedProcessError


class FoldAssignment:
    """Which fold each row drew, and what the folds' training parts were used for.

    Parameters
    ----------
    fold_of_row : ndarray of int64, shape (n_rows,)
    k : int
        Number of folds.
    """

    def __init__(self, fold_of_row: NDArray[np.int64], k: int) -> None:
        self._fold_of_row = read_only(fold_of_row.copy())
        self.k = k
        self.start()

    @property
    def fold_of_row(self) -> NDArray[np.int64]:
        """The fold that each row drew, shape (n_rows,), read-only: folds are checked against it."""
        return self._fold_of_row

    def start(self) -> None:
        """Begin a cross-validation: no training part is used yet."""
        self.round = getattr(self, "round", 0) + 1
        self._process = this_process()
        self._paid: set[object] = set()
        self._granted: dict[Hashable, object] = {}
        self._used_for: dict[tuple[int, int], object] = {}
        self._n_returned = [0] * self.k

    def training_part(self, rows: NDArray[np.int64]) -> int | None:
        """The fold whose training part `rows` are: all rows but that fold's, each once.

        Folds that no row drew have the same training part; they are returned in turn.
        """
        folds = [
            fold for fold in range(self.k) if np.array_equal(rows, np.flatnonzero(self.fold_of_row != fold))
        ]
        if not folds:
            return None
        fold = min(folds, key=lambda fold: self._n_returned[fold])
        self._n_returned[fold] += 1
        return fold

    def use(self, fold: int, nesting: int, purpose: object) -> bool:
        """Whether a fold's training part is used for the first time, or again for the same purpose.

        Parameters
        ----------
        fold : int
        nesting : int
            0 to train on the part itself, more to train on parts of it; each is counted separately.
        purpose : object
            A training run, or the assignment that divides the part further.
        """
        self._refuse_fork()
        return self._used_for.setdefault((fold, nesting), purpose) is purpose

    def is_paid(self, key: Hashable) -> bool:
        """Whether a run of the cross-validation has paid for all that share the key."""
        self._refuse_fork()
        return key in self._paid

    def note_payment(self, key: Hashable) -> None:
        """Remember that a run has paid for all runs of the cross-validation that share the key."""
        self._refuse_fork()
        self._paid.add(key)

    def granted(self, key: Hashable, cost: object) -> object:
        """What the first run that shares the key was granted; `cost`, if this is the first."""
        self._refuse_fork()
        return self._granted.setdefault(key, cost)

    def _refuse_fork(self) -> None:
        """Raise a ForkedProcessError in a process that did not start the cross-validation.

        Parent and child would not know of each other which parts were trained on, and one payment would
        count in both.
        """
        if self._process != this_process():
            raise ForkedProcessError(
                "a cross-validation cannot continue in a forked process: its parent trains on the same folds"
            )


@dataclass(frozen=True)
class FoldPart:
    """The training part of a fold, which may be a part of another such part.

    Parameters
    ----------
    assignment : FoldAssignment
    fold : int
    outer : FoldPart or None
        The part that the assignment divides.
    """

    assignment: FoldAssignment
    fold: int
    outer: FoldPart | None

    @property
    def n_folds(self) -> tuple[int, ...]:
        """Number of folds of every cross-validation, the innermost first."""
        return (self.assignment.k, *(self.outer.n_folds if self.outer else ()))

    def use(self, purpose: object) -> bool:
        """Whether this training run is the first on this part, counted for every level of nesting."""
        part: FoldPart | None = self
        nesting, is_first = 0, True
        while part is not None:
            is_first &= part.assignment.use(part.fold, nesting, purpose)
            nesting, purpose, part = nesting + 1, part.assignment, part.outer
        return is_first

    def granted(self, cost: object) -> object:
        """What the first run of the cross-validation was granted; `cost`, if this is the first.

        Each model's report covers all of them together, which holds if all are granted the same.  Folds of
        all outer parts are taken together, however often inner ones were divided.
        """
        return self._outermost.granted(len(self.n_folds), cost)

    def is_paid(self, key: Hashable) -> bool:
        """Whether another run of the cross-validation has paid for this one, too."""
        return self._outermost.is_paid((self._rounds, key))

    def note_payment(self, key: Hashable) -> None:
        """Remember that a run has paid for all runs of the cross-validation."""
        self._outermost.note_payment((self._rounds, key))

    @property
    def _outermost(self) -> FoldAssignment:
        return self.outer._outermost if self.outer else self.assignment

    @property
    def _rounds(self) -> tuple[int, ...]:
        """Which repetition of every inner cross-validation this is, the innermost first."""
        return (self.assignment.round, *self.outer._rounds) if self.outer else ()

    @property
    def models_per_row(self) -> int:
        """Models that train on a row: k - 1 of every cross-validation, multiplied."""
        return int(np.prod([k - 1 for k in self.n_folds]))

    @property
    def note(self) -> str:
        """What the guarantee of one of the models covers."""
        inner, *outer = self.n_folds
        if not outer:
            return f"epsilon covers all {inner} folds together, if the reports of all say private"
        return (
            f"epsilon covers the models of all {inner} inner folds of all {' x '.join(map(str, outer))} "
            "outer folds together, if the reports of all say private; models of whole outer training parts, "
            "and other results on these rows, must be composed with it (lgb_dp.compose)"
        )
