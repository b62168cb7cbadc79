"""Predictions of new rows: how much the other party's part of a score gives away, and how often.

The score of a row is F = F_A + F_B, and A asks.  B maps F_B to the *nearest* of 32 public points, without a
dither, so that the point follows from the row and the model: whatever A asks, and however often, it learns at
most five bits about F_B of a row.  A dithered point would not do, as its mean over questions is F_B.

By default A learns a label or a rounded prediction: it makes a table of the answer at every point, and the
entry at B's point is looked up obliviously (`gbdt_parties.two_party.answers`), so that B learns nothing of
A's part or of the answer.  An A that deviates can put anything into its table, so the five bits are the
limit; a label is one bit to an A that follows.  The point itself, and F_B, which has no such limit, are given
by consent alone.

A row of a model is asked about once, and rows are counted before anything is answered (`AnsweredRows`).

None of this is part of ε, which is about the model: predictions of a row tell of that row.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from gbdt_commons.store import Kind, MemoryStore, Store
from lgb_dp.boosting.labels import LOG_LINKS, LabelScale
from lgb_dp.checks import checked_integer
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.newton.losses.loss import Loss
from lgb_dp.vertical.tables import reach_of

N_POINTS = 32

LEVELS = 1000
"""Steps of a rounded prediction between 0 and 1, or over the width of the label's bounds."""

_BEND = 2.5
"""Points are at k·sinh(u·bend), u at equal distances: their steps grow sixfold from 0 to the ends."""

ROW_BYTES = 16
"""Of a row's name in the records."""


class Answer(Enum):
    """What a question about rows is answered with."""

    LABEL = "label"
    """The more likely class."""

    ROUNDED = "rounded"
    """The probability, or the predicted number, rounded to a thousandth."""

    POINT = "point"
    """The nearest point of F_B."""

    SCORE = "score"
    """F_B."""


def prediction_points(loss: Loss, low: float, high: float) -> tuple[float, ...]:
    """Points that F_B of new rows is mapped to, closer together around 0, where most rows are.

    Parameters
    ----------
    loss : Loss
    low, high : float
        Sums of the smallest and of the largest leaf values of B's trees, which are public.

    Returns
    -------
    tuple of float, shape (32,)
        Ascending, in the loss's unit of scores.
    """
    reach = reach_of(loss)
    most = min(reach, max(-low, high, reach * 2.0**-10))
    places = (2 * k / (N_POINTS - 1) - 1 for k in range(N_POINTS))
    return tuple(most * math.sinh(_BEND * place) / math.sinh(_BEND) for place in places)


def nearest_points(score: NDArray[np.float64], points: Sequence[float]) -> NDArray[np.uint8]:
    """Numbers of the nearest points: the same for the same score, always.

    Parameters
    ----------
    score : ndarray of float64, shape (n_rows,)
        F_B.
    points : sequence of float
        Ascending, at most 256.

    Returns
    -------
    ndarray of uint8, shape (n_rows,)
        The lower one of two that are equally near.
    """
    where = np.array(points)
    return np.asarray(np.searchsorted((where[1:] + where[:-1]) / 2, score, side="left"), dtype=np.uint8)


def answer_tables(
    score: NDArray[np.float64], points: Sequence[float], answer: Answer, scale: LabelScale
) -> NDArray[np.uint64]:
    """The answer about each row at every point, as numbers that `read_answers` turns into predictions.

    Parameters
    ----------
    score : ndarray of float64, shape (n_rows,)
        F_A with the prior.
    points : sequence of float
    answer : Answer
        `LABEL` or `ROUNDED`.
    scale : LabelScale

    Returns
    -------
    ndarray of uint64, shape (n_rows, n_points)
        0 or 1, or 0 to `LEVELS`.

    Raises
    ------
    InvalidArgumentError
        For labels of a regression, and answers that need no table.
    """
    _check_has_table(answer, scale)
    whole = score[:, None] + np.array(points)
    if answer is Answer.LABEL:
        return np.asarray(whole > 0, dtype=np.uint64)
    if not scale.is_regression:
        share = expit(scale.sigmoid * whole)
    elif scale.objective in LOG_LINKS:
        share = (scale.high * np.exp(np.minimum(whole, 0.0)) - scale.low) / (scale.high - scale.low)
    else:
        share = (whole + 1) / 2
    return np.asarray(np.rint(np.clip(share, 0.0, 1.0) * LEVELS), dtype=np.uint64)


