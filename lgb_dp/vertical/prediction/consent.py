"""What a party answers about its part of rows' scores, and how often: counted before anything is answered."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from gbdt_commons.store import Kind, MemoryStore, Store
from lgb_dp.checks import checked_integer
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical.prediction.answers import Answer

ROW_BYTES = 16
"""Of a row's name in the records."""


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
