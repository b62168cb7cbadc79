"""The task of a run beside its user's settings, its questions about private rows, and their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lgb_dp.accounting.cost import Cost
from lgb_dp.accounting.ledger import Release
from lgb_dp.accounting.unit import Unit
from lgb_dp.boosting.training import Asking
from lgb_dp.mechanisms.noise import GaussianReserve, release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom, WordSource
from lgb_dp.newton.releases.trees import PublicTree

LONGEST_ROUND = 1.5
"""Learning rate times trees of a round, at most: all of them step from the same gradients, and from about 2
on they overshoot together."""


def largest_rate(trees_per_round: int) -> float:
    """The largest learning rate of trees that share gradients."""
    return math.inf if trees_per_round == 1 else LONGEST_ROUND / trees_per_round


Part = tuple[NDArray[np.int64], float, SecureRandom | GaussianReserve]
"""Sums of the rows that are here, which are private; the planned standard deviation of the noise in each of
them, in steps; and the stream that it is drawn from if all rows are here."""


@dataclass(frozen=True, eq=False)
class SumsQuestion:
    """A release that was charged, and this process's own answer before noise."""

    release: Release
    parts: Sequence[Part]
    trees: Sequence[PublicTree]  # whose leaves are summed; none for counts
    weight_steps: int  # integer steps of the largest weight
    n_rows: float | None  # released number of rows, None before it is known


@dataclass(frozen=True, eq=False)
class Answer:
    """The sums of all rows with noise; `factor` is its deviation over the planned one."""

    sums: Sequence[NDArray[np.int64]]
    factor: float = 1.0


def answered_here(question: SumsQuestion) -> Asking[Answer]:
    """Add the noise of a question whose rows are all here, or on workers that are asked for exact sums."""
    yield from ()
    return Answer([release_gaussian(*part) for part in question.parts])


@dataclass(frozen=True)
class RunTask:
    """The task of a run; without arguments, that of rows in one place."""

    n_trees: int | None = None  # that are trained, of those that the budget is planned for; by default all
    trees_per_round: int = 1  # grown on the same gradients, and released together
    largest_rate: float = math.inf  # bound of the learning rate
    n_runs: int = 1  # on the same rows, which share the budget
    noise_factor: float = 1.0  # planned standard deviation of leaf sums' noise, over what the budget demands
    unit: Unit | None = None  # of the guarantee; by default that of the rows
    set_aside: dict[str, Cost] = field(default_factory=dict)  # further costs, by their names in the ledger
    validation_fraction: float = 0.0  # probability with which a row is held out of training
    coins: WordSource | None = None  # of which rows are held out; by default the run's own secret stream
    by: str | int | None = None  # name or place of a column, by whose values held-out rows are counted
    may_distil: bool = True  # whether structures may be distilled
    may_set_level: bool = True  # whether one more question can be asked about all rows
    public_seed: bytes | None = None  # 32 bytes: structures are drawn from its stream, not as noise is
    ask: Callable[[SumsQuestion], Asking[Answer]] = answered_here  # gets the answer, with noise in it
