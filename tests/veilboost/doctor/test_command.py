"""``veilboost doctor``: a line for each check, then "ready" or the first thing to mend."""

import csv
import socket
from contextlib import contextmanager
from datetime import timedelta

import pytest
import yaml
from cryptography import x509

from gbdt_parties.identity.certificates import (
    TLS,
    Identity,
    make_authority,
    make_certificate,
    renew_certificate,
)
from gbdt_parties.run.log import runs_of
from gbdt_parties.transport.server import Server
from lgb_dp.accounting.unit import ONE_ROW
from lgb_dp.federated.ledger import PartyLedger
from lgb_dp.vertical.run import OWN_RUNS, RUN
from lgb_dp.vertical.train import ABOUT, ALIGNED
from two_organisations import write_files
from veilboost import command_line as cli
from veilboost.doctor import examination, findings
from veilboost.doctor import rows as doctors_rows
from veilboost.plans.plan import read_plan

SERVED = {"data": "bank.csv", "id": "user", "tls": "certs/bank", "allow": ["acme"], "listen": "127.0.0.1:0"}
DATA = {"file": "acme.csv", "id": "user", "label": "y", "one_hot": ["city"]}


class NoRequests:
    """A service that no request may reach."""

    def handle(self, caller, row_sets, request):
        raise AssertionError("the doctor sends no request")


@contextmanager
def listening(folder, allowed=("acme",)):
    """The port of a party's server; no request may reach it."""
    server = Server(NoRequests(), "127.0.0.1:0", TLS.from_directory(folder), allowed)
    try:
        yield server.port
        assert not server.refusals.repeated
    finally:
        server.stop()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Certificates and files of two organisations, on a machine that has all that is needed."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    make_authority("certs/ca")
    for name in ("acme", "bank"):
        make_certificate(f"certs/{name}", "certs/ca", name)
    monkeypatch.setattr(examination, "are_compiled", lambda method: True)
    monkeypatch.setattr(examination, "installed_version", lambda name: "1.0")
    monkeypatch.setattr(findings, "MIN_FREE", 1)
    return tmp_path


def plan_of(port, **more):
    party = {"name": "bank", "address": f"127.0.0.1:{port}", **more.pop("party", {})}
    return {"tls": "certs/acme", "data": DATA, "parties": [party], **more}


def examined(capsys, content, name="plan.yaml"):
    """The exit code, the lines by check, and the last line."""
    with open(name, "w") as file:
        yaml.safe_dump(content, file)
    capsys.readouterr()
    code = cli.main(["doctor", name])
    *lines, last = capsys.readouterr().out.splitlines()
    return code, {line[6:].partition(": ")[0]: (line[:4].strip(), line) for line in lines}, last


def assert_to_mend(result, check, text):
    code, lines, last = result
    assert code == 1
    assert lines[check][0] == "MEND", lines
    assert last.startswith(f"first to mend: {check}: ")
    assert text in last


def test_a_plan_that_can_run_is_ready(place, capsys):
    with listening("certs/bank") as port:
        code, lines, last = examined(capsys, plan_of(port))
    assert (code, last) == (0, "ready")
    assert list(lines) == [
        *("certificate", "names", "clock", "bank reachable", "bank certificate", "bank admission"),
        *("file", "columns", "ids", "values", "disk", "kernels", "versions"),
    ]
    assert "150 rows, 3 columns to use" in lines["values"][1]
    assert "for bank, valid 20" in lines["bank certificate"][1]


def test_a_served_party_that_can_run_is_ready(place, capsys):
    code, lines, last = examined(capsys, SERVED, "bank.yaml")
    assert (code, last) == (0, "ready")
    assert "139 rows, 3 columns to use" in lines["values"][1]
    arguments = "--data bank.csv --id user --tls certs/bank --allow acme --listen 127.0.0.1:0"
    assert cli.main(["doctor", "vertical", *arguments.split()]) == 0
    assert "139 rows" in capsys.readouterr().out


def test_nothing_of_a_file_is_shown(place, capsys):
    (place / "acme.csv").write_text("".join((place / "acme.csv").read_text().splitlines(True)[1:]))
    examined(capsys, plan_of(1))
    (place / "acme.csv").write_text("user,y,a0,city\nsecret-user-1,0,1.5,secret-city\nsecret-user-1,1,2,X\n")
    for data in (DATA, {**DATA, "one_hot": []}):
        with open("plan.yaml", "w") as file:
            yaml.safe_dump(plan_of(1, data=data), file)
        assert cli.main(["doctor", "plan.yaml"]) == 1
    shown = capsys.readouterr()
    assert "secret" not in shown.out + shown.err


