"""The one door through which private numbers leave, and the exact samplers behind it.

Every number that is computed from private rows and that anyone sees leaves lgb_dp through one of four
functions: `release_gaussian` and `release_laplace` add noise to integer sums, `release_share` adds a party's
share of it before its sums are masked, and `select` chooses among candidates.  Trainers, metadata and the
search draw no noise themselves; `observed` shows what goes through.

All of them are drawn exactly, without any floating-point error.  Utilities of a selection are computed in
float64 from exact integer sums and then drawn among with integer weights; both roundings are bounded below
and paid for out of the budget, so the ε asked for is never exceeded.  Noise is an integer, drawn exactly, and
added to exact integer sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import Literal

import gmpy2
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gbdt_kernels.draws import discrete_laplace_from_words, of_candidates
from gbdt_kernels.draws import select as select_from_words
from gbdt_kernels.draws.discrete import LOG2_DENOMINATOR
from gbdt_kernels.draws.selection import WORD_PAIRS_PER_DRAW
from lgb_dp.checks import Interval, checked_number
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.mechanisms.discrete_gaussian import discrete_gaussian
from lgb_dp.mechanisms.rng import SecureRandom, WordSource

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

    If adding a row changes every utility by an amount in an interval of length `range_width`, then P ∝
    exp(scale · utility) with scale = ε / range_width is ε-DP: the numerator and the normaliser move by
    factors within exp(scale · interval) (Durfee and Rogers, "Practical Differentially Private Top-k
    Selection", NeurIPS 2019, bounded range). `InvalidArgumentError` if `epsilon` does not even pay for the
    rounding of the draw.
    """
    exact = epsilon * (1.0 - UTILITY_SLACK) - DRAW_SLACK
    if exact <= 0:
        raise InvalidArgumentError(
            f"epsilon of one selection is {epsilon:g}; it must exceed {2 * DRAW_SLACK:.1e}"
        )
    return exact / range_width


@dataclass(frozen=True, eq=False)
class PrivateValues:
    """Private values that a release reads, before any protection.

    They are exact integer sums, or the log-weights of the candidates of every node. The scale is the standard
    deviation of Gaussian noise, or the scale of Laplace noise; 1 for log-weights.
    """

    mechanism: Literal["Gaussian", "discrete Gaussian", "discrete Laplace", "exponential"]
    values: NDArray[np.int64] | NDArray[np.float64]
    scale: float


