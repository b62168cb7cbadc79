"""Private training with columns apart by the command: as the documentation writes it, and what is refused."""

import contextlib
import csv
import json
import re
import subprocess
import sys
import threading
import time

import lightgbm
import numpy as np
import pandas as pd
import pytest
import yaml

import lgb_dp
from gbdt_commons.errors import VeilboostError
from gbdt_parties.errors import InvalidDataError
from lgb_dp.federated import read_ledger
from lgb_dp.vertical.prediction.answers import LEVELS, nearest_points, predictions
from lgb_dp.vertical.prediction.models import JointModel
from private_hospitals import DOCS, Written, written
from veilboost import command_line as cli
from veilboost.plans.declared import read_declared, read_declared_columns, rows_to_align
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import read_served
from veilboost.running import private_columns
from written_plans import read

pytest.importorskip("pyarrow")
pytest.importorskip("grpc")
PAGE = DOCS / "private-columns.md"


def write_rows(folder, n_rows=400):
    """Clients of both organisations, in another order at each, and some that only one has."""
    random = np.random.default_rng(1)
    age, debt = random.integers(18, 100, n_rows), random.integers(0, 50_000, n_rows)
    income, sector = random.integers(0, 10_000, n_rows), random.choice(["public", "trade", "farming"], n_rows)
    default = (debt / 50_000 - income / 10_000 + random.normal(size=n_rows) / 4 > 0).astype(int)
    clients = [f"secret-{k:04d}" for k in range(n_rows)]

    def write(name, rows, **columns):
        with open(folder / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["client", *columns])
            writer.writerows([clients[k], *(values[k] for values in columns.values())] for k in rows)

    write("acme.csv", range(n_rows - 20), debt=debt, age=age, default=default)
    write("bank.csv", range(n_rows - 1, 30, -1), sector=sector, income=income)
    write("new.csv", range(50), debt=debt, age=age, sector=sector, income=income)
    write("acme-new.csv", range(50), debt=debt, age=age)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    for command in written(PAGE)[1]:
        if command.startswith("certs"):
            assert cli.main(command.split()) == 0
    prints = dict(re.findall(r"by name \((\w+)\) or as (sha256:\w+)", capsys.readouterr().out))
    assert list(prints) == ["acme", "bank"]
    made = Written(tmp_path, prints, page=PAGE)
    yield made
    made.stop()


def predictions_of(text, path):
    """Probabilities of a model: exact ones, and those at the nearest public points of the bank's part."""
    model, table = JointModel(text, 2, (0.0, 1.0)), pd.read_csv(path, index_col="client")
    booster = lgb_dp.DPBooster(model_str=text)
    own, score = model.first_part(table[["debt", "age"]]), booster.predict(table, raw_score=True)
    at_points = own + np.array(model.points)[nearest_points(score - own, model.points)]
    return booster.predict(table), predictions(at_points, model.scale)


