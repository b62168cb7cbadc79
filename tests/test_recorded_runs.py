"""Models, charges and messages of all ways of training are those that were recorded.

``python tests/test_recorded_runs.py [part of a name]`` records anew, after a change on purpose.
"""

import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(Path(__file__).parent / "support"))

import pytest

import recorded_federated
import recorded_private
from recording import FILE, conditions, digests, record

RUNS = {**recorded_private.RUNS, **recorded_federated.RUNS}
SLOW = ("newton subsample", "apart", "dask", "over TLS", "several classes", "many rows")


@pytest.fixture(scope="module")
def recorded():
    kept, here = json.loads(FILE.read_text()), conditions()
    others = {name: value for name, value in kept["conditions"].items() if here[name] != value}
    if others:
        pytest.skip(f"runs were recorded with {others}")
    return kept["runs"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * any(word in name for word in SLOW)) for name in RUNS],
)
def test_a_run_is_the_recorded_one(recorded, name):
    assert digests(name, RUNS[name]) == recorded[name]


def test_all_runs_are_recorded(recorded):
    assert recorded.keys() == RUNS.keys()


if __name__ == "__main__":
    record(RUNS, [name for name in RUNS if "".join(sys.argv[1:]) in name])
