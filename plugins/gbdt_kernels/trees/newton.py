"""Newton statistics of a tree's leaves: every row's gradient and hessian, added up as integers.

A row's contribution is bounded by construction: with one output it is an entry of a table of pairs times the
row's weight, so a check of the table checks every row; with several outputs the integer vectors
themselves are held to a norm.

Losses with a logarithmic link are Poisson's, gamma's, and Tweedie's between them.  With power ρ in [1, 2] and
a score x the deviance's gradient is ``exp((1 - ρ) x) (exp(x) - y)``, and the hessian expected at the score is
``exp((2 - ρ) x)``. A gradient is cut to a number of integer steps, and a table has the largest hessian for
each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel, part
from gbdt_kernels.threads import blocks, run

Scores = NDArray[np.float64]  # of rows, shape (n_rows, n_outputs)
Weights = NDArray[np.int32]  # of rows, shape (n_rows,)
Leaves = NDArray[np.uint16]  # of rows, shape (n_rows,)
Sums = NDArray[np.int64]  # of gradients and hessians, shape (n_leaves, n_outputs, 2)

_ROWS_AT_ONCE = 1024
_STEPS_PER_ROW = 8
"""Elementary steps of a row in the kernels below, of about a nanosecond: they take 4 or 32 rows at once."""


@kernel
def _add_leaf_values(leaf, value, n_outputs, score):
    """As `add_leaf_values`, with `value` and `score` (float64) flat, row after row."""
    if n_outputs == 1:
        for row in range(len(leaf)):
            score[row] += value[leaf[row]]
        return
    for row in range(len(leaf)):
        for k in range(n_outputs):
            score[row * n_outputs + k] += value[leaf[row] * n_outputs + k]


def add_leaf_values(leaf: Leaves, value: NDArray[np.float64], first: int, last: int, score: Scores) -> None:
    """Add the value of each row's leaf to the row's scores, in place, for the rows ``first`` to ``last - 1``.

    Values have shape (n_leaves, n_outputs), scores (n_rows, n_outputs) in C order.
    """
    _add_leaf_values(leaf[first:last], value.ravel(), value.shape[1], score[first:last].reshape(-1))


@kernel(error_model="numpy")
def logistic_gradients(score, target, gradient):
    """``1 / (1 + exp(-score)) - target``, within 1e-9, by products that vectorise.

    Nothing is checked before dividing: 1 + exp(x) is positive.  exp(x) is the 2¹⁰-th power of a polynomial
    in x / 2¹⁰, whose relative error x⁴ / (24 · 2³⁰) weighs p (1 - p) in the result; beyond ±30 that
    is nothing.
    """
    for j in range(len(score)):
        x = -score[j]
        x = -30.0 if x < -30.0 else x
        x = (30.0 if x > 30.0 else x) * (1.0 / 1024.0)
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
        gradient[j] = 1.0 / (1.0 + e) - target[j]


@part
def _scaled_residuals(score, target, slope, gradient):
    """``slope (score - target)``, all float64 of shape (n_rows,)."""
    for j in range(len(score)):
        gradient[j] = slope * (score[j] - target[j])


@kernel
def _find_entries(gradient, top, entry):
    """Entries of a table of 2 top + 1; NaN compares false and gets that of 0."""
    for j in range(len(gradient)):
        steps = gradient[j] * top
        steps = steps if steps < top else (top if steps >= top else 0.0)
        steps = steps if steps > -top else -top
        entry[j] = np.int32(steps) + np.int32(top)


@part
def _add_entries(entry, weight, leaf, table, out):
    """No branch depends on a row: many would be guessed wrong."""
    for j in range(len(entry)):
        own, w, node = np.uint32(entry[j]), np.int64(weight[j]), leaf[j]
        out[node, 0] += np.int64(table[own, 0]) * w
        out[node, 1] += np.int64(table[own, 1]) * w


@kernel(error_model="numpy")
def _table_sums(score, target, weight, leaf, logistic, slope, table, gradient, entry, out):
    """Sums of table entries times weights: ``out`` is int64 of shape (n_leaves, 2).

    `gradient` (float64) and `entry` (int32) are scratch of 1024 numbers each.
    """
    top = np.float64(len(table) // 2)
    for start in range(0, len(leaf), _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE if start + _ROWS_AT_ONCE < len(leaf) else len(leaf)
        n = stop - start
        if logistic:
            logistic_gradients(score[start:stop], target[start:stop], gradient[:n])
        else:
            _scaled_residuals(score[start:stop], target[start:stop], slope, gradient[:n])
        _find_entries(gradient[:n], top, entry[:n])
        _add_entries(entry[:n], weight[start:stop], leaf[start:stop], table, out)


@dataclass(frozen=True)
class TablePairs:
    """Contributions of rows with one output to a leaf: entries of a table.

    The gradient is σ(score) - target if `logistic`, otherwise the residual ``slope (score - target)``.
    Targets are in [0, 1] for the logistic loss, otherwise on the scale of the scores. A row of weight 1 whose
    gradient is ``(entry - steps) / steps``, rounded toward zero and cut to [-1, 1], adds that entry of the
    table, shape (2 * steps + 1, 2), to the two sums.
    """

    target: NDArray[np.float64]
    logistic: bool
    table: NDArray[np.int16]
    slope: float = 0.5

    def add_up(self, score: Scores, weight: Weights, leaf: Leaves, first: int, last: int, out: Sums) -> None:
        """Add rows ``first`` to ``last - 1``, times their weights, to the sums of their leaves."""
        rows = slice(first, last)
        own = (score[rows].reshape(-1), self.target[rows], weight[rows], leaf[rows])
        scratch = np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE, dtype=np.int32)
        _table_sums(*own, self.logistic, self.slope, self.table, *scratch, out[:, 0])


@kernel(error_model="numpy")
def _log_link_gradients(score, target, power, lowest, scale, gradient, hessian):
    """``scale exp((1 - power) x) (exp(x) - target)`` and ``scale exp((2 - power) x)``, x in [lowest, 0].

    exp(z) is the 2¹⁰-th power of a polynomial in z / 2¹⁰, of relative error z⁴ / (24 · 2³⁰), by products
    that vectorise.
    """
    for j in range(len(score)):
        x = min(max(score[j], lowest), 0.0)
        z = x * (1.0 / 1024.0)
        mean = 1.0 + z * (1.0 + z * (0.5 + z * (1.0 / 6.0)))
        z *= 1.0 - power
        factor = 1.0 + z * (1.0 + z * (0.5 + z * (1.0 / 6.0)))
        for _ in range(10):
            mean *= mean
            factor *= factor
        factor *= scale
        gradient[j] = factor * (mean - target[j])
        hessian[j] = factor * mean


@kernel
def _hold_hessians(hessian, entry, limit, table):
    """Pairs of steps: the gradient of a row's entry, and its hessian up to the entry's limit; NaN gives 0."""
    top = len(limit) // 2
    for j in range(len(hessian)):
        most = limit[entry[j]]
        steps = hessian[j] * top
        steps = steps if steps > 0.0 else 0.0
        table[j, 0] = entry[j] - top
        table[j, 1] = np.int32(steps if steps < most else most)
        entry[j] = j


@kernel
def _log_link_sums(score, target, weight, leaf, power, lowest, scale, limit, out):
    """Sums of pairs times weights: ``out`` is int64 of shape (n_leaves, 2)."""
    gradient, hessian = np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE)
    entry = np.empty(_ROWS_AT_ONCE, dtype=np.int32)
    pair = np.empty((_ROWS_AT_ONCE, 2), dtype=np.int32)
    top = np.float64(len(limit) // 2)
    for start in range(0, len(leaf), _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE if start + _ROWS_AT_ONCE < len(leaf) else len(leaf)
        n = stop - start
        _log_link_gradients(
            score[start:stop], target[start:stop], power, lowest, scale, gradient[:n], hessian[:n]
        )
        _find_entries(gradient[:n], top, entry[:n])
        _hold_hessians(hessian[:n], entry[:n], limit, pair[:n])
        _add_entries(entry[:n], weight[start:stop], leaf[start:stop], pair, out)


@dataclass(frozen=True)
class LogLinkPairs:
    """Contributions of rows to a leaf: gradient and hessian of a log-link loss, in integer steps."""

    target: NDArray[np.float64]  # in [0, 1]
    power: float  # ρ in [1, 2]: 1 for Poisson's loss, 2 for gamma's
    lowest: float  # at least -30: scores count as the nearest number in ``[lowest, 0]``
    scale: float  # factor of both gradient and hessian; a gradient is cut to [-1, 1] after it
    limit: NDArray[np.int16]  # largest hessian, in steps, of gradient ``(entry - steps) / steps``

    def add_up(self, score: Scores, weight: Weights, leaf: Leaves, first: int, last: int, out: Sums) -> None:
        """As for `TablePairs`."""
        rows = slice(first, last)
        own = (score[rows].reshape(-1), self.target[rows], weight[rows], leaf[rows])
        _log_link_sums(*own, self.power, self.lowest, self.scale, self.limit, out[:, 0])


@part
def _logistic_time(low, high):
    """Derivatives of -log P(low < Z < high), Z logistic, by location (two) and logarithm of the scale (one).

    Bounds are in [-38, 38]; where they are next to each other, the density takes the place of P.
    """
    is_above = low > 0.0  # mirrored: of probabilities near 1 the differences would lose their digits
    a, b = (-high, -low) if is_above else (low, high)
    fa, fb = 1.0 / (1.0 + math.exp(-a)), 1.0 / (1.0 + math.exp(-b))
    p, gradient = fb - fa, 1.0 - fa - fb
    fa *= 1.0 - fa
    fb *= 1.0 - fb
    spread = 1.0 + (a + b) / 2.0 * gradient if b - a < 1e-3 else (b * fb - a * fa) / p
    return (-gradient if is_above else gradient), fa + fb, spread


@part
def _normal_time(low, high):
    """As `_logistic_time`, Z normal."""
    middle = (low + high) / 2.0
    is_above = low > 0.0
    a, b = (-high, -low) if is_above else (low, high)
    p = (math.erfc(-b * math.sqrt(0.5)) - math.erfc(-a * math.sqrt(0.5))) * math.sqrt(0.5 * math.pi)
    if b - a < 1e-3 or p < 1e-290:
        nearer = middle if b - a < 1e-3 else (low if is_above else high)
        return -nearer, 1.0, 1.0 - nearer * nearer
    fa, fb = math.exp(-a * a / 2.0), math.exp(-b * b / 2.0)
    gradient, spread = (fb - fa) / p, (b * fb - a * fa) / p
    return (-gradient if is_above else gradient), gradient * gradient + spread, spread


@part
def _extreme_time(low, high):
    """As `_logistic_time`, exp(Z) exponential, of median 1."""
    a, b = math.log(2.0) * math.exp(low), math.log(2.0) * math.exp(high)
    if high - low < 1e-3:
        middle = (a + b) / 2.0
        return 1.0 - middle, middle, 1.0 + (low + high) / 2.0 * (1.0 - middle)
    p, fb = -math.expm1(a - b), b * math.exp(a - b)
    gradient = (fb - a) / p
    return gradient, gradient * gradient - (fb * (1.0 - b) - a * (1.0 - a)) / p, (high * fb - low * a) / p


def time_pairs(*arguments: object) -> None:
    """See `_time_pairs`, which has the same arguments: a kernel that those of other files must not call."""
    _time_pairs(*arguments)


@kernel(error_model="numpy")
def _time_pairs(score, lower, upper, law, rate, factor, by_scale, gradient, hessian):
    """Gradients and hessians of accelerated failure times by the score, in units of ``1 / s`` and ``1 / s²``.

    ``rate`` is 1 / s; the law of Z = (log T - score) / s is logistic (0), normal (1) or extreme (2).  Rows
    have logarithms of times, ``lower <= upper``, infinite where nothing is known.  ``factor`` multiplies
    both.  With ``by_scale``, gradients are by log s, and hessians are 1 where the event has come, else 0.
    """
    for j in range(len(score)):
        low, high = (lower[j] - score[j]) * rate, (upper[j] - score[j]) * rate
        low, high = min(max(low, -38.0), 38.0), min(max(high, -38.0), 38.0)
        if law == 0:
            g, h, spread = _logistic_time(low, high)
        elif law == 1:
            g, h, spread = _normal_time(low, high)
        else:
            g, h, spread = _extreme_time(low, high)
        if by_scale:
            g, h = spread, (1.0 if upper[j] < np.inf else 0.0)
        gradient[j], hessian[j] = g * factor, h * factor


@kernel(error_model="numpy")
def _time_sums(score, lower, upper, weight, leaf, law, rate, factor, by_scale, limit, out):
    """As `_log_link_sums`, of the pairs of `_time_pairs`."""
    gradient, hessian = np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE)
    entry = np.empty(_ROWS_AT_ONCE, dtype=np.int32)
    pair = np.empty((_ROWS_AT_ONCE, 2), dtype=np.int32)
    top = np.float64(len(limit) // 2)
    for start in range(0, len(leaf), _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE if start + _ROWS_AT_ONCE < len(leaf) else len(leaf)
        n = stop - start
        x, low, high = score[start:stop], lower[start:stop], upper[start:stop]
        _time_pairs(x, low, high, law, rate, factor, by_scale, gradient[:n], hessian[:n])
        _find_entries(gradient[:n], top, entry[:n])
        _hold_hessians(hessian[:n], entry[:n], limit, pair[:n])
        _add_entries(entry[:n], weight[start:stop], leaf[start:stop], pair, out)


@dataclass(frozen=True)
class TimePairs:
    """Contributions of rows to a leaf: gradient and hessian of a time to an event, in integer steps."""

    lower: NDArray[np.float64]  # logarithms of times
    upper: NDArray[np.float64]
    law: int  # this and the next three are those of `time_pairs`
    rate: float
    factor: float  # a gradient is cut to [-1, 1] after it
    by_scale: bool
    limit: NDArray[np.int16]  # largest hessian, in steps, of gradient ``(entry - steps) / steps``

    def add_up(self, score: Scores, weight: Weights, leaf: Leaves, first: int, last: int, out: Sums) -> None:
        """As for `TablePairs`."""
        rows = slice(first, last)
        own = (score[rows].reshape(-1), self.lower[rows], self.upper[rows], weight[rows], leaf[rows])
        _time_sums(*own, self.law, self.rate, self.factor, self.by_scale, self.limit, out[:, 0])


@kernel
def _norm_of_steps(vector):
    """Squared norm of int64 integers."""
    total = np.int64(0)
    for v in vector:
        total += v * v
    return total


@kernel
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


@part
def _add_vectors(g, h, w, steps, clip, gradient_share, hessian_limit, out):
    """Hold a row's integers g and h to the bound of `SoftmaxPairs`, and add them w times to a leaf's sums."""
    _shorten(g, np.floor(2.0 * clip * clip * steps * steps))
    rest = 1.0 - gradient_share * _norm_of_steps(g) / (2.0 * clip * clip * steps * steps)
    # A relative 1e-12 inside, for the rounding of `rest` (where it is 0, so is the limit).
    _shorten(h, np.floor(max(rest - 1e-12, 0.0) * hessian_limit * hessian_limit * steps * steps))
    for k in range(len(g)):
        out[k, 0] += g[k] * w
        out[k, 1] += h[k] * w


@kernel
def _softmax_sums(score, target, weight, leaf, steps, clip, gradient_share, hessian_limit, first, last, out):
    """Sums of what rows `first` to `last` - 1 add: ``out`` is int64 of shape (n_leaves, n_outputs, 2)."""
    n_outputs = score.shape[1]
    p = np.empty(n_outputs)
    g = np.empty(n_outputs, dtype=np.int64)
    h = np.empty(n_outputs, dtype=np.int64)
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
            probability = p[k] / total
            if not probability <= 1.0:  # NaN
                probability = 0.0
            gradient = probability - 1.0 if k == target[row] else probability
            g[k] = np.int64(gradient * steps)
            h[k] = np.int64(probability * (1.0 - probability) * steps)
        _add_vectors(g, h, w, steps, clip, gradient_share, hessian_limit, out[leaf[row]])


@kernel
def _residual_sums(
    score, target, weight, leaf, slope, steps, clip, gradient_share, hessian_limit, first, last, out
):
    """As `_softmax_sums`, of residuals; hessians are ½ before they are held to the bound."""
    n_outputs = score.shape[1]
    g = np.empty(n_outputs, dtype=np.int64)
    h = np.empty(n_outputs, dtype=np.int64)
    for row in range(first, last):
        for k in range(n_outputs):
            one = slope * (score[row, k] - target[row, k])
            # Far beyond any clip, and squares of a hundred fit into 64 bits; NaN counts as 0.
            g[k] = np.int64(min(max(one, -1e4), 1e4) * steps) if one == one else 0
            h[k] = steps // 2
        w = np.int64(weight[row])
        _add_vectors(g, h, w, steps, clip, gradient_share, hessian_limit, out[leaf[row]])


@dataclass(frozen=True)
class SoftmaxPairs:
    """Contributions of rows with several outputs: gradients and hessians of the softmax, in integer steps.

    A row of weight 1 adds vectors g and h of integers with
    ``gradient_share ‖g‖² / (2 clip² steps²) + ‖h‖² / (hessian_limit² steps²) ≤ 1`` and
    ``‖g‖² ≤ 2 clip² steps²``.
    """

    target: NDArray[Any]  # class of each row
    steps: int  # integer steps of 1
    clip: float  # bound of the gradient's norm, over √2
    gradient_share: float  # in [0, 1]
    hessian_limit: float  # bound of the hessian's norm where the gradient is 0

    def add_up(self, score: Scores, weight: Weights, leaf: Leaves, first: int, last: int, out: Sums) -> None:
        """As for `TablePairs`."""
        loss = (self.steps, self.clip, self.gradient_share, self.hessian_limit)
        _softmax_sums(score, self.target, weight, leaf, *loss, first, last, out)


@dataclass(frozen=True)
class ResidualPairs(SoftmaxPairs):
    """The same of several targets, shape (n_rows, n_outputs): gradients are ``slope (score - target)``.

    Vectors that are too long are scaled down.
    """

    slope: float

    def add_up(self, score: Scores, weight: Weights, leaf: Leaves, first: int, last: int, out: Sums) -> None:
        """As for `TablePairs`."""
        loss = (self.slope, self.steps, self.clip, self.gradient_share, self.hessian_limit)
        _residual_sums(score, self.target, weight, leaf, *loss, first, last, out)


RowPairs: TypeAlias = TablePairs | LogLinkPairs | TimePairs | SoftmaxPairs
"""Contributions of a data set's rows to the sums of their leaves."""


def leaf_sums(
    pairs: RowPairs,
    score: Scores,
    weight: Weights,
    leaf: Leaves,
    n_leaves: int,
    n_threads: int = 0,
    prepare: Callable[[int, int], None] | None = None,
) -> Sums:
    """Sums of what the rows add, per leaf: shape (n_leaves, n_outputs, 2).

    Scores have shape (n_rows, n_outputs) in C order; weights are not negative. `prepare` is called with the
    first row of a block and the one after its last, before the block is added up, on the same thread: it
    brings these rows' scores and leaves up to date.
    """
    n_outputs = score.shape[1]
    parts = blocks(len(leaf), n_threads, _STEPS_PER_ROW * n_outputs)
    own = np.zeros((len(parts), n_leaves, n_outputs, 2), dtype=np.int64)

    def work(part: int, first: int, last: int) -> None:
        if prepare is not None:
            prepare(first, last)
        pairs.add_up(score, weight, leaf, first, last, own[part])

    run(work, parts)
    return np.asarray(own.sum(axis=0))
