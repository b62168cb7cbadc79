"""Whether anything in the released leaf sums stands out of noise and chance; if not, the report says so.

Under the null hypothesis, labels are drawn without regard to the features.  The mean of G², G the sum of a
leaf's gradients, then is ``τ² = σ² + c + d + b``, where

- σ² is the noise's, drawn anew for each release;
- c is chance in the labels: n Σ p (1 - p) over all leaves, by the released label counts, shared out in
  proportion to the released hessians, and at least these, which are the variance where gradients are not
  clipped;
- d is the model's own noise, which later trees see and undo.  A step of rate r on a quadratic loss of
  curvature A in the leaf changes it by ``-r (2 - ρ) G² / 2D + r² A σ² / 2D²`` on average, ρ = r A / D.  Since
  the loss at the start is its minimum but for chance, ``Σ G² / D`` is ``Σ r A σ² / D² / (2 - ρ)`` at most;

``Q = Σ G² / D`` over the first trees therefore has the mean ``Σ τ² / D``.  As all trees see the same chance,
the standard deviations of c are added up over trees, and those of the noise by their squares.
Q is compared with the quantile of the scaled χ² distribution of this mean and variance, for an eighth, a
quarter, half and all of the trees, each at a quarter of the level (Bonferroni's bound).

Where nothing separates and steps are steady (ρ), reports say so in at least 95 of 100 runs
(`tests/lgb_dp/newton/test_separation.py`).  They may say so of an effect, too: only that it does not show in
what was released.
This is post-processing of released sums and costs no privacy.

Other training runs have no such test, since what they release says too little about chance:

- Regression.  c needs the variance of a row's gradient, which for classes follows from the released counts.
  Of targets, a mean is released, or counts on a grid of a few points.  The clip bounds the gradients, but
  with bounds that are ten times as wide as the targets, its square is a hundred times the variance, and the
  report of a good model would say that nothing separates.  Of the square loss alone, the released hessians
  say more: 2 C² (n - 2H) bounds the c of n rows of clip C with hessians of sum H.  A test that rested on it
  fell short of 95 of 100 runs with bounds ten times as wide as the targets.
- `DPBoost` and `MBoost` choose splits by the gains of the rows that the leaf values are then computed of.
  Without any relation, the leaves of the best of many splits stand out of chance already, by an amount that
  depends on the private gains of all candidates, of which only the chosen one is released.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import chi2

from lgb_dp.losses.loss import Start
from lgb_dp.newton.releases.trees import LeafRelease

LEVEL = 0.05
"""Largest share of runs without any relation of labels to features whose reports lack the note."""

NOTE = (
    "nothing separates by what was released: leaf sums are no larger than noise and chance make them, so "
    "that the model may be no better than guessing; of runs on labels without any relation to the "
    "features, at least 95% say so; more rows or a larger epsilon help"
)

MIN_TREES = 10
"""Fewer trees are too few to say anything."""

_LOOKS = (0.125, 0.25, 0.5, 1.0)
"""Shares of the trees after which Q is looked at."""

_LARGEST_STEP = 1.8
"""ρ up to which d is trusted.  Steps overshoot beyond 2, where there are many rows and clipped gradients
hide the curvature; reports then say nothing."""

_TINY = 1e-9


class Separation:
    """The test of a training run of classes.

    Parameters
    ----------
    n_trees : int
        Of the whole run.
    start : Start
    subsample : float
        Share of the rows that a tree sums, whose draw makes chance larger.
    """

    def __init__(self, n_trees: int, start: Start, subsample: float) -> None:
        self._looks = [max(1, round(share * n_trees)) for share in _LOOKS]
        is_binary = len(start.prior) == 1
        p = softmax([start.prior[0], 0.0])[:1] if is_binary else softmax(start.prior)
        self._chance = start.n_rows * p * (1 - p) / subsample
        self._n_seen = 0
        self._stands_out, self._is_steady = False, True
        self._q = self._mean = self._of_noise = self._of_chance = 0.0

    def note(self, release: LeafRelease, denominator: NDArray[np.float64], rate: float) -> None:
        """Take note of a release, of the denominators of its leaf values, and of the length of its step."""
        hessian, sigma2 = np.maximum(release.hessian, 0.0) + _TINY, release.std**2
        share = hessian / hessian.sum(axis=0)
        gradient = release.gradient - share * release.gradient.sum(axis=0)
        noise = sigma2 * (1 - 2 * share + len(share) * share**2)
        chance = np.maximum(hessian, self._chance * share)
        step = rate * chance.sum() / denominator.sum()
        self._is_steady &= bool(step <= _LARGEST_STEP)
        own = 0.0
        if self._n_seen:  # The first tree's rows stand at the start.
            own = rate / (2 - min(step, _LARGEST_STEP)) * chance * sigma2 / denominator
        spread = noise + chance + own
        self._q += float((gradient**2 / denominator).sum())
        self._mean += float((spread / denominator).sum())
        self._of_noise += float((2 * (spread**2 - chance**2) / denominator**2).sum())
        self._of_chance += float(np.sqrt(2 * (chance**2 / denominator**2).sum()))
        self._n_seen += 1
        if self._n_seen in self._looks:
            self._stands_out |= self._q > self._quantile()

    def _quantile(self) -> float:
        """Of the null distribution, by the χ² distribution of the same mean and variance, scaled."""
        freedom = 2 * (self._mean / (np.sqrt(self._of_noise) + self._of_chance)) ** 2
        return float(self._mean * chi2.ppf(1 - LEVEL / len(_LOOKS), freedom) / freedom)

    @property
    def notes(self) -> tuple[str, ...]:
        """The remark for the report, if there is one."""
        if self._n_seen < MIN_TREES or self._stands_out or not self._is_steady:
            return ()
        return (NOTE,)
