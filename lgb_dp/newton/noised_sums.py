"""All that a run of NewtonBoost releases: charged first, then asked for, and read with the noise in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lgb_dp.accounting.gaussian import composed_mu
from lgb_dp.accounting.ledger import Ledger, Release
from lgb_dp.boosting.training import Asking
from lgb_dp.data.bins import PublicBins
from lgb_dp.losses.loss import EXACT_STD, STEPS, Loss
from lgb_dp.mechanisms.noise import GaussianReserve
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.budget_plan import BudgetPlan
from lgb_dp.newton.releases.held_out_rows import HeldOutCells
from lgb_dp.newton.releases.leaf_sums import LeafSums
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree, Round
from lgb_dp.newton.run_task import Answer, Part, SumsQuestion
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms, released_cells


class Releases:
    """The releases of one run, each charged before it is asked for.

    Without a plan a run has no privacy, and its sums get no noise. The largest weight has `weight_steps`
    steps; `ask` is that of `RunTask`. `noise_factor` is the standard deviation of the noise of the last
    answer, over what the budget demands, and `n_rows` the released number of rows, once it is known.
    """

    def __init__(
        self,
        rows: LeafSums,
        loss: Loss,
        ledger: Ledger,
        plan: BudgetPlan | None,
        weight_steps: int,
        subsample: float,
        ask: Callable[[SumsQuestion], Asking[Answer]],
    ) -> None:
        self.rows, self.plan, self._loss, self._ledger, self._ask = rows, plan, loss, ledger, ask
        self._weight_steps, self._subsample = weight_steps, subsample
        self.noise_factor = 1.0
        self.n_rows: float | None = None
        self.reserves: list[GaussianReserve] = []

    @property
    def mu(self) -> float:
        """μ of the whole run, infinite without privacy."""
        return math.inf if self.plan is None else self.plan.mu

    def label_counts(self, random: SecureRandom) -> Asking[tuple[NDArray[np.int64], float]]:
        """Sums by label, in steps of the rows' weights, and the noise in each over the largest weight.

        A row adds a vector that is at most its weight long, at most w̄ (`Loss.label_counts`).  Noise w̄/μ is
        μ-GDP.
        """
        sums, plan = self.rows.label_counts(), self.plan
        if plan is None:
            return sums, 0.0
        self._ledger.charge(plan.counts)
        scale = STEPS * self._weight_steps / plan.counts.mu
        (sums,) = yield from self._noised(plan.counts, [(sums, scale, random)])
        return sums, self.noise_factor / plan.counts.mu

    def feature_counts(
        self, bins: PublicBins, is_counted: NDArray[np.bool_], least_rows: float, random: SecureRandom
    ) -> Asking[FeatureHistograms | None]:
        """Noisy numbers of rows in every bin of the given features.

        A row adds its weight, at most w̄, to one bin of each of d features: √d w̄ in length.  Where the rows
        are fewer than `least_rows` times the noise, nothing is released, and the result is None.
        """
        scale, unit, plan = 0.0, STEPS * self._weight_steps, self.plan
        if not is_counted.any():
            return None
        if plan is not None:
            length = np.sqrt(np.sum(is_counted)) * (1 + 1e-12)
            std = self.noise_factor * length / plan.histograms.mu
            if (self.n_rows or 0.0) < least_rows * std:
                return None
            plan.charge_histograms()
            self.plan_noise(random)
            scale = length * unit / plan.histograms.mu
        cells = released_cells(is_counted, bins)
        # In small steps, as all sums: shares of the noise that parties add are integers, too.
        sums = STEPS * self.rows.feature_counts(bins.layout())
        if plan is not None:
            (sums[cells],) = yield from self._noised(plan.histograms, [(sums[cells], scale, random)])
            scale *= self.noise_factor
        return FeatureHistograms.of(np.where(cells, sums / unit, 0.0), scale / unit, bins)

    def plan_noise(self, random: SecureRandom) -> None:
        """Make the noise that a tree's leaf sums get, as soon as it is known what they may cost."""
        if self.plan is not None:
            scales = [self._weight_steps * std for std in self._loss.stds(self.plan.tree.mu)]
            self.reserves = [GaussianReserve(scale, random) for scale in scales]

    def level_sums(self, question: Round, random: SecureRandom) -> Asking[LeafRelease]:
        """Sums of all rows' gradients and hessians, in integer steps.

        A row adds one pair to one cell, bounded jointly in units of the level's clip (`Loss.pairs`), so that
        the noise of `Loss.stds` makes the release μ-GDP.
        """
        plan, std = self.plan, 0.0
        if plan is not None:
            self._ledger.charge(plan.level)
        table = self.rows.sums(question)[:1]
        sums: Sequence[NDArray[np.int64]] = [table[:, :, place] for place in (0, 1)]
        if plan is not None:
            stds = [self._weight_steps * one for one in self._loss.stds(plan.level.mu)]
            parts = [(part, one, random) for part, one in zip(sums, stds, strict=True)]
            sums = yield from self._noised(plan.level, parts)
            std = self.noise_factor * stds[0]
        return self._cells(sums[0], sums[1], 1, std)

    def held_out_counts(
        self, question: Round, cells: HeldOutCells, random: SecureRandom, number: int
    ) -> Asking[tuple[NDArray[np.float64], float]]:
        """Numbers of held-out rows in every cell, and the noise in each, in rows of the largest weight.

        They are counted under the model of a question's trees; `number` is that of the release among those
        planned about held-out rows.

        A row adds its weight, at most w̄, to one cell, so that noise w̄/μ is μ-GDP.  It adds nothing to any
        other release of the run, and rows that train nothing here: both cost the larger of their μ.
        """
        plan, unit = self.plan, STEPS * self._weight_steps
        if plan is not None:
            self._ledger.charge(plan.held_out[number])
        sums = STEPS * self.rows.held_out_counts(question, cells)
        if plan is None:
            return sums / unit, 0.0
        release = plan.held_out[number]
        # How many rows there may be does not follow from the number of those that train.
        parts = [(sums, unit / release.mu, random)]
        answer = yield from self._ask(SumsQuestion(release, parts, (), self._weight_steps, None))
        return answer.sums[0] / unit, answer.factor / release.mu

    def leaf_sums(self, rounds: Sequence[Round]) -> Asking[list[tuple[LeafRelease, LeafRelease | None]]]:
        """Noisy sums of gradients and hessians over trees' leaves: of the rows that train, and of others.

        A row is in one leaf and trains or is held out, whatever other rows there are, so that it adds to one
        cell.  Its contribution there is at most μ long in units of the noise (`lgb_dp.losses.loss`;
        weights are at most `weight_steps`), so the release is μ-GDP; with a secret Poisson sample of the rows
        its cost is `dp_accounting`'s.  Trees of one round compose as others do: each is charged for.
        """
        self.charge_trees(len(rounds))
        tables = self.rows.sums_of(rounds)
        sums: Sequence[NDArray[np.int64]] = [table[:, :, place] for table in tables for place in (0, 1)]
        if self.plan is not None:
            tree, noise = self.plan.tree, self.reserves
            parts = [(part, noise[k % 2].scale, noise[k % 2]) for k, part in enumerate(sums)]
            mu = tree.mu if len(rounds) == 1 else composed_mu([tree.mu] * len(rounds))
            sums = yield from self._noised(replace(tree, mu=mu), parts, [one.tree for one in rounds])
        found, std = [], self.noise_std
        for one, gradient, hessian in zip(rounds, sums[::2], sums[1::2], strict=True):
            cells = self._cells(gradient, hessian, self._expected_steps, std)
            held = None if one.salt is None else cells.part(slice(one.n_leaves, None))
            found.append((cells.part(slice(one.n_leaves)), held))
        return found

    def _cells(
        self, gradient: NDArray[np.int64], hessian: NDArray[np.int64], unit: float, std: float
    ) -> LeafRelease:
        """Sums in a unit; of several targets the hessians of a cell are equal but for noise, and averaged."""
        known = hessian / unit
        if self._loss.n_targets > 1:
            known = np.broadcast_to(known.mean(axis=1, keepdims=True), known.shape)
        return LeafRelease(gradient / unit, known, std)

    def charge_trees(self, n_trees: int) -> None:
        """Charge for the leaf sums of trees, before they are asked for."""
        if self.plan is not None:
            for _ in range(n_trees):
                self._ledger.charge(self.plan.tree)

    @property
    def _expected_steps(self) -> float:
        """Steps that a row of the largest weight and of gradient 1 adds to the sums on average."""
        return STEPS * self._weight_steps * self._subsample

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in a sum of gradients, in rows of the largest weight."""
        if self.plan is None:
            return EXACT_STD
        return self.noise_factor * self.reserves[0].scale / self._expected_steps

    def _noised(
        self, release: Release, parts: Sequence[Part], trees: Sequence[PublicTree] = ()
    ) -> Asking[Sequence[NDArray[np.int64]]]:
        """The answer to a question about a release that was charged."""
        answer = yield from self._ask(SumsQuestion(release, parts, trees, self._weight_steps, self.n_rows))
        self.noise_factor = answer.factor
        return answer.sums
