"""The task of a run beside its user's settings: how rows at parties differ from those in one place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from lgb_dp.accounting.cost import Cost
from lgb_dp.accounting.unit import Unit
from lgb_dp.boosting.training import Asking
from lgb_dp.newton.releases.asked import Answer, Question, answered_here

LONGEST_ROUND = 1.5
"""Learning rate times trees of a round, at most: all of them step from the same gradients, and from about 2
on they overshoot together."""


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
    may_distil: bool = True
    may_set_level: bool = True
    public_seed: bytes | None = None
    ask: Callable[[Question], Asking[Answer]] = answered_here

    def __post_init__(self) -> None:
        # A stream that others know is no noise.
        assert self.public_seed is None or self.ask is not answered_here
