"""How long a party waits until its state is on the disk: the store, files of entries, atomic writes, SQLite.

Every commit is one record of random bytes.  The ways take turns in random order, so that whatever else the
machine does falls on all of them alike.  ``python benchmarks/common/durable_commits.py --json out.json``
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gbdt_commons.files import write_atomically
from gbdt_commons.store import bytes_kind
from gbdt_commons.store_file import StoreFile

SIZES = (100, 4 << 10, 64 << 10, 1 << 20)
JOURNAL_MODES = ("DELETE", "TRUNCATE", "PERSIST", "WAL")
ALLOWED = 1.5
"""Times the wait of a file of entries that a commit may take."""

Commit = Callable[[bytes], object]


def file_of_entries(folder: Path) -> Commit:
    """An entry with its digest appended to a file that stays open, and `fdatasync`."""
    file = os.open(folder / "entries", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append(content: bytes) -> None:
        os.write(file, hashlib.blake2b(content, digest_size=16).digest() + content)
        os.fdatasync(file)

    return append


def atomic_file(folder: Path) -> Commit:
    """A whole file written beside the old one, synced, renamed, and its folder synced."""
    return lambda content: write_atomically(folder / "whole", content)


def sqlite_table(folder: Path, mode: str) -> Commit:
    """A row appended to a table in a transaction of its own."""
    connection = sqlite3.connect(folder / f"{mode}.store", isolation_level=None)
    for pragma in (f"journal_mode={mode}", "synchronous=FULL", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE record (number INTEGER PRIMARY KEY, content BLOB)")
    return lambda content: connection.execute("INSERT INTO record (content) VALUES (?)", (content,))


def store(folder: Path) -> Commit:
    """A record of the store that the packages use: SQLite's log, with a digest."""
    file, kind = StoreFile(folder / "records.store", "a benchmark"), bytes_kind("record")
    return lambda content: file.append(kind, "run", content)


def waits(folder: Path, size: int, n_commits: int) -> dict[str, list[float]]:
    """Seconds of each commit, by way of keeping."""
    ways = {"entries": file_of_entries(folder), "atomic file": atomic_file(folder)}
    ways |= {f"sqlite {mode}": sqlite_table(folder, mode) for mode in JOURNAL_MODES}
    ways["store"] = store(folder)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(n_commits):
        for name in random.sample(list(ways), len(ways)):
            content = os.urandom(size)
            begun = time.perf_counter()
            ways[name](content)
            taken[name].append(time.perf_counter() - begun)
    return taken


def main() -> None:
    """Print a table of medians in milliseconds, and write all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=200, help="of each size, by each way")
    parser.add_argument("--folder", type=Path, help="on the disk to measure; a temporary one by default")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: dict[int, dict[str, dict[str, float]]] = {}
    for size in SIZES:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            taken = waits(Path(folder), size, args.commits)
        today = statistics.median(taken["entries"])
        found[size] = {
            name: {
                "median_ms": 1e3 * statistics.median(seconds),
                "p95_ms": 1e3 * statistics.quantiles(seconds, n=20)[-1],
                "times_entries": statistics.median(seconds) / today,
            }
            for name, seconds in taken.items()
        }
    print(
        f"SQLite {sqlite3.sqlite_version}; median (95th percentile) ms, times the wait of a file of entries"
    )
    print(f"{'bytes':>12}" + "".join(f"{size:>28,}" for size in SIZES))
    for name in found[SIZES[0]]:
        cells = (found[size][name] for size in SIZES)
        texts = (f"{c['median_ms']:.2f} ({c['p95_ms']:.2f}) x{c['times_entries']:.2f}" for c in cells)
        print(f"{name:>12}" + "".join(f"{text:>28}" for text in texts))
    for name in found[SIZES[0]]:
        worst = max(found[size][name]["times_entries"] for size in SIZES)
        print(f"{name}: {worst:.2f} times at most, {'within' if worst <= ALLOWED else 'beyond'} {ALLOWED}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