def read_answers(found: NDArray[np.uint64], answer: Answer, scale: LabelScale) -> NDArray[np.float64]:
    """Predictions from looked-up entries of `answer_tables`.

    Parameters
    ----------
    found : ndarray of uint64, shape (n_rows,)
    answer : Answer
    scale : LabelScale

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        Labels, probabilities of the higher label, or predicted numbers.

    Raises
    ------
    InvalidArgumentError
        If an entry is none of a table: the other party did not look it up.
    """
    _check_has_table(answer, scale)
    most = 1 if answer is Answer.LABEL else LEVELS
    if (found > most).any():
        raise InvalidArgumentError(f"looked-up answers must be 0 to {most}: the other party deviated")
    if answer is Answer.ROUNDED and not scale.is_regression:
        return found / LEVELS
    return scale.low + (scale.high - scale.low) * (found / most)


def _check_has_table(answer: Answer, scale: LabelScale) -> None:
    if answer not in (Answer.LABEL, Answer.ROUNDED):
        raise InvalidArgumentError(f"answer={answer.value!r} needs no table")
    if answer is Answer.LABEL and scale.is_regression:
        raise InvalidArgumentError(
            f"answer='label' is for classes; objective={scale.objective!r} has rounded predictions"
        )


@dataclass(frozen=True)
class Consent:
    """What a party answers about its part of rows' scores.

    Parameters
    ----------
    answers : frozenset of Answer
        By default labels and rounded predictions.  `SCORE` has no limit of bits.
    questions_per_row : int
        About one row of one model.
    rows_per_model : int
        Answers of one model, at most.
    """

    answers: frozenset[Answer] = frozenset({Answer.LABEL, Answer.ROUNDED})
    questions_per_row: int = 1
    rows_per_model: int = 1_000_000

    def __post_init__(self) -> None:
        checked_integer("questions_per_row", self.questions_per_row, 1)
        checked_integer("rows_per_model", self.rows_per_model, 1)


def _rows(content: bytes) -> bytes:
    if len(content) % ROW_BYTES:
        raise ValueError("a row's digest is cut off")
    return content


ANSWERED = Kind[bytes]("answered rows", bytes, _rows)
"""Records, under a model's digest, of digests of the rows of every question."""


class AnsweredRows:
    """Counts the rows of each model that were answered, and refuses more than was consented to.

    A question is counted before it is answered, and stays so if the answer is lost: the party that asked may
    have it.

    Parameters
    ----------
    consent : Consent
    store : Store, optional
        Keeps the counts; in memory only by default.
    """

    def __init__(self, consent: Consent, store: Store | None = None) -> None:
        self._consent, self._store, self._lock = consent, MemoryStore() if store is None else store, Lock()
        self._counts: dict[str, Counter[bytes]] = {}

    def take(self, model: str, answer: Answer, rows: Sequence[bytes]) -> None:
        """Count a question about some rows, all or none.

        Parameters
        ----------
        model : str
            Digest of the model as this party holds it.
        answer : Answer
        rows : sequence of bytes
            Names of the rows, as they were aligned by.

        Raises
        ------
        InvalidArgumentError
            Where there is no consent to the kind of answer, to another one about a row, or to so many.
        StoreError
            If a record is damaged.
        """
        consent = self._consent
        if answer not in consent.answers:
            given = ", ".join(sorted(repr(one.value) for one in consent.answers))
            raise InvalidArgumentError(
                f"answer={answer.value!r} was not consented to; this party gives {given}"
            )
        asked = Counter(hashlib.sha256(row).digest()[:ROW_BYTES] for row in rows)
        with self._lock:
            counts = self._counts_of(model)
            again = sum(counts[row] + n > consent.questions_per_row for row, n in asked.items())
            if again:
                raise InvalidArgumentError(
                    f"{again} of {len(asked)} rows were asked about before: this party answers "
                    f"{consent.questions_per_row} question(s) about a row of a model"
                )
            total = counts.total() + asked.total()
            if total > consent.rows_per_model:
                raise InvalidArgumentError(
                    f"{total} answers of one model: this party gives at most {consent.rows_per_model}"
                )
            self._store.append(ANSWERED, model, b"".join(asked.elements()))
            counts.update(asked)

    def count(self, model: str) -> int:
        """Answers of a model so far."""
        with self._lock:
            return self._counts_of(model).total()

    def _counts_of(self, model: str) -> Counter[bytes]:
        if model not in self._counts:
            counts: Counter[bytes] = Counter()
            for rows in self._store.entries(ANSWERED, model):
                counts.update(rows[k : k + ROW_BYTES] for k in range(0, len(rows), ROW_BYTES))
            self._counts[model] = counts
        return self._counts[model]
