"""The command that writes statements: exact models say that they protect nothing, records add traffic."""

import json

import pytest

import lgb_dp
from stated_models import HOSTILE, made_in
from veilboost.command_line import main
from veilboost.model_statements import statement_of

yaml = pytest.importorskip("yaml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_in(tmp_path_factory.mktemp("models"))


def run(capsys, *args):
    code = main(["statement", *map(str, args)])
    return code, capsys.readouterr()


@pytest.mark.parametrize(
    ("kind", "title"), [("vertical", "columns apart"), ("exact", "rows apart (exact horizontal training)")]
)
def test_exact_models_say_first_that_they_protect_nothing(folder, tmp_path, capsys, kind, title):
    record = folder / f"{kind}.jsonl"
    code, shown = run(capsys, folder / kind, "--record", record, "--out", tmp_path / "s")
    assert code == 0
    assert "s.html" in shown.out
    assert "to be filled in for the registry (--fill): name" in shown.out
    page = (tmp_path / "s.html").read_text()
    header = page.partition("<body>")[2].partition("</header>")[0]
    assert "NO PRIVACY GUARANTEE towards recipients of this model" in header
    assert title in header
    assert "What leaves whom" in page
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["verdict"] == "none"
    assert found["attack_curve"] == found["shares"] == []
    assert found["guarantee"] == {}
    traffic = found["tables"]["Traffic in the record"]
    assert sum(row["bytes"] for row in traffic) > 1000
    assert {row["party"] for row in found["tables"]["Parties in the record"]} >= {traffic[0]["from"]}
    deployment = yaml.safe_load((tmp_path / "s.yaml").read_text())["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {}
    assert deployment["deployment_model"]["model_name"] == "Federated"
    assert "no noise was added" in deployment["dp_variant"]["unprotected_quantities"]


def test_vertical_models_name_their_parties_and_no_result(folder):
    statement = statement_of(str(folder / "vertical"))
    assert [(row["party"], row["columns"]) for row in statement.tables["Parties"]] == [
        ("active party", 2),
        ("bank", 2),
        (HOSTILE, 2),
    ]
    assert HOSTILE not in statement.to_html()
    assert [row["column"] for row in statement.tables["Columns of the active party"]] == ["f0", "f1"]
    assert "Traffic in the record" not in statement.tables
    structure = {"trees", "splits", "leaf values", "objective", "rounds"}
    assert set(statement.model) == {"SHA-256", *structure, "statement written by"}


@pytest.mark.parametrize(
    ("record", "method", "leaves"),
    [
        (None, None, "for the training run, give --record or --method"),
        (None, "exact", "masked vectors"),
        ("exact.jsonl", None, "masked vectors"),
        ("vertical.jsonl", None, "which the active party decrypts"),
        (None, "simfl", "hashes of all its rows"),
        (None, "vertical", "which the active party decrypts"),
    ],
)
def test_native_models_say_what_left_whom_where_the_method_is_known(folder, record, method, leaves):
    record = None if record is None else str(folder / record)
    statement = statement_of(str(folder / "exact" / "model.json"), (), record, method)
    assert statement.verdict == "none"
    assert leaves in str(statement.tables["What leaves whom"])


def test_private_models_are_those_of_the_library_and_a_record_adds_traffic(
    folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("lgb_dp.statements.today", lambda: "2026-01-01")  # midnight may come between two
    model = folder / "private" / "model.txt"
    plain = statement_of(str(folder / "private"))
    assert plain == lgb_dp.statement(model)
    code, _ = run(capsys, model, "--record", folder / "private.jsonl", "--out", tmp_path / "s")
    assert code == 0
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["guarantee"] == plain.to_dict()["guarantee"]
    names = {row["party"] for row in found["tables"]["Parties in the record"]}
    assert names == {"ada", "bob", "cyd", "coordinator"}
    assert "sizes of messages are no part of any guarantee" in found["notes"][-1]
    assert "sums over its rows and its share of the noise" in str(found["tables"]["What leaves whom"])


def test_fields_are_filled_in(folder, tmp_path, capsys):
    fill = ["name=Stays = nights", "data_curators=Ada; Bob", "data_product_sector=Healthcare"]
    options = [part for pair in fill for part in ("--fill", pair)]
    code, shown = run(capsys, folder / "private", *options, "--out", tmp_path / "s.html")
    assert code == 0
    basic = yaml.safe_load((tmp_path / "s.yaml").read_text())["deployment"]["basic"]
    assert basic["name"] == "Stays = nights"
    assert basic["data_curators"] == ["Ada", "Bob"]
    assert basic["data_product_sector"] == "Healthcare"
    assert "data_curators" not in shown.out


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["nowhere"], 1, "No such file"),
        (["."], 2, "must hold one of active.model.json, model.txt, model.json; it holds none of them"),
        (["exact.jsonl"], 2, "neither a model of veilboost nor one of XGBoost"),
        (["empty.txt"], 2, "the model carries no privacy guarantee"),
        (["rows.csv"], 2, "rows.csv is neither a model of veilboost nor one of LightGBM or XGBoost"),
        (["private", "--method", "exact"], 2, "--method exact is for native XGBoost models"),
        (["vertical", "--method", "simfl"], 2, "--method simfl is for native XGBoost models"),
        (["private", "--record", "exact.jsonl"], 2, "--record exact.jsonl is of training by exact, which"),
        (["exact", "--record", "private.jsonl"], 2, "--record private.jsonl is of training by private"),
        (["exact", "--record", "exact.jsonl", "--method", "simfl"], 2, "is of training by exact, which"),
        (["exact", "--record", "empty.txt/x"], 2, "is not a record"),
        (["exact", "--fill", "name"], 2, "--fill must be FIELD=TEXT, got 'name'"),
        (["exact", "--fill", "epsilon=1"], 2, "--fill names 'epsilon'; accepted are data_curators"),
        (["broken/active.model.json"], 2, "is not an active party's model"),
    ],
)
def test_mistakes_are_named(folder, capsys, monkeypatch, args, code, words):
    monkeypatch.chdir(folder)
    (folder / "empty.txt").write_text("")
    (folder / "rows.csv").write_text("age,ill\n1,0\n")
    (folder / "broken").mkdir(exist_ok=True)
    whole = (folder / "vertical" / "active.model.json").read_text()
    (folder / "broken" / "active.model.json").write_text(whole.replace("1", "2", 1))
    found, shown = run(capsys, *args)
    assert found == code
    assert words in shown.err
    assert not (folder / "statement.html").exists()
