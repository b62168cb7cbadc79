"""Round trips over Flower to a party behind a node against those of an app that echoes, on this machine.

A SuperLink and three SuperNodes run throughout.  In one run of Flower, round trips of both kinds to all three
nodes take turns, with the same bytes.  Those to a party are relayed over TLS to a server that echoes, so that
the time of training does not count.

    python benchmarks/federated/flower_round_trips.py --turns 10 --out round_trips.json
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from gbdt_parties import messages
from gbdt_parties.identity.certificates import TLS, Identity, make_authority, make_certificate
from gbdt_parties.secure_sum.messages import AskSum
from gbdt_parties.transport.server import Server

NAMES = ("north", "south", "west")
APP = """
import json
import time

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()


@client.query()
def query(message, context):
    if "echo" in message.content:
        return Message(message.content, reply_to=message)
    from veilboost.flower.grid import answered
    from veilboost.flower.node import reply

    return answered(message, lambda requests: reply(context.node_config, requests, message.metadata.ttl))


def round_trip(grid, nodes, name, record):
    content = RecordDict({name: ConfigRecord(record)})
    started = time.monotonic()
    waiting = set(grid.push_messages([Message(content, node, "query", ttl=600.0) for node in nodes]))
    while waiting:
        for one in grid.pull_messages(list(waiting)):
            assert name == "echo" or len(one.content[name]["answers"]) == 1, one.content[name]["failure"]
            waiting.remove(one.metadata.reply_to_message_id)
        if waiting:
            time.sleep(0.5)
    return time.monotonic() - started


@server.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 3:
        time.sleep(0.5)
    with open(context.run_config["request"], "rb") as file:
        request = file.read()
    for _ in range(1 + int(context.run_config["turns"])):
        times = {
            "ours": round_trip(grid, nodes, "veilboost", {"requests": [request]}),
            "echo": round_trip(grid, nodes, "echo", {"requests": [request]}),
        }
        with open(context.run_config["out"], "a") as file:
            file.write(json.dumps(times) + chr(10))
"""
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "trips"
version = "0.1.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["trips"]

[tool.flwr.app]
publisher = "veilboost"

[tool.flwr.app.components]
serverapp = "trips.apps:server"
clientapp = "trips.apps:client"

[tool.flwr.app.config]
request = ""
out = ""
turns = 0
"""


class EchoService:
    """A party that needs no time of its own: it answers a request with the same bytes."""

    def handle(self, caller: Identity, row_sets: Sequence[bytes], request: bytes) -> bytes:
        return bytes(request)


class Machine:
    """Processes in a folder, which end with the stack."""

    def __init__(self, folder: Path, stack: ExitStack, seconds: float) -> None:
        self.folder, self._stack, self._end = folder, stack, time.monotonic() + seconds
        silent = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, **silent, "FLWR_HOME": str(folder / "flwr"), "PATH": path}

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "a") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._stack.callback(ended, process)
        return process

    def wait_for(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if time.monotonic() > self._end:
                raise TimeoutError(f"the time is over; see the logs in {self.folder}")
            time.sleep(0.2)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


def ended(process: subprocess.Popen[bytes]) -> None:
    """End a process, and those that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_ports(n_ports: int) -> list[int]:
    """Ports of 127.0.0.1 that are free now."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n_ports)]
        return [one.getsockname()[1] for one in found]


def started(machine: Machine, stack: ExitStack) -> None:
    """Start a SuperLink, and each hospital's server, which is in this process, and SuperNode."""
    folder, bin_folder = machine.folder, Path(sys.executable).parent
    link, *ports = free_ports(4)
    make_authority(folder / "certs" / "ca")
    config = (
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    (folder / "flwr").mkdir()
    (folder / "flwr" / "config.toml").write_text(config)
    package = folder / "app" / "trips"
    package.mkdir(parents=True)
    (folder / "app" / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text("")
    (package / "apps.py").write_text(APP)
    host = ("--insecure", "--host", "127.0.0.1", "--port", str(link))
    superlink = str(bin_folder / "flower-superlink")
    machine.start("superlink", superlink, *host, "--disable-runtime-dependency-installation")
    machine.wait_for(lambda: "Uvicorn running" in machine.log("superlink"))
    for name, port in zip(NAMES, ports, strict=True):
        for one in (name, f"{name}-node"):
            make_certificate(folder / "certs" / one, folder / "certs" / "ca", one)
        tls = TLS.from_directory(folder / "certs" / name)
        server = Server(EchoService(), "127.0.0.1:0", tls, [f"{name}-node"])
        stack.callback(server.stop)
        node = f'party="{name}" address="127.0.0.1:{server.port}" tls="{folder}/certs/{name}-node"'
        where = ("--insecure", "--superlink", f"127.0.0.1:{link}", "--port", str(port))
        machine.start(name, str(bin_folder / "flower-supernode"), *where, "--node-config", node)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=10, help="round trips of each kind (%(default)s)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which all ends (%(default)s)")
    parser.add_argument("--out", type=Path, help="JSON file of all times")
    args = parser.parse_args()
    print("| round trip | seconds, relayed | seconds, echo |\n|---|---|---|")
    with TemporaryDirectory(prefix="veilboost-flower-") as name, ExitStack() as stack:
        folder = Path(name)
        machine, out, request = Machine(folder, stack, args.seconds), folder / "times", folder / "request"
        request.write_bytes(messages.write(bytes(16), 1, AskSum(0, 1, [0, 1, 2], bytes(4000))))
        out.touch()
        started(machine, stack)
        config = f'request="{request}" out="{out}" turns={args.turns}'
        flwr = str(Path(sys.executable).parent / "flwr")
        machine.start("run", flwr, "run", str(folder / "app"), "here", "--stream", "-c", config)
        times: list[dict[str, float]] = []
        # The first of each kind is not counted: it finds cold files.
        for n_done in range(1, args.turns + 2):
            machine.wait_for(lambda n_done=n_done: out.read_text().count("\n") >= n_done)
            times = [json.loads(line) for line in out.read_text().splitlines()[1:n_done]]
            if times:
                print(f"| {n_done - 1} | {times[-1]['ours']:.2f} | {times[-1]['echo']:.2f} |", flush=True)
                medians = {kind: statistics.median(one[kind] for one in times) for kind in ("ours", "echo")}
                ratio = medians["ours"] / medians["echo"]
                if args.out is not None:
                    content = {"times": times, "medians": medians, "ratio": ratio}
                    args.out.write_text(json.dumps(content, indent=1) + "\n")
    print(f"| median | {medians['ours']:.2f} | {medians['echo']:.2f} |\n\nratio of the medians: {ratio:.2f}")


if __name__ == "__main__":
    main()
