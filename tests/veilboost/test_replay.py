"""The command repeats a party's side of a run from its folder and its file of rows."""

import csv
import json

import numpy as np
import pytest

import lgb_dp
from lgb_dp import federated
from veilboost import command_line as cli
from veilboost.plans.declared import read_declared
from veilboost.replay import DIFFERS

pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning"),
    pytest.mark.filterwarnings("ignore::lgb_dp.errors.FewPartiesWarning"),
]
NAMES = ("north", "south")
DECLARED = """label = "ill"
[bounds]
age = [0.0, 100.0]
"""
SERVED = """method = "private"
data = "north.csv"
declared = "columns.toml"
tls = "certs"
allow = ["acme"]
party = ["sha256:00"]
models = "north"
auditable = true
"""


def write_rows(path, seed):
    random = np.random.default_rng(seed)
    age = random.uniform(0, 100, 80).round(1)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "ill"])
        writer.writerows(zip(age, (age > 50).astype(int), strict=True))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files of two parties, and their folders after a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "columns.toml").write_text(DECLARED)
    declared = read_declared("columns.toml")
    parties = []
    for seed, name in enumerate(NAMES):
        write_rows(tmp_path / f"{name}.csv", seed)
        rows = declared.table_of(f"{name}.csv")
        parties.append(
            federated.Party(
                rows.features, rows.label, name=name, folder=name, auditable=True, **declared.arguments()
            )
        )
    trainer = lgb_dp.NewtonBoost(5.0, 1e-5)
    federated.train({"objective": "binary", "max_depth": 2}, parties, 2, callbacks=[trainer])
    for party in parties:
        party.close()
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_a_party_with_rows_is_repeated(folder, name, capsys):
    asked = ["replay", name, "private", "--data", f"{name}.csv", "--declared", "columns.toml"]
    assert cli.main(asked) == 0
    assert "everything agrees" in capsys.readouterr().out
    assert cli.main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["has_ended"]


def test_other_rows_are_a_difference(folder, capsys):
    asked = ["replay", "north", "private", "--data", "south.csv", "--declared", "columns.toml"]
    assert cli.main(asked) == DIFFERS
    assert "DIFFERS: " in capsys.readouterr().out


def test_what_cannot_be_repeated_is_wrong_use(folder, capsys):
    asked = ["replay", "north", "private", "--declared", "columns.toml"]
    assert cli.main(asked) == cli.WRONG_USE
    assert "--data is missing" in capsys.readouterr().err
    assert cli.main([*asked, "--data", "north.csv", "--run", "00"]) == cli.WRONG_USE
    assert "run='00'" in capsys.readouterr().err


def test_the_rows_are_those_of_the_file_that_a_party_is_served_by(folder):
    (folder / "served.toml").write_text(SERVED)
    assert cli.main(["replay", "north", "served.toml"]) == 0
