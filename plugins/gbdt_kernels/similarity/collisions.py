"""Search for the rows of another table that agree with a row in the most hashes, ties drawn at random.

The search is exact, by the pigeonhole principle: cut the L hashes into t + 1 groups, and two rows that differ
in at most t hashes agree in a whole group.  So a row is compared with those that share a group with it; once
one is found that differs in at most t hashes, all that differ in as few have been seen.  Rows without such a
neighbour go on to more, shorter groups, and at last to a scan of everything.

Each table of a group holds a copy of the hashes in bucket order, hash by hash, so that comparing a row with
a bucket is a loop over contiguous bytes, which compilers turn into vector instructions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import uint8, uint32, uint64
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run

MAX_HASHES = 255
"""Agreements are counted in a byte."""

ROWS_AT_ONCE = 1024
"""Rows of a bucket whose counts are kept at a time."""


@kernel
def _bucket_numbers(hashes, first, last, n_bits):
    """A number below 2^n_bits from hashes `first` to `last` − 1 of every row (upper bits of FNV-1a)."""
    out = np.empty(len(hashes), dtype=np.uint32)
    for row in range(len(hashes)):
        mixed = uint64(14695981039346656037)
        for k in range(first, last):
            mixed = (mixed ^ uint64(hashes[row, k])) * uint64(1099511628211)
        mixed = (mixed ^ (mixed >> uint64(32))) * uint64(11400714819323198485)
        out[row] = uint32(mixed >> uint64(64 - n_bits))
    return out


@kernel
def _sort_by_bucket(numbers, n_buckets):
    """Where each bucket starts, and the rows in bucket order."""
    starts = np.zeros(n_buckets + 1, dtype=np.int64)
    for row in range(len(numbers)):
        starts[numbers[row] + 1] += 1
    for b in range(n_buckets):
        starts[b + 1] += starts[b]
    place = starts[:-1].copy()
    order = np.empty(len(numbers), dtype=np.int32)
    for row in range(len(numbers)):
        order[place[numbers[row]]] = row
        place[numbers[row]] += 1
    return starts, order


@kernel
def _add_matches(column, value, counts):
    """Add 1 to the counts (uint8) of a column's entries equal to `value`."""
    for j in range(len(counts)):
        counts[j] += uint8(column[j] == value)


@kernel
def _add(counts, total):
    """Add counts (uint8) to totals, in place."""
    for j in range(len(counts)):
        total[j] += counts[j]


@kernel
def _drop_where(counts, size, equal, keep):
    """Clear `keep` where a group's count is its size (`equal`), or where it is not."""
    for j in range(len(counts)):
        keep[j] &= uint8((counts[j] == size) != equal)


@kernel
def _clear(total, keep):
    """Set totals to 0 where `keep` is 0."""
    for j in range(len(total)):
        total[j] *= keep[j]


@kernel
def _largest(counts):
    """Largest of some counts (uint8), 0 of none."""
    largest = uint8(0)
    for j in range(len(counts)):
        largest = counts[j] if counts[j] > largest else largest
    return largest


@kernel
def _how_many(counts, value):
    """Number of counts equal to `value`."""
    found = 0
    for j in range(len(counts)):
        found += counts[j] == value
    return found


@kernel
def _place_of(counts, value, rank):
    """Where `value` stands for the time number `rank`."""
    for j in range(len(counts)):
        if counts[j] == value:
            if rank == 0:
                return j
            rank -= 1
    return -1


@kernel
def _next_word(words, row):
    """The row's next random word: its word advanced and mixed as in SplitMix64 (Steele et al., 2014)."""
    words[row] += uint64(0x9E3779B97F4A7C15)
    word = words[row]
    word = (word ^ (word >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> uint64(27))) * uint64(0x94D049BB133111EB)
    return word ^ (word >> uint64(31))


@kernel
def _below(word, bound):
    """An integer below `bound` < 2^31 from a word: ⌊word · bound / 2^64⌋, uniform up to bound / 2^64."""
    low = (word & uint64(0xFFFFFFFF)) * uint64(bound)
    high = (word >> uint64(32)) * uint64(bound)
    return np.int64((high + (low >> uint64(32))) >> uint64(32))


@kernel
def _count_bucket(row_hashes, columns, first, groups, own, total, counts, keep):
    """Agreements with the rows of a piece of a bucket; 0 for rows that an earlier group's table has shown.

    `own` is the table's group, −1 for the table of everything.
    """
    n = len(total)
    total[:] = 0
    keep[:] = 1
    for g in range(len(groups) - 1):
        counts[:] = 0
        for k in range(groups[g], groups[g + 1]):
            _add_matches(columns[k, first : first + n], row_hashes[k], counts)
        if g <= own:
            _drop_where(counts, uint8(groups[g + 1] - groups[g]), g < own, keep)
        _add(counts, total)
    _clear(total, keep)


