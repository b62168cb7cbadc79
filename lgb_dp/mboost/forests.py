"""Private random decision forests, the baselines of the M-loss paper.

Nock and Henecka, "Boosted and Differentially Private Ensembles of Decision
Trees", 2020, Section 17.2, after Fletcher and Islam.  Splits are drawn at
random without a look at the data, so they are public; the budget is for the
leaves.  A leaf votes for one class, and the forest for the class most voted.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.public.inherited_parameters import inherits_parameters
from lgb_dp.accounting.cost import share
from lgb_dp.accounting.ledger import Release
from lgb_dp.boosting.levels import random_structure
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.boosting.training import Asking, TrainerInput, Training
from lgb_dp.boosting.tree import PrivateTree
from lgb_dp.errors import UnsupportedParameterError
from lgb_dp.mboost.trainer import check_classes
from lgb_dp.mechanisms.noise import release_laplace, select, selection_scale


class _RandomForestTraining(Training):
    """Random trees on all rows; their costs add up.

    The leaves of a tree hold disjoint rows, so each may spend all of the tree's share: the paper divides it
    among them.
    """

    mechanism: str

    def __init__(self, task: TrainerInput, epsilon: float) -> None:
        super().__init__(task)
        if task.params.lambda_l2 != 0:
            raise UnsupportedParameterError(
                f"lambda_l2={task.params.lambda_l2!r} has no effect on a forest of votes; accepted is 0"
            )
        self.tree_epsilon = share(self.epsilon_per_row(epsilon), self.n_rounds)
        self.n_classes = max(2, task.params.n_outputs)
        number = self.label if self.n_classes > 2 else self.label == self.label_scale.high
        self._class = np.asarray(number, dtype=np.int64)
        self.ledger.grant(map(self._release_of_tree, range(self.n_rounds)))

    def _release_of_tree(self, t: int) -> Release:
        return Release("leaf votes", self.mechanism, self.tree_epsilon, t, 0)

    def grow_iteration(self) -> Asking[list[PrivateTree]]:
        """One random tree; with several outputs its copies say whether a leaf votes for their class."""
        yield from ()  # all rows are here
        self.ledger.charge(self._release_of_tree(self.iteration - 1))
        structure = random_structure(self.codes, self.tree_layout(), self.params.depth, self.random)
        n_leaves = len(structure.starts) - 1
        leaf = np.repeat(np.arange(n_leaves), np.diff(structure.starts))
        counts = np.zeros((n_leaves, self.n_classes), dtype=np.int64)
        np.add.at(counts, (leaf, self._class[structure.rows]), self.weight[structure.rows])
        vote, count = self.votes(counts)
        chosen = np.eye(self.n_classes)[vote]
        values = [2 * chosen[:, 1] - 1] if self.params.n_outputs == 1 else list(chosen.T)
        return [
            PrivateTree(
                feature=structure.feature,
                goes_left=structure.goes_left,
                leaf_value=value * self.learning_rate,
                leaf_count=count,
                learning_rate=self.learning_rate,
            )
            for value in values
        ]

    @abstractmethod
    def votes(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each leaf's vote, and its rows for SHAP; adding a row raises one of `counts` by `weight_steps`."""


class _LaplaceTraining(_RandomForestTraining):
    mechanism = "discrete Laplace"

    def votes(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        noised = release_laplace(counts, self.weight_steps, self.tree_epsilon, self.random)
        rows = np.rint(np.maximum(noised, 0).sum(axis=1) / self.weight_steps)
        # Two classes that tie in every leaf would otherwise always vote for the first.
        ties = self.random.words(*noised.shape)
        vote = np.lexsort((ties, noised), axis=1)[:, -1]
        return vote, rows.clip(1, (2**31 - 1) // len(noised)).astype(np.int64)


class _ExponentialTraining(_RandomForestTraining):
    mechanism = "exponential"

    def votes(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """P(class) ∝ exp(ε·weight / w̄): a row raises one class of one leaf, by at most w̄; the others stay."""
        scale = selection_scale(self.tree_epsilon, self.weight_steps)
        utilities = counts.astype(np.float64) * scale
        return select(utilities, self.random, self.params.n_threads), np.ones(len(counts), np.int64)


@inherits_parameters()
class RandomForestLaplace(PrivateTrainer):
    """RF-L: random trees whose leaves vote by class counts with Laplace noise; every tree gets ε / T."""

    def begin(self, task: TrainerInput) -> _LaplaceTraining:
        """Start a training run; called once per booster."""
        check_classes(task)
        return _LaplaceTraining(task, self.epsilon)


@inherits_parameters()
class RandomForestExponential(PrivateTrainer):
    """RF-E: random trees whose leaves draw their vote by the exponential mechanism; every tree gets ε / T."""

    def begin(self, task: TrainerInput) -> _ExponentialTraining:
        """Start a training run; called once per booster."""
        check_classes(task)
        return _ExponentialTraining(task, self.epsilon)
