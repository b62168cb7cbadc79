"""The command, on two processes: certificates to predictions, through a killed server."""

import csv
import json
import math
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from cryptography import x509

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.errors import (
    AuthenticationError,
    InvalidDataError,
    PartyArgumentError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    SessionLostError,
)
from gbdt_parties.identity.certificates import make_authority, make_certificate
from gbdt_parties.identity.record import Record
from two_organisations import serving, write_files
from veilboost import command_line as cli
from veilboost.running import commands
from veilboost.serving import server

PLAN = """
tls: certs/acme
data: {{file: acme.csv, id: user, label: y, one_hot: [city]}}
parties: [{{name: bank, address: "127.0.0.1:{port}"}}]
training: {{rounds: 2, cipher: okamoto-uchiyama, timeout: {timeout}, patience: {patience}}}
parameters: {{objective: "binary:logistic", max_depth: 2, max_bin: 8, base_score: 0.5}}
"""


def test_from_certificates_to_predictions(tmp_path, monkeypatch, capsys):
    pytest.importorskip("nacl")
    monkeypatch.chdir(tmp_path)
    ids = write_files(tmp_path)
    for name in ("acme", "bank", "eve"):
        assert cli.main(["certs", name]) == 0
    plan = tmp_path / "plan.yaml"
    with serving(tmp_path) as (process, port):
        # A stranger writes nothing into the server's log, which is JSON lines.
        with socket.create_connection(("127.0.0.1", port)) as stranger, suppress(ConnectionError):
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" * 3)
            stranger.settimeout(60)
            stranger.recv(100)
        plan.write_text(PLAN.format(port=port, timeout=60, patience=0))
        assert cli.main(["align", "plan.yaml"]) == 0
        assert "129 of 150 rows" in capsys.readouterr().out
        assert (tmp_path / "aligned.ids").read_text().split() == sorted(ids[21:150])

        (tmp_path / "eve.yaml").write_text(plan.read_text().replace("certs/acme", "certs/eve"))
        assert cli.main(["train", "eve.yaml"]) == cli.REFUSED
        capsys.readouterr()

        # Patience is for servers that are down, not for certificates that will never do.
        make_certificate("certs/late", "certs/ca", "acme", days=-1)
        make_authority("elsewhere")
        make_certificate("certs/foreign", "elsewhere", "acme")
        shutil.copy("certs/acme/ca.pem", "certs/foreign/ca.pem")
        start = time.monotonic()
        for name, words in (("late", "expired at 20"), ("foreign", "trusts another authority")):
            content = PLAN.format(port=port, timeout=60, patience=600).replace("certs/acme", f"certs/{name}")
            (tmp_path / f"{name}.yaml").write_text(content)
            assert cli.main(["train", f"{name}.yaml"]) == cli.REFUSED
            assert words in capsys.readouterr().err
        assert time.monotonic() - start < 120

        process.send_signal(signal.SIGSTOP)
        plan.write_text(PLAN.format(port=port, timeout=3, patience=0))
        start = time.monotonic()
        assert cli.main(["predict", "plan.yaml"]) == cli.FAILED  # no model yet
        assert cli.main(["train", "plan.yaml"]) == cli.UNAVAILABLE
        assert time.monotonic() - start < 60
    assert "'bank'" in capsys.readouterr().err
    plan.write_text(PLAN.format(port=port, timeout=60, patience=0))
    with serving(tmp_path, port, "--allow-explanations", "per-feature") as (process, _):
        assert cli.main(["train", "plan.yaml"]) == 0
        assert not list((tmp_path / "checkpoint").iterdir())
        capsys.readouterr()
        assert cli.main(["models", "."]) == 0
        assert capsys.readouterr().out == "model: predictions need bank\n"
        assert cli.main(["predict", "plan.yaml", "--out", "all.csv"]) == 0
        with open("acme.csv") as whole, open("new.csv", "w") as part:
            part.writelines(whole.readlines()[:60])
        assert cli.main(["predict", "plan.yaml", "--data", "new.csv", "--out", "new-out.csv"]) == 0
        for option in ("--hide-paths", "--contribs"):
            assert cli.main(["predict", "plan.yaml", "--out", f"all{option}.csv", option]) == 0
        capsys.readouterr()
        (tmp_path / "other.csv").write_text((tmp_path / "new.csv").read_text().replace("Rome", "Timbuktu"))
        assert cli.main(["predict", "plan.yaml", "--data", "other.csv", "--out", "other-out.csv"]) == 0
        shown = capsys.readouterr()
        n_rome = (tmp_path / "new.csv").read_text().count("Rome")
        text = f"column 'city' has a value that was not seen in training in {n_rome} of 59 rows"
        assert f"other.csv: {text}" in shown.err
        assert "Timbuktu" not in shown.err + shown.out
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with open("all.csv") as file:
        everyone = {row["id"]: float(row["prediction"]) for row in csv.DictReader(file)}
    with open("new-out.csv") as file:
        some = {row["id"]: float(row["prediction"]) for row in csv.DictReader(file)}
    assert set(everyone) == set(ids[21:150])
    assert set(some) == set(ids[21:59])
    assert all(everyone[one] == p for one, p in some.items())
    assert len(set(everyone.values())) > 2

    assert (tmp_path / "all--hide-paths.csv").read_text() == (tmp_path / "all.csv").read_text()
    with open("all--contribs.csv") as file:
        for row in csv.DictReader(file):
            p = everyone[row.pop("id")]
            assert list(row)[-4:] == [*(f"bank: column {k}" for k in range(3)), "bias"]
            assert sum(map(float, row.values())) == pytest.approx(math.log(p / (1 - p)), abs=1e-5)

    captured = capsys.readouterr()
    assert cli.main(["inspect", "bank-models/record.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"bank +acme +SplitStatistics +\d", shown)
    log = (tmp_path / "bank.log").read_text()
    assert all(json.loads(line)["message"] for line in log.splitlines())
    assert "'eve' is not" in log or "eve (sha256:" in log
    written = log + captured.err + captured.out + (tmp_path / "bank-models" / "record.jsonl").read_text()
    assert "secret-user" not in written
    for name in ("acme", "bank"):
        key = (tmp_path / "certs" / name / "party.key").read_text().splitlines()[1]
        assert key not in written


@pytest.mark.parametrize(
    "command",
    [
        *(
            "certs",
            "serve",
            "doctor",
            "align",
            "train",
            "predict",
            "inspect",
            "models",
            "estimate",
            "statement",
        ),
        *("show", "page"),
    ],
)
def test_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    assert caught.value.code == 0
    assert f"example:\n  veilboost {command}" in capsys.readouterr().out


LIBRARIES = ("numpy", "xgboost", "lightgbm", "sklearn", "numba", "grpc", "cryptography", "pyarrow", "yaml")


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["serve"], ["align"], ["train"], ["predict"], ["doctor"], ["estimate"]),
        *(["serve", kind] for kind in ("vertical", "exact", "private", "private-columns", "simfl")),
    ],
    ids=" ".join,
)
def test_help_loads_no_library(arguments):
    """Before, it took four seconds of processor time, and now less than a fifth of one."""
    code = (
        "import sys; from veilboost.command_line import main\n"
        f"try: main({[*arguments, '--help']!r})\n"
        f"except SystemExit: print([name for name in {LIBRARIES!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "veilboost", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("veilboost ")


def test_wrong_use(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["inspect", "nothing.jsonl"]) == cli.WRONG_USE
    assert cli.main(["train", "nothing.toml"]) == cli.WRONG_USE
    assert (
        cli.main(["serve", "vertical", "--data", "x.csv", "--tls", "nowhere", "--allow", "a"])
        == cli.WRONG_USE
    )
    assert "cannot read ca.pem" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        cli.main(["frobnicate"])
    assert caught.value.code == 2


def test_a_stray_error_is_a_defect_and_shows_places_only(tmp_path, monkeypatch, capsys):
    def stray(path):
        return int("HIV-positive")

    monkeypatch.setattr(commands, "read_plan", stray)
    assert cli.main(["train", "plan.toml"]) == cli.DEFECT
    shown = capsys.readouterr().err
    assert "defect in veilboost" in shown
    assert "ValueError at" in shown
    assert "test_c" in shown
    assert "HIV" not in shown


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidDataError("x"), cli.WRONG_USE),
        (PartyArgumentError("x"), cli.WRONG_USE),
        (xgb_fed.CheckpointError("x"), cli.WRONG_USE),
        (xgb_fed.InvalidArgumentError("x"), cli.WRONG_USE),
        (ProtocolError("x"), cli.BROKEN_PROTOCOL),
        (PartyRefusedError("x"), cli.REFUSED),
        (AuthenticationError("x"), cli.REFUSED),
        (SessionLostError("x"), cli.UNAVAILABLE),
        (PartyUnavailableError("x"), cli.UNAVAILABLE),
        (FileNotFoundError("x"), cli.FAILED),
        (ImportError("x"), cli.FAILED),
        (ValueError("x"), cli.DEFECT),
        (TypeError("x"), cli.DEFECT),
        (AssertionError("x"), cli.DEFECT),
        (KeyboardInterrupt(), cli.INTERRUPTED),
    ],
)
def test_exit_codes_are_those_of_named_errors(error, code, monkeypatch):
    def failing(path):
        raise error

    monkeypatch.setattr(commands, "read_plan", failing)
    assert cli.main(["train", "plan.toml"]) == code


