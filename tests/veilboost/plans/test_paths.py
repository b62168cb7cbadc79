"""Paths that plans and commands write to: absent, or of their kind, and used for one thing."""

from dataclasses import fields

import pyarrow
import pyarrow.parquet
import pytest
import yaml

from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.record import Record, write_traffic
from gbdt_parties.traffic import Flow, Traffic
from veilboost import command_line as cli
from veilboost.plans.entries import Entry, PlanError, type_of
from veilboost.plans.paths import UsedPath, faults_of_paths
from veilboost.plans.plan import METHODS, read_plan, read_served

PARTIES = [{"name": "bank", "address": "h:1"}, {"name": "other", "address": "h:2"}]
OWN = {"file": "acme.csv", "id": "user"}
DECLARED = {"declared": "columns.toml", "allowed": ["sha256:" + "0" * 64]}
GUARANTEE = {"epsilon": 1.0, "delta": 1e-5}
PLANS = {
    "vertical": {"data": {**OWN, "label": "y", "valid": "valid.csv"}},
    "exact": {"data": {**OWN, "label": "y", "allowed": DECLARED["allowed"]}},
    "private": {"data": {**OWN, **DECLARED}, "training": GUARANTEE},
    "private-columns": {"data": {**OWN, **DECLARED}, "training": GUARANTEE, "parties": PARTIES[:1]},
    "simfl": {"data": {**OWN, "label": "y"}},
}
TABLE = "user,a,b\n" + "".join(f"v{k:03d},{k},{k % 2}\n" for k in range(50))
"""Its lines are sorted, as those of a list of ids are."""

WRITTEN = [
    (method, section, f.name)
    for method, kind in METHODS.items()
    for section, of in (("data", kind.data), ("training", kind.training))
    for f in fields(of)
    if Entry.of(f).writes
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("acme.csv", "valid.csv", "mine.csv"):
        (tmp_path / name).write_text(TABLE)
    (tmp_path / "columns.toml").write_text("max_bin = 3\n")
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), tmp_path / "mine.parquet")
    (tmp_path / "mine.jsonl").write_text('{"name": "Ada"}\n')
    return tmp_path


def plan_of(method, section="data", **more):
    plan = {"method": method, "tls": "certs", "parties": PARTIES, **PLANS[method]}
    return {**plan, section: {**plan.get(section, {}), **more}}


def read(place, content):
    (place / "plan.yaml").write_text(yaml.safe_dump(content))
    return read_plan(place / "plan.yaml")


@pytest.mark.parametrize("method", METHODS)
def test_every_entry_that_is_a_file_or_folder_is_looked_at(method):
    kind = METHODS[method]
    for section in (kind.data, kind.training, kind.served):
        for f in fields(section):
            words = Entry.of(f).meaning.split()
            is_path = {"file", "folder", "file;"} & set(words[:6]) and type_of(f) == "str"
            assert bool(Entry.of(f).is_path or Entry.of(f).writes) == bool(is_path), f.name


@pytest.mark.parametrize("theirs", ["acme.csv", "columns.toml", "mine.csv", "mine.parquet", "mine.jsonl"])
@pytest.mark.parametrize(("method", "section", "name"), WRITTEN)
def test_a_users_file_is_never_written_to(place, capsys, method, section, name, theirs):
    before = (place / theirs).read_bytes()
    content = plan_of(method, section, **{name: theirs})
    with pytest.raises(PlanError, match=rf"{section}\.{name}='.*{theirs}' "):
        read(place, content)
    assert cli.main(["train", "plan.yaml"]) == cli.WRONG_USE
    assert f"{section}.{name}=" in capsys.readouterr().err
    assert (place / theirs).read_bytes() == before


@pytest.mark.parametrize(("method", "section", "name"), WRITTEN)
def test_what_an_earlier_run_wrote_may_be_there(place, method, section, name):
    kind = next(Entry.of(f) for f in fields(getattr(METHODS[method], section)) if f.name == name).writes
    path = place / "earlier"
    if kind == "folder":
        path.mkdir()
        (path / "model.txt").write_text("tree")
    elif kind == "record":
        write_traffic(path, Traffic(flows={("a", "b", "Done"): Flow(1, 2)}))
    else:
        Alignment(tuple(f"Smith, {k:06d}" for k in range(9000))).save(path)
    assert getattr(getattr(read(place, plan_of(method, section, **{name: "earlier"})), section), name)


def test_records_of_servers_and_empty_files_may_be_gone_on_with(tmp_path):
    record = Record(tmp_path / "record.jsonl")
    record.add_turned_away("bank", "acme", "busy", 2)
    (tmp_path / "empty").touch()
    for name in ("record.jsonl", "empty", "new"):
        assert not list(faults_of_paths([UsedPath("record", tmp_path / name, "record")]))


