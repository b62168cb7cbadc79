"""Parties of benchmarks between processes: a file, and a process that serves it over TLS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import xgb_fed


class Made:
    """A scheme whose key exists: making it is not measured."""

    def __init__(self, scheme: Any) -> None:
        self._key = scheme.generate()

    def generate(self) -> Any:
        return self._key


class Server:
    """A process that serves a file to acme.

    Parameters
    ----------
    folder : Path
        With a folder of certificates for acme, and one for the party.
    kind : str
        Of training.
    name : str
        The party's.
    file : Path
    *more : str
        Further options of ``veilboost serve``.
    """

    def __init__(self, folder: Path, kind: str, name: str, file: Path, *more: str) -> None:
        command = [sys.executable, "-m", "veilboost", "serve", kind, "--data", str(file)]
        command += ["--tls", str(folder / name), "--allow", "acme", "--listen", "127.0.0.1:0"]
        command += ["--models", str(folder / f"{name}-models"), *more]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self._certificates, self._name = folder / "acme", name
        self.port = int(self._process.stdout.readline().rsplit(":", 1)[1])
        self.party = self.connected(self.port)

    def connected(self, port: int) -> xgb_fed.RemoteParty:
        """A connection to the party, by its own port or that of a relay."""
        return xgb_fed.RemoteParty(f"127.0.0.1:{port}", self._certificates, self._name, 60)

    def peak(self) -> float:
        """Most memory that the process had so far, MiB (Linux)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        """Processor time that the process took so far (Linux)."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.party.close()
        self._process.terminate()
        self._process.wait()


class Bank(Server):
    """A passive party with columns of the same rows."""

    def __init__(self, folder: Path, file: Path, *more: str) -> None:
        # One table is trained on again and again: made-up rows need no limit.
        limits = ["--max-statistics", "inf", "--max-thresholds", "inf"]
        super().__init__(folder, "vertical", "bank", file, *limits, *more)


def write_csv(path: Path, X: np.ndarray, ids: list[str] | None = None) -> Path:
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, Any] = {} if ids is None else {"id": ids}
    columns |= {f"b{k}": X[:, k] for k in range(X.shape[1])}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path
