"""The automatic settings of `NewtonBoost`, which follow from public facts alone.

The facts are ε, δ, the number of rounds, and a *released* number of rows (its noise is part of the budget).
The deciding quantity is ν = n μ, rows times the μ of the whole budget: the number of rows a leaf must hold to
stand out of the noise is n / ν. docs/experiments/newton.md has the experiment behind each rule: folds of
eight data sets, ε from 0.05 to 4, and which of those folds held rows that are test rows now.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from lgb_dp.losses.objective import OBJECTIVES

MAX_COUNTED_FEATURES = 500
"""Beyond, histograms and surrogate rows take too much memory, and noise grows with the root of the number."""

SHRINKAGE = 4.0
"""c of the leaf values -G / (max(H, 0) + λ + c σ_g): leaves that do not stand out of the noise stay small."""

MAX_MU_OF_SHRINKAGE = 10.0
"""μ beyond which distilled structures without a trial are not shrunk less.

Nothing ends their steps, and where labels are nearly certain a small leaf's hessian is next to nothing: on
held-out rows of covtype, the AUC at ε = 10,000 was 0.954 and 0.960, and with this bound 0.972 and 0.967.
"""

_DEPTH_FROM = ((600.0, 3), (2_000.0, 4), (100_000.0, 5), (1_000_000.0, 6))
"""ν from which trees have a depth.

Between ν = 10,000 and 40,000 depth 6 gains up to 0.003 of AUC over depth 4 on two sets, loses as much on a
third and changes nothing on five: the smaller trees it is.
"""

AUTOMATIC_ROUNDS = 1000
"""Rounds of an estimator: smaller steps make more of the same budget; beyond, next to nothing is gained."""


_MAX_MU_OF_RATE = 1.0
_MAX_MU_OF_DEPTH = 4.0
"""μ beyond which ν does not count for the rate, and for the depth.

The limit of a model then is not the noise of releases but the number of rows: of 10,000 generated rows
without any noise, depth 4 gets a held-out AUC of 0.816, depth 6 of 0.807.
"""


def nu_of_rate(n_rows: float, mu: float) -> float:
    """ν as far as the learning rate rises with it."""
    return n_rows * min(mu, _MAX_MU_OF_RATE)


def nu_of_depth(n_rows: float, mu: float) -> float:
    """ν as far as random trees get deeper with it."""
    return n_rows * min(mu, _MAX_MU_OF_DEPTH)


def automatic_depth(nu: float) -> int:
    """Levels of a tree: leaves get fewer as they need more rows each."""
    return max([2, *(depth for start, depth in _DEPTH_FROM if nu >= start)])


def automatic_rate(nu: float, n_rounds: int, objective: str) -> float:
    """Learning rate.

    With leaf values proportional to 1 / σ_g = μ_T / √T, rounds times rate times 1 / √T is the length of the
    way that training goes; the rate falls with √T to keep it, and grows slowly with ν.
    """
    rate = 0.2 * (max(nu, 1.0) / 2500.0) ** 0.25 * np.sqrt(500.0 / n_rounds)
    return float(np.clip(rate * OBJECTIVES[objective].rate_factor, 0.01, 1.0))


_MANY_ROWS_FROM, _MANY_ROWS_PER_LEAF, _MANY_ROWS_DEPTHS = 5_000.0, 800.0, (7, 9)
"""ν, balanced rows per leaf, and levels from which structures are distilled from the model at any noise."""

_FEW_ROWS_FROM, _FEW_ROWS_PER_LEAF, _FEW_ROWS_DEPTHS = 50_000.0, 500.0, (5, 8)
"""The same where noise is small.

Greedy structures follow the sampling errors of small leaves, and later ones repeat them; a trial then tells
whether they are of use (`lgb_dp.newton.splits.tree_kinds`).
"""

MAX_AUTOMATIC_DEPTH = max(_MANY_ROWS_DEPTHS[1], _FEW_ROWS_DEPTHS[1])
"""Levels of trees whose depth is not given, at most, where rows are seen through noise alone."""


def distilled_depth(nu: float, n_rows: float, balanced: float, n_features: int) -> tuple[int, bool] | None:
    """Levels of greedy trees, and whether a trial decides if they are drawn; None where none is tried.

    They are those of `lgb_dp.newton.splits.distilled`. There are `n_rows` released rows, of these
    `balanced` as `balanced_rows` counts them, and `n_features` features with at least two bins.
    """
    if n_features > MAX_COUNTED_FEATURES:
        return None
    rules = (
        (balanced, _MANY_ROWS_FROM, _MANY_ROWS_PER_LEAF, _MANY_ROWS_DEPTHS, False),
        (n_rows, _FEW_ROWS_FROM, _FEW_ROWS_PER_LEAF, _FEW_ROWS_DEPTHS, True),
    )
    for rows, start, per_leaf, (shallowest, deepest), has_trial in rules:
        depth = int(np.log2(max(rows / per_leaf, 1.0)))
        if nu >= start and depth >= shallowest:
            return min(depth, deepest), has_trial
    return None


_EXACT_ROWS_PER_LEAF, _EXACT_DEPTHS = 500.0, (3, 8)
_EXACT_LENGTH, _EXACT_LENGTH_OF_ROWS = 20.0, 25_000.0
"""Rounds times rate without privacy, at so many balanced rows; it grows with their power of ¾."""


def exact_depth(n_rows: float) -> int:
    """Levels of greedy trees that are fitted to the rows, without privacy."""
    return int(np.clip(np.log2(max(n_rows / _EXACT_ROWS_PER_LEAF, 1.0)), *_EXACT_DEPTHS))


def exact_rate(balanced: float, n_rounds: int) -> float:
    """Learning rate of these trees, of `balanced_rows`: ordinary boosting in small steps."""
    length = max(_EXACT_LENGTH * (balanced / _EXACT_LENGTH_OF_ROWS) ** 0.75, 3.0)
    return float(np.clip(length / n_rounds, 0.01, 0.3))


def balanced_rows(n_rows: float, objective: str, prior: NDArray[np.float64]) -> float:
    """Rows of equally frequent classes whose labels vary as much as those of the given rows.

    The prior has log-odds, or logarithms of the classes' frequencies but for a constant.
    """
    if OBJECTIVES[objective].is_regression:
        return n_rows
    p = softmax(np.append(0.0, prior) if len(prior) == 1 else prior)
    return float(n_rows * (1 - (p**2).sum()) / (1 - 1 / len(p)))
