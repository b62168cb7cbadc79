"""Organisations with rows of their own as processes of their own: certificates, files, servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gbdt_parties.identity.certificates import make_authority, make_certificate
from gbdt_parties.transport.remote import RemoteParty

N_COLUMNS = 6
COLUMNS = "label = 'ill'\n[bounds]\n" + "".join(f"x{k} = [-3, 3]\n" for k in range(N_COLUMNS))


def made_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows between -3 and 3, and labels 0 and 1."""
    random = np.random.default_rng(seed)
    X = np.clip(random.normal(size=(n_rows, N_COLUMNS)), -3, 3)
    return X, (X[:, 0] * X[:, 1] + X[:, 2] + random.normal(size=n_rows) > 0).astype(int)


class Organisation:
    """The server of a party of private training.

    Parameters
    ----------
    folder : Path
        Of all organisations.
    name : str
    others : sequence of str
        Fingerprints of those it adds up with.
    """

    def __init__(self, folder: Path, name: str, others: Sequence[str]) -> None:
        self.folder, self.name, self.others = folder, name, others
        self.port, self.process = 0, None

    kind = ("private", "--declared", "columns.toml", "--budget", "100000", "1e-5")
    """Options that say what kind of training it takes part in."""

    def start(self) -> None:
        """Start the server, or start it again at the same port."""
        options = [*self.kind, "--data", f"{self.name}.csv", "--tls", f"certs/{self.name}"]
        options += ["--allow", "acme", *(part for other in self.others for part in ("--party", other))]
        options += ["--sessions-per-hour", "1000000", "--max-models", "100000"]
        options += ["--listen", f"127.0.0.1:{self.port}", "--models", self.name]
        with open(self.folder / f"{self.name}.log", "a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "veilboost", "serve", *options],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        line = self.process.stdout.readline()
        if not line.startswith("listening"):
            raise RuntimeError((self.folder / f"{self.name}.log").read_text())
        self.port = int(line.rsplit(":", 1)[1])

    def send(self, number: signal.Signals) -> None:
        """Send the server a signal."""
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def remote(self, timeout: float) -> RemoteParty:
        """The party, as the coordinator reaches it."""
        return RemoteParty(f"127.0.0.1:{self.port}", self.folder / "certs" / "acme", self.name, timeout)


class ExactOrganisation(Organisation):
    """The server of a party of exact training."""

    kind = ("exact", "--label", "ill", "--categorical-labels", "--max-rounds", "100000000")


@contextmanager
def organisations(
    folder: Path, n_parties: int, n_rows: int, kind: type[Organisation] = Organisation
) -> Iterator[list[Organisation]]:
    """Servers of parties with rows of their own, and the certificate of their coordinator, acme."""
    make_authority(folder / "ca")
    names = [f"party{place}" for place in range(n_parties)]
    prints = {
        name: f"sha256:{make_certificate(folder / 'certs' / name, folder / 'ca', name).fingerprint}"
        for name in [*names, "acme"]
    }
    (folder / "columns.toml").write_text(COLUMNS)
    head = ",".join([*(f"x{k}" for k in range(N_COLUMNS)), "ill"])
    for seed, name in enumerate(names):
        X, y = made_rows(n_rows, seed)
        np.savetxt(folder / f"{name}.csv", np.column_stack([X, y]), "%.6g", ",", header=head, comments="")
    parties = [kind(folder, name, [prints[other] for other in names if other != name]) for name in names]
    try:
        for party in parties:
            party.start()
        yield parties
    finally:
        for party in parties:
            if party.process is not None:
                party.process.kill()
                party.process.wait()
