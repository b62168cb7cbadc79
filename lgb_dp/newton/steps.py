"""How long the step of each tree is: the learning rate, and what shortens it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lgb_dp.newton.held_out_rows import HeldOutSteps
from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.step_size import StepSize


@dataclass
class Steps:
    """The steps of a training run."""

    rate: float  # the learning rate, given or chosen
    size: StepSize | None  # the rule that shortens a chosen rate; None for a given one
    largest: float  # bound of the rate times the factors of `size` and of the splits
    held_out: HeldOutSteps | None = None  # the rates that held-out rows speak for, if rows are held out
    least_std: float = 0.0  # noise in a sum of gradients, in rows, that leaf values are shrunk by at least

    @property
    def salt(self) -> int | None:
        """Salt by which rows are held out (`lgb_dp.newton.releases.trees.Round`); None if none are."""
        return None if self.held_out is None else self.held_out.salt

    def length(
        self,
        release: LeafRelease,
        held: LeafRelease | None,
        denominator: NDArray[np.float64],
        value: NDArray[np.float64],
        factor: float,
    ) -> float:
        """Length of a tree's step; takes note of what was released, of rows that train and that are held out.

        Denominators and values, shape (n_leaves, n_outputs), are of full steps; `factor` is that of a chosen
        rate, for the tree's kind of splits.
        """
        rate = self.rate
        if self.size is not None:
            rate = min(rate * (self.size.factor(release, denominator) * factor), self.largest)
        if self.held_out is not None and held is not None:
            rate = min(rate, self.held_out.largest_rate(value, held))
        return rate

    def reset(self, rate: float) -> None:
        """Use a given rate from the next tree on."""
        self.rate, self.size = rate, None
