"""The two baselines of the DPBoost paper: one composes all trees sequentially, one in parallel.

As in the paper both get gradient-based data filtering and the sensitivities
that follow from it, 3g*² for the gain and g*/(1 + λ) for a leaf value.
"""

from __future__ import annotations

import numpy as np

from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.boosting.training import TrainerInput
from lgb_dp.dpboost.square_loss import SquareLossTraining, TreePlan

_NO_CLIP = 1.0
"""A leaf value is at most g* anyway: |G| ≤ N g*."""


class _SequentialTraining(SquareLossTraining):
    def plan(self) -> TreePlan:
        rows = np.arange(self.data.num_data(), dtype=np.int32)
        return TreePlan(rows, _NO_CLIP, self.learning_rate, *self.group_and_part(self.iteration - 1))


class _ParallelTraining(SquareLossTraining):
    def __init__(self, task: TrainerInput, epsilon: float) -> None:
        super().__init__(task, epsilon=epsilon, variant="paper", trees_per_group=task.n_rounds)
        self._unused = np.arange(task.data.num_data(), dtype=np.int32)

    def plan(self) -> TreePlan:
        t = self.iteration - 1
        taken = self.random.coins(len(self._unused))
        rows, self._unused = self._unused[taken], self._unused[~taken]
        return TreePlan(rows, _NO_CLIP, self.learning_rate, *self.group_and_part(t))


class SequentialBoost(PrivateTrainer):
    """SEQ (after Liu et al., 2018): every tree trains on all rows and gets ε / T.

    Parameters
    ----------
    epsilon : float
        Total budget in nats, under adding or removing one row.
    random_state : int, optional
        For tests: fixes the noise, which voids the guarantee.
    public_init_model : bool
        Whether a model to continue from that carries no guarantee was trained on public data.
    budget : Budget, optional
        Pays for every training run when it starts; refused where it does not suffice.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If `epsilon` is not a positive finite number.
    """

    def begin(self, task: TrainerInput) -> _SequentialTraining:
        """Start a training run; called once per booster."""
        return _SequentialTraining(task, epsilon=self.epsilon, variant="paper", trees_per_group=1)


class ParallelBoost(PrivateTrainer):
    """PARA (after Zhao et al., INFOCOM 2018): every tree takes half of the rows not used yet, with all of ε.

    A coin is thrown for every unused row, so that adding a row changes no other row's tree.

    Parameters
    ----------
    epsilon : float
        Total budget in nats, under adding or removing one row.
    random_state : int, optional
        For tests: fixes the noise, which voids the guarantee.
    public_init_model : bool
        Whether a model to continue from that carries no guarantee was trained on public data.
    budget : Budget, optional
        Pays for every training run when it starts; refused where it does not suffice.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If `epsilon` is not a positive finite number.
    """

    def begin(self, task: TrainerInput) -> _ParallelTraining:
        """Start a training run; called once per booster."""
        return _ParallelTraining(task, self.epsilon)
