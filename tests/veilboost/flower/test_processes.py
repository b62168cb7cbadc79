"""A SuperLink and three SuperNodes on this machine train by ``flwr run``."""

import pytest

from flower_hospitals import NAMES, in_process, pin, write_files

pytest.importorskip("flwr", reason="the extra veilboost[flower] is not installed")
pytest.importorskip("pyarrow")
from flower_platform import Platform

SECONDS = 1800.0
"""After which the processes are ended; a minute or two on an idle machine."""


@pytest.mark.slow
def test_three_nodes_train_and_one_that_is_killed_comes_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, rounds=4, per_round=2, timeout=300.0, patience=900.0)
    record = tmp_path / "south" / "record.jsonl"
    with Platform(tmp_path, SECONDS) as platform:
        for name in NAMES:
            platform.start_node(name)
        platform.run()
        platform.wait_for(lambda: record.exists() and "Contributed" in record.read_text())
        platform.kill_node("south")
        platform.start_node("south")
        platform.wait_for(lambda: (tmp_path / "model" / "model.txt").exists())
    text = (tmp_path / "model" / "model.txt").read_text()
    pin(monkeypatch.setattr)
    assert text == in_process(tmp_path, 4, 2)
    for name in NAMES:
        assert "127.0.0.1" not in (tmp_path / name / "record.jsonl").read_text()
