"""The two mechanisms of pure differential privacy that the trainers use, exact down to the last bit.

Utilities are computed in float64 from exact integer sums and then drawn among
with integer weights; both roundings are bounded below and paid for out of the
budget, so the ε asked for is never exceeded.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from gbdt_kernels import discrete_laplace_from_words
from gbdt_kernels import select as select_from_words
from gbdt_kernels.sampling import LOG2_DENOMINATOR
from gbdt_kernels.selection import WORD_PAIRS_PER_DRAW
from numpy.typing import NDArray

from lgb_dp.rng import SecureRandom

MAX_ROWS = 2**31
"""Rows a training may have (a row number takes 31 bits); bounds the rounding of gains."""

UTILITY_SLACK = 2.0**-18
"""Relative widening of the range of ``scale · gain`` by float64 rounding.

A gain is two terms G²/(N + λ), each at most N (times w̄g*²), each within 9 roundings; the product with the
scale is one more.  So a gain is off by at most 10·2⁻⁵³·n w̄g*² with n < 2³¹, and a difference of gains of
two data sets by twice that: below 2⁻¹⁷ w̄g*², under 2⁻¹⁸ of the range's width (at least 4w̄g*²).
"""

DRAW_SLACK = 2.0**-29
"""ε that rounding exponentials to integer weights costs.

A weight is within 2⁻³² (rounded down) and 2⁻⁵⁰ (float64 exp) of the true one, relatively; so are sums of
weights.  A ratio of two probabilities of two data sets has four such factors: less than 4·2⁻³¹ = 2⁻²⁹.
"""


def selection_scale(epsilon: float, range_width: float) -> float:
    """Factor from utility to log-weight of an exponential mechanism that costs `epsilon`, all slack included.

    If adding a row changes every utility by an amount in an interval of length `range_width`, then
    P ∝ exp(scale · utility) with scale = ε / range_width is ε-DP: the numerator and the normaliser move by
    factors within exp(scale · interval) (Durfee and Rogers, "Practical Differentially Private Top-k
    Selection", NeurIPS 2019, bounded range).

    Raises
    ------
    ValueError
        If `epsilon` does not even pay for the rounding of the draw.
    """
    exact = epsilon * (1.0 - UTILITY_SLACK) - DRAW_SLACK
    if exact <= 0:
        raise ValueError(f"epsilon of one selection is {epsilon:g}; it must exceed {2 * DRAW_SLACK:.1e}")
    return exact / range_width


def select(utilities: NDArray[np.float64], random: SecureRandom, n_threads: int = 0) -> NDArray[np.int64]:
    """One candidate per node by the exponential mechanism.

    Parameters
    ----------
    utilities : ndarray of float64, shape (n_nodes, n_candidates)
        Already times the scale of `selection_scale`.

    Returns
    -------
    ndarray of int64, shape (n_nodes,)
        Numbers of the chosen candidates.
    """
    chosen = np.full(len(utilities), -1, dtype=np.int64)
    while (chosen < 0).any():
        words = random.words(len(utilities), 2 * WORD_PAIRS_PER_DRAW)
        select_from_words(utilities, words, chosen, n_threads)
    return chosen


def discrete_laplace(n: int, sensitivity: int, epsilon: float, random: SecureRandom) -> NDArray[np.int64]:
    """Independent integers with P(k) ∝ exp(-|k| ε / sensitivity), ε rounded down.

    Added to integers whose sum of absolute changes is at most `sensitivity` when a row is added, it is ε-DP.

    Parameters
    ----------
    n : int
        How many.
    sensitivity : int
        In steps of the released integers.
    epsilon : float
        Cost in nats.

    Raises
    ------
    ValueError
        If `epsilon` is too small to be a multiple of ``sensitivity / 2**52``.
    """
    numerator = min(int(Fraction(epsilon) / sensitivity * 2**LOG2_DENOMINATOR), 2**62)
    if numerator < 1:
        raise ValueError(
            f"epsilon of one release is {epsilon:g}; too small for a sensitivity of {sensitivity}"
        )
    noise = np.empty(n, dtype=np.int64)
    words = random.words(32 * n + 64)
    while discrete_laplace_from_words(numerator, words, noise) < n:
        words = np.concatenate([words, random.words(len(words))])
    return noise
