"""SimFL by the command: servers of horizontal parties, a coordinator with own rows, kills and resumption."""

import csv
import re
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
import xgboost

from deployment import when_store_has
from gbdt_commons.store_file import StoreFile
from gbdt_parties.run.log import ENTRIES
from two_hospitals import serving_hospitals, write_rows
from veilboost import command_line as cli
from xgb_fed.horizontal.simfl.checkpoint import SimFLCheckpoint
from xgb_fed.horizontal.simfl.disclosures import TOLD

pytest.importorskip("pyarrow")
PLAN = """
method = "simfl"
tls = "certs/acme"
[data]
file = "acme.csv"
id = "patient"
label = "ill"
valid = "valid.csv"
[[parties]]
name = "north"
address = "127.0.0.1:{north}"
[[parties]]
name = "south"
address = "127.0.0.1:{south}"
[training]
rounds = {rounds}
timeout = 60.0
patience = {patience}
[parameters]
max_depth = 3
learning_rate = 0.3
subsample = 0.8
eval_metric = "logloss"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, (name, n_rows) in enumerate([("acme", 80), ("valid", 40), ("north", 90), ("south", 100)]):
        write_rows(tmp_path / f"{name}.csv", n_rows, seed, ids=name in ("acme", "valid"))
    for name in ("acme", "north", "south"):
        assert cli.main(["certs", name]) == 0
    return tmp_path


def write_plan(folder, hospitals, rounds=30, patience=60.0):
    ports = {hospital.name: hospital.port for hospital in hospitals}
    (folder / "plan.toml").write_text(PLAN.format(**ports, rounds=rounds, patience=patience))


def test_serve_train_kill_resume_predict(folder, capsys):
    """The model after a kill is the undisturbed one: parties answer the same, whenever they are asked."""
    with serving_hospitals(folder, "north", "south") as hospitals:
        write_plan(folder, hospitals)
        assert cli.main(["train", "plan.toml"]) == 0
        shown = capsys.readouterr()
        assert "30 rounds with 3 parties: model" in shown.out
        assert "labels can" not in shown.out
        assert "heuristic" in shown.err
        assert re.search(r"tree 30 of 30, valid-logloss:0\.\d+, 0 s left", shown.err)
        expected = (folder / "model" / "model.json").read_bytes()
        assert not list((folder / "checkpoint").iterdir())
        assert cli.main(["train", "plan.toml"]) == cli.WRONG_USE
        assert "holds a model" in capsys.readouterr().err

        def strike():
            hospitals[0].kill()
            hospitals[0].start()

        thread = when_store_has(folder / "checkpoint" / SimFLCheckpoint.store_file, ENTRIES, 5, strike)
        assert cli.main(["train", "plan.toml", "--overwrite"]) == 0
        thread.join(300)
        assert (folder / "model" / "model.json").read_bytes() == expected
        assert "going on after" in capsys.readouterr().err
        assert "the training run resumes after" in (folder / "north.log").read_text()

        # Every party has the model.
        for name in ("north", "south"):
            kept = {path.read_bytes() for path in folder.glob(f"{name}-models/for-acme/models/*.json")}
            assert kept == {expected}
        assert cli.main(["models", "north-models"]) == 0
        shown = capsys.readouterr().out
        assert "models: 2" in shown
        (number, _) = re.findall(r"acme +([0-9a-f]{32}) +whole", shown)
        assert cli.main(["models", "north-models", "--remove", number]) == 0
        assert not list(folder.glob(f"north-models/**/{number}*"))

    # Nobody is asked for a prediction.
    assert cli.main(["predict", "plan.toml", "--data", "valid.csv", "--out", "out.csv"]) == 0
    assert "40 of 40 rows predicted: out.csv" in capsys.readouterr().out
    with open("out.csv") as file:
        predicted = np.array([float(row["prediction"]) for row in csv.DictReader(file)])
    X = np.genfromtxt("valid.csv", delimiter=",", skip_header=1)[:, 1:6].astype(np.float32)
    booster = xgboost.Booster(model_file=folder / "model" / "model.json")
    names = booster.feature_names
    assert names == [f"x{k}" for k in range(5)]
    assert np.allclose(predicted, booster.predict(xgboost.DMatrix(X, feature_names=names)), atol=1e-6)
    assert cli.main(["inspect", "north-models/record.jsonl"]) == 0
    assert re.search(r"north +acme +AggregatedGradients +\d", capsys.readouterr().out)
    with closing(StoreFile(folder / "north-models" / "horizontal.store", None, read_only=True)) as store:
        told = store.get(TOLD, "")["hashes"]
    assert list(told.values()) == [4]
    assert "secret" not in "".join((folder / f"{name}.log").read_text() for name in ("north", "south"))


@pytest.mark.slow
@pytest.mark.parametrize("n_rounds", [0, 2, 12])
def test_a_killed_coordinator_goes_on_with_the_same_command(folder, capsys, n_rounds):
    with serving_hospitals(folder, "north", "south") as hospitals:
        write_plan(folder, hospitals)
        assert cli.main(["train", "plan.toml"]) == 0
        expected = (folder / "model" / "model.json").read_bytes()
        coordinator = subprocess.Popen(
            [sys.executable, "-m", "veilboost", "train", "plan.toml", "--overwrite"]
        )
        try:
            checkpoint = folder / "checkpoint" / SimFLCheckpoint.store_file
            when_store_has(checkpoint, ENTRIES, n_rounds, coordinator.kill).join(330)
            assert coordinator.wait(60) == -9
        finally:
            coordinator.kill()
        hospitals[1].kill()
        write_plan(folder, hospitals, patience=0.0)
        assert cli.main(["train", "plan.toml", "--overwrite"]) == cli.UNAVAILABLE
        hospitals[1].start()
        # A call of the killed coordinator may still take one of its places.
        write_plan(folder, hospitals)
        assert cli.main(["train", "plan.toml", "--overwrite"]) == 0
        assert (folder / "model" / "model.json").read_bytes() == expected


@pytest.mark.slow
def test_a_coordinator_that_is_not_allowed_is_refused(folder, capsys):
    assert cli.main(["certs", "eve"]) == 0
    with serving_hospitals(folder, "north") as hospitals:
        # Without south: whichever of a refusal and a loss comes first ends the command.
        start, end = PLAN.index('[[parties]]\nname = "south"'), PLAN.index("[training]")
        plan = (PLAN[:start] + PLAN[end:]).format(north=hospitals[0].port, rounds=30, patience=0.0)
        (folder / "plan.toml").write_text(plan.replace("certs/acme", "certs/eve"))
        assert cli.main(["train", "plan.toml"]) == cli.REFUSED
        assert "'eve' is not an allowed" in capsys.readouterr().err
        vertical = 'tls = "certs/acme"\n[data]\nfile = "acme.csv"\nlabel = "ill"\ndrop = ["patient"]\n'
        vertical += '[[parties]]\nname = "north"\n'
        (folder / "vertical.toml").write_text(vertical + f'address = "127.0.0.1:{hospitals[0].port}"\n')
        assert cli.main(["train", "vertical.toml"]) == cli.REFUSED
