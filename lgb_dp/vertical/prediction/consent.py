"""What a party answers about its part of rows' scores, and how often: counted before anything is answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gbdt_commons.store import Kind, MemoryStore, Store
from gbdt_parties.quota import TAKEN, HourlyQuota
from lgb_dp.checks import checked_choice, checked_integer
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical.prediction.answers import Answer
from lgb_dp.vertical.prediction.rows import ROW_BYTES, as_kept

MODELS_PER_ROW = 10
"""Fifty bits about a row."""


@dataclass(frozen=True)
class Consent:
    """Limits of what a party with columns alone answers about its part of rows' scores.

    The answers are outside of ε, which is about the model: they tell of the rows that are asked about.  An
    asking party that follows the protocol learns a label or a rounded prediction; one that deviates learns
    the nearest of 32 points, which is the same always, so at most five bits about a row of a model.

    Parameters
    ----------
    answers : collection of {"label", "rounded", "point", "score"}
        Accepted kinds of questions: by default labels and rounded predictions.  "point" tells the nearest
        point openly, and "score" this party's whole part of the score, which has no limit of bits.
    questions_per_row : int
        About one row of one model.
    models_per_row : int
        Models that a row is asked about with, at most: each has points of its own, and a model of a tiny ε
        tells no less about a row than another one.
    rows_per_model : int
        Answers of one model, at most.
    questions_per_hour : int
        About any rows and models; those that are broken off count, too.
    """

    answers: Collection[Answer | str] = (Answer.LABEL, Answer.ROUNDED)
    questions_per_row: int = 1
    models_per_row: int = MODELS_PER_ROW
    rows_per_model: int = 1_000_000
    questions_per_hour: int = 1_000

    def __post_init__(self) -> None:
        known = [one.value for one in Answer]
        given = [one.value if isinstance(one, Answer) else one for one in self.answers]
        chosen = frozenset(Answer(checked_choice("answers", one, known)) for one in given)
        object.__setattr__(self, "answers", chosen)
        for name in ("questions_per_row", "models_per_row", "rows_per_model", "questions_per_hour"):
            checked_integer(name, getattr(self, name), 1)

    def check(self, answer: Answer) -> None:
        """Refuse a kind of answer.

        Raises
        ------
        InvalidArgumentError
            If there is no consent to it.
        """
        if answer not in self.answers:
            given = ", ".join(sorted(repr(Answer(one).value) for one in self.answers))
            raise InvalidArgumentError(
                f"answer={answer.value!r} was not consented to; this party gives {given}"
            )


def _read_rows(content: bytes) -> tuple[Answer, list[bytes]]:
    answer, names = list(Answer)[content[0]], content[1:]
    if len(names) % ROW_BYTES:
        raise ValueError("a row's digest is cut off")
    return answer, [names[k : k + ROW_BYTES] for k in range(0, len(names), ROW_BYTES)]


def _write_rows(value: tuple[Answer, Sequence[bytes]]) -> bytes:
    return bytes([list(Answer).index(value[0])]) + b"".join(value[1])


ANSWERED: Kind[tuple[Answer, list[bytes]]] = Kind("answered rows", _write_rows, _read_rows)
"""Records, under a model's digest, of the kind of every question and of its rows' names (`as_kept`)."""

_OF_AN_HOUR = "questions about rows"

_OPEN = frozenset({Answer.POINT, Answer.SCORE})
"""Answers without a part of the asking party's: the same question has the same answer."""


class AnsweredRows:
    """Counts the rows of each model that were answered, and refuses more than was consented to.

    A question is counted before it is answered, and stays so if the answer is lost: the party that asked may
    have it.  Points and scores of a row can be asked for again, and are not counted again.

    Parameters
    ----------
    consent : Consent
    store : Store, optional
        Keeps the counts; in memory only by default.
    """

    def __init__(self, consent: Consent, store: Store | None = None) -> None:
        self.consent, self.store = consent, MemoryStore() if store is None else store
        self._quota: HourlyQuota | None = None
        self._counts: dict[str, Counter[bytes]] = {}
        self._kinds: dict[str, set[tuple[Answer, bytes]]] = {}
        self._n_read: Counter[str] = Counter()

    def begin(self) -> None:
        """Count a question of this hour.

        Raises
        ------
        InvalidArgumentError
            If there were too many.
        """
        limit = self.consent.questions_per_hour
        with self.store.transaction():
            if self._quota is None:
                self._quota = HourlyQuota(self.store, _OF_AN_HOUR, limit)
            if not self._quota.take():
                raise InvalidArgumentError(f"more than {limit} questions about rows in an hour")

    def reset_hour(self) -> None:
        """Forget the questions of the last hour, and no answer: an operator does after a wrong clock."""
        with self.store.transaction():
            self.store.delete(TAKEN, _OF_AN_HOUR)
            self._quota = None

    def check(self, model: str, answer: Answer, rows: Sequence[bytes]) -> Counter[bytes]:
        """Refuse a question, as `take` would; gives the rows that it would count."""
        consent = self.consent
        consent.check(answer)
        with self.store.transaction():
            self._read(model)
            counts, kinds, rows = self._counts[model], self._kinds[model], as_kept(self.store, rows)
            asked = Counter(row for row in rows if answer not in _OPEN or (answer, row) not in kinds)
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
        spent = sum(others[row] >= limit and not own[row] for row in asked)
        if spent:
            raise InvalidArgumentError(
                f"{spent} of {len(asked)} rows were asked about with {limit} other models: this party "
                f"answers about a row with models_per_row={limit}"
            )

    def take(self, model: str, answer: Answer, rows: Sequence[bytes]) -> None:
        """Count a question about some rows, all or none.

        Parameters
        ----------
        model : str
            Digest of the model as this party holds it.
        answer : Answer
        rows : sequence of bytes
            Names of the rows (`rows`).

        Raises
        ------
        InvalidArgumentError
            Where there is no consent to the kind of answer, to another one about a row, or to so many.
        StoreError
            If a record is damaged.
        """
        with self.store.transaction():
            asked = self.check(model, answer, rows)
            if asked:
                # Read back by the next call: if the transaction fails, nothing was counted.
                self.store.append(ANSWERED, model, (answer, list(asked.elements())))

    def count(self, model: str) -> int:
        """Answers of a model so far."""
        with self.store.transaction():
            self._read(model)
            return self._counts[model].total()

    def _read(self, model: str) -> None:
        """Read the entries that are new, of whatever object has made them."""
        counts, kinds = self._counts.setdefault(model, Counter()), self._kinds.setdefault(model, set())
        for place in range(self._n_read[model], self.store.size(ANSWERED, model)):
            entry = self.store.get(ANSWERED, model, place)
            assert entry is not None
            answer, rows = entry
            counts.update(rows)
            kinds.update((answer, row) for row in rows if answer in _OPEN)
            self._n_read[model] = place + 1
