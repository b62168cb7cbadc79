"""The wheel holds every module, and trains where there is no checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("lgb_dp", "xgb_fed", "plugins", "patches")
TRAINING = (ROOT / "scripts" / "trial_training.py").read_text()


@pytest.mark.slow
def test_the_wheel_trains_without_the_checkout(tmp_path):
    source, wheels, installed = (tmp_path / name for name in ("source", "wheels", "installed"))
    source.mkdir()
    for name in SOURCES:
        # A copy, so that no old build folder of the checkout gets into the wheel.
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*pip, "--wheel-dir", wheels, source], check=True, env=environment, timeout=900)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(installed)
    folders = [source / name for name in ("", "plugins", "patches")]
    modules = {
        path.relative_to(folder).as_posix()
        for folder in folders
        for package in folder.iterdir()
        if (package / "__init__.py").exists()
        for path in package.rglob("*")
        if path.suffix in (".py", ".pyi") or path.name == "py.typed"
    }
    found = {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}
    assert {name for name in found if ".dist-info/" not in name} == modules
    ran = subprocess.run(
        [sys.executable, "-c", TRAINING, str(installed)],
        env={**environment, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ran.stdout == "trained\n", ran.stderr
