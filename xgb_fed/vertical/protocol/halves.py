"""Large integers as pairs of 64-bit numbers, a high and a low half, so that numpy adds them up exactly.

The value of a pair is ``high·2^27 + low``.  A pair is normalised if ``0 <= low < 2^27``; a value has one
normalised pair only.  Arrays have the pair as their axis of length 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HALF_BITS = 27
HALF_MASK = np.int64((1 << HALF_BITS) - 1)


def split_halves(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """Halves of integers below 2^58, along a new first axis; float64 holds sums of 2^26 of them exactly."""
    return np.stack([values >> HALF_BITS, values & HALF_MASK]).astype(np.int32)


def joined(halves: NDArray[np.int64]) -> NDArray[np.float64]:
    """The nearest float64; both terms are exact below 2^53, so their float64 sum is the nearest one."""
    high, low = halves.astype(np.float64)
    return np.asarray(np.ldexp(high, HALF_BITS) + low)


def normalised(halves: NDArray[np.int64], axis: int = 1) -> NDArray[np.int64]:
    """The same values with low halves in [0, 2^27); by default of exact sums, shape (2, 2, ...)."""
    high, low = np.moveaxis(halves, axis, 0)
    return np.stack([high + (low >> HALF_BITS), low & HALF_MASK], axis=axis)


def times(number: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Halves of a number of at most 63 bits, not negative, times counts below 2^26; not normalised."""
    return np.stack([counts * (number >> HALF_BITS), counts * (number & int(HALF_MASK))])


def at_most(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether normalised values are at most others; the halves are the first axis."""
    return np.asarray((a[0] < b[0]) | ((a[0] == b[0]) & (a[1] <= b[1])))
