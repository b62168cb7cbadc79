"""Private training by the command, as the documentation writes it, and what is refused before it begins."""

import csv
import re

import lightgbm
import numpy as np
import pandas as pd
import pytest
import yaml

import lgb_dp
from gbdt_parties.errors import InvalidDataError
from private_hospitals import Written, write_rows, written
from veilboost import command_line as cli
from veilboost.plans.declared import Declared, read_declared
from veilboost.plans.entries import PlanError
from written_plans import read

pytest.importorskip("pyarrow")
pytest.importorskip("grpc")
NAMES = ("acme", "north", "south")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(NAMES):
        write_rows(tmp_path / f"{name}.csv", 150, seed)
    write_rows(tmp_path / "new.csv", 40, 9, labelled=False)
    return tmp_path


def certified(capsys):
    """Run the page's first commands; gives the fingerprints that they print."""
    for command in written()[1]:
        if command.startswith("certs"):
            assert cli.main(command.split()) == 0
    shown = capsys.readouterr().out
    prints = re.findall(r"allow it by name \((\w+)\) or as (sha256:\w+)", shown)
    assert [name for name, _ in prints] == list(NAMES)
    return dict(prints)


def test_three_processes_as_written(folder, capsys):
    run = Written(folder, certified(capsys))
    try:
        run.serve(0)
        run.serve(1)
        (train,), (predict,), (ledger,), (inspect,) = map(run.of, ("train", "predict", "ledger", "inspect"))
        assert cli.main(train) == 0
        shown = capsys.readouterr()
        assert "40 trees with 3 parties: model; epsilon = " in shown.out
        assert "add or remove one row at one party" in shown.out
        text = (folder / "model" / "model.txt").read_text()
        assert 0.999 < lgb_dp.privacy_of(text).epsilon <= 1.0
        assert lightgbm.Booster(model_str=text).num_trees() == 40
        assert not list((folder / "checkpoint").iterdir())
        for name in ("north", "south"):
            (kept,) = folder.glob(f"{name}/for-acme/models/*.txt")
            assert kept.read_text() == text
        assert cli.main(["models", "north"]) == 0
        assert re.search(r"acme +[0-9a-f]{32} +whole", capsys.readouterr().out)

        assert cli.main(predict) == 0
        assert "40 of 40 rows predicted: predictions.csv" in capsys.readouterr().out
        rows = list(csv.DictReader((folder / "predictions.csv").open()))
        assert rows[3]["id"] == "secret-9-3"
        new = pd.read_csv(folder / "new.csv", index_col="patient")
        found = np.array([float(row["prediction"]) for row in rows])
        np.testing.assert_allclose(found, lgb_dp.DPBooster(model_str=text).predict(new), atol=1e-6)
        assert np.ptp(found) > 0
        for held in ("north", "party"):
            assert cli.main([*ledger[:1], held]) == 0
            shown = capsys.readouterr().out
            assert re.search(r"leaf sums +40 ", shown)
            assert "budget: epsilon = 1.5, delta = 1e-05 (add or remove one row at one party)" in shown
        assert cli.main(["status", "north", "plan.toml"]) == 0
        assert re.search(r"budget: [01]\.\d+ of epsilon = 1\.5", capsys.readouterr().out)
        assert cli.main(inspect) == 0
        assert re.search(r"north +acme +Contributed +\d+", capsys.readouterr().out)

        # A model is not replaced unasked, a second run fits into the budget, and a third does not.
        assert cli.main(train) == cli.WRONG_USE
        assert cli.main([*train, "--overwrite"]) == 0
        assert (folder / "model" / "model.txt").read_text() != text
        assert cli.main([*train, "--overwrite"]) == cli.REFUSED
        assert "of the party's budget" in capsys.readouterr().err
    finally:
        run.stop()
    logs = "".join((folder / f"{name}.log").read_text() for name in ("north", "south"))
    assert "acme: OpenPrivateRun" in logs
    assert "secret" not in logs + (folder / "north" / "record.jsonl").read_text()


PLAN = {
    "method": "private",
    "tls": "certs",
    "parties": [{"name": "north", "address": "h:1"}, {"name": "south", "address": "h:2"}],
    "training": {"epsilon": 1.0, "delta": 1e-5},
}


def test_every_side_of_a_run_by_the_command_can_be_repeated_by_an_auditor(folder, capsys):
    run = Written(folder, certified(capsys))
    try:
        plan = folder / "plan.toml"
        more = {"[data]\n": "auditable = true\n", "[training]\n": 'validation_fraction = 0.3\nby = "sex"\n'}
        for section, entries in more.items():
            plan.write_text(plan.read_text().replace(section, section + entries))
        run.serve(0, "--auditable")
        run.serve(1)
        (train,) = run.of("train")
        assert cli.main(train) == 0
        assert "held-out rows, sex=f" in capsys.readouterr().out
    finally:
        run.stop()
    of_north = ["replay", "north", "private", "--data", "north.csv", "--declared", "columns.toml"]
    for asked in (["replay", "party", "plan.toml"], of_north):
        assert cli.main(asked) == 0
        assert "everything agrees" in capsys.readouterr().out
    (kept,) = folder.glob("north/for-acme/models/*.txt")
    assert cli.main(["models", "north", "--remove", kept.stem]) == 0
    assert cli.main(of_north) == cli.WRONG_USE


