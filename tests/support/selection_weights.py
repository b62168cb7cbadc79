"""Integer weights of candidates, as a selection computes them."""

import numpy as np

from gbdt_kernels.draws.selection import _cumulate, _find_runs, _integer_weights


def weights_of(utilities):
    """Weight of every candidate, and the sum of all."""
    utilities = np.asarray(utilities, dtype=np.float64)
    value, end = np.empty(len(utilities)), np.empty(len(utilities), dtype=np.int32)
    n, largest = _find_runs(utilities, value, end)
    weights = np.empty(n, dtype=np.uint64)
    _integer_weights(value[:n], largest, weights)
    sums = cumulated(weights, end[:n])
    lengths = np.diff(end[:n], prepend=0)
    assert (lengths > 0).all()
    assert lengths.sum() == len(utilities)
    return np.repeat(weights, lengths).tolist(), (int(sums[0][-1]) << 64) + int(sums[1][-1])


def cumulated(weights, end):
    high, low = np.empty(len(weights), dtype=np.uint64), np.empty(len(weights), dtype=np.uint64)
    _cumulate(weights, end, high, low)
    return high, low