def test_a_damaged_file_of_categories_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    assert cli.main(["certs", "bank"]) == 0
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "categories.json").write_text("{torn")
    arguments = ["--data", "bank.csv", "--id", "user", "--tls", "certs/bank", "--allow", "acme"]
    assert cli.main(["serve", "vertical", *arguments, "--listen", "127.0.0.1:0"]) == cli.WRONG_USE
    assert "categories.json is damaged" in capsys.readouterr().err


def test_the_terminal_shows_words_only(tmp_path, monkeypatch, capsys):
    escapes = "\x1b[2J\x1b]0;title\x07"

    def refused(path):
        raise PartyRefusedError(f"party 'bank' refuses: {escapes}")

    monkeypatch.setattr(commands, "read_plan", refused)
    assert cli.main(["train", "plan.toml"]) == cli.REFUSED
    shown = capsys.readouterr().err
    assert "\\x1b[2J" in shown
    assert shown.replace("\n", "").isprintable()


def test_inspect_counts_damaged_lines(tmp_path, capsys):
    record = Record(tmp_path / "record.jsonl")
    refusal = messages.Refusal("no\x1b[31m", messages.OTHER_REASON)
    record.add("bank", "acme", messages.Envelope(b"s" * 16, 0, refusal), 10)
    assert cli.main(["inspect", str(record.path)]) == 0
    assert "damaged" not in capsys.readouterr().out
    with open(record.path, "a") as file:
        file.write("torn")
    assert cli.main(["inspect", str(record.path)]) == 0
    shown = capsys.readouterr().out
    assert "1 lines are damaged" in shown
    assert "refused to acme: no\\x1b[31m" in shown
    assert shown.replace("\n", "").isprintable()


def test_certs_are_for_no_machine_that_nobody_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["certs", "eve"]) == 0
    assert cli.main(["certs", "bank", "--host", "bank.example"]) == 0
    names = {}
    for party in ("eve", "bank"):
        certificate = x509.load_pem_x509_certificate((tmp_path / "certs" / party / "party.pem").read_bytes())
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names[party] = [str(name.value) for name in extension.value]
    assert names == {"eve": ["eve"], "bank": ["bank", "bank.example"]}


def test_serve_may_open_as_many_files_as_the_system_allows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    assert cli.main(["certs", "bank"]) == 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = []

    class Stopped(server.Server):
        def __init__(self, *args):
            seen.append(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            raise OSError("stopped")

    monkeypatch.setattr(server, "Server", Stopped)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
        arguments = ["--data", "bank.csv", "--id", "user", "--tls", "certs/bank", "--allow", "acme"]
        assert cli.main(["serve", "vertical", *arguments]) == cli.FAILED
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert seen == [hard]
