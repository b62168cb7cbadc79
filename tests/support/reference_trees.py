"""A small plaintext XGBoost tree, level by level, with the columns allowed at every level."""

from itertools import pairwise

import numpy as np
import xgboost


def cut_columns(X, max_bin):
    """XGBoost's cuts, and the bin of every value (−1 where missing)."""
    starts, values = xgboost.QuantileDMatrix(X, max_bin=max_bin).get_quantile_cut()
    cuts = [values[a + 1 : b] for a, b in pairwise(starts)]
    codes = [
        np.minimum(np.searchsorted(c, x, side="right"), len(c) - 1) for c, x in zip(cuts, X.T, strict=True)
    ]
    return cuts, np.where(np.isnan(X), -1, np.stack(codes, axis=1))


def best_split(codes, cuts, g, h, columns, reg_lambda, min_child_weight):
    """(gain, column, bin, default_left) of the first best split, or None."""

    def gain_of(left):
        G, H = g[left].sum(), h[left].sum()
        return np.float32(G * G / (H + reg_lambda)) if left.any() else np.float32(0)

    everyone = np.ones(len(g), dtype=bool)
    best = None
    for f in columns:
        missing = codes[:, f] < 0
        walks = [(False, b) for b in range(len(cuts[f]))]
        if missing.any():
            walks += [(True, b) for b in range(len(cuts[f]) - 2, -2, -1)]
        for default_left, b in walks:
            left = np.where(missing, default_left, codes[:, f] <= b)
            if not left.any() or left.all() or min(h[left].sum(), h[~left].sum()) < min_child_weight:
                continue
            gain = np.float32(gain_of(left) + gain_of(~left) - gain_of(everyone))
            if best is None or gain > best[0]:
                best = (gain, f, b, default_left)
    return best if best is not None and best[0] > 1e-6 else None


def grow(codes, cuts, g, h, columns_of_level, eta=0.3, reg_lambda=1.0, min_child_weight=1.0):
    """One tree.

    Returns
    -------
    splits : list of (column, threshold bin, default_left)
        In XGBoost's numbering of nodes.
    value : ndarray of float32
        Each row's leaf value.
    """
    splits, value = [], np.zeros(len(g), dtype=np.float32)
    nodes = [np.arange(len(g))]
    for depth in range(len(columns_of_level) + 1):
        below = []
        for rows in nodes:
            found = None
            if depth < len(columns_of_level):
                found = best_split(
                    codes[rows], cuts, g[rows], h[rows], columns_of_level[depth], reg_lambda, min_child_weight
                )
            if found is None:
                value[rows] = np.float32(-g[rows].sum() / (h[rows].sum() + reg_lambda)) * np.float32(eta)
                continue
            _, f, b, default_left = found
            left = np.where(codes[rows, f] < 0, default_left, codes[rows, f] <= b)
            splits.append((f, b, default_left))
            below += [rows[left], rows[~left]]
        nodes = below
    return splits, value
