"""Organisations with rows of their own as processes of their own: certificates, files, servers.

As a program: seconds of a round of secure sums over TLS, in multiples of those of the same parties in one
process, for exact and for private training.  Runs take turns, and a run of a quarter of the rounds is taken
off each, which leaves the rounds alone.  In one process nothing is kept on a disk; over TLS the coordinator
has a checkpoint, and servers have their stores.  `one process, kept` has
the same on the disk.

    python benchmarks/federated/private_servers.py [--parties 2 3] [--rounds 40] [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import lgb_dp
from gbdt_parties.identity.certificates import make_authority, make_certificate
from gbdt_parties.transport.remote import RemoteParty
from lgb_dp import federated
from xgb_fed import HorizontalModel, HorizontalParty, train_exact

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import machine, print_table, say, write_json

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

    params: ClassVar[dict[str, Any]] = {
        "objective": "binary",
        "num_threads": 1,
        "verbosity": -1,
        "max_depth": 4,
    }
    """Of training."""

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

    @classmethod
    def trained(cls, parties: Sequence[Any], n_rounds: int, **settings: Any) -> lgb_dp.DPBooster:
        """A model of parties here or elsewhere."""
        callbacks = [lgb_dp.NewtonBoost(1.0, 1e-5)]
        return federated.train(cls.params, parties, n_rounds, callbacks=callbacks, **settings)

    @staticmethod
    def member(name: str, X: np.ndarray, y: np.ndarray, folder: Path | None) -> federated.Party:
        """A party with such rows in this process."""
        names = [f"x{k}" for k in range(N_COLUMNS)]
        declared = {"bounds": (-3.0, 3.0), "max_bin": 255, "spacing": "mixed", "feature_name": names}
        return federated.Party(X, y, name=name, folder=folder, **declared)

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

    params: ClassVar[dict[str, Any]] = {"objective": "binary:logistic", "max_depth": 6, "max_bin": 32}
    kind = ("exact", "--label", "ill", "--categorical-labels", "--max-rounds", "100000000")

    @classmethod
    def trained(cls, parties: Sequence[Any], n_rounds: int, **settings: Any) -> HorizontalModel:
        """A model of parties here or elsewhere."""
        return train_exact(cls.params, parties, n_rounds, verbose_eval=False, **settings)

    @staticmethod
    def member(name: str, X: np.ndarray, y: np.ndarray, folder: Path | None) -> HorizontalParty:
        """A party with such rows in this process."""
        return HorizontalParty(X, y, name, directory=folder, categorical_labels=True)


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


def processor_seconds(parties: Sequence[Organisation]) -> np.ndarray:
    """Of this process, and of all servers together, so far."""
    ticks = 0
    for party in parties:
        fields = Path(f"/proc/{party.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return np.array([time.process_time(), ticks / os.sysconf("SC_CLK_TCK")])


def per_round(train: Callable[[int], Any], parties: Sequence[Organisation], n_rounds: int) -> np.ndarray:
    """Milliseconds of the rounds alone: by the clock, and of processors here and of the servers."""
    found = []
    for rounds in (n_rounds, n_rounds // 4):
        began, used = time.perf_counter(), processor_seconds(parties)
        train(rounds)
        found.append([time.perf_counter() - began, *(processor_seconds(parties) - used)])
    return 1000 * np.subtract(*found) / (n_rounds - n_rounds // 4)


def compared(kind: type[Organisation], n_parties: int, n_rows: int, n_rounds: int, n_runs: int) -> list[dict]:
    """Medians of one process, of one that keeps its state on a disk, and of servers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        parties = stack.enter_context(organisations(folder, n_parties, n_rows, kind))
        rows = [made_rows(n_rows, seed) for seed in range(n_parties)]
        remote = [stack.enter_context(closing(party.remote(60.0))) for party in parties]

        def together(rounds: int) -> None:
            kind.trained([kind.member(f"p{k}", *own, None) for k, own in enumerate(rows)], rounds)

        def kept(rounds: int) -> None:
            with tempfile.TemporaryDirectory(dir=folder) as own:
                places = [Path(own) / str(k) for k in range(n_parties)]
                members = [kind.member(p.name, *one, p) for p, one in zip(places, rows, strict=True)]
                kind.trained(members, rounds, checkpoint=Path(own) / "progress")
                for member in members:
                    member.close()

        def apart(rounds: int) -> None:
            with tempfile.TemporaryDirectory(dir=folder) as progress:
                kind.trained(remote, rounds, checkpoint=progress)

        ways = {"one process": together, "one process, kept": kept, "TLS": apart}
        for train in ways.values():
            train(max(2, n_rounds // 4))
        found: dict[str, list[np.ndarray]] = {way: [] for way in ways}
        for _ in range(n_runs):
            for way, train in ways.items():
                found[way].append(per_round(train, parties, n_rounds))
    medians = {way: np.median(runs, axis=0).tolist() for way, runs in found.items()}
    base = {way: medians[way][0] for way in ways}
    return [
        {
            "training": kind.kind[0],
            "parties": n_parties,
            "way": way,
            "ms per round": wall,
            "of one process": wall / base["one process"],
            "of one process, kept": wall / base["one process, kept"],
            "processor ms here": here,
            "processor ms of servers": servers,
            "runs": [float(run[0]) for run in found[way]],
        }
        for way, (wall, here, servers) in medians.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parties", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--rows", type=int, default=3000, help="of each party")
    parser.add_argument(
        "--rounds", type=int, default=40, help="of exact training; of private, ten times as many"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=["exact", "private"], default=["exact", "private"])
    parser.add_argument("--json", type=Path, default=Path("out/private_servers.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    kinds = {"exact": (ExactOrganisation, 1), "private": (Organisation, 10)}
    for kind, times in map(kinds.__getitem__, arguments.only):
        for n_parties in arguments.parties:
            results += compared(kind, n_parties, arguments.rows, times * arguments.rounds, arguments.runs)
            say(f"{kind.kind[0]}, {n_parties} parties")
    columns = [name for name in results[0] if name != "runs"]
    print_table("rounds of secure sums", columns, [[row[name] for name in columns] for row in results])
    write_json(arguments.json, {"machine": machine(1), "arguments": str(vars(arguments)), "results": results})


if __name__ == "__main__":
    main()
