"""Files of two organisations, and the server of one of them as a process of its own."""

import csv
from contextlib import contextmanager

import numpy as np

from forked_commands import Command
from free_ports import free_port


def write_files(folder):
    random = np.random.default_rng(3)
    ids = [f"secret-user-{k:04d}" for k in random.permutation(10_000)[:160]]
    X = random.normal(size=(160, 5)).round(3)
    y = (X.sum(axis=1) + random.normal(size=160) > 0).astype(int)
    with open(folder / "acme.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "y", "a0", "city"])
        writer.writerows([ids[k], y[k], X[k, 0], "Paris" if X[k, 1] > 0 else "Rome"] for k in range(150))
    with open(folder / "bank.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "b0", "b1", "b2"])
        writer.writerows([ids[k], *X[k, 2:]] for k in range(159, 20, -1))
    return ids


@contextmanager
def serving(folder, port=0, *options):
    """The bank's server at a port, or at one that stays free for a server after it."""
    port = port or free_port()
    arguments = ["serve", "vertical", "--data", "bank.csv", "--id", "user", "--tls", "certs/bank"]
    arguments += [
        "--allow",
        "acme",
        "--listen",
        f"127.0.0.1:{port}",
        "--models",
        "bank-models",
        "--json-logs",
    ]
    # 130 rows: a node has more statistics per row than a server gives by default.
    arguments += ["--max-statistics", "100", *options]
    with open(folder / "bank.log", "a") as log:
        process = Command(arguments, cwd=folder, stderr=log)
        try:
            line = process.stdout.readline()
            assert line.startswith("listening"), (folder / "bank.log").read_text()
            yield process, port
        finally:
            process.kill()
            process.wait()
