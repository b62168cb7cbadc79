"""Write the source distribution in dist/ again, the same bytes for the same commit.

    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) make dist

setuptools keeps the times, owners and order of the files that it found; wheels have no such traces.
"""

from __future__ import annotations

import gzip
import os
import sys
import tarfile
from pathlib import Path

DIST = Path(__file__).parents[1] / "dist"


def repack(archive: Path, seconds: int) -> None:
    """Sort the members of an archive, and give them one time, no owner and plain modes."""
    beside = archive.with_suffix(".new")
    with (
        tarfile.open(archive) as old,
        beside.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    beside.replace(archive)


def main() -> int:
    """Repack the one source distribution in dist/; gives the exit code."""
    (archive,) = DIST.glob("*.tar.gz")
    repack(archive, int(os.environ["SOURCE_DATE_EPOCH"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
