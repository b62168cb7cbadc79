"""FATE's own vertical examples by the command line: are the trees those of XGBoost on the joined columns?

    VEILBOOST_DATA=folder python benchmarks/vertical/fate_examples.py [--rounds 25]
        [--cipher okamoto-uchiyama] [--only NAME ...] [--json FILE]

FATE splits each table into a guest's file, with the labels, and a host's; the ids say which rows belong
together.  The host's rows are shuffled here, and one in fifty of either side is left out.  The commands are
those of docs/deploy.md: `certs`, `serve` in a process of its own, `align` (private set intersection), `train`
over TLS, and `predict`.  The host consents to the export, so that its splits can be compared, and gives
statistics of nodes of any size.  Files that the folder lacks are skipped.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost

import xgb_fed
from gbdt_hosts.xgboost.model import model_content

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.files import path_of
from benchmarks.common.report import load_average, machine, print_table, say, write_json
from benchmarks.vertical.lossless import compare


@dataclass(frozen=True)
class Example:
    """One of FATE's tables.

    Parameters
    ----------
    guest, host : str
        Names of the files.
    objective : str
    identifier, label : str
        Columns of the guest's file.
    host_columns : tuple of str, optional
        If the host's file has more than its columns.
    """

    guest: str
    host: str
    objective: str = "binary:logistic"
    identifier: str = "id"
    label: str = "y"
    host_columns: tuple[str, ...] | None = None


EXAMPLES = {
    "breast": Example("fate_breast_guest", "fate_breast_host"),
    "ionosphere": Example(
        "fate_ionosphere_scale_guest", "fate_ionosphere_scale_host", identifier="sid", label="label"
    ),
    "student": Example("fate_student_guest", "fate_student_host", objective="reg:squarederror"),
    "default_credit": Example("fate_default_credit_guest", "fate_default_credit_host"),
    # The host's part of this table is in FATE's horizontal copy of it.
    "give_credit_test": Example(
        "fate_give_credit_test_guest",
        "fate_give_credit_homo_test",
        host_columns=("x5", "x6", "x7", "x8", "x9"),
    ),
}

PLAN = """
tls = "certs/guest"

[data]
file = "guest.csv"
id = "{example.identifier}"
label = "{example.label}"

[[parties]]
name = "host"
address = "127.0.0.1:{port}"

[training]
rounds = {rounds}
cipher = "{cipher}"

[parameters]
objective = "{example.objective}"
max_depth = {parameters[max_depth]}
max_bin = {parameters[max_bin]}
"""
PARAMETERS: dict[str, Any] = {"max_depth": 4, "max_bin": 32}


def write_files(example: Example, folder: Path) -> bool:
    """The two organisations' files; False if one of FATE's is not there."""
    paths = [path_of(f"{name}.csv.gz") for name in (example.guest, example.host)]
    if None in paths:
        return False
    guest, host = (pd.read_csv(path) for path in paths)
    if example.host_columns is not None:
        host = host[[example.identifier, *example.host_columns]]
    random = np.random.default_rng(0)
    for name, table in (("guest", guest), ("host", host.sample(frac=1, random_state=0))):
        table[random.random(len(table)) > 0.02].to_csv(folder / f"{name}.csv", index=False)
    return True


def command(folder: Path, *arguments: str) -> str:
    """Run a command of the guest, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "veilboost", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"veilboost {' '.join(arguments)}: {done.stderr}")
    return done.stdout