def test_an_expired_certificate(place, capsys):
    renew_certificate("certs/acme", "certs/ca", "acme", days=-1)
    assert_to_mend(examined(capsys, plan_of(1)), "certificate", "'acme' expired at 20")


def test_a_folder_without_certificates(place, capsys):
    result = examined(capsys, plan_of(1, tls="nowhere"))
    assert_to_mend(result, "certificate", "cannot read ca.pem")


def test_a_partys_expired_certificate(place, capsys, monkeypatch):
    monkeypatch.setattr(TLS, "check_dates", lambda tls: None)  # as if the server had started before
    renew_certificate("certs/bank", "certs/ca", "bank", days=-1)
    with listening("certs/bank") as port:
        result = examined(capsys, plan_of(port))
    assert_to_mend(result, "bank certificate", "has expired: the party must serve")
    assert "sha256:" in result[1]["bank certificate"][1]


def test_a_certificate_for_another_name(place, capsys):
    make_certificate("certs/shop", "certs/ca", "shop")
    with listening("certs/shop") as port:
        assert_to_mend(examined(capsys, plan_of(port)), "bank certificate", "it is for other names")
        again = examined(capsys, plan_of(port, party={"server_name": "shop"}))
    assert again[0] == 0


def test_a_certificate_of_another_authority(place, capsys):
    make_authority("elsewhere")
    make_certificate("certs/foreign", "elsewhere", "bank")
    with listening("certs/foreign") as port:
        result = examined(capsys, plan_of(port))
    assert_to_mend(result, "bank certificate", "not signed by an authority in this side's ca.pem")


def test_a_server_that_trusts_another_authority(place, capsys):
    make_authority("elsewhere")
    make_certificate("certs/foreign", "elsewhere", "acme")
    (place / "certs/foreign/ca.pem").write_bytes((place / "certs/ca/ca.pem").read_bytes())
    with listening("certs/bank") as port:
        result = examined(capsys, plan_of(port, tls="certs/foreign"))
    assert_to_mend(result, "bank admission", "must trust this side's authority")


