"""Write requirements/newest-3.X.txt: the newest versions that the tests install, for every supported Python.

    make requirements

The versions are resolved for each Python's wheels on x86-64 Linux, so that none of the interpreters is
needed.  Where packages come from is the machine's own setting, of which nothing gets into the files.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def supported_pythons(project: str) -> list[str]:
    """Versions in the classifiers of pyproject.toml."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)


def pinned(version: str) -> str:
    """Lines ``name==version`` for one Python, in the order of the names."""
    command = [
        *(
            str(Path(sys.executable).parent / "uv"),
            "pip",
            "compile",
            "pyproject.toml",
            "--extra",
            "dev",
            "--quiet",
            "--upgrade",
        ),
        *("--python-version", version, "--python-platform", "x86_64-manylinux_2_28"),
        *("--only-binary", ":all:", "--no-header", "--no-annotate", "--no-emit-index-url"),
    ]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Write all sets anew."""
    for version in supported_pythons((ROOT / "pyproject.toml").read_text()):
        path = ROOT / "requirements" / f"newest-{version}.txt"
        path.write_text(pinned(version))
        print(f"{path.relative_to(ROOT)}: {len(path.read_text().splitlines())} packages")


if __name__ == "__main__":
    main()
