"""Rows and columns of a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sample:
    """Rows of a tree and the factor on each row's gradients."""

    rows: NDArray[np.bool_]
    factor: NDArray[np.float32]


@dataclass(frozen=True)
class Sampling:
    """How rows and columns are drawn, anew for every tree.

    Parameters
    ----------
    subsample : float
        Chance of each row; XGBoost's uniform sampling.
    goss : (float, float) or None
        Shares of rows: those with the largest gradients, and a random part of the others.
    colsample_bytree : float
        Share of all parties' columns.
    """

    subsample: float = 1.0
    goss: tuple[float, float] | None = None
    colsample_bytree: float = 1.0

    def __post_init__(self) -> None:
        """Check the shares."""
        for name in ("subsample", "colsample_bytree"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float, np.number)) and 0 < value <= 1):
                raise ValueError(f"{name}={value!r} must be a number in (0, 1]")
        if self.goss is not None:
            if self.subsample != 1:
                raise ValueError("goss and subsample cannot be used together")
            if not _are_shares(self.goss):
                raise ValueError(f"goss={self.goss!r} must be two shares in (0, 1), together 1 at most")

    def draw_rows(self, g: NDArray[np.float32], random: np.random.Generator) -> Sample:
        """Rows of a tree.

        GOSS (Ke et al., 2017) keeps the rows with the largest Σ|g| over the classes, and of the others a
        random part whose gradients are multiplied by (1 − top) / other.  Equal gradients are kept in random
        order: in the rows' order, who sees the sample could count labels between its gaps.
        """
        n_rows = len(g)
        if self.goss is None:
            everyone = np.ones(n_rows, dtype=bool)
            rows = random.random(n_rows) < self.subsample if self.subsample < 1 else everyone
            return Sample(rows, np.ones(n_rows, dtype=np.float32))
        top, other = self.goss
        n_top, n_other = max(1, round(top * n_rows)), max(1, round(other * n_rows))
        shuffled = random.permutation(n_rows)
        order = shuffled[np.argsort(-np.abs(g[shuffled]).sum(axis=1), kind="stable")]
        drawn = random.choice(order[n_top:], size=min(n_other, n_rows - n_top), replace=False)
        rows = np.zeros(n_rows, dtype=bool)
        rows[order[:n_top]] = rows[drawn] = True
        factor = np.ones(n_rows, dtype=np.float32)
        factor[drawn] = np.float32((1 - top) / other)
        return Sample(rows, factor)

    def draw_columns(self, n_columns: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Columns of a tree among all parties', as XGBoost draws them: without replacement, one at least."""
        if self.colsample_bytree == 1:
            return np.arange(n_columns)
        count = max(1, int(self.colsample_bytree * n_columns))
        return np.sort(random.choice(n_columns, size=count, replace=False))


def _are_shares(goss: Any) -> bool:
    """Whether these are two positive numbers that add up to 1 at most."""
    if not (isinstance(goss, (tuple, list)) and len(goss) == 2):
        return False
    return all(isinstance(share, (int, float)) and 0 < share < 1 for share in goss) and sum(goss) <= 1
