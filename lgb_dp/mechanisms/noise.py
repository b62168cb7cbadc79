"""The mechanisms that the trainers use, drawn exactly, without any floating-point error.

Selection: utilities are computed in float64 from exact integer sums and then
drawn among with integer weights; both roundings are bounded below and paid
for out of the budget, so the ε asked for is never exceeded.  Noise is an
integer, drawn exactly, and added to exact integer sums.
"""

from __future__ import annotations

from fractions import Fraction

import gmpy2
import numpy as np
from gbdt_kernels.trees import discrete_laplace_from_words
from gbdt_kernels.trees import select as select_from_words
from gbdt_kernels.trees.sampling import LOG2_DENOMINATOR
from gbdt_kernels.trees.selection import WORD_PAIRS_PER_DRAW
from numpy.typing import NDArray
from scipy.special import ndtri

from lgb_dp.checks import Interval, checked_number
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.mechanisms.rng import SecureRandom

MAX_ROWS = 2**31
"""Rows that a training set may have (a row number takes 31 bits); bounds the rounding of gains."""

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
    InvalidArgumentError
        If `epsilon` does not even pay for the rounding of the draw.
    """
    exact = epsilon * (1.0 - UTILITY_SLACK) - DRAW_SLACK
    if exact <= 0:
        raise InvalidArgumentError(
            f"epsilon of one selection is {epsilon:g}; it must exceed {2 * DRAW_SLACK:.1e}"
        )
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
    InvalidArgumentError
        If `epsilon` is too small to be a multiple of ``sensitivity / 2**52``.
    """
    numerator = min(int(Fraction(epsilon) / sensitivity * 2**LOG2_DENOMINATOR), 2**62)
    if numerator < 1:
        raise InvalidArgumentError(
            f"epsilon of one release is {epsilon:g}; too small for a sensitivity of {sensitivity}"
        )
    noise = np.empty(n, dtype=np.int64)
    words = random.words(32 * n + 64)
    while discrete_laplace_from_words(numerator, words, noise) < n:
        words = np.concatenate([words, random.words(len(words))])
    return noise


NDTRI_ERROR = 2.0**-40
"""Error granted to SciPy's inverse normal distribution on (0, 1/2], relative and beside an error of its
argument in the last place; observed against MPFR is below 2**-50."""

_MIN_STEPS_OF_TAIL = 2**20
_EXACT_BITS = 64
_MAX_SCALE = 2.0**48


def rounded_gaussian(n: int, scale: float, random: SecureRandom) -> NDArray[np.int64]:
    """Independent integers ``round(scale · z)`` of exact standard normal z.

    Added to integers, it is post-processing of the continuous Gaussian mechanism on them: the sum of an
    integer and a real, rounded, is the integer plus the rounded real.

    A draw is ``z = ±Φ⁻¹(1 - t/2)`` with t uniform on (0, 1).  The first 63 bits of t put scale · z in an
    interval: float64 and `NDTRI_ERROR` move its ends by a known amount.  Where that interval holds a
    half-integer, more bits of t are drawn and Φ is evaluated with as much precision as tells them apart.
    So the distribution is exact: no floating-point number decides anything that its error could change.

    Parameters
    ----------
    n : int
        How many.
    scale : float
        Standard deviation in integer steps, in (0, 2⁴⁸].

    Raises
    ------
    InvalidArgumentError
        If `scale` is out of range.
    """
    checked_number("scale of Gaussian noise in integer steps", scale, Interval(0, _MAX_SCALE, "(]"))
    words = random.words(n)
    tail = words >> np.uint64(1)
    negative = (words & np.uint64(1)).astype(bool)
    steps = tail.astype(np.float64)
    z = -ndtri(np.maximum(steps, 0.5) * 2.0**-64)
    # d z = Φ'(z)⁻¹ dt / 2, and the Mills ratio t / (2 φ(z)) is at most √(π/2): dz ≤ 1.26 dt / t.  Of t are
    # unknown one step, its rounding to float64, and the same again for what follows.
    unknown = scale * (1.26 * (1.0 / np.maximum(steps, 0.5) + 2.0**-51) + z * (NDTRI_ERROR + 2.0**-51))
    magnitude = scale * z
    nearest = np.rint(magnitude)
    doubtful = (np.abs(np.abs(magnitude - nearest) - 0.5) <= unknown) | (steps < _MIN_STEPS_OF_TAIL)
    drawn: NDArray[np.int64] = nearest.astype(np.int64)
    for i in np.flatnonzero(doubtful):
        drawn[i] = _resolved(int(tail[i]), int(drawn[i]), scale, random)
    return np.where(negative, -drawn, drawn)


def _resolved(tail: int, guess: int, scale: float, random: SecureRandom) -> int:
    """``round(scale · z)`` with as many more bits of the tail probability as it takes.

    With T the b bits of t so far, t is in [T, T + 1] / 2ᵇ.  The answer is k if the tail probabilities
    erfc((k ± 1/2) / (scale √2)) of both ends of [k - 1/2, k + 1/2] enclose that interval; MPFR gives erfc
    within one unit of its last place, and 2⁻²⁰⁰ of itself is granted here.
    """
    bits, k = 63, guess
    with gmpy2.context(gmpy2.get_context(), precision=256):
        unit = gmpy2.mpfr(scale) * gmpy2.sqrt(gmpy2.mpfr(2))
        slack = gmpy2.mpfr(2) ** -200

        def probability_beyond(steps: int) -> gmpy2.mpfr:
            return gmpy2.erfc((steps + gmpy2.mpfr(0.5)) / unit) if steps >= 0 else gmpy2.mpfr(2)

        while True:
            tail = (tail << _EXACT_BITS) | int(random.words(1)[0])
            bits += _EXACT_BITS
            low, high = gmpy2.mpfr(tail) / 2**bits, gmpy2.mpfr(tail + 1) / 2**bits
            while probability_beyond(k) > high:
                k += 1
            while k > 0 and probability_beyond(k - 1) < low:
                k -= 1
            if probability_beyond(k) * (1 + slack) < low and high < probability_beyond(k - 1) * (1 - slack):
                return k
