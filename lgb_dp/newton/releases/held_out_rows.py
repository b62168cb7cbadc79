"""Rows that train nothing, and their numbers in public cells of score and label.

A row is held out by a coin of its own, and then adds its weight to one cell of each table and to nothing else
that the run releases, whatever public groups divide the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from gbdt_kernels.trees import Codes, DenseCodes
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.times import N_TIMES, time_edges

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeldOutCells:
    """Cells that held-out rows are counted in: numbers of some kind between public edges.

    The kinds are those of `_KINDS`; raw scores are first moved by `shift`.  There are as many for
    each of `n_groups`.
    """

    kind: str
    edges: NDArray[np.float64]
    shift: float = 0.0
    n_groups: int = 1

    def per_group(self, scale: LabelScale) -> int:
        """Number of cells of a group."""
        return _KINDS[self.kind][0](scale.n_outputs) * (len(self.edges) + 1)


@dataclass(frozen=True)
class HoldOut:
    """The rule by which rows, or persons, are held out with probability `share`, in the groups of `by`."""

    share: float
    by: int | None = None

    def chosen(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which rows are held out, by a secret random word of each."""
        return np.asarray(words < np.uint64(int(self.share * 2.0**64)))

    def divided(
        self, is_held: NDArray[np.bool_], codes: Codes, label: NDArray[np.float64], weight: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], HeldOutRows]:
        """The weights that all rows train with, 0 if they are held out, and the rows that are."""
        place = np.flatnonzero(is_held)
        group = np.zeros(len(place), np.int64) if self.by is None else _codes_of(codes, place, self.by)
        training = np.where(is_held, 0, weight).astype(np.int32)
        return training, HeldOutRows(place, label[place], weight[place].astype(np.int64), group)


def _codes_of(codes: Codes, rows: Places, feature: int) -> Places:
    """Codes of one feature of some rows."""
    if isinstance(codes, DenseCodes):
        return np.asarray(codes.codes[rows, feature], dtype=np.int64)
    some = codes.take(rows)
    found, is_own = np.full(len(rows), codes.zero_codes[feature], np.int64), some.indices == feature
    found[np.repeat(np.arange(len(rows)), np.diff(some.indptr))[is_own]] = some.codes[is_own]
    return found


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Places, labels, integer weights and groups of the rows that are held out."""

    place: Places
    label: NDArray[np.float64]
    weight: NDArray[np.int64]
    group: Places

    def counts(self, cells: HeldOutCells, scale: LabelScale, score: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sums of weights by cell, of rows with these scores of all rows; a row is in one cell."""
        raw = scale.centre + scale.scale * (score[self.place] + cells.shift)
        place, n = _KINDS[cells.kind][1](cells.edges, scale, raw, self.label), cells.per_group(scale)
        table = np.zeros(cells.n_groups * n, dtype=np.int64)
        np.add.at(table, place + n * self.group if cells.n_groups > 1 else place, self.weight)
        return table


def _between(edges: NDArray[np.float64], values: NDArray[np.float64]) -> Places:
    return np.asarray(np.searchsorted(edges, values), dtype=np.int64)


def _by_score(edges: Any, scale: LabelScale, raw: Any, label: Any) -> Places:
    return _between(edges, raw[:, 0])


def _by_score_and_label(edges: Any, scale: LabelScale, raw: Any, label: Any) -> Places:
    return np.asarray(2 * _between(edges, raw[:, 0]) + (label == scale.high))


def _by_score_and_time(edges: Any, scale: LabelScale, raw: Any, label: Any) -> Places:
    """By score and time: events, halfway of two logarithms, then others, who leave after events then."""
    lower, ends = np.maximum(label["lower"], scale.low), time_edges(scale.low, scale.high)
    is_event = np.isfinite(label["upper"])
    event = np.sqrt(lower) * np.sqrt(np.where(is_event, label["upper"], lower))
    place = np.minimum(np.searchsorted(ends, event), N_TIMES - 1)
    place = np.where(is_event, place, N_TIMES + np.searchsorted(ends, lower, side="right"))
    return np.asarray((2 * N_TIMES + 1) * _between(edges, raw[:, 0]) + place)


def _by_residual(edges: Any, scale: LabelScale, raw: Any, label: Any) -> Places:
    predicted = np.exp(raw[:, 0]) if scale.has_log_link else raw[:, 0]
    return _between(edges, label - predicted)


def _by_label(edges: Any, scale: LabelScale, raw: Any, label: Any) -> Places:
    return _between(edges, label)


def _by_loss(edges: Any, scale: LabelScale, raw: Any, label: Any) -> Places:
    own = np.take_along_axis(_probabilities(scale, raw), label.astype(np.int64)[:, None], axis=1)[:, 0]
    return _between(edges, -np.log(np.maximum(own, 1e-300)))


def _by_classes(edges: Any, scale: LabelScale, raw: Any, label: Any) -> Places:
    probability = _probabilities(scale, raw)
    pair = label.astype(np.int64) * scale.n_outputs + probability.argmax(axis=1)
    return np.asarray(pair * (len(edges) + 1) + _between(edges, probability.max(axis=1)))


def _probabilities(scale: LabelScale, raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of several classes, as LightGBM's objectives have them."""
    return np.asarray(expit(raw) if scale.objective == "multiclassova" else softmax(raw, axis=1))


_KINDS: Mapping[str, tuple[Callable[[int], int], Callable[..., Places]]] = {
    "scores": (lambda _: 1, _by_score),
    "scores, labels": (lambda _: 2, _by_score_and_label),
    "scores, times": (lambda _: 2 * N_TIMES + 1, _by_score_and_time),
    "residuals": (lambda _: 1, _by_residual),
    "labels": (lambda _: 1, _by_label),
    "losses": (lambda _: 1, _by_loss),
    "labels, classes, confidence": (lambda n_classes: n_classes**2, _by_classes),
}
"""By the number of classes, how many cells each bin has; and the cell of each row."""