@pytest.mark.parametrize(
    ("section", "given", "text"),
    [
        ("training", {"model": "acme.csv/model"}, r"model=.*folder.*acme\.csv.*file"),
        ("training", {"record": "model"}, r"model=.* is training\.record as well|record=.* training\.model"),
        ("training", {"record": "no/record.jsonl"}, "lies.*folder"),
        ("training", {"record": "certs"}, r"record=.*must be a file|record=.* is tls as well"),
        ("training", {"record": "aligned.ids"}, r"is data\.aligned as well|is training\.record as well"),
        ("training", {"record": "./plan.yaml"}, "record=.*plan as well"),
        ("data", {"aligned": "aligned-valid.ids"}, r"is data\.aligned as well"),
        ("training", {"record": "link.csv"}, r"record=.* is data\.file as well"),
        ("training", {"record": "a\0b"}, "record=.*cannot be used"),
        ("training", {"record": "new", "model": "new/model"}, r"model=.* lies under training\.record"),
        ("training", {"model": "nowhere"}, "model=.*cannot be used"),
        ("training", {"record": "circle"}, "record=.*cannot be used"),
    ],
)
def test_a_path_is_used_for_one_thing(place, section, given, text):
    (place / "link.csv").hardlink_to(place / "acme.csv")
    (place / "circle").symlink_to("circle")
    (place / "nowhere").symlink_to("not/there")
    (place / "certs").mkdir()
    with pytest.raises(PlanError, match=text):
        read(place, plan_of("vertical", section, **given))


def test_folders_may_be_shared(place):
    assert read(place, plan_of("exact", "training", model="one", checkpoint="one")).training.model == "one"
    (place / "certs").mkdir()
    assert read(place, plan_of("exact", "training", model="certs")).training.model == "certs"


def test_the_folder_of_a_server_is_no_file(place, capsys):
    served = {"data": "acme.csv", "tls": "certs", "allow": ["acme"], "models": "mine.csv"}
    (place / "bank.yaml").write_text(yaml.safe_dump(served))
    with pytest.raises(PlanError, match=r"models=.*mine\.csv'.*folder"):
        read_served(place / "bank.yaml")
    options = ["serve", "vertical", "--data", "acme.csv", "--tls", "certs", "--allow", "acme"]
    assert cli.main([*options, "--models", "mine.csv"]) == cli.WRONG_USE
    assert "--models='mine.csv' must be a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--out", "acme.csv"], "--out='acme.csv' is data.file as well"),
        (["--data", "mine.csv", "--out", "mine.csv"], "--out='mine.csv' is --data as well"),
        (["--out", "mine.csv"], "--out='mine.csv' holds something other than predictions"),
        (["--out", "o.parquet"], "--out='o.parquet' must end in .csv, which is what is written"),
        (["--out", "nowhere/o.csv"], "--out='nowhere/o.csv' lies in a folder that is not there"),
        (["--out", "folder.csv"], "--out='folder.csv' must be a file"),
        (["--out", "o.csv", "--missing", "o.csv"], "--missing='o.csv' is --out as well"),
        (["--out", "o.csv", "--missing", "mine.csv"], "--missing='mine.csv' holds something other than ids"),
        (["--missing", "plan.yaml"], "--missing='plan.yaml' is the plan as well"),
    ],
)
def test_predictions_spoil_no_file(place, capsys, arguments, text):
    (place / "folder.csv").mkdir()
    read(place, plan_of("vertical"))
    before = {path: path.read_bytes() for path in place.iterdir() if path.is_file()}
    assert cli.main(["predict", "plan.yaml", *arguments]) == cli.WRONG_USE
    assert text in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in place.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.csv", "id,class_of_service,age\n1,gold,3\n", "predictions"),
        ("a.csv", "id;age\n1;3\n", "ids"),
        ("a.libsvm", "1 3:0.5\n0 2:1\n", "ids"),
    ],
)
def test_tables_that_resemble_an_output_are_kept(tmp_path, name, text, kind):
    (tmp_path / name).write_text(text)
    assert list(faults_of_paths([UsedPath("out", tmp_path / name, kind)]))


@pytest.mark.parametrize(
    "head",
    ["id,prediction", "id,class_0,class_1", 'id,class_a,"class_b, c"', "id,a,b,bias", "id,class_1: bias"],
)
def test_predictions_may_be_replaced(tmp_path, head):
    (tmp_path / "o.csv").write_text(f"{head}\r\nv1,0.5\n")
    (tmp_path / "o.csv.missing").write_text("b\na\n")
    used = [UsedPath("out", tmp_path / "o.csv", "predictions")]
    assert not list(faults_of_paths([*used, UsedPath("missing", tmp_path / "o.csv.missing", "ids")]))