def test_a_closed_port(place, capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        result = examined(capsys, plan_of(closed.getsockname()[1]))
    assert_to_mend(result, "bank reachable", "start its server")


def test_a_port_without_tls(place, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings = {"timeout": 0.3}
        result = examined(capsys, plan_of(other.getsockname()[1], training=settings))
    assert_to_mend(result, "bank certificate", "no server with TLS 1.3")


def test_a_clock_that_is_behind(place, capsys, monkeypatch):
    began = x509.load_pem_x509_certificate((place / "certs/bank/party.pem").read_bytes()).not_valid_before_utc

    class Behind(examination.datetime):
        @classmethod
        def now(cls, tz=None):
            return began - timedelta(hours=3)

    monkeypatch.setattr(examination, "datetime", Behind)
    assert_to_mend(examined(capsys, SERVED, "bank.yaml"), "clock", "set this machine's clock")
    with listening("certs/bank") as port:
        _, lines, _ = examined(capsys, plan_of(port))
    assert lines["clock"][0] == "MEND"
    assert "begins 3.0 hours later" in lines["clock"][1]


def test_names_that_cannot_be_told_apart(place, capsys):
    twice = plan_of(1)
    twice["parties"].append(dict(twice["parties"][0]))
    assert_to_mend(examined(capsys, twice), "names", "two parties are called bank")
    own = plan_of(1, party={"name": "acme"})
    assert_to_mend(examined(capsys, own), "names", "rename the party")
    short = {**SERVED, "allow": ["sha256:12ab"]}
    assert_to_mend(examined(capsys, short, "bank.yaml"), "names", "64 hexadecimal digits")


def test_a_taken_address(place, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        result = examined(capsys, {**SERVED, "listen": address}, "bank.yaml")
    assert_to_mend(result, "address", "stop the process that listens there")
    result = examined(capsys, {**SERVED, "listen": "7001"}, "bank.yaml")
    assert_to_mend(result, "address", "must be host:port")


@pytest.mark.parametrize(
    ("change", "check", "text"),
    [
        ({"data": "none.csv"}, "file", "none.csv is not a file"),
        ({"data": "certs/bank/ca.pem"}, "file", "the name must end in .csv"),
        ({"id": "patient"}, "columns", "no column 'patient'"),
        ({"drop": ["b0", "b7", "b8"]}, "columns", "no column 'b7', 'b8'"),
        ({"drop": ["b0", "b1", "b2"]}, "values", "no columns left"),
        ({"max_features": 1}, "values", "--max-features 1"),
    ],
)
def test_files_that_cannot_be_served(place, capsys, change, check, text):
    assert_to_mend(examined(capsys, {**SERVED, **change}, "bank.yaml"), check, text)


def test_ids_that_occur_twice(place, capsys):
    with open("bank.csv", "a", newline="") as file:
        csv.writer(file).writerow([(place / "bank.csv").read_text().split()[1].split(",")[0], 1, 2, 3])
    result = examined(capsys, SERVED, "bank.yaml")
    assert_to_mend(result, "ids", "1 ids occur more than once")
    assert "secret-user" not in result[2]


def test_a_full_disk(place, capsys, monkeypatch):
    monkeypatch.setattr(findings, "MIN_FREE", 1 << 30)
    monkeypatch.setattr(findings.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1 << 20}))
    assert_to_mend(examined(capsys, SERVED, "bank.yaml"), "disk", "free at least 1 GiB")
    models = {**SERVED, "models": "bank.csv/models"}
    assert_to_mend(examined(capsys, models, "bank.yaml"), "plan", "must be a folder")


def test_cold_kernels(place, capsys, monkeypatch):
    monkeypatch.setattr(examination, "are_compiled", lambda method: False)
    assert_to_mend(examined(capsys, SERVED, "bank.yaml"), "kernels", "veilboost warm vertical")
    monkeypatch.setattr(examination, "cache_directory", lambda folder: None)
    assert_to_mend(examined(capsys, SERVED, "bank.yaml"), "kernels", "NUMBA_CACHE_DIR")


def test_a_missing_package(place, capsys, monkeypatch):
    monkeypatch.setattr(examination, "installed_version", lambda name: None if name == "pynacl" else "1.0")
    assert_to_mend(examined(capsys, SERVED, "bank.yaml"), "versions", "pynacl missing: pip install")


def test_a_plan_that_cannot_be_read(place, capsys):
    assert_to_mend(examined(capsys, {**plan_of(1), "partys": []}), "plan", "unknown entry 'partys'")
    assert_to_mend(examined(capsys, {**SERVED, "max_bin": 1}, "bank.yaml"), "plan", "max_bin=1")


def test_the_certificates_of_an_exact_run_are_the_allowed_ones(place, capsys):
    fingerprint = Identity.of((place / "certs/bank/party.pem").read_bytes()).fingerprint
    data = {"file": "acme.csv", "id": "user", "label": "y", "drop": ["city"]}
    with listening("certs/bank") as port:
        content = plan_of(port, method="exact", data={**data, "allowed": ["sha256:" + "0" * 64]})
        result = examined(capsys, content)
        assert_to_mend(result, "bank certificate", f"add sha256:{fingerprint}")
        content["data"]["allowed"] = [f"sha256:{fingerprint}"]
        assert examined(capsys, content)[2] == "ready"


def test_private_files_have_the_declared_columns(place, capsys):
    declared = {"label": "y", "bounds": {"a0": [-3, 3]}, "categories": {"city": ["Paris", "Rome"]}}
    (place / "columns.yaml").write_text(yaml.safe_dump(declared))
    served = {
        **{"method": "private", "data": "acme.csv", "tls": "certs/acme", "declared": "columns.yaml"},
        **{
            "allow": ["bank"],
            "party": ["sha256:" + "0" * 64],
            "listen": "127.0.0.1:0",
            "budget": [1.0, 1e-5],
        },
    }
    code, lines, last = examined(capsys, served, "acme.yaml")
    assert (code, last) == (0, "ready")
    assert "150 rows, 2 columns" in lines["values"][1]
    (place / "columns.yaml").write_text(yaml.safe_dump({**declared, "weight": "w", "weight_bound": 1}))
    assert_to_mend(examined(capsys, served, "acme.yaml"), "columns", "no column 'w'")
    (place / "columns.yaml").write_text("label: y")
    assert_to_mend(examined(capsys, served, "acme.yaml"), "declared", "bounds and categories are missing")


def columns_apart(training=(), parameters=()):
    """The plan of private training with columns apart."""
    data = {"file": "acme.csv", "id": "user", "declared": "columns.yaml", "allowed": ["sha256:" + "0" * 64]}
    return {
        **plan_of(1, method="private-columns"),
        "data": data,
        "training": {"epsilon": 1.0, "delta": 1e-5, **dict(training)},
        "parameters": {"objective": "binary", **dict(parameters)},
    }


@pytest.mark.parametrize(
    ("training", "parameters", "text"),
    [
        ({"epsilon": 0.0}, {}, "epsilon must be positive"),
        ({"rounds": 5000, "trees_per_round": 2000}, {}, "trees_per_round must be an integer between 1"),
        ({}, {"max_depth": 9}, "max_depth=9 must be at most 6 with columns apart"),
        ({}, {"learning_rate": 0.9}, "learning_rate=0.9 must be at most 0.375"),
        ({}, {"objective": "lambdarank"}, "objective='lambdarank' is not supported"),
        ({}, {"objective": "poisson"}, "label_bounds must be given for objective='poisson'"),
        ({}, {"bagging_fraction": 0.5}, "bagging_fraction=0.5 is not supported"),
        ({}, {"max_depht": 3}, "did you mean max_depth"),
    ],
)
def test_settings_that_columns_apart_would_refuse_are_named(place, training, parameters, text):
    """Before, the doctor read the file and no setting: "ready", and the run stopped."""
    (place / "columns.yaml").write_text(yaml.safe_dump({"label": "y", "bounds": {"a0": [-3, 3]}}))
    (place / "plan.yaml").write_text(yaml.safe_dump(columns_apart(training, parameters)))
    (file,) = doctors_rows.of_plan(read_plan(place / "plan.yaml"))
    *_, found = doctors_rows.findings_of(file)
    assert found.check == "values"
    assert text in found.mend


def test_private_columns_are_aligned_by_ids_that_are_different(place, capsys):
    declared = {"bounds": {"b0": [-3, 3]}, "categories": {}}
    (place / "columns.yaml").write_text(yaml.safe_dump(declared))
    served = {
        **{"method": "private-columns", "data": "bank.csv", "id": "user", "declared": "columns.yaml"},
        **{"tls": "certs/bank", "allow": ["acme"], "party": ["sha256:" + "0" * 64]},
        **{"listen": "127.0.0.1:0", "budget": [1.5, 1e-5]},
    }
    code, lines, last = examined(capsys, served, "bank.yaml")
    assert (code, last) == (0, "ready")
    without = {name: value for name, value in served.items() if name != "budget"}
    assert_to_mend(examined(capsys, without, "bank.yaml"), "values", "budget is missing: no ledger in")
    assert_to_mend(examined(capsys, {**served, "budget": [-1, 1e-5]}, "bank.yaml"), "values", "epsilon")
    PartyLedger(place / "kept", (2.0, 1e-5)).close()
    kept = {**served, "models": "kept"}
    assert_to_mend(examined(capsys, kept, "bank.yaml"), "values", "budget=(1.5, 1e-05) is not that of the")
    assert examined(capsys, {**kept, "budget": [2.0, 1e-5]}, "bank.yaml")[0] == 0
    assert examined(capsys, {**without, "models": "kept"}, "bank.yaml")[0] == 0
    assert "139, all different" in lines["ids"][1]
    assert "139 rows, 1 columns" in lines["values"][1]
    (place / "columns.yaml").write_text(yaml.safe_dump({"bounds": {"b0": [3, 3]}}))
    assert_to_mend(examined(capsys, served, "bank.yaml"), "values", "nothing to split")
    (place / "columns.yaml").write_text(yaml.safe_dump({"bounds": {"b0": [3, -3]}}))
    assert_to_mend(examined(capsys, served, "bank.yaml"), "values", "bounds of feature 'b0' are reversed")
    (place / "columns.yaml").write_text(yaml.safe_dump(declared))
    (place / "columns.yaml").write_text(yaml.safe_dump({**declared, "label": "y"}))
    assert_to_mend(examined(capsys, served, "bank.yaml"), "declared", "unknown entry 'label'")
    (place / "columns.yaml").write_text(yaml.safe_dump({"label": "y", "bounds": {"a0": [-3, 3]}}))
    content = columns_apart()
    assert examined(capsys, content)[1]["values"][0] == "ok"
    (place / "columns.yaml").write_text(yaml.safe_dump({"label": "y", "bounds": {"city": [-3, 3]}}))
    assert examined(capsys, content)[1]["values"][0] == "MEND"
    rows = (place / "acme.csv").read_text()
    (place / "acme.csv").write_text(rows + rows.splitlines()[-1] + "\n")
    assert examined(capsys, content)[1]["ids"][0] == "MEND"


def kept(place, kind, value):
    """A checkpoint with a record of a run."""
    ledger = PartyLedger(place / "checkpoint")
    runs_of(ledger.store, OWN_RUNS).put(kind, "", value)
    ledger.close()


def another_task(place):
    kept(place, ABOUT, bytes(32))


def other_ids(place):
    known = place.joinpath("acme.csv").read_text().split()[1].split(",")[0]
    kept(place, ALIGNED, sorted([known, "unknown-1", "unknown-2"]))


def another_ledger(place):
    kept(place, RUN, "00" * 16)


def damaged(folder):
    def damage(place):
        PartyLedger(place / folder).close()
        (place / folder / "ledger.store").write_bytes(b"no store")

    return damage


def spent(place):
    note = {"time": "now", "run": "r", "what": "leaf sums", "mu": 0.2, "closeness": 0.0}
    ledger = PartyLedger(place / "party", (1.0, 1e-5))
    ledger.charge(b"r", {**note, "neighbouring": ONE_ROW.neighbouring}, 1.0, (1.0, 1e-5))
    ledger.close()


@pytest.mark.parametrize(
    ("before", "data", "text"),
    [
        (damaged("checkpoint"), {}, "checkpoint'"),
        (another_task, {}, "checkpoint is of another run: its settings, columns or rows differ"),
        (other_ids, {}, "2 of 3 ids in common are not in train_set any more"),
        (another_ledger, {}, "checkpoint is of a run that the ledger does not know"),
        (damaged("party"), {}, "party'"),
        (spent, {}, "of the party's budget (epsilon = 1, delta = 1e-05)"),
        (spent, {"budget_epsilon": 2.0, "budget_delta": 1e-5}, "a budget does not change"),
        (lambda place: None, {"budget_epsilon": 0.5, "budget_delta": 1e-5}, "(epsilon = 0.5, delta = 1e-05)"),
        (lambda place: None, {"state": "checkpoint"}, "and checkpoint must differ"),
    ],
)
def test_what_earlier_runs_left_is_examined(place, capsys, before, data, text):
    """Before, the doctor said "ready", and training ended with the error."""
    (place / "columns.yaml").write_text(yaml.safe_dump({"label": "y", "bounds": {"a0": [-3, 3]}}))
    plan = columns_apart()
    (place / "plan.yaml").write_text(yaml.safe_dump(plan))
    (file,) = doctors_rows.of_plan(read_plan(place / "plan.yaml"))
    assert [one.mend for one in doctors_rows.findings_of(file)] == [""] * 5
    assert not (place / "checkpoint").exists()
    assert not (place / "party").exists()
    before(place)
    left = {path: path.read_bytes() for path in place.rglob("*.store")}
    plan["data"].update(data)
    (place / "plan.yaml").write_text(yaml.safe_dump(plan))
    (file,) = doctors_rows.of_plan(read_plan(place / "plan.yaml"))
    *fine, found = doctors_rows.findings_of(file)
    assert found.check == "progress"
    assert text in found.mend
    assert not any(one.mend for one in fine)
    assert {path: path.read_bytes() for path in place.rglob("*.store")} == left


def test_a_row_without_an_id_is_to_mend(place, capsys):
    (place / "columns.yaml").write_text(yaml.safe_dump({"label": "y", "bounds": {"a0": [-3, 3]}}))
    first, second, *others = (place / "acme.csv").read_text().splitlines(True)
    (place / "acme.csv").write_text("".join([first, second[second.index(",") :], *others]))
    (place / "plan.yaml").write_text(yaml.safe_dump(columns_apart()))
    (file,) = doctors_rows.of_plan(read_plan(place / "plan.yaml"))
    *_, found = doctors_rows.findings_of(file)
    assert found.check == "ids"
    assert found.mend


@pytest.mark.parametrize(
    ("declared", "served", "text"),
    [
        ({"categories": {"city": ["Rome", "Rome"]}}, {}, "categories of feature 'city' must be distinct"),
        ({"bounds": {"a0": [3, -3]}}, {}, "bounds of feature 'a0' are reversed"),
        ({"bounds": {"city": [0, 1]}, "categories": {}}, {}, "column 'city' holds text"),
        ({}, {"budget": [0, 1e-5]}, "epsilon must be positive and finite, got 0"),
        ({}, {"party": ["sha256" + "0" * 64]}, "without its fingerprint"),
        ({}, {"budget": None}, "no ledger in models has one"),
    ],
)
def test_private_rows_and_demands_are_those_that_a_party_accepts(place, capsys, declared, served, text):
    """Before, the doctor read the columns and no more: "ready", and the server refused to start."""
    columns = {"label": "y", "bounds": {"a0": [-3, 3]}, "categories": {"city": ["Paris", "Rome"]}, **declared}
    (place / "columns.yaml").write_text(yaml.safe_dump(columns))
    options = {
        **{"method": "private", "data": "acme.csv", "tls": "certs/acme", "declared": "columns.yaml"},
        **{
            "allow": ["bank"],
            "party": ["sha256:" + "0" * 64],
            "listen": "127.0.0.1:0",
            "budget": [1.0, 1e-5],
        },
        **served,
    }
    options = {name: value for name, value in options.items() if value is not None}
    assert_to_mend(examined(capsys, options, "acme.yaml"), "values", text)
    assert not (place / "models").exists()


SERVED_WITH_LABELS = {
    **{"data": "acme.csv", "id": "user", "label": "y", "drop": ["city"], "tls": "certs/acme"},
    **{"allow": ["bank"], "listen": "127.0.0.1:0"},
}


@pytest.mark.parametrize("method", ["exact", "simfl"])
def test_ids_of_a_party_with_labels_are_no_feature(place, capsys, method):
    """Before, the doctor took them for a column of text, and said to leave it out."""
    party = {"party": ["sha256:" + "0" * 64], "valid": "acme.csv"} if method == "exact" else {}
    served = {**SERVED_WITH_LABELS, **party, "method": method}
    code, lines, last = examined(capsys, served, "acme.yaml")
    assert (code, last) == (0, "ready")
    assert "150, all different" in lines["ids"][1]
    assert "150 rows, 1 columns" in lines["values"][1]
    with open("acme.csv", "a", newline="") as file:
        csv.writer(file).writerow((place / "acme.csv").read_text().split()[-1].split(","))
    assert_to_mend(examined(capsys, served, "acme.yaml"), "ids", "1 ids occur more than once")


@pytest.mark.parametrize("method", ["vertical", "exact", "simfl"])
def test_labels_that_are_missing(place, capsys, method):
    """Before, the doctor said "ready", and training ended with an error about the labels."""
    lines = (place / "acme.csv").read_text().splitlines()
    label = lines[0].split(",").index("y")
    lines[3] = ",".join("" if k == label else cell for k, cell in enumerate(lines[3].split(",")))
    (place / "acme.csv").write_text("\n".join(lines) + "\n")
    party = {"party": ["sha256:" + "0" * 64]} if method == "exact" else {}
    text = "acme.csv: column 'y' of labels has missing or infinite labels"
    if method != "vertical":
        served = {**SERVED_WITH_LABELS, **party, "method": method}
        assert_to_mend(examined(capsys, served, "acme.yaml"), "values", text)
    data = {"file": "acme.csv", "id": "user", "label": "y", "drop": ["city"]}
    allowed = {"allowed": party["party"]} if party else {}
    _, found, _ = examined(capsys, plan_of(1, method=method, data={**data, **allowed}))
    assert found["values"][0] == "MEND"


@pytest.mark.parametrize(
    "arguments", [["estimate"], ["doctor"], *(["doctor", kind] for kind in examination.findings.PARTS)]
)
def test_help_fits_a_screen(arguments, capsys):
    with pytest.raises(SystemExit):
        cli.main([*arguments, "--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 32
