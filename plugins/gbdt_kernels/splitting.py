"""The gain of every candidate split of a node, from its histogram.

With ``G`` the sum of gradients and ``N`` the sum of weights of a child,
``gain = G_L² / (N_L + λ) + G_R² / (N_R + λ)`` (Li et al., AAAI 2020, eq. 3); a
child with ``N + λ = 0`` counts as 0.  Every candidate has a gain, also those
that leave a child empty: leaving one out would depend on private data.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gbdt_kernels.layout import BinLayout
from gbdt_kernels.threads import blocks, run


@njit(nogil=True, cache=True)
def _term(gradient, weight, lambda_l2):
    denominator = np.float64(weight) + lambda_l2
    if denominator <= 0.0:
        return 0.0
    g = np.float64(gradient)
    return g * g / denominator


@njit(nogil=True, cache=True)
def _gain(left_gradient, left_weight, gradient, weight, lambda_l2):
    return _term(left_gradient, left_weight, lambda_l2) + _term(
        gradient - left_gradient, weight - left_weight, lambda_l2
    )


@njit(nogil=True, cache=True)
def _categorical_gains(histogram, start, missing, gradient, weight, subsets, lambda_l2, gains):
    """Each category against the rest, then each public subset; missing and unknown go right."""
    for place in range(start, missing):
        gains[place - start] = _gain(histogram[place, 0], histogram[place, 1], gradient, weight, lambda_l2)
    for s in range(subsets.shape[0]):
        left_gradient = np.int64(0)
        left_weight = np.int64(0)
        for place in range(start, missing):
            if subsets[s, place]:
                left_gradient += histogram[place, 0]
                left_weight += histogram[place, 1]
        gains[missing - start + s] = _gain(left_gradient, left_weight, gradient, weight, lambda_l2)


@njit(nogil=True, cache=True)
def _numeric_gains(histogram, start, missing, gradient, weight, lambda_l2, gains):
    """Threshold by threshold, missing values left, then right."""
    left_gradient = np.int64(0)
    left_weight = np.int64(0)
    missing_gradient = histogram[missing, 0]
    missing_weight = histogram[missing, 1]
    for place in range(start, missing - 1):
        left_gradient += histogram[place, 0]
        left_weight += histogram[place, 1]
        k = 2 * (place - start)
        gains[k] = _gain(
            left_gradient + missing_gradient, left_weight + missing_weight, gradient, weight, lambda_l2
        )
        gains[k + 1] = _gain(left_gradient, left_weight, gradient, weight, lambda_l2)


@njit(nogil=True, cache=True)
def _candidate_gains(
    histograms, n_bins, is_categorical, bin_offsets, candidate_offsets, subsets, lambda_l2, first, last, gains
):
    for node in range(first, last):
        histogram = histograms[node]
        for f in range(len(n_bins)):
            own = gains[node, candidate_offsets[f] : candidate_offsets[f + 1]]
            if len(own) == 0:
                continue
            start = bin_offsets[f]
            missing = start + n_bins[f]
            gradient = np.int64(0)
            weight = np.int64(0)
            for place in range(start, missing + 1):
                gradient += histogram[place, 0]
                weight += histogram[place, 1]
            if is_categorical[f]:
                _categorical_gains(histogram, start, missing, gradient, weight, subsets, lambda_l2, own)
            else:
                _numeric_gains(histogram, start, missing, gradient, weight, lambda_l2, own)


def candidate_gains(
    histograms: NDArray[np.int64], layout: BinLayout, lambda_l2: float, n_threads: int = 0
) -> NDArray[np.float64]:
    """Gain of every candidate split of every node, in squared gradient units per weight unit.

    Parameters
    ----------
    histograms : ndarray of int64, shape (n_nodes, n_total_bins, 2)
    layout : BinLayout
    lambda_l2 : float
        Regularisation λ, in weight units.
    n_threads : int
        Threads at most; 0 means all available processors.

    Returns
    -------
    ndarray of float64, shape (n_nodes, n_candidates)
        Numeric features: threshold by threshold, missing values left, then right.
        Categorical ones: each category alone, then each public subset.
    """
    gains = np.empty((len(histograms), layout.n_candidates))

    def work(_: int, first: int, last: int) -> None:
        _candidate_gains(
            histograms,
            layout.n_bins,
            layout.is_categorical,
            layout.bin_offsets,
            layout.candidate_offsets,
            layout.subsets,
            lambda_l2,
            first,
            last,
            gains,
        )

    run(work, blocks(len(histograms), n_threads, 4 * layout.n_candidates))
    return gains


@njit(nogil=True, cache=True)
def _fill_goes_left(
    candidates, feature, n_bins, is_categorical, bin_offsets, candidate_offsets, subsets, out
):
    for node in range(len(candidates)):
        f = feature[node]
        n = n_bins[f]
        k = candidates[node] - candidate_offsets[f]
        if not is_categorical[f]:
            out[node, : k // 2 + 1] = 1
            out[node, n] = 1 - k % 2
        elif k < n:
            out[node, k] = 1
        else:
            for b in range(n):
                out[node, b] = subsets[k - n, bin_offsets[f] + b]


def goes_left_table(
    candidates: NDArray[np.int64], layout: BinLayout
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Feature of each chosen candidate, and which of its bins go left.

    Parameters
    ----------
    candidates : ndarray of int64, shape (n_nodes,)
        Numbers of the chosen candidate splits.
    layout : BinLayout

    Returns
    -------
    feature : ndarray of int32, shape (n_nodes,)
    goes_left : ndarray of uint8, shape (n_nodes, 256)
        1 where a bin code goes left.
    """
    feature = (np.searchsorted(layout.candidate_offsets, candidates, side="right") - 1).astype(np.int32)
    goes_left = np.zeros((len(candidates), 256), dtype=np.uint8)
    _fill_goes_left(
        candidates,
        feature,
        layout.n_bins,
        layout.is_categorical,
        layout.bin_offsets,
        layout.candidate_offsets,
        layout.subsets,
        goes_left,
    )
    return feature, goes_left