Released = NDArray[np.int64]
Observer = Callable[[PrivateValues, Callable[[], Released]], Released]
"""Called with what a release reads and the function that makes it; returns what is released."""
_OBSERVER: ContextVar[Observer | None] = ContextVar("observer of releases", default=None)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """For audits and tests: let `observer` see, and replace, every release of this thread."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def _released(read: Callable[[], PrivateValues], release: Callable[[], Released]) -> Released:
    observer = _OBSERVER.get()
    return release() if observer is None else observer(read(), release)


def release_gaussian(
    sums: NDArray[np.int64], scale: float, random: WordSource | GaussianReserve
) -> NDArray[np.int64]:
    """Integer sums with rounded Gaussian noise, of a standard deviation in (0, 2⁴⁸] integer steps.

    A reserve must have been made for this scale.
    """

    def release() -> Released:
        if isinstance(random, GaussianReserve):
            return sums + random.hand_out(scale, *sums.shape)
        return sums + rounded_gaussian(sums.size, scale, random).reshape(sums.shape)

    return _released(lambda: PrivateValues("Gaussian", sums, scale), release)


def release_share(sums: NDArray[np.int64], variance: int, random: WordSource) -> NDArray[np.int64]:
    """Integer sums of one party's rows, with that party's share of the noise of a sum over parties.

    By itself a share protects less than the whole: the result must leave only masked
    (`gbdt_parties.secure_sum`), so that only its sum with the others' is seen. The variance is that of the
    share, in squared integer steps (`lgb_dp.accounting.shares`).
    """

    def release() -> Released:
        return sums + discrete_gaussian(sums.size, variance, random).reshape(sums.shape)

    return _released(lambda: PrivateValues("discrete Gaussian", sums, math.sqrt(variance)), release)


def release_laplace(
    sums: NDArray[np.int64], sensitivity: int, epsilon: float, random: SecureRandom
) -> NDArray[np.int64]:
    """Integer sums with discrete Laplace noise; ε-DP (nats) if a row changes them by `sensitivity` steps."""

    def release() -> Released:
        return sums + discrete_laplace(sums.size, sensitivity, epsilon, random).reshape(sums.shape)

    return _released(lambda: PrivateValues("discrete Laplace", sums, sensitivity / epsilon), release)


def select(
    utilities: NDArray[np.float64],
    random: SecureRandom,
    n_threads: int = 0,
    repeats: NDArray[np.int32] | None = None,
) -> NDArray[np.int64]:
    """Number of one candidate per node by the exponential mechanism.

    Utilities, shape (n_nodes, n_utilities), are times the scale of `selection_scale` already. Which
    candidates share utilities is said as `gbdt_kernels.draws.select` takes it; by default none do.
    """

    def read() -> PrivateValues:
        of_all = utilities if repeats is None else of_candidates(utilities, repeats)
        return PrivateValues("exponential", of_all, 1.0)

    def release() -> Released:
        chosen = np.full(len(utilities), -1, dtype=np.int64)
        while (chosen < 0).any():
            words = random.words(len(utilities), 2 * WORD_PAIRS_PER_DRAW)
            select_from_words(utilities, words, chosen, n_threads, repeats)
        return chosen

    return _released(read, release)


def discrete_laplace(n: int, sensitivity: int, epsilon: float, random: SecureRandom) -> NDArray[np.int64]:
    """Independent integers with P(k) ∝ exp(-|k| ε / sensitivity), ε rounded down.

    Added to integers whose sum of absolute changes is at most `sensitivity` when a row is added, it is ε-DP.
    The sensitivity is in steps of the released integers, and ε, the cost, in nats. `InvalidArgumentError` if
    `epsilon` is too small to be a multiple of ``sensitivity / 2**52``.
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
DRAWS_AT_ONCE = 1024
"""Numbers that a reserve draws ahead, at least."""


def rounded_gaussian(n: int, scale: float, random: WordSource) -> NDArray[np.int64]:
    """Independent integers ``round(scale · z)`` of exact standard normal z.

    Added to integers, it is post-processing of the continuous Gaussian mechanism on them: the sum of an
    integer and a real, rounded, is the integer plus the rounded real.

    A draw is ``z = ±Φ⁻¹(1 - t/2)`` with t uniform on (0, 1).  The first 63 bits of t put scale · z in an
    interval: float64 and `NDTRI_ERROR` move its ends by a known amount.  Where that interval holds a
    half-integer, more bits of t are drawn and Φ is evaluated with as much precision as tells them apart.
    So the distribution is exact: no floating-point number decides anything that its error could change.

    The scale is the standard deviation in integer steps, in (0, 2⁴⁸]; `InvalidArgumentError` if it is out of
    range.
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


class GaussianReserve:
    """Independent draws of `rounded_gaussian`, made many at a time because a few cost as much as hundreds.

    Threads may share it. The scale is the standard deviation in integer steps.
    """

    def __init__(self, scale: float, random: SecureRandom) -> None:
        self.scale, self._random = scale, random
        self._drawn = np.empty(0, dtype=np.int64)
        self._lock = Lock()

    def hand_out(self, scale: float, *shape: int) -> NDArray[np.int64]:
        """Draws that were not taken before.

        `InvalidArgumentError` if the reserve was made for another `scale`; `ForkedProcessError` in a forked
        process: what was drawn ahead is the parent's noise.
        """
        if scale != self.scale:
            raise InvalidArgumentError(f"the reserve holds noise of scale {self.scale:g}, not {scale:g}")
        self._random.refuse_fork()
        n = math.prod(shape)
        with self._lock:
            if len(self._drawn) < n:
                more = rounded_gaussian(max(n, DRAWS_AT_ONCE), self.scale, self._random)
                self._drawn = np.concatenate([self._drawn, more])
            taken, self._drawn = self._drawn[:n], self._drawn[n:]
        return taken.reshape(shape)


def _resolved(tail: int, guess: int, scale: float, random: WordSource) -> int:
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
