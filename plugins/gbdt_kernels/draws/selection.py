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
drawn is what a sum over all candidates one by one would draw.  Candidates that share utilities for all nodes
come as `repeats`, and are never written out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel, part
from gbdt_kernels.threads import blocks, run

FLOOR = 30.0 * np.log(2.0)
WORD_PAIRS_PER_DRAW = 16
_TOP = np.float64(2.0**62)
_MIN_WEIGHT = np.uint64(2**32)


@kernel
def find_runs(utilities, repeats, value, other, end):
    """Write each run and where it ends (int32); returns how many there are.

    A run is `value` and `other` (float64) in turn, both the same but for two utilities that repeat in turn.
    """
    n, stop = np.int64(-1), np.int64(0)
    last = other_last = np.nan
    for r in range(len(repeats)):
        width = np.int64(repeats[r, 1])
        u, v = utilities[repeats[r, 0]], utilities[repeats[r, 0] + width - 1]
        # Without a jump: whether a candidate differs from the one before is not to be foreseen.
        n += (u != last) | (v != other_last) | (u != v)
        stop += width * repeats[r, 2]
        value[n], other[n], end[n] = u, v, stop
        last, other_last = u, v
    return n + 1


@part
def _integer_weight(below):
    """The integer weight (uint64) of a log-weight so far from the largest."""
    return _MIN_WEIGHT if below <= -FLOOR else np.uint64(_TOP * np.exp(below))


@kernel
def integer_weights(value, other, weight, other_weight):
    """Turn the log-weights of runs into integer weights (uint64)."""
    largest = value[0]
    for r in range(len(value)):
        of_run = value[r] if value[r] > other[r] else other[r]
        largest = of_run if of_run > largest else largest
    for r in range(len(value)):
        weight[r] = other_weight[r] = _integer_weight(value[r] - largest)
        if other[r] != value[r]:
            other_weight[r] = _integer_weight(other[r] - largest)


@part
def _product(times, own):
    """``times · own`` as ``high·2⁶⁴ + low``, for `times` below 2³²: digits to the base 2³² in turn."""
    upper = (own >> np.uint64(32)) * times
    shifted = upper << np.uint64(32)
    low = (own & np.uint64(2**32 - 1)) * times + shifted
    return (upper >> np.uint64(32)) + np.uint64(low < shifted), low


@kernel
def cumulate(weight, other_weight, end, high, low):
    """Sums of the weights of all candidates up to the end of each run: ``high·2⁶⁴ + low``, both uint64."""
    sum_high, sum_low, start = np.uint64(0), np.uint64(0), 0
    for r in range(len(weight)):
        own, length = weight[r], np.uint64(end[r] - start)
        if other_weight[r] != own:
            own, length = own + other_weight[r], length >> np.uint64(1)
        if length == 1:
            sum_low += own
            sum_high += np.uint64(sum_low < own)
        else:
            added_high, added = _product(length, own)
            sum_low += added
            sum_high += added_high + np.uint64(sum_low < added)
        high[r], low[r] = sum_high, sum_low
        start = end[r]


@kernel
def _smear(word):
    """All bits below the highest one, set."""
    for shift in (1, 2, 4, 8, 16, 32):
        word |= word >> np.uint64(shift)
    return word


@kernel
def draw_one(weight, other_weight, end, high, low, words):
    """Candidate drawn in proportion to its run's weight, by sums of `cumulate`; -1 if words are rejected."""
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
        own, following = weight[run], other_weight[run]
        together, n_together = (own, 1) if following == own else (own + following, 2)
        # Below 2³², and within 2⁻⁵⁰ of itself: one less is not too many.
        times = (np.float64(drawn_high) * 2.0**64 + np.float64(drawn_low)) / np.float64(together)
        if times > 1.0:
            skipped_high, skipped_low = _product(np.uint64(times) - np.uint64(1), together)
            drawn_high -= skipped_high + np.uint64(drawn_low < skipped_low)
            drawn_low -= skipped_low
            i += (np.int64(times) - 1) * n_together
        while drawn_high > 0 or drawn_low >= own:
            drawn_high -= np.uint64(drawn_low < own)
            drawn_low -= own
            own, following = following, own
            i += 1
        return i
    return -1


@kernel
def _select(utilities, repeats, words, first, last, chosen):
    """As `select`, nodes `first` to `last` - 1."""
    n = len(repeats)
    value, other, end = np.empty(n), np.empty(n), np.empty(n, dtype=np.int32)
    weight, other_weight = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    high, low = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    for node in range(first, last):
        if chosen[node] < 0:
            m = find_runs(utilities[node], repeats, value, other, end)
            integer_weights(value[:m], other[:m], weight, other_weight)
            cumulate(weight[:m], other_weight, end, high, low)
            chosen[node] = draw_one(weight, other_weight, end[:m], high[:m], low[:m], words[node])


def one_by_one(n_candidates: int) -> NDArray[np.int32]:
    """Repeats of candidates that all have a utility of their own, shape (n_candidates, 3)."""
    one = np.ones(n_candidates, dtype=np.int32)
    return np.column_stack([np.arange(n_candidates, dtype=np.int32), one, one])


def of_candidates(utilities: NDArray[np.float64], repeats: NDArray[np.int32]) -> NDArray[np.float64]:
    """Utilities of all candidates, shape (n_nodes, n_candidates), written out as often as they repeat.

    `utilities` and `repeats` are those of `select`.
    """
    first, width, count = repeats.T
    lengths = width * count
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return utilities[:, np.repeat(first, lengths) + within % np.repeat(width, lengths)]


def select(
    utilities: NDArray[np.float64],
    words: NDArray[np.uint64],
    chosen: NDArray[np.int64],
    n_threads: int = 0,
    repeats: NDArray[np.int32] | None = None,
) -> None:
    """Choose a candidate for every node that has none yet: where `chosen`, shape (n_nodes,), is negative.

    A node stays -1 where every word was rejected (less than one time in 2¹⁶): call again with fresh words.
    `utilities`, shape (n_nodes, n_utilities), are log-weights: the utility times the scale of the exponential
    mechanism. `words`, shape (n_nodes, 2 * WORD_PAIRS_PER_DRAW), are uniform and were never used before.

    `repeats`, shape (n_repeats, 3), says which candidates share utilities; by default none do. The next
    candidates have the utility with the first number, or that and the next in turn where the second number,
    the width, is 2 instead of 1. The third number says how many times.
    """
    if repeats is None:
        repeats = one_by_one(utilities.shape[1])
    run(
        lambda _, first, last: _select(utilities, repeats, words, first, last, chosen),
        blocks(len(chosen), n_threads, 8 * utilities.shape[1]),
    )
