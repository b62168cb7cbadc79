"""Exact runs of three servers over TLS: time per round, and what becomes of runs in which one is killed.

Every trial ends as it must: a run waits for a party that comes back and ends in the undisturbed model, one
without patience says so within the timeout and a second, and a coordinator that was killed goes on.

    python benchmarks/federated/exact_faults.py --rounds 40 --kills 100
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from gbdt_parties.errors import PartyUnavailableError
from xgb_fed import HorizontalModel, HorizontalParty, train_exact

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.federated.fault_campaign import plan_of, resumed_by_command, revive, strikes
from benchmarks.federated.private_servers import ExactOrganisation, Organisation, organisations

PARAMS = {"objective": "binary:logistic", "max_depth": 6, "max_bin": 32}
N_PARTIES, TIMEOUT = 3, 2.0
TRAINING = """[training]
rounds = {}
timeout = 5.0
patience = 60.0
[parameters]
max_depth = 6
max_bin = 32
"""


def trained(parties: list, n_rounds: int, **settings) -> HorizontalModel:
    return train_exact(PARAMS, parties, n_rounds, verbose_eval=False, **settings)


def text_of(model: HorizontalModel) -> bytes:
    return bytes(model.booster.save_raw("json"))


def processor_seconds(parties: list[Organisation]) -> float:
    """Of this process and of all servers so far."""
    ticks = 0
    for party in parties:
        fields = Path(f"/proc/{party.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def seconds_per_round(train, parties: list[Organisation], n_rounds: int) -> tuple[float, float]:
    """Wall-clock and processor seconds of the rounds alone: a shorter run's are taken off."""
    seconds = []
    for rounds in (n_rounds, n_rounds // 4):
        started, used = time.perf_counter(), processor_seconds(parties)
        train(rounds)
        seconds.append((time.perf_counter() - started, processor_seconds(parties) - used))
    (long, long_used), (short, short_used) = seconds
    n = n_rounds - n_rounds // 4
    return (long - short) / n, (long_used - short_used) / n


def times(folder: Path, parties: list[Organisation], n_rounds: int) -> None:
    """Print seconds per round: in one process, over TLS."""
    rows = [np.loadtxt(folder / f"{party.name}.csv", delimiter=",", skiprows=1) for party in parties]
    members = [
        HorizontalParty(one[:, :-1], one[:, -1].astype(int), f"p{k}", categorical_labels=True)
        for k, one in enumerate(rows)
    ]

    def together(rounds):
        trained(members, rounds)

    def apart(rounds):
        remote = [party.remote(30.0) for party in parties]
        with tempfile.TemporaryDirectory() as progress:
            trained(remote, rounds, checkpoint=progress)
        for one in remote:
            one.close()

    print("| | ms per round, three times | processor ms, all processes |\n|---|---|---|")
    for title, train in [("3 parties in one process", together), ("3 servers over TLS", apart)]:
        train(n_rounds // 4)
        runs = [seconds_per_round(train, parties, n_rounds) for _ in range(3)]
        wall, used = zip(*runs, strict=True)
        print(f"| {title} | {_shown(wall)} | {_shown(used)} |", flush=True)


def _shown(seconds: tuple[float, ...]) -> str:
    return " ".join(f"{1000 * one:.1f}" for one in seconds)


def trial(
    parties: list[Organisation],
    number: signal.Signals,
    waits: bool,
    expected: bytes,
    n_rounds: int,
    usual: float,
    random,
) -> str:
    """One run in which a server is killed or stopped; what went wrong, or what happened as it must."""
    remote = [party.remote(TIMEOUT) for party in parties]
    victim = parties[int(random.integers(N_PARTIES))]
    delay = float(random.uniform(0.05, 0.9)) * usual
    struck_at = []

    def strike() -> None:
        struck_at.append(time.monotonic())
        victim.send(number)
        if waits:
            time.sleep(float(random.uniform(0, 2 * TIMEOUT)))
            revive(victim, number)

    struck = threading.Timer(delay, strike)
    struck.start()
    try:
        outcome = text_of(trained(remote, n_rounds, patience=60.0 if waits else 0.0))
    except PartyUnavailableError:
        outcome = b"unavailable"
    ended = time.monotonic()
    struck.join()
    for one in remote:
        one.close()
    if not waits:
        revive(victim, number)
    if outcome == b"unavailable":
        late = ended - struck_at[0]
        return "as specified" if not waits and late <= TIMEOUT + 1 else f"unavailable after {late:.1f} s"
    # Without patience, a run may have ended before it was struck.
    fine = outcome == expected and (waits or ended <= struck_at[0] + 0.5)
    return "as specified" if fine else "another model" if outcome != expected else "went on"


def coordinator_trial(
    folder: Path, parties: list[Organisation], expected: bytes, n_rounds: int, usual, random
):
    """A coordinator is killed, and the same command goes on."""
    plan = plan_of("exact", parties, TRAINING.format(n_rounds))
    done = resumed_by_command(folder, plan, usual, random)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr[-300:]}"
    return "as specified" if (folder / "model" / "model.json").read_bytes() == expected else "another model"


def kills(folder: Path, parties: list[Organisation], n_kills: int, n_rounds: int, seed: int) -> None:
    """Print what became of runs in which a server, or the coordinator, was killed or stopped."""
    random = np.random.default_rng(seed)
    remote = [party.remote(30.0) for party in parties]
    trained(remote, n_rounds)
    started = time.monotonic()
    model = trained(remote, n_rounds)
    usual = time.monotonic() - started
    for one in remote:
        one.close()

    def server(number: signal.Signals, waits: bool) -> str:
        return trial(parties, number, waits, text_of(model), n_rounds, usual, random)

    def coordinator() -> str:
        return coordinator_trial(folder, parties, model.as_json(), n_rounds, usual, random)

    strikes(n_kills, n_rounds, usual, ("waited for", "not waited for"), server, coordinator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rows", type=int, default=3000, help="of each party")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kill-rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with (
        tempfile.TemporaryDirectory() as name,
        organisations(Path(name), N_PARTIES, args.rows, ExactOrganisation) as parties,
    ):
        if args.rounds:
            times(Path(name), parties, args.rounds)
        if args.kills:
            kills(Path(name), parties, args.kills, args.kill_rounds, args.seed)


if __name__ == "__main__":
    main()
