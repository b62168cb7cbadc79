"""Runs, models, used limits and the budget in the folder of a party or a coordinator.

Stores are read beside the process that uses them, without its lock.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime, timezone
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import quoted
from gbdt_commons.store import Store
from gbdt_commons.store_connection import LOCK, beside
from gbdt_commons.store_file import StoreFile
from gbdt_parties.identity.record import check_chain, read_record
from gbdt_parties.quota import HOUR, TAKEN
from gbdt_parties.run.log import ANSWERS, RUNS, THIS_PROCESS
from gbdt_parties.transport.service import CALLER, part_of
from veilboost.doctor.findings import Curve, Finding
from veilboost.kept_files import ROUNDS_FILE
from veilboost.model_folders import kept_models

_CALLERS = ("for ", "of for-")
"""Beginnings of names of parts of stores that are callers'."""

_TAIL = 1 << 16
"""Bytes at the end of a record in which senders are looked for."""

_MOST_ROUNDS = 1 << 24
"""Bytes that are read of the file of a run's rounds."""

QUIET = 86_400.0
"""Seconds without a message after which a run counts as broken off."""


class Use(NamedTuple):
    """The use of a limit, by the name of its setting, by one caller."""

    limit: str
    caller: str
    used: float


def of_party(folder: Path, limits: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings about a folder of a party; `limits` are settings by their names, as far as they are known."""
    if not folder.is_dir():
        yield Finding("state", f"{folder} is not there yet")
        return
    uses, runs = list[Use](), dict[str, _Kept]()
    for path in sorted(folder.glob("*.store")):
        try:
            with closing(StoreFile(path, None, read_only=True)) as store:
                pid = _user_of(path)
                who = "no process uses it" if pid is None else f"process {pid} uses it"
                yield Finding("state", f"{path.name}: whole, {who}", values=_process(pid))
                uses += _uses(store)
                runs |= _runs(store)
        except (VeilboostError, OSError) as error:
            yield Finding("state", path.name, f"{error}; restore a copy, or ask for help with the log")
            return
    try:
        models = kept_models(folder)
    except (VeilboostError, OSError) as error:
        yield Finding("models", str(folder), str(error))
        return
    # A passive party knows the runs of its models, too.
    ended = {one.number for one in models}
    yield _under_way(folder, {run: kept for run, kept in runs.items() if run not in ended})
    by = Counter(one.caller or THIS_PROCESS for one in models)
    seen = ", ".join(f"{count} for {quoted(caller)} alone" for caller, count in by.items()) or "none"
    rows = (
        {
            "model": one.number,
            "usable by": one.caller or THIS_PROCESS,
            "splits": one.n_splits,
            "changed": _when(one.changed),
        }
        for one in models
    )
    yield Finding("models", seen, values=(("models", len(models)),), rows=tuple(rows))
    uses += [Use("max_models", caller, count) for caller, count in by.items() if caller != THIS_PROCESS]
    yield from (_left(use, limits.get(use.limit)) for use in uses)
    yield from _budget(folder)
    yield from record(folder / "record.jsonl")


def record(path: Path) -> Iterator[Finding]:
    """The record of a party or a coordinator: whether it is whole, its sums, and when senders were heard."""
    if not path.exists():
        return
    if not path.is_file():  # a pipe would be waited for, a device has no end
        yield Finding("record", path.name, "it is no regular file: put the record back, or remove it")
        return
    try:
        faults, sums = list(check_chain(path)), read_record(path)
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            heard = dict(map(_sender, file.read().decode(errors="replace").splitlines()))
    except (VeilboostError, OSError) as error:
        yield Finding("record", path.name, str(error))
        return
    mend = "find out who removed or changed them; a copy elsewhere has them" if faults else ""
    refused = f"; refusals: {len(sums.refusals)}, the last: {sums.refusals[-1][2]}" if sums.refusals else ""
    seen = f"{path.name}{refused}{''.join(f'; {one}' for one in faults)}"
    yield Finding("record", seen, mend, rows=tuple(sums.traffic.to_dicts()))
    rows = tuple(
        {"party": name, "last heard": f"{when[:16]} UTC".replace("T", " ", 1)}
        for name, when in heard.items()
        if name
    )
    if rows:
        yield Finding("heard", ", ".join(map(quoted, heard)), rows=rows)


def _sender(line: str) -> tuple[str, str]:
    """Sender and time of a record's line; empty if it has none."""
    try:
        found = json.loads(line)
        return str(found["from"]), str(found["time"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return "", ""


def _uses(store: Store) -> Iterator[Use]:
    """How far the callers in a store have used their limits."""
    # Loaded where there is a store, with XGBoost.
    from xgb_fed.horizontal.common.party_state import ROUNDS
    from xgb_fed.vertical.passive.disclosed_statistics import GIVEN
    from xgb_fed.vertical.passive.told_thresholds import ToldThresholds

    now = time.time()
    for caller in store.keys(CALLER):
        part = part_of(store, caller)
        for what, limit in (("questions", "questions_per_hour"), ("sessions", "sessions_per_hour")):
            taken = store.get(TAKEN, f"{what} of {caller}") or []
            yield Use(limit, caller, sum(when > now - HOUR for when in taken))
        if (given := part.get(GIVEN, "")) is not None:
            yield Use("max_statistics", caller, given)
            yield Use("max_thresholds", caller, len(ToldThresholds(store=part)))
    if (rounds := store.get(ROUNDS, "")) is not None:
        yield Use("max_rounds", "all callers", rounds[0])


def _left(use: Use, limit: float | None) -> Finding:
    check, seen = f"{use.limit} of {quoted(use.caller)}", f"{use.used:.4g} used"
    values: tuple[tuple[str, Any], ...] = (("used", use.used),)
    if limit is None:
        return Finding(check, seen, values=values)
    left = max(0.0, limit - use.used)
    values += (("left", left),) if math.isfinite(left) else ()
    # What an hour gives back, no person has to give.
    is_over = not left and not use.limit.endswith("_per_hour")
    mend = "nothing is left: allow more, or refuse further runs" if is_over else ""
    return Finding(check, f"{seen} of {limit:.4g}, {left:.4g} left", mend, values)


class _Kept(NamedTuple):
    """A run at a party: its caller, answers that were given, and rounds that were asked for."""

    caller: str
    answers: int
    rounds: int | None


def _runs(store: Store) -> Iterator[tuple[str, _Kept]]:
    """Runs that are not noted as ended."""
    for kind in store.kinds():
        *parts, name = kind.split("/")
        if name == RUNS.name and parts:
            part = store
            for one in parts:
                part = part.part(one.replace("%2F", "/").replace("%25", "%"))
            owner = parts[0].replace("%2F", "/").replace("%25", "%")
            who = next((owner.removeprefix(one) for one in _CALLERS if owner.startswith(one)), THIS_PROCESS)
            for run in part.keys(RUNS):
                kept = part.get(RUNS, run)
                if kept and not kept.get("has_ended"):
                    answers = part.part(f"run {run}").size(ANSWERS, "")
                    yield run, _Kept(who, answers, _rounds_in(kept.get("request")))


def _rounds_in(request: object) -> int | None:
    try:
        return int(json.loads(str(request))["n_rounds"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None  # of a method whose requests have none


def _under_way(folder: Path, runs: Mapping[str, _Kept]) -> Finding:
    if not runs:
        return Finding("runs", "none under way", values=(("runs", 0),))
    callers = Counter(one.caller for one in runs.values())
    seen = ", ".join(f"{count} of {quoted(who)}" for who, count in callers.items())
    last = max(one.stat().st_mtime for one in (*folder.glob("*.store*"), *folder.glob("record.jsonl")))
    seen += f" under way, last change {_when(last)}"
    is_quiet = time.time() - last > QUIET
    mend = "broken off: the caller goes on by veilboost train; this party must serve" if is_quiet else ""
    rows = (
        {"run": run[:8], "of": one.caller, "answers given": one.answers, "rounds asked for": one.rounds or ""}
        for run, one in runs.items()
    )
    return Finding("runs", seen, mend, (("runs", len(runs)),), tuple(rows))


def _budget(folder: Path) -> Iterator[Finding]:
    from lgb_dp.accounting.cost import pair_text
    from lgb_dp.federated.ledger import LEDGER_FILE, read_ledger

    if not (folder / LEDGER_FILE).exists():
        return
    try:
        sums = read_ledger(folder)
    except (VeilboostError, OSError) as error:
        yield Finding("budget", LEDGER_FILE, str(error))
        return
    spent = sums.spent_epsilon
    seen = f"{spent:.4g} of {pair_text(sums.epsilon, sums.delta)} spent"
    mend = "" if spent < sums.epsilon else "nothing is left: these rows answer no further run"
    curve = _staircase(sums.steps, "μ²")
    yield Finding(
        "budget", seen, mend, (("epsilon", sums.epsilon), ("spent_epsilon", spent)), tuple(sums.rows), curve
    )


def _staircase(steps: Sequence[tuple[str, float]], unit: str) -> Curve | None:
    """Shares of a budget that were spent by some times, up to now; a clock that went back moves no step."""
    try:
        seconds = [datetime.fromisoformat(when).timestamp() for when, _ in steps]
    except ValueError:
        seconds = []
    if not seconds:
        return None
    points = [*zip(accumulate(seconds, max), (share for _, share in steps), strict=True)]
    points.append((max(points[-1][0], time.time()), points[-1][1]))
    ends = (steps[0][0][:10], "now")
    return Curve(f"share of the budget's {unit} that is spent", points, ends, is_staircase=True, limit=1.0)


def budgets_in(folder: Path) -> list[Path]:
    """Files of budgets in a folder: those with a lock beside them, and another name than a party's store."""
    locks = sorted(folder.glob(f"*{LOCK}"))
    return [one.with_name(one.name.removesuffix(LOCK)) for one in locks if f".store{LOCK}" not in one.name]


def budget(path: Path) -> Finding:
    """The state of a budget that is kept in a file."""
    from lgb_dp import Budget

    try:
        kept = Budget.open(path)
        left = kept.remaining.at(kept.delta)[0]
        seen, limit = f"{kept!r}".strip("<>"), kept.limit
        of = ("mu", 2, limit.mu**2) if limit.mu else ("epsilon", 1, limit.epsilon)
        spent = accumulate(row[of[0]] ** of[1] / of[2] for row in kept.charges)
        steps = [
            (f"{row['date']}T00:00:00+00:00", share) for row, share in zip(kept.charges, spent, strict=True)
        ]
    except (VeilboostError, OSError) as error:
        return Finding("budget", path.name, f"{error}; name a budget, a plan, or the folder of a party")
    mend = "" if left > kept.epsilon / 100 else "less than a hundredth is left: plan the next one"
    values = (("epsilon", kept.epsilon), ("left_epsilon", left))
    return Finding("budget", seen, mend, values, curve=_staircase(steps, "μ²" if limit.mu else "ε"))


def model(folder: Path) -> Finding:
    """The model in the folder of a plan."""
    files = [one for end in ("json", "txt") for one in folder.glob(f"*.{end}")]
    if not files:
        return Finding("model", f"none in {folder}")
    return Finding("model", f"{folder}, written {_when(max(one.stat().st_mtime for one in files))}")


def progress(folder: Path, command: str) -> Finding:
    """The progress of a coordinator's run, which a command goes on with."""
    stores = sorted(folder.glob("*.store"))
    if not stores:
        return Finding("run", "none under way", values=(("runs", 0),))
    path = stores[0]
    try:
        with closing(StoreFile(path, None, read_only=True)):
            pass
    except (VeilboostError, OSError) as error:
        return Finding("run", str(path), str(error))
    said, curve = _rounds(folder / ROUNDS_FILE)
    seen, values = f"{path}{said}, last change {_when(path.stat().st_mtime)}", (("runs", 1),)
    if (pid := _user_of(path)) is not None:
        return Finding("run", f"process {pid} is at it: {seen}", "", values + _process(pid), curve=curve)
    return Finding("run", f"broken off: {seen}", f"go on with it: {command}", values, curve=curve)


def _rounds(path: Path) -> tuple[str, Curve | None]:
    """The last round of a run in words, and the curve of its last metric, if a file has them."""
    content = b""
    with suppress(OSError):  # a run that ends removes it
        if path.is_file():
            with open(path, "rb") as file:
                content = file.read(_MOST_ROUNDS)
    lines = dict[int, tuple[int, str, dict[str, float]]]()
    for text in content.decode(errors="replace").splitlines():
        # A line that a crash has torn, or that no run has written.
        with suppress(ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            line = json.loads(text)
            number, of, left = int(line["round"]), int(line["of"]), quoted(str(line["left"]))
            metrics = {quoted(name): float(value) for name, value in line["metrics"].items()}
            if 0 < number <= of < 1 << 31:
                while lines and next(reversed(lines)) >= number:  # the run went on from before them
                    lines.popitem()
                lines[number] = of, left, metrics
    if not lines:
        return "", None
    last, (of, left, metrics) = list(lines.items())[-1]
    said = f", tree {last} of {of}, {left} left"
    if not metrics:
        return said, None
    name = list(metrics)[-1]
    points = [(k, of_round[name]) for k, (_, _, of_round) in lines.items() if name in of_round]
    return f"{said}, {name} {points[-1][1]:.5f}", Curve(
        name, points, (f"tree {points[0][0]}", f"tree {last}")
    )


def _process(pid: int | None) -> tuple[tuple[str, float], ...]:
    return () if pid is None else (("process", pid),)


def _user_of(path: Path) -> int | None:
    """The process that has a store locked, as Linux tells without a lock of one's own; elsewhere None."""
    lock, locks = beside(path, LOCK), Path("/proc/locks")
    if not lock.exists() or not locks.exists():
        return None
    found = lock.stat()
    name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in locks.read_text().splitlines():
        fields = line.split()
        if name in fields and "FLOCK" in fields and "->" not in fields:
            return int(fields[fields.index(name) - 1])
    return None


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M} UTC"
