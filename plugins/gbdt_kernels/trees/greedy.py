"""The structure of one greedy regression tree: the split of every node of a complete tree that explains most.

Nothing is drawn here.  The caller says which features a node may split by, and hands in a tree that has a
split in every node; a node where nothing can be gained keeps that split.  Histograms are not subtracted from
the parent's, since every node looks at features of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel

_MIN_GAIN = 1e-6
"""Relative to what the node's mean explains: what rounding in float32 could pretend to gain."""


@kernel
def _fill(codes, target, weight, rows, features, sums):
    """Add weighted targets, weights and counts to the bins of the features, shape (n_tried, 256, 3)."""
    for i in range(len(rows)):
        row = rows[i]
        g, w = target[row], weight[row]
        for k in range(len(features)):
            code = codes[row, features[k]]
            sums[k, code, 0] += g
            sums[k, code, 1] += w
            sums[k, code, 2] += np.float32(1.0)


@kernel
def _find_present(codes, tried, n_bins):
    """The codes of each feature that rows have, ascending, -1 behind them; missing values left out."""
    is_tried = np.zeros(codes.shape[1], dtype=np.bool_)
    for node in range(len(tried)):
        if tried[node, 0] >= 0:
            for f in tried[node]:
                is_tried[f] = True
    features = np.flatnonzero(is_tried)
    has = np.zeros((codes.shape[1], 256), dtype=np.bool_)
    for row in range(len(codes)):
        for f in features:
            has[f, codes[row, f]] = True
    present = np.full((codes.shape[1], 256), -1, dtype=np.int16)
    for f in features:
        n = 0
        for code in range(n_bins[f]):
            if has[f, code]:
                present[f, n] = code
                n += 1
    return present


@kernel
def _order(sums, present, is_categorical):
    """Codes in the order in which they are cut: categories by their mean, those without rows last."""
    n = 0
    while n < len(present) and present[n] >= 0:
        n += 1
    if not is_categorical:
        return present[:n]
    mean = np.empty(n)
    for i in range(n):
        cell = sums[present[i]]
        mean[i] = cell[0] / cell[1] if cell[2] > 0 else np.inf
    return present[np.argsort(mean, kind="mergesort")]


@kernel(error_model="numpy")
def _best_cut(sums, order, n_cuts, missing, missing_left, least, best):
    """The cut of one feature's codes that explains more than `best`, and what it explains.

    The cut is the position of the last code that goes left, -1 if there is none.
    """
    all_g, all_w, all_count = np.float64(missing[0]), np.float64(missing[1]), np.float64(missing[2])
    g = w = count = 0.0
    if missing_left:
        g, w, count = all_g, all_w, all_count
    for c in order:
        all_g += sums[c, 0]
        all_w += sums[c, 1]
        all_count += sums[c, 2]
    parent = all_g * all_g / all_w
    cut = -1
    for t in range(n_cuts):
        c = order[t]
        if sums[c, 2] == 0:
            continue
        g += sums[c, 0]
        w += sums[c, 1]
        count += sums[c, 2]
        if count < least:
            continue
        if all_count - count < least:
            break
        gain = g * g / w + (all_g - g) * (all_g - g) / (all_w - w) - parent
        if gain > best and gain > _MIN_GAIN * parent:
            best, cut = gain, t
    return best, cut


@kernel
def _best_split(sums, features, present, n_bins, is_categorical, least):
    """The best split: which of the features, whether missing values go left, and where to cut its codes."""
    best, which, missing_left, cut = 0.0, -1, False, -1
    for k in range(len(features)):
        f = features[k]
        missing = sums[k, n_bins[f]]
        order = _order(sums[k], present[f], is_categorical[f])
        # Thresholds are below the last code; all categories can part from missing values.
        n_cuts = len(order) if is_categorical[f] else len(order) - 1
        for side in range(2 if missing[2] > 0 and not is_categorical[f] else 1):
            gain, t = _best_cut(sums[k], order, n_cuts, missing, side == 1, least, best)
            if t >= 0:
                best, which, missing_left, cut = gain, k, side == 1, t
    return which, missing_left, cut


