"""The first sum of an exact training run: numbers of rows, and sizes of labels.

Before it, each party checks its own rows: sums over them are over enough rows, and so are differences of
sums, even if all other parties subtract their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.targets import Targets
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import Columns
from xgb_fed.boosting.objectives import CLASS_OBJECTIVES
from xgb_fed.horizontal.common.told_rows import Codes, mixed
from xgb_fed.horizontal.exact.questions import Asking, ask_counts
from xgb_fed.horizontal.exact.rows.samples import check_subsample
from xgb_fed.horizontal.exact.task import ExactTask


@dataclass(frozen=True, eq=False)
class RowSet:
    """Rows of weights above 0, as numbers of 64 bits, ascending with weights.

    `rows` are equal for equal rows and labels, `weighted` for equal rows, labels and weights.  Others have
    equal numbers with a probability of 2^-64 per pair of rows that are not made up to have them.
    """

    rows: Codes
    weighted: Codes

    @classmethod
    def of(
        cls,
        columns: Columns,
        y: NDArray[np.float32],
        weight: NDArray[np.float32],
        upper: NDArray[np.float32] | None = None,
    ) -> RowSet:
        """A set of a party's rows, of weights above 0 or not."""
        codes = np.zeros(len(y), dtype=np.uint64)
        labels = [y] if upper is None else [y, upper]
        for values in (*labels, *(columns.column(f) for f in range(columns.n_features))):
            codes = _with(codes, values)
        counts = weight > 0
        return cls(codes[counts], np.sort(_with(codes, weight)[counts]))


def _with(codes: Codes, values: NDArray[np.float32]) -> Codes:
    """Codes of rows that have one value more."""
    # Adding 0 makes −0 the same as 0, and all missing values are one.
    own = np.where(np.isnan(values), np.float32(np.nan), np.asarray(values, dtype=np.float32) + 0)
    return mixed(codes ^ own.astype(np.float32).view(np.uint32))


def rows_of_its_own(sets: list[RowSet]) -> list[int]:
    """How many rows of each set are in no other set, but for sets that are the same with the same weights.

    A sum over a set is the sum of its rows' losses times their weights.  A combination of the sums of several
    sets in which a set has a factor other than 0 (sets that are the same count as one) is about all rows that
    are in this set alone, whatever their weights are.  So if every set has m such rows, every combination is
    about m rows or more, or about none.
    """
    groups: dict[bytes, RowSet] = {}
    for one in sets:
        groups.setdefault(one.weighted.tobytes(), one)
    distinct = [np.unique(one.rows) for one in groups.values()]
    codes, n_sets = np.unique(np.concatenate([*distinct, np.empty(0, np.uint64)]), return_counts=True)
    single = codes[n_sets == 1]
    return [int(np.isin(one.rows, single).sum()) for one in sets]


SCALE = 80
"""Binary digits after the point, or behind the first digit where no number reaches 1: every float32 above
2^-56 times the largest is exact."""

MAX_BITS = 126
"""Of sums of labels, weights and losses."""

_HEADROOM = 8
"""Powers of two that gradients without a bound may grow by while margins move away from the base score."""

_SPARE = dict.fromkeys(("reg:gamma", "reg:tweedie", "reg:squaredlogerror"), 16)
"""Powers of two that gradients may grow by beyond that: labels over predictions, or over their square."""

_BOUNDED = {"survival:aft": 4, "reg:pseudohubererror": 0, "reg:logistic": 0}
"""Powers of two of gradients whose size no label changes; XGBoost keeps those of survival:aft within 15."""

_EXPONENTS = range(-53, 65)
"""Powers of two of labels and weights; XGBoost raises hessians to 1e-16, just below the first."""

