"""One training run of NewtonBoost: what it releases, and what follows from that.

The data is read in one place only (`lgb_dp.newton.releases.leaf_sums`): for label counts and histograms of
features before the first tree, and for the sums of gradients and hessians over the leaves of each tree, whose
splits were drawn before; where clips make means low, once more after the last tree, for sums over all rows
(`lgb_dp.newton.losses.level`).  There is one Gaussian release of each, and every tree reads all rows.
Releases compose exactly although each depends on those before (`lgb_dp.accounting.gaussian`).  Everything
else (leaf values, which splits are drawn more often, when to stop) follows from what was released.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts import lightgbm as host
from gbdt_kernels.trees import DenseCodes, by_columns
from lgb_dp.accounting.gaussian import composed_mu
from lgb_dp.accounting.ledger import Release
from lgb_dp.boosting.labels import REGRESSIONS
from lgb_dp.boosting.training import Asking, TrainerInput, Training
from lgb_dp.boosting.tree import PrivateTree
from lgb_dp.checks import Auto, delta_note
from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import (
    InvalidArgumentError,
    NotPrivateWarning,
)
from lgb_dp.host_errors import InterruptedTrainingError
from lgb_dp.mechanisms.noise import GaussianReserve, release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.budget_plan import BudgetPlan
from lgb_dp.newton.held_out_rows import HeldOutSteps, can_hold_out
from lgb_dp.newton.leaves import denominators, leaf_counts, leaf_values
from lgb_dp.newton.losses.label_counts import STDS_OF_DOUBT
from lgb_dp.newton.losses.level import Level
from lgb_dp.newton.losses.loss import EXACT_STD, STEPS, Loss, Start
from lgb_dp.newton.losses.regression import loss_of
from lgb_dp.newton.model_memory import check_model_fits
from lgb_dp.newton.monotone import MonotoneConstraints
from lgb_dp.newton.releases.leaf_sums import LeafSums, LocalLeafSums, RowsElsewhere
from lgb_dp.newton.releases.trees import ONE_LEAF, LeafRelease, PublicTree, ReleasedTree, Round
from lgb_dp.newton.separation import Separation
from lgb_dp.newton.settings import (
    GRADIENT_CLIP,
    LOG_LOSSES,
    MAX_MU_OF_SHRINKAGE,
    MAX_RATE,
    automatic_depth,
    automatic_rate,
    balanced_rows,
    distilled_depth,
    exact_depth,
    exact_rate,
    nu_of_depth,
    nu_of_rate,
)
from lgb_dp.newton.splits.distilled import DistilledSplits, start_scores, surrogate_rows
from lgb_dp.newton.splits.feature_histograms import (
    MIN_ROWS_OVER_STD,
    FeatureHistograms,
    features_with_many_bins,
    released_cells,
)
from lgb_dp.newton.splits.learned import OPENING_DEPTH, LearnedSplits
from lgb_dp.newton.splits.random import CyclicSplits, PublicSplits, RandomSplits, StructureKind
from lgb_dp.newton.splits.without_privacy import MAX_ROWS, ExactSplits
from lgb_dp.newton.step_size import StepSize
from lgb_dp.newton.steps import Steps

LONGEST_ROUND = 1.5
"""Learning rate times trees of a round, at most: all of them step from the same gradients, and from about 2
on they overshoot together."""

_Opened = tuple[PublicTree, LeafRelease, "LeafRelease | None"]
"""A tree, and what is released over its leaves: of the rows that train, and of those that are held out."""

FEW_ROWS_NOTE = (
    "the released number of rows does not stand out of its noise: the rows are few, or their labels are "
    "missing or none of the classes; hardly more than noise is in the model"
)


class NewtonSettings(Protocol):
    """Settings of `NewtonBoost` that a training run reads."""

    epsilon: float
    delta: float
    structure: StructureKind
    depth: int | Auto
    hessian_share: float | Auto
    gradient_clip: float | Auto
    subsample: float


@dataclass(frozen=True)
class Beginning:
    """The knowledge of a training run from its first release on.

    Parameters
    ----------
    start : Start
    prior : ndarray of float64, shape (n_outputs,)
        Added to the start scores; zeros where training continues a model.
    splits : PublicSplits
    steps : Steps
    separation : Separation or None
        Whether releases stand out of noise and chance; None where chance is not known.
    level : Level or None
        The release that ends the run, if it is planned.
    """

    start: Start
    prior: NDArray[np.float64]
    splits: PublicSplits
    steps: Steps
    separation: Separation | None
    level: Level | None


class NewtonTraining(Training):
    """State of one training run of NewtonBoost."""

    sigmoid = 1.0
    can_be_monotone = True
    objectives = ("binary", "multiclass", *sorted(REGRESSIONS))
    _noise_factor = 1.0
    _tree_noise_factor = 1.0
    """Standard deviation of the noise in leaf sums, over what the budget demands."""
    _per_round = 1
    """Trees that are grown on the same gradients, and whose sums are released together."""
    _n_runs = 1
    """Runs on the same rows that share the budget."""

    def __init__(self, task: TrainerInput, settings: NewtonSettings) -> None:
        super().__init__(task)
        self.settings = settings
        self._is_exact = math.isinf(settings.epsilon)
        self._plan_budget()
        self.loss = self._loss()
        if not self._is_exact:
            self._make_reserves()
        given = task.params.given
        self._depth = self._checked_depth(task.params.depth if "max_depth" in given else None)
        self._given_rate = task.params.learning_rate if "learning_rate" in given else None
        if self._given_rate is not None and self._given_rate > self._largest_rate:
            raise InvalidArgumentError(
                f"learning_rate={self._given_rate:g} must be at most {self._largest_rate:g} for "
                f"trees_per_round={self._per_round}: trees of a round step from the same gradients, and "
                f"beyond {LONGEST_ROUND} together they overshoot"
            )
        if self._depth is not None:
            check_model_fits(self._depth, self.n_rounds, task.params.n_outputs)
        self._constraints = MonotoneConstraints(task.params.monotone, self.data.bins)
        if task.initial_model is not None:
            self._constraints.check_model(host.tree_blocks(task.initial_model.text))
        self._leaf_sums = self._where_the_rows_are()
        self._released: list[ReleasedTree] = []
        self._opened: list[_Opened] = []
        self._beginning: Beginning | None = None

    @property
    def _largest_rate(self) -> float:
        """Bound of the learning rate, where several trees step from the same gradients."""
        return math.inf if self._per_round == 1 else LONGEST_ROUND / self._per_round

    @property
    def _n_trees(self) -> int:
        """Iterations that are trained, of those that the budget is planned for."""
        return self.n_rounds

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
        may_need = self._may_distil or (settings.structure == "auto" and bool(self._counted.any()))
        of_run = (settings.epsilon, settings.delta, self.n_rounds, settings.subsample)
        self._plan = BudgetPlan(self.ledger, *of_run, may_need_histograms=may_need, n_runs=self._n_runs)
        self._mu, self._prior_mu = self._plan.mu, self._plan.counts.mu

    @property
    def _counted(self) -> NDArray[np.bool_]:
        """Features whose histograms may be released where structures are not distilled."""
        return features_with_many_bins(self.data.bins)

    @property
    def _may_distil(self) -> bool:
        """Whether structures may be distilled: not for other losses, for which nothing was gained by it."""
        return self.settings.structure == "auto" and self.params.objective in GRADIENT_CLIP

    def _make_reserves(self) -> None:
        """The noise that a tree's leaf sums get, once it is known what they may cost."""
        scales = [self.weight_steps * std for std in self.loss.stds(self._plan.tree.mu)]
        self._noise_g, self._noise_h = (GaussianReserve(scale, self.random) for scale in scales)

    # The first release: how many rows there are, and the mean of the label.

    def _begin(self) -> Asking[Beginning]:
        """Release label counts once; from them follow the prior and the automatic settings."""
        if self.iteration > 1:
            text = "training was interrupted in its first release and cannot continue; start it anew"
            raise InterruptedTrainingError(text)
        start = yield from self._release_label_counts()
        prior = np.zeros(self.params.n_outputs) if self.continues else start.prior
        self._judge_delta(start.n_rows)
        level = self._planned_level(start)
        objective, n_candidates = self.params.objective, int(np.sum(self.data.bins.n_bins > 1))
        rows = balanced_rows(start.n_rows, objective, start.prior)
        distilled = distilled_depth(start.n_rows * self._mu, start.n_rows, rows, n_candidates)
        rate, size = self._given_rate, None
        if rate is None and self._can_see_rows:
            rate = exact_rate(rows, self.n_rounds)
        elif rate is None:
            rate = automatic_rate(
                nu_of_rate(start.n_rows, self._mu / self._tree_noise_factor), self.n_rounds, objective
            )
            may_end = distilled is None or distilled[1]
            size = StepSize(self.n_rounds, objective, self.weight_steps, may_end=may_end)
        steps = Steps(rate, size, min(MAX_RATE.get(objective, math.inf), self._largest_rate))
        splits = yield from self._first_splits(start, prior, rows, distilled, steps)
        return Beginning(start, prior, splits, steps, self._separation(start), level)

    def _planned_level(self, start: Start) -> Level | None:
        """The release that ends the run, if there is one that is worth its noise.

        All rows are asked, so that it is not for secret samples of them.
        """
        if start.level is None or not self._may_set_level:
            return None
        if self._is_exact:
            return start.level.planned(0.0, start.n_rows)
        std = self._noise_factor * self.loss.stds(self._plan.level.mu)[0] / STEPS
        level = start.level.planned(std, start.n_rows)
        if level is not None:
            self._plan.plan_level()
            self._make_reserves()
        return level

    @property
    def _may_set_level(self) -> bool:
        """Whether one more question can be asked about all rows."""
        return self.settings.subsample == 1.0

    def _separation(self, start: Start) -> Separation | None:
        """The test of whether anything separates, for labels that are classes, each row's on its own.

        A model that training continues may have explained all that there is to explain.
        """
        apart = self.params.objective in LOG_LOSSES and self.unit.rows is None
        if self._is_exact or self.continues or not apart:
            return None
        return Separation(self.n_rounds, start, self.settings.subsample)

    def remarks(self) -> list[str]:
        """Notes for the report, and whether nothing separates by what was released so far."""
        separation = None if self._beginning is None else self._beginning.separation
        return [*self.notes, *(() if separation is None else separation.notes)]

    @property
    def _can_see_rows(self) -> bool:
        """Whether splits may be fitted to the rows themselves, which are here and need no privacy."""
        is_here = isinstance(self.codes, DenseCodes) and not isinstance(self.train_set, RowsElsewhere)
        return self._is_exact and self._may_distil and is_here

    def _first_splits(
        self,
        start: Start,
        prior: NDArray[np.float64],
        rows: float,
        distilled: tuple[int, bool] | None,
        steps: Steps,
    ) -> Asking[PublicSplits]:
        """Where splits come from; rows are held out where that helps to find the length of steps."""
        bins, structure = self.data.bins, self.settings.structure
        opening_depth = OPENING_DEPTH if self._depth is None else min(OPENING_DEPTH, self._depth)
        nu = nu_of_depth(start.n_rows, self._mu)
        depth = automatic_depth(nu) if self._depth is None else self._depth
        if structure == "cyclic":
            return CyclicSplits(bins, self._depth)
        if structure == "random":
            return RandomSplits(bins, depth)
        if self._can_see_rows:
            depth = exact_depth(start.n_rows) if self._depth is None else self._depth
            return self._exact_splits(bins, depth, start, prior)
        if not self._may_distil:
            distilled = None
        histograms = yield from self._feature_histograms(bins, start.n_rows, is_for_all=distilled is not None)
        if histograms is None:
            return LearnedSplits(bins, depth, self.n_rounds, opening_depth)
        weights = histograms.threshold_weights()
        if distilled is None:
            return LearnedSplits(bins, depth, self.n_rounds, opening_depth, weights)
        surrogate = surrogate_rows(histograms, bins, self.random)
        initial = None if self.initial_model is None else self.initial_model.loaded()
        scores = start_scores(surrogate, bins, initial, self.label_scale) + prior
        greedy_depth = distilled[0] if self._depth is None else self._depth
        sizes = (depth, greedy_depth, self.n_rounds, opening_depth)
        model = (self.params.objective, surrogate, scores, self._released)
        if steps.size is not None and not distilled[1]:
            steps.held_out = self._held_out_steps(histograms, rows, greedy_depth)
            if not self._is_exact:
                steps.least_std = self._noise_std * self._mu / MAX_MU_OF_SHRINKAGE
        return DistilledSplits(bins, *sizes, weights, *model, has_trial=distilled[1])

    def _held_out_steps(
        self, histograms: FeatureHistograms, balanced: float, depth: int
    ) -> HeldOutSteps | None:
        """Bounds of the learning rate by held-out rows, where they are enough to tell and divide well."""
        std = EXACT_STD if self._is_exact else self._noise_std
        if not can_hold_out(histograms, balanced / 2**depth, std):
            return None
        return HeldOutSteps(self.n_rounds, int(self.random.words(1)[0]))

    def _exact_splits(
        self, bins: PublicBins, depth: int, start: Start, prior: NDArray[np.float64]
    ) -> ExactSplits:
        """Splits fitted to the rows themselves; without privacy alone."""
        n_rows = len(self.label)
        rows = np.sort(np.argsort(self.random.words(n_rows))[:MAX_ROWS])
        codes = self.codes.take(rows)
        assert isinstance(codes, DenseCodes)
        scores = np.tile(prior, (len(rows), 1))
        if self.data.start_scores is not None:
            given = self.data.start_scores.reshape(n_rows, -1)[rows]
            scores += (given - self.label_scale.centre) / self.label_scale.scale
        target, weight = self.loss.targets(self.label[rows], self.label_scale), self.weight[rows]

        def gradients(some: NDArray[np.int64], score: NDArray[np.float64]) -> NDArray[np.float64]:
            sums = np.zeros((len(some), score.shape[1], 2), dtype=np.int64)
            pairs = self.loss.pairs(target[some], start.clip)
            pairs.add_up(score, weight[some], np.arange(len(some), dtype=np.uint16), 0, len(some), sums)
            return sums / (STEPS * self.weight_steps)

        return ExactSplits(bins, depth, codes, scores, self._released, gradients)

    def _feature_histograms(
        self, bins: PublicBins, n_rows: float, *, is_for_all: bool
    ) -> Asking[FeatureHistograms | None]:
        """Noisy numbers of rows in every bin of every feature, or of those with many bins.

        A row adds its weight, at most w̄, to one bin of each of d features: √d w̄ in length.  None where the
        noise would hide what thresholds are to be weighed by.
        """
        is_counted = bins.n_bins > 1 if is_for_all else self._counted
        if not is_counted.any():
            return None
        scale, unit = 0.0, STEPS * self.weight_steps
        if not self._is_exact:
            length = np.sqrt(np.sum(is_counted)) * (1 + 1e-12)
            std = self._noise_factor * length / self._plan.histograms.mu
            if not is_for_all and n_rows < MIN_ROWS_OVER_STD * std:
                return None
            self._plan.charge_histograms()
            self._make_reserves()
            scale = length * unit / self._plan.histograms.mu
        cells = released_cells(is_counted, bins)
        # In small steps, as all sums: shares of the noise that parties add are integers, too.
        sums = STEPS * self._leaf_sums.feature_counts(bins.layout())
        if not self._is_exact:
            (sums[cells],) = yield from self._with_noise(
                self._plan.histograms, (sums[cells], scale, self.random)
            )
            scale *= self._noise_factor
        return FeatureHistograms.of(np.where(cells, sums / unit, 0.0), scale / unit, bins)

    def _judge_delta(self, n_rows: float) -> None:
        """Warn of a δ, with that of earlier results, above one over the released number of rows."""
        note = delta_note(self.ledger.granted_delta + self.ledger.cost.delta, n_rows)
        if note is not None:
            self.notes.append(note)
            warnings.warn(note, NotPrivateWarning, stacklevel=8)

    def _release_label_counts(self) -> Asking[Start]:
        """The loss's start, from noisy label counts.

        A row adds a vector that is at most its weight long, at most w̄ (`Loss.label_counts`).  Noise w̄/μ is
        μ-GDP.
        """
        sums, unit = self._leaf_sums.label_counts(), STEPS * self.weight_steps
        if not self._is_exact:
            self.ledger.charge(self._plan.counts)
            (sums,) = yield from self._with_noise(
                self._plan.counts, (sums, unit / self._prior_mu, self.random)
            )
            if sums.sum() < STDS_OF_DOUBT * unit / self._prior_mu * self._noise_factor * math.sqrt(sums.size):
                self.notes.append(FEW_ROWS_NOTE)
        return self.loss.start(sums / unit, self._noise_factor / self._prior_mu)

    # Trees.

    def grow_iteration(self) -> Asking[list[PrivateTree]]:
        """One structure, one release, one tree per output."""
        if self._beginning is None:
            self._beginning = yield from self._begin()
        begun, start, steps = self._beginning, self._beginning.start, self._beginning.steps
        if len(self._released) > len(self.trees):  # rolled back, or interrupted
            del self._released[len(self.trees) :]
            self._opened = []
        tree, release, held = yield from self._next_tree(begun)

        # Post-processing.
        lambda_l2 = self.params.lambda_l2 / (self.weight_bound * start.hessian_unit)
        denominator = denominators(release, lambda_l2, steps.least_std)
        value = leaf_values(release, denominator, self.loss.largest_value)
        length = steps.length(release, held, denominator, value, begun.splits.rate_factor)
        if begun.separation is not None:
            begun.separation.note(release, denominator, length)
        value *= length * start.value_unit
        value = self._constraints.hold(tree, value, denominator)
        begun.splits.learn(tree, release, value)
        self._released.append(ReleasedTree(self.iteration, tree, value))
        if begun.level is not None and self.iteration == self._n_trees:
            value = value + (yield from self._shift(begun, begun.level))
        if not self.trees and not self.continues:
            value = value + begun.prior
        count = leaf_counts(release, held, start.row_hessian)
        return [
            PrivateTree(
                feature=tree.feature,
                goes_left=tree.goes_left,
                leaf_value=value[:, k] * self.label_scale.scale,
                leaf_count=count[:, k],
                learning_rate=steps.rate,
            )
            for k in range(self.params.n_outputs)
        ]

    def _shift(self, begun: Beginning, level: Level) -> Asking[float]:
        """Release the sums of all rows' gradients and hessians, for the number to add to all scores.

        A row adds one pair to one cell, bounded jointly in units of the level's clip (`Loss.pairs`), so that
        the noise of `Loss.stds` makes the release μ-GDP.
        """
        question = Round(self.n_rounds + 1, ONE_LEAF, begun.prior, self._released, level.clip)
        if not self._is_exact:
            self.ledger.charge(self._plan.level)
        table = self._leaf_sums.sums(question)[:1]
        sums, std = [table[:, :, place] for place in (0, 1)], 0.0
        if not self._is_exact:
            stds = [self.weight_steps * one for one in self.loss.stds(self._plan.level.mu)]
            parts = [(part, one, self.random) for part, one in zip(sums, stds, strict=True)]
            sums = yield from self._with_noise(self._plan.level, *parts)
            std = self._noise_factor * stds[0]
        gradient, hessian = (float(part[0, 0]) for part in sums)
        return level.shift(gradient, hessian, std)

    def _next_tree(self, begun: Beginning) -> Asking[_Opened]:
        """The next tree, and what is released over its leaves.

        Trees of a round are released together, before the first of them is in the model.
        """
        if not self._opened:
            self._opened = yield from self._round(
                begun, min(self._per_round, self._n_trees - self.iteration + 1)
            )
        return self._opened.pop(0)

    def _round(self, begun: Beginning, n_trees: int) -> Asking[list[_Opened]]:
        """Trees of a new round, charged for and released together."""
        salt, clip = begun.steps.salt, begun.start.clip
        questions = [
            Round(
                self.iteration + ahead,
                begun.splits.draw(self.random, ahead),
                begun.prior,
                self._released,
                clip,
                salt,
            )
            for ahead in range(n_trees)
        ]
        releases = yield from self._release(questions)
        return [(question.tree, *one) for question, one in zip(questions, releases, strict=True)]

    def _release(self, questions: Sequence[Round]) -> Asking[list[tuple[LeafRelease, LeafRelease | None]]]:
        """Noisy sums of gradients and hessians over trees' leaves: of the rows that train, and of others.

        A row is in one leaf and trains or is held out, whatever other rows there are, so that it adds to one
        cell.  Its contribution there is at most μ long in units of the noise (`lgb_dp.newton.losses.loss`;
        weights are at most `weight_steps`), so the release is μ-GDP; with a secret Poisson sample of the rows
        its cost is `dp_accounting`'s.  Trees of one round compose as others do: each is charged for.
        """
        if not self._is_exact:
            for _ in questions:
                self.ledger.charge(self._plan.tree)
        tables = [self._leaf_sums.sums(question) for question in questions]
        sums, std = [table[:, :, place] for table in tables for place in (0, 1)], EXACT_STD
        if not self._is_exact:
            noise = (self._noise_g, self._noise_h)
            parts = [(part, noise[k % 2].scale, noise[k % 2]) for k, part in enumerate(sums)]
            sums = yield from self._with_noise(self._together(len(questions)), *parts)
            std = self._noise_std
        expected, found = self._expected_steps, []
        for question, gradient, hessian in zip(questions, sums[::2], sums[1::2], strict=True):
            cells, n_leaves = LeafRelease(gradient / expected, hessian / expected, std), question.n_leaves
            held = None if question.salt is None else cells.part(slice(n_leaves, None))
            found.append((cells.part(slice(n_leaves)), held))
        return found

    def _together(self, n_trees: int) -> Release:
        """The release of several trees' leaf sums at once."""
        tree = self._plan.tree
        return tree if n_trees == 1 else replace(tree, mu=composed_mu([tree.mu] * n_trees))

    @property
    def _expected_steps(self) -> float:
        """Steps that a row of the largest weight and of gradient 1 adds to the sums on average."""
        return STEPS * self.weight_steps * self.settings.subsample

    @property
    def _noise_std(self) -> float:
        """Standard deviation of the noise in a sum of gradients, in rows of the largest weight."""
        return self._noise_factor * self._noise_g.scale / self._expected_steps

    def _with_noise(
        self, release: Release, *parts: tuple[NDArray[np.int64], float, SecureRandom | GaussianReserve]
    ) -> Asking[list[NDArray[np.int64]]]:
        """Sums of a release that was charged, with noise; of several parties, each adds or draws a part."""
        yield from ()
        return [release_gaussian(*part) for part in parts]

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change the learning rate of later trees."""
        super().reset_parameter(params)
        if params:
            self._given_rate = self.learning_rate
            if self._beginning is not None:
                self._beginning.steps.reset(self.learning_rate)

    def parameters(self) -> Mapping[str, str]:
        """Public settings, for the model file."""
        settings = {
            "boosting": "gbdt",
            "objective": self.params.objective,
            "num_iterations": str(self.n_rounds),
            "lambda_l2": repr(self.params.lambda_l2),
            **{name: repr(value) for name, value in self.params.of_objective.items()},
        }
        if self._beginning is not None:
            rate, depth = self._beginning.steps.rate, self._beginning.splits.depth
            settings |= {"learning_rate": repr(rate), "max_depth": str(depth)}
        return settings
