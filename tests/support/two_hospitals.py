"""Files of organisations with the same columns, and their servers as processes of their own."""

import csv
from contextlib import contextmanager

import numpy as np

from forked_commands import Command
from free_ports import free_port


def write_rows(path, n_rows, seed, ids=False):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 5)).round(3)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + random.normal(size=n_rows) / 2 > 0).astype(int)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(["patient"] if ids else []), *(f"x{k}" for k in range(5)), "ill"])
        for k in range(n_rows):
            writer.writerow([*([f"secret-{k:04d}"] if ids else []), *X[k], y[k]])


class Hospital:
    """A server of a horizontal party in a folder with ``NAME.csv`` and ``certs/NAME``."""

    def __init__(self, folder, name, *options):
        self.folder, self.name, self.options = folder, name, options
        self.port, self.process = free_port(), None

    def start(self):
        arguments = ["serve", "simfl", "--data", f"{self.name}.csv", "--label", "ill"]
        arguments += ["--categorical-labels", "--tls", f"certs/{self.name}", "--allow", "acme"]
        arguments += ["--listen", f"127.0.0.1:{self.port}", "--models", f"{self.name}-models", *self.options]
        with open(self.folder / f"{self.name}.log", "a") as log:
            self.process = Command(arguments, cwd=self.folder, stderr=log)
        line = self.process.stdout.readline()
        assert line.startswith("listening"), (self.folder / f"{self.name}.log").read_text()

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextmanager
def serving_hospitals(folder, *names):
    hospitals = [Hospital(folder, name) for name in names]
    try:
        for hospital in hospitals:
            hospital.start()
        yield hospitals
    finally:
        for hospital in hospitals:
            if hospital.process is not None:
                hospital.kill()
