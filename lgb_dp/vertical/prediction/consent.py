"""A party's consent to answers about its part of scores, and their number: counted before any is given."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.key_stream import this_process
from gbdt_commons.store import Kind, MemoryStore, Store
from gbdt_parties.quota import TAKEN, HourlyQuota
from lgb_dp.checks import checked_choice, checked_integer
from lgb_dp.errors import ForkedProcessError, InvalidArgumentError
from lgb_dp.vertical.prediction.answers import AnswerKind
from lgb_dp.vertical.prediction.rows import ROW_BYTES, as_kept

MODELS_PER_ROW = 10
"""Fifty bits about a row."""


@dataclass(frozen=True)
class Consent:
    """Limits of what a party with columns alone answers about its part of rows' scores.

    The answers are outside of ε, which is about the model: they tell of the rows that are asked about.  An
    asking party that follows the protocol learns a label or a rounded prediction; one that deviates learns
    the nearest of 32 points.  That is fixed by the row and the model: a question tells at most five bits, and
    several tell no more unless the row has changed meanwhile.  Limits hold for all callers together, but for
    that of an hour; a refusal does not say how much of them others have used.

    Parameters
    ----------
    answers : collection of {"label", "rounded", "point", "score"}
        Accepted kinds of questions: by default labels and rounded predictions.  "point" tells the nearest
        point openly, and "score" this party's whole part of the score, which has no limit of bits.
    questions_per_row : int
        About one row of one model.  Each is answered by the row as it is then: a row that has changed under
        its id is the same row.  The same point or score, asked for again, is the one that was given, even if
        the row has changed, and is not counted.  Rows without ids are others in another table.
    models_per_row : int
        Models that a row is asked about with, at most: each has points of its own, and a model of a tiny ε
        tells no less about a row than another one.
    rows_per_model : int
        Answers of one model, at most.
    questions_per_hour : int
        Of each caller, about any rows and models; those that are broken off count, too.
    """

    answers: Collection[AnswerKind | str] = (AnswerKind.LABEL, AnswerKind.ROUNDED)
    questions_per_row: int = 1
    models_per_row: int = MODELS_PER_ROW
    rows_per_model: int = 1_000_000
    questions_per_hour: int = 1_000

    def __post_init__(self) -> None:
        known = [one.value for one in AnswerKind]
        given = [one.value if isinstance(one, AnswerKind) else one for one in self.answers]
        chosen = frozenset(AnswerKind(checked_choice("answers", one, known)) for one in given)
        object.__setattr__(self, "answers", chosen)
        for name in ("questions_per_row", "models_per_row", "rows_per_model", "questions_per_hour"):
            checked_integer(name, getattr(self, name), 1)

    def check(self, answer: AnswerKind) -> None:
        """Refuse a kind of answer.

        Raises
        ------
        InvalidArgumentError
            If there is no consent to it.
        """
        if answer not in self.answers:
            given = ", ".join(sorted(repr(AnswerKind(one).value) for one in self.answers))
            raise InvalidArgumentError(
                f"answer={answer.value!r} was not consented to; this party gives {given}"
            )


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question that was answered, with names of rows (`as_kept`).

    Values are those given openly, one for each row; none for an answer by table.
    """

    answer: AnswerKind
    rows: list[bytes]
    values: list[float]

    def to_bytes(self) -> bytes:
        """Everything, of lengths that follow from the whole one and the kind of answer."""
        numbers = struct.pack(f"<{len(self.values)}d", *self.values)
        return bytes([list(AnswerKind).index(self.answer)]) + b"".join(self.rows) + numbers

    @classmethod
    def from_bytes(cls, data: bytes) -> AnsweredQuestion:
        """Read what `to_bytes` wrote."""
        answer = list(AnswerKind)[data[0]]
        n, left = divmod(len(data) - 1, ROW_BYTES + 8 * (answer in OPEN))
        if left:
            raise ValueError("a row's name is cut off")
        end = 1 + n * ROW_BYTES
        rows = [data[k : k + ROW_BYTES] for k in range(1, end, ROW_BYTES)]
        return cls(answer, rows, list(struct.unpack(f"<{(len(data) - end) // 8}d", data[end:])))


ANSWERED = Kind("answered rows", AnsweredQuestion.to_bytes, AnsweredQuestion.from_bytes)
"""Records, under a model's digest, of all questions."""

_OF_AN_HOUR = "questions about rows"

OPEN = frozenset({AnswerKind.POINT, AnswerKind.SCORE})
"""Answers without a part of the asking party's: the same question has the same answer."""


