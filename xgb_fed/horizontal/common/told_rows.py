"""The rows that a party has told sums of, in all of its runs, and the rule for rows that change between runs.

Every told sum is over a set of rows: those to train on, or a held-out set, of one state of the party's data.
Rows that are in the same told sets have the same factor in any combination of sums.  So if every part, which
is all rows of the same sets, has `min_rows` rows or more, then a combination is about that many, or none.
Sets of one state may have few rows in common: whatever cancels all larger parts must then cancel these, too.

Rows are compared by keyed codes of 64 bits, which are all that is kept of them; equal rows are numbered.  A
change of a row is a row less and a row more.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.quoting import shown
from gbdt_commons.store import Kind, Store, json_kind
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import Columns
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.common.row_groups import arrays_of, bytes_of
from xgb_fed.horizontal.common.rows import HorizontalRows

logger = logging.getLogger(__name__)

Codes = NDArray[np.uint64]

_GOLDEN, _FIRST, _SECOND = (
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_ROLES = "rows to train on", "held-out rows"
_LABEL = "\n"
"""Of the label among names of columns, none of which is a line's end."""

_PAIRS = 8
"""Of halves of the columns: some that have a column do not have another one, in which rows were changed."""


@dataclass(frozen=True, eq=False)
class _Coded:
    """Ascending codes of rows, and shorter ones by halves of the columns that tell most rows apart."""

    whole: Codes
    halves: list[NDArray[np.uint32]]


