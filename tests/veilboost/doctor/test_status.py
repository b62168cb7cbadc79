"""The command ``status``: exit codes, lines and JSON."""

import json
import shutil
import time
from dataclasses import replace

import pytest

import lgb_dp
from deployment import certificates
from gbdt_parties.quota import TAKEN
from gbdt_parties.run.log import RunLog
from gbdt_parties.transport.service import CALLER, part_of
from kept_stores import end_process, restarted
from veilboost import command_line as cli
from veilboost.doctor import findings
from xgb_fed.vertical.passive.disclosed_statistics import GIVEN
from xgb_fed.vertical.passive.service import ROLE

SETTINGS = 'data = "x.csv"\ntls = "bank"\nallow = ["acme"]\nmax_statistics = 2\nmodels = "kept"\n'
PLAN = 'tls = "acme"\n[data]\nfile = "a.csv"\nlabel = "y"\n[[parties]]\nname = "bank"\naddress = "h:1"\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(findings, "MIN_FREE", 1)
    for name in ("acme", "bank"):
        shutil.copytree(certificates(name), tmp_path / name)
    (tmp_path / "bank.toml").write_text(SETTINGS)
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "columns.toml").write_text("max_bin = 8\n")
    (tmp_path / "compose.yaml").write_text("a: &x 1\nb: *x\n")
    yield tmp_path
    end_process(tmp_path)


def kept(place, given=0.5):
    store = restarted(place / "kept", role=ROLE)
    store.put(CALLER, "acme", b"")
    store.put(TAKEN, "questions of acme", [time.time() - 4000, time.time()])
    part_of(store, "acme").put(GIVEN, "", given)
    return store


def report(capsys, *paths):
    code = cli.main(["status", *paths, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (code == 0) == said["fine"]
    return code, {(one["path"], each["check"]): each for one in said["places"] for each in one["findings"]}


def test_a_folder_in_use_is_read_beside_its_server(place, capsys):
    store = kept(place)
    RunLog(part_of(store, "acme").part("exact"), b"r" * 16).begin({"request": "x"})
    code, found = report(capsys)
    assert code == 0
    assert (
        found["bank.toml", "certificate"]["days_left"]
        == found["plan.toml", "certificate"]["days_left"]
        == 364
    )
    assert found["bank.toml", "max_statistics of acme"]["left"] == 1.5
    asked = found["bank.toml", "questions_per_hour of acme"]
    assert (asked["used"], asked["left"]) == (1, 119)
    assert found["bank.toml", "runs"]["seen"].startswith("1 of acme under way")
    assert found["plan.toml", "run"]["seen"] == "none under way"
    store.put(CALLER, "shop", b"")  # the server goes on
    assert cli.main(["status", "bank.toml"]) == 0
    assert capsys.readouterr().out.endswith("fine\n")


def test_what_needs_a_person(place, capsys):
    kept(place, given=2.0).close()
    shutil.rmtree(place / "bank")
    shutil.copytree(certificates("bank", days=20), place / "bank")
    restarted(place / "checkpoint", "training.store", "an active party").close()
    code, found = report(capsys)
    assert code == 1
    assert "veilboost certs bank --renew --out bank" in found["bank.toml", "certificate"]["mend"]
    assert "nothing is left" in found["bank.toml", "max_statistics of acme"]["mend"]
    assert found["plan.toml", "run"]["mend"] == "go on with it: veilboost train plan.toml"


def test_damage_is_named(place, capsys):
    kept(place).close()
    (place / "kept/party.store").write_bytes(b"damaged")
    (place / "plan.toml").write_text(PLAN.replace('"acme"', "3"))
    code, found = report(capsys)
    assert code == 1
    assert "damaged" in found["bank.toml", "state"]["mend"]
    assert "tls" in found["plan.toml", "file"]["mend"]
    code, found = report(capsys, "kept")
    assert (code, list(found)) == (1, [("kept", "state"), ("kept", "disk")])


@pytest.mark.parametrize("path", ["nowhere", "empty", "columns.toml", "empty/x.csv", "other.yaml"])
def test_what_is_not_veilboosts_is_named(place, path, capsys):
    (place / "empty").mkdir()
    (place / "other.yaml").write_text("a: &x 1\nb: *x\n")
    (place / "empty/x.csv").write_text("a\n1\n")
    code, found = report(capsys, path)
    assert code == 1
    assert [one["mend"] != "" for one in found.values()] == [True]


def test_a_budget_in_a_file(place, capsys):
    budget = lgb_dp.Budget.open(place / "year.budget", 1.0, 1e-6)
    for paths in (["year.budget"], []):
        code, found = report(capsys, *paths)
        (one,) = [each for (_, check), each in found.items() if check == "budget"]
        assert (code, one["epsilon"], round(one["left_epsilon"], 6)) == (0, 1.0, 1.0)
    budget.charge(replace(budget.remaining, mu=budget.remaining.mu * (1 - 1e-6)), "all")
    code, found = report(capsys, "year.budget")
    assert (code, found["year.budget", "budget"]["mend"]) == (
        1,
        "less than a hundredth is left: plan the next one",
    )
