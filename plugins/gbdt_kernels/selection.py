"""Draw one candidate split per node with probability proportional to exp(scale · gain), exactly.

Weights are integers, so the draw among them has no rounding: a float64
cumulative sum would never reach candidates below 2⁻⁵³ of the total.

With ``m = max(scale·gain)``, candidate ``i`` gets the weight
``floor(2⁶² · exp(max(scale·gain_i − m, −FLOOR)))`` where ``FLOOR = 30 ln 2``.
Flooring keeps the mechanism private: if a neighbouring data set moves every
``scale·gain_i`` by an amount in ``[a, a + ε]``, it moves their maximum, and so
``max(scale·gain_i, m − FLOOR)``, by an amount in the same interval.  Every
weight is at least 2³², so rounding down changes it by less than 2⁻³² of itself.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gbdt_kernels.layout import BinLayout
from gbdt_kernels.splitting import _candidate_gains
from gbdt_kernels.threads import blocks, run

FLOOR = 30.0 * np.log(2.0)
WORD_PAIRS_PER_DRAW = 16

_TOP = np.float64(2.0**62)
_LOWEST_WEIGHT = np.uint64(2**32)


@njit(nogil=True, cache=True)
def _integer_weights(utilities, weights):
    """Turn log-weights into integer weights; return their sum as two 64-bit words."""
    largest = utilities[0]
    for u in utilities:
        largest = max(largest, u)
    high = np.uint64(0)
    low = np.uint64(0)
    for i in range(len(utilities)):
        below = utilities[i] - largest
        weight = _LOWEST_WEIGHT if below <= -FLOOR else np.uint64(_TOP * np.exp(below))
        weights[i] = weight
        low += weight
        if low < weight:
            high += np.uint64(1)
    return high, low


@njit(nogil=True, cache=True)
def _smear(word):
    """All bits below the highest one, set."""
    for shift in (1, 2, 4, 8, 16, 32):
        word |= word >> np.uint64(shift)
    return word


@njit(nogil=True, cache=True)
def _draw(weights, high, low, words):
    """Index drawn in proportion to integer weights with sum ``high·2⁶⁴ + low``; -1 if all words were rejected."""
    high_mask = _smear(high)
    low_mask = ~np.uint64(0) if high > 0 else _smear(low)
    for k in range(0, len(words), 2):
        drawn_high = words[k] & high_mask
        drawn_low = words[k + 1] & low_mask
        if drawn_high > high or (drawn_high == high and drawn_low >= low):
            continue
        for i in range(len(weights)):
            if drawn_high == 0 and drawn_low < weights[i]:
                return i
            if drawn_low < weights[i]:
                drawn_high -= np.uint64(1)
            drawn_low -= weights[i]
    return -1


@njit(nogil=True, cache=True)
def _select_splits(
    histograms,
    n_bins,
    is_categorical,
    bin_offsets,
    candidate_offsets,
    subsets,
    lambda_l2,
    scale,
    words,
    start,
    stop,
    chosen,
):
    n_candidates = candidate_offsets[-1]
    utilities = np.empty(n_candidates, dtype=np.float64)
    weights = np.empty(n_candidates, dtype=np.uint64)
    for node in range(start, stop):
        if chosen[node] >= 0:
            continue
        _candidate_gains(
            histograms[node],
            n_bins,
            is_categorical,
            bin_offsets,
            candidate_offsets,
            subsets,
            lambda_l2,
            utilities,
        )
        for i in range(n_candidates):
            utilities[i] *= scale
        high, low = _integer_weights(utilities, weights)
        chosen[node] = _draw(weights, high, low, words[node])


def select_splits(
    histograms: NDArray[np.int64],
    layout: BinLayout,
    lambda_l2: float,
    scale: float,
    words: NDArray[np.uint64],
    chosen: NDArray[np.int64],
    n_threads: int = 0,
) -> None:
    """Choose a candidate split for every node that has none yet.

    Parameters
    ----------
    histograms : ndarray of int64, shape (n_nodes, n_total_bins, 2)
    layout : BinLayout
    lambda_l2 : float
        Regularisation λ, in weight units.
    scale : float
        Factor from gain (in the histogram's units) to log-weight.
    words : ndarray of uint64, shape (n_nodes, 2 * WORD_PAIRS_PER_DRAW)
        Uniform random words, never used before.
    chosen : ndarray of int64, shape (n_nodes,)
        Written where negative; stays -1 where every word was rejected (less than one time in 2¹⁶):
        call again with fresh words.
    n_threads : int
        Threads at most; 0 means all available processors.
    """

    def work(_: int, start: int, stop: int) -> None:
        _select_splits(
            histograms,
            layout.n_bins,
            layout.is_categorical,
            layout.bin_offsets,
            layout.candidate_offsets,
            layout.subsets,
            lambda_l2,
            scale,
            words,
            start,
            stop,
            chosen,
        )

    run(work, blocks(len(chosen), n_threads, 10 * layout.n_candidates))
