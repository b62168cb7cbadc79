"""Newton statistics of losses with a logarithmic link: Poisson, gamma, and Tweedie's between them.

With power ρ in [1, 2] and a score x the deviance's gradient is ``exp((1 - ρ) x) (exp(x) - y)``, and the
hessian expected at the score is ``exp((2 - ρ) x)``.  What a row may add is bounded by construction: its
gradient is cut to a number of integer steps, for each of which a table has the largest hessian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.trees.newton import _ROWS_AT_ONCE, _add_entries, _find_entries


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
        stop = min(len(leaf), start + _ROWS_AT_ONCE)
        n = stop - start
        _log_link_gradients(
            score[start:stop], target[start:stop], power, lowest, scale, gradient[:n], hessian[:n]
        )
        _find_entries(gradient[:n], top, entry[:n])
        _hold_hessians(hessian[:n], entry[:n], limit, pair[:n])
        _add_entries(entry[:n], weight[start:stop], leaf[start:stop], pair, out)


@dataclass(frozen=True)
class LogLinkPairs:
    """What rows add to a leaf: gradient and hessian of a loss with a logarithmic link, in integer steps.

    Parameters
    ----------
    target : ndarray of float64, shape (n_rows,)
        In [0, 1].
    power : float
        ρ in [1, 2]: 1 for Poisson's loss, 2 for gamma's.
    lowest : float
        Scores count as the nearest number in ``[lowest, 0]``, where ``lowest`` is at least -30.
    scale : float
        Factor of both gradient and hessian; a gradient is cut to [-1, 1] after it.
    limit : ndarray of int16, shape (2 * steps + 1,)
        Largest hessian, in steps, of a row whose gradient is ``(entry - steps) / steps``.
    """

    target: NDArray[np.float64]
    power: float
    lowest: float
    scale: float
    limit: NDArray[np.int16]

    def add_up(
        self,
        score: NDArray[np.float64],
        weight: NDArray[np.int32],
        leaf: NDArray[np.uint16],
        first: int,
        last: int,
        out: NDArray[np.int64],
    ) -> None:
        """As for `TablePairs`."""
        rows = slice(first, last)
        _log_link_sums(
            score[rows].reshape(-1),
            self.target[rows],
            weight[rows],
            leaf[rows],
            self.power,
            self.lowest,
            self.scale,
            self.limit,
            out[:, 0],
        )