def test_two_processes_as_written(run, capsys):
    folder = run.folder
    run.serve(0)
    (doctor,), (train,), (ask, predict) = map(run.of, ("doctor", "train", "predict"))
    (ledger, own_ledger), (inspect,) = map(run.of, ("ledger", "inspect"))
    cli.main(doctor)
    # Unless kernels are not compiled yet on this machine.
    assert re.search(r"^(ready|first to mend: kernels: .*)$", capsys.readouterr().out, re.M)

    assert cli.main(train) == 0
    line = "24 trees with 2 parties: model; epsilon = 1, delta = 1e-05 (add or remove one row)"
    assert line in capsys.readouterr().out
    assert line in PAGE.read_text()
    text = (folder / "model" / "model.txt").read_text()
    report = lgb_dp.privacy_of(text)
    assert 0.9 < report.epsilon <= 1.0
    assert any("towards the other party" in note for note in report.notes)
    booster = lightgbm.Booster(model_str=text)
    assert (booster.num_trees(), booster.num_feature()) == (24, 4)
    assert not list((folder / "checkpoint").iterdir())
    (kept,) = folder.glob("bank/models/*.txt")
    assert kept.read_text() == text

    assert cli.main(["models", "bank"]) == 0
    assert f"acme                  {kept.stem}   whole" in capsys.readouterr().out

    assert cli.main(["export", "plan.toml"]) == 0
    assert "LightGBM's own model already: model/model.txt" in capsys.readouterr().out
    assert cli.main(predict) == 0
    assert "50 of 50 rows predicted: predictions.csv" in capsys.readouterr().out
    rows = list(csv.DictReader((folder / "predictions.csv").open()))
    assert rows[3]["id"] == "secret-0003"
    exact, at_points = predictions_of(text, folder / "new.csv")
    whole = np.array([float(row["prediction"]) for row in rows])
    np.testing.assert_allclose(whole, exact, atol=1e-6)
    assert np.ptp(whole) > 0

    # With acme's columns alone, the bank answers about the rows that it has, once for each row and model.
    for _ in range(2):
        assert cli.main(ask) == 0
        assert "19 of 50 rows predicted: asked.csv" in capsys.readouterr().out
    asked = {row["id"]: float(row["prediction"]) for row in csv.DictReader((folder / "asked.csv").open())}
    assert list(asked) == [f"secret-{k:04d}" for k in range(31, 50)]
    np.testing.assert_allclose(list(asked.values()), at_points[31:], rtol=0, atol=0.5 / LEVELS + 1e-6)
    assert cli.main(ledger) == 0
    assert "budget: epsilon = 1.4, delta = 1e-05" in capsys.readouterr().out
    assert cli.main(own_ledger) == 0
    shown = capsys.readouterr().out
    assert "budget: epsilon = 2, delta = 1e-05" in shown
    assert "label counts" in shown
    for record in (inspect, ["inspect", "record.jsonl"]):
        assert cli.main(record) == 0
        shown = capsys.readouterr().out
        assert re.search(r"bank +acme +Flights +\d+", shown)
        # Questions about rows leave traces at both.
        assert re.search(r"(acme|active) +bank +Tables +1 ", shown)

    # A model is not replaced unasked, a second run fits into the budget, and a third does not.
    assert cli.main(train) == cli.WRONG_USE
    assert cli.main([*train, "--overwrite"]) == 0
    assert (folder / "model" / "model.txt").read_text() != text
    capsys.readouterr()
    assert cli.main([*train, "--overwrite"]) == cli.REFUSED
    shown_last = capsys.readouterr().err
    assert "of the party's budget" in shown_last
    assert "'s budget (epsilon = 1.4, " in shown_last
    log = (folder / "bank.log").read_text()
    assert "acme: OpenColumns" in log
    assert "secret" not in log + (folder / "bank" / "record.jsonl").read_text()


