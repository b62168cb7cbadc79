"""NewtonBoost, the recommended trainer: many small Newton steps on trees whose splits are public.

It is Friedman's gradient boosting with second-order leaf values, in which the data is read in one place only:
the sums of gradients and hessians over the leaves of a tree whose splits were drawn before
(`lgb_dp.newton.leaf_sums`).  There is one Gaussian release per tree, and every tree reads all rows.  Releases
compose exactly although each depends on those before (`lgb_dp.accounting.gaussian`).
Everything else (leaf values, which splits are drawn more often, when to stop) follows from what was released.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts import lightgbm as host
from gbdt_kernels.trees import by_columns
from lgb_dp.accounting.budget import Budget
from lgb_dp.boosting.labels import REGRESSIONS
from lgb_dp.boosting.params import MAX_DEPTH
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.boosting.training import Training, TrainingTask
from lgb_dp.boosting.tree import PrivateTree
from lgb_dp.checks import (
    AUTO,
    POSITIVE_OR_INFINITE,
    SHARE,
    Auto,
    Interval,
    checked_choice,
    checked_delta,
    checked_integer,
    checked_number,
    delta_note,
)
from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import (
    InterruptedTrainingError,
    InvalidArgumentError,
    NotPrivateWarning,
)
from lgb_dp.mechanisms.noise import GaussianReserve, release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.budget_plan import BudgetPlan
from lgb_dp.newton.distilled_splits import (
    DistilledSplits,
    FeatureHistograms,
    released_cells,
    start_scores,
    surrogate_rows,
)
from lgb_dp.newton.leaf_sums import LeafSums, LocalLeafSums, ReleasedTree, Round, RowsElsewhere
from lgb_dp.newton.learned_splits import OPENING_DEPTH, LearnedSplits
from lgb_dp.newton.loss import EXACT_STD, STEPS, Loss, Start
from lgb_dp.newton.model_memory import check_model_fits
from lgb_dp.newton.monotone import MonotoneConstraints
from lgb_dp.newton.public_splits import (
    CyclicSplits,
    LeafRelease,
    PublicSplits,
    PublicTree,
    RandomSplits,
    StructureKind,
)
from lgb_dp.newton.regression_losses import loss_of
from lgb_dp.newton.settings import (
    GRADIENT_CLIP,
    SHRINKAGE,
    automatic_depth,
    automatic_rate,
    balanced_rows,
    distilled_depth,
    nu_of_depth,
    nu_of_rate,
)
from lgb_dp.newton.step_size import StepSize


class _NewtonTraining(Training):
    """State of one training run of NewtonBoost."""

    sigmoid = 1.0
    can_be_monotone = True
    objectives = ("binary", "multiclass", *sorted(REGRESSIONS))
    _noise_factor = 1.0

    def __init__(self, task: TrainingTask, trainer: NewtonBoost) -> None:
        super().__init__(task)
        self.settings = trainer
        self._is_exact = math.isinf(trainer.epsilon)
        self._plan_budget()
        self.loss = self._loss()
        if not self._is_exact:
            self._make_reserves()
        given = task.params.given
        self._depth = self._checked_depth(task.params.depth if "max_depth" in given else None)
        self._rate = task.params.learning_rate if "learning_rate" in given else None
        if self._depth is not None:
            check_model_fits(self._depth, self.n_rounds, task.params.n_outputs)
        assert self.data.bins is not None
        self._constraints = MonotoneConstraints(task.params.monotone, self.data.bins)
        if task.train_set._predictor is not None:
            self._constraints.check_model(host.tree_blocks(host.predictor_text(task.train_set._predictor)))
        self._leaf_sums = self._where_the_rows_are()
        self._released: list[ReleasedTree] = []
        self._splits: PublicSplits | None = None
        self._step_size: StepSize | None = None
        self._prior = np.zeros(task.params.n_outputs)
        self._start: Start

    def _where_the_rows_are(self) -> LeafSums:
        data, subsample = self.train_set, self.settings.subsample
        if isinstance(data, RowsElsewhere):
            return data.leaf_sums(self.loss, self.label_scale, subsample)
        return LocalLeafSums(
            by_columns(self.codes, self.params.n_threads),
            self.label,
            self.weight,
            self.loss,
            self.label_scale,
            self.data.start_scores,
            self.params.n_threads,
            subsample,
            partial(self.data.draw_words, self.random),
        )

    def _loss(self) -> Loss:
        clip, share = self.settings.gradient_clip, self.settings.hessian_share
        given = None if clip == "auto" else clip
        return loss_of(self.label_scale, given, 0.0 if share == "auto" else share, self._mu)

    def _check_group_mean(self) -> None:
        """A person's rows weigh w₁, w₂, … of sum at most w̄, and each release is linear in the weights.

        By the triangle inequality the rows together add at most w̄ times the longest row to the sums.
        """

    def _checked_depth(self, asked: int | None) -> int | None:
        """Depth as the callback or LightGBM's parameters give it, None if they leave it open."""
        depth = self.settings.depth
        if depth == "auto":
            return asked
        if asked not in (None, depth):
            raise InvalidArgumentError(
                f"max_depth={asked} and depth={depth} of NewtonBoost differ; give only one of the two"
            )
        return depth

    def _plan_budget(self) -> None:
        settings = self.settings
        if self._is_exact:
            self._mu = self._prior_mu = math.inf
            self.train_without_privacy()
            return
        of_run = (settings.epsilon, settings.delta, self.n_rounds, settings.subsample)
        self._plan = BudgetPlan(self.ledger, *of_run, may_distil=self._may_distil)
        self._mu, self._prior_mu = self._plan.mu, self._plan.counts.mu

    @property
    def _may_distil(self) -> bool:
        """Whether structures may be distilled: not for other losses, for which nothing was gained by it."""
        return self.settings.structure == "auto" and self.params.objective in GRADIENT_CLIP

    def _make_reserves(self) -> None:
        """The noise that a tree's leaf sums get, once it is known what they may cost."""
        scales = [self.weight_steps * std for std in self.loss.stds(self._plan.tree.mu)]
        self._noise_g, self._noise_h = (GaussianReserve(scale, self.random) for scale in scales)

    # The first release: how many rows there are, and the mean of the label.

    def _begin(self) -> PublicSplits:
        """Release label counts once; from them follow the prior and the automatic settings."""
        if self.iteration > 1:
            text = "training was interrupted in its first release and cannot continue; start it anew"
            raise InterruptedTrainingError(text)
        self._n_rows = self._release_label_counts()
        self._judge_delta()
        nu, objective = self._n_rows * self._mu, self.params.objective
        opening_depth = OPENING_DEPTH if self._depth is None else min(OPENING_DEPTH, self._depth)
        depth = automatic_depth(nu_of_depth(self._n_rows, self._mu)) if self._depth is None else self._depth
        if self._rate is None:
            self._rate = automatic_rate(nu_of_rate(self._n_rows, self._mu), self.n_rounds, objective)
            self._step_size = StepSize(self.n_rounds, objective, self.weight_steps)
        bins, structure = self.data.bins, self.settings.structure
        assert bins is not None
        if structure == "cyclic":
            return CyclicSplits(bins, self._depth)
        if structure == "random":
            return RandomSplits(bins, depth)
        rows = balanced_rows(self._n_rows, self.params.objective, self._start.prior)
        distilled = distilled_depth(nu, self._n_rows, rows, int(np.sum(bins.n_bins > 1)))
        if distilled is None or not self._may_distil:
            return LearnedSplits(bins, depth, self.n_rounds, opening_depth)
        surrogate = surrogate_rows(self._release_feature_histograms(bins), bins, self.random)
        start = start_scores(surrogate, bins, self.data._predictor, self.label_scale) + self._prior
        greedy_depth = distilled[0] if self._depth is None else self._depth
        sizes = (depth, greedy_depth, self.n_rounds, opening_depth)
        model = (objective, surrogate, start, self._released)
        return DistilledSplits(bins, *sizes, *model, has_trial=distilled[1])

    def _release_feature_histograms(self, bins: PublicBins) -> FeatureHistograms:
        """Noisy numbers of rows in every bin of every feature.

        A row adds its weight, at most w̄, to one bin of each of d features: √d w̄ in length.
        """
        cells, scale = released_cells(bins), 0.0
        if not self._is_exact:
            self._plan.charge_histograms()
            self._make_reserves()
            scale = (
                np.sqrt(np.sum(bins.n_bins > 1)) * (1 + 1e-12) * self.weight_steps / self._plan.histograms.mu
            )
        sums = self._leaf_sums.feature_counts(bins.layout())
        if not self._is_exact:
            (sums[cells],) = self._with_noise((sums[cells], scale, self.random))
            scale *= self._noise_factor
        counts = np.where(cells, sums / self.weight_steps, 0.0)
        return FeatureHistograms.of(counts, scale / self.weight_steps, bins)

    def _judge_delta(self) -> None:
        """Warn of a δ, with that of earlier results, above one over the released number of rows."""
        note = delta_note(self.ledger.granted_delta + self.ledger.cost.delta, self._n_rows)
        if note is not None:
            self.notes.append(note)
            warnings.warn(note, NotPrivateWarning, stacklevel=8)

    def _release_label_counts(self) -> float:
        """Noisy number of rows; sets the prior unless training continues a model.

        A row adds a vector that is at most its weight long, at most w̄ (`Loss.label_counts`).  Noise w̄/μ is
        μ-GDP.
        """
        sums, unit = self._leaf_sums.label_counts(), STEPS * self.weight_steps
        if not self._is_exact:
            self.ledger.charge(self._plan.counts)
            (sums,) = self._with_noise((sums, unit / self._prior_mu, self.random))
        self._start = self.loss.start(sums / unit, self._noise_factor / self._prior_mu)
        if not self.continues:
            self._prior = self._start.prior
        return self._start.n_rows

    # Trees.

    def grow_iteration(self) -> list[PrivateTree]:
        """One structure, one release, one tree per output."""
        if self._splits is None:
            self._splits = self._begin()
        assert self._rate is not None
        del self._released[len(self.trees) :]  # what was rolled back, or interrupted
        tree = self._splits.draw(self.random)
        release = self._release(tree)

        # Post-processing.  Below the noise, σ_g in the denominator keeps a leaf's step small.
        start, bound = self._start, self.loss.largest_value
        lambda_l2 = self.params.lambda_l2 / (self.weight_bound * start.hessian_unit)
        denominator = np.maximum(release.hessian, 0.0) + lambda_l2 + SHRINKAGE * release.std
        value = -release.gradient / denominator
        value = np.clip(value, -bound, bound) * (self._rate * start.value_unit)
        if self._step_size is not None:
            value *= self._step_size.factor(release, denominator) * self._splits.rate_factor
        value = self._constraints.hold(tree, value, denominator)
        self._splits.learn(tree, release, value)
        self._released.append(ReleasedTree(self.iteration, tree, value))
        if not self.trees and not self.continues:
            value = value + self._prior
        # In rows of the largest weight.  LightGBM adds counts in 32 bits.
        count = (
            np.rint(release.hessian / start.row_hessian).clip(1, (2**31 - 1) // len(value)).astype(np.int64)
        )
        return [
            PrivateTree(
                feature=tree.feature,
                goes_left=tree.goes_left,
                leaf_value=value[:, k] * self.label_scale.scale,
                leaf_count=count[:, k],
                learning_rate=self._rate,
            )
            for k in range(self.params.n_outputs)
        ]

    def _release(self, tree: PublicTree) -> LeafRelease:
        """Noisy sums of gradients and hessians over the tree's leaves.

        A row is in one leaf, and what it adds there is at most μ long in units of the noise
        (`lgb_dp.newton.loss`; weights are at most `weight_steps`), so the release is μ-GDP; with a secret
        Poisson sample of the rows its cost is `dp_accounting`'s.
        """
        probability = self.settings.subsample
        if not self._is_exact:
            self.ledger.charge(self._plan.tree)
        question = Round(self.iteration, tree, self._prior, self._released, self._start.clip)
        sums = self._leaf_sums.sums(question)
        expected = STEPS * self.weight_steps * probability
        if self._is_exact:
            return LeafRelease(sums[:, :, 0] / expected, sums[:, :, 1] / expected, EXACT_STD)
        gradient, hessian = self._with_noise(
            (sums[:, :, 0], self._noise_g.scale, self._noise_g),
            (sums[:, :, 1], self._noise_h.scale, self._noise_h),
        )
        std = self._noise_factor * self._noise_g.scale / expected
        return LeafRelease(gradient / expected, hessian / expected, std)

    def _with_noise(
        self, *parts: tuple[NDArray[np.int64], float, SecureRandom | GaussianReserve]
    ) -> list[NDArray[np.int64]]:
        """One release's sums with noise; several parties each add a share of it (`lgb_dp.federated`)."""
        return [release_gaussian(*part) for part in parts]

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change the learning rate of later trees."""
        super().reset_parameter(params)
        if params:
            self._rate, self._step_size = self.learning_rate, None

    def parameters(self) -> Mapping[str, str]:
        """Public settings, for the model file."""
        settings = {
            "boosting": "gbdt",
            "objective": self.params.objective,
            "num_iterations": str(self.n_rounds),
            "lambda_l2": repr(self.params.lambda_l2),
            **{name: repr(value) for name, value in self.params.of_objective.items()},
        }
        if self._rate is not None and self._splits is not None:
            settings |= {"learning_rate": repr(self._rate), "max_depth": str(self._splits.depth)}
        return settings


class NewtonBoost(PrivateTrainer):
    """Callback that makes `lightgbm.train` train NewtonBoost, the recommended trainer.

    Parameters
    ----------
    epsilon, delta : float
        Total budget (ε in nats) under adding or removing one row.  δ must be far below one over the number of
        rows.  ε may be infinite: sums then get no noise, and the report says that the model is not private.
    rounds : "auto" or int
        Trees (times classes) that the budget is planned for; at least `num_boost_round`, which "auto" takes.
    structure : {"auto", "random", "cyclic"}
        "random" draws a feature and a threshold for every node.  "auto" begins with trees of one feature each
        (`lgb_dp.newton.learned_splits`) and goes on drawing more often where splits explained most.
        "cyclic" has trees of one feature each throughout, every bin a leaf if `depth` has room for it.
    depth : "auto" or int
        Levels of splits at most, unless LightGBM's parameters give `max_depth`.  With "auto", the first trees
        may have more levels than the others.
    hessian_share : "auto" or float
        Share of every tree's budget set aside for hessians, in [0, 1).  "auto" is 0: bounded jointly with the
        gradients, hessians are free (`lgb_dp.newton.loss`).
    gradient_clip : "auto" or float
        Bound of a gradient's size over its largest possible size, in (0, 1].  For regression this makes the
        loss Huber's, with a threshold of `gradient_clip` times the width of `label_bounds`.  With a
        logarithmic link "auto" follows from the released label counts; "huber", "quantile" and
        "regression_l1" accept "auto" alone.
    subsample : float
        Share of the rows that a tree trains on, drawn anew and in secret, in (0, 1].  All rows is the most
        accurate choice: what sampling saves is less than the noise it makes room for.  It saves time.
    random_state : int, optional
        For tests: fixes the noise, which voids the guarantee.
    public_init_model : bool
        Whether a model to continue from that carries no guarantee was trained on public data.
    budget : Budget, optional
        Pays for every training run when it starts; refused where it does not suffice.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted.

    Notes
    -----
    Objectives are "binary", "multiclass" and LightGBM's for regression: "regression", "regression_l1",
    "huber", "quantile", "poisson", "gamma" and "tweedie" (`lgb_dp.newton.regression_losses`).
    `learning_rate` and `max_depth` among LightGBM's parameters are honoured if given and chosen otherwise
    (`lgb_dp.newton.settings`).  So is `monotone_constraints`, at no cost of privacy
    (`lgb_dp.newton.monotone`).

    Examples
    --------
    >>> train = lgb_dp.Dataset(X, y, bounds=(low, high), max_bin=255, spacing="mixed")  # doctest: +SKIP
    >>> booster = lightgbm.train({"objective": "binary"}, train, 500,
    ...                          callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])             # doctest: +SKIP
    """

    accepted_epsilon = POSITIVE_OR_INFINITE

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        rounds: int | Auto = "auto",
        structure: StructureKind = "auto",
        depth: int | Auto = "auto",
        hessian_share: float | Auto = "auto",
        gradient_clip: float | Auto = "auto",
        subsample: float = 1.0,
        random_state: int | None = None,
        public_init_model: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self.delta = delta
        self.rounds = rounds
        self.structure = structure
        self.depth = depth
        self.hessian_share = hessian_share
        self.gradient_clip = gradient_clip
        self.subsample = subsample
        super().__init__(
            epsilon, random_state=random_state, public_init_model=public_init_model, budget=budget
        )

    def _check_settings(self) -> None:
        super()._check_settings()
        self.delta = checked_delta(self.delta)
        self.rounds = checked_integer("rounds", self.rounds, 1, None, AUTO)
        self.structure = checked_choice("structure", self.structure, get_args(StructureKind))
        self.depth = checked_integer("depth", self.depth, 1, MAX_DEPTH, AUTO)
        self.hessian_share = checked_number("hessian_share", self.hessian_share, Interval(0, 1, "[)"), AUTO)
        self.gradient_clip = checked_number("gradient_clip", self.gradient_clip, Interval(1 / STEPS, 1), AUTO)
        self.subsample = checked_number("subsample", self.subsample, SHARE)

    def planned_rounds(self, n_rounds: int) -> int:
        """`rounds`, where it was given; raises a ValueError if more would be trained."""
        if self.rounds == "auto":
            return n_rounds
        if self.rounds < n_rounds:
            raise InvalidArgumentError(
                f"rounds={self.rounds} is less than num_boost_round={n_rounds}; "
                "the budget must be planned for at least as many"
            )
        return self.rounds

    def begin(self, task: TrainingTask) -> _NewtonTraining:
        """Start a training run; called once per booster."""
        return _NewtonTraining(task, self)
