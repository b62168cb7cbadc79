"""Private runs of three servers over TLS in which one is killed, or the coordinator.

Every trial ends as it must: a run that can spare a party goes on without it, one that cannot says so within
the timeout and a second, and a coordinator that was killed goes on.

    python benchmarks/federated/federated_faults.py --kills 100
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from gbdt_parties.errors import PartyUnavailableError
from lgb_dp.federated.ledger import read_ledger

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.federated.fault_campaign import plan_of, resumed_by_command, revive, strikes
from benchmarks.federated.private_servers import Organisation, organisations

N_PARTIES, N_ROWS, TIMEOUT = 3, 2000, 2.0
TRAINING = """[training]
rounds = {}
epsilon = 1.0
delta = 1e-5
timeout = 5.0
[parameters]
objective = "binary"
max_depth = 4
"""


def strike(party: Organisation, number: signal.Signals, delay: float) -> threading.Timer:
    struck = threading.Timer(delay, party.send, [number])
    struck.at = time.monotonic() + delay
    struck.start()
    return struck


def trial(
    parties: list[Organisation], number: signal.Signals, spare: bool, n_rounds: int, usual: float, random
) -> str:
    """One run in which a server is killed or stopped; what went wrong, or what happened as it must."""
    remote = [party.remote(TIMEOUT) for party in parties]
    victim = parties[int(random.integers(N_PARTIES))]
    struck = strike(victim, number, float(random.uniform(0.05, 0.9)) * usual)
    try:
        booster = Organisation.trained(remote, n_rounds, min_parties=2 if spare else N_PARTIES)
        outcome = f"{booster.num_trees()} trees"
    except PartyUnavailableError:
        outcome = "unavailable"
    ended = time.monotonic()
    struck.join()
    for one in remote:
        one.close()
    late = ended - struck.at
    revive(victim, number)
    if outcome == "unavailable":
        # Before all have begun nobody can be spared.
        return "as specified" if late <= TIMEOUT + 1 else f"unavailable after {late:.1f} s"
    if outcome != f"{n_rounds} trees":
        return outcome
    if late > usual + TIMEOUT + 1 and spare:
        return f"finished {late:.1f} s after, {usual:.1f} s usually"
    return "as specified"


def coordinator_trial(folder: Path, parties: list[Organisation], n_rounds: int, usual: float, random) -> str:
    """A coordinator is killed, and the same command goes on."""
    plan = plan_of("private", parties, TRAINING.format(n_rounds))
    done = resumed_by_command(folder, plan, usual, random)
    if done.returncode == 0 and f"{n_rounds} trees with" in done.stdout:
        return "as specified"
    return f"exit code {done.returncode}: {done.stderr[-300:]}"


def kills(folder: Path, parties: list[Organisation], n_kills: int, n_rounds: int, seed: int) -> None:
    """Print what became of runs in which a server, or the coordinator, was killed or stopped."""
    random = np.random.default_rng(seed)
    started = time.monotonic()
    remote = [party.remote(TIMEOUT) for party in parties]
    Organisation.trained(remote, n_rounds)
    for one in remote:
        one.close()
    usual = time.monotonic() - started

    def server(number: signal.Signals, spare: bool) -> str:
        return trial(parties, number, spare, n_rounds, usual, random)

    def coordinator() -> str:
        return coordinator_trial(folder, parties, n_rounds, usual, random)

    strikes(n_kills, n_rounds, usual, ("one can be spared", "none can be spared"), server, coordinator)
    for party in parties:
        sums = read_ledger(folder / party.name)
        most = max((row["answers"] for row in sums.rows if row["release"] == "leaf sums"), default=0)
        print(f"{party.name}: ledger of {len(sums.rows)} lines, at most {most} answers of one kind in a run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kill-rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, organisations(Path(folder), N_PARTIES, N_ROWS) as parties:
        kills(Path(folder), parties, args.kills, args.kill_rounds, args.seed)


if __name__ == "__main__":
    main()