def test_either_side_of_a_run_by_the_command_can_be_repeated_by_an_auditor(run, capsys):
    plan = run.folder / "plan.toml"
    plan.write_text(plan.read_text().replace("[data]\n", "[data]\nauditable = true\n"))
    plan.write_text(plan.read_text().replace("rounds = 24", "rounds = 4"))
    run.serve(0, "--auditable")
    (train,) = run.of("train")
    assert cli.main(train) == 0
    run.stop()
    capsys.readouterr()
    (aligned,) = run.folder.glob("bank/for-acme/rows/*.ids")
    rows = ["--data", "bank.csv", "--declared", "bank-columns.toml", "--id", "client"]
    for asked in (["party", "plan.toml", "--aligned", str(aligned)], ["bank", "private-columns", *rows]):
        assert cli.main(["replay", *asked, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["rounds"], report["has_ended"], report["difference"]) == (1, True, None)
    assert cli.main(["replay", "party", "plan.toml"]) == cli.WRONG_USE
    assert "--aligned is missing" in capsys.readouterr().err


def test_the_budget_of_the_party_with_the_labels_is_kept_over_runs(run, capsys):
    """Each party counts for itself: a party whose budget is spent asks nothing of the other one."""
    plan = run.folder / "plan.toml"
    plan.write_text(plan.read_text().replace("budget_epsilon = 2.0", "budget_epsilon = 1.1"))
    run.serve(0)
    (train,) = run.of("train")
    assert cli.main(train) == 0
    asked = (run.folder / "bank" / "record.jsonl").read_text()
    capsys.readouterr()
    assert cli.main([*train, "--overwrite"]) == cli.WRONG_USE
    assert "of the party's budget (epsilon = 1.1, delta = 1e-05)" in capsys.readouterr().err
    assert (run.folder / "bank" / "record.jsonl").read_text() == asked
    # As without entries of a budget, which is that of the first run then.
    plan.write_text(plan.read_text().replace("budget_epsilon = 1.1\nbudget_delta = 1e-5\n", ""))
    assert cli.main([*train, "--overwrite"]) == cli.WRONG_USE
    assert "epsilon = 1.1" in capsys.readouterr().err


def answers_in(folder):
    """Attempts whose noise may have left, by a party's ledger."""
    with contextlib.suppress(VeilboostError, OSError):
        return sum(row["answers"] for row in read_ledger(folder).rows if row["release"] == "leaf sums")
    return 0


def once_charged(folder, n_answers, strike):
    """Do something in another thread once a ledger has so many answers."""

    def wait():
        end = time.monotonic() + 300
        while time.monotonic() < end and answers_in(folder) < n_answers:
            time.sleep(0.002)
        strike()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bank", "acme"])
def test_killed_processes_go_on(run, capsys, who):
    folder = run.folder
    plan = folder / "plan.toml"
    plan.write_text(plan.read_text().replace("rounds = 24", "rounds = 80"))
    run.serve(0)
    (train,) = run.of("train")
    if who == "bank":

        def strike():
            run.servers[0].kill()
            run.servers[0].wait()
            run.serve(0)

        thread = once_charged(folder / "party", 2, strike)
    else:
        active = subprocess.Popen([sys.executable, "-m", "veilboost", *train])
        try:
            once_charged(folder / "party", 2, active.kill).join(330)
            assert active.wait(60) == -9
        finally:
            active.kill()
        thread = None
    assert cli.main(train) == 0
    if thread is not None:
        thread.join(300)
    shown = capsys.readouterr()
    assert "80 trees with 2 parties" in shown.out
    assert "unavailable" in shown.err or who == "acme"
    (kept,) = folder.glob("bank/models/*.txt")
    assert kept.read_text() == (folder / "model" / "model.txt").read_text()
    # Twenty rounds, and at most one attempt that was abandoned: it stays charged.
    assert 20 <= answers_in(folder / "bank") <= 21


PLAN = {
    "method": "private-columns",
    "tls": "certs/acme",
    "data": {"file": "acme.csv", "declared": "acme.toml", "id": "client", "allowed": ["sha256:0"]},
    "parties": [{"name": "bank", "address": "h:1"}],
    "training": {"epsilon": 1.0, "delta": 1e-5},
}


def test_a_plan_with_the_least_entries(tmp_path):
    plan = read(tmp_path, PLAN)
    assert plan.method == "private-columns"
    assert (plan.training.epsilon, plan.training.rounds, plan.training.trees_per_round) == (1.0, 200, 4)
    assert (plan.data.file, plan.data.allowed) == ("acme.csv", ["sha256:0"])


def without(name):
    return {"data": {key: value for key, value in PLAN["data"].items() if key != name}}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"data": None}, "data.*table"),
        (without("file"), "data: file is missing"),
        (without("declared"), "data: declared is missing"),
        (without("allowed"), "data: allowed is missing"),
        ({"data": {**PLAN["data"], "allowed": []}}, "data.allowed is empty"),
        ({"data": {**PLAN["data"], "label": "y"}}, "unknown entry 'label'"),
        (
            {"data": {**PLAN["data"], "budget_delta": 1e-5}},
            "budget_epsilon and data.budget_delta go together",
        ),
        ({"training": {"delta": 1e-5}}, "training: epsilon is missing"),
        ({"training": {**PLAN["training"], "trees_per_round": 0}}, "trees_per_round=0 must be at least 1"),
        ({"training": {**PLAN["training"], "early_stopping_rounds": 5}}, "early_stopping_rounds is not for"),
        ({"training": {**PLAN["training"], "colluding": 1}}, "unknown entry 'colluding'"),
        (
            {"parties": [{"name": name, "address": "h:1"} for name in ("bank", "shop")]},
            "parties has 2 parties",
        ),
    ],
)
def test_entries_that_make_no_plan_are_named(tmp_path, change, text):
    with pytest.raises(PlanError, match=text):
        read(tmp_path, {**PLAN, **change})


