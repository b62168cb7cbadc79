"""Kills and stops a party's process at every message of a training run over TLS, and resumes it.

    python benchmarks/vertical/fault_injection.py [--faults 100] [--timeout 1.0]

Each run: the passive party's process gets SIGKILL or SIGSTOP just before a request is sent, or while it is
answered, and how long until `PartyUnavailableError` names it is measured; or the active party's process gets
SIGKILL.  Then a new process starts on the same folder and port, the training run is taken up from the
checkpoint, and its model is compared with the undisturbed one.  A party that was lost after it had been told
its splits, and before its answer was there, must be named in the model's restarts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import xgb_fed
from gbdt_commons.errors import StoreError
from gbdt_parties import messages
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.transport.server import Server
from veilboost.plans.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive.service import Limits, PassiveService
from xgb_fed.vertical.protocol.messages import SplitNodes

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import machine, print_table, say, yield_when_busy

PARAMS = {
    "objective": "binary:logistic",
    "max_depth": 2,
    "max_bin": 8,
    "base_score": 0.5,
    "subsample": 0.8,
    "random_state": 7,
}
ROUNDS = 3
ACTIVE_MODES = ("active killed before", "active killed at work")
MODES = ("killed before", "killed at work", *ACTIVE_MODES, "stopped before", "stopped at work")


def data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    X = random.normal(size=(200, 5)).astype(np.float32)
    return X, (X @ random.normal(size=5) + random.normal(size=200) > 0).astype(float)


def serve_on_request() -> None:
    """Fork a server whenever a line "folder port" comes; print its process and port."""
    children = []
    for line in sys.stdin:
        folder, port = line.split()
        ready, done = os.pipe()
        child = os.fork()
        if not child:
            X, _ = data()
            table = Table(read_columns(X[:, 2:]), [str(k) for k in range(len(X))], False, None, [], {})
            limits = Limits(
                min_rows=1,
                min_node_rows=2,
                questions_per_hour=100_000,
                allow_plain=True,
                max_statistics=math.inf,
            )
            service = until_free(partial(PassiveService, table, Path(folder) / "models", "bank", limits))
            tls = TLS.from_directory(Path(folder).parent / "bank")
            for _ in range(100):
                try:
                    server = Server(service, f"127.0.0.1:{port}", tls, ["acme"])
                    break
                except OSError:
                    # Somebody's outgoing connection has the port for a moment.
                    time.sleep(0.1)
            os.write(done, str(server.port).encode())
            server.wait(600)
            os._exit(0)
        children.append(child)
        print(child, os.read(ready, 10).decode(), flush=True)
        os.close(ready)
        os.close(done)


def until_free(make: Callable[[], PassiveService]) -> PassiveService:
    """Make a service as soon as the killed process before it has let go of the folder."""
    for _ in range(100):
        try:
            return make()
        except StoreError:
            time.sleep(0.1)
    return make()


class Servers:
    """Starts processes of a passive party, one at a time."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, "--serve-on-request"]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process = 0

    def start(self, folder: Path, port: int = 0) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{folder} {port}\n")
        self._parent.stdin.flush()
        process, port_given = self._parent.stdout.readline().split()
        self.process = int(process)
        return int(port_given)

    def signal(self, number: int) -> None:
        os.kill(self.process, number)

    def strike(self, mode: str) -> None:
        self.signal(signal.SIGKILL if mode.startswith("killed") else signal.SIGSTOP)

    def close(self) -> None:
        self._parent.stdin.close()  # type: ignore[union-attr]
        self._parent.wait(10)


class Injector:
    """A party that strikes a process at one message, and notes at which messages it was lost."""

    def __init__(
        self, party: xgb_fed.RemoteParty, strike: Callable[[], None], index: int, mode: str, delay: float
    ) -> None:
        self.party, self.strike, self.index, self.mode, self.delay = party, strike, index, mode, delay
        self.name, self.done_at = party.name, 0.0
        self.kinds: list[type] = []
        self.was_told = False

    def interrupt(self) -> None:
        self.party.interrupt()

    def _strike(self) -> None:
        self.strike()
        self.done_at = time.monotonic()

    def handle(self, request: bytes) -> bytes:
        now = len(self.kinds) == self.index
        self.kinds.append(type(messages.read(request).message))
        if now and self.mode.endswith("before"):
            self._strike()
        elif now:
            threading.Timer(self.delay, self._strike).start()
        try:
            return self.party.handle(request)
        except xgb_fed.PartyUnavailableError:
            self.was_told = self.kinds[-1] is SplitNodes
            raise


def essence(model: Any) -> str:
    text = json.loads(model.to_json())
    text.pop("model_id")
    text.pop("restarts")
    return json.dumps(text)


def train(party: Any, checkpoint: Path) -> Any:
    X, y = data()
    how: dict[str, Any] = {"cipher": xgb_fed.Plain(), "verbose_eval": False, "checkpoint": checkpoint}
    return xgb_fed.train(PARAMS, xgb_fed.ActiveData(X[:, :2], y), [party], ROUNDS, **how)


