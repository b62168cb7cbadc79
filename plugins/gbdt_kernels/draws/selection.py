"""The exponential mechanism: one candidate per node with probability ∝ exp(log-weight), exactly.

Weights are integers, so the draw among them has no rounding: a float64
cumulative sum would never reach candidates below 2⁻⁵³ of the total.

With ``m`` the largest log-weight, a candidate of log-weight ``u`` gets the
integer weight ``floor(2⁶² · exp(max(u − m, −FLOOR)))``, ``FLOOR = 30 ln 2``.
Flooring keeps the mechanism private: if a neighbouring data set moves every
``u`` by an amount in ``[a, a + ε]``, it moves their maximum, and so
``max(u, m − FLOOR)``, by an amount in the same interval.  Every weight is at
least 2³², so rounding down changes it by less than 2⁻³² of itself.
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
def _integer_weights(utilities, weights):
    """Turn log-weights into integer weights; return their sum as two 64-bit words."""
    largest = utilities[0]
    for u in utilities:
        largest = max(largest, u)
    high = np.uint64(0)
    low = np.uint64(0)
    for i in range(len(utilities)):
        below = utilities[i] - largest
        weight = _MIN_WEIGHT if below <= -FLOOR else np.uint64(_TOP * np.exp(below))
        weights[i] = weight
        low += weight
        if low < weight:
            high += np.uint64(1)
    return high, low


@kernel
def _smear(word):
    """All bits below the highest one, set."""
    for shift in (1, 2, 4, 8, 16, 32):
        word |= word >> np.uint64(shift)
    return word


@kernel
def _draw(weights, high, low, words):
    """Index drawn in proportion to weights of sum ``high·2⁶⁴ + low``; -1 if all words are rejected."""
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


@kernel
def _select(utilities, words, first, last, chosen):
    """As `select`, nodes `first` to `last` - 1."""
    weights = np.empty(utilities.shape[1], dtype=np.uint64)
    for node in range(first, last):
        if chosen[node] < 0:
            high, low = _integer_weights(utilities[node], weights)
            chosen[node] = _draw(weights, high, low, words[node])


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
