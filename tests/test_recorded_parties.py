"""Parties that a release has left in the middle of a run go on with it, byte by byte as it did.

``python tests/test_recorded_parties.py [kind …]`` records anew, after a change on purpose.  From a release
on, its recordings stay as they are: its stores are migrated, and its requests are those of a neighbour.
"""

import json
import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(Path(__file__).parent / "support"))

import pytest

from gbdt_parties import messages
from recorded_parties import FOLDER, RUNS, Restarted, conversation, record
from recording import conditions, pinned

CONDITIONS = FOLDER / "conditions.json"


@pytest.mark.parametrize("kind", RUNS)
def test_a_recorded_party_goes_on_with_its_run(kind, tmp_path):
    others = {
        name for name, value in json.loads(CONDITIONS.read_text()).items() if conditions()[name] != value
    }
    if others:
        pytest.skip(f"parties were recorded with other {others}")
    shutil.copytree(FOLDER / kind / "party", tmp_path / "party")
    with pinned(f"recorded {kind}"), closing(Restarted(RUNS[kind][0], tmp_path / "party")) as party:
        for request, answer in conversation(kind):
            found = party.handle(request)
            what = type(messages.read(request).message).__name__
            assert messages.read(found).message.__class__ is messages.read(answer).message.__class__, what
            assert found == answer, what


def test_recordings_are_small_and_of_every_kind():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert {path.name for path in FOLDER.iterdir()} == {*RUNS, CONDITIONS.name}
    assert sum(path.stat().st_size for path in files) < 1 << 20


if __name__ == "__main__":
    for chosen in sys.argv[1:] or RUNS:
        record(chosen)
    CONDITIONS.write_text(json.dumps(conditions(), indent=1) + "\n")
