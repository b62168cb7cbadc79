"""Exact training by the command, as the documentation writes it, and what is refused before it begins."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import xgboost

from deployment import when_store_has
from gbdt_parties.run.log import ENTRIES
from gbdt_parties.run.progress import STORE_FILE
from private_hospitals import DOCS, Written, written
from veilboost import command_line as cli
from veilboost.plans.entries import PlanError
from written_plans import read

pytest.importorskip("pyarrow")
pytest.importorskip("grpc")
PAGE = DOCS / "horizontal-exact.md"
NAMES = ("acme", "north", "south")


def write_rows(path, n_rows, seed, labelled=True):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4)).round(3)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + random.normal(size=n_rows) / 2 > 0).astype(int)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        head = ["patient", *(f"x{k}" for k in range(4)), *(["ill"] if labelled else [])]
        writer.writerow(head)
        for k in range(n_rows):
            row = [f"secret-{k:04d}", *X[k], *([y[k]] if labelled else [])]
            writer.writerow(row)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed, (name, n_rows) in enumerate([("acme", 80), ("acme-valid", 40), ("north", 90)]):
        write_rows(tmp_path / f"{name}.csv", n_rows, seed)
    write_rows(tmp_path / "north-valid.csv", 50, 3)
    write_rows(tmp_path / "south.csv", 100, 4)
    write_rows(tmp_path / "new.csv", 30, 5, labelled=False)
    for command in written(PAGE)[1]:
        if command.startswith("certs"):
            assert cli.main(command.split()) == 0
    prints = dict(re.findall(r"by name \((\w+)\) or as (sha256:\w+)", capsys.readouterr().out))
    assert list(prints) == list(NAMES)
    made = Written(tmp_path, prints, page=PAGE)
    yield made
    made.stop()


def test_three_processes_as_written(run, capsys):
    folder = run.folder
    run.serve(0)
    run.serve(1)
    (train,), (predict,), (inspect,) = map(run.of, ("train", "predict", "inspect"))
    assert cli.main(train) == 0
    shown = capsys.readouterr()
    n_rounds = int(re.search(r"(\d+) rounds with 3 parties: model", shown.out).group(1))
    assert "best round" in shown.err
    lines = re.findall(r"tree (\d+) of \d+, validation_0-logloss:0\.\d{5}, .+ left", shown.err)
    assert lines == [str(k) for k in range(1, n_rounds + 1)]
    text = (folder / "model" / "model.json").read_bytes()
    assert not list((folder / "checkpoint").iterdir())
    for name in ("north", "south"):
        (kept,) = folder.glob(f"{name}/for-acme/models/*.json")
        assert xgboost.Booster(model_file=kept).num_boosted_rounds() == n_rounds
        assert kept.read_bytes() == text
        assert not list(folder.glob(f"{name}/for-acme/exact/*"))
    assert cli.main(predict) == 0
    with open("predictions.csv") as file:
        rows = list(csv.DictReader(file))
    assert rows[3]["id"] == "secret-0003"
    best = json.loads(text)["learner"]["attributes"]["best_iteration"]
    X = np.genfromtxt("new.csv", delimiter=",", skip_header=1)[:, 1:].astype(np.float32)
    booster = xgboost.Booster(model_file=folder / "model" / "model.json")
    data = xgboost.DMatrix(X, feature_names=booster.feature_names)
    expected = booster.predict(data, iteration_range=(0, int(best) + 1))
    assert np.allclose([float(row["prediction"]) for row in rows], expected, atol=1e-6)
    assert cli.main(inspect) == 0
    assert re.search(r"north +acme +Contributed +\d+", capsys.readouterr().out)

    assert cli.main(["status", "north", "plan.toml", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "1 for acme alone" in shown
    assert '"seen": "none under way"' in shown
    assert '"check": "max_rounds of all callers"' in shown

    assert cli.main(train) == cli.WRONG_USE
    logs = "".join((folder / f"{name}.log").read_text() for name in ("north", "south"))
    assert "acme: OpenExactRun" in logs
    assert "acme starts a training run" in logs
    assert "secret" not in logs + (folder / "north" / "record.jsonl").read_text()


def test_every_side_of_a_run_by_the_command_can_be_repeated_by_an_auditor(run, capsys):
    plan = run.folder / "plan.toml"
    plan.write_text(plan.read_text().replace("[data]\n", "[data]\nauditable = true\n"))
    run.serve(0, "--auditable")
    run.serve(1)
    (train,) = run.of("train")
    assert cli.main(train) == 0
    run.stop()
    capsys.readouterr()
    how = ["--label", "ill", "--id", "patient", "--categorical-labels", "--valid", "north-valid.csv"]
    of_north = ["replay", "north", "exact", "--data", "north.csv", *how]
    for asked in (["replay", "party", "plan.toml"], of_north):
        assert cli.main([*asked, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["has_ended"], report["difference"]) == (True, None)
    assert cli.main(["replay", "south", "exact", "--data", "south.csv", *how]) == cli.WRONG_USE
    assert "run=None" in capsys.readouterr().err
    (kept,) = run.folder.glob("north/for-acme/models/*.json")
    assert cli.main(["models", "north", "--remove", kept.stem]) == 0
    assert cli.main(of_north) == cli.WRONG_USE


def test_times_are_two_columns_of_a_file(run, capsys):
    random = np.random.default_rng(6)
    for path in run.folder.glob("*.csv"):
        head, *lines = path.read_text().splitlines()
        stays = random.exponential(9, len(lines)).round(2)
        ends = [f"{stay + 0.01}" if k % 3 else "" for k, stay in enumerate(stays)]
        rows = [f"{line},{stay + 0.01},{end}" for line, stay, end in zip(lines, stays, ends, strict=True)]
        path.write_text("\n".join([f"{head},stay,left", *rows]) + "\n")
    plan = run.folder / "plan.toml"
    times = 'label = "stay,left"\nlabels = "numbers"\ndrop = ["ill"]\n'
    text = plan.read_text().replace('label = "ill"\n', times)
    plan.write_text(text.replace('eval_metric = "logloss"', 'objective = "survival:aft"'))
    for command in run.of("serve"):
        command[command.index("ill")] = "stay,left"
        command += ["--drop", "ill"]
        command.remove("--categorical-labels")
    run.serve(0)
    run.serve(1)
    (train,) = run.of("train")
    assert cli.main(train) == 0
    assert cli.main(["doctor", "plan.toml"]) == 0
    assert "validation_0-aft-nloglik" in capsys.readouterr().err
    model = json.loads((run.folder / "model" / "model.json").read_text())
    assert model["learner"]["objective"]["name"] == "survival:aft"
    assert "left" not in model["learner"]["feature_names"]


@pytest.mark.slow
@pytest.mark.parametrize("n_sums", [1, 20, 60])
def test_killed_servers_and_coordinators_go_on(run, capsys, n_sums):
    folder = run.folder
    run.serve(0)
    run.serve(1)
    (train,) = run.of("train")
    assert cli.main(train) == 0
    expected = (folder / "model" / "model.json").read_bytes()

    def strike():
        run.servers[0].kill()
        run.servers[0].wait()
        run.serve(0)

    thread = when_store_has(folder / "checkpoint" / STORE_FILE, ENTRIES, n_sums, strike)
    assert cli.main([*train, "--overwrite"]) == 0
    thread.join(300)
    assert (folder / "model" / "model.json").read_bytes() == expected
    coordinator = subprocess.Popen([sys.executable, "-m", "veilboost", *train, "--overwrite"])
    try:
        when_store_has(folder / "checkpoint" / STORE_FILE, ENTRIES, n_sums, coordinator.kill).join(330)
        assert coordinator.wait(60) == -9
    finally:
        coordinator.kill()
    run.servers[1].kill()
    run.servers[1].wait()
    run.serve(1)
    assert cli.main([*train, "--overwrite"]) == 0
    assert (folder / "model" / "model.json").read_bytes() == expected
    assert "resumes after" in capsys.readouterr().err


PLAN = {
    "method": "exact",
    "tls": "certs",
    "parties": [{"name": "north", "address": "h:1"}, {"name": "south", "address": "h:2"}],
}


def test_a_plan_without_own_rows(tmp_path):
    plan = read(tmp_path, {**PLAN, "training": {"early_stopping_rounds": 5}})
    assert plan.method == "exact"
    assert (plan.training.cuts, plan.training.min_rows_per_node, plan.data.file) == ("grid", 10, None)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"data": {"file": "a.csv", "label": "y"}}, "data.file needs data.allowed"),
        ({"data": {"file": "a.csv", "allowed": ["sha256:0"]}}, "data.label is missing"),
        ({"data": {"valid": "a.csv", "label": "y"}}, "data.valid needs data.file"),
        ({"data": {"auditable": True}}, "data.auditable needs data.file"),
        ({"data": {"name": "own"}}, "unknown entry 'name'"),
        ({"data": {"labels": "texts"}}, "data.labels='texts'"),
        ({"training": {"cuts": "given"}}, "training.cuts='given'"),
        ({"training": {"n_hashes": 3}}, "unknown entry 'n_hashes'"),
        ({"parties": PLAN["parties"][:1]}, "training needs"),
    ],
)
def test_what_makes_no_plan_of_exact_training(tmp_path, change, text):
    with pytest.raises(PlanError, match=text):
        read(tmp_path, {**PLAN, **change})
