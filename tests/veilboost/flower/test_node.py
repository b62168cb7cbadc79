"""A node's replies to the platform's messages, and what it does not pass on."""

import pytest

from flower_hospitals import Hospitals, write_files
from gbdt_parties import messages
from gbdt_parties.messages import Refusal
from gbdt_parties.secure_sum.messages import AskSum
from veilboost.flower.node import FAILURE, reply

pytest.importorskip("pyarrow")
pytest.importorskip("grpc")


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    with Hospitals(tmp_path) as running:
        yield running


def test_a_node_says_whose_relay_it_is_without_asking_the_server(hospitals):
    config = hospitals.config("north")
    hospitals.stop("north")
    answer = reply(config, [], 1.0)
    assert (answer.name, list(answer.answers), answer.failure) == ("north", [], "")


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("party", None, "the node's configuration has no party"),
        ("address", 7001, "the node's configuration has no address"),
        ("tls", "", "the node's configuration has no tls"),
        ("address", "nowhere", "address='nowhere' must be host:port"),
        ("address", "127.0.0.1:1", "is unavailable"),
        ("tls", "certs/none", r"cannot read ca.pem"),
        # Neither the party's own certificate nor that of another node is that of this node.
        ("tls", "certs/north", "refuses"),
        ("tls", "certs/south-node", "refuses"),
        # The server at the address has another party's certificate.
        ("party", "south", "certificates do not match"),
    ],
)
def test_a_node_that_cannot_ask_says_why_in_its_own_log_alone(hospitals, caplog, entry, value, said):
    config = {**hospitals.config("north"), entry: value}
    answer = reply(config, [b"x"], 60.0)
    assert (answer.name, list(answer.answers), answer.failure) == ("", [], FAILURE)
    assert said in caplog.text
    record = hospitals.folder / "north" / "record.jsonl"
    assert not record.exists() or '"OpenPrivateRun"' not in record.read_text()


def test_requests_behind_a_refused_one_are_not_passed_on(hospitals):
    requests = [messages.write(bytes(16), n, AskSum(0, 1, [0, 1, 2], b"")) for n in range(3)]
    answer = reply(hospitals.config("north"), requests, 10.0)
    (refused,) = answer.answers
    assert isinstance(messages.read(refused).message, Refusal)
    record = (hospitals.folder / "north" / "record.jsonl").read_text()
    assert record.count("AskSum") == 1
    assert '"north-node"' in record
