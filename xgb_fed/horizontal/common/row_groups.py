"""Groups of similar rows of one party, which only ever send the sum of their gradients.

A party divides its rows into groups once and keeps them; rows that come later make groups of their own.  For
any hash tables that it is shown, in however many rounds, sessions and for however many alleged parties, every
sum that it sends is then a sum of whole groups: no difference of two sums is about fewer rows than a group
has.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.store import Kind
from xgb_fed.ciphers.randomness import SecretStream


@dataclass(frozen=True)
class RowGroups:
    """A partition of rows: `order` has row numbers by group, and `starts` where each group starts."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of each group."""
        return np.diff(self.starts, append=len(self.order))

    def sums(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        """Sum of each group's values, shape (n_groups, n_columns), of values of shape (n_rows, n_columns)."""
        return np.asarray(np.add.reduceat(values[self.order].astype(np.float64), self.starts, axis=0))

    def exact_sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """As `sums`, exactly rounded, so that the order of rows within a group makes no difference."""
        parts = np.split(values[self.order], self.starts[1:])
        return np.array([[math.fsum(column) for column in part.T] for part in parts])

    def members(self, n_draws: int, random: SecretStream) -> NDArray[np.int64]:
        """Draw a row of each group, again and again; shape (n_draws, n_groups)."""
        words = random.words(n_draws, len(self.starts))
        return np.asarray(self.order[self.starts + (words % self.sizes.astype(np.uint64)).astype(np.int64)])


def group_rows(
    hashes: NDArray[np.int32], counted: NDArray[np.bool_], min_rows: int, random: SecretStream
) -> RowGroups:
    """Divide rows into groups of `min_rows` to 2 · `min_rows` − 1 rows with similar hashes.

    All rows are halved at the median of the hash in which they differ most, then each half, and so on until
    groups are too small to be halved (LeFevre et al., 2006, do so for k-anonymity). Rows that are equal in
    that hash are divided at random. Hashes have shape (n_rows, n_hashes); rows that are not `counted` have no
    gradients and belong to no group. `min_rows` is at most the number of rows that count; with 1, each of
    them is a group of its own, in their order.
    """
    order = np.flatnonzero(counted)
    if min_rows == 1:
        return RowGroups(order, np.arange(len(order)))
    starts = np.zeros(1, dtype=np.int64)
    while True:
        sizes = np.diff(starts, append=len(order))
        halved = sizes >= 2 * min_rows
        if not halved.any():
            return RowGroups(order, starts)
        widest = _widest_hash(hashes, order, starts, sizes)
        group = np.repeat(np.arange(len(starts)), sizes)
        keys = (random.words(len(order), 1)[:, 0], hashes[order, widest[group]], group)
        order = order[np.lexsort(keys)]
        starts = np.sort(np.concatenate([starts, (starts + sizes // 2)[halved]]))


def hashing_bytes(n_rows: int, n_hashes: int) -> int:
    """How much memory hash tables and the grouping of rows take.

    The table is there four times: as it is, in the order of the answer, as the bytes of the answer, and
    parsed for the record.  Grouping takes at most ten numbers of eight bytes per row.
    """
    return n_rows * (4 * 4 * n_hashes + 10 * 8)


def _widest_hash(
    hashes: NDArray[np.int32], order: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each group the hash with the largest variance, one hash at a time: tables are large."""
    largest = np.full(len(starts), -1.0)
    widest = np.zeros(len(starts), dtype=np.int64)
    for place in range(hashes.shape[1]):
        values = hashes[order, place].astype(np.float64)
        sums = np.add.reduceat(values, starts)
        spread = np.add.reduceat(values**2, starts) - sums**2 / sizes
        wider = spread > largest
        largest[wider], widest[wider] = spread[wider], place
    return widest


def bytes_of(**arrays: NDArray[Any]) -> bytes:
    """Arrays by their names: a JSON head with types and shapes after its length, and then their bytes.

    Not as NumPy's own files, whose heads Python parses.  Python 3.11 keeps the parser's depth in one place
    for all threads, and ends in a SystemError where two parse at once and garbage is collected meanwhile.
    """
    head = json.dumps({name: [array.dtype.str, array.shape] for name, array in arrays.items()}).encode()
    return b"".join([len(head).to_bytes(4, "little"), head, *(array.tobytes() for array in arrays.values())])


def arrays_of(content: bytes) -> dict[str, NDArray[Any]]:
    """Arrays from `bytes_of`."""
    at = 4 + int.from_bytes(content[:4], "little")
    found = {}
    for name, (dtype, shape) in json.loads(content[4:at]).items():
        found[name] = np.frombuffer(content, dtype, math.prod(shape), at).reshape(shape).copy()
        at += found[name].nbytes
    return found


@dataclass(frozen=True)
class KeptGroups:
    """All groups that a party has told sums of, whatever rows it has now.

    `codes` are of rows, by the columns of these `names` (`told_rows`), group after group; `starts` are the
    places of the first ones.  The groups were made with `min_rows`.
    """

    codes: NDArray[np.uint64]
    starts: NDArray[np.int64]
    names: list[str]
    min_rows: int

    def whole(self, codes: NDArray[np.uint64]) -> RowGroups:
        """The groups with all their rows among those of these codes: no part of one is ever summed."""
        order = np.argsort(codes)
        places = order[np.searchsorted(codes[order], self.codes) % len(codes)]
        sizes, found = np.diff(self.starts, append=len(self.codes)), codes[places] == self.codes
        stays = np.logical_and.reduceat(found, self.starts)
        return RowGroups(places[np.repeat(stays, sizes)], np.cumsum(sizes[stays]) - sizes[stays])

    def and_of(self, codes: NDArray[np.uint64], groups: RowGroups) -> KeptGroups:
        """These groups, and further ones of rows that are in none of them."""
        starts = np.concatenate([self.starts, groups.starts + len(self.codes)])
        return replace(self, codes=np.concatenate([self.codes, codes[groups.order]]), starts=starts)


def _written(groups: KeptGroups) -> bytes:
    about = json.dumps([groups.names, groups.min_rows]).encode()
    return bytes_of(codes=groups.codes, starts=groups.starts, about=np.frombuffer(about, np.uint8))


def _read(content: bytes) -> KeptGroups:
    found = arrays_of(content)
    return KeptGroups(found["codes"], found["starts"], *json.loads(bytes(found["about"])))


GROUPS = Kind("groups", _written, _read)
"""The record of a party's groups, all of them as they were made."""
