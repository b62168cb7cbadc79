"""A SuperLink, three SuperNodes and three servers on this machine train by ``flwr run``."""

import pytest

from flower_hospitals import NAMES, exact_in_process, in_process, pin, write_files

pytest.importorskip("flwr", reason="the extra veilboost[flower] is not installed")
pytest.importorskip("pyarrow")
from flower_platform import Platform

SECONDS = 1800.0
"""After which the processes are ended; a minute or two on an idle machine."""


MODELS = {"private": "model.txt", "exact": "model.json"}


@pytest.mark.slow
@pytest.mark.parametrize("method", list(MODELS))
def test_three_nodes_train_and_a_hospital_that_is_killed_comes_back(tmp_path, monkeypatch, method):
    monkeypatch.chdir(tmp_path)
    rounds = 4 if method == "private" else 1
    write_files(tmp_path, method, rounds=rounds, per_round=2, timeout=300.0, patience=900.0)
    record, model = tmp_path / "south" / "record.jsonl", tmp_path / "model" / MODELS[method]
    with Platform(tmp_path, SECONDS) as platform:
        for name in NAMES:
            platform.start_server(name)
            platform.start_node(name)
        platform.run()
        platform.wait_for(lambda: record.exists() and record.read_text().count("Contributed") > 1)
        platform.kill_node("south")
        platform.kill_server("south")
        platform.start_server("south")
        platform.start_node("south")
        platform.wait_for(model.exists)
    pin(monkeypatch.setattr)
    if method == "private":
        assert model.read_text() == in_process(tmp_path, rounds, 2)
    else:
        assert model.read_bytes() == exact_in_process(tmp_path, rounds)
    for name in NAMES:
        assert "127.0.0.1" not in (tmp_path / name / "record.jsonl").read_text()
