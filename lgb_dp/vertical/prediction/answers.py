"""Predictions of new rows: how much the other party's part of a score gives away, and how often.

The score of a row is F = F_A + F_B, and A asks.  B maps F_B to the *nearest* of 32 public points, without a
dither, so that the point follows from the row and the model: whatever A asks, and however often, it learns at
most five bits about F_B of a row.  A dithered point would not do, as its mean over questions is F_B.

By default A learns a label or a rounded prediction: it makes a table of the answer at every point, and the
entry at B's point is looked up obliviously (`gbdt_parties.two_party.answers`), so that B learns nothing of
A's part or of the answer.  An A that deviates can put anything into its table, so the five bits are the
limit; a label is one bit to an A that follows.  The point itself, and F_B, which has no such limit, are given
by consent alone.

A row of a model is asked about once, and rows are counted before anything is answered (`consent`).

None of this is part of ε, which is about the model: predictions of a row tell of that row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.labels import LabelScale

N_POINTS = 32

LEVELS = 1000
"""Steps of a rounded prediction between 0 and 1, or over the width of the label's bounds."""

_BEND = 2.5
"""Points are at k·sinh(u·bend), u at equal distances: their steps grow sixfold from 0 to the ends."""


_LARGEST_LOGARITHM = 700.0
"""Beyond it, exp overflows."""


class AnswerKind(Enum):
    """The answer to a question about rows."""

    LABEL = "label"
    """The more likely class."""

    ROUNDED = "rounded"
    """The probability, or the predicted number, rounded to a thousandth."""

    POINT = "point"
    """The nearest point of F_B."""

    SCORE = "score"
    """F_B."""


def prediction_points(scale: LabelScale, low: float, high: float) -> tuple[float, ...]:
    """32 points that F_B of new rows is mapped to, closer together around 0, where most rows are.

    They are ascending, in the loss's unit of scores. `low` and `high` are the sums of the smallest and of the
    largest leaf values of B's trees, which are public.
    """
    reach = scale.entry.reach
    most = min(reach, max(-low, high, reach * 2.0**-10))
    places = (2 * k / (N_POINTS - 1) - 1 for k in range(N_POINTS))
    return tuple(most * math.sinh(_BEND * place) / math.sinh(_BEND) for place in places)


def nearest_points(score: NDArray[np.float64], points: Sequence[float]) -> NDArray[np.uint8]:
    """Numbers of the ascending points, at most 256, nearest to F_B; the lower of two, always."""
    where = np.array(points)
    return np.asarray(np.searchsorted((where[1:] + where[:-1]) / 2, score, side="left"), dtype=np.uint8)


def answer_tables(
    score: NDArray[np.float64], points: Sequence[float], answer: AnswerKind, scale: LabelScale
) -> NDArray[np.uint64]:
    """The answer about each row at every point, as numbers that `read_answers` turns into predictions.

    Scores are F_A with the prior. Tables, shape (n_rows, n_points), have 0 or 1 for `LABEL`, and 0 to
    `LEVELS` for `ROUNDED`. `InvalidArgumentError` for labels of a regression, and answers that need no table.
    """
    _check_has_table(answer, scale)
    whole = score[:, None] + np.array(points)
    if answer is AnswerKind.LABEL:
        return np.asarray(whole > 0, dtype=np.uint64)
    share = predictions(whole, scale)
    if scale.is_regression:
        share = (share - scale.low) / (scale.high - scale.low)
    return np.asarray(np.rint(np.clip(share, 0.0, 1.0) * LEVELS), dtype=np.uint64)


def predictions(score: NDArray[np.float64], scale: LabelScale) -> NDArray[np.float64]:
    """Probabilities of the higher label, or predicted numbers, at whole scores, as LightGBM has them."""
    if not scale.is_regression:
        return np.asarray(expit(scale.sigmoid * score))
    if scale.has_log_link:
        return np.asarray(np.exp(np.minimum(scale.centre + score, _LARGEST_LOGARITHM)))
    return scale.centre + scale.scale * score


def read_answers(found: NDArray[np.uint64], answer: AnswerKind, scale: LabelScale) -> NDArray[np.float64]:
    """Predictions from looked-up entries of `answer_tables`.

    They are labels, probabilities of the higher label, or predicted numbers. `InvalidArgumentError` if an
    entry is none of a table: the other party did not look it up.
    """
    _check_has_table(answer, scale)
    most = 1 if answer is AnswerKind.LABEL else LEVELS
    if (found > most).any():
        raise InvalidArgumentError(f"looked-up answers must be 0 to {most}: the other party deviated")
    if answer is AnswerKind.ROUNDED and not scale.is_regression:
        return found / LEVELS
    return scale.low + (scale.high - scale.low) * (found / most)


def _check_has_table(answer: AnswerKind, scale: LabelScale) -> None:
    if answer not in (AnswerKind.LABEL, AnswerKind.ROUNDED):
        raise InvalidArgumentError(f"answer={answer.value!r} needs no table")
    if answer is AnswerKind.LABEL and scale.is_regression:
        raise InvalidArgumentError(
            f"answer='label' is for classes; objective={scale.objective!r} has rounded predictions"
        )
