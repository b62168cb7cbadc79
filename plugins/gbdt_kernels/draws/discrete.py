"""Exact discrete Laplace noise from random words, by integer arithmetic alone.

Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy"
(NeurIPS 2020), algorithms 1 and 2.  The inverse scale is a fraction
``numerator / 2**LOG2_DENOMINATOR``, so uniform integers below the denominator
are masked words and no division or logarithm ever rounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel

LOG2_DENOMINATOR = 52
_MASK = np.uint64(2**LOG2_DENOMINATOR - 1)
_ONE = np.uint64(2**LOG2_DENOMINATOR)


@kernel
def draw_below(bound, words, at):
    """Uniform integer in ``[0, bound)`` by rejection, and the next unread word; -1 when words run out."""
    mask = np.uint64(bound - 1)
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    while at < len(words):
        drawn = words[at] & mask
        at += 1
        if drawn < np.uint64(bound):
            return np.int64(drawn), at
    return np.int64(-1), at


@kernel
def bernoulli_exp(numerator, words, at):
    """1 with probability exp(-numerator / 2**52), 0 otherwise (numerator ≤ 2**52); -1 when words run out.

    Counts how long independent trials with probabilities γ/1, γ/2, γ/3, … all succeed; the first failure is
    at an odd trial with probability exp(-γ).
    """
    k = 1
    while True:
        if at >= len(words):
            return -1, at
        success = (words[at] & _MASK) < numerator
        at += 1
        if success and k > 1:
            drawn, at = draw_below(k, words, at)
            if drawn < 0:
                return -1, at
            success = drawn == 0
        if not success:
            return k & 1, at
        k += 1


@kernel
def _one_discrete_laplace(numerator, words, at):
    """One draw, whether it is complete, and the next unread word."""
    while True:
        if at >= len(words):
            return np.int64(0), False, at
        fraction = words[at] & _MASK
        at += 1
        kept, at = bernoulli_exp(fraction, words, at)
        if kept < 0:
            return np.int64(0), False, at
        if kept == 0:
            continue
        whole = np.uint64(0)
        while True:
            again, at = bernoulli_exp(_ONE, words, at)
            if again < 0:
                return np.int64(0), False, at
            if again == 0:
                break
            whole += np.uint64(1)
        # whole ≥ 2048 would overflow; its probability is exp(-2048).
        magnitude = np.int64((fraction + whole * _ONE) // np.uint64(numerator))
        if at >= len(words):
            return np.int64(0), False, at
        negative = words[at] & np.uint64(1)
        at += 1
        if negative and magnitude == 0:
            continue
        return (-magnitude if negative else magnitude), True, at


@kernel
def _discrete_laplace(numerator, words, out):
    """Fill `out` as far as the words last; return how many values are complete."""
    at = 0
    for i in range(len(out)):
        value, complete, at = _one_discrete_laplace(numerator, words, at)
        if not complete:
            return i
        out[i] = value
    return len(out)


def discrete_laplace_from_words(numerator: int, words: NDArray[np.uint64], out: NDArray[np.int64]) -> int:
    """Independent integers with ``P(k) ∝ exp(-|k| · numerator / 2**52)``.

    The inverse scale times 2⁵², `numerator`, is in ``[1, 2**62]``. The words are uniform and were never used
    before; about 12 are read per value.

    Returns how many values of `out`, written in order, are complete. If not all, append fresh words to the
    *same* words and call again: fresh words alone would favour values that take few of them.
    """
    return int(_discrete_laplace(np.int64(numerator), words, out))