_LOSS_BITS = 8
"""A loss is below 2^8 times what a squared gradient can be."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows of one party as the objective has them; `y` and `upper` are bounds of times, if there are two."""

    columns: Columns
    y: NDArray[np.float32]
    weight: NDArray[np.float32]
    upper: NDArray[np.float32] | None = None

    @property
    def targets(self) -> Targets:
        """Labels and weights as XGBoost takes them."""
        return Targets(self.y, self.weight, None if self.upper is None else self.y, self.upper)

    @property
    def n_counted(self) -> int:
        """Rows of weights above 0."""
        return int((self.weight > 0).sum())


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes from the first sum: rows to train on, of all parties, of weights above 0, and what follows.

    `row_bits` are those of the largest number of rows, of held-out sets too. Gradients of every row are at
    most 2 to the power of `exponent`; labels and losses do not need `spare` powers of them. `marks`, the sum
    of all parties' marks, names the rows of all.
    """

    n_rows: int
    row_bits: int
    exponent: int
    marks: NDArray[np.int64]
    spare: int = 0

    @property
    def gradients(self) -> int:
        """Binary digits after the point of gradients."""
        return min(SCALE, MAX_BITS - self.row_bits - max(self.exponent, 0)) - min(self.exponent, 0)

    @property
    def gradient_bits(self) -> int:
        """Bits of their sums."""
        return max(64, self.gradients + self.exponent + self.row_bits)

    @property
    def losses(self) -> int:
        """Binary digits after the point of losses and labels."""
        exponent = self.exponent - self.spare
        largest = 2 * max(exponent, 0) + _LOSS_BITS
        return min(SCALE, MAX_BITS - self.row_bits - largest) - min(exponent, 0)


def ask_sizes(
    task: ExactTask,
    rows: LabelledRows,
    held_out: Sequence[LabelledRows | None],
    mark: NDArray[np.int64],
    max_rows: int,
) -> Asking[Sizes]:
    """Check this party's rows, which `mark` names, ask for all sizes, and check them.

    This party takes part with at most `max_rows` of all parties together. Raises InvalidDataError if a sum,
    or a combination of sums, would be over too few of this party's rows; or rows and numbers are too large.
    """
    check_own_rows(task, rows)
    _check_own_sets(task, [rows, *held_out])
    sizes = [rows.n_counted, *(0 if own is None else own.n_counted for own in held_out)]
    largest = exponent_of(task, [rows, *(own for own in held_out if own is not None)])
    lists = (sizes, [largest == one for one in _EXPONENTS], mark)
    parts = [np.asarray(part, dtype=np.int64) for part in lists]
    pooled = yield from ask_counts("rows, and powers of two of labels and weights", np.concatenate(parts))
    ends = np.cumsum([len(part) for part in parts])[:-1]
    n_rows, n_parties, marks = np.split(pooled, ends)
    if n_rows[0] > max_rows:
        raise InvalidDataError(
            f"{n_rows[0]} rows of all parties; this party takes part with at most {max_rows}"
        )
    check_numbers(task, n_rows.tolist())
    needed = _EXPONENTS[int(np.flatnonzero(n_parties)[-1])] + headroom(task)
    spare = _SPARE.get(task.settings.objective, 0)
    common = Sizes(int(n_rows[0]), int(n_rows.max()).bit_length(), needed, marks, spare)
    if common.losses < 20:
        raise InvalidDataError(
            f"labels and weights up to 2^{needed} are too large for exact sums of {n_rows[0]} rows"
        )
    return common


def exponent_of(task: ExactTask, sets: Sequence[LabelledRows]) -> int:
    """Exponent of the least power of two that this party's gradients do not start above."""
    settings = task.settings
    weight = max(float(own.weight.max()) for own in sets)
    labels = max(1.0, abs(float(settings.objective_parameters.get("huber_slope", 1.0))))
    if settings.objective not in CLASS_OBJECTIVES and settings.objective != "survival:aft":
        labels = max(labels, abs(settings.base_score or 0.0), *(float(np.abs(own.y).max()) for own in sets))
    largest = weight * labels * max(1.0, settings.scale_pos_weight)
    mantissa, exponent = math.frexp(largest)
    exponent -= mantissa == 0.5  # a power of two is not above itself
    return min(max(exponent, _EXPONENTS[0]), _EXPONENTS[-1])


def headroom(task: ExactTask) -> int:
    """Powers of two between the largest label and weight and what gradients may become."""
    settings = task.settings
    if settings.objective in CLASS_OBJECTIVES or settings.objective in _BOUNDED:
        return _BOUNDED.get(settings.objective, 0)
    if settings.objective != "count:poisson":
        return _HEADROOM + _SPARE.get(settings.objective, 0)
    # Hessians are e^max_delta_step times the mean.
    return _HEADROOM + math.ceil(settings.max_delta_step / math.log(2))


def check_own_rows(task: ExactTask, rows: LabelledRows) -> None:
    """Refuse a party with few rows: subtracting the others' sums would reveal its own."""
    least = task.min_rows_per_node
    if least > 1 and rows.n_counted < least:
        raise InvalidDataError(
            f"this party has fewer rows of weights above 0 than min_rows_per_node={least}: runs with and "
            f"without it would differ in these rows alone; accepted are {least} or more"
        )
    check_subsample(rows.n_counted, task.settings.subsample, least)


def _check_own_sets(task: ExactTask, sets: Sequence[LabelledRows | None]) -> None:
    """Refuse sets of this party whose sums can be combined to the losses of few of its rows."""
    least = task.min_rows_per_node
    present = {k: one for k, one in enumerate(sets) if one is not None and one.n_counted}
    if least <= 1 or len(present) == 1:
        return
    own = rows_of_its_own([RowSet.of(one.columns, one.y, one.weight, one.upper) for one in present.values()])
    for k, count in zip(present, own, strict=True):
        if count < least:
            name = f"held-out set {k - 1}" if k else "the set of rows to train on"
            raise InvalidDataError(
                f"{name} has fewer than min_rows_per_node={least} rows of this party that are in no other "
                "set: metrics could be combined to the losses of few rows; accepted are sets that are the "
                f"same with the same weights, and sets with {least} rows or more that no other set has"
            )


def check_numbers(task: ExactTask, n_rows: Sequence[int]) -> None:
    """Refuse to train, or to evaluate, on few rows."""
    least = task.min_rows_per_node
    if n_rows[0] * task.settings.subsample < least:
        raise InvalidDataError(
            f"{n_rows[0]} rows of weights above 0 at all parties together, times "
            f"subsample={task.settings.subsample:g}, are fewer than min_rows_per_node={least}"
        )
    for k, size in enumerate(n_rows[1:]):
        if size < least:
            raise InvalidDataError(
                f"held-out set {k} has {size} rows of weights above 0 at all parties together, which is "
                f"fewer than min_rows_per_node={least}"
            )
