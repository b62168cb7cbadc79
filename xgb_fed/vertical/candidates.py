"""A passive party's candidate splits of one node, in the order XGBoost tries them.

XGBoost walks a feature's bins upwards with missing values on the right, then, if
there are any, downwards with missing values on the left, and keeps the first of
equal gains.  A bin without rows repeats the candidate before it, so only bins
with rows give one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class Candidates:
    """Candidate splits of one node.

    Attributes
    ----------
    feature : ndarray of int32, shape (n_candidates,)
    last_left : ndarray of int32, shape (n_candidates,)
        Last bin that goes left; −1 if only missing values do.
    default_left : ndarray of bool, shape (n_candidates,)
    counts : ndarray of int32, shape (n_candidates,)
        Rows that go left.
    chains : list of ndarray of int64
        Places of a histogram whose running sums are the candidates' left-hand sums, in the same order.
    """

    feature: NDArray[np.int32]
    last_left: NDArray[np.int32]
    default_left: NDArray[np.bool_]
    counts: NDArray[np.int32]
    chains: list[NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.feature)

    def reordered(self, order: NDArray[np.int64]) -> Candidates:
        """The same candidates in another order (the chains stay as they are)."""
        return Candidates(
            self.feature[order],
            self.last_left[order],
            self.default_left[order],
            self.counts[order],
            self.chains,
        )


def candidates_of(counts: NDArray[np.int32], bin_offsets: NDArray[np.int64]) -> Candidates:
    """All candidates of one node, in XGBoost's order.

    Parameters
    ----------
    counts : ndarray of int32, shape (n_total_bins,)
        Rows of the node in each bin; the last bin of a feature holds missing values.
    bin_offsets : ndarray of int64, shape (n_features + 1,)
    """
    parts: list[tuple[int, NDArray[np.int64], bool, NDArray[np.int64]]] = []
    for f in range(len(bin_offsets) - 1):
        first, missing = int(bin_offsets[f]), int(bin_offsets[f + 1]) - 1
        bins = np.flatnonzero(counts[first:missing])
        if not len(bins):
            continue
        upwards = bins if counts[missing] else bins[:-1]
        if len(upwards):
            parts.append((f, upwards, False, first + upwards))
        if counts[missing]:
            # The running sums count upwards: missing values, then one more bin each; XGBoost walks down.
            parts.append((f, bins - 1, True, np.concatenate([[missing], first + bins[:-1]])))
    if not parts:
        none = np.empty(0, dtype=np.int32)
        return Candidates(none, none, none.astype(bool), none, [])
    lengths = [len(part[1]) for part in parts]
    return Candidates(
        np.repeat([part[0] for part in parts], lengths).astype(np.int32),
        np.concatenate([part[1] for part in parts]).astype(np.int32),
        np.repeat([part[2] for part in parts], lengths),
        np.concatenate([np.cumsum(counts[part[3]]) for part in parts]).astype(np.int32),
        [part[3] for part in parts],
    )


def first_in_order(candidates: Candidates, tied: NDArray[np.integer]) -> int:
    """The one of several candidates that XGBoost tries first: by feature, then upwards, then downwards."""
    chosen = np.asarray(tied)
    walk = np.where(
        candidates.default_left[chosen], -candidates.last_left[chosen], candidates.last_left[chosen]
    )
    return int(chosen[np.lexsort((walk, candidates.default_left[chosen], candidates.feature[chosen]))[0]])
