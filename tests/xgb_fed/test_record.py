import json
from datetime import datetime
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xgb_fed import messages
from xgb_fed.errors import InvalidDataError
from xgb_fed.messages import Envelope
from xgb_fed.record import Record, read_record, write_traffic
from xgb_fed.traffic import Traffic

SESSION = b"secret-session-k"
NAME = st.sampled_from(["acme", "bank", "ban\nk", "bänk"])
SENT = st.lists(
    st.tuples(
        NAME,
        NAME,
        st.sampled_from(
            [messages.Done(), messages.Refusal("no\n{", 0), messages.Gradients(0, 3, b"secret-ciphertext")]
        ),
        st.integers(1, 10**12),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("record") / "record.jsonl"


@given(SENT)
@settings(max_examples=40)
def test_a_record_sums_up_to_the_traffic(path, sent):
    path.write_text("")
    record, traffic = Record(path), Traffic()
    before = b""
    for sender, receiver, message, n_bytes in sent:
        record.add(sender, receiver, Envelope(SESSION, 0, message), n_bytes)
        traffic.count(sender, receiver, message, n_bytes)
        now = path.read_bytes()
        assert now.startswith(before)
        assert now[len(before) :].count(b"\n") == 1
        before = now
    read, refusals = read_record(path)
    assert read.flows == traffic.flows
    refused = [receiver for _, receiver, message, _ in sent if isinstance(message, messages.Refusal)]
    assert [(to, reason) for _, to, reason in refusals] == [(receiver, "no\n{") for receiver in refused]
    # A session's sums, appended by another writer, count like their messages.
    write_traffic(path, traffic)
    assert path.read_bytes().startswith(before)
    twice, _ = read_record(path)
    assert {k: (f.messages, f.bytes) for k, f in twice.flows.items()} == {
        k: (2 * f.messages, 2 * f.bytes) for k, f in traffic.flows.items()
    }


def test_a_line_holds_no_ids_no_keys_and_no_content(tmp_path):
    record = Record(tmp_path / "record.jsonl")
    secret = b"secret-user-0007"
    bits, whole = np.full(9, 115, dtype=np.uint8), np.full(9, 1_936_024_435, dtype=np.int32)
    for message in (
        messages.OpenTraining(secret, 9, 8, 7, 1, whole, whole.astype(np.int64)),
        messages.Gradients(0, 0, secret),
        messages.SplitStatistics(whole, whole, secret),
        messages.Assignments(whole, bits),
        messages.RevealedSplits(whole, np.array([0.12345], dtype=np.float32), bits, json.dumps(["secret"])),
    ):
        record.add("acme", "bank", Envelope(SESSION, 5, message), 99)
    text = record.path.read_text()
    for part in ("secret", secret.hex(), SESSION.hex(), "1936024435", "0.12345", "115"):
        assert part not in text
    for line in map(json.loads, text.splitlines()):
        assert list(line) == ["time", "from", "to", "message", "bytes", "ciphertext_bytes", "session"]
        assert line["session"] == SESSION.hex()[:8]
        assert datetime.fromisoformat(line["time"]).utcoffset().total_seconds() == 0


def test_lines_of_several_threads_stay_whole(tmp_path):
    record = Record(tmp_path / "record.jsonl")
    refusal = messages.Refusal("x" * 20_000, 0)

    def add(sender):
        for _ in range(20):
            record.add(sender, "bank", Envelope(SESSION, 0, refusal), 7)

    threads = [Thread(target=add, args=(f"caller {k}",)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    traffic, refusals = read_record(record.path)
    assert {flow.messages for flow in traffic.flows.values()} == {20}
    assert len(refusals) == 80


GOOD = {"time": "t", "from": "a", "to": "b", "message": "Done", "bytes": 1, "ciphertext_bytes": 0}


@pytest.mark.parametrize(
    "text",
    ["nonsense", "[]", "3", '"text"', "null", json.dumps(GOOD)[:-1]]
    + [json.dumps({k: v for k, v in GOOD.items() if k != name}) for name in GOOD if name != "time"]
    + [json.dumps({**GOOD, "bytes": "many"}), json.dumps({**GOOD, "from": []}), "[" * 100_000],
    ids=lambda text: text[:30],
)
def test_what_is_no_record_is_refused(tmp_path, text):
    path = tmp_path / "record.jsonl"
    path.write_text(json.dumps(GOOD) + "\n")
    assert len(read_record(path)[0].flows) == 1
    path.write_text(json.dumps(GOOD) + "\n" + text + "\n")
    with pytest.raises(InvalidDataError, match=r"record\.jsonl is not a record"):
        read_record(path)


def test_no_file(tmp_path):
    with pytest.raises(InvalidDataError, match="FileNotFoundError"):
        read_record(tmp_path / "nothing.jsonl")
