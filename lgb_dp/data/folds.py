"""Folds for cross-validation under a provable guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lgb_dp.checks import checked_integer
from lgb_dp.data.dataset import Dataset
from lgb_dp.data.fold_assignment import FoldAssignment
from lgb_dp.errors import ArgumentTypeError
from lgb_dp.mechanisms.rng import SecureRandom


class PrivateFolds:
    """Assignment of rows to folds, each row's (or each person's, where they have several) drawn on its own.

    Adding a row leaves every other row's fold as it is, and each row trains in k - 1 of the k models, so
    all k models together cost (k - 1)ε.  Folds of equal size, or stratified by label, depend on all rows.
    Folds of another fold's training part multiply: a row trains in (k₁ - 1)(k₂ - 1) of the models.
    """

    def __init__(self, train_set: Dataset, k: int, random: SecureRandom) -> None:
        train_set.construct()
        self.k = k
        # The bias of the remainder, below k / 2⁶⁴, does not depend on any data.
        self._assignment = FoldAssignment((train_set.draw_words(random) % np.uint64(k)).astype(np.int64), k)
        train_set.assigned_folds = self._assignment

    @property
    def fold_of_row(self) -> NDArray[np.int64]:
        """The fold that each row drew, shape (n_rows,), read-only."""
        return self._assignment.fold_of_row

    def split(
        self, X: Any = None, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Rows to train on and to test on, fold by fold."""
        self._assignment.start()
        for fold in range(self.k):
            yield np.flatnonzero(self.fold_of_row != fold), np.flatnonzero(self.fold_of_row == fold)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds."""
        return self.k


def folds(k: int, train_set: Dataset) -> PrivateFolds:
    """Draw folds for ``lightgbm.cv(..., folds=lgb_dp.folds(5, train_set))``.

    Parameters
    ----------
    k : int
        Number of folds, at least 2.
    train_set : Dataset
        The data to divide; it remembers its folds.

    Returns
    -------
    PrivateFolds
        A splitter as scikit-learn has them.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If `k` is not an integer of at least 2, or `train_set` is not a private Dataset.
    """
    if not isinstance(train_set, Dataset):
        raise ArgumentTypeError(f"train_set must be an lgb_dp.Dataset, got {type(train_set).__name__}")
    return PrivateFolds(train_set, checked_integer("k", k, 2), SecureRandom())
