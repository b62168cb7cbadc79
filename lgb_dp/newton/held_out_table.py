"""The table that ends a run with held-out rows: how they score under the model, by their labels.

Nothing of the table but its noised counts leaves.  Bins of scores are public given the model: quantiles of
its scores on made-up rows, whose columns are drawn independently from what was released of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import DenseCodes
from lgb_dp.boosting.training import Asking
from lgb_dp.data.bins import PublicBins
from lgb_dp.evaluation.evaluation import N_POINTS, PrivateEvaluation
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.noised_sums import Releases
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums
from lgb_dp.newton.releases.trees import Round
from lgb_dp.newton.splits.distilled import SurrogateScores, surrogate_rows
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms

_ROWS_OVER_STD = 25.0
"""Held-out rows per bin over the noise in a cell: more bins add noise, fewer hide the order of rows."""

_MIN_BINS, _MAX_BINS = 8, 64
_TAIL_BINS = 4
"""Each with half of the rows of the next, beyond the first and the last of many bins."""

_INSIDE = (np.arange(N_POINTS) + 0.5) / N_POINTS


class HeldOutRows:
    """The rows that train nothing, and the release that is made of them.

    Parameters
    ----------
    is_held : ndarray of bool, shape (n_rows,)
    is_high : ndarray of bool, shape (n_rows,)
        Whether a row has the higher label.
    weight : ndarray of int32, shape (n_rows,)
        Integer steps.
    share : float
        Probability with which a row is held out.
    """

    def __init__(
        self, is_held: NDArray[np.bool_], is_high: NDArray[np.bool_], weight: NDArray[np.int32], share: float
    ) -> None:
        self._held = np.flatnonzero(is_held)
        self._is_high, self._weight, self._share = is_high[self._held], weight[self._held], share

    def evaluation(
        self,
        rows: LocalLeafSums,
        releases: Releases,
        question: Round,
        bins: PublicBins,
        histograms: FeatureHistograms | None,
        random: SecureRandom,
    ) -> Asking[PrivateEvaluation]:
        """Release the table of the model that the question's trees make."""
        assert releases.n_rows is not None
        n_held = releases.n_rows * self._share / (1 - self._share)
        n_bins = int(np.clip(n_held * releases.mu / _ROWS_OVER_STD, _MIN_BINS, _MAX_BINS))
        edges, points = score_bins(made_up_scores(bins, histograms, question, random), n_bins)
        cell = 2 * np.searchsorted(edges, rows.scores(question)[self._held, 0]) + self._is_high
        table = np.zeros(2 * len(points), dtype=np.int64)
        np.add.at(table, cell, self._weight.astype(np.int64))
        counts, std = yield from releases.held_out_counts(table.reshape(-1, 2), random)
        return PrivateEvaluation(edges, points, counts, std)


def made_up_scores(
    bins: PublicBins, histograms: FeatureHistograms | None, question: Round, random: SecureRandom
) -> NDArray[np.float64]:
    """Ascending scores of made-up rows; of columns without histograms, all values are as likely."""
    if histograms is None:
        histograms = FeatureHistograms.of(np.zeros(bins.layout().n_total_bins), 1.0, bins)
    made_up: DenseCodes = surrogate_rows(histograms, bins, random)
    scores = SurrogateScores(made_up, np.tile(question.prior, (made_up.n_rows, 1)), 1)
    scores.follow(question.released)
    return np.sort(scores.score[:, 0])


def score_bins(scores: NDArray[np.float64], n_bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges between bins, one of them 0, and scores that stand for those in each bin.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_rows,)
        Ascending.
    n_bins : int
        With about equally many of them.
    """
    shares = np.arange(1, n_bins) / n_bins
    tail = shares[0] / 2.0 ** np.arange(1, _TAIL_BINS + 1) if n_bins >= _MAX_BINS // 2 else shares[:0]
    edges = np.unique(np.append(np.quantile(scores, [*tail, *shares, *1 - tail]), 0.0))
    first = np.searchsorted(scores, np.append(-np.inf, edges), side="right")
    stop = np.append(first[1:], len(scores))
    # A bin that no made-up row is in has the score of its inner end.
    ends = np.append(edges, edges[-1])
    points = [
        np.quantile(scores[a:b], _INSIDE) if b > a else np.full(N_POINTS, end)
        for a, b, end in zip(first, stop, ends, strict=True)
    ]
    return edges, np.array(points)
