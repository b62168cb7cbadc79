"""How long steps may be: full while trees explain something, shorter where only chance is left to learn.

The noise of a release is drawn anew for every tree, and later trees correct what it did.  The rows are the
same in every round: what is chance in their labels is learned like everything else, if training goes on for
long enough.  Noise hides it at a small ε; at a large one, a model of many steps learns the rows by heart.

Labels drawn with probability p have variance p (1 - p), which is the hessian.  A leaf's G² therefore is H on
average by chance alone, and less once the model has learned some of that chance.  With D the denominator of
the leaf values and σ the noise, S = Σ (G² - σ²) / D over the last trees is what is left to explain in the
training rows, and N = Σ H / D what chance alone leaves in rows that a model has not seen.  Steps are full
while S ≥ N, and none are made where S ≤ N / 2.  On held-out folds the AUC is highest where S is 0.5 to 0.7 of
N, whatever the data (docs/experiments/newton.md).  Two standard deviations of the noise are added to S, so
that nothing is held back unless the releases show it.

This is post-processing of released sums and costs no privacy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.splits.learned import OPENING_SHARE

_FULL_FROM = 1.0
_NONE_UP_TO = 0.5
"""S over N."""

_WINDOW = 0.033
"""Share of the rounds over which S and N are averaged, with weights that fall exponentially."""

_STDS_OF_DOUBT = 2.0


class StepSize:
    """Factor of the learning rate, from what the last trees released.

    Steps are always full unless labels are classes and all rows weigh the same, so that the largest weight
    has one integer step. So they are without `may_end`: where every leaf holds many rows of balanced classes,
    little of what is learned is chance, and what S lacks for N is rather that labels are nearly certain.
    """

    def __init__(self, n_rounds: int, objective: str, weight_steps: int, *, may_end: bool = True) -> None:
        # The variance of G is H if labels are classes and all rows weigh the same.
        self._is_chance_known = may_end and OBJECTIVES[objective].is_log_loss and weight_steps == 1
        # Trees of one feature each soon explain nothing more.
        self._first = OPENING_SHARE * n_rounds
        self._kept = float(np.exp(-1 / max(_WINDOW * n_rounds, 1.0)))
        self._n_seen = 0
        self._explained = self._chance = self._variance = 0.0

    def factor(self, release: LeafRelease, denominator: NDArray[np.float64]) -> float:
        """Take note of a release whose leaf values have the given denominators; the factor is in [0, 1]."""
        self._n_seen += 1
        if self._n_seen <= self._first or not self._is_chance_known:
            return 1.0
        hessian, noise = np.maximum(release.hessian, 0.0), release.std**2
        explained = (release.gradient**2 - noise) / denominator
        # Of G² with normal noise around a G of variance H.
        variance = (2 * noise**2 + 4 * noise * hessian) / denominator**2
        self._explained = self._kept * self._explained + float(explained.sum())
        self._chance = self._kept * self._chance + float((hessian / denominator).sum())
        self._variance = self._kept**2 * self._variance + float(variance.sum())
        if self._chance <= 0:
            return 1.0
        largest = self._explained + _STDS_OF_DOUBT * np.sqrt(self._variance)
        return float(np.clip((largest / self._chance - _NONE_UP_TO) / (_FULL_FROM - _NONE_UP_TO), 0.0, 1.0))