@contextmanager
def host_process(folder: Path, identifier: str) -> Iterator[int]:
    """The host's server; gives its port."""
    arguments = ["serve", "vertical", "--data", "host.csv", "--id", identifier, "--tls", "certs/host"]
    arguments += ["--allow", "guest", "--listen", "127.0.0.1:0", "--models", "host-models", "--allow-export"]
    # By default a server gives no statistics of nodes of fewer than 10 rows: its columns do not split those.
    arguments += ["--min-node-rows", "1"]
    # On a few hundred rows, their statistics are more per row than a server gives by default.
    arguments += ["--max-statistics", "inf", "--max-thresholds", "inf"]
    with open(folder / "host.log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "veilboost", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening"):
            raise SystemExit((folder / "host.log").read_text())
        yield int(line.rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.wait()


def pooled(
    example: Example, folder: Path, ids: list[str], rounds: int
) -> tuple[xgboost.Booster, xgboost.DMatrix]:
    """XGBoost on the columns of both files, joined by the ids in the order of the alignment; and the rows."""
    tables = [
        pd.read_csv(folder / f"{name}.csv", dtype={example.identifier: str}, index_col=example.identifier)
        for name in ("guest", "host")
    ]
    guest, host = (table.loc[ids] for table in tables)
    own = guest.drop(columns=example.label)
    X = np.hstack([own.to_numpy(np.float32), host.to_numpy(np.float32)])
    data = xgboost.QuantileDMatrix(X, label=guest[example.label], max_bin=PARAMETERS["max_bin"])
    return xgboost.train({"objective": example.objective, **PARAMETERS}, data, rounds), xgboost.DMatrix(X)


def run(name: str, example: Example, folder: Path, rounds: int, cipher: str) -> dict[str, Any]:
    """Certificates, server, alignment, training, prediction, export; then the comparison."""
    for party in ("guest", "host"):
        command(folder, "certs", party)
    with host_process(folder, example.identifier) as port:
        text = PLAN.format(example=example, port=port, rounds=rounds, cipher=cipher, parameters=PARAMETERS)
        (folder / "plan.toml").write_text(text)
        begin = time.perf_counter()
        say(f"{name}: {command(folder, 'align', 'plan.toml').strip()}")
        aligned = time.perf_counter()
        say(f"{name}: {command(folder, 'train', 'plan.toml').strip()}")
        trained = time.perf_counter()
        alignment = xgb_fed.Alignment.load(folder / "aligned.ids")
        model = xgb_fed.VerticalModel.load(folder / "model")
        host = xgb_fed.RemoteParty(
            f"127.0.0.1:{port}", folder / "certs" / "guest", "host", 60, row_sets=[alignment.digest]
        )
        try:
            ours = model.export_booster([host])
        finally:
            host.close()
        command(folder, "predict", "plan.toml", "--data", "guest.csv", "--out", "predictions.csv")
    ids = list(alignment.ids)
    theirs, rows = pooled(example, folder, ids, rounds)
    trees = list(zip(model_content(ours).trees, model_content(theirs).trees, strict=True))
    differing = [compare(a, b, PARAMETERS) for a, b in trees]
    told = pd.read_csv(folder / "predictions.csv", dtype={"id": str}, index_col="id").loc[ids]
    difference = np.abs(told.iloc[:, -1].to_numpy() - theirs.predict(rows)).max()
    return {
        "data": name,
        "rows": len(ids),
        "columns": rows.num_col(),
        "equal trees": sum(not nodes for nodes, _ in differing),
        "trees": len(trees),
        "largest leaf difference": max(worst for _, worst in differing),
        "largest prediction difference": float(difference),
        "align, s": aligned - begin,
        "train, s": trained - aligned,
        "load average": load_average(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--cipher", choices=("paillier", "okamoto-uchiyama"), default="okamoto-uchiyama")
    parser.add_argument("--only", nargs="+", choices=EXAMPLES, default=list(EXAMPLES))
    parser.add_argument("--json", type=Path, default=Path("out/fate_examples.json"))
    arguments = parser.parse_args()
    results = []
    for name in arguments.only:
        with tempfile.TemporaryDirectory(prefix="veilboost-fate-") as folder:
            if not write_files(EXAMPLES[name], Path(folder)):
                say(f"{name}: VEILBOOST_DATA names no folder with its files: left out")
                continue
            result = run(name, EXAMPLES[name], Path(folder), arguments.rounds, arguments.cipher)
        verdict = "EQUAL" if result["equal trees"] == result["trees"] else "DIFFERENT"
        say(f"{name}: {result['equal trees']} of {result['trees']} trees, {verdict} to pooled XGBoost")
        results.append(result)
    if results:
        rows = [tuple(result.values()) for result in results]
        print_table(f"veilboost train against pooled xgboost {xgboost.__version__}", tuple(results[0]), rows)
    write_json(arguments.json, {"machine": machine(os.cpu_count() or 1), "results": results})
    if any(result["equal trees"] != result["trees"] for result in results):
        raise SystemExit("DIFFERENT from pooled XGBoost")


if __name__ == "__main__":
    main()