class AnsweredRows:
    """Counts the rows of each model that were answered, and refuses more than was consented to.

    A question is counted before it is answered, and stays so if the answer is lost: the party that asked may
    have it.  Points and scores of a row can be asked for again: they are those given, and are not
    counted again.

    The store keeps the counts; by default they are in memory only.
    """

    def __init__(self, consent: Consent, store: Store | None = None) -> None:
        self.consent, self.store = consent, MemoryStore() if store is None else store
        self._process = this_process()
        self._quotas: dict[str, HourlyQuota] = {}
        self._counts: dict[str, Counter[bytes]] = {}
        self._given: dict[str, dict[tuple[AnswerKind, bytes], float]] = {}
        self._n_read: Counter[str] = Counter()

    def begin(self, caller: str) -> None:
        """Count a question of a caller in this hour; `InvalidArgumentError` if it has asked too many."""
        limit = self.consent.questions_per_hour
        with self.store.transaction():
            if caller not in self._quotas:
                self._quotas[caller] = HourlyQuota(self.store, f"{_OF_AN_HOUR} of {caller}", limit)
            if not self._quotas[caller].take():
                raise InvalidArgumentError(f"more than {limit} questions about rows in an hour")

    def reset_hour(self) -> None:
        """Forget the questions of the last hour, and no answer: an operator does after a wrong clock."""
        with self.store.transaction():
            for key in self.store.keys(TAKEN):
                self.store.delete(TAKEN, key)
            self._quotas.clear()

    def check(self, model: str, answer: AnswerKind, rows: Sequence[bytes]) -> Counter[bytes]:
        """Refuse a question, as `take` would; gives the rows that it would count."""
        if self._process != this_process():
            raise ForkedProcessError(
                "a party cannot answer in a forked process: its parent answers about the same rows, too"
            )
        consent = self.consent
        consent.check(answer)
        with self.store.transaction():
            self._read(model)
            counts, given, rows = self._counts[model], self._given[model], as_kept(self.store, b"row", rows)
            asked = Counter(row for row in rows if (answer, row) not in given)
            again = sum(counts[row] + n > consent.questions_per_row for row, n in asked.items())
            if again:
                raise InvalidArgumentError(
                    f"{again} of {len(set(rows))} rows were asked about before: this party answers "
                    f"{consent.questions_per_row} question(s) about a row of a model; a rounded prediction, "
                    "asked for first, gives the label, too"
                )
            self._check_models(model, asked)
            total = counts.total() + asked.total()
            if total > consent.rows_per_model:
                raise InvalidArgumentError(
                    f"{total} answers of one model: this party gives at most {consent.rows_per_model}"
                )
            return asked

    def _check_models(self, model: str, asked: Counter[bytes]) -> None:
        """Refuse rows that were asked about with as many other models as there may be."""
        limit, others = self.consent.models_per_row, Counter[bytes]()
        for other in set(self.store.keys(ANSWERED)) - {model}:
            self._read(other)
            others.update(asked.keys() & self._counts[other].keys())
        own = self._counts[model]
        if any(others[row] >= limit and not own[row] for row in asked):
            # Not how many: others may have asked.
            raise InvalidArgumentError(
                f"some of {len(asked)} rows were asked about with as many other models as this party answers "
                f"about a row with: models_per_row={limit}"
            )

    def take(self, model: str, answer: AnswerKind, rows: Sequence[bytes]) -> None:
        """Count a question about some rows, given by names, that is answered by table, all or none.

        The model is the digest of it as this party holds it. `InvalidArgumentError` where there is no consent
        to the kind of answer, to another one about a row, or to so many; `ForkedProcessError` in a forked
        process, whose counts are a copy; `StoreError` if a record is damaged.
        """
        with self.store.transaction():
            counted = list(self.check(model, answer, rows).elements())
            self._count(model, AnsweredQuestion(answer, counted, []))

    def give(
        self, model: str, answer: AnswerKind, rows: Sequence[bytes], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Count a question that is answered openly; gives the answers, and raises the errors of `take`.

        `values` are answers by the rows as they are. Those given before take their places where
        there were any: a question that is not counted tells nothing of a row that has changed since.
        """
        with self.store.transaction():
            asked, names = self.check(model, answer, rows), as_kept(self.store, b"row", rows)
            now = dict(zip(names, values.tolist(), strict=True))
            counted = list(asked.elements())
            self._count(model, AnsweredQuestion(answer, counted, [now[row] for row in counted]))
            given = self._given[model]
            return np.array([given.get((answer, row), now[row]) for row in names])

    def _count(self, model: str, answered: AnsweredQuestion) -> None:
        if answered.rows:
            # Read back by the next call: if the transaction fails, nothing was counted.
            self.store.append(ANSWERED, model, answered)

    def count(self, model: str) -> int:
        """Answers of a model so far."""
        with self.store.transaction():
            self._read(model)
            return self._counts[model].total()

    def _read(self, model: str) -> None:
        """Read the entries that are new, of whatever object has made them."""
        counts, given = self._counts.setdefault(model, Counter()), self._given.setdefault(model, {})
        for place in range(self._n_read[model], self.store.size(ANSWERED, model)):
            entry = self.store.get(ANSWERED, model, place)
            assert entry is not None
            counts.update(entry.rows)
            # None of an answer by table.
            given.update(
                ((entry.answer, row), value) for row, value in zip(entry.rows, entry.values, strict=False)
            )
            self._n_read[model] = place + 1
