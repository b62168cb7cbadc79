"""
Two organisations, two processes: training over the network
============================================================

This example starts a server, so it is shown here without its output.  Run it with::

    python examples/remote_training.py [--folder FOLDER]

The bank has 20 columns of some patients, and acme has the labels and 10 columns of some others; 500 patients
are in both files.  Everything runs through the command ``veilboost``, as it would on two machines:
certificates, alignment of the rows, training through a crash of the bank's server, prediction, and the record
of what left.  At the end the splits of both parties are put together and compared with stock XGBoost on the
pooled columns.

.. image:: /pictures/deploy.svg
   :alt: Acme connects to the bank's port; an offline authority signs both certificates
"""

# sphinx_gallery_thumbnail_path = "pictures/deploy.svg"

import argparse
import csv
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer

import xgb_fed

PARAMETERS = {
    "objective": "binary:logistic",
    "max_depth": 3,
    "max_bin": 32,
    "learning_rate": 0.3,
    "base_score": 0.5,
}
ROUNDS = 6

PLAN = """
tls = "certs/acme"

[data]
file = "acme.csv"
id = "patient"
label = "malignant"

[[parties]]
name = "bank"
address = "127.0.0.1:{port}"

[training]
rounds = {rounds}
cipher = "okamoto-uchiyama"
timeout = 10.0
patience = 60.0

[parameters]
"""


def write_files(folder):
    """Write the two files, each in its own order, with 34 and 35 patients that the other file lacks."""
    data = load_breast_cancer()
    random = np.random.default_rng(0)
    ids = np.array([f"p{number:06d}" for number in random.choice(10**6, len(data.target), replace=False)])
    X = data.data.astype(np.float32)
    with open(folder / "acme.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", "malignant", *(f"a{k}" for k in range(10))])
        for row in random.permutation(534):
            writer.writerow([ids[row], 1 - data.target[row], *X[row, :10]])
    with open(folder / "bank.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", *(f"b{k}" for k in range(20))])
        for row in random.permutation(np.arange(34, 569)):
            writer.writerow([ids[row], *X[row, 10:]])
    return {one: (X[k], 1 - data.target[k]) for k, one in enumerate(ids)}


class Commands:
    """Runs the command ``veilboost`` in a folder and prints what it runs."""

    def __init__(self, folder):
        self.folder = folder

    def start(self, *arguments, **how):
        print("\n$ veilboost", *arguments, flush=True)
        return subprocess.Popen([sys.executable, "-m", "veilboost", *arguments], cwd=self.folder, **how)

    def __call__(self, *arguments):
        code = self.start(*arguments).wait()
        if code:
            raise SystemExit(f"veilboost {arguments[0]} ended with code {code}")

    def serve(self, port):
        arguments = [
            "serve",
            "vertical",
            "--data",
            "bank.csv",
            "--id",
            "patient",
            "--tls",
            "certs/bank",
            "--allow",
            "acme",
        ]
        arguments += ["--listen", f"127.0.0.1:{port}", "--models", "bank-models", "--allow-export"]
        # On 500 rows, sums over nodes soon tell the bins of single rows; the default refuses that.
        arguments += ["--max-statistics", "2"]
        process = self.start(*arguments, stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        print(line, end="", flush=True)
        if not line.startswith("listening"):
            raise SystemExit("the bank's server did not start")
        return process, int(line.rsplit(":", 1)[1])


def wait_for_tree(training, number):
    """Show what a training run logs until a tree is finished; the next one is then under way."""
    for line in training.stderr:
        print(line, end="", flush=True)
        if f"tree {number} of " in line:
            return
    raise SystemExit(f"training ended before tree {number}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder")
    given = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given or temporary)
        folder.mkdir(exist_ok=True)
        run(folder)


def run(folder):
    people = write_files(folder)
    command = Commands(folder)
    command("certs", "acme")
    command("certs", "bank")
    bank, port = command.serve(0)
    training = None
    try:
        parameters = "\n".join(f"{k} = {v!r}".replace("'", '"') for k, v in PARAMETERS.items())
        (folder / "plan.toml").write_text(PLAN.format(port=port, rounds=ROUNDS) + parameters + "\n")
        command("align", "plan.toml")

        training = command.start("train", "plan.toml", stderr=subprocess.PIPE, text=True)
        wait_for_tree(training, ROUNDS // 2)
        bank.send_signal(signal.SIGKILL)
        bank.wait()
        print("\n*** the bank's server was killed (SIGKILL); it starts again ***")
        bank, _ = command.serve(port)
        print(training.stderr.read(), end="", flush=True)
        if training.wait():
            raise SystemExit("training failed")

        command("predict", "plan.toml", "--out", "predictions.csv")
        print("\nwhat left, as the bank recorded it:")
        command("inspect", "bank-models/record.jsonl")
        compare(folder, port, people)
    finally:
        if training is not None:
            training.kill()
        bank.send_signal(signal.SIGTERM)
        bank.wait(10)


def compare(folder, port, people):
    """Check that the exported model is the one XGBoost trains on the pooled columns."""
    aligned = xgb_fed.Alignment.load(folder / "aligned.ids")
    ids = aligned.ids
    X = np.stack([people[one][0] for one in ids])
    y = np.array([people[one][1] for one in ids])
    pooled = xgboost.train(PARAMETERS, xgboost.QuantileDMatrix(X, label=y, max_bin=32), ROUNDS)
    party = xgb_fed.RemoteParty(
        f"127.0.0.1:{port}", folder / "certs" / "acme", "bank", timeout=10, row_sets=[aligned.digest]
    )
    federated = xgb_fed.VerticalModel.load(folder / "model").export_booster([party])
    party.close()
    a, b = (tree_table(booster) for booster in (pooled, federated))
    same_splits = [row[:3] for row in a] == [row[:3] for row in b]
    worst = max(abs(one[3] - other[3]) for one, other in zip(a, b, strict=True))
    with open(folder / "predictions.csv") as file:
        predicted = {row["id"]: float(row["prediction"]) for row in csv.DictReader(file)}
    expected = pooled.predict(xgboost.DMatrix(X))
    gap = max(abs(predicted[one] - p) for one, p in zip(ids, expected.tolist(), strict=True))
    print(
        f"\n{len(ids)} rows, {ROUNDS} trees, {len(a)} nodes: largest difference of values {worst:.1e}, ",
        end="",
    )
    print(f"of predictions {gap:.1e}")
    if not (same_splits and worst < 1e-6 and gap < 1e-6):
        raise SystemExit("NOT identical to pooled XGBoost")
    print("identical to pooled XGBoost")


def tree_table(booster):
    """List the tree, feature, threshold and value of every node."""
    rows = []
    for number, text in enumerate(booster.get_dump(dump_format="text")):
        for line in text.splitlines():
            if "leaf=" in line:
                rows.append((number, "leaf", 0.0, float(line.split("leaf=")[1])))
            else:
                name, threshold = line.split("[")[1].split("]")[0].split("<")
                rows.append((number, plain_number(name), float(threshold), 0.0))
    return rows


def plain_number(name):
    """Number of a pooled column: f0 to f29 in the pool are a0 to a9 and b0 to b19 at their owners."""
    return int(name[1:]) + (10 if name[0] == "b" else 0)


if __name__ == "__main__":
    main()
