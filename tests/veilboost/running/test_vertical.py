"""A training run by the command, with evaluation rows, as both sides see it, and what is kept of it."""

import csv
import re

import pytest

from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.record import read_record
from gbdt_parties.run.log import RUNS
from gbdt_parties.transport.service import part_of
from kept_stores import end_process, restarted
from two_organisations import serving, write_files
from veilboost import command_line as cli
from veilboost.replay import DIFFERS
from veilboost.running import vertical
from xgb_fed.vertical.passive.service import ROLE, SPLITS
from xgb_fed.vertical.training.rounds import Rounds

PLAN = """
tls: certs/acme
data: {{file: acme.csv, id: user, label: y, one_hot: [city], valid: acme-valid.csv}}
parties: [{{name: bank, address: "127.0.0.1:{port}"}}]
training: {{rounds: 30, early_stopping_rounds: 2, cipher: okamoto-uchiyama, timeout: 60, patience: 0}}
parameters: {{objective: "binary:logistic", max_depth: 2, max_bin: 8, base_score: 0.5, eval_metric: logloss}}
"""


KINDS = ("OpenTraining", "StartTree", "Gradients", "FindSplits")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pytest.importorskip("nacl")
    monkeypatch.chdir(tmp_path)
    ids = write_files(tmp_path)
    # The last rows of acme's file become those that the model is evaluated on.
    lines = (tmp_path / "acme.csv").read_text().splitlines(keepends=True)
    (tmp_path / "acme.csv").write_text("".join(lines[:126]))
    (tmp_path / "acme-valid.csv").write_text("".join([lines[0], *lines[126:]]))
    for name in ("acme", "bank"):
        assert cli.main(["certs", name]) == 0
    return tmp_path, ids


def test_valid_rows_lines_per_tree_missing_ids_and_models(folder, capsys):
    path, ids = folder
    with serving(path) as (_, port):
        (path / "plan.yaml").write_text(PLAN.format(port=port))
        assert cli.main(["train", "plan.yaml"]) == cli.WRONG_USE
        assert "run align first: veilboost align plan.yaml" in capsys.readouterr().err
        assert cli.main(["align", "plan.yaml"]) == 0
        assert "104 of 125 rows" in (shown := capsys.readouterr().out)
        assert "25 of 25 rows" in shown
        assert cli.main(["train", "plan.yaml"]) == 0
        shown = capsys.readouterr()
        lines = re.findall(r"tree (\d+) of 30, valid-logloss:(0\.\d+), [\d.]+ (?:s|min|h) left", shown.err)
        assert [int(number) for number, _ in lines] == list(range(1, len(lines) + 1))
        losses = [float(loss) for _, loss in lines]
        # Early stopping: the best one is two rounds before the last.
        assert losses.index(min(losses)) == len(losses) - 3 or len(losses) == 30
        assert f"{len(lines)} trees on 104 rows" in shown.out

        # A model is not replaced silently.
        before = {file.name: file.read_bytes() for file in (path / "model").iterdir()}
        assert cli.main(["train", "plan.yaml"]) == cli.WRONG_USE
        assert "holds a model" in capsys.readouterr().err
        assert before == {file.name: file.read_bytes() for file in (path / "model").iterdir()}
        assert cli.main(["train", "plan.yaml", "--overwrite"]) == 0
        capsys.readouterr()

        arguments = ["predict", "plan.yaml", "--data", "acme.csv", "--out", "out.csv"]
        assert cli.main(arguments) == 0
        assert (
            "104 of 125 rows predicted: out.csv; ids of the others: out.csv.missing"
            in capsys.readouterr().out
        )
        assert (path / "out.csv.missing").read_text().split() == ids[:21]
        with open("out.csv") as file:
            assert sorted(row["id"] for row in csv.DictReader(file)) == sorted(ids[21:125])
        arguments = ["predict", "plan.yaml", "--data", "acme-valid.csv", "--out", "all.csv"]
        assert cli.main(arguments) == 0
        assert "25 of 25 rows predicted: all.csv\n" in capsys.readouterr().out
        assert not (path / "all.csv.missing").exists()
    log = (path / "bank.log").read_text()
    assert log.count('"acme: tree 1"') == 2
    assert f'"acme: tree {len(lines)}"' in log
    assert log.count("end of the training run") == 2

    # The bank sees both models, and removes one.
    assert cli.main(["models", "bank-models"]) == 0
    shown = capsys.readouterr().out
    numbers = re.findall(r"acme +([0-9a-f]{32}) +\d+ +20", shown)
    assert len(numbers) == 2
    assert "models: 2" in shown
    assert cli.main(["models", "bank-models", "--remove", numbers[0][:8]]) == 0
    store = restarted(path / "bank-models", role=ROLE)
    for kind in (SPLITS, RUNS):
        assert part_of(store, "acme").keys(kind) == [numbers[1]]
    end_process(path)
    for wrong in ("", numbers[0], "zz"):
        assert cli.main(["models", "bank-models", "--remove", wrong]) == cli.WRONG_USE
    assert cli.main(["models", "nowhere"]) == cli.WRONG_USE


