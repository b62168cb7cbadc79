"""
Two banks, two processes: a private model over the network
==========================================================

This example starts a server, so it is shown here without its output.  Run it with::

    python examples/remote_two_banks.py

The tables are those of :doc:`two_banks`, which runs first.  Then the bank with the accounts serves its file
behind a certificate, and the lender trains over TLS by the command ``veilboost``.  Noise is drawn afresh, so
that leaf values differ; the trees' number and the guarantee are those of the model that was trained in one
process.

.. image:: /pictures/columns-apart.svg
   :alt: A round: choices, masked gradients at 16 points, shares of sums
"""

# sphinx_gallery_thumbnail_path = "pictures/columns-apart.svg"

import csv
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lightgbm
import matplotlib
import numpy as np
from sklearn.metrics import roc_auc_score

import lgb_dp

SECONDS = 600
"""Longest time of a command."""

LENDER, ACCOUNTS = ("age", "borrowed", "earlier"), ("balance", "salary", "overdrawn")

PLAN = """
method = "private-columns"
tls = "certs/lender"

[data]
file = "lender.csv"
declared = "lender.toml"
allowed = ["{accounts}"]

[[parties]]
name = "accounts"
address = "127.0.0.1:{port}"

[training]
rounds = {rounds}
epsilon = 1.0
delta = 1e-6

[parameters]
objective = "binary"
lambda_l2 = 0.1
"""


def write_table(folder, name, bounds, columns, label=None):
    """Write a party's rows, and what is public about its columns."""
    with open(folder / f"{name}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(np.column_stack([*columns.values()]).tolist())
    lines = [f"{column} = {list(ends)}" for column, ends in bounds.items()]
    lines = ([f'label = "{label}"'] if label else []) + ["[bounds]", *lines]
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")


class Commands:
    """The command ``veilboost`` in a folder."""

    def __init__(self, folder):
        self._folder = folder

    def start(self, *arguments):
        print("\n$ veilboost", *arguments, flush=True)
        command = [sys.executable, "-m", "veilboost", *arguments]
        return subprocess.Popen(command, cwd=self._folder, stdout=subprocess.PIPE, text=True)

    def __call__(self, *arguments):
        process = self.start(*arguments)
        try:
            said, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
        print(said, end="", flush=True)
        if process.returncode:
            raise SystemExit(f"veilboost {arguments[0]} ended with code {process.returncode}")
        return said


def main():
    matplotlib.use("agg")
    import two_banks as here

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = Commands(folder)
        lender = dict(zip(LENDER, here.lender[here.train].T, strict=True)) | {"defaults": here.y_train}
        accounts = dict(zip(ACCOUNTS, here.accounts[here.train].T, strict=True))
        write_table(folder, "lender", dict(zip(LENDER, here.LENDER_BOUNDS, strict=True)), lender, "defaults")
        write_table(folder, "accounts", dict(zip(ACCOUNTS, here.ACCOUNT_BOUNDS, strict=True)), accounts)
        prints = {
            who: re.search("sha256:[0-9a-f]+", command("certs", who)).group()
            for who in ("lender", "accounts")
        }
        serving = ["--data", "accounts.csv", "--declared", "accounts.toml", "--tls", "certs/accounts"]
        serving += ["--allow", "lender", "--party", prints["lender"], "--budget", "1.4", "1e-6"]
        serving += ["--listen", "127.0.0.1:0", "--models", "kept"]
        server = command.start("serve", "private-columns", *serving)
        try:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            rounds = here.private.booster_.num_trees()
            plan = PLAN.format(accounts=prints["accounts"], port=port, rounds=rounds)
            (folder / "plan.toml").write_text(plan)
            begin = time.perf_counter()
            command("train", "plan.toml")
            seconds = time.perf_counter() - begin
        finally:
            server.terminate()
            server.wait(SECONDS)
        compare(here, (folder / "model" / "model.txt").read_text(), seconds)


def compare(here, text, seconds):
    """Check that both models have as many trees, and one guarantee."""
    booster, report = lightgbm.Booster(model_str=text), lgb_dp.privacy_of(text)
    chance = booster.predict(np.column_stack([here.lender, here.accounts])[here.test])
    print(f"\nover TLS: test AUC {roc_auc_score(here.y_test, chance):.4f}, {seconds:.1f} seconds")
    one, other = here.private.booster_.num_trees(), booster.num_trees()
    if one != other or str(report) != str(here.private.privacy_):
        raise SystemExit("NOT the trees and the guarantee of one process")
    print(f"{other} trees and a guarantee that are those of one process: {report}")


if __name__ == "__main__":
    main()
