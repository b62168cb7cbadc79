"""A party's answers to the platform's messages, and what it does not answer."""

import pytest

from flower_hospitals import write_files
from gbdt_parties import messages
from gbdt_parties.messages import Refusal
from gbdt_parties.secure_sum.messages import AskSum
from veilboost.flower.node import FAILURE, reply

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return tmp_path


def test_a_node_says_whose_rows_it_has(folder):
    answer = reply(folder / "north.toml", [])
    assert (answer.name, list(answer.answers), answer.failure) == ("north", [], "")


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ('["flower"]', '["acme"]', "must have 'flower'"),
        ('"private"', '"exact"', "unknown entry 'declared'"),
        ('"north.csv"', '"secret.csv"', "secret.csv"),
    ],
)
def test_a_party_that_does_not_answer_says_why_in_its_own_log_alone(folder, caplog, written, instead, said):
    text = (folder / "north.toml").read_text()
    assert written in text
    (folder / "north.toml").write_text(text.replace(written, instead))
    answer = reply(folder / "north.toml", [b"x"])
    assert (answer.name, list(answer.answers), answer.failure) == ("", [], FAILURE)
    assert said in caplog.text


def test_requests_behind_a_refused_one_are_not_answered(folder):
    requests = [messages.write(bytes(16), n, AskSum(0, 1, [0, 1, 2], b"")) for n in range(3)]
    answer = reply(folder / "north.toml", requests)
    (refused,) = answer.answers
    assert isinstance(messages.read(refused).message, Refusal)
    assert (folder / "north" / "record.jsonl").read_text().count("AskSum") == 1
