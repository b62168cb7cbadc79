"""Campaigns of faults: servers of secure sums that are killed or stopped, and killed coordinators."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.federated.private_servers import Organisation
from gbdt_parties.run.progress import STORE_FILE


def plan_of(method: str, parties: list[Organisation], sections: str) -> str:
    """A coordinator's plan.

    Parameters
    ----------
    method : str
    parties : list of Organisation
    sections : str
        Everything below the parties: ``[training]`` and ``[parameters]``.
    """
    named = (f'[[parties]]\nname = "{party.name}"\naddress = "127.0.0.1:{party.port}"\n' for party in parties)
    return f'method = "{method}"\ntls = "certs/acme"\n{"".join(named)}{sections}'


def resumed_by_command(
    folder: Path, plan: str, usual: float, random: np.random.Generator
) -> subprocess.CompletedProcess[str]:
    """A coordinator that is killed within the `usual` seconds of a run; the same command then goes on."""
    (folder / "plan.toml").write_text(plan)
    command = [sys.executable, "-m", "veilboost", "train", "plan.toml", "--overwrite"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL) as process:
        store = folder / "checkpoint" / STORE_FILE
        end = time.monotonic() + 60
        while not store.exists() and time.monotonic() < end and process.poll() is None:
            time.sleep(0.01)
        time.sleep(float(random.uniform(0, 1)) * usual)
        process.kill()
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def revive(party: Organisation, number: signal.Signals) -> None:
    """End what a signal has done to a server."""
    if number == signal.SIGSTOP:
        party.send(signal.SIGCONT)
    else:
        party.start()


def strikes(
    n_kills: int,
    n_rounds: int,
    usual: float,
    kinds: tuple[str, str],
    server: Callable[[signal.Signals, bool], str],
    coordinator: Callable[[], str],
) -> None:
    """Print what became of runs in which a server, or every fifth time the coordinator, was struck.

    Parameters
    ----------
    n_kills : int
    n_rounds : int
        Of each run.
    usual : float
        Seconds that an undisturbed run takes.
    kinds : (str, str)
        Two kinds of runs.
    server : callable
        Strikes a server by a signal in a run of the first kind, or else of the second; gives the outcome.
    coordinator : callable
        Kills a coordinator; gives the outcome.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for k in range(n_kills):
        if k % 5 == 4:
            title, outcome = "coordinator killed", coordinator()
        else:
            number, is_first = (signal.SIGKILL, signal.SIGSTOP)[k % 2], k % 5 < 2
            title = f"{number.name}, {kinds[0] if is_first else kinds[1]}"
            outcome = server(number, is_first)
        counts[title, outcome] += 1
        print(k, title, outcome, file=sys.stderr, flush=True)
    print(f"\n{n_rounds} rounds take {usual:.1f} s undisturbed\n\n| what | outcome | runs |\n|---|---|---|")
    for (title, outcome), count in sorted(counts.items()):
        print(f"| {title} | {outcome} | {count} |")
