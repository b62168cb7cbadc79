"""The score of every candidate split of a node, from its histogram: a gain or a risk.

Each is the sum of a term per child, of the two sums that a histogram holds.
Every candidate has a score, also those that leave a child empty: leaving one
out would depend on private data.  The scores that are computed are those of the candidates among codes with
places; ``BinLayout.repeats`` says which candidates have the same.

* Gain, of gradient ``G`` and weight ``N``: ``G² / (N + λ)`` (Li et al., AAAI 2020, eq. 3); a child with
  ``N + λ = 0`` counts as 0.
* Risk, of the weights ``P`` and ``N`` of two classes, with ``c`` the cap and ``s`` the prior:
  ``2α √((min(P, c) + s)(min(N, c) + s)) + 2(1 - α) min(P, N)``: for ``s = 0`` and ``c`` out of reach the
  Bayes risk of the M-loss times the child's weight (Nock and Henecka, eq. 6).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run
from gbdt_kernels.trees.layout import BinLayout


@kernel
def _categorical_sums(histogram, start, missing, subsets, left):
    """Each category against the rest, then each public subset; missing and unknown go right."""
    for place in range(start, missing):
        left[place - start, 0] = histogram[place, 0]
        left[place - start, 1] = histogram[place, 1]
    for s in range(subsets.shape[0]):
        first = np.int64(0)
        second = np.int64(0)
        for place in range(start, missing):
            if subsets[s, place]:
                first += histogram[place, 0]
                second += histogram[place, 1]
        left[missing - start + s, 0] = first
        left[missing - start + s, 1] = second


@kernel
def _numeric_sums(histogram, start, missing, left):
    """Threshold by threshold, missing values left, then right."""
    first = np.int64(0)
    second = np.int64(0)
    missing_first = histogram[missing, 0]
    missing_second = histogram[missing, 1]
    for place in range(start, missing - 1):
        first += histogram[place, 0]
        second += histogram[place, 1]
        k = 2 * (place - start)
        left[k, 0] = first + missing_first
        left[k, 1] = second + missing_second
        left[k + 1, 0] = first
        left[k + 1, 1] = second


@kernel
def _left_sums(histogram, layout, left, total):
    """Both sums of every candidate's left child, and of the node, which those of any feature add up to."""
    n_bins, is_categorical, bin_offsets, candidate_offsets, subsets = layout
    for f in range(len(n_bins)):
        own = left[candidate_offsets[f] : candidate_offsets[f + 1]]
        if len(own) == 0:
            continue
        start = bin_offsets[f]
        missing = start + n_bins[f]
        if is_categorical[f]:
            _categorical_sums(histogram, start, missing, subsets, own)
        else:
            _numeric_sums(histogram, start, missing, own)
    total[0] = 0
    total[1] = 0
    for place in range(bin_offsets[0], bin_offsets[1]):
        total[0] += histogram[place, 0]
        total[1] += histogram[place, 1]


@kernel
def _gain(gradient, weight, lambda_l2):
    """A child's term of the gain, float64."""
    denominator = np.float64(weight) + lambda_l2
    if denominator <= 0.0:
        return 0.0
    g = np.float64(gradient)
    return g * g / denominator


@kernel
def _candidate_gains(histograms, layout, lambda_l2, first, last, gains):
    """Gains of nodes `first` to `last` - 1: ``gains`` is float64 of shape (n_nodes, n_candidates).

    `layout` has the arrays of ``BinLayout.counted``.
    """
    left = np.empty((layout[3][-1], 2), dtype=np.int64)
    total = np.empty(2, dtype=np.int64)
    for node in range(first, last):
        _left_sums(histograms[node], layout, left, total)
        for k in range(len(left)):
            if k > 0 and left[k, 0] == left[k - 1, 0] and left[k, 1] == left[k - 1, 1]:
                gains[node, k] = gains[node, k - 1]
            else:
                gains[node, k] = _gain(left[k, 0], left[k, 1], lambda_l2) + _gain(
                    total[0] - left[k, 0], total[1] - left[k, 1], lambda_l2
                )


