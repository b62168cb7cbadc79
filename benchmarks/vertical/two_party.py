"""A round of two parties with columns apart, in one process: seconds and bytes per tree.

    python benchmarks/vertical/two_party.py [--rows 10000 100000] [--trees 2] [--json out/two_party.json]
    python benchmarks/vertical/two_party.py --quick

A round refreshes gradients once, by a lookup among 16 points for every row, and sums them over the 16 leaves
of some trees of each party.  Each party is a thread, and messages pass through queues, so that both parties'
processor time counts and no network does.  *Seconds per tree* are the round's time by the clock, with the
tables of a logistic loss; *processor seconds* are those of each party's thread, which a busy machine
lengthens less.  Noise is not drawn here.  Opened sums are compared with a central simulation, bit for bit.
A table is printed; the same numbers go to the JSON file.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from statistics import median
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.two_party.layout import RoundLayout, TreeLayout
from gbdt_parties.two_party.life import Failures
from gbdt_parties.two_party.names import Seat
from gbdt_parties.two_party.rounds import PointSide, TableSide
from gbdt_parties.two_party.session import Session
from gbdt_parties.two_party.sides import CHOICES, LAST, SUMS, TABLES

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import load_average, machine, print_table, say, write_json

SEATS = Seat(0, b"a" * 32), Seat(1, b"b" * 32)
N_POINTS, LEVELS = 16, 4
CLIP, CURVATURE = 1.0, 0.25
SECONDS, BYTES = 0.15, 165
"""Targets for a tree of 100,000 rows on two idle processors: seconds, and bytes per row."""

Words = NDArray[np.uint64]


def open_sessions() -> tuple[Session, Session, float, int]:
    """Two sessions, with the seconds and bytes of their set-up."""
    begun = time.perf_counter()
    one = Session(b"benchmark".ljust(32), *SEATS, os.urandom(32), Failures())
    other = Session(b"benchmark".ljust(32), *SEATS[::-1], os.urandom(32), Failures())
    points = one.take_greeting(other.greeting), other.take_greeting(one.greeting)
    trees = one.take_points(points[1]), other.take_points(points[0])
    one.take_trees(trees[1])
    other.take_trees(trees[0])
    said = [one.greeting, other.greeting, *points, *trees]
    return one, other, time.perf_counter() - begun, sum(map(len, said))


class LogisticTables:
    """Tables of gradients and hessians of a logistic loss at every point, packed in ring elements."""

    def __init__(self, labels: NDArray[np.float64], scores: NDArray[np.float64], layout: RoundLayout) -> None:
        self._labels, self._margins = labels, np.exp(-scores)
        self._factors = np.exp(-np.array(layout.positions))
        self._bits = np.uint64(layout.ring_bits // 2)
        self._steps = 2.0 ** int(np.log2((2 ** (layout.ring_bits // 2 - 1) - 1) / layout.n_rows))

    def __call__(self, first: int, last: int) -> Words:
        p = 1.0 / (1.0 + self._margins[first:last, None] * self._factors)
        g = np.rint((p - self._labels[first:last, None]) * self._steps).astype(np.int64)
        h = np.rint(p * (1.0 - p) * self._steps).astype(np.int64)
        return ((g.view(np.uint64) << self._bits) + h.view(np.uint64))[:, :, None]


class Link:
    """One side's messages on their way, counted."""

    def __init__(self) -> None:
        self._queue: Queue[bytes] = Queue()
        self.n_bytes = self.n_messages = 0

    def put(self, messages: Iterator[bytes] | list[bytes]) -> None:
        for message in messages:
            self.n_bytes += len(message)
            self.n_messages += 1
            self._queue.put(message)

    def take(self, side: TableSide | PointSide, count: int) -> None:
        for _ in range(count):
            side.take(self._queue.get())


