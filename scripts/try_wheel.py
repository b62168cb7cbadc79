"""Install the wheel in dist/ into a fresh environment of every Python found, and train outside the source.

    make dist

Interpreters are looked for on the path and below ~/.pyenv/versions, one of each supported version.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pin_requirements import supported_pythons

ROOT = Path(__file__).parents[1]
IDENTIFY = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def interpreters(versions: list[str]) -> dict[str, str]:
    """The first interpreter that runs and can make environments, of each version found."""
    found: dict[str, str] = {}
    pyenv = Path.home() / ".pyenv" / "versions"
    for version in versions:
        installed = sorted(map(str, pyenv.glob(f"{version}.*/bin/python{version}")))
        for candidate in ("python3", f"python{version}", *installed):
            path = shutil.which(candidate)
            if path is not None and version_of(path) == version:
                found.setdefault(version, path)
    return found


def version_of(interpreter: str) -> str | None:
    """Major and minor version; None if the interpreter does not run."""
    ran = subprocess.run([interpreter, "-c", IDENTIFY], capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else None


def try_out(interpreter: str, wheel: Path) -> None:
    """Install the wheel by itself, and train in a folder that holds nothing else."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        subprocess.run([interpreter, "-m", "venv", folder / "venv"], check=True)
        python = folder / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[remote]"], check=True)
        shutil.copy(ROOT / "scripts" / "trial_training.py", folder)
        command = [python, "-I", "trial_training.py", str(folder / "venv")]
        subprocess.run(command, cwd=folder, check=True)
        # XGBoost without its libraries for GPUs, as docs/deploy.md has it.
        drop = ["uninstall", "--quiet", "--yes", "xgboost", "nvidia-nccl-cu12", "nvidia-nccl-cu13"]
        for change in (drop, ["install", "--quiet", "xgboost-cpu"]):
            subprocess.run([python, "-m", "pip", *change], check=True)
        subprocess.run(command, cwd=folder, check=True)
        subprocess.run([folder / "venv" / "bin" / "veilboost", "--version"], cwd=folder, check=True)


def main() -> int:
    """Try the one wheel in dist/ out; gives the exit code."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    found = interpreters(supported_pythons((ROOT / "pyproject.toml").read_text()))
    for version, interpreter in found.items():
        print(f"Python {version} ({interpreter}):", flush=True)
        try_out(interpreter, wheel)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
