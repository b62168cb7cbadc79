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
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import PublicTree

LONGEST_ROUND = 1.5
"""Learning rate times trees of a round, at most: all of them step from the same gradients, and from about 2
on they overshoot together."""


Part = tuple[NDArray[np.int64], float, SecureRandom | GaussianReserve]
"""Sums of the rows that are here, which are private; the planned standard deviation of the noise in each of
them, in steps; and the stream that it is drawn from if all rows are here."""


@dataclass(frozen=True, eq=False)
class SumsQuestion:
    """A release that was charged, and this process's own answer before noise.

    Parameters
    ----------
    release : Release
    parts : sequence of Part
    trees : sequence of PublicTree
        Whose leaves are summed; none for counts.
    weight_steps : int
        Integer steps of the largest weight.
    n_rows : float or None
        Released number of rows, None before it is known.
    """

    release: Release
    parts: Sequence[Part]
    trees: Sequence[PublicTree]
    weight_steps: int
    n_rows: float | None


@dataclass(frozen=True, eq=False)
class Answer:
    """The sums of all rows with noise.

    Parameters
    ----------
    sums : sequence of ndarray of int64
        As in the question.
    factor : float
        Standard deviation of the noise over what was planned.
    """

    sums: Sequence[NDArray[np.int64]]
    factor: float = 1.0


def answered_here(question: SumsQuestion) -> Asking[Answer]:
    """Add the noise of a question whose rows are all here, or on workers that are asked for exact sums."""
    yield from ()
    return Answer([release_gaussian(*part) for part in question.parts])


@dataclass(frozen=True)
class RunTask:
    """The task of a run; without arguments, that of rows in one place.

    Parameters
    ----------
    n_trees : int, optional
        Iterations that are trained, of those that the budget is planned for; by default all.
    trees_per_round : int
        Trees that are grown on the same gradients, and whose sums are released together.
    largest_rate : float
        Bound of the learning rate.
    n_runs : int
        Runs on the same rows that share the budget.
    noise_factor : float
        Planned standard deviation of the noise in leaf sums, over what the budget demands.
    unit : Unit, optional
        Of the guarantee; by default that of the rows.
    set_aside : dict of str to Cost
        Further costs, by their names in the ledger.
    validation_fraction : float
        Probability with which a row is held out of training, for the table that ends the run.
    may_distil, may_set_level : bool
        Whether structures may be distilled, and one more question can be asked about all rows.
    public_seed : bytes, optional
        Key of a public stream for structures, 32 bytes; by default they are drawn like the noise.
    ask : callable
        Asks for the answer to a question, with noise in it; by default it is drawn here.
    """

    n_trees: int | None = None
    trees_per_round: int = 1
    largest_rate: float = math.inf
    n_runs: int = 1
    noise_factor: float = 1.0
    unit: Unit | None = None
    set_aside: dict[str, Cost] = field(default_factory=dict)
    validation_fraction: float = 0.0
    may_distil: bool = True
    may_set_level: bool = True
    public_seed: bytes | None = None
    ask: Callable[[SumsQuestion], Asking[Answer]] = answered_here