def test_times_are_two_columns_of_a_file(folder, capsys):
    random = np.random.default_rng(3)
    for name in NAMES:
        rows = pd.read_csv(folder / f"{name}.csv")
        rows["stay"] = np.exp(rows.pop("age") / 30 + random.normal(size=len(rows)) / 3)
        rows["left"] = rows["stay"].where(random.random(len(rows)) < 0.7)
        rows.to_csv(folder / f"{name}.csv", index=False)
    run = Written(folder, certified(capsys))
    changes = {
        "columns.toml": {'label = "ill"\n': 'label = "stay,left"\nlabel_bounds = [0.1, 90]\n', "age": "ill"},
        "plan.toml": {
            '"binary"': '"aft_normal(auto)"',
            "[training]\n": "[training]\nvalidation_fraction = 0.3\n",
        },
    }
    for file, pairs in changes.items():
        text = (folder / file).read_text()
        for before, after in pairs.items():
            text = text.replace(before, after)
        (folder / file).write_text(text)
    try:
        run.serve(0)
        run.serve(1)
        assert cli.main(["doctor", "plan.toml"]) == 0
        (train,) = run.of("train")
        assert cli.main(train) == 0
        assert "concordance" in capsys.readouterr().out
    finally:
        run.stop()


def test_a_plan_without_own_rows(tmp_path):
    plan = read(tmp_path, PLAN)
    assert plan.method == "private"
    assert (plan.training.epsilon, plan.training.rounds, plan.data.file) == (1.0, 100, None)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"training": {"delta": 1e-5}}, "training: epsilon is missing"),
        ({"training": {"epsilon": True, "delta": 1e-5}}, "epsilon=True must be float"),
        ({"training": {**PLAN["training"], "early_stopping_rounds": 5}}, "early_stopping_rounds is not for"),
        ({"data": {"file": "a.csv"}}, "data.file needs data.declared and data.allowed"),
        ({"data": {"auditable": True}}, "data.auditable needs data.file"),
        ({"data": {"budget_epsilon": 1.0}}, "budget_epsilon and data.budget_delta go together"),
        ({"data": {"label": "y"}}, "unknown entry 'label'"),
        ({"parties": PLAN["parties"][:1]}, "training needs"),
    ],
)
def test_what_makes_no_plan_of_private_training(tmp_path, change, text):
    with pytest.raises(PlanError, match=text):
        read(tmp_path, {**PLAN, **change})


def test_rows_are_not_aligned(tmp_path, capsys):
    read(tmp_path, PLAN)
    assert cli.main(["align", str(tmp_path / "plan.yaml")]) == cli.WRONG_USE
    assert "rows are not aligned" in capsys.readouterr().err


DECLARED = {"label": "ill", "bounds": {"age": [0, 100]}, "categories": {"sex": ["f", "m"]}}


def test_declared_columns_are_the_features_in_their_order(folder):
    path = folder / "columns.yaml"
    path.write_text(yaml.safe_dump({**DECLARED, "groups": "patient", "rows_per_group": 2}))
    declared = read_declared(path)
    rows = declared.table_of("north.csv")
    assert rows.features.column_names == ["age", "sex"]
    assert rows.own["groups"][2] == "secret-1-2"
    assert set(rows.label) == {0.0, 1.0}
    assert declared.arguments()["bounds"] == {"age": (0, 100)}
    assert declared.table_of("new.csv", id_column="patient", labelled=False).ids[5] == "secret-9-5"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"bound": {}}, "unknown entry 'bound'"),
        ({"bounds": {"age": [0]}}, "bounds of 'age' must be"),
        ({"bounds": {"age": [0, True]}}, "bounds of 'age' must be"),
        ({"label_bounds": [1]}, "bounds of 'label_bounds' must be"),
        ({"categories": {"sex": [0.5]}}, "categories of 'sex' must be"),
        ({"bounds": {"sex": [0, 1]}}, "'sex' has both"),
        ({"bounds": {"ill": [0, 1]}}, "'ill'.*feature as well"),
        ({"max_bin": True}, "max_bin=True must be int"),
        ({"bounds": {}, "categories": {}}, "which columns there are"),
    ],
)
def test_what_is_no_declaration(tmp_path, change, text):
    path = tmp_path / "columns.yaml"
    path.write_text(yaml.safe_dump({**DECLARED, **change}))
    with pytest.raises(PlanError, match=text):
        read_declared(path)


def test_files_that_lack_what_is_declared(folder, capsys):
    declared = Declared(label="ill", bounds={"height": [0, 3]})
    with pytest.raises(InvalidDataError, match="no column 'height'"):
        declared.table_of("north.csv")
    certified(capsys)
    (folder / "columns.yaml").write_text(yaml.safe_dump(DECLARED))
    serve = ["serve", "private", "--declared", "columns.yaml", "--data", "north.csv"]
    serve += ["--tls", "certs/north", "--allow", "acme", "--party", f"sha256:{'a' * 64}"]
    assert cli.main(serve) == cli.WRONG_USE
    assert "--budget is missing: no ledger in models has one" in capsys.readouterr().err


def test_a_declared_column_that_is_there_twice_is_refused(folder):
    path = folder / "twice.csv"
    path.write_text("age,ill,age\n1,0,2\n")
    with pytest.raises(InvalidDataError, match="twice"):
        Declared(label="ill", bounds={"age": [0, 100]}).table_of(path)
