"""The active party's search for splits in its own columns, in clear."""

from __future__ import annotations

import numpy as np
from gbdt_kernels.trees.binning import DenseCodes
from gbdt_kernels.trees.histogram import level_histograms
from gbdt_kernels.trees.layout import BinLayout
from numpy.typing import NDArray

from xgb_fed.boosting.features import BinnedFeatures
from xgb_fed.boosting.split_gain import SplitGain
from xgb_fed.vertical.finder import NO_CANDIDATE, BestCandidates, Level, Split
from xgb_fed.vertical.gradients import FixedPointGradients
from xgb_fed.vertical.splits import Splits


class OwnColumns:
    """The active party's search in its own columns, in clear.

    Parameters
    ----------
    features : BinnedFeatures
    splits : Splits
        Where its splits are kept.
    split_gain : SplitGain
    """

    def __init__(self, features: BinnedFeatures, splits: Splits, split_gain: SplitGain) -> None:
        self.features = features
        self.splits = splits
        self._split_gain = split_gain
        self._columns = np.arange(features.n_features)
        self._gradients: FixedPointGradients

    def use_columns(self, columns: NDArray[np.int64]) -> None:
        """Columns that the next tree may split."""
        self._columns = columns

    def start_tree(self, tree: int, gradients: FixedPointGradients, rows: NDArray[np.bool_]) -> None:
        """See `SplitFinder`."""
        self._gradients = gradients
        self._parents: list[NDArray[np.int64]] = []
        n_bins = np.array([len(self.features.cuts[f]) for f in self._columns], dtype=np.int64)
        none = np.zeros((0, int((n_bins + 1).sum())), dtype=bool)
        self._layout = BinLayout(n_bins, np.zeros(len(n_bins), dtype=bool), none)
        codes = self.features.codes
        everything = len(self._columns) == self.features.n_features
        self._codes = DenseCodes(codes if everything else np.ascontiguousarray(codes[:, self._columns]))
        self._order = _walk(self._layout)
        self._tried: dict[int, NDArray[np.int64]] = {}

    def find(self, level: Level) -> dict[int, BestCandidates]:
        """See `SplitFinder`."""
        sums, counts = self._histograms(level)
        found = {}
        for node in np.flatnonzero(level.wanted).tolist():
            found[node] = self._best(level, node, sums[..., node, :], counts[node])
        return found

    def _histograms(self, level: Level) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Exact sums, shape (2, 2, n_classes, n_nodes, n_total_bins), and row counts of every bin."""
        halves = self._gradients.halves
        n_classes = halves.shape[2]
        ones = np.ones(halves.shape[-1], dtype=np.int32)
        pairs = [(halves[q, 0, k], halves[q, 1, k]) for q in range(2) for k in range(n_classes)] + [
            (ones, ones)
        ]
        split = sorted(level.assignment)
        built = []
        for k, (a, b) in enumerate(pairs):
            parents = self._parents[k][split] if self._parents else None
            built.append(
                level_histograms(
                    self._codes,
                    level.sampled.rows,
                    level.sampled.starts,
                    np.ascontiguousarray(a),
                    np.ascontiguousarray(b),
                    self._layout,
                    parents,
                )
            )
        self._parents = built
        of_gradients = np.stack(built[:-1]).reshape(2, n_classes, *built[0].shape)
        return np.moveaxis(of_gradients, -1, 1), built[-1][..., 0]

    def _best(
        self, level: Level, node: int, sums: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> BestCandidates:
        first, missing, at, default_left = self._order
        # Left-hand sums: running sums from the feature's first bin, plus missing values that go left.
        running = np.zeros((*sums.shape[:-1], sums.shape[-1] + 1), dtype=np.int64)
        np.cumsum(sums, axis=-1, out=running[..., 1:])
        left = running[..., at] - running[..., first]
        left += np.where(default_left, sums[..., missing], 0)
        walked = np.concatenate([[0], np.cumsum(counts)])
        n_left = walked[at] - walked[first] + np.where(default_left, counts[missing], 0)
        moves = np.where(default_left, counts[missing] > 0, True)
        possible = np.flatnonzero(moves & (n_left > 0) & (n_left < level.sampled.sizes()[node]))
        if not len(possible):
            return NO_CANDIDATE
        g, h = self._gradients.to_float(left[..., possible])
        total_g, total_h = self._gradients.to_float(level.sums[..., node])
        change = self._split_gain.loss_changes(g.T, h.T, total_g, total_h)
        best = change.max()
        return BestCandidates(best, possible[change == best][:1].astype(np.int32))

    def split(self, level: Level, chosen: dict[int, BestCandidates]) -> dict[int, Split]:
        """See `SplitFinder`."""
        first, _, at, default_left = self._order
        splits = {}
        for node, found in chosen.items():
            candidate = int(found.tied[0])
            own = int(np.searchsorted(self._layout.bin_offsets, first[candidate], side="right")) - 1
            feature, last_left = int(self._columns[own]), int(at[candidate] - first[candidate]) - 1
            goes_default = bool(default_left[candidate])
            left = self.features.goes_left(level.partition.of(node), feature, last_left, goes_default)
            threshold = self.features.threshold(feature, last_left)
            splits[node] = Split(self.splits.add(feature, threshold, goes_default), left)
        return splits


def _walk(
    layout: BinLayout,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """All candidates in the order XGBoost tries them.

    Returns
    -------
    first, missing : ndarray of int64
        Places of the feature's first bin, and of its missing values.
    at : ndarray of int64
        Place after the last bin that goes left.
    default_left : ndarray of bool
    """
    first, missing, at, default_left = [], [], [], []
    for f in range(layout.n_features):
        start, end = int(layout.bin_offsets[f]), int(layout.bin_offsets[f + 1]) - 1
        upwards, downwards = np.arange(start + 1, end + 1), np.arange(end - 1, start - 1, -1)
        at += [upwards, downwards]
        default_left += [np.zeros(len(upwards), dtype=bool), np.ones(len(downwards), dtype=bool)]
        first.append(np.full(len(upwards) + len(downwards), start))
        missing.append(np.full(len(upwards) + len(downwards), end))
    return tuple(np.concatenate(part) for part in (first, missing, at, default_left))  # type: ignore[return-value]
