"""Change the code that guarantees rest on, one small change at a time, and see whether a test notices.

    make mutants                              # every group, a sample of each module
    python audits/mutation.py noise --all     # every mutant of one group

`audits/mutants.py` says what a mutant is.  Tests are imported and collected once.  For each mutant a forked
process gives the functions of the module their changed code, and runs the tests that execute the changed
line until one fails: tests of the module's own file first, then the short ones.  Kernels run uncompiled, so
that they can be changed in the same way.

A mutant that survives is killed by a new test, or listed in ``mutation_survivors.json`` with the reason for
which its behaviour is the same, or need not be tested.

What it cannot see: changes that no mutant makes, and tests that start processes of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from ast import Module
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from functools import _lru_cache_wrapper
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from audits.mutants import Mutant, mutants, mutated, put_constant, put_in_place

ROOT = Path(__file__).parents[1]
ANSWERS = Path(__file__).with_name("mutation_survivors.json")


@dataclass(frozen=True)
class Group:
    """Modules that are changed, the tests that may notice, and settings of the process that runs them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def _in(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names.split())


GROUPS = {
    "accounting": Group(
        _in("lgb_dp", "accounting newton/budget_plan.py newton/noised_sums.py federated/ledger.py"),
        _in("tests/lgb_dp", "accounting newton/test_budget.py newton/test_steps.py test_groups.py federated"),
    ),
    "noise": Group(
        _in("lgb_dp", "mechanisms vertical/noise.py vertical/numbers.py"),
        (
            "tests/lgb_dp/mechanisms",
            *_in("tests/lgb_dp/vertical", "test_noise.py test_numbers.py test_opened_sums.py test_tables.py"),
        ),
    ),
    "sensitivity": Group(
        _in("lgb_dp", "losses newton/releases dpboost/square_loss.py mboost/loss.py vertical/tables.py"),
        _in("tests/lgb_dp", "losses newton/releases dpboost mboost vertical/test_tables.py"),
    ),
    "columns": Group(
        _in("lgb_dp/vertical", "sums.py replica.py"),
        _in("tests/lgb_dp/vertical", "test_training.py test_opened_sums.py test_replica.py"),
    ),
    "sums": Group(
        _in(
            "plugins/gbdt_parties/secure_sum", "masks.py keys.py rings.py contributions.py roster.py trust.py"
        ),
        ("tests/gbdt_parties/secure_sum",),
    ),
    "runs": Group(
        _in(
            "plugins/gbdt_parties/run",
            "agreement.py engine.py exchange.py log.py flights/kept.py flights/terms.py flights/replay.py",
        ),
        ("tests/gbdt_parties/run",),
    ),
    "transfers": Group(
        _in(
            "plugins/gbdt_parties/two_party",
            "base_transfers.py extension.py layout.py leaf_sums.py life.py lookups.py names.py "
            "pads.py punctured_trees.py rounds.py session.py sides.py answers.py",
        ),
        ("tests/gbdt_parties/two_party",),
    ),
    "kernels": Group(
        _in("plugins/gbdt_kernels", "draws transfers"),
        _in("tests/gbdt_kernels", "draws transfers"),
        {"NUMBA_DISABLE_JIT": "1"},
    ),
    "vertical": Group(
        _in(
            "xgb_fed/vertical",
            "protocol growing/bin_sums.py growing/passive_columns.py passive/disclosed_statistics.py "
            "passive/growing_tree.py passive/told_thresholds.py passive/histogram.py",
        ),
        _in("tests/xgb_fed/vertical", "protocol growing passive test_attacks.py"),
    ),
    "horizontal": Group(
        _in(
            "xgb_fed/horizontal/exact",
            "rows cuts.py exchange.py questions.py run.py sizes.py task.py terms.py",
        ),
        _in("tests/xgb_fed/horizontal", "exact test_party.py"),
    ),
    "ciphers": Group(("xgb_fed/ciphers",), ("tests/xgb_fed/ciphers",)),
}


# --- running tests ------------------------------------------------------------------------------------------

KILLED, SURVIVED, UNFIT = 1, 0, 3


class Trace:
    """Which lines of some files run, in all threads."""

    def __init__(self, files: set[str]) -> None:
        self.files, self.lines = files, defaultdict(set)

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        """For `sys.settrace`."""
        name = frame.f_code.co_filename
        if name not in self.files:
            return None
        lines = self.lines[name]
        lines.add(frame.f_lineno)

        def each(frame: FrameType, event: str, argument: object) -> Any:
            lines.add(frame.f_lineno)
            return each

        return each


@dataclass
class Ran:
    """A test of the unchanged code: its seconds, and the lines it ran."""

    item: pytest.Item
    seconds: float
    lines: dict[str, set[int]]


