"""p-stable hashes: which slab of width r a row falls into, along each of L random directions.

F(x) = ⌊(a·x + b) / r⌋ with normal a and b uniform in [0, r) (Datar et al., 2004): the nearer two rows,
the more of their hashes agree.  Directions and shifts are passed in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run

MAX_SLAB = 2**31 - 1


@kernel
def _slabs(projections, window, out):
    """Slab (int32) that each projection (float64) falls into."""
    for k in range(len(projections)):
        slab = np.floor(projections[k] / window)
        out[k] = np.int32(min(max(slab, -MAX_SLAB), MAX_SLAB))


@kernel
def _hash_dense(values, centre, directions, shifts, window, start, stop, out):
    """Hashes of rows `start` to `stop` - 1: ``out`` is int32 of shape (n_rows, n_hashes)."""
    projections = np.empty(len(shifts), dtype=np.float64)
    for row in range(start, stop):
        for k in range(len(shifts)):
            projections[k] = shifts[k]
        for f in range(values.shape[1]):
            distance = values[row, f] - centre[f]
            if not np.isnan(distance):
                for k in range(len(shifts)):
                    projections[k] += directions[f, k] * distance
        _slabs(projections, window, out[row])


@kernel
def _hash_csr(indptr, indices, values, centre, directions, of_zeros, window, start, stop, out):
    """As `_hash_dense`, of a CSR matrix; `of_zeros` are the projections of a row of zeros."""
    projections = np.empty(len(of_zeros), dtype=np.float64)
    for row in range(start, stop):
        for k in range(len(of_zeros)):
            projections[k] = of_zeros[k]
        for e in range(indptr[row], indptr[row + 1]):
            f = indices[e]
            value = centre[f] if np.isnan(values[e]) else np.float64(values[e])
            for k in range(len(of_zeros)):
                projections[k] += directions[f, k] * value
        _slabs(projections, window, out[row])


def stable_hashes(
    X: Any,
    centre: NDArray[np.float64],
    directions: NDArray[np.float64],
    shifts: NDArray[np.float64],
    window: float,
    n_threads: int = 0,
) -> NDArray[np.int32]:
    """Hashes ⌊(a·(x − centre) + b) / window⌋ of all rows, shape (n_rows, n_hashes), clipped to ±(2³¹ − 1).

    A NaN counts as the column's centre. X is a matrix of float32, or a CSR matrix without duplicate entries,
    whose entries that are not stored count as zero. `directions`, shape (n_features, n_hashes), are the a, in
    C order, `shifts`, shape (n_hashes,), the b; `window`, the width of a slab, is above 0.
    """
    n_rows, n_features = X.shape
    out = np.empty((n_rows, len(shifts)), dtype=np.int32)
    sparse = scipy.sparse.issparse(X)
    of_zeros = shifts - centre @ directions

    def work(_part: int, start: int, stop: int) -> None:
        if sparse:
            _hash_csr(X.indptr, X.indices, X.data, centre, directions, of_zeros, window, start, stop, out)
        else:
            _hash_dense(X, centre, directions, shifts, window, start, stop, out)

    per_row = -(-X.nnz // max(1, n_rows)) if sparse else n_features
    run(work, blocks(n_rows, n_threads, len(shifts) * per_row))
    return out
