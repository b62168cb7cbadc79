"""The structure of one private tree, grown level by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import (
    BinLayout,
    Codes,
    candidate_gains,
    goes_left_table,
    level_histograms,
    partition_level,
)
from lgb_dp.mechanisms.noise import select
from lgb_dp.mechanisms.rng import SecureRandom


@dataclass(frozen=True)
class Structure:
    """Splits of a complete tree, and row numbers leaf by leaf from `starts`, shape (2**depth + 1,)."""

    feature: NDArray[np.int32]
    goes_left: NDArray[np.uint8]
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]


def grow_levels(
    matrix: Codes,
    rows: NDArray[np.int32],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    layout: BinLayout,
    depth: int,
    choose: Callable[[int, NDArray[np.int64]], NDArray[np.int64]],
    n_threads: int = 0,
) -> Structure:
    """Split every node of every level, empty nodes too, where `choose` says.

    The matrix has all rows, binned, and `rows` the numbers of those that this tree trains on. `first` and
    `second`, indexed by row number, are what the histograms sum up. From a level and its histograms, `choose`
    makes the number of a candidate for every node of the level.
    """
    starts = np.array([0, len(rows)], dtype=np.int64)
    features, tables, parents = [], [], None
    for level in range(depth):
        histograms = level_histograms(matrix, rows, starts, first, second, layout, parents, n_threads)
        feature, goes_left = goes_left_table(choose(level, histograms), layout)
        rows, starts = partition_level(matrix, rows, starts, feature, goes_left)
        features.append(feature)
        tables.append(goes_left)
        parents = histograms
    return Structure(np.concatenate(features), np.concatenate(tables), rows, starts)


def random_structure(matrix: Codes, layout: BinLayout, depth: int, random: SecureRandom) -> Structure:
    """Split every node by a random feature and a random candidate of it; reads no data, so it is public.

    Both are uniform up to the bias of a remainder, below 2⁻⁴⁰, that no data enters.
    """
    rows = np.arange(matrix.n_rows, dtype=np.int32)
    starts = np.array([0, len(rows)], dtype=np.int64)
    n_candidates = np.diff(layout.candidate_offsets)
    usable = np.flatnonzero(n_candidates)
    features, tables = [], []
    for level in range(depth):
        words = random.words(2, 2**level)
        drawn = usable[(words[0] % np.uint64(len(usable))).astype(np.int64)]
        candidate = (words[1] % n_candidates[drawn].astype(np.uint64)).astype(np.int64)
        feature, goes_left = goes_left_table(layout.candidate_offsets[drawn] + candidate, layout)
        rows, starts = partition_level(matrix, rows, starts, feature, goes_left)
        features.append(feature)
        tables.append(goes_left)
    return Structure(np.concatenate(features), np.concatenate(tables), rows, starts)


def grow_structure(
    matrix: Codes,
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

    Arguments are those of `grow_levels`; gradients and weights are quantised, and λ is in integer weight
    steps. There is one of `scales`, the factor from integer gain to log-weight, per level.
    """

    def choose(level: int, histograms: NDArray[np.int64]) -> NDArray[np.int64]:
        utilities = candidate_gains(histograms, layout, lambda_l2, n_threads)
        utilities *= scales[level]
        return select(utilities, random, n_threads, layout.repeats)

    return grow_levels(matrix, rows, gradient, weight, layout, len(scales), choose, n_threads)
