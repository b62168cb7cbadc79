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

    Parameters
    ----------
    number : int
        Of the round that released it, from 1 on.
    tree : PublicTree
    value : ndarray of float64, shape (n_leaves, n_outputs)
        Log-odds, or predictions on the scale of [-1, 1]; the prior is not part of them.
    """

    number: int
    tree: PublicTree
    value: NDArray[np.float64]


@dataclass(frozen=True)
class Round:
    """Round of training: the questions about the rows.

    Parameters
    ----------
    number : int
        Of the iteration that the tree is for.
    tree : PublicTree
        Whose leaves are summed.
    prior : ndarray of float64, shape (n_outputs,)
        Added to the start scores of all rows.
    released : sequence of ReleasedTree
        All trees of the model so far.
    clip : float
        Of gradients, as the loss's `start` found it.
    salt : int, optional
        Rows are divided by `held_out`, those that train and those that are held out; None divides none.
    """

    number: int
    tree: PublicTree
    prior: NDArray[np.float64]
    released: Sequence[ReleasedTree]
    clip: float = 1.0
    salt: int | None = None

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
        """Number of the last released tree, 0 if there is none."""
        return self.released[-1].number if self.released else 0

    @property
    def key(self) -> tuple[object, ...]:
        """All by which questions of a run differ: a number comes again after an interrupted round."""
        tree = self.tree.feature.tobytes(), self.tree.goes_left.tobytes()
        return self.number, *tree, self.last, self.clip, self.salt


@dataclass(frozen=True)
class PublicTree:
    """Splits of a complete tree, drawn without reading rows.

    Parameters
    ----------
    feature : ndarray of int32, shape (2**depth - 1,)
    goes_left : ndarray of uint8, shape (2**depth - 1, 256)
    cell : ndarray of int64, shape (2**depth - 1,)
        Which group of candidate splits each split was drawn from; all -1 if from none.
    """

    feature: NDArray[np.int32]
    goes_left: NDArray[np.uint8]
    cell: NDArray[np.int64]


ONE_LEAF = PublicTree(np.zeros(1, dtype=np.int32), np.ones((1, 256), dtype=np.uint8), np.array([-1]))
"""A tree whose first leaf has all rows; it is asked about, and not part of a model."""


@dataclass(frozen=True)
class LeafRelease:
    """Release about a tree's leaves.

    Parameters
    ----------
    gradient, hessian : ndarray of float64, shape (n_leaves, n_outputs)
        Released sums.
    std : float
        σ, positive: standard deviation of the noise in `gradient`.
    """

    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    std: float

    def part(self, leaves: slice) -> LeafRelease:
        """Of some of the leaves."""
        return LeafRelease(self.gradient[leaves], self.hessian[leaves], self.std)
