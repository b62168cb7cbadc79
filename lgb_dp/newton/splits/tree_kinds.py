"""Random trees against greedy ones: which kind explains more per release, by what was released.

A leaf value v = -w G explains w (G² - σ²) - w² H G² / 2 of the training loss on average, with σ the standard
deviation of the noise.  Of G², H is chance in the labels (`lgb_dp.newton.step_size`), which is taken off,
too.  The mean over the trees of a kind is its score.

On some data greedy trees explain six times as much as random ones, on others nothing at all, and there the
small leaves that they make are worse than useless.  They are drawn for good only if a trial shows a clear
lead: on held-out folds, with half of the chance taken off, those of 14 standard errors gained 0.05 of AUC,
those of 11 0.002, and one of 5 lost 0.003 (docs/experiments/newton.md).  This is post-processing of
released sums and costs no privacy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lgb_dp.newton.releases.trees import LeafRelease

_STDS_OF_LEAD = 6.0
_TINY = 1e-100


class TreeKinds:
    """Scores of random and of greedy trees; with `is_log_loss`, a gradient's variance is its hessian."""

    def __init__(self, *, is_log_loss: bool) -> None:
        self._is_chance_known = is_log_loss
        # Of random and greedy trees: sum of scores, number, and sum of the scores' variances.
        self._sums = np.zeros((2, 3))

    def note(self, release: LeafRelease, value: NDArray[np.float64], *, greedy: bool) -> None:
        """Take note of what a tree released, and of the values that its leaves got."""
        g2, hessian, noise = release.gradient**2, np.maximum(release.hessian, 0.0), release.std**2
        w = -value * release.gradient / np.maximum(g2, _TINY)
        chance = hessian if self._is_chance_known else 0.0
        score = float((w * (g2 - noise - chance) - w**2 * hessian * g2 / 2).sum())
        variance = float((w**2 * (2 * noise**2 + 4 * noise * hessian + 2 * hessian**2)).sum())
        self._sums[int(greedy)] += [score, 1.0, variance]

    @property
    def greedy_leads(self) -> bool:
        """Whether greedy trees clearly explain more."""
        score, number, variance = self._sums.T
        if not number.all():
            return False
        lead = score[1] / number[1] - score[0] / number[0]
        return bool(lead > _STDS_OF_LEAD * np.sqrt((variance / number**2).sum()))
