"""Exact runs of three servers over TLS in which one is killed, or the coordinator.

Every trial ends as it must: a run waits for a party that comes back and ends in the undisturbed model, one
without patience says so within the timeout and a second, and a coordinator that was killed goes on.

    python benchmarks/federated/exact_faults.py --kills 100
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
from xgb_fed import HorizontalModel

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.federated.fault_campaign import plan_of, resumed_by_command, revive, strikes
from benchmarks.federated.private_servers import ExactOrganisation, Organisation, organisations

N_PARTIES, TIMEOUT = 3, 2.0
TRAINING = """[training]
rounds = {}
timeout = 5.0
patience = 60.0
[parameters]
max_depth = 6
max_bin = 32
"""


def text_of(model: HorizontalModel) -> bytes:
    return bytes(model.booster.save_raw("json"))


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
        outcome = text_of(ExactOrganisation.trained(remote, n_rounds, patience=60.0 if waits else 0.0))
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
    ExactOrganisation.trained(remote, n_rounds)
    started = time.monotonic()
    model = ExactOrganisation.trained(remote, n_rounds)
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
        kills(Path(name), parties, args.kills, args.kill_rounds, args.seed)


if __name__ == "__main__":
    main()
