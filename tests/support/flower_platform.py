"""Flower's own processes on this machine: SuperLink, SuperNodes, ``flwr run``, and the hospitals' servers."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from free_ports import free_port

ROOT = Path(__file__).parents[2]
PINNED_APPS = """
from flower_hospitals import pin
from veilboost.flower import client_app, server_app

pin()
client = client_app()
server = server_app()
"""
PINNED_SERVER = """
import sys

from flower_hospitals import pin
from veilboost import command_line

pin()
sys.exit(command_line.main(["serve", *sys.argv[1:]]))
"""


class Platform:
    """Processes that end with the block.

    Parameters
    ----------
    folder : Path
        Of the hospitals' files; logs and Flower's own folder are written there.
    seconds : float
        After which everything ends.
    """

    def __init__(self, folder, seconds):
        self.folder, self._end = folder, time.monotonic() + seconds
        self._port, self._started = free_port(), []
        self._nodes, self._servers, self._ports = {}, {}, {}
        # Nothing is reported, looked up or installed.
        silent = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        support = str(ROOT / "tests" / "support")
        home = {"FLWR_HOME": str(folder / "flwr"), "PATH": path, "PYTHONPATH": support}
        self._environment = {**os.environ, **silent, **home, "OMP_NUM_THREADS": "1"}
        (folder / "flwr").mkdir()
        (folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\n'
            f'address = "127.0.0.1:{self._port}"\ninsecure = true\n'
        )
        shutil.copytree(ROOT / "examples" / "flower", folder / "app")
        (folder / "app" / "hospitals" / "apps.py").write_text(PINNED_APPS)

    def __enter__(self):
        host = ["--insecure", "--host", "127.0.0.1", "--port", str(self._port)]
        self._start("superlink", ["flower-superlink", *host, "--disable-runtime-dependency-installation"])
        self.wait_for(lambda: "Uvicorn running" in self.log("superlink"))
        return self

    def __exit__(self, *_):
        for process in self._started:
            self._kill(process)

    def _start(self, name, command):
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
        self._started.append(process)
        return process

    def _kill(self, process):
        """End a process, and those that it has started, at once."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def start_server(self, name):
        """Start the party's own server, at the port that it had before."""
        port = self._ports.setdefault(name, free_port())
        text = (self.folder / f"{name}.toml").read_text()
        served = self.folder / f"{name}-served.toml"
        served.write_text(f'listen = "127.0.0.1:{port}"\n{text}')
        self._servers[name] = self._start(
            f"{name}-server", [sys.executable, "-c", PINNED_SERVER, str(served)]
        )
        self.wait_for(lambda: "listening" in self.log(f"{name}-server"))

    def kill_server(self, name):
        self._kill(self._servers[name])

    def start_node(self, name):
        where = ["--insecure", "--superlink", f"127.0.0.1:{self._port}", "--port", str(free_port())]
        tls = self.folder / "certs" / f"{name}-node"
        config = f'party="{name}" address="127.0.0.1:{self._ports[name]}" tls="{tls}"'
        self._nodes[name] = self._start(name, ["flower-supernode", *where, "--node-config", config])

    def kill_node(self, name):
        self._kill(self._nodes[name])

    def run(self):
        """Start ``flwr run``, which shows the server's log until the run has ended."""
        return self._start("run", ["flwr", "run", "app", "here", "--stream"])

    def wait_for(self, condition):
        """Wait until something holds, or fail when the time is over, with all logs."""
        while not condition():
            if time.monotonic() > self._end:
                logs = "\n".join(f"{path}:\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))
                raise AssertionError(f"the time is over\n{logs}")
            time.sleep(0.5)
