"""What keeps a host library from being loaded is named, wherever a user comes in."""

import subprocess
import sys

import pytest

from gbdt_commons.errors import VeilboostError
from gbdt_hosts.loading import HostLibraryError, load_host

WITHOUT = """
import ctypes, sys
name, *entries = sys.argv[1:]
load = ctypes.CDLL.__init__
def refuse(self, path, *arguments, **options):
    if path and (f"lib_{name}" in str(path) or f"lib{name}" in str(path)):
        raise OSError(said)
    load(self, path, *arguments, **options)
ctypes.CDLL.__init__ = refuse
for said in (
    "libgomp.so.1: cannot open shared object file: No such file or directory",
    "/somewhere/lib.so: wrong ELF class: ELFCLASS32",
):
    for entry in entries:
        try:
            exec(entry)
        except ImportError as error:
            print(type(error).__name__, error, sep=": ")
"""
"""Runs entries while the loader refuses a library: for want of OpenMP, then as of another machine."""

ENTRIES = {
    "lightgbm": (
        "from lgb_dp import Dataset",
        "from lgb_dp import NoGuaranteeError",
        "from lgb_dp.federated import Party",
        "from gbdt_hosts.lightgbm.text import Tree",
    ),
    "xgboost": (
        "from xgb_fed import VerticalXGBClassifier",
        "from xgb_fed import HorizontalParty",
        "import xgb_fed.vertical.model.model",
        "from gbdt_hosts.xgboost.model import *",
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_what_keeps_a_library_from_being_loaded_is_named_in_one_sentence(name):
    command = [sys.executable, "-c", WITHOUT, name, *ENTRIES[name]]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    lines = ran.stdout.splitlines()
    n = len(ENTRIES[name])
    assert len(lines) == 2 * n
    for line in lines[:n]:
        assert line.startswith(
            f"HostLibraryError: {name} cannot be loaded because this machine has no OpenMP"
        )
        assert "(libgomp)" in line
        assert "apt-get install libgomp1" in line
    for line in lines[n:]:
        assert line.startswith(f"HostLibraryError: {name} is installed, but its library cannot be loaded")
        assert "wrong ELF class" in line
        assert f"pip install --force-reinstall {name}" in line


@pytest.mark.parametrize(
    ("name", "version", "at_least", "below"),
    [
        ("lightgbm", "4.1.0", (4, 2), 5),
        ("lightgbm", "5.0.0", (4, 2), 5),
        ("xgboost", "1.7.6", (2, 0), 4),
        ("xgboost", "4.0.0", (2, 0), 4),
        ("xgboost", "4.0.0-dev", (2, 0), 4),
        ("xgboost", "unknown", (2, 0), 4),
    ],
)
def test_a_version_outside_the_range_is_named(monkeypatch, name, version, at_least, below):
    monkeypatch.setattr(f"{name}.__version__", version)
    with pytest.raises(HostLibraryError, match=rf"{name} {version} is installed.*<{below}'$") as raised:
        load_host(name, at_least, below)
    assert isinstance(raised.value, ImportError)
    assert isinstance(raised.value, VeilboostError)


@pytest.mark.parametrize("version", ["2.0.0", "3.2.0", "3.10.1rc1"])
def test_versions_in_the_range_are_taken(monkeypatch, version):
    monkeypatch.setattr("xgboost.__version__", version)
    load_host("xgboost", (2, 0), 4)


def test_a_library_that_is_not_installed_is_missing():
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_host("no_such_library", (1, 0), 2)