SERVED = {
    **{"method": "private-columns", "data": "bank.csv", "declared": "bank-columns.yaml", "id": "client"},
    **{"tls": "certs/bank", "allow": ["acme"], "party": ["sha256:0"], "budget": [1.5, 1e-5]},
}


def test_a_served_partys_file(tmp_path):
    path = tmp_path / "bank.yaml"
    path.write_text(yaml.safe_dump(SERVED))
    method, served = read_served(path)
    assert method == "private-columns"
    assert served.epsilon_and_delta == (1.5, 1e-5)
    assert served.declared == str(tmp_path / "bank-columns.yaml")
    path.write_text(yaml.safe_dump({**SERVED, "budget": [1.5]}))
    with pytest.raises(PlanError, match="two numbers, epsilon"):
        read_served(path)


DECLARED = {"bounds": {"age": [0, 100]}, "categories": {"sex": ["f", "m"]}, "max_bin": 16}


def test_columns_alone_are_declared_without_a_label(tmp_path):
    path = tmp_path / "columns.yaml"
    path.write_text(yaml.safe_dump(DECLARED))
    (tmp_path / "bank.csv").write_text("client,sex,age\n007,f,30\n7,,50\n")
    declared = read_declared_columns(path)
    rows = declared.table_of(tmp_path / "bank.csv", id_column="client")
    assert rows.features.column_names == ["age", "sex"]
    assert (rows.ids, rows.label, rows.own) == (["007", "7"], None, {})
    assert np.array_equal(rows.features.column("age").to_numpy(), [30, 50])
    assert declared.arguments() == {
        **{"bounds": {"age": (0, 100)}, "categories": {"sex": ["f", "m"]}},
        **{"max_bin": 16, "spacing": "mixed"},
    }


@pytest.mark.parametrize("name", ["label", "weight", "groups", "label_bounds"])
def test_columns_alone_have_neither_labels_nor_weights(tmp_path, name):
    path = tmp_path / "columns.yaml"
    path.write_text(yaml.safe_dump({**DECLARED, name: "y"}))
    with pytest.raises(PlanError, match=f"unknown entry '{name}'"):
        read_declared_columns(path)


@pytest.mark.parametrize(("ids", "text"), [("a\na", "1 ids occur"), ("a\n ", "id of row 2")])
def test_ids_that_cannot_be_aligned_are_refused(tmp_path, ids, text):
    (tmp_path / "columns.yaml").write_text(yaml.safe_dump(DECLARED))
    first, second = ids.split("\n")
    (tmp_path / "bank.csv").write_text(f"client,sex,age\n{first},f,30\n{second},m,50\n")
    declared = read_declared_columns(tmp_path / "columns.yaml")
    with pytest.raises(InvalidDataError, match=text):
        rows_to_align(declared, tmp_path / "bank.csv", "client")


def test_weights_are_refused_by_name(tmp_path):
    (tmp_path / "acme.yaml").write_text(
        yaml.safe_dump({"label": "y", "bounds": {"age": [0, 100]}, "weight": "w", "weight_bound": 2.0})
    )
    (tmp_path / "acme.csv").write_text("client,age,y,w\na,30,1,1\nb,50,0,2\n")
    declared = read_declared(tmp_path / "acme.yaml")
    with pytest.raises(InvalidDataError, match="columns apart"):
        rows_to_align(declared, tmp_path / "acme.csv", "client")


def test_align_says_that_train_aligns(tmp_path, capsys):
    read(tmp_path, PLAN)
    assert cli.main(["align", str(tmp_path / "plan.yaml")]) == cli.WRONG_USE
    assert "veilboost train aligns the rows itself" in capsys.readouterr().err


def test_a_model_of_several_classes_asks_no_party_about_rows():
    """Refused before anything else is done: rows that are aligned tell the other party which they are."""
    model = lightgbm.train(
        {"objective": "multiclassova", "num_class": 3, "verbosity": -1},
        lightgbm.Dataset(np.arange(60.0)[:, None], np.arange(60) % 3),
        1,
    )
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="booster has 3 classes"):
        private_columns.ask_parties(None, model, None)
