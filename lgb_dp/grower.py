"""Grow the structure of one private tree, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gbdt_kernels import (
    BinLayout,
    DenseCodes,
    SparseCodes,
    candidate_gains,
    goes_left_table,
    level_histograms,
    partition_level,
)
from numpy.typing import NDArray

from lgb_dp.mechanisms import select
from lgb_dp.rng import SecureRandom


@dataclass(frozen=True)
class Structure:
    """Splits of a complete tree, and its rows leaf by leaf.

    Parameters
    ----------
    feature : ndarray of int32, shape (2**depth - 1,)
    goes_left : ndarray of uint8, shape (2**depth - 1, 256)
    rows : ndarray of int32
        Row numbers, leaf by leaf.
    starts : ndarray of int64, shape (2**depth + 1,)
        Where each leaf's rows start.
    """

    feature: NDArray[np.int32]
    goes_left: NDArray[np.uint8]
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]


def grow_structure(
    matrix: DenseCodes | SparseCodes,
    rows: NDArray[np.int32],
    gradient: NDArray[np.int32],
    weight: NDArray[np.int32],
    layout: BinLayout,
    lambda_l2: float,
    scales: Sequence[float],
    random: SecureRandom,
    n_threads: int = 0,
) -> Structure:
    """Split every node of every level by the exponential mechanism, empty nodes too.

    Parameters
    ----------
    matrix : DenseCodes or SparseCodes
        Binned rows of the whole data set.
    rows : ndarray of int32
        Numbers of the rows this tree trains on.
    gradient, weight : ndarray of int32, shape (n_rows,)
        Quantised, indexed by row number.
    layout : BinLayout
        All public candidate splits.
    lambda_l2 : float
        λ in integer weight steps.
    scales : sequence of float
        Factor from integer gain to log-weight, one per level.
    random : SecureRandom
    n_threads : int
        0 means all available processors.
    """
    starts = np.array([0, len(rows)], dtype=np.int64)
    features, tables, parents = [], [], None
    for scale in scales:
        histograms = level_histograms(matrix, rows, starts, gradient, weight, layout, parents, n_threads)
        utilities = candidate_gains(histograms, layout, lambda_l2, n_threads)
        utilities *= scale
        chosen = select(utilities, random, n_threads)
        feature, goes_left = goes_left_table(chosen, layout)
        rows, starts = partition_level(matrix, rows, starts, feature, goes_left)
        features.append(feature)
        tables.append(goes_left)
        parents = histograms
    return Structure(np.concatenate(features), np.concatenate(tables), rows, starts)
