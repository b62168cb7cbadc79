"""The exponential mechanism: one candidate per node with probability ∝ exp(log-weight), exactly.

Weights are integers, so the draw among them has no rounding: a float64
cumulative sum would never reach candidates below 2⁻⁵³ of the total.

With ``m`` the largest log-weight, a candidate of log-weight ``u`` gets the
integer weight ``floor(2⁶² · exp(max(u − m, −FLOOR)))``, ``FLOOR = 30 ln 2``.
Flooring keeps the mechanism private: if a neighbouring data set moves every
``u`` by an amount in ``[a, a + ε]``, it moves their maximum, and so
``max(u, m − FLOOR)``, by an amount in the same interval.  Every weight is at
least 2³², so rounding down changes it by less than 2⁻³² of itself.

Thresholds between which no row of a node lies have equal log-weights, and are most of the candidates in deep
nodes and of features with few values.  Such a run of neighbours takes one exponential; which of them is
drawn is what a sum over all candidates one by one would draw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run

FLOOR = 30.0 * np.log(2.0)
WORD_PAIRS_PER_DRAW = 16
_TOP = np.float64(2.0**62)
_MIN_WEIGHT = np.uint64(2**32)


@kernel
def _find_runs(utilities, value, end):
    """Write each run of equal utilities (float64) and where it ends (int32); how many, and the largest."""
    n = 0
    largest = last = utilities[0]
    for i in range(1, len(utilities)):
        u = utilities[i]
        if u != last:
            value[n] = last
            end[n] = i
            n += 1
            last = u
            largest = u if u > largest else largest
    value[n] = last
    end[n] = len(utilities)
    return n + 1, largest


@kernel
def _integer_weights(value, largest, weight):
    """Turn log-weights into integer weights (uint64)."""
    for r in range(len(value)):
        below = value[r] - largest
        weight[r] = _MIN_WEIGHT if below <= -FLOOR else np.uint64(_TOP * np.exp(below))


@kernel
def _cumulate(weight, end, high, low):
    """Sums of the weights of all candidates up to the end of each run: ``high·2⁶⁴ + low``, both uint64.

    A run adds its length, below 2³², times its weight, whose digits to the base 2³² are multiplied in turn.
    """
    sum_high, sum_low, start = np.uint64(0), np.uint64(0), 0
    for r in range(len(weight)):
        own, stop = weight[r], end[r]
        if stop - start == 1:
            sum_low += own
            sum_high += np.uint64(sum_low < own)
        else:
            length = np.uint64(stop - start)
            upper = (own >> np.uint64(32)) * length
            shifted = upper << np.uint64(32)
            added = (own & np.uint64(2**32 - 1)) * length + shifted
            sum_low += added
            sum_high += (upper >> np.uint64(32)) + np.uint64(added < shifted) + np.uint64(sum_low < added)
        high[r], low[r] = sum_high, sum_low
        start = stop


@kernel
def _smear(word):
    """All bits below the highest one, set."""
    for shift in (1, 2, 4, 8, 16, 32):
        word |= word >> np.uint64(shift)
    return word


@kernel
def _draw(weight, end, high, low, words):
    """Candidate drawn in proportion to its run's weight, by sums of `_cumulate`; -1 if words are rejected."""
    sum_high, sum_low = high[-1], low[-1]
    high_mask = _smear(sum_high)
    low_mask = ~np.uint64(0) if sum_high > 0 else _smear(sum_low)
    for k in range(0, len(words), 2):
        drawn_high = words[k] & high_mask
        drawn_low = words[k + 1] & low_mask
        if drawn_high > sum_high or (drawn_high == sum_high and drawn_low >= sum_low):
            continue
        run, last = 0, len(end) - 1
        while run < last:
            middle = (run + last) >> 1
            if high[middle] > drawn_high or (high[middle] == drawn_high and low[middle] > drawn_low):
                last = middle
            else:
                run = middle + 1
        i = 0
        if run > 0:
            i = np.int64(end[run - 1])
            drawn_high -= high[run - 1] + np.uint64(drawn_low < low[run - 1])
            drawn_low -= low[run - 1]
        while drawn_high > 0 or drawn_low >= weight[run]:
            drawn_high -= np.uint64(drawn_low < weight[run])
            drawn_low -= weight[run]
            i += 1
        return i
    return -1


@kernel
def _select(utilities, words, first, last, chosen):
    """As `select`, nodes `first` to `last` - 1."""
    n = utilities.shape[1]
    value, end, weight = np.empty(n), np.empty(n, dtype=np.int32), np.empty(n, dtype=np.uint64)
    high, low = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    for node in range(first, last):
        if chosen[node] < 0:
            m, largest = _find_runs(utilities[node], value, end)
            _integer_weights(value[:m], largest, weight)
            _cumulate(weight[:m], end, high, low)
            chosen[node] = _draw(weight, end[:m], high[:m], low[:m], words[node])


def select(
    utilities: NDArray[np.float64],
    words: NDArray[np.uint64],
    chosen: NDArray[np.int64],
    n_threads: int = 0,
) -> None:
    """Choose a candidate for every node that has none yet.

    Parameters
    ----------
    utilities : ndarray of float64, shape (n_nodes, n_candidates)
        Log-weights: the utility times the scale of the exponential mechanism.
    words : ndarray of uint64, shape (n_nodes, 2 * WORD_PAIRS_PER_DRAW)
        Uniform random words, never used before.
    chosen : ndarray of int64, shape (n_nodes,)
        Written where negative; stays -1 where every word was rejected (less than one time in 2¹⁶):
        call again with fresh words.
    n_threads : int
        Threads at most; 0 means all available processors.
    """
    run(
        lambda _, first, last: _select(utilities, words, first, last, chosen),
        blocks(len(chosen), n_threads, 8 * utilities.shape[1]),
    )
