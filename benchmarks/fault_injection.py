"""Kills and stops a passive party's process at every message of a training run over TLS, and resumes it.

    python benchmarks/fault_injection.py [--kills 100] [--timeout 1.0]

Each run: the server's process gets SIGKILL or SIGSTOP just before a request is sent, or while it is answered;
how long until `PartyUnavailableError` names it is measured; then a new process starts on the same folder and
port, the training is taken up from the checkpoint, and its model is compared with the undisturbed one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import xgb_fed
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.transport.server import Server
from report import machine, print_table, say, yield_when_busy
from veilboost.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.service import Limits, PassiveService

PARAMS = {
    "objective": "binary:logistic",
    "max_depth": 2,
    "max_bin": 8,
    "base_score": 0.5,
    "subsample": 0.8,
    "random_state": 7,
}
ROUNDS = 3
MODES = ("killed before", "killed at work", "stopped before", "stopped at work")


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
            limits = Limits(min_rows=1, min_node_rows=2, questions_per_hour=100_000, allow_plain=True)
            service = PassiveService(table, Path(folder) / "models", "bank", limits)
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

    def close(self) -> None:
        self._parent.stdin.close()  # type: ignore[union-attr]
        self._parent.wait(10)


class Injector:
    """A party that does something to its server's process at one message."""

    def __init__(
        self, party: xgb_fed.RemoteParty, servers: Servers, index: int, mode: str, delay: float
    ) -> None:
        self.party, self.servers, self.index, self.mode, self.delay = party, servers, index, mode, delay
        self.name, self.count, self.done_at = party.name, 0, 0.0

    def interrupt(self) -> None:
        self.party.interrupt()

    def _strike(self) -> None:
        self.servers.signal(signal.SIGKILL if self.mode.startswith("killed") else signal.SIGSTOP)
        self.done_at = time.monotonic()

    def handle(self, request: bytes) -> bytes:
        now = self.count == self.index
        self.count += 1
        if now and self.mode.endswith("before"):
            self._strike()
        elif now:
            threading.Timer(self.delay, self._strike).start()
        return self.party.handle(request)


def essence(model: Any) -> str:
    text = json.loads(model.to_json())
    text.pop("model_id")
    return json.dumps(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=1.0)
    parser.add_argument("--serve-on-request", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_on_request:
        serve_on_request()
        return
    warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
    yield_when_busy()
    say(str(machine(1)))
    with tempfile.TemporaryDirectory() as name:
        run(Path(name), args.kills, args.timeout)


def run(folder: Path, kills: int, timeout: float) -> None:
    make_authority(folder / "ca")
    for who in ("acme", "bank"):
        make_certificate(folder / who, folder / "ca", who)
    X, y = data()
    servers = Servers()

    def train(party: Any, checkpoint: Path) -> Any:
        own = xgb_fed.ActiveData(X[:, :2], y)
        how: dict[str, Any] = {"cipher": xgb_fed.Plain(), "verbose_eval": False, "checkpoint": checkpoint}
        return xgb_fed.train(PARAMS, own, [party], ROUNDS, **how)

    local = Injector(xgb_fed.LocalParty(X[:, 2:], "bank"), servers, -1, "none", 0)  # type: ignore[arg-type]
    reference = essence(train(local, folder / "reference"))
    random = np.random.default_rng(0)
    noticed: dict[str, list[float]] = {mode: [] for mode in MODES}
    nameless: list[float] = []
    outcomes: Counter[tuple[str, str]] = Counter()
    for k in range(kills):
        index, mode = k % local.count, MODES[(k // local.count) % len(MODES)]
        where = folder / f"run{k}"
        port = servers.start(where)
        party = xgb_fed.RemoteParty(f"127.0.0.1:{port}", folder / "acme", "bank", timeout)
        struck = Injector(party, servers, index, mode, float(random.uniform(0, 0.01)))
        try:
            model = train(struck, where / "active")
            outcomes[mode, "ended before it was struck"] += 1
        except xgb_fed.PartyUnavailableError as error:
            named = "'bank'" in str(error)
            if struck.done_at:
                (noticed[mode] if named else nameless).append(time.monotonic() - struck.done_at)
            else:
                outcomes[mode, "ended: silent on a busy machine before it was struck"] += 1
        party.close()
        servers.signal(signal.SIGKILL)
        servers.start(where, port)
        party = xgb_fed.RemoteParty(f"127.0.0.1:{port}", folder / "acme", "bank", 30)
        model = train(party, where / "active")
        party.close()
        servers.signal(signal.SIGKILL)
        outcomes[mode, "equal" if essence(model) == reference else "DIFFERENT"] += 1
    servers.close()
    rows = []
    for mode in MODES:
        times = noticed[mode]
        late = sum(t > timeout + 1 for t in times)
        median, worst = (f"{np.median(times):.2f}", f"{max(times):.2f}") if times else ("", "")
        rows.append(
            [mode, len(times), median, worst, late, outcomes[mode, "equal"], outcomes[mode, "DIFFERENT"]]
        )
    head = [
        "process",
        "named",
        "median s",
        "worst s",
        f"beyond {timeout + 1:g} s",
        "equal models",
        "different",
    ]
    print_table(
        f"{kills} faults at the {local.count} messages of a training run, timeout {timeout:g} s", head, rows
    )
    say(f"errors without the party's name: {len(nameless)}")
    for (mode, outcome), count in outcomes.items():
        if outcome.startswith("ended"):
            say(f"{mode}: {count} {outcome}")


if __name__ == "__main__":
    main()