@kernel
def _write_split(sums, order, is_categorical, n, cut, within, missing_left, goes_left):
    """Send codes left up to the cut; a threshold may be anywhere between the codes that it parts."""
    goes_left[:] = 0
    if is_categorical:
        for t in range(cut + 1):
            goes_left[order[t]] = 1
        return
    above = cut + 1
    while above < len(order) - 1 and sums[order[above], 2] == 0:
        above += 1
    low = np.int64(order[cut])
    goes_left[: low + 1 + np.int64(within * (order[above] - low))] = 1
    goes_left[n] = missing_left


@kernel
def _partition(rows, spare, codes, goes_left):
    """Reorder a node's rows, those that go left first, and return how many do; order is kept within both."""
    n_left = n_right = 0
    for i in range(len(rows)):
        row = rows[i]
        if goes_left[codes[row]]:
            rows[n_left] = row
            n_left += 1
        else:
            spare[n_right] = row
            n_right += 1
    for i in range(n_right):
        rows[n_left + i] = spare[i]
    return n_left


@kernel
def _grow(codes, target, weight, n_bins, is_categorical, tried, within, coin, least, feature, goes_left):
    n_rows, n_nodes = len(codes), len(feature)
    rows, spare = np.arange(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.int32)
    first, last = np.zeros(2 * n_nodes + 1, dtype=np.int64), np.zeros(2 * n_nodes + 1, dtype=np.int64)
    last[0] = n_rows
    sums = np.zeros((tried.shape[1], 256, 3), dtype=np.float32)
    present = _find_present(codes, tried, n_bins)
    for node in range(n_nodes):
        own, features = rows[first[node] : last[node]], tried[node]
        if features[0] >= 0 and len(own) >= 2 * least:
            _fill(codes, target, weight, own, features, sums)
            k, missing_left, cut = _best_split(sums, features, present, n_bins, is_categorical, least)
            if k >= 0:
                f = features[k]
                n = n_bins[f]
                order = _order(sums[k], present[f], is_categorical[f])
                side = missing_left if sums[k, n, 2] > 0 else coin[node]
                _write_split(sums[k], order, is_categorical[f], n, cut, within[node], side, goes_left[node])
                feature[node] = f
            for k in range(len(features)):
                f = features[k]
                sums[k, n_bins[f]] = 0
                for code in present[f]:
                    if code < 0:
                        break
                    sums[k, code] = 0
        n_left = _partition(own, spare, codes[:, feature[node]], goes_left[node])
        first[2 * node + 1], last[2 * node + 1] = first[node], first[node] + n_left
        first[2 * node + 2], last[2 * node + 2] = first[node] + n_left, last[node]


def grow_structure(
    codes: NDArray[np.uint8],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    n_bins: NDArray[np.int64],
    is_categorical: NDArray[np.bool_],
    tried: NDArray[np.int32],
    within: NDArray[np.float64],
    coin: NDArray[np.bool_],
    least: int,
    feature: NDArray[np.int32],
    goes_left: NDArray[np.uint8],
) -> None:
    """Replace the splits of a complete tree by the ones that explain most of the target, node by node.

    The gain of a split is the weighted sum of squares around the node's mean, less that around its children's
    means. Of equal splits, the first one tried is taken. A child has `least` rows at least, a positive
    number. `feature` and `goes_left`, shape (n_nodes, 256), are the splits, level by level, and written.

    The code of a missing value is the feature's number of bins. Categories are cut in the order of their
    means; missing ones go right. Weights are positive. Row by row of `tried`, shape (n_nodes, n_tried), stand
    the features that a node may split by, each with at least two bins; a first one below 0: the node keeps
    its split. `within`, in [0, 1), says where in the range of thresholds that part the rows alike a node's
    threshold is, and `coin` whether missing values go left if none of its rows has one.
    """
    weighted = (target * weight).astype(np.float32)
    single = weight.astype(np.float32)
    _grow(codes, weighted, single, n_bins, is_categorical, tried, within, coin, least, feature, goes_left)
