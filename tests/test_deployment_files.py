"""The files in ``deploy/`` start a server: their commands run under their constraints, without a daemon."""

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import xgb_fed
from deployment import certificates
from veilboost import command_line as cli
from veilboost.model_folders import kept_models
from veilboost.serving.options import settings_of
from veilboost.serving.server import limits_of
from xgb_fed.vertical.passive.service import Limits

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
AS_NOBODY = [
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"),
    # The interpreter may be in root's home.
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
]
AS_MODULE = "import sys; from veilboost.command_line import main; sys.exit(main())"


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def unit():
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes="#")
    parser.optionxform = str
    parser.read(DEPLOY / "veilboost.service")
    return parser["Service"]


def commands():
    return {
        "compose": compose()["services"]["bank"]["command"],
        "systemd": shlex.split(unit()["ExecStart"])[1:],
    }


def can_become_nobody():
    try:
        return subprocess.run([*AS_NOBODY, sys.executable, "-c", ""], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("which", ["compose", "systemd"])
def test_commands_are_understood(which):
    args = cli.make_parser().parse_args(commands()[which])
    assert limits_of(Limits, settings_of(args, "vertical")).max_memory == 4 << 30


def test_commands_in_texts_exist():
    """Those of the README and the compose file's comments, as they stand."""
    texts = "".join((DEPLOY / name).read_text() for name in ("README.md", "compose.yaml"))
    found = re.findall(r"run --rm acme (\w.*)|veilboost (certs \w+)", texts)
    assert len(found) == 6
    for command in found:
        cli.make_parser().parse_args(shlex.split("".join(command)))
    service = compose()["services"]
    for name in re.findall(r"(?:up -d|run --rm) (\w+)", texts):
        assert name in service


def test_the_image_pins_what_the_tests_run_with():
    text = (DEPLOY / "Dockerfile").read_text()
    (constraint,) = re.findall(r"--constraint (\S+)", text)
    pins = dict(line.split("==") for line in (ROOT / constraint).read_text().split())
    assert {"grpcio", "lightgbm", "numba", "pynacl", "xgboost"} <= pins.keys()
    bases = set(re.findall(r"^FROM python:(\S+)-slim", text, flags=re.MULTILINE))
    # One version builds the wheels and installs them: that of the workflow that tests these pins.
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert [f'python: "{base}", set: newest-{base}' in workflow for base in bases] == [True]
    assert constraint.partition("/")[0] not in ignored()


def test_the_image_compiles_its_kernels_for_whoever_runs_it():
    """As root, beside sources whose times survive in a layer, before the user changes."""
    text = (DEPLOY / "Dockerfile").read_text()
    (command,) = re.findall(r"veilboost (warm.*)", text)
    cli.make_parser().parse_args(shlex.split(command))
    assert text.index("pip install") < text.index("touch --date=") < text.index("veilboost warm")
    assert (
        text.index("veilboost warm")
        < text.index("\nENV PYTHONDONTWRITEBYTECODE")
        < text.index("\nUSER 65534")
    )


def ignored():
    lines = (ROOT / ".dockerignore").read_text().split("\n")
    return [line for line in lines if line and not line.startswith("#")]


def test_data_and_keys_stay_out_of_the_image():
    volumes = [volume for service in compose()["services"].values() for volume in service["volumes"]]
    folders = {volume.split(":")[0].split("/")[1] for volume in volumes}
    assert folders == {"acme", "bank"}
    assert {f"deploy/{folder}" for folder in folders} | {"**/*.key", "**/*.pem", ".git"} <= set(ignored())


@pytest.mark.parametrize("service", ["bank", "acme"])
def test_containers_are_hardened(service):
    kept = compose()["services"][service]
    assert kept["user"] == "65534:65534"
    assert kept["read_only"] is True
    assert kept["cap_drop"] == ["ALL"]
    assert kept["security_opt"] == ["no-new-privileges:true"]
    assert any(entry.startswith("/tmp") for entry in kept["tmpfs"])
    text = (DEPLOY / "Dockerfile").read_text()
    assert text.index("\nUSER 65534") < text.index("\nENTRYPOINT")


def test_the_unit_is_hardened():
    kept = unit()
    assert kept["User"] == "veilboost"
    assert kept["ProtectSystem"] == "strict"
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert kept[name] == "true"
    # What it writes is in its own directories.
    assert "--models /var/lib/veilboost " in kept["ExecStart"]
    assert kept["StateDirectory"] == "veilboost"
    assert kept["Environment"].startswith("NUMBA_CACHE_DIR=/var/cache/veilboost ")


@contextmanager
def serving_as_nobody(which):
    """As uid 65534, without a home, packages and data read-only, a private folder for temporary files."""
    if not can_become_nobody():
        pytest.skip("only root can become another user")
    pytest.importorskip("pyarrow")
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        for part in ("lgb_dp", "xgb_fed", "plugins", "patches"):
            shutil.copytree(
                ROOT / part, folder / "packages" / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        data = folder / "data"
        shutil.copytree(certificates("bank"), data / "certs")
        (data / "bank.csv").write_text("patient,b0\n" + "".join(f"p{k:03d},{k}\n" for k in range(200)))
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for writable in ("models", "tmp"):
            (folder / writable).mkdir(mode=0o700)
            os.chown(folder / writable, 65534, 65534)
        replaced = {
            "bank.parquet": "bank.csv",
            "models": str(folder / "models"),
            "/var/lib/veilboost": str(folder / "models"),
            "0.0.0.0:7001": "127.0.0.1:0",
        }
        command = [re.sub(r"[^=]+$", lambda m: replaced.get(m[0], m[0]), part) for part in commands()[which]]
        paths = ":".join(str(folder / "packages" / part) for part in ("", "plugins", "patches"))
        with (
            open(folder / "log", "w+") as log,
            subprocess.Popen(
                [*AS_NOBODY, sys.executable, "-c", AS_MODULE, *command],
                env={
                    "TMPDIR": str(folder / "tmp"),
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": ":".join(paths),
                },
                cwd=data,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            try:
                line = process.stdout.readline()
                assert line.startswith("listening at"), (folder / "log").read_text()
                yield folder, int(line.rpartition(":")[2])
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
            finally:
                process.kill()


@pytest.mark.parametrize("which", ["compose", pytest.param("systemd", marks=pytest.mark.slow)])
def test_no_home_and_read_only_packages_serve(which):
    with serving_as_nobody(which) as (folder, _):
        assert (folder / "models" / "record.jsonl").stat().st_uid == 65534


@pytest.mark.slow
def test_no_home_and_read_only_packages_train():
    """Kernels are compiled, and splits and journals written, by a user who owns two folders only."""
    pytest.importorskip("nacl")
    ids = [f"p{k:03d}" for k in range(20, 200)]
    with serving_as_nobody("compose") as (folder, port):
        party = xgb_fed.RemoteParty(f"127.0.0.1:{port}", certificates("acme"), "bank", 60)
        alignment = xgb_fed.align([party], ids)
        model = xgb_fed.VerticalXGBClassifier(2, max_depth=2, max_bin=8, cipher=xgb_fed.OkamotoUchiyama())
        X = pd.DataFrame({"a0": np.arange(180) % 7}, index=list(alignment.ids))
        y = np.arange(180) > 90
        model.fit(X, y, parties=[party.with_rows(alignment.digest)])
        assert (model.predict(X) == y).mean() > 0.9
        party.close()
        assert (folder / "models" / "party.store").stat().st_uid == 65534
        (kept,) = kept_models(folder / "models")
        assert (kept.caller, kept.n_splits.isdigit()) == ("acme", True)