class Driver:
    """A plugin of pytest that runs the collected tests for each mutant, in place of once."""

    def __init__(self, group: str, settings: argparse.Namespace, wanted: set[tuple[str, int]] | None) -> None:
        self.group, self.settings, self.wanted = group, settings, wanted
        self.failed, self.results = False, []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has failed, or its fixtures have."""
        self.failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests once."""
        gc.unfreeze()  # what was frozen after the collection could not be found
        paths = [path for name in GROUPS[self.group].modules for path in _modules(ROOT / name)]
        if self.settings.module:
            paths = [path for path in paths if str(path.relative_to(ROOT)) in self.settings.module]
        if self.wanted is not None:
            left = {module for module, _ in self.wanted}
            paths = [path for path in paths if str(path.relative_to(ROOT)) in left]
        functions = defaultdict(list)
        files = {str(path) for path in paths}
        for value in gc.get_objects():
            if isinstance(value, FunctionType) and value.__code__.co_filename in files:
                functions[value.__code__.co_filename].append(value)
        tests = self._unchanged(session, files)
        for path in paths:
            self._module(path, functions[str(path)], tests)
        return True

    def _unchanged(self, session: pytest.Session, files: set[str]) -> list[Ran]:
        """Run all tests once, traced; those that fail unchanged, as kernels may uncompiled, are left out.

        A value that an earlier test has left in a cache would hide which lines a test needs.
        """
        caches = [
            value
            for value in gc.get_objects()
            if isinstance(value, _lru_cache_wrapper)
            and getattr(getattr(value.__wrapped__, "__code__", None), "co_filename", None) in files
        ]

        def too_slow(number: int, frame: FrameType | None) -> None:
            self.failed = True
            raise pytest.skip.Exception("too slow to be run for every mutant")

        def trace_all() -> int:
            signal.signal(signal.SIGALRM, too_slow)
            with open(report, "w") as stream:
                for item in session.items:
                    trace, self.failed, start = Trace(files), False, time.monotonic()
                    for cache in caches:
                        cache.cache_clear()
                    threading.settrace(trace)
                    sys.settrace(trace)
                    signal.setitimer(signal.ITIMER_REAL, self.settings.test_seconds)
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
                    sys.settrace(None)
                    threading.settrace(None)  # type: ignore[arg-type]
                    lines = {name: sorted(numbers) for name, numbers in trace.lines.items()}
                    record = {"failed": self.failed, "seconds": time.monotonic() - start, "lines": lines}
                    print(json.dumps(record), file=stream, flush=True)
            return SURVIVED

        with tempfile.TemporaryDirectory() as folder:
            report = f"{folder}/report"
            forked(trace_all, self.settings.baseline_seconds)
            records = [json.loads(line) for line in Path(report).read_text().splitlines()]
        left_out = [
            item.nodeid for item, record in zip(session.items, records, strict=False) if record["failed"]
        ]
        print(
            f"{self.group}: {len(records)} of {len(session.items)} tests, {len(left_out)} left out",
            *left_out[:9],
        )
        return [
            Ran(item, record["seconds"], {name: set(lines) for name, lines in record["lines"].items()})
            for item, record in zip(session.items, records, strict=False)
            if not record["failed"]
        ]

    def _module(self, path: Path, functions: list[FunctionType], tests: list[Ran]) -> None:
        module, source = str(path.relative_to(ROOT)), path.read_text()
        if not functions:
            raise RuntimeError(f"{module} has no functions, or the tests of {self.group} do not import it")
        chosen = mutants(source, module)
        total = len(chosen)
        if self.wanted is not None:
            chosen = [one for one in chosen if (module, one.number) in self.wanted]
        elif not self.settings.all:
            drawn = random.Random(f"{self.settings.seed} {module}").sample(
                chosen, min(self.settings.per_module, total)
            )
            chosen = sorted(drawn, key=lambda mutant: mutant.number)
        for mutant in chosen:
            start = time.monotonic()
            first, last = mutant.lines
            lines = set(range(first, last + 1))
            able = [
                one
                for one in tests
                if mutant.function == "" or not lines.isdisjoint(one.lines.get(str(path), ()))
            ]
            mirror = f"test_{path.stem}.py"
            able.sort(key=lambda one: (one.item.path.name != mirror, one.seconds))
            outcome = self._outcome(mutant, mutated(source, mutant.number), path, functions, able)
            took = time.monotonic() - start
            self.results.append(
                {"group": self.group, **asdict(mutant), "of": total, "outcome": outcome, "tests": len(able)}
            )
            print(
                f"{outcome:9} {took:5.1f} s {module}:{first} {mutant.function}: {mutant.change[:100]}",
                flush=True,
            )

    def _outcome(
        self, mutant: Mutant, tree: Module, path: Path, functions: list[FunctionType], able: list[Ran]
    ) -> str:
        if not able:
            return "unreached"
        chosen, seconds = [], 0.0
        for one in able:
            if not chosen or seconds + one.seconds <= self.settings.seconds:
                chosen.append(one.item)
                seconds += one.seconds

        def run() -> int:
            try:
                if mutant.function:
                    put_in_place(tree, path, functions)
                else:
                    put_constant(tree, mutant.lines[0], path)
            except ValueError:
                return UNFIT
            except Exception:  # a constant that cannot be computed would not be imported
                return KILLED
            self.failed = False
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    return KILLED
            return SURVIVED

        code = forked(run, 20 + 4 * seconds)
        return {SURVIVED: "survived", UNFIT: "unfit", None: "timeout"}.get(code, "killed")