def played(pair: tuple[Session, Session], layout: RoundLayout, number: int, rng: Any) -> dict[str, float]:
    """One round, its sums compared; seconds by the clock, and of each party's processor."""
    n, n_chunks = layout.n_rows, len(layout.chunks)
    labels = rng.integers(0, 2, n).astype(float)
    points = rng.integers(0, N_POINTS, n).astype(np.uint8)
    leaves = [rng.integers(0, 1 << LEVELS, n).astype(np.uint8) for _ in layout.trees]
    own = [[leaves[t] for t in layout.owned_by(place)] for place in (0, 1)]
    noise = [np.zeros(1 << LEVELS, dtype=np.uint64) for _ in layout.trees]
    tables = LogisticTables(labels, rng.normal(size=n), layout)
    there, back, spent, opened = Link(), Link(), {}, {}

    def a() -> None:
        side = TableSide(pair[0], layout, number, 0, tables, own[0], noise)
        there.put(side.send(CHOICES))
        back.take(side, 1 + n_chunks)
        there.put(side.send(TABLES))
        there.put([side.shares(TABLES)])
        back.take(side, (n_chunks if own[0] else 0) + 1)
        there.put([side.shares(LAST)])
        opened["A"] = side.opened

    def b() -> None:
        side = PointSide(pair[1], layout, number, 0, points, own[1], noise)
        back.put(side.send(CHOICES))
        there.take(side, 1 + (n_chunks if own[0] else 0))
        there.take(side, n_chunks + 1)
        back.put(side.send(SUMS))
        back.put([side.shares(SUMS)])
        there.take(side, 1)
        opened["B"] = side.opened

    def timed(name: str, work: Callable[[], None]) -> None:
        begun = time.thread_time()
        work()
        spent[name] = time.thread_time() - begun

    threads = [Thread(target=timed, args=(name, work)) for name, work in (("A", a), ("B", b))]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    entries = np.concatenate(
        [
            np.take_along_axis(tables(c.start, c.stop)[:, :, 0], points[c, None], axis=1)[:, 0]
            for c in layout.chunks
        ]
    )
    mask = np.uint64((1 << layout.ring_bits) - 1)
    for t, numbers in enumerate(leaves):
        sums = [entries[numbers == k].sum(dtype=np.uint64) & mask for k in range(1 << LEVELS)]
        if not all(opened[name][t].tolist() == sums for name in ("A", "B")):
            raise AssertionError("opened sums are not those of the central simulation")
    n_trees = len(layout.trees)
    return {
        "s per tree": seconds / n_trees,
        "A's processor s": spent["A"] / n_trees,
        "B's processor s": spent["B"] / n_trees,
        "bytes per row": (there.n_bytes + back.n_bytes) / n / n_trees,
        "MB per tree": (there.n_bytes + back.n_bytes) / 1e6 / n_trees,
        "messages": there.n_messages + back.n_messages,
    }


def measured(pair: tuple[Session, Session], n_rows: int, n_trees: int, number: int, repeats: int) -> Any:
    """Medians over rounds of one size."""
    trees = tuple(TreeLayout((place,), 0, LEVELS) for place in (0, 1) for _ in range(n_trees))
    positions = tuple(np.linspace(-12.0, 12.0, N_POINTS).tolist())
    ring_bits = 48 if n_rows <= 10**6 else 64
    layout = RoundLayout(SEATS, n_rows, positions, 1, ring_bits, trees, (CLIP, CURVATURE))
    rng = np.random.default_rng(number)
    rounds = [played(pair, layout, number + k, rng) for k in range(repeats)]
    return {"rows": n_rows, **{name: median(one[name] for one in rounds) for name in rounds[0]}}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--trees", type=int, default=2, help="of each party, on one refresh of gradients")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("out/two_party.json"))
    parser.add_argument("--quick", action="store_true", help="10,000 rows, one round")
    args = parser.parse_args()
    sizes, repeats = ([10_000], 1) if args.quick else (args.rows, args.repeats)
    one, other, seconds, n_bytes = open_sessions()
    say(str(machine(2)))
    say(f"set-up of a session: {seconds:.2f} s, {n_bytes} bytes")
    measured((one, other), 100, args.trees, 1, 1)  # compiles
    results = [measured((one, other), n, args.trees, 100 * (k + 1), repeats) for k, n in enumerate(sizes)]
    columns = list(results[0])
    title = f"{args.trees} + {args.trees} trees of 16 leaves on one refresh, four flights"
    print_table(title, columns, [[result[name] for name in columns] for result in results])
    say(f"to reach at 100,000 rows: {SECONDS} s per tree, {BYTES} bytes per row")
    say(f"load average at the end: {load_average():.2f}")
    session = {"seconds": seconds, "bytes": n_bytes}
    write_json(args.json, {"machine": machine(2), "session": session, "trees": args.trees, "rounds": results})


if __name__ == "__main__":
    main()