@kernel
def _risk(positive, negative, alpha, cap, prior):
    """A child's term of the risk, float64."""
    p = np.float64(positive)
    n = np.float64(negative)
    return 2.0 * (alpha * np.sqrt((min(p, cap) + prior) * (min(n, cap) + prior)) + (1.0 - alpha) * min(p, n))


@kernel
def _candidate_risks(histograms, layout, alpha, cap, prior, first, last, risks):
    """Risks of nodes `first` to `last` - 1: ``risks`` is float64 of shape (n_nodes, n_candidates).

    `layout` has the arrays of ``BinLayout.counted``.
    """
    left = np.empty((layout[3][-1], 2), dtype=np.int64)
    total = np.empty(2, dtype=np.int64)
    for node in range(first, last):
        _left_sums(histograms[node], layout, left, total)
        for k in range(len(left)):
            risks[node, k] = _risk(left[k, 0], left[k, 1], alpha[node], cap[node], prior[node]) + _risk(
                total[0] - left[k, 0], total[1] - left[k, 1], alpha[node], cap[node], prior[node]
            )


def candidate_gains(
    histograms: NDArray[np.int64], layout: BinLayout, lambda_l2: float, n_threads: int = 0
) -> NDArray[np.float64]:
    """Gain of every candidate of ``layout.counted`` in every node, in squared gradient units per weight unit.

    `lambda_l2` is the regularisation λ, in weight units. Gains have shape
    (n_nodes, layout.counted.n_candidates). Numeric features have theirs threshold by threshold, missing
    values left, then right; categorical ones each category alone, then each public subset.
    """
    return _scores(_candidate_gains, histograms, layout, n_threads, lambda_l2)


def candidate_risks(
    histograms: NDArray[np.int64],
    layout: BinLayout,
    alpha: NDArray[np.float64],
    cap: NDArray[np.float64],
    prior: NDArray[np.float64],
    n_threads: int = 0,
) -> NDArray[np.float64]:
    """Risk that every candidate of ``layout.counted`` leaves in every node, in weight units.

    Histograms have the weights of the two classes; risks are ordered as `candidate_gains`. The last three
    arguments have a number for each node. `alpha` is the α of the M-loss, in [0, 1]; `cap` the weight of a
    class in a child beyond which the square root grows no more, inf for none; `prior` the weight that the
    square root adds to either class of a child, 0 for none.
    """
    return _scores(_candidate_risks, histograms, layout, n_threads, alpha, cap, prior)


def _scores(
    score: Any, histograms: NDArray[np.int64], layout: BinLayout, n_threads: int, *terms: Any
) -> NDArray[np.float64]:
    """The score that a kernel gives every candidate of every node."""
    n_candidates = layout.counted.n_candidates
    scores = np.empty((len(histograms), n_candidates))

    def work(_: int, first: int, last: int) -> None:
        score(histograms, layout.counted.arrays, *terms, first, last, scores)

    run(work, blocks(len(histograms), n_threads, 4 * n_candidates))
    return scores


@kernel
def _fill_goes_left(candidates, feature, layout, out):
    """1 where a bin's code goes left of the node's candidate: ``out`` is uint8 of shape (n_nodes, 256)."""
    n_bins, is_categorical, bin_offsets, candidate_offsets, subsets = layout
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

    Candidates are numbers of splits. Returns features, and shape (n_nodes, 256), 1 where a bin code goes
    left.
    """
    feature = (np.searchsorted(layout.candidate_offsets, candidates, side="right") - 1).astype(np.int32)
    goes_left = np.zeros((len(candidates), 256), dtype=np.uint8)
    _fill_goes_left(candidates, feature, layout.arrays, goes_left)
    return feature, goes_left
