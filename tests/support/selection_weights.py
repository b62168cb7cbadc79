"""Integer weights of candidates, as a selection computes them."""

import numpy as np

from gbdt_kernels.draws.selection import cumulate, find_runs, integer_weights, one_by_one


def weights_of(utilities):
    """Weight of every candidate, and the sum of all."""
    utilities = np.asarray(utilities, dtype=np.float64)
    value, other = np.empty((2, len(utilities)))
    end = np.empty(len(utilities), dtype=np.int32)
    n = find_runs(utilities, one_by_one(len(utilities)), value, other, end)
    weights, other_weights = np.empty((2, n), dtype=np.uint64)
    integer_weights(value[:n], other[:n], weights, other_weights)
    assert (weights == other_weights).all()
    sums = cumulated(weights, end[:n])
    lengths = np.diff(end[:n], prepend=0)
    assert (lengths > 0).all()
    assert lengths.sum() == len(utilities)
    return np.repeat(weights, lengths).tolist(), (int(sums[0][-1]) << 64) + int(sums[1][-1])


def cumulated(weights, end):
    high, low = np.empty(len(weights), dtype=np.uint64), np.empty(len(weights), dtype=np.uint64)
    cumulate(weights, weights, end, high, low)
    return high, low
