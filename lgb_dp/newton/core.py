"""The core of a run of NewtonBoost: what it asks of the rows, and the trees that follow from the answers.

It takes rows and a task, and needs neither a host nor a booster: `lightgbm.train` drives it by a callback,
parties and columns apart drive it themselves.  The data is read in one place only
(`lgb_dp.newton.releases.leaf_sums`), and everything seen of it is a Gaussian release that was charged
(`lgb_dp.newton.noised_sums`): label counts and histograms of features before the first tree, and the sums of
gradients and hessians over the leaves of each tree, whose splits were drawn before; where clips make means
low, once more after the last tree, sums over all rows (`lgb_dp.losses.level`).  Every tree reads all
rows.  Releases compose exactly although each depends on those before (`lgb_dp.accounting.gaussian`).
Everything else (leaf values, which splits are drawn more often, when to stop) follows from what was released.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts import lightgbm as host
from gbdt_kernels.trees import DenseCodes, by_columns
from lgb_dp.boosting.booster import MADE_UP_ROWS
from lgb_dp.boosting.training import Asking, TrainerInput, Training
from lgb_dp.boosting.tree import PrivateTree
from lgb_dp.checks import AUTO, Auto, delta_note
from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import InvalidArgumentError, NotPrivateWarning, UnsupportedParameterError
from lgb_dp.evaluation.model import ModelEvaluation
from lgb_dp.host_errors import InterruptedTrainingError
from lgb_dp.losses.label_counts import STDS_OF_DOUBT
from lgb_dp.losses.level import Level, ScaleLevel
from lgb_dp.losses.loss import STEPS, Loss, Start
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.losses.registry import loss_of
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.budget_plan import BudgetPlan
from lgb_dp.newton.description import REPEATED, SETTINGS, RunDescription
from lgb_dp.newton.held_out_rows import HeldOutSteps, can_hold_out
from lgb_dp.newton.held_out_table import (
    HeldOutTable,
    check_held_out,
    groups_by,
    made_up_scores,
    release_shares,
)
from lgb_dp.newton.leaves import denominators, leaf_counts, leaf_values
from lgb_dp.newton.model_memory import check_model_fits
from lgb_dp.newton.monotone import MonotoneConstraints
from lgb_dp.newton.noised_sums import Releases
from lgb_dp.newton.releases.held_out_rows import HoldOut
from lgb_dp.newton.releases.leaf_sums import LeafSums, LocalLeafSums
from lgb_dp.newton.releases.trees import ONE_LEAF, LeafRelease, PublicTree, ReleasedTree, Round
from lgb_dp.newton.run_task import LONGEST_ROUND, Answer, RunTask, SumsQuestion, answered_here
from lgb_dp.newton.settings import (
    MAX_COUNTED_FEATURES,
    MAX_MU_OF_SHRINKAGE,
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
)
from lgb_dp.newton.splits.learned import OPENING_DEPTH, LearnedSplits, warn_of_bounds
from lgb_dp.newton.splits.random import CyclicSplits, PublicSplits, RandomSplits, StructureKind
from lgb_dp.newton.splits.without_privacy import MAX_ROWS, ExactSplits
from lgb_dp.newton.step_size import StepSize
from lgb_dp.newton.steps import Steps

FEW_ROWS_NOTE = (
    "the released number of rows does not stand out of its noise: the rows are few, or their labels are "
    "missing or none of the classes; hardly more than noise is in the model"
)
OPENED = tuple[PublicTree, LeafRelease, "LeafRelease | None"]
"""A tree, and what is released over its leaves: of the rows that train, and of those held out."""


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
    """The knowledge of a training run from its first release on."""

    start: Start
    prior: NDArray[np.float64]  # added to the start scores; zeros where training continues a model
    splits: PublicSplits
    steps: Steps
    level: Level | None  # the releases of sums over all rows, if they are planned


class NewtonCore(Training):
    """State of one training run of NewtonBoost, on a task's rows and the results that it builds on."""

    sigmoid = 1.0
    can_be_monotone = True

    def __init__(self, task: TrainerInput, settings: NewtonSettings, run: RunTask) -> None:
        # A person's rows weigh w₁, w₂, … of sum at most w̄, and each release is linear in the weights: by the
        # triangle inequality the rows together add at most w̄ times the longest row to the sums.
        super().__init__(task, takes_group_means=True)
        self.settings, self.run = settings, run
        is_elsewhere = task.data.make_sums is not None or run.ask is not answered_here
        if is_elsewhere and self.label_scale.entry.has_targets:
            raise UnsupportedParameterError(
                "y has several columns, which is not supported for rows on workers, or of several parties"
            )
        if run.unit is not None:
            self.unit = self.ledger.unit = run.unit
        self._is_exact, plan = math.isinf(settings.epsilon), None
        is_auto = settings.structure == "auto"
        self._may_distil = run.may_distil and is_auto and self.label_scale.entry.may_distil
        self._counted = features_with_many_bins(self.data.bins)
        if self._is_exact:
            self.train_without_privacy()
        else:
            may_need = self._may_distil or (is_auto and bool(self._counted.any()))
            of_run = (settings.epsilon, settings.delta, self.n_rounds, settings.subsample)
            plan = BudgetPlan(
                self.ledger,
                *of_run,
                may_need_histograms=may_need,
                n_runs=run.n_runs,
                held_out=self._held_out_shares() if run.validation_fraction > 0 else (),
            )
        for name, cost in run.set_aside.items():
            self.ledger.inherit(cost, name, 0.0)
        self.mu = math.inf if plan is None else plan.mu
        self.loss = self._loss()
        self._hold_out: HoldOut | None = None
        self._table: HeldOutTable | None = None
        if run.validation_fraction > 0:
            self._hold_out, self._table = self._held_out()
        self._histograms: FeatureHistograms | None = None
        self.evaluation: ModelEvaluation | None = None
        given = task.params.given
        self._depth = self._checked_depth(task.params.depth if "max_depth" in given else None)
        self._rate_changed = False
        self._given_rate = task.params.learning_rate if "learning_rate" in given else None
        if self._given_rate is not None and self._given_rate > run.largest_rate:
            raise InvalidArgumentError(
                f"learning_rate={self._given_rate:g} must be at most {run.largest_rate:g} for "
                f"trees_per_round={run.trees_per_round}: trees of a round step from the same gradients, and "
                f"beyond {LONGEST_ROUND} together they overshoot"
            )
        if self._depth is not None:
            check_model_fits(self._depth, self.n_rounds, task.params.n_outputs)
        self._constraints = MonotoneConstraints(task.params.monotone, self.data.bins)
        if task.initial_model is not None:
            self._constraints.check_model(host.tree_blocks(task.initial_model.text))
        self.releases = Releases(
            self._rows(), self.loss, self.ledger, plan, self.weight_steps, settings.subsample, self._asked
        )
        self.releases.plan_noise(self.random)
        if run.public_seed is not None:
            self.random = SecureRandom.public(run.public_seed)
        self._n_trees = self.n_rounds if run.n_trees is None else run.n_trees
        self.released: list[ReleasedTree] = []
        self._opened: list[OPENED] = []
        self.beginning: Beginning | None = None

    @property
    def objectives(self) -> tuple[str, ...]:
        """Those that have a loss."""
        return tuple(name for name, one in OBJECTIVES.items() if one.make_loss is not None)

    def _rows(self) -> LeafSums:
        """The rows: here, or wherever they are."""
        data, subsample, held = self.data, self.settings.subsample, None
        if data.make_sums is not None:
            made: LeafSums = data.make_sums(self.loss, self.label_scale, subsample, self._hold_out)
            return made
        if self._hold_out is not None:
            is_held = self._hold_out.chosen(data.draw_words(self.run.coins or self.random))
            self.weight, held = self._hold_out.divided(is_held, self.codes, self.label, self.weight)
        return LocalLeafSums(
            by_columns(self.codes, self.params.n_threads),
            self.label,
            self.weight,
            self.loss,
            self.label_scale,
            data.start_scores,
            self.params.n_threads,
            subsample,
            partial(data.draw_words, self.random),
            held,
        )

    def _held_out_shares(self) -> tuple[float, ...]:
        """Shares of μ² of releases about held-out rows; where trees can be repeated, so can any of these."""
        shares = release_shares(self.label_scale)
        can_repeat = self.run.n_trees is not None and self.run.n_trees < self.n_rounds
        return tuple(share / (1 + max(shares)) for share in shares) if can_repeat else shares

    def _held_out(self) -> tuple[HoldOut, HeldOutTable]:
        """Which rows train nothing, and what is released of them after the last tree."""
        if self.label_scale.entry.has_targets:
            raise UnsupportedParameterError("validation_fraction is not supported for several targets")
        share, groups = self.run.validation_fraction, groups_by(self.data.bins, self.run.by)
        is_sample = self.settings.subsample < 1
        check_held_out(share, self.params.n_outputs, self.continues, len(groups.names), is_sample)
        table = HeldOutTable(self.label_scale, share, self.unit.row_costs, groups)
        return HoldOut(share, groups.feature), table

    def _asked(self, question: SumsQuestion) -> Asking[Answer]:
        """The answer to a question about the rows, with noise in it."""
        assert self.run.public_seed is None or self.run.ask is not answered_here  # known draws are no noise
        return (yield from self.run.ask(question))

    def _loss(self) -> Loss:
        clip, share = self.settings.gradient_clip, self.settings.hessian_share
        given = None if clip == "auto" else clip
        return loss_of(self.label_scale, given, 0.0 if share == "auto" else share, self.mu)

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

    # The first release: how many rows there are, and the mean of the label.

    def _begin(self) -> Asking[Beginning]:
        """Release label counts once; from them follow the prior and the automatic settings."""
        if self.iteration > 1:
            text = "training was interrupted in its first release and cannot continue; start it anew"
            raise InterruptedTrainingError(text)
        start = yield from self.release_label_counts()
        self.releases.n_rows = start.n_rows
        prior = np.zeros(self.params.n_outputs) if self.continues else start.prior
        self._judge_delta(start.n_rows)
        level = self._planned_level(start)
        objective, n_candidates = self.params.objective, int(np.sum(self.data.bins.n_bins > 1))
        rows = balanced_rows(start.n_rows, objective, start.prior)
        distilled = distilled_depth(start.n_rows * self._mu_of_target, start.n_rows, rows, n_candidates)
        rate, size = self._given_rate, None
        if rate is None and self._can_see_rows:
            rate = exact_rate(rows, self.n_rounds)
        elif rate is None:
            nu = nu_of_rate(start.n_rows, self._mu_of_target / self.run.noise_factor)
            rate, may_end = automatic_rate(nu, self.n_rounds, objective), distilled is None or distilled[1]
            size = StepSize(self.n_rounds, objective, self.weight_steps, may_end=may_end)
        steps = Steps(rate, size, min(self.label_scale.entry.largest_rate, self.run.largest_rate))
        splits = yield from self._first_splits(start, prior, rows, distilled, steps)
        return Beginning(start, prior, splits, steps, level)

    def release_label_counts(self) -> Asking[Start]:
        """The loss's start, from noisy label counts."""
        sums, noise = yield from self.releases.label_counts(self.random)
        unit = STEPS * self.weight_steps
        if not self._is_exact and sums.sum() < STDS_OF_DOUBT * unit * noise * math.sqrt(sums.size):
            self.notes.append(FEW_ROWS_NOTE)
        return self.loss.start(sums / unit, noise)

    def _planned_level(self, start: Start) -> Level | None:
        """The releases of sums over all rows, unless of secret samples, that are worth their noise."""
        if start.level is None or not self.run.may_set_level or self.settings.subsample < 1:
            return None
        plan = self.releases.plan
        if plan is None:
            return start.level.planned(0.0, start.n_rows)
        n_releases = len(start.level.iterations(self._n_trees))
        mu = plan.level.mu / math.sqrt(n_releases)
        std = self.releases.noise_factor * self.loss.stds(mu)[0] / STEPS
        level = start.level.planned(std, start.n_rows)
        if level is not None:
            plan.plan_level(n_releases)
            self.releases.plan_noise(self.random)
        return level

    @property
    def _mu_of_target(self) -> float:
        """μ of the budget as each of K targets sees it, in whose sums noise is √K times that of one alone."""
        return self.mu / math.sqrt(self.params.n_outputs if self.label_scale.entry.has_targets else 1)

    @property
    def _can_see_rows(self) -> bool:
        """Whether splits may be fitted to the rows themselves, which are here and need no privacy."""
        is_here = isinstance(self.codes, DenseCodes) and self.data.make_sums is None
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
        nu = nu_of_depth(start.n_rows, self._mu_of_target)
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
        histograms = yield from self._feature_histograms(is_for_all=distilled is not None)
        if histograms is None:
            return LearnedSplits(bins, depth, self.n_rounds, opening_depth)
        self._histograms = histograms
        self.notes += histograms.remarks(bins)
        weights = histograms.threshold_weights()
        if distilled is None:
            return LearnedSplits(bins, depth, self.n_rounds, opening_depth, weights)
        surrogate = surrogate_rows(histograms, bins, self.random)
        initial = None if self.initial_model is None else self.initial_model.loaded()
        scores = start_scores(surrogate, bins, initial, self.label_scale) + prior
        greedy_depth = distilled[0] if self._depth is None else self._depth
        sizes = (depth, greedy_depth, self.n_rounds, opening_depth)
        model = (self.params.objective, surrogate, scores, self.released)
        if steps.size is not None and not distilled[1]:
            std = self.releases.noise_std
            if can_hold_out(histograms, rows, greedy_depth, std):
                steps.held_out = HeldOutSteps(self.n_rounds, int(self.random.words(1)[0]))
            if not self._is_exact:
                steps.least_std = std * self.mu / MAX_MU_OF_SHRINKAGE
        return DistilledSplits(bins, *sizes, weights, *model, has_trial=distilled[1])

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

        return ExactSplits(bins, depth, codes, scores, self.released, gradients)

    def _feature_histograms(self, *, is_for_all: bool) -> Asking[FeatureHistograms | None]:
        """Noisy numbers of rows in every bin of every feature, or of those with many bins.

        None where the noise would hide what thresholds are to be weighed by.
        """
        bins = self.data.bins
        is_counted = bins.n_bins > 1 if is_for_all else self._counted
        least_rows = 0.0 if is_for_all else MIN_ROWS_OVER_STD
        return (yield from self.releases.feature_counts(bins, is_counted, least_rows, self.random))

    def _judge_delta(self, n_rows: float) -> None:
        """Warn of a δ, with that of earlier results, above one over the released number of rows."""
        note = delta_note(self.ledger.granted_delta + self.ledger.cost.delta, n_rows)
        if note is not None and self.data.key is None:
            self.notes.append(note)
            warnings.warn(note, NotPrivateWarning, stacklevel=8)

    # Trees.

    def grow_iteration(self) -> Asking[list[PrivateTree]]:
        """One structure, one release, one tree per output."""
        if self.beginning is None:
            self.beginning = yield from self._begin()
        begun, start, steps = self.beginning, self.beginning.start, self.beginning.steps
        if len(self.released) > len(self.trees):  # rolled back, or interrupted
            del self.released[len(self.trees) :]
            self._opened = []
        tree, release, held = yield from self._next_tree(begun)

        # Post-processing.
        lambda_l2 = self.params.lambda_l2 / (self.weight_bound * start.hessian_unit)
        denominator = denominators(release, lambda_l2, steps.least_std)
        value = leaf_values(release, denominator, self.loss.largest_value)
        length = steps.length(release, held, denominator, value, begun.splits.rate_factor)
        value *= length * start.value_unit
        value = self._constraints.hold(tree, value, denominator)
        known = begun.splits.crowded
        begun.splits.learn(tree, release, value)
        if begun.splits.crowded != known and self.data.key is None:
            warn_of_bounds([self.data.bins.names[f] for f in begun.splits.crowded])
        self.released.append(ReleasedTree(self.iteration, tree, value))
        shift = np.zeros(1)
        if begun.level is not None and self.iteration in begun.level.iterations(self._n_trees):
            shift = yield from self._shift(begun, begun.level)
            value = value + shift
        if self._table is not None and self.iteration == self._n_trees:
            self.evaluation = yield from self._evaluated(self._table, begun, float(shift[0]))
        if not self.trees and not self.continues:
            value = value + begun.prior
        count, value = leaf_counts(release, held, start.row_hessian), value * self.label_scale.scale
        return [
            PrivateTree(
                feature=tree.feature,
                goes_left=tree.goes_left,
                leaf_value=value[:, k],
                leaf_count=count[:, k],
                learning_rate=steps.rate,
            )
            for k in range(self.params.n_outputs)
        ]

    def _evaluated(self, table: HeldOutTable, begun: Beginning, shift: float) -> Asking[Any]:
        """The release of held-out rows, under the model of all trees, whose scores end with a shift."""
        scale, made_up = self.label_scale, np.empty(0)
        question = Round(self.n_rounds + 2, ONE_LEAF, begun.prior, self.released, begun.start.clip)
        if scale.is_binary or scale.entry.labels_are_times:
            made_up = made_up_scores(self.data.bins, self._histograms, question, self.random)
            made_up = scale.centre + scale.scale * (made_up + shift)
        return (yield from table.evaluation(question, shift, self.releases, made_up, self.random))

    def undo(self) -> None:
        """Remove the last iteration's trees; their cost stays, and a figure of the whole model goes."""
        super().undo()
        self.evaluation = None

    def guarantee(self) -> Mapping[str, Any]:
        """The report and the evaluation, for the model file."""
        told: dict[str, Any] = {} if self.evaluation is None else {"evaluation": self.evaluation.to_dict()}
        if self.run.ask is answered_here and self.beginning is not None:
            told[MADE_UP_ROWS] = self._to_repeat(self.beginning.start.n_rows)
        return {**super().guarantee(), **told}

    def _to_repeat(self, n_rows: float) -> Mapping[str, Any] | str:
        """All that it takes to repeat the run on made-up rows, or why it cannot be repeated."""
        for reason, is_so in {
            "epsilon=inf": self._is_exact,
            f"objective={self.params.objective!r}": self.params.objective not in REPEATED,
            "a model or scores to continue from": self.continues,
            "a learning rate that changed": self._rate_changed,
            f"more than {MAX_COUNTED_FEATURES} columns": len(self.data.bins.names) > MAX_COUNTED_FEATURES,
        }.items():
            if is_so:
                return reason
        given, params = self.settings, self.params
        scale = self.label_scale
        return RunDescription(
            settings={
                **{name: getattr(given, name) for name in SETTINGS},
                "depth": AUTO if self._depth is None else self._depth,
            },
            params={
                "objective": params.objective,
                "lambda_l2": params.lambda_l2 / self.weight_bound,
                **({"num_class": params.n_outputs} if params.n_outputs > 1 else {}),
                **({"monotone_constraints": list(params.monotone)} if params.monotone else {}),
                **({} if self._given_rate is None else {"learning_rate": self._given_rate}),
            },
            n_rounds=self.n_rounds,
            row_costs=self.unit.row_costs,
            label_bounds=(scale.low, scale.high) if scale.is_regression else None,
            n_rows=n_rows,
            bins=self.data.bins,
            histograms=self._histograms or FeatureHistograms.unknown(self.data.bins),
            trees_per_round=self.run.trees_per_round,
        ).to_dict()

    def _shift(self, begun: Beginning, level: Level) -> Asking[NDArray[np.float64]]:
        """The number to add to each output's scores by all rows' sums; 0 if these change the trees' scale."""
        question = Round(self.n_rounds + 1, ONE_LEAF, begun.prior, self.released, level.clip)
        cell = yield from self.releases.level_sums(question, self.random)
        sums = list(zip(cell.gradient[0].tolist(), cell.hessian[0].tolist(), strict=True))
        if not isinstance(level, ScaleLevel):
            return np.array([level.shift(*one, cell.std) for one in sums])
        scale = level.scale(*sums[0], cell.std)
        self.beginning = replace(begun, start=begun.start.at_scale(scale), level=replace(level, clip=-scale))
        return np.zeros(1)

    def _next_tree(self, begun: Beginning) -> Asking[OPENED]:
        """The next tree, and what is released over its leaves.

        Trees of a round are released together, before the first of them is in the model.
        """
        if not self._opened:
            n_trees = min(self.run.trees_per_round, self._n_trees - self.iteration + 1)
            self._opened = yield from self._round(begun, n_trees)
        return self._opened.pop(0)

    def _round(self, begun: Beginning, n_trees: int) -> Asking[list[OPENED]]:
        """Trees of a new round, charged for and released together."""
        salt, clip = begun.steps.salt, begun.start.clip
        rounds = [
            Round(
                self.iteration + ahead,
                begun.splits.draw(self.random, ahead),
                begun.prior,
                self.released,
                clip,
                salt,
            )
            for ahead in range(n_trees)
        ]
        releases = yield from self.releases.leaf_sums(rounds)
        return [(one.tree, *release) for one, release in zip(rounds, releases, strict=True)]

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change the learning rate of later trees."""
        super().reset_parameter(params)
        if params:
            self._given_rate, self._rate_changed = self.learning_rate, True
            if self.beginning is not None:
                self.beginning.steps.reset(self.learning_rate)

    def parameters(self) -> Mapping[str, str]:
        """Public settings, for the model file."""
        entry = self.label_scale.entry
        own = {} if entry.labels_are_times else self.params.of_objective
        scale = AUTO if self.beginning is None else self.beginning.start.clip
        settings = {
            "boosting": "gbdt",
            "objective": entry.text(scale),
            "num_iterations": str(self.n_rounds),
            "lambda_l2": repr(self.params.lambda_l2),
            **{name: repr(value) for name, value in own.items()},
        }
        if self.beginning is not None:
            rate, depth = self.beginning.steps.rate, self.beginning.splits.depth
            settings |= {"learning_rate": repr(rate), "max_depth": str(depth)}
        return settings
