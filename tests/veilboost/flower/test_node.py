"""A node's replies to the platform's messages, and what it does not pass on."""

import json
import subprocess
import sys

import pytest

from deployment import HandlerService, certificates, serving
from flower_hospitals import Hospitals, write_files
from gbdt_parties import messages
from gbdt_parties.messages import Refusal
from gbdt_parties.secure_sum.messages import AskSum
from served_parties import Echo
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


def test_a_process_of_a_node_passes_on_what_it_knows_no_kind_of():
    """It has loaded nothing but what a relay needs."""
    with serving(HandlerService(Echo()), "north") as server:
        config = {"party": "north", "address": f"127.0.0.1:{server.port}", "tls": str(certificates("acme"))}
        request = messages.write(bytes(16), 1, AskSum(0, 1, [0, 1, 2], b"sums"))
        code = """if True:
            import json, sys
            from veilboost.flower import client_app
            from veilboost.flower.node import reply
            heavy = {"lightgbm", "xgboost", "numba", "sklearn", "pandas", "veilboost.flower.channel"}
            assert not heavy & set(sys.modules), heavy & set(sys.modules)
            config, request = json.loads(sys.argv[1])
            answered = reply(config, [bytes.fromhex(request)] * 2, 60.0)
            print([one.hex() for one in answered.answers] == [request] * 2, answered.failure)
        """
        ran = [sys.executable, "-c", code, json.dumps([config, request.hex()])]
        found = subprocess.run(ran, capture_output=True, text=True, timeout=300)
    assert (found.stdout.strip(), found.stderr) == ("True", "")


@pytest.mark.parametrize(
    ("message", "is_one"), [(messages.refusal("no"), True), (messages.Done(), False), (b"", False)]
)
def test_refusals_are_known_without_their_content(message, is_one):
    data = message if isinstance(message, bytes) else messages.write(bytes(16), 0, message)
    assert messages.is_refusal(data) == is_one
    assert not messages.is_refusal(b"x" + data[1:])
