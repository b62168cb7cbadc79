"""A SuperLink and three SuperNodes on this machine train by ``flwr run``."""

import pytest

from flower_hospitals import NAMES, exact_in_process, in_process, pin, write_files

pytest.importorskip("flwr", reason="the extra veilboost[flower] is not installed")
pytest.importorskip("pyarrow")
from flower_platform import Platform

SECONDS = 1800.0
"""After which the processes are ended; a minute or two on an idle machine."""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["private", "exact"])
def test_three_nodes_train_and_a_hospital_that_is_killed_comes_back(tmp_path, monkeypatch, method):
    monkeypatch.chdir(tmp_path)
    rounds = 4 if method == "private" else 1
    write_files(tmp_path, method, rounds=rounds, per_round=2, timeout=300.0, patience=900.0)
    record, model = tmp_path / "south" / "record.jsonl", tmp_path / "model" / "about.json"
    if method == "private":
        model = tmp_path / "model" / "model.txt"
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
        platform.wait_for(lambda: "rounds with 3 parties" in platform.log("run") or model.exists())
    text = model.with_name("model.txt" if method == "private" else "model.json").read_text()
    pin(monkeypatch.setattr)
    expected = in_process(tmp_path, rounds, 2) if method == "private" else exact_in_process(tmp_path, rounds)
    assert text.encode() == (expected.encode() if isinstance(expected, str) else expected)
    for name in NAMES:
        assert "127.0.0.1" not in (tmp_path / name / "record.jsonl").read_text()
