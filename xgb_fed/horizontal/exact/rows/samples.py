"""The rows that trees are grown on: of two roots, they are the same or differ in many.

The sum over a sample, taken from the sum over all rows or over another sample, is the sum over the rows in
which the two differ.  So these must be none, or as many as a node must have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.store import json_kind
from gbdt_parties.errors import InvalidDataError
from xgb_fed.horizontal.common.party_state import SIZE, PartyState, latest

SAMPLES = json_kind("samples of rows")
MAX_SAMPLES = 10_000
"""Default maximum number of samples that a party draws, in all of its training runs."""

_TAIL = 32.0
"""Two samples differ in fewer rows than they should with probability below exp(-32), which is 1.3e-14."""

_MARK_BITS, _MARK_VALUES = 28, 4
"""Of the numbers that name a party's rows: sums over 1000 parties stay below those of counts."""


def least_difference(min_rows: int) -> int:
    """How many rows two sets must differ in, in expectation, to differ in enough of them.

    Rows are drawn independently, so that the number X of those in which two sets differ is a sum of
    independent indicators.  With a mean μ of at least m = `min_rows`, Chernoff's bound is
    P(X < m) ≤ exp(−(μ − m − m·ln(μ/m))), and falls with μ.  The result is the least integer μ for which that
    is below exp(−32): 60 for m = 10, 203 for m = 100; and 0 for m = 1, as no number is between 0 and 1.
    """
    if min_rows <= 1:
        return 0
    # From above, Newton's method falls to the root of a convex function; (μ − m)² / 2μ bounds the exponent.
    mean = min_rows + _TAIL + math.sqrt(_TAIL**2 + 2 * _TAIL * min_rows)
    for _ in range(20):
        excess = mean - min_rows - min_rows * math.log(mean / min_rows) - _TAIL
        mean -= excess / (1 - min_rows / mean)
    return math.ceil(mean)


def check_subsample(n_rows: int, subsample: float, min_rows: int) -> None:
    """Refuse a `subsample` whose samples of a party's rows could differ in few rows, or from all of them.

    For any other set that was chosen or drawn independently (all rows, another sample, no rows): each of the
    n rows is in the sample but not in the other set with probability s, or the other way round with
    probability 1 − s, independently. So they differ in n·min(s, 1 − s) rows at least, in expectation, and in
    fewer than `min_rows` with the probability that `least_difference` bounds. That holds for the rows of one
    party, so that it is safe even if all others subtract theirs; and so it holds for the rows of all.

    `n_rows` are this party's of weights above 0, and not in the InvalidDataError, which others read; it has
    the values that are accepted.
    """
    if subsample >= 1 or min_rows <= 1:
        return
    least = least_difference(min_rows)
    expected = n_rows * min(subsample, 1 - subsample)
    # 600·(1 − 0.9) is 60 but for rounding.
    if expected < least * (1 - 1e-9):
        raise InvalidDataError(
            f"subsample={subsample:g} takes or leaves out fewer than {least} of this party's rows in "
            f"expectation, so that differences of sums could cover fewer than min_rows_per_node={min_rows} "
            f"of them; accepted is 1, or {least}/n to 1 - {least}/n for n rows of weights above 0"
        )


def check_own_sample(n_drawn: int, n_rows: int, min_rows: int) -> None:
    """InvalidDataError, without numbers, for a sample of few of a party's weighted rows, or almost all."""
    left_out = n_rows - n_drawn
    if min_rows > 1 and (n_drawn < min_rows or 0 < left_out < min_rows):
        raise InvalidDataError(
            "a sample takes or leaves out fewer of this party's rows than "
            f"min_rows_per_node={min_rows}; accepted is subsample=1"
        )


@dataclass(frozen=True, eq=False)
class RowDraws:
    """One party's draws of rows: one sample for each round and class, whatever else a run is asked for.

    A sample depends on the party's key and rows (their digest), on whose rows are added up, and on
    `subsample`; not on other settings, nor on the coordinator. Samples of other values of `subsample`, and
    with other parties or other rows of theirs, are independent at all parties alike: if some parties drew
    anew and others did not, the difference of two sums would be over the rows of those that did. Marks alone
    do not name the parties, as the `members` do: one that lies can shift its own, so that their sum is that
    of other parties. All training runs together have `max_samples`.
    """

    kept: PartyState
    rows: str
    max_samples: int
    members: Sequence[str] = ()

    def mark(self) -> NDArray[np.int64]:
        """Numbers that name this party's rows, and tell nothing of them: the same in all runs."""
        words = self.kept.stream("mark of rows", self.rows.encode()).words(1, _MARK_VALUES)[0]
        return np.asarray(words >> np.uint64(64 - _MARK_BITS), dtype=np.int64)

    def seed(self, marks: NDArray[np.int64], subsample: float, n_rounds: int, n_classes: int) -> bytes:
        """The seed of all samples of a run, which are counted before.

        The sums of all parties' marks name the rows of all.  An InvalidDataError says that the party would
        draw more samples than `max_samples`.
        """
        members = json.dumps(sorted(self.members)).encode()
        agreed = (self.rows.encode(), marks.tobytes(), float(subsample).hex().encode(), members)
        name = self.kept.stream("name of samples", *agreed).words(1, 2).tobytes()
        count_samples(self.kept, name.hex(), n_rounds, n_classes, self.max_samples)
        return self.kept.stream("rows of trees", *agreed).words(1, SIZE // 8).tobytes()


def count_samples(state: PartyState, name: str, n_rounds: int, n_classes: int, max_samples: int) -> None:
    """Count samples of rows, one for each round and class, that were not counted before.

    Those of one name are the same in all runs; of `MAX_RUNS` names it is known what was counted.  An
    InvalidDataError says that there were more than `max_samples` in all runs together.
    """
    with state.locked():
        known = state.store.get(SAMPLES, "") or {"n": 0, "of": {}}
        before = known["of"].get(name, (0, 0))
        rounds, classes = max(before[0], n_rounds), max(before[1], n_classes)
        further = rounds * classes - before[0] * before[1]
        if known["n"] + further > max_samples:
            raise InvalidDataError(
                f"{further} further samples of rows; this party has drawn {known['n']}, and draws "
                f"max_samples={max_samples} in all training runs together"
            )
        counted = latest({**known["of"], name: (rounds, classes)})
        state.store.put(SAMPLES, "", {"n": known["n"] + further, "of": counted})