@kernel
def _search(
    hashes, rows, start, stop, columns, order, starts, numbers, groups, own, words, best, n_ties, found
):
    """Compare each row with its bucket.

    The ties of a piece join those seen so far: a number drawn below their new sum replaces a choice if it is
    below the piece's own, and is then the rank of the new one (reservoir sampling, once for every choice).
    """
    total = np.empty(ROWS_AT_ONCE, dtype=np.uint8)
    counts = np.empty(ROWS_AT_ONCE, dtype=np.uint8)
    keep = np.empty(ROWS_AT_ONCE, dtype=np.uint8)
    for i in range(start, stop):
        row = rows[i]
        bucket = numbers[row] if own >= 0 else uint32(0)
        end = starts[bucket + 1]
        for first in range(starts[bucket], end, ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, end - first)
            piece = total[:n]
            _count_bucket(hashes[row], columns, first, groups, own, piece, counts[:n], keep[:n])
            largest = _largest(piece)
            if largest < best[row] or (own >= 0 and largest == 0):
                continue
            if largest > best[row]:
                best[row] = largest
                n_ties[row] = 0
            here = _how_many(piece, largest)
            n_ties[row] += here
            first_tie = order[first + _place_of(piece, largest, 0)]
            for k in range(len(found)):
                rank = _below(_next_word(words, row), n_ties[row])
                if rank == 0:
                    found[k, row] = first_tie
                elif rank < here:
                    found[k, row] = order[first + _place_of(piece, largest, rank)]


def _mismatches(n_hashes: int) -> list[int]:
    """Mismatches t to search for by groups of three or more hashes, ascending, before a scan of all."""
    return sorted({0, n_hashes // 8, n_hashes // 6, n_hashes // 4, n_hashes // 3} - {n_hashes})


def _narrow(*tables: NDArray[np.int32]) -> list[NDArray[Any]]:
    """Tables in the shortest integer that holds their hashes."""
    low, high = min(t.min() for t in tables), max(t.max() for t in tables)
    dtype = next(
        t for t in (np.int8, np.int16, np.int32) if np.iinfo(t).min <= low and high <= np.iinfo(t).max
    )
    return [np.ascontiguousarray(t, dtype=dtype) for t in tables]


def most_similar(
    queries: NDArray[np.int32],
    targets: NDArray[np.int32],
    words: NDArray[np.uint64],
    n_draws: int = 1,
    n_threads: int = 0,
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """For each query the target with the most equal hashes; of several, each with the same probability.

    Queries and targets are rows of hashes, and there is at least one target. `words`, one per query, are
    independent and uniform; choices of different queries are independent.

    Returns the targets' row numbers, shape (n_draws, n_queries), of independent draws from the same ties, and
    how many hashes are equal, shape (n_queries,). Memory beyond arguments and result: a copy of both tables,
    as bytes if they fit, and 20 bytes per query.
    """
    n_queries, n_hashes = queries.shape
    n_targets = len(targets)
    if not 1 <= n_hashes <= MAX_HASHES or targets.shape[1] != n_hashes:
        raise ValueError(
            f"tables of {n_hashes} and {targets.shape[1]} hashes; 1 to {MAX_HASHES} are accepted"
        )
    if n_targets == 0:
        raise ValueError("targets has no rows")
    best = np.zeros(n_queries, dtype=np.uint8)
    found = np.zeros((n_draws, n_queries), dtype=np.int32)
    if n_queries == 0:
        return found, best
    queries, targets = _narrow(queries, targets)
    n_ties = np.zeros(n_queries, dtype=np.int32)
    state = words.astype(np.uint64)
    n_bits = max(1, min(24, int(n_targets).bit_length() + 2))

    def search(rows: NDArray[np.int32], group: int, groups: NDArray[np.int64], table: Any) -> None:
        columns, order, starts, numbers = table

        def work(_part: int, start: int, stop: int) -> None:
            places = (columns, order, starts, numbers)
            _search(queries, rows, start, stop, *places, groups, group, state, best, n_ties, found)

        run(work, blocks(len(rows), n_threads, max(1, n_hashes * n_targets // 64)))

    pending = np.arange(n_queries, dtype=np.int32)
    for mismatches in _mismatches(n_hashes):
        if not len(pending):
            break
        groups = np.linspace(0, n_hashes, mismatches + 2).astype(np.int64)
        tables = []
        candidates = np.zeros(n_queries, dtype=np.int64)
        for first, last in pairwise(groups):
            starts, order = _sort_by_bucket(_bucket_numbers(targets, first, last, n_bits), 1 << n_bits)
            numbers = _bucket_numbers(queries, first, last, n_bits)
            candidates += np.diff(starts)[numbers]
            tables.append((order, starts, numbers))
        # Where half of all rows are candidates, a scan of everything is cheaper and decides for certain.
        rows = pending[candidates[pending] <= n_targets // 2]
        best[rows], n_ties[rows] = 0, 0
        for group, (order, starts, numbers) in enumerate(tables):
            columns = np.ascontiguousarray(targets[order].T)
            search(rows, group, groups, (columns, order, starts, numbers))
        decided = np.zeros(n_queries, dtype=bool)
        decided[rows] = best[rows] >= n_hashes - mismatches
        pending = pending[~decided[pending]]
    if len(pending):
        best[pending], n_ties[pending] = 0, 0
        everything = (
            np.ascontiguousarray(targets.T),
            np.arange(n_targets, dtype=np.int32),
            np.array([0, n_targets], dtype=np.int64),
            np.empty(0, dtype=np.uint32),
        )
        search(pending, -1, np.array([0, n_hashes], dtype=np.int64), everything)
    return found, best
