"""DPBoost, the trainer of Li et al.: private boosting with an ensemble of ensembles.

Li, Wu, Wen and He, "Privacy-Preserving Gradient Boosting Decision Trees",
AAAI 2020, Algorithm 2.  Within an ensemble every row trains one tree, so the
trees' costs are parallel; ensembles follow one another and their costs add.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.public.inherited_parameters import inherits_parameters
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.boosting.training import TrainerInput
from lgb_dp.checks import PROPER_SHARE, checked_choice, checked_flag, checked_integer, checked_number
from lgb_dp.dpboost.square_loss import SquareLossTraining, TreePlan, Variant
from lgb_dp.mechanisms.rng import SecureRandom

MAX_TREES_PER_ENSEMBLE = 2**16 - 1
"""The number of a row's tree is kept in 16 bits."""


def draw_tree_of_row(
    n_rows: int, n_trees: int, learning_rate: float, random: SecureRandom
) -> NDArray[np.uint16]:
    """Tree of an ensemble that each row trains, drawn for every row on its own.

    Tree t gets a row with probability η(1-η)^t / (1-(1-η)^T): in expectation the paper's sizes.  The paper
    picks fixed numbers of rows; then adding a row changes which others are picked, and the trees' costs are
    not parallel.  η is in (0, 1].  The draws depend on no data and need not stay secret.
    """
    probability = (1.0 - learning_rate) ** np.arange(n_trees)
    upper = np.cumsum(probability / probability.sum())[:-1]
    thresholds = np.minimum(upper, np.nextafter(1.0, 0.0)) * 2.0**64
    return np.searchsorted(thresholds.astype(np.uint64), random.words(n_rows), side="right").astype(np.uint16)


class _DPBoostTraining(SquareLossTraining):
    """State of one training run of DPBoost."""

    def __init__(self, task: TrainerInput, trainer: DPBoost) -> None:
        super().__init__(
            task,
            epsilon=trainer.epsilon,
            variant=trainer.variant,
            # The trees of an ensemble read disjoint rows; without ensembles each reads all of them.
            trees_per_group=trainer.trees_per_ensemble if trainer.eoe else 1,
            leaf_share=trainer.leaf_share,
            gdf=trainer.gdf,
        )
        self.trees_per_ensemble = trainer.trees_per_ensemble
        self.glc = trainer.glc
        self.eoe = trainer.eoe
        self._ensemble: tuple[int, float, list[NDArray[np.int32]]] = (-1, 0.0, [])

    def plan(self) -> TreePlan:
        """Position in the ensemble decides the rows and the clip; η is frozen within an ensemble."""
        t = self.iteration - 1
        number, position = divmod(t, self.trees_per_ensemble)
        if self._ensemble[0] != number:  # also where the first tree's iteration was interrupted
            self._ensemble = (number, self.learning_rate, self._drawn(t - position))
        _, rate, rows_of_tree = self._ensemble
        # Geometric leaf clipping: |V_t| ≤ g*(1-η)^t when a leaf holds a single row (the paper's Theorem 6).
        clip = (1.0 - rate) ** position if self.glc else 1.0
        group, part = self.group_and_part(t)
        return TreePlan(rows_of_tree[position], max(clip, np.finfo(float).tiny), rate, group, part)

    def _drawn(self, first: int) -> list[NDArray[np.int32]]:
        """Rows of each tree of the ensemble that begins with tree `first`."""
        n_rows, n_trees = self.data.num_data(), min(self.trees_per_ensemble, self.n_rounds - first)
        if not self.eoe:
            return [np.arange(n_rows, dtype=np.int32)] * n_trees
        tree_of_row = draw_tree_of_row(n_rows, n_trees, self.learning_rate, self.random)
        order = np.argsort(tree_of_row, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(tree_of_row, minlength=n_trees))
        return np.split(order, ends[:-1])


@inherits_parameters(before="random_state")
class DPBoost(PrivateTrainer):
    """Callback that makes `lightgbm.train` train DPBoost.

    Parameters
    ----------
    epsilon : float
        Total budget in nats of pure differential privacy, under adding or removing one row.
    variant : {"tight", "paper"}
        "paper" is the published algorithm; "tight" the same with a tighter analysis (see
        `lgb_dp.dpboost.square_loss`): less noise for the same ε.
    trees_per_ensemble : int
        Trees that share one ensemble's rows; ε is divided by the number of ensembles.
    leaf_share : float
        Share of a tree's budget that goes to its leaves, in (0, 1); the paper's is one half.
    gdf : bool
        Gradient-based data filtering: rows with ``|g| > g*`` sit a tree out.  Without it, gradients are
        clipped.
    glc : bool
        Geometric leaf clipping: leaf values of tree t are bounded by g*(1-η)^t.
    eoe : bool
        Ensemble of ensembles.  Without it every tree trains on all rows and gets ε / T.

    Examples
    --------
    >>> train = lgb_dp.Dataset(X, y, bounds=(0, 1))                                     # doctest: +SKIP
    >>> booster = lightgbm.train({"objective": "binary"}, train, 50,
    ...                          callbacks=[lgb_dp.DPBoost(epsilon=1.0)])               # doctest: +SKIP
    """

    def __init__(
        self,
        epsilon: float,
        *,
        variant: Variant = "tight",
        trees_per_ensemble: int = 50,
        leaf_share: float = 0.5,
        gdf: bool = True,
        glc: bool = True,
        eoe: bool = True,
        **others: Any,
    ) -> None:
        self.variant = variant
        self.trees_per_ensemble = trees_per_ensemble
        self.leaf_share = leaf_share
        self.gdf = gdf
        self.glc = glc
        self.eoe = eoe
        super().__init__(epsilon, **others)

    def _check_settings(self) -> None:
        super()._check_settings()
        self.variant = checked_choice("variant", self.variant, get_args(Variant))
        self.trees_per_ensemble = checked_integer(
            "trees_per_ensemble", self.trees_per_ensemble, 1, MAX_TREES_PER_ENSEMBLE
        )
        self.leaf_share = checked_number("leaf_share", self.leaf_share, PROPER_SHARE)
        self.gdf = checked_flag("gdf", self.gdf)
        self.glc = checked_flag("glc", self.glc)
        self.eoe = checked_flag("eoe", self.eoe)

    def begin(self, task: TrainerInput) -> _DPBoostTraining:
        """Start a training run; called once per booster."""
        return _DPBoostTraining(task, self)


# The paper's two baselines: one composes all trees sequentially, one in parallel.  As in the paper both get
# gradient-based data filtering and its sensitivities, 3g*² for the gain and g*/(1 + λ) for a leaf value.
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


@inherits_parameters()
class SequentialBoost(PrivateTrainer):
    """SEQ (after Liu et al., 2018): every tree trains on all rows and gets ε / T."""

    def begin(self, task: TrainerInput) -> _SequentialTraining:
        """Start a training run; called once per booster."""
        return _SequentialTraining(task, epsilon=self.epsilon, variant="paper", trees_per_group=1)


@inherits_parameters()
class ParallelBoost(PrivateTrainer):
    """PARA (after Zhao et al., INFOCOM 2018): every tree takes half of the rows not used yet, with all of ε.

    A coin is thrown for every unused row, so that adding a row changes no other row's tree.
    """

    def begin(self, task: TrainerInput) -> _ParallelTraining:
        """Start a training run; called once per booster."""
        return _ParallelTraining(task, self.epsilon)
