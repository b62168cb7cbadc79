"""An auditor's run: options, lines that processes work out, what could not be run, and the file of both."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias
from unittest.mock import patch

from benchmarks.common.report import machine, print_table, say, write_json

HONEST, PLANTED, MEASURED = "honest", "planted fault", "measured"
"""Kinds of lines: an honest one must pass, a planted fault must be found, a figure is for the reader."""
_EXPECTED = {HONEST: "passes", PLANTED: "found", MEASURED: ""}
MAX_PROCESSES = 2
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
"""Of a process: lines are shared out instead."""


@dataclass(frozen=True)
class Line:
    """One line of an auditor's table.

    Parameters
    ----------
    auditor : str
        Package and version, or "ours" for a second implementation that was written here.
    subject, check : str
        Code that was audited, and in which way.
    found : bool
        Whether the auditor objects.
    seen : str
        The figure that it objects by.
    kind : str
        `HONEST`, `PLANTED` or `MEASURED`.
    """

    auditor: str
    subject: str
    check: str
    found: bool
    seen: str = ""
    kind: str = HONEST

    @property
    def is_right(self) -> bool:
        """Whether an honest subject passes, or a planted fault is found."""
        return self.kind == MEASURED or self.found == (self.kind == PLANTED)


Piece: TypeAlias = Callable[[], Iterable[Line]]
"""Lines that depend on no other lines: a function at the top of a module, or a `partial` of one."""


def _lines_of(piece: Piece) -> list[Line]:
    return list(piece())


@dataclass
class Audit:
    """An auditor's run.

    Parameters
    ----------
    name, limits : str
        The auditor, and what it cannot see.
    """

    name: str
    limits: str
    lines: list[Line] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def package(self, name: str, distribution: str | None = None) -> tuple[ModuleType, str] | None:
        """A package with its name and version; None, and noted as not run, where it is not installed."""
        distribution = distribution or name
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            self.not_run.append(f"{distribution}: {error}")
            say(f"not run: {distribution} ({error})")
            return None
        try:
            return module, f"{distribution} {importlib.metadata.version(distribution)}"
        except importlib.metadata.PackageNotFoundError:
            # From a folder on the path: it has no version.
            return module, distribution

    def add(self, line: Line) -> None:
        """Note one line, and say it."""
        self.lines.append(line)
        wrong = "" if line.is_right else "WRONG: "
        say(f"{wrong}{line.auditor} | {line.subject} | {line.check} | {line.kind} | {line.seen}")

    def run(self, pieces: Iterable[Piece]) -> None:
        """Note the lines of all pieces, which up to `MAX_PROCESSES` new processes work out."""
        todo = list(pieces)
        n_processes = max(1, min(MAX_PROCESSES, os.cpu_count() or 1, len(todo)))
        # Processes begin with the variables of this one, before they load any library.
        with (
            patch.dict(os.environ, _ONE_THREAD),
            ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool,
        ):
            for lines in pool.map(_lines_of, todo):
                for line in lines:
                    self.add(line)

    def end(self, out: Path | None) -> None:
        """Print the table, write the file, and exit with 1 if a line is wrong."""
        wrong = [line for line in self.lines if not line.is_right]
        planted = [line for line in self.lines if line.kind == PLANTED]
        print_table(
            self.name,
            ["auditor", "subject", "check", "expected", "seen", "as expected"],
            [
                [
                    line.auditor,
                    line.subject,
                    line.check,
                    _EXPECTED[line.kind],
                    line.seen,
                    "" if line.kind == MEASURED else "yes" if line.is_right else "NO",
                ]
                for line in self.lines
            ],
        )
        found = sum(line.found for line in planted)
        say(f"\n{len(self.lines)} lines, {len(wrong)} of them wrong; {found} of {len(planted)} faults found")
        say(f"not run ({len(self.not_run)}): {'; '.join(self.not_run) or 'nothing'}")
        say(f"limits: {self.limits}")
        if out is not None:
            content: dict[str, Any] = {
                "audit": self.name,
                "date": datetime.now(timezone.utc).date().isoformat(),
                "options": sys.argv[1:],
                "seconds": round(time.monotonic() - self.began, 1),
                # Of this process and of those that it waited for, by the system's account.
                "processor_seconds": round(sum(os.times()[:4]), 1),
                "machine": machine(1),
                "limits": self.limits,
                "planted": len(planted),
                "planted_found": found,
                "wrong": len(wrong),
                "not_run": self.not_run,
                "lines": [{**line.__dict__, "as_expected": line.is_right} for line in self.lines],
            }
            write_json(out, content)
        sys.exit(1 if wrong else 0)


def run(
    name: str, limits: str, description: str | None, pieces: Callable[[Audit, bool], Sequence[Piece]]
) -> None:
    """Run an auditor by the options that all of them have.

    Parameters
    ----------
    name, limits : str
        As of `Audit`.
    description : str or None
        The auditor's docstring.
    pieces : callable
        ``pieces(audit, quick)`` gives the auditor's pieces, and notes in ``audit`` what is not run.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer draws")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    args = parser.parse_args()
    audit = Audit(name, limits)
    audit.run(pieces(audit, args.quick))
    audit.end(args.out)
