"""How a training run divides its budget: μ of every release, whose squares add up to the whole.

Composition is Dong, Roth and Su's ("Gaussian Differential Privacy", JRSS B 2022), corollary 3.3.  Whether the
histograms of the features and sums over all rows are released is decided by what the label counts show.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgb_dp.accounting.gaussian import gaussian_mu, sampled_mu
from lgb_dp.accounting.ledger import Ledger, Release
from lgb_dp.accounting.unit import HELD_OUT

PRIOR_SHARE = 0.01
"""Share of μ² that the released class counts (or label sum) get."""

HISTOGRAM_SHARE = 0.05
"""Share of μ² that the histograms of features get where they are released."""

LEVEL_SHARE = 0.02
"""Share of μ² that the sums over all rows get where they end the run (`lgb_dp.losses.level`)."""


class BudgetPlan:
    """The releases of one training run, granted by its ledger: of counts, histograms, trees and a level.

    ε, in nats and finite, and δ are of the whole run; so is `mu`, per row. A tree reads a share `subsample`
    of the rows. With `may_need_histograms`, the histograms may be released. `n_runs` runs on the same rows
    share ε and δ, each with an equal part of μ²; all of them read all rows.

    `counts`, `histograms`, `tree`, `level` and `held_out` are the releases of the label counts, the features'
    histograms, the leaf sums of one tree, the sums over all rows, and those about held-out rows, which have
    the shares `held_out` of μ².  A row trains or is held out, by a coin of its own: given the coins, it is in
    one of two disjoint sets, and a mixture over the coins costs no more.
    """

    def __init__(
        self,
        ledger: Ledger,
        epsilon: float,
        delta: float,
        n_rounds: int,
        subsample: float,
        *,
        may_need_histograms: bool,
        n_runs: int = 1,
        held_out: Sequence[float] = (),
    ) -> None:
        self._ledger, self._n_rounds = ledger, n_rounds
        ledger.granted_delta = max(ledger.granted_delta, delta)
        # Per row: a person's k rows cost kμ, or μ if they weigh no more than one row together.
        k = ledger.unit.row_costs
        self.mu = gaussian_mu(epsilon, delta) / k / np.sqrt(n_runs)
        self.counts = Release.gaussian("label counts", self.mu * np.sqrt(PRIOR_SHARE))
        self.histograms = Release.gaussian("feature histograms", self.mu * np.sqrt(HISTOGRAM_SHARE))
        self.level = Release.gaussian("sums over all rows", self.mu * np.sqrt(LEVEL_SHARE))
        self.held_out = tuple(
            Release(HELD_OUT, "Gaussian", 0.0, 0, 1, mu=self.mu * np.sqrt(share) * (1 - 1e-12))
            for share in held_out
        )
        self._last = [*self.held_out]
        # The cost of secret samples is no μ that could be divided anew: histograms are planned in any case.
        first = [self.counts, *[self.histograms] * (may_need_histograms and subsample < 1)]
        if subsample < 1:
            assert n_runs == 1
            # Samples are drawn per person, so that amplification is of what a person costs.
            before = k * float(np.sqrt(sum(release.mu**2 for release in first)))
            mu = sampled_mu(epsilon, delta, before, subsample, n_rounds) / k
        else:
            mu = self.mu * np.sqrt((1 - PRIOR_SHARE) / n_rounds) * (1 - 1e-12)
        self.tree = Release.gaussian("leaf sums", mu, subsample)
        ledger.grant([*first, *[self.tree] * n_rounds, *self._last])

    def charge_histograms(self) -> None:
        """Charge them, before the first tree; unless they were planned for, the trees cost as much less."""
        if self.tree.probability == 1.0:
            self._take_from_trees(self.histograms)
            self._ledger.replan([self.histograms, *[self.tree] * self._n_rounds, *self._last])
        self._ledger.charge(self.histograms)

    def plan_level(self, n_releases: int) -> None:
        """Plan the sums over all rows, with `LEVEL_SHARE`, before the trees, which cost as much less."""
        self._take_from_trees(self.level)
        self.level = Release.gaussian("sums over all rows", self.level.mu / np.sqrt(n_releases))
        self._last = [*[self.level] * n_releases, *self._last]
        self._ledger.replan([*[self.tree] * self._n_rounds, *self._last])

    def _take_from_trees(self, release: Release) -> None:
        squared = self.tree.mu**2 - release.mu**2 / self._n_rounds
        self.tree = Release.gaussian("leaf sums", np.sqrt(squared) * (1 - 1e-12))