@dataclass(frozen=True, eq=False)
class _Told:
    """All rows in one role that sums were told of, by ascending codes.

    `parts` has the numbers of the rows' parts, and `sets` which different told sets each part is in, shape
    (n_parts, n_sets); the last told state has the `latest`.
    """

    codes: Codes
    parts: NDArray[np.int64]
    sets: NDArray[np.bool_]
    latest: NDArray[np.bool_]

    def apart(self, min_rows: int) -> NDArray[np.int64]:
        """Sizes of the rows' parts, if they are small and a combination is about small ones alone; else 0."""
        sizes, signs = np.bincount(self.parts), self.sets.T.astype(np.float64)
        large = signs[:, sizes >= min_rows]
        left = signs - large @ (np.linalg.pinv(large) @ signs)
        return np.where((sizes < min_rows) & (np.abs(left) > 1e-6).any(axis=0), sizes, 0)[self.parts]

    def least(self, inside: NDArray[np.bool_], n_new: int = 0) -> int:
        """The rows of the smallest part that a set with some of these rows, and new ones, would make."""
        sizes, taken = np.bincount(self.parts), np.bincount(self.parts, inside).astype(np.int64)
        is_split = (taken > 0) & (taken < sizes)
        pieces = [*taken[is_split].tolist(), *(sizes - taken)[is_split].tolist(), n_new]
        return min(filter(None, pieces), default=0)

    def with_set(self, codes: Codes) -> _Told:
        """Tell of one set more, of ascending codes."""
        inside, new = np.isin(self.codes, codes), _without(codes, self.codes)
        every = np.concatenate([self.codes, new])
        halves = np.concatenate([2 * self.parts + inside, np.full(len(new), 2 * len(self.sets) + 1)])
        latest, order = np.concatenate([self.latest | inside, np.ones(len(new), bool)]), np.argsort(every)
        found, parts = np.unique(halves, return_inverse=True)
        before = np.concatenate([self.sets, np.zeros((1, self.sets.shape[1]), bool)])[found // 2]
        sets = np.unique(np.column_stack([before, found % 2 == 1]), axis=1)
        return _Told(every[order], parts.ravel()[order], sets, latest[order])


_NOTHING = _Told(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty((0, 0), bool), np.empty(0, bool))

TOLD = Kind[_Told](
    "told rows",
    lambda told: bytes_of(codes=told.codes, parts=told.parts, sets=told.sets, latest=told.latest),
    lambda content: _Told(**arrays_of(content)),
)
HALVES: Kind[Any] = Kind(
    "halves of the last told rows",
    lambda halves: bytes_of(**{str(k): half for k, half in enumerate(halves)}),
    lambda content: list(arrays_of(content).values()),
)
COLUMNS = json_kind("columns of told rows")
"""Records of columns by their digest; rows are compared by columns that both states have."""


class ToldRows:
    """The rows that are here now, beside those that sums were told of.

    The `store` is the party's, for all callers: they may be one, under several certificates.  `stream` gives
    the draws for a purpose, which follow from the party's key.  Combinations of sums of the rows to train on,
    and of those held out, are about `min_rows` at least.
    """

    def __init__(
        self,
        store: Store,
        stream: Callable[..., SecretStream],
        rows: HorizontalRows,
        held_out: Sequence[HorizontalRows] = (),
        min_rows: int = 1,
    ) -> None:
        self._store, self._stream, self._min_rows = store, stream, min_rows
        self._rows, self._held_out, self._is_told = rows, held_out, False
        self._coded: dict[str, dict[str, list[_Coded]]] = {}
        self.names = rows.names or [str(k) for k in range(rows.X.shape[1])]

    def codes(self, names: Sequence[str]) -> Codes:
        """Codes of all rows to train on, in their order, by some of the columns and the label."""
        return _numbered(self._codes(self._rows, names)[0])

    def check(self, accepted: str | None) -> None:
        """Refuse rows if, with the sums that were told, theirs would give away those of few rows.

        A state of the name `accepted` is not refused.  Raises `InvalidDataError` with numbers, for the
        operator of the party alone: it must not be sent.
        """
        reasons = [reason for key in self._store.keys(COLUMNS) for reason in self._reasons(key)]
        if not reasons or self._min_rows == 1:
            return
        if accepted != self.state:
            raise InvalidDataError(
                f"party {self._rows.name!r} has told sums of other rows before, and {reasons[0]}; accepted "
                f"are changes of no row, or of min_rows_per_node={self._min_rows} or more, or these rows by "
                f"accept_rows={self.state!r}"
            )
        logger.warning("accept_rows=%r: %s", accepted, "; ".join(reasons))

    def tell(self) -> None:
        """Keep that the present rows have sums, before the first one leaves."""
        if self._is_told:
            return
        with_own = dict.fromkeys([*self._store.keys(COLUMNS), _key(self.names)])
        with self._store.transaction():
            for key in with_own:
                names = self._store.get(COLUMNS, key) or self.names
                if set(names) - set(self.names):
                    continue  # these were accepted; the columns, and rows to compare, may come back
                for role, sets in self._sets(names).items():
                    told = self._with(key, role, sets)
                    if TOLD.write(told) == TOLD.write(self._told(key, role)):
                        continue
                    self._store.put(TOLD, key + role, told)
                    self._store.put(HALVES, key + role, _halves_of(sets))
                self._store.put(COLUMNS, key, names)
        self._is_told = True
        self._coded.clear()

    @cached_property
    def state(self) -> str:
        """Name of the present rows, beside the told ones: eight hexadecimal digits."""
        parts = [part.whole.tobytes() for sets in self._sets(self.names).values() for part in sets]
        for key in self._store.keys(COLUMNS):  # accepted beside others, they would give away other rows
            parts += [self._told(key, role).parts.tobytes() for role in _ROLES]
        return hashlib.sha256(b"".join(parts) + _key(self.names).encode()).hexdigest()[:8]

    def _reasons(self, key: str) -> list[str]:
        """Differences between the present rows and those of a record."""
        names: list[str] = self._store.get(COLUMNS, key) or []
        missing = sorted(set(names) - set(self.names))
        if missing and _key(self.names) in self._store.keys(COLUMNS):
            return []  # rows of these columns were told since, which were accepted
        if missing:
            return [f"these have no column {shown(missing)}: they cannot be compared"]
        sets, reasons = self._sets(names), []
        told = {role: self._told(key, role) for role in _ROLES}
        for role, other in zip(_ROLES, reversed(_ROLES), strict=True):
            known, here = told[role], _union(sets[role])
            n_gone = int((known.latest & ~np.isin(known.codes, here)).sum())
            n_new = len(_without(here, known.codes[known.latest]))
            # A row that is in this role now, and not in the other one any more, was told of all the same.
            moved = _without(_without(here, known.codes), _union(sets[other]))
            pieces = [told[other].least(np.isin(told[other].codes, moved))]
            for own in sets[role]:
                inside = np.isin(known.codes, own.whole)
                n_others = len(own.whole) - int(inside.sum()) if len(known.codes) else 0
                pieces.append(known.least(inside, n_others))
            every, alone = self._with(key, role, sets[role]), known.codes[known.apart(self._min_rows) > 0]
            pieces += np.unique(every.apart(self._min_rows)[~np.isin(every.codes, alone)]).tolist()
            changed = f"of the {role} {n_gone} are gone or changed, and {n_new} are new"
            least = min(filter(None, pieces), default=0)
            if 0 < least < self._min_rows:
                reasons.append(f"{changed}, so that differences of sums would be about {least} of them")
            elif n_new and 2 * n_gone > known.latest.sum():
                reasons.append(f"{changed}: where most rows differ, few that do so otherwise are not seen")
            elif n_new and n_gone:
                fewer = self._least_of_halves(key + role, sets[role])
                if 0 < fewer < self._min_rows:
                    reasons.append(f"{changed}, but by half of the columns only {fewer}")
        return reasons

    def _with(self, key: str, role: str, sets: Sequence[_Coded]) -> _Told:
        """All that is told of, the present sets included."""
        known = self._told(key, role)
        told = _Told(known.codes, known.parts, known.sets, np.zeros(len(known.codes), bool))
        for own in sets:
            told = told.with_set(own.whole)
        return told

    def _least_of_halves(self, key: str, sets: Sequence[_Coded]) -> int:
        """The least number of rows that are new, or gone, by half of the columns; 0 without any.

        Sums of a column show a row that came, or was changed in it, among any number of rows that were
        changed in others.
        """
        counts = []
        for before, here in zip(self._store.get(HALVES, key) or [], _halves_of(sets), strict=False):
            if len(before) and len(here):
                counts += [len(_without(before, here)), len(_without(here, before))]
        return min(filter(None, counts), default=0)

    def _told(self, key: str, role: str) -> _Told:
        return self._store.get(TOLD, key + role) or _NOTHING

    def _sets(self, names: Sequence[str]) -> dict[str, list[_Coded]]:
        """Codes of the present sets of rows, without rows of weight 0, which no sum is over."""
        key = _key(names)
        if key not in self._coded:
            sets = [[self._coded_set(one, names) for one in rows] for rows in ([self._rows], self._held_out)]
            self._coded[key] = dict(zip(_ROLES, sets, strict=True))
        return self._coded[key]

    def _coded_set(self, rows: HorizontalRows, names: Sequence[str]) -> _Coded:
        halves, counts = [], rows.weights > 0
        whole, *parts = self._codes(rows, names, n_pairs=_PAIRS)
        for codes in parts:
            is_told_apart = 2 * len(_distinct(codes)) > len(codes)
            own = _numbered(codes)[counts] >> np.uint64(32) if is_told_apart else codes[:0]
            halves.append(_distinct(own.astype(np.uint32)))
        return _Coded(np.sort(_numbered(whole)[counts]), halves)

    def _codes(self, rows: HorizontalRows, names: Sequence[str], n_pairs: int = 0) -> list[Codes]:
        """Codes of rows by the label and all columns, then by each half of these, in their order.

        In which half of a pair a column is follows from its name and the party's key, so that a new one may
        be in either.
        """
        columns = Columns(rows.X.tocsc() if scipy.sparse.issparse(rows.X) else rows.X, self.names)
        codes = [self._mixed("weight", _numbers(rows.weights)) for _ in range(1 + 2 * n_pairs)]
        for name in [_LABEL, *names]:
            values = rows.y if name == _LABEL else columns.column(self.names.index(name))
            mixed_values = self._mixed(name, _numbers(values))
            sides = int(self._stream("half of the columns", name.encode()).words(1, 1)[0, 0])
            for k in (0, *(1 + 2 * pair + (sides >> pair & 1) for pair in range(n_pairs))):
                codes[k] += mixed_values
        return codes

    def _mixed(self, what: str, values: Codes) -> Codes:
        first, second = self._stream("code of a row", what.encode()).words(1, 2)[0]
        return mixed(mixed(values ^ first) ^ second)


def _numbered(codes: Codes) -> Codes:
    """Codes that are different for equal rows: by their number among these."""
    order = np.argsort(codes, kind="stable")
    _, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    nth = np.empty(len(codes), dtype=np.uint64)
    nth[order] = np.arange(len(codes)) - np.repeat(starts, counts)
    return mixed(codes + nth * _GOLDEN)


def mixed(words: Codes) -> Codes:
    """The finalizer of SplitMix64, a bijection."""
    words = words + _GOLDEN
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return np.asarray(words ^ (words >> np.uint64(31)))


def _numbers(values: NDArray[np.generic]) -> Codes:
    """Equal 64-bit numbers for equal values, −0 and missing ones included; of two bounds, one number."""
    if values.ndim == 2:
        lower, upper = (_numbers(side) for side in values.T)
        return mixed(lower) + upper
    if values.dtype.kind in "biuf":
        own = values.astype(np.float64) + 0
        return np.where(np.isnan(own), np.nan, own).view(np.uint64)
    digests = [hashlib.blake2b(repr(value).encode(), digest_size=8).digest() for value in values.tolist()]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Different values, ascending: of random ones, `np.unique` takes ten times as long."""
    ascending = np.sort(values)
    kept: NDArray[Any] = ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]
    return kept


def _without(values: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    """Different values that are not among others."""
    return np.setdiff1d(values, others, assume_unique=True)


def _union(sets: Sequence[_Coded]) -> Codes:
    return _distinct(np.concatenate([np.empty(0, np.uint64), *(one.whole for one in sets)]))


def _halves_of(sets: Sequence[_Coded]) -> list[NDArray[np.uint32]]:
    halves = zip(*(one.halves for one in sets), strict=True)
    return [_distinct(np.concatenate(of_half)) for of_half in halves]


def _key(names: Sequence[str]) -> str:
    return hashlib.sha256(repr(sorted(names)).encode()).hexdigest()
