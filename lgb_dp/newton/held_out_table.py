"""The table that ends a run with held-out rows: how they score under the model, by their labels.

Nothing of the rows but noised counts leaves.  The first say where scores are, on a public grid, to which the
scores of made-up rows add edges, whose columns are drawn independently from what was released of them.  By
quantiles of these, the table's bins are laid out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from gbdt_kernels.trees import DenseCodes
from lgb_dp.boosting.training import Asking
from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.evaluation.evaluation import N_POINTS, PrivateEvaluation
from lgb_dp.evaluation.regression import LABEL_EDGES, RegressionEvaluation, residual_edges
from lgb_dp.evaluation.several_classes import CONFIDENCE_EDGES, LOSS_EDGES, MAX_CELLS, MulticlassEvaluation
from lgb_dp.evaluation.survival import MAX_BINS, SurvivalEvaluation
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.times import N_TIMES, time_edges
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.noised_sums import Releases
from lgb_dp.newton.releases.held_out_rows import HeldOutCells
from lgb_dp.newton.releases.trees import Round
from lgb_dp.newton.splits.distilled import SurrogateScores, surrogate_rows
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms

_ROWS_OVER_STD = 10.0
"""Held-out rows of the rarer label per bin, over the noise in a cell.

More bins add noise to the area under a curve, fewer hide the order of rows.
"""

_MIN_BINS, _MAX_BINS = 8, 64
_TAIL_BINS = 4
"""Each with half of the rows of the next, beyond the first and the last of many bins."""

_SHARE_OF_SCORES = 0.2
"""Of μ², for counting where scores, losses or labels are: bins that are laid out without the first may hold
all rows in one."""

_MISSING = "missing or undeclared"
_QUANTILES = np.arange(1, 32) / 32
"""Edges of the grid that scores are first counted on: raw scores, and shares of made-up ones below."""

_INSIDE = (np.arange(N_POINTS) + 0.5) / N_POINTS


Counts = tuple[NDArray[np.float64], float]
"""Rows of the largest weight by cell, and the noise in each."""


class HeldOutTable:
    """The releases that end a run with held-out rows, and the evaluation that follows from them.

    A row is held out with probability `share`; a person may have `alike` rows of the largest weight.
    """

    def __init__(self, scale: LabelScale, share: float, alike: int, groups: Groups) -> None:
        self._scale, self._share, self._alike, self._groups = scale, share, alike, groups

    def evaluation(
        self,
        question: Round,
        shift: float,
        releases: Releases,
        made_up: NDArray[np.float64],
        random: SecureRandom,
    ) -> Asking[Any]:
        """Release the tables of the model of a question's trees, whose scores end with a shift.

        Of two classes and of times, `made_up` are its raw scores of made-up rows.
        """

        def released(number: int, kind: str, edges: NDArray[np.float64], *shape: int) -> Asking[Counts]:
            n_groups = 1 if kind == "scores" else max(len(groups.names), 1)
            cells = HeldOutCells(kind, edges, shift, n_groups)
            counts, std = yield from releases.held_out_counts(question, cells, random, number)
            return counts.reshape(n_groups, *(shape or (-1,))), std

        scale, alike, groups = self._scale, self._alike, self._groups
        if scale.is_regression and not scale.entry.labels_are_times:
            width = scale.high - scale.low
            edges = residual_edges(width)
            counts, std = yield from released(0, "residuals", edges)
            label_edges = scale.low + width * LABEL_EDGES
            labels, labels_std = yield from released(1, "labels", label_edges)
            return groups.joined(
                RegressionEvaluation(edges, one, std, of_labels, labels_std, width, alike=alike)
                for one, of_labels in zip(counts, labels, strict=True)
            )
        if scale.n_outputs > 1:
            losses, losses_std = yield from released(0, "losses", LOSS_EDGES)
            shape = scale.n_outputs, scale.n_outputs, -1
            counts, std = yield from released(1, "labels, classes, confidence", CONFIDENCE_EDGES, *shape)
            return groups.joined(
                MulticlassEvaluation(one, std, of_losses, losses_std, alike=alike)
                for one, of_losses in zip(counts, losses, strict=True)
            )
        assert releases.n_rows is not None
        are_times = scale.entry.labels_are_times
        grid = score_grid(made_up, *((math.log(scale.low), math.log(scale.high)) if are_times else ()))
        counts, std = yield from released(0, "scores", grid)
        likely = likely_scores(grid, counts[0], std, made_up)
        n_held = releases.n_rows * self._share / (1 - self._share) / max(len(groups.names), 1)
        if are_times:
            most = min(MAX_BINS, MAX_CELLS // ((2 * N_TIMES + 1) * max(len(groups.names), 1)))
            n_bins = int(np.clip(n_held * releases.mu / (N_TIMES * _ROWS_OVER_STD), 4, most))
            edges = np.unique(np.quantile(likely, np.arange(1, n_bins) / n_bins))
            counts, std = yield from released(1, "scores, times", edges, len(edges) + 1, -1)
            times = time_edges(scale.low, scale.high)
            return groups.joined(SurvivalEvaluation(edges, times, one, std, alike=alike) for one in counts)
        edges, points = score_bins(likely, n_bins_for(n_held, likely, releases.mu))
        counts, std = yield from released(1, "scores, labels", edges, -1, 2)
        return groups.joined(PrivateEvaluation(edges, points, one, std, alike=alike) for one in counts)


@dataclass(frozen=True)
class Groups:
    """Public groups of rows: names of a feature's categories, in the order of its codes, if there is one."""

    column: str = ""
    feature: int | None = None
    names: tuple[str, ...] = ()

    def joined(self, of_groups: Iterable[Any]) -> Any:
        """The evaluation of all rows, from those of the groups."""
        found = list(of_groups)
        return (
            found[0].of_groups(self.column, dict(zip(self.names, found, strict=True)))
            if self.names
            else found[0]
        )


