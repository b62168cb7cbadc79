"""Write dist/veilboost.cdx.json: everything that the wheel brings with it, with licences (CycloneDX).

make dist
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Install the one wheel in dist/ with its transport, and list that environment; gives the exit code."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory() as name:
        python = Path(name) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", name], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[remote]"], check=True)
        subprocess.run(
            [python, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools"], check=True
        )
        command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
        command += ["--pyproject", str(ROOT / "pyproject.toml")]
        command += ["--output-file", str(ROOT / "dist" / "veilboost.cdx.json"), str(python)]
        subprocess.run(command, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
