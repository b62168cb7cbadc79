"""NewtonBoost in rounds of several trees, each of which is one job."""

from __future__ import annotations

from typing import Any

from gbdt_commons.public.inherited_parameters import inherits_parameters
from lgb_dp.boosting.training import TrainerInput, Training
from lgb_dp.checks import checked_integer
from lgb_dp.newton.core import NewtonCore
from lgb_dp.newton.run_task import RunTask, largest_rate
from lgb_dp.newton.trainer import NewtonBoost

TREES_PER_ROUND = 10
MAX_TREES_PER_ROUND = 1024


@inherits_parameters()
class NewtonBoostInRounds(NewtonBoost):
    """NewtonBoost whose trees of a round share gradients and are released together.

    Parameters
    ----------
    trees_per_round : int
        From 1, with which models are those of `NewtonBoost`.  Times the learning rate at most 1.5.
    """

    def __init__(
        self, epsilon: float, delta: float, *, trees_per_round: int = TREES_PER_ROUND, **others: Any
    ) -> None:
        self.trees_per_round = trees_per_round
        super().__init__(epsilon, delta, **others)

    def _check_settings(self) -> None:
        super()._check_settings()
        of_round = checked_integer("trees_per_round", self.trees_per_round, 1, MAX_TREES_PER_ROUND)
        self.trees_per_round = of_round

    def begin(self, task: TrainerInput) -> Training:
        """Start a training run; called once per booster."""
        n_trees, held_out = self.trees_per_round, self.validation_fraction
        of_run = RunTask(None, n_trees, largest_rate(n_trees), validation_fraction=held_out, by=self.by)
        return NewtonCore(task, self, of_run)
