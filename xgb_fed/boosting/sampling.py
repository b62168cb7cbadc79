"""Random samples of the rows and columns that a tree is grown on.

Other parties see the samples, so they come from a cryptographically secure stream: some samples reveal
neither the seed nor the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.errors import InvalidArgumentError

Draw = Callable[[NDArray[np.int64], int], NDArray[np.int64]]
"""Draws so many of some columns, ascending, no column twice."""

DrawRows = Callable[[int, float], NDArray[np.bool_]]
"""Draws each of so many rows with some probability."""


@dataclass(frozen=True)
class Sample:
    """The rows of a tree, and a factor for each row's gradients."""

    rows: NDArray[np.bool_]
    factor: NDArray[np.float32]


@dataclass(frozen=True)
class Sampling:
    """How rows and columns are drawn, anew for every tree.

    Each row is drawn with probability `subsample`, XGBoost's uniform sampling.  `goss` has two fractions of
    the rows: those with the largest gradients, and a random part of the others.  The other fractions are of
    all parties' columns for a tree, of those for a level of it, and of these for each node of the level.
    """

    subsample: float = 1.0
    goss: tuple[float, float] | None = None
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    colsample_bynode: float = 1.0

    def __post_init__(self) -> None:
        """Check the fractions."""
        for name in ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float, np.number)) and 0 < value <= 1):
                raise InvalidArgumentError(f"{name}={value!r} must be a number in (0, 1]")
        if self.goss is not None:
            if self.subsample != 1:
                raise InvalidArgumentError("goss and subsample cannot be used together")
            if not _are_fractions(self.goss):
                raise InvalidArgumentError(
                    f"goss={self.goss!r} must be two fractions in (0, 1) that add up to 1 at most"
                )

    def draw_rows(
        self, g: NDArray[np.float32], random: SecretStream, uniform: DrawRows | None = None
    ) -> Sample:
        """Draw the rows of a tree, from the stream unless there is another way for `subsample`.

        GOSS (Ke et al., 2017) keeps the rows with the largest Σ|g| over the classes, and of the others a
        random part whose gradients are multiplied by (1 − top) / other.  Equal gradients are kept in random
        order: in the rows' order, who sees the sample could count labels between its gaps.
        """
        n_rows = len(g)
        if self.goss is None:
            rows = np.ones(n_rows, dtype=bool)
            if self.subsample < 1 and uniform is not None:
                rows = uniform(n_rows, self.subsample)
            elif self.subsample < 1:
                rows = self.uniform_rows(n_rows, random)
            return Sample(rows, np.ones(n_rows, dtype=np.float32))
        top, other = self.goss
        n_top, n_other = max(1, round(top * n_rows)), max(1, round(other * n_rows))
        shuffled = random.permutation(n_rows)
        order = shuffled[np.argsort(-np.abs(g[shuffled]).sum(axis=1), kind="stable")]
        others = order[n_top:]
        drawn = others[random.permutation(len(others))[:n_other]]
        rows = np.zeros(n_rows, dtype=bool)
        rows[order[:n_top]] = rows[drawn] = True
        factor = np.ones(n_rows, dtype=np.float32)
        factor[drawn] = np.float32((1 - top) / other)
        return Sample(rows, factor)

    def uniform_rows(self, n_rows: int, random: SecretStream) -> NDArray[np.bool_]:
        """Draw each of so many rows with probability `subsample`, by uniform multiples of 2^-53."""
        numbers = np.ldexp((random.words(1, n_rows)[0] >> np.uint64(11)).astype(np.float64), -53)
        return np.asarray(numbers < self.subsample, dtype=np.bool_)

    @property
    def draws_columns(self) -> bool:
        """Whether not every node may be split at every column."""
        return min(self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode) < 1

    def draw_columns(
        self, columns: NDArray[np.int64], random: SecretStream, some_of: Draw | None = None
    ) -> TreeColumns:
        """Columns of a tree among the searching parties' ascending ones, by the stream or `some_of`."""

        def from_stream(among: NDArray[np.int64], count: int) -> NDArray[np.int64]:
            return np.sort(among[random.permutation(len(among))[:count]])

        fractions = (self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode)
        return TreeColumns(columns, fractions, some_of if some_of is not None else from_stream)


@dataclass
class TreeColumns:
    """The columns of one tree, of its levels and of its nodes, drawn as XGBoost draws them.

    The fractions are of all columns, `among`, for the tree, of those for a level, and of these for a node.
    """

    among: NDArray[np.int64]
    fractions: tuple[float, float, float]
    some_of: Draw
    of_tree: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Draw those of the tree."""
        self.of_tree = self._draw(self.among, self.fractions[0])

    def _draw(self, columns: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
        if fraction == 1 or not len(columns):
            return columns
        # The product of two float32 numbers, as XGBoost computes it.
        return self.some_of(columns, max(1, int(np.float32(fraction) * np.float32(len(columns)))))

    def of_nodes(self, n_nodes: int) -> list[NDArray[np.int64]] | None:
        """Draw the columns of each node of the next level; None means the tree's."""
        _, by_level, by_node = self.fractions
        if by_level == by_node == 1:
            return None
        of_level = self._draw(self.of_tree, by_level)
        return [self._draw(of_level, by_node) for _ in range(n_nodes)]


def _are_fractions(goss: Any) -> bool:
    """Whether these are two positive numbers that add up to 1 at most."""
    if not (isinstance(goss, (tuple, list)) and len(goss) == 2):
        return False
    return all(isinstance(part, (int, float)) and 0 < part < 1 for part in goss) and sum(goss) <= 1