def groups_by(bins: PublicBins, by: str | int | None) -> Groups:
    """The groups that a column has, those of missing and undeclared values last.

    `InvalidArgumentError` if it is no column of declared categories.
    """
    if by is None:
        return Groups()
    names, is_place = bins.names, isinstance(by, int) and not isinstance(by, bool)
    feature = by if is_place else names.index(by) if by in names else -1
    if not isinstance(feature, int) or not 0 <= feature < len(names):
        raise InvalidArgumentError(
            f"by={by!r} must be a column's name or position; columns are {list(names)}"
        )
    name = names[feature]
    if not bins.is_categorical[feature] or name in bins.undeclared:
        raise InvalidArgumentError(
            f"by={by!r} must be a column of declared values, as by categories={{{name!r}: [...]}}"
        )
    values = bins.columns.categories.get(feature) or bins.columns.codes[feature]
    texts = (*map(str, values), _MISSING)
    return Groups(name, feature, texts if len({*texts}) == len(texts) else (*map(repr, values), _MISSING))


def release_shares(scale: LabelScale) -> tuple[float, ...]:
    """Shares of μ² of the releases about held-out rows."""
    less, more = _SHARE_OF_SCORES, 1 - _SHARE_OF_SCORES
    are_numbers = scale.is_regression and not scale.entry.labels_are_times
    return (more, less) if are_numbers else (less, more)


def check_held_out(
    share: float, n_outputs: int, continues: bool, n_groups: int = 0, is_sample: bool = False
) -> None:
    """Refuse to hold a share of the rows out where it cannot be done; asked before anything is paid for."""
    n_cells = 8 * n_outputs**2 * max(n_groups, 1)
    classes = f"num_class={n_outputs}" + (f" and {n_groups} groups" if n_groups else "")
    for reason, is_so in {
        f"{classes}, whose table has more than {MAX_CELLS} cells": n_cells > MAX_CELLS,
        "subsample below 1": is_sample,
        "a model to continue from, which may have been trained on the same rows": continues,
    }.items():
        if share > 0 and is_so:
            raise UnsupportedParameterError(
                f"validation_fraction={share:g} is not supported with {reason}; leave it at 0"
            )


def made_up_scores(
    bins: PublicBins, histograms: FeatureHistograms | None, question: Round, random: SecureRandom
) -> NDArray[np.float64]:
    """Ascending scores of made-up rows; of columns without histograms, all values are as likely."""
    made_up: DenseCodes = surrogate_rows(histograms or FeatureHistograms.unknown(bins), bins, random)
    scores = SurrogateScores(made_up, np.tile(question.prior, (made_up.n_rows, 1)), 1)
    scores.follow(question.released)
    return np.sort(scores.score[:, 0])


def score_grid(made_up: NDArray[np.float64], low: float = -12.0, high: float = 12.0) -> NDArray[np.float64]:
    """Public edges between which scores are first counted: some equally far apart, some by made-up scores."""
    return np.unique(np.concatenate([np.linspace(low, high, 65), np.quantile(made_up, _QUANTILES)]))


def likely_scores(
    grid: NDArray[np.float64], counts: NDArray[np.float64], std: float, made_up: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Ascending scores that stand for all rows: half of them made up, half by the counts in a grid's cells.

    Means of three neighbouring counts count as far as they are above the noise of one.
    """
    mean = np.convolve(np.pad(counts, 1, mode="edge"), np.full(3, 1 / 3), mode="valid")
    seen = np.maximum(mean - std, 0.0)
    if seen.sum() <= 0:
        return made_up
    n = np.rint(len(made_up) / 2 * seen / seen.sum()).astype(np.int64)
    ends = np.concatenate([[grid[0] - 1.0], grid, [grid[-1] + 1.0]])
    cells = zip(ends[:-1], ends[1:], n.tolist(), strict=True)
    spread = [low + (high - low) * (np.arange(k) + 0.5) / k for low, high, k in cells if k]
    return np.sort(np.concatenate([*spread, made_up[::2]]))


def n_bins_for(n_held: float, scores: NDArray[np.float64], mu: float) -> int:
    """Number of bins of scores, by the number of held-out rows and the share of labels that scores expect."""
    positive = float(expit(scores).mean())
    n_rare = max(n_held, 0.0) * min(positive, 1 - positive)
    return int(np.clip(n_rare * mu / _ROWS_OVER_STD, _MIN_BINS, _MAX_BINS))


def score_bins(scores: NDArray[np.float64], n_bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges of equally filled bins of ascending scores, one of them 0, and a score for each bin."""
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
    return edges, np.array([[float(f"{one:.6g}") for one in some] for some in points])