def _modules(path: Path) -> list[Path]:
    paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [path for path in paths if path.name not in ("__init__.py", "plotting.py")]


def forked(work: Any, seconds: float) -> int | None:
    """The number that a function returns in a forked process, or None if it takes longer."""
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = KILLED
            try:
                os.setpgrp()  # not a session of its own, which would leave the priority that the user gave
                os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
                nowhere = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(nowhere, stream)
                code = work()
            finally:
                os._exit(code)
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                _end_group(child)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        _end_group(child)
        os.waitpid(child, 0)
        return None


def _end_group(leader: int) -> None:
    """End what a forked process has started and left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


# --- the report ---------------------------------------------------------------------------------------------


def answers(path: Path = ANSWERS) -> dict[tuple[str, str, str], str]:
    """Reasons for which mutants may survive, by module, function and change."""
    entries = json.loads(path.read_text()) if path.exists() else []
    return {(entry["module"], entry["function"], entry["change"]): entry["reason"] for entry in entries}


COLUMNS = ("module or group", "mutants", "run", "killed at first", "killed", "may live", "left", "% at first")


def rows(results: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Mutants of each module and group, and of all: how many ran, were killed, have a reason, and are left.

    The last column is the share that the first run killed, of those that have no reason to live.
    """
    reasons, counts, dead = answers(), defaultdict(Counter), ("killed", "timeout")
    for result in results:
        outcome = result["outcome"]
        count = counts[result["group"], result["module"]]
        count["mutants"] = result["of"]
        if outcome == "unfit":
            continue
        count["run"] += 1
        count["killed at first"] += result.get("at first", outcome) in dead
        if outcome in dead:
            count["killed"] += 1
        elif (result["module"], result["function"], result["change"]) in reasons:
            count["may live"] += 1
        else:
            count["left"] += 1
    lines = {module: count for (_, module), count in counts.items()}
    for (group, _), count in counts.items():
        lines[group] = lines.get(group, Counter()) + count
    lines["all"] = sum(counts.values(), Counter())
    return [
        (name, *(str(count[what]) for what in COLUMNS[1:-1]), _rate(count)) for name, count in lines.items()
    ]


def _rate(count: Counter[str]) -> str:
    due = count["run"] - count["may live"]
    return f"{100 * count['killed at first'] / due:.0f}" if due else ""


def run_group(name: str, settings: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the mutants of one group in this process."""
    os.environ.update(GROUPS[name].environment)
    wanted, before = None, []
    if settings.again:
        before = json.loads(Path(settings.again).read_text())
        reasons, lived = answers(), ("survived", "unreached")
        wanted = {
            (one["module"], one["number"])
            for one in before
            if one["outcome"] in lived and (one["module"], one["function"], one["change"]) not in reasons
        }
    driver = Driver(name, settings, wanted)
    options = ["-q", "-s", "-n0", "-p", "no:cacheprovider"]
    pytest.main(
        [*options, f"--rootdir={ROOT}", *(str(ROOT / path) for path in settings.tests or GROUPS[name].tests)],
        [driver],
    )
    if wanted is None:
        return driver.results
    again = {(one["module"], one["number"]): one for one in driver.results}
    return [
        {"at first": one["outcome"], **one, **again.get((one["module"], one["number"]), {})} for one in before
    ]


def main() -> None:
    """Run the groups, each in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("group", nargs="*", default=list(GROUPS), help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--module", action="append", help="only this file; may be repeated")
    parser.add_argument("--tests", nargs="+", help="files or folders in place of the group's tests")
    parser.add_argument("--per-module", type=int, default=15, help="size of the sample of each module")
    parser.add_argument("--all", action="store_true", help="every mutant in place of a sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--seconds", type=float, default=30.0, help="of tests that a mutant may survive")
    parser.add_argument(
        "--baseline-seconds", type=float, default=1200.0, help="for all tests on the unchanged code"
    )
    parser.add_argument("--test-seconds", type=float, default=60.0, help="for one test on the unchanged code")
    parser.add_argument("--again", metavar="JSON", help="only what survived in an earlier result")
    parser.add_argument("--json", metavar="PATH", default="out/mutation.json", help="where results go")
    settings = parser.parse_args()
    if unknown := set(settings.group) - set(GROUPS):
        parser.error(f"group={min(unknown)}: expected one of {', '.join(GROUPS)}")
    path = Path(settings.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(settings.group) == 1:
        results = run_group(settings.group[0], settings)
    else:
        results = []
        options = [word for word in sys.argv[1:] if word not in settings.group]
        for name in settings.group:
            part = path.with_suffix(f".{name}.json")
            environment = {**os.environ, **GROUPS[name].environment, "OMP_NUM_THREADS": "1"}
            command = [sys.executable, __file__, name, *options, "--json", str(part)]
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
            results += json.loads(part.read_text())
    path.write_text(json.dumps(results, indent=1))
    with path.with_suffix(".csv").open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([COLUMNS, *rows(results)])
    print(path.with_suffix(".csv").read_text())


if __name__ == "__main__":
    main()
