"""Newton statistics of a tree whose splits are known before the data is read.

One pass finds every row's leaf, another adds each row's gradient and hessian
up per leaf, as integers.  What a row may add is bounded by construction:
with one output it is an entry of a table of pairs times the row's weight, so
whoever checks the table has checked every row; with several outputs the
integer vectors themselves are held to a norm.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gbdt_kernels.binning import DenseCodes, SparseCodes
from gbdt_kernels.threads import blocks, run

_ROWS_AT_ONCE = 512

_STEPS_PER_ROW = 40
"""Elementary steps of a row in the kernels below, an exponential among them."""


@njit(nogil=True, cache=True)
def _leaves_dense(codes, feature, goes_left, first, last, leaf):
    """Four rows go down together: a row's next node waits for its last, the others' need not."""
    n_internal = len(feature)
    row = first
    while row + 4 <= last:
        a = b = c = d = 0
        while a < n_internal:
            a = 2 * a + 2 - goes_left[a, codes[row, feature[a]]]
            b = 2 * b + 2 - goes_left[b, codes[row + 1, feature[b]]]
            c = 2 * c + 2 - goes_left[c, codes[row + 2, feature[c]]]
            d = 2 * d + 2 - goes_left[d, codes[row + 3, feature[d]]]
        leaf[row] = a - n_internal
        leaf[row + 1] = b - n_internal
        leaf[row + 2] = c - n_internal
        leaf[row + 3] = d - n_internal
        row += 4
    while row < last:
        node = 0
        while node < n_internal:
            node = 2 * node + 2 - goes_left[node, codes[row, feature[node]]]
        leaf[row] = node - n_internal
        row += 1


@njit(nogil=True, cache=True)
def _leaves_sparse(indptr, indices, codes, zero_codes, feature, goes_left, first, last, leaf):
    n_internal = len(feature)
    for row in range(first, last):
        node = 0
        while node < n_internal:
            f = feature[node]
            low, high = indptr[row], indptr[row + 1]
            while low < high:
                middle = (low + high) >> 1
                if indices[middle] < f:
                    low = middle + 1
                else:
                    high = middle
            code = zero_codes[f]
            if low < indptr[row + 1] and indices[low] == f:
                code = codes[low]
            node = 2 * node + 2 - goes_left[node, code]
        leaf[row] = node - n_internal


def leaf_of_rows(
    matrix: DenseCodes | SparseCodes,
    feature: NDArray[np.int32],
    goes_left: NDArray[np.uint8],
    leaf: NDArray[np.uint16],
    n_threads: int = 0,
) -> None:
    """Write the leaf of a complete tree that each row falls into.

    Parameters
    ----------
    matrix : DenseCodes or SparseCodes
    feature : ndarray of int32, shape (2**depth - 1,)
        Split feature of each node, level by level.
    goes_left : ndarray of uint8, shape (2**depth - 1, 256)
        1 where a bin code goes left.
    leaf : ndarray of uint16, shape (n_rows,)
        Written.
    n_threads : int
        Threads at most; 0 means all available processors.
    """

    def work(_: int, first: int, last: int) -> None:
        if isinstance(matrix, DenseCodes):
            _leaves_dense(matrix.codes, feature, goes_left, first, last, leaf)
        else:
            _leaves_sparse(
                matrix.indptr,
                matrix.indices,
                matrix.codes,
                matrix.zero_codes,
                feature,
                goes_left,
                first,
                last,
                leaf,
            )

    run(work, blocks(matrix.n_rows, n_threads, _STEPS_PER_ROW))


@njit(nogil=True, cache=True)
def _add_leaf_values(leaf, value, first, last, score):
    for row in range(first, last):
        for k in range(score.shape[1]):
            score[row, k] += value[leaf[row], k]


def add_leaf_values(
    leaf: NDArray[np.uint16], value: NDArray[np.float64], score: NDArray[np.float64], n_threads: int = 0
) -> None:
    """Add the value of each row's leaf to its scores, in place.

    Parameters
    ----------
    leaf : ndarray of uint16, shape (n_rows,)
    value : ndarray of float64, shape (n_leaves, n_outputs)
    score : ndarray of float64, shape (n_rows, n_outputs)
    n_threads : int
        Threads at most; 0 means all available processors.
    """
    run(
        lambda _, first, last: _add_leaf_values(leaf, value, first, last, score),
        blocks(len(leaf), n_threads, 8),
    )


@njit(nogil=True, cache=True)
def _logistic_gradients(score, target, first, n, gradient):
    """``1 / (1 + exp(-score)) - target``, within 1e-9, by products that vectorise.

    exp(x) is the 2¹⁰-th power of a polynomial in x / 2¹⁰, whose relative error x⁴ / (24 · 2³⁰) weighs
    p (1 - p) in the result; beyond ±30 that is nothing.
    """
    for j in range(n):
        x = min(max(-score[first + j, 0], -30.0), 30.0) * (1.0 / 1024.0)
        e = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0)))
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        gradient[j] = 1.0 / (1.0 + e) - target[first + j]


@njit(nogil=True, cache=True)
def _square_gradients(score, target, first, n, gradient):
    for j in range(n):
        gradient[j] = 0.5 * (score[first + j, 0] - target[first + j])


@njit(nogil=True, cache=True)
def _table_sums(score, target, weight, leaf, logistic, table, first, last, out):
    top = len(table) - 1
    gradient = np.empty(_ROWS_AT_ONCE)
    for start in range(first, last, _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, last - start)
        if logistic:
            _logistic_gradients(score, target, start, n, gradient)
        else:
            _square_gradients(score, target, start, n, gradient)
        for j in range(n):
            size = abs(gradient[j])
            if not size < 1.0:  # NaN compares false twice and becomes 0
                size = 1.0 if size >= 1.0 else 0.0
            entry = np.int64(size * top)
            w = np.int64(weight[start + j])
            g = table[entry, 0] * w
            node = leaf[start + j]
            out[node, 0, 0] += g if gradient[j] >= 0.0 else -g
            out[node, 0, 1] += table[entry, 1] * w


def table_sums(
    score: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.int32],
    leaf: NDArray[np.uint16],
    n_leaves: int,
    logistic: bool,
    table: NDArray[np.int16],
    n_threads: int = 0,
) -> NDArray[np.int64]:
    """Sums per leaf of the table's entries for each row's gradient, times its weight.

    Parameters
    ----------
    score : ndarray of float64, shape (n_rows, 1)
    target : ndarray of float64, shape (n_rows,)
        In [0, 1] for the logistic loss, in [-1, 1] for the square loss.
    weight : ndarray of int32, shape (n_rows,)
        Not negative.
    leaf : ndarray of uint16, shape (n_rows,)
    n_leaves : int
    logistic : bool
        Gradient σ(score) - target of the logistic loss; otherwise (score - target) / 2.
    table : ndarray of int16, shape (steps + 1, 2)
        What a row of gradient ``± entry / steps`` (rounded toward zero, at most 1) adds to the two sums,
        the first with the gradient's sign.
    n_threads : int
        Threads at most; 0 means all available processors.

    Returns
    -------
    ndarray of int64, shape (n_leaves, 1, 2)
    """
    parts = blocks(len(leaf), n_threads, _STEPS_PER_ROW)
    own = np.zeros((len(parts), n_leaves, 1, 2), dtype=np.int64)
    run(
        lambda part, first, last: _table_sums(
            score, target, weight, leaf, logistic, table, first, last, own[part]
        ),
        parts,
    )
    return np.asarray(own.sum(axis=0))


@njit(nogil=True, cache=True)
def _norm_of_steps(vector):
    total = np.int64(0)
    for v in vector:
        total += v * v
    return total


@njit(nogil=True, cache=True)
def _shorten(vector, squared_limit):
    """Scale integers toward zero until their squared norm is at most the limit."""
    squared = _norm_of_steps(vector)
    shrink = 1.0 - 1e-9
    while squared > squared_limit:
        factor = shrink * np.sqrt(max(squared_limit, 0.0) / np.float64(squared))
        for k in range(len(vector)):
            vector[k] = np.int64(factor * vector[k])
        squared = _norm_of_steps(vector)
        shrink *= 1.0 - 1e-6


@njit(nogil=True, cache=True)
def _softmax_sums(score, target, weight, leaf, steps, clip, gradient_share, hessian_limit, first, last, out):
    n_outputs = score.shape[1]
    p = np.empty(n_outputs)
    g = np.empty(n_outputs, dtype=np.int64)
    h = np.empty(n_outputs, dtype=np.int64)
    squared_limit = np.floor(2.0 * clip * clip * steps * steps)
    for row in range(first, last):
        w = np.int64(weight[row])
        if w == 0:
            continue
        largest = score[row, 0]
        for k in range(n_outputs):
            largest = max(largest, score[row, k])
        total = 0.0
        for k in range(n_outputs):
            p[k] = np.exp(score[row, k] - largest)
            total += p[k]
        for k in range(n_outputs):
            chance = p[k] / total
            if not chance <= 1.0:  # NaN
                chance = 0.0
            gradient = chance - 1.0 if k == target[row] else chance
            g[k] = np.int64(gradient * steps)
            h[k] = np.int64(chance * (1.0 - chance) * steps)
        _shorten(g, squared_limit)
        rest = 1.0 - gradient_share * _norm_of_steps(g) / (2.0 * clip * clip * steps * steps)
        # A relative 1e-12 inside, for the rounding of `rest` (where it is 0, so is the limit).
        _shorten(h, np.floor(max(rest - 1e-12, 0.0) * hessian_limit * hessian_limit * steps * steps))
        for k in range(n_outputs):
            out[leaf[row], k, 0] += g[k] * w
            out[leaf[row], k, 1] += h[k] * w


def softmax_sums(
    score: NDArray[np.float64],
    target: NDArray[np.int64],
    weight: NDArray[np.int32],
    leaf: NDArray[np.uint16],
    n_leaves: int,
    steps: int,
    clip: float,
    gradient_share: float,
    hessian_limit: float,
    n_threads: int = 0,
) -> NDArray[np.int64]:
    """Sums per leaf of softmax gradients and hessians in integer steps, their joint norm bounded.

    A row of weight 1 adds vectors g and h of integers with
    ``gradient_share ‖g‖² / (2 clip² steps²) + ‖h‖² / (hessian_limit² steps²) ≤ 1`` and
    ``‖g‖² ≤ 2 clip² steps²``.

    Parameters
    ----------
    score : ndarray of float64, shape (n_rows, n_outputs)
    target : ndarray of int64, shape (n_rows,)
        Class of each row.
    weight : ndarray of int32, shape (n_rows,)
        Not negative; rows of weight 0 are left out.
    leaf : ndarray of uint16, shape (n_rows,)
    n_leaves : int
    steps : int
        Integer steps of 1.
    clip : float
        Bound of the gradient's norm, over √2.
    gradient_share : float
        In [0, 1].
    hessian_limit : float
        Bound of the hessian's norm where the gradient is 0.
    n_threads : int
        Threads at most; 0 means all available processors.

    Returns
    -------
    ndarray of int64, shape (n_leaves, n_outputs, 2)
    """
    n_outputs = score.shape[1]
    parts = blocks(len(leaf), n_threads, _STEPS_PER_ROW * n_outputs)
    own = np.zeros((len(parts), n_leaves, n_outputs, 2), dtype=np.int64)
    run(
        lambda part, first, last: _softmax_sums(
            score,
            target,
            weight,
            leaf,
            steps,
            clip,
            gradient_share,
            hessian_limit,
            first,
            last,
            own[part],
        ),
        parts,
    )
    return np.asarray(own.sum(axis=0))
