"""Runs, models, used limits and the budget in the folder of a party or a coordinator.

Stores are read beside the process that uses them, without its lock.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import quoted
from gbdt_commons.store import Store
from gbdt_commons.store_connection import LOCK, beside
from gbdt_commons.store_file import StoreFile
from gbdt_parties.identity.record import check_chain
from gbdt_parties.quota import HOUR, TAKEN
from gbdt_parties.run.log import RUNS, THIS_PROCESS
from gbdt_parties.transport.service import CALLER, part_of
from veilboost.doctor.findings import Finding
from veilboost.model_folders import kept_models

_CALLERS = ("for ", "of for-")
"""Beginnings of names of parts of stores that are callers'."""

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
    uses, runs = list[Use](), dict[str, str]()
    for path in sorted(folder.glob("*.store")):
        try:
            with closing(StoreFile(path, None, read_only=True)) as store:
                pid = _user_of(path)
                who = "no process uses it" if pid is None else f"process {pid} uses it"
                yield Finding("state", f"{path.name}: whole, {who}")
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
    yield _under_way(folder, [caller for run, caller in runs.items() if run not in ended])
    by = Counter(one.caller or THIS_PROCESS for one in models)
    seen = ", ".join(f"{count} for {quoted(caller)} alone" for caller, count in by.items()) or "none"
    yield Finding("models", seen, values=(("models", len(models)),))
    uses += [Use("max_models", caller, count) for caller, count in by.items() if caller != THIS_PROCESS]
    yield from (_left(use, limits.get(use.limit)) for use in uses)
    yield from _budget(folder)
    if (record := folder / "record.jsonl").exists():
        faults = list(check_chain(record))
        mend = "find out who removed or changed them; a copy elsewhere has them" if faults else ""
        yield Finding("record", f"{record.name}{''.join(f'; {one}' for one in faults)}", mend)


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


def _runs(store: Store) -> Iterator[tuple[str, str]]:
    """Runs that are not noted as ended, and their callers."""
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
                    yield run, who


def _under_way(folder: Path, runs: list[str]) -> Finding:
    if not runs:
        return Finding("runs", "none under way", values=(("runs", 0),))
    seen = ", ".join(f"{runs.count(who)} of {quoted(who)}" for who in dict.fromkeys(runs))
    last = max(one.stat().st_mtime for one in (*folder.glob("*.store*"), *folder.glob("record.jsonl")))
    seen += f" under way, last change {_when(last)}"
    is_quiet = time.time() - last > QUIET
    mend = "broken off: the caller goes on by veilboost train; this party must serve" if is_quiet else ""
    return Finding("runs", seen, mend, (("runs", len(runs)),))


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
    yield Finding("budget", seen, mend, (("epsilon", sums.epsilon), ("spent_epsilon", spent)))


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
        seen = f"{kept!r}".strip("<>")
    except (VeilboostError, OSError) as error:
        return Finding("budget", path.name, f"{error}; name a budget, a plan, or the folder of a party")
    mend = "" if left > kept.epsilon / 100 else "less than a hundredth is left: plan the next one"
    return Finding("budget", seen, mend, (("epsilon", kept.epsilon), ("left_epsilon", left)))


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
    seen = f"{path}, last change {_when(path.stat().st_mtime)}"
    if (pid := _user_of(path)) is not None:
        return Finding("run", f"process {pid} is at it: {seen}", values=(("runs", 1),))
    return Finding("run", f"broken off: {seen}", f"go on with it: {command}", (("runs", 1),))


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
