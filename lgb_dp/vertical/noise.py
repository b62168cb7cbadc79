"""The noise that each party adds to its shares of opened sums, and why opened sums are private.

Every party adds to its shares of a tree's sums, leaf by leaf, a discrete Gaussian number of variance V_g to
that of gradients and one of variance V_h to that of hessians,

    V_g = ⌈(CK / μ)² + 4⌉,  V_h = ⌈(κK / μ)² + 4⌉,

in squared steps, K a unit (`numbers`).  Opened sums have the noise of both.

Theorem.  Given both parties' dithers, the other party's noise and all data of the other party, the opened
sums of a tree are μ-GDP with respect to the values of one row of a party: left out, or not.  That is but for
a factor within exp(±η) of every probability, η = 4·exp(-8π²) < 10⁻³³ per leaf and number.

1. *A row's part is bounded whatever the dithers are.*  A row adds a pair of integer steps (q, h) to one leaf:
   the entry of its table at its point, and every entry has (q / CK)² + (h / κK)² ≤ 1 after rounding
   (`tables`).  Points, leaves and dithers decide which entry and which leaf, and no other row's.
2. *Continuous noise of variances (CK / μ)² and (κK / μ)² is μ-GDP for it*: in standard deviations the sums of
   all leaves move by μ·√((q / CK)² + (h / κK)²) ≤ μ.  Other rows, the other party's noise and its part of the
   sums add up to a vector that does not depend on the row.
3. *Discrete noise is post-processing of it* but for the factor: a discrete Gaussian of variance V is, up to
   exp(±η), a continuous one of variance V - 4 that is rounded at random (`lgb_dp.accounting.shares`, steps 2
   and 3).  V - 4 is at least what step 2 needs.
4. *Dithers need not be secret.*  They are drawn whatever the data are, so (dithers, sums) is a mixture with
   the same weights for neighbouring data, and μ-GDP for each value of the dithers is μ-GDP for the pair.  Nor
   must they be uniform, which only keeps rounding unbiased.  But they must not follow from data, and must
   have a stream of their own: a dither that shares words with noise gives these words away.
5. *Trees compose*, though each may depend on sums opened before (`lgb_dp.accounting.gaussian`), as gradients
   do through the scores.

Replacing a row's values is leaving out and adding, 2μ.  Hessians are never negative; where the sign of q is
kept, too, both pairs are in one quarter of the ellipse, at most √2 apart in its metric: √2·μ.

Noise is drawn afresh for every attempt, from a stream of its own that an auditor with the party's seed and
messages can repeat (`gbdt_parties.run.flights.driver`).  Noise drawn twice alike for other sums would be
an equation without noise for their difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lgb_dp.mechanisms.discrete_gaussian import discrete_gaussian
from lgb_dp.mechanisms.rng import WordSource
from lgb_dp.vertical.numbers import PublicNumbers


def sum_noise(numbers: PublicNumbers, n_leaves: int, stream: WordSource) -> NDArray[np.uint64]:
    """One party's noise for the sums of one tree: uint64 ring elements of shape (n_leaves,).

    They are taken modulo 2^64, a multiple of the ring's modulus. `numbers` have V_g and V_h
    (`PublicNumbers.variances`). The `stream` serves this tree and attempt alone; trees of one round may take
    theirs from one stream in turn.
    """
    gradient, hessian = (discrete_gaussian(n_leaves, variance, stream) for variance in numbers.variances)
    return numbers.packed(gradient, hessian)