def train_until_struck(folder: str, port: str, index: str, mode: str, delay: str) -> None:
    """The active party's process, which kills itself."""
    party = xgb_fed.RemoteParty(f"127.0.0.1:{port}", Path(folder).parent / "acme", "bank", 30)
    train(
        Injector(party, lambda: os.kill(os.getpid(), signal.SIGKILL), int(index), mode, float(delay)),
        Path(folder) / "active",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=1.0)
    parser.add_argument("--serve-on-request", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--train-until-struck", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_on_request:
        serve_on_request()
        return
    warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
    if args.train_until_struck:
        train_until_struck(*args.train_until_struck)
        return
    yield_when_busy()
    say(str(machine(1)))
    with tempfile.TemporaryDirectory() as name:
        run(Path(name), args.faults, args.timeout)


def run(folder: Path, faults: int, timeout: float) -> None:
    make_authority(folder / "ca")
    for who in ("acme", "bank"):
        make_certificate(folder / who, folder / "ca", who)
    X, _ = data()
    servers = Servers()
    undisturbed = Injector(xgb_fed.LocalParty(X[:, 2:], "bank"), lambda: None, -1, "", 0)  # type: ignore[arg-type]
    reference = essence(train(undisturbed, folder / "reference"))
    kinds = undisturbed.kinds
    random = np.random.default_rng(0)
    noticed: dict[str, list[float]] = {mode: [] for mode in MODES}
    outcomes: Counter[tuple[str, str]] = Counter()
    for k in range(faults):
        index, mode = k % len(kinds), MODES[(k // len(kinds)) % len(MODES)]
        where, delay = folder / f"run{k}", float(random.uniform(0, 0.01))
        port = servers.start(where)
        if mode in ACTIVE_MODES:
            # At work, the answer may have come before the signal.
            told = kinds[index] is SplitNodes and mode == "active killed before"
            outcome = strike_active(where, port, index, mode, delay)
        else:
            party = xgb_fed.RemoteParty(f"127.0.0.1:{port}", folder / "acme", "bank", timeout)
            struck = Injector(party, partial(servers.strike, mode), index, mode, delay)
            outcome, told = strike_passive(struck, where, noticed[mode])
            party.close()
        servers.signal(signal.SIGKILL)
        servers.start(where, port)
        party = xgb_fed.RemoteParty(f"127.0.0.1:{port}", folder / "acme", "bank", 30)
        model = train(party, where / "active")
        party.close()
        servers.signal(signal.SIGKILL)
        outcomes[mode, outcome] += 1
        outcomes[mode, "equal" if essence(model) == reference else "DIFFERENT"] += 1
        if told and outcome == "struck":
            outcomes[mode, "to be named"] += 1
            outcomes[mode, "named"] += any(restart.party == "bank" for restart in model.restarts)
    servers.close()
    report(faults, timeout, noticed, outcomes, len(kinds))


def strike_active(where: Path, port: int, index: int, mode: str, delay: float) -> str:
    """Start the active party's process, and wait for its end."""
    arguments = [str(where), str(port), str(index), mode, str(delay)]
    command = [sys.executable, __file__, "--train-until-struck", *arguments]
    code = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=120, check=False).returncode
    return "struck" if code == -signal.SIGKILL else "over before it was struck"


def strike_passive(struck: Injector, where: Path, noticed: list[float]) -> tuple[str, bool]:
    """Train until the party is lost: how that was seen, and whether it had been told its splits."""
    try:
        train(struck, where / "active")
    except xgb_fed.PartyUnavailableError as error:
        if not struck.done_at:
            return "silent on a busy machine before it was struck", struck.was_told
        if "'bank'" not in str(error):
            return "lost without its name", struck.was_told
        noticed.append(time.monotonic() - struck.done_at)
        return "struck", struck.was_told
    return "over before it was struck", False


def report(
    faults: int,
    timeout: float,
    noticed: dict[str, list[float]],
    outcomes: Counter[tuple[str, str]],
    n_messages: int,
) -> None:
    rows = []
    for mode in MODES:
        times = noticed[mode]
        late = sum(t > timeout + 1 for t in times)
        median, worst = (f"{np.median(times):.2f}", f"{max(times):.2f}") if times else ("", "")
        equal, different = outcomes[mode, "equal"], outcomes[mode, "DIFFERENT"]
        named = f"{outcomes[mode, 'named']} of {outcomes[mode, 'to be named']}"
        n_struck = outcomes[mode, "struck"]
        rows.append([mode, n_struck, median, worst, late, f"{equal} of {equal + different}", named])
    head = [
        "process",
        "struck",
        "median s",
        "worst s",
        f"beyond {timeout + 1:g} s",
        "equal models",
        "restarts named",
    ]
    title = f"{faults} faults at the {n_messages} messages of a training run, timeout {timeout:g} s"
    print_table(title, head, rows)
    for (mode, outcome), count in outcomes.items():
        if outcome not in ("struck", "equal", "named", "to be named"):
            say(f"{mode}: {count} {outcome}")


if __name__ == "__main__":
    main()
