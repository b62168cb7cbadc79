"""Trees with public splits, and their leaf sums once released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HELD_OUT_SHARE = 0.1
"""Share of the rows that are held out, where any are."""


@dataclass(frozen=True)
class ReleasedTree:
    """A tree of the model, as it was added to the rows' scores.

    It has the number, from 1 on, of the round that released it. Values, shape (n_leaves, n_outputs), are
    log-odds, or predictions on the scale of [-1, 1]; the prior is not part of them.
    """

    number: int
    tree: PublicTree
    value: NDArray[np.float64]


@dataclass(frozen=True)
class Round:
    """Round of training: the questions about the rows."""

    number: int  # of the iteration that the tree is for
    tree: PublicTree  # whose leaves are summed
    prior: NDArray[np.float64]  # (n_outputs,), added to the start scores of all rows
    released: Sequence[ReleasedTree]  # all trees of the model so far
    clip: float = 1.0  # of gradients, as the loss's `start` found it
    salt: int | None = None  # by which `held_out` tells which rows do not train; None: all do

    @property
    def n_leaves(self) -> int:
        """Number of the tree's leaves."""
        return len(self.tree.feature) + 1

    @property
    def n_cells(self) -> int:
        """Number of cells: the tree's leaves, and once more the leaves if rows are held out."""
        return self.n_leaves if self.salt is None else 2 * self.n_leaves

    @property
    def last(self) -> int:
        """Number of the last released tree, 0 without one."""
        return self.released[-1].number if self.released else 0

    @property
    def key(self) -> tuple[object, ...]:
        """All by which questions of a run differ: a number comes again after an interrupted round."""
        tree = self.tree.feature.tobytes(), self.tree.goes_left.tobytes()
        return self.number, *tree, self.last, self.clip, self.salt


@dataclass(frozen=True)
class PublicTree:
    """Splits of a complete tree, shape (2**depth - 1,) and one byte per code, drawn without reading rows.

    `cell` says which group of candidate splits each split was drawn from; all -1 if from none.
    """

    feature: NDArray[np.int32]
    goes_left: NDArray[np.uint8]
    cell: NDArray[np.int64]


ONE_LEAF = PublicTree(np.zeros(1, dtype=np.int32), np.ones((1, 256), dtype=np.uint8), np.array([-1]))
"""A tree whose first leaf has all rows; it is asked about, and not part of a model."""


@dataclass(frozen=True)
class LeafRelease:
    """Released sums over a tree's leaves, shape (n_leaves, n_outputs).

    `std` is σ, positive: the standard deviation of the noise in `gradient`.
    """

    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    std: float

    def part(self, leaves: slice) -> LeafRelease:
        """The release about a slice of the leaves."""
        return LeafRelease(self.gradient[leaves], self.hessian[leaves], self.std)