def test_an_auditable_run_is_repeated_until_another_one_begins(folder, capsys):
    path, _ = folder
    plan = PLAN.replace("label: y,", "label: y, auditable: true,").replace("rounds: 30", "rounds: 3")
    with serving(path, 0, "--auditable") as (_, port):
        (path / "plan.yaml").write_text(plan.format(port=port))
        assert cli.main(["align", "plan.yaml"]) == 0
        assert cli.main(["train", "plan.yaml"]) == 0
    end_process(path)
    capsys.readouterr()
    asked = ["replay", "checkpoint", "plan.yaml"]
    assert cli.main(asked) == 0
    shown = capsys.readouterr().out
    assert re.search(r"3 rounds, 3 attempts and \d+ messages", shown)
    assert "everything agrees" in shown
    lines = (path / "acme.csv").read_text().splitlines(keepends=True)
    user, label, *rest = lines[60].split(",")
    lines[60] = ",".join([user, str(1 - int(label)), *rest])
    (path / "acme.csv").write_text("".join(lines))
    assert cli.main(asked) == DIFFERS
    assert "DIFFERS: Gradients, sent with request" in capsys.readouterr().out
    assert cli.main(["replay", "nowhere", "plan.yaml"]) == cli.WRONG_USE
    of_bank = ["replay", "bank-models", "vertical", "--data", "bank.csv", "--id", "user"]
    assert cli.main(of_bank) == 0
    assert re.search(r"3 rounds, .* the run has ended", capsys.readouterr().out)
    assert cli.main([*of_bank, "--min-node-rows", "3"]) == DIFFERS


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_model_is_never_replaced_silently(tmp_path, monkeypatch, capsys, when):
    """Also one without the table that the command writes, and one that appears while training goes on."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k},{k % 7},{k % 2}\n" for k in range(50))
    (tmp_path / "a.csv").write_text("a,b,label\n" + rows)
    (tmp_path / "plan.yaml").write_text(
        "tls: certs/acme\ndata: {file: a.csv, label: label}\n"
        'parties: [{name: bank, address: "127.0.0.1:1"}]\n'
        'training: {rounds: 1}\nparameters: {objective: "binary:logistic"}\n'
    )
    assert cli.main(["certs", "acme"]) == 0
    kept = tmp_path / "model" / "active.model.json"

    def write():
        kept.parent.mkdir()
        kept.write_text("somebody's")

    def trained(params, data, parties, *args, **how):
        if when == "during":
            write()
        return train(params, data, [], *args, **how)

    train = vertical.train
    monkeypatch.setattr(vertical, "train", trained)
    if when == "before":
        write()
    assert cli.main(["train", "plan.yaml"]) == cli.WRONG_USE
    assert "holds a model" in capsys.readouterr().err
    assert kept.read_text() == "somebody's"
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    if when == "during":
        # Nothing is lost.
        assert list((tmp_path / "checkpoint").iterdir())
        monkeypatch.setattr(
            vertical, "train", lambda p, data, parties, *args, **how: train(p, data, [], *args, **how)
        )
        assert cli.main(["train", "plan.yaml", "--overwrite"]) == 0
        assert kept.read_text() != "somebody's"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("data: {file: a.csv, label: y, valid: b.csv}", "data.valid needs data.id"),
        ("data: {file: a.csv, label: y}\ntraining: {early_stopping_rounds: 3}", "needs data.valid"),
    ],
)
def test_evaluation_rows_need_ids_and_early_stopping_needs_them(tmp_path, capsys, entry, text):
    plan = tmp_path / "plan.yaml"
    plan.write_text(f'tls: certs\nparties: [{{name: bank, address: "a:1"}}]\n{entry}\n')
    assert cli.main(["train", str(plan)]) == cli.WRONG_USE
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [b"", b"a,1\nb,2\n", b"id\na\nb\n", b"a\nb", b"a\r\nb\r\n", b"b\na\n", b"a\nz\n", b"\xe4\n"],
    ids=["empty", "a table", "a header", "cut off", "Windows", "not sorted", "of other rows", "Latin-1"],
)
def test_a_file_of_ids_in_another_form_is_named_with_the_form(tmp_path, monkeypatch, capsys, content):
    """An empty one was "active_data has no rows", and one that is cut off lost its last id."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id,x,y\na,1,0\nb,2,1\n")
    (tmp_path / "rows.ids").write_bytes(content)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        'tls: certs\nparties: [{name: bank, address: "a:1"}]\n'
        "data: {file: a.csv, label: y, id: id, aligned: rows.ids}\n"
        "training: {patience: 0, timeout: 1}\n"
    )
    assert cli.main(["certs", "acme", "--out", "certs"]) == 0
    assert cli.main(["train", "plan.yaml"]) == cli.WRONG_USE
    error = capsys.readouterr().err
    assert "rows.ids" in error
    assert "one id per line" in error


def test_what_left_in_a_run_that_failed_is_in_the_record(folder, monkeypatch):
    """Before, the active party's record had nothing of it; now both sides' records say the same."""
    path, _ = folder

    def fail(*_):
        raise ProtocolError("the bank ends the run")

    def n_sent(record="record.jsonl", active="active"):
        flows = read_record(record).traffic.flows.items()
        return sum(flow.messages for (sender, _, kind), flow in flows if sender == active and kind in KINDS)

    with serving(path) as (_, port):
        (path / "plan.yaml").write_text(PLAN.format(port=port))
        assert cli.main(["align", "plan.yaml"]) == 0
        with monkeypatch.context() as patched:
            patched.setattr(Rounds, "finish", fail)
            assert cli.main(["train", "plan.yaml"]) != 0
        bank = path / "bank-models" / "record.jsonl"
        assert n_sent() == n_sent(bank, "acme") > 3
        assert cli.main(["train", "plan.yaml"]) == 0
        assert n_sent() == n_sent(bank, "acme")


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert re.fullmatch(r"veilboost \d+\.\d+.*\n", capsys.readouterr().out)
