import json
import os
import re
import resource
import signal
import stat
from datetime import datetime
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons.quoting import MAX_CHARACTERS
from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity import record as module
from gbdt_parties.identity.record import Record, check_chain, continued_by, read_record, write_traffic
from gbdt_parties.messages import Envelope
from gbdt_parties.traffic import Flow, Traffic
from limits import no_more_descriptors
from xgb_fed.vertical.protocol.messages import (
    Assignments,
    Gradients,
    OpenTraining,
    RevealedSplits,
    SplitStatistics,
)

SESSION = b"secret-session-k"
NAME = st.sampled_from(["acme", "bank", "ba nk", "bänk"])
SENT = st.lists(
    st.tuples(
        NAME,
        NAME,
        st.sampled_from(
            [messages.Done(), messages.Refusal("no\n{", 0), Gradients(0, 3, b"secret-ciphertext")]
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
    read, refusals, damaged = read_record(path)
    assert not damaged
    assert read.flows == traffic.flows
    refused = [receiver for _, receiver, message, _ in sent if isinstance(message, messages.Refusal)]
    assert [(to, reason) for _, to, reason in refusals] == [(receiver, "no\\n{") for receiver in refused]
    # A session's sums, appended by another writer, count like their messages.
    write_traffic(path, traffic)
    assert path.read_bytes().startswith(before)
    twice = read_record(path).traffic
    assert {k: (f.messages, f.bytes) for k, f in twice.flows.items()} == {
        k: (2 * f.messages, 2 * f.bytes) for k, f in traffic.flows.items()
    }


def test_a_line_holds_no_ids_no_keys_and_no_content(tmp_path):
    record = Record(tmp_path / "record.jsonl")
    secret = b"secret-user-0007"
    bits, whole = np.full(9, 115, dtype=np.uint8), np.full(9, 1_936_024_435, dtype=np.int32)
    for message in (
        OpenTraining(secret, 9, 8, 7, 1, 3, whole, whole.astype(np.int64)),
        Gradients(0, 0, secret),
        SplitStatistics(whole, secret),
        Assignments(whole, bits),
        RevealedSplits(whole, np.array([0.12345], dtype=np.float32), bits, json.dumps(["secret"])),
    ):
        record.add("acme", "bank", Envelope(SESSION, 5, message), 99)
    text = record.path.read_text()
    # The time of a line may have any digits.
    timeless, n_times = re.subn(r'(?<="time": ")20[-0-9]{8}T[:0-9]{8}\.[0-9]{3}\+00:00(?=")', "", text)
    assert n_times == text.count("\n") == 5
    for part in ("secret", secret.hex(), SESSION.hex(), "1936024435", "0.12345", "115"):
        assert part not in timeless
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
    traffic, refusals, damaged = read_record(record.path)
    assert not damaged
    assert {flow.messages for flow in traffic.flows.values()} == {20}
    assert len(refusals) == 80


GOOD = {"time": "t", "from": "a", "to": "b", "message": "Done", "bytes": 1, "ciphertext_bytes": 0}


@pytest.mark.parametrize(
    "text",
    ["nonsense", "[]", "3", '"text"', "null", json.dumps(GOOD)[:-1]]
    + [json.dumps({k: v for k, v in GOOD.items() if k != name}) for name in GOOD if name != "time"]
    + [
        json.dumps(GOOD)[:-1] + f', "bytes": {number}' + "}"
        for number in ("1e999", "-5", "true", '"7"', "9" * 40)
    ]
    + [
        json.dumps({**GOOD, "refused": 1}),
        json.dumps({**GOOD, "bytes": "many"}),
        json.dumps({**GOOD, "from": []}),
        "[" * 100_000,
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_record_is_refused(tmp_path, text):
    path = tmp_path / "record.jsonl"
    path.write_text(json.dumps(GOOD) + "\n")
    assert len(read_record(path)[0].flows) == 1
    path.write_text(text + "\n" + json.dumps(GOOD) + "\n")
    traffic, _, damaged = read_record(path)
    assert ([flow.messages for flow in traffic.flows.values()], damaged) == ([1], 1)
    path.write_text(text + "\n")
    with pytest.raises(InvalidDataError, match=r"record\.jsonl.*record"):
        read_record(path)


def test_no_file(tmp_path):
    with pytest.raises(InvalidDataError, match=r"record: No.*directory"):
        read_record(tmp_path / "nothing.jsonl")


FORGED = "x\n2026-01-01T00:00:00  refused to nobody: forged\x1b[31m RED \x1b]0;title\x07"


def refusal(reason):
    return messages.Envelope(b"s" * 16, 0, messages.Refusal(reason, messages.OTHER_REASON))


DONE = messages.Envelope(b"s" * 16, 1, messages.Done())


@pytest.fixture
def fresh(tmp_path):
    return tmp_path / "record.jsonl"


def test_nothing_that_the_other_side_worded_is_recorded(fresh):
    Record(fresh).add_received("eve", "bank", refusal(FORGED + "\x01" * (1 << 20)), 1 << 20)
    assert fresh.stat().st_size < 300
    assert "forged" not in fresh.read_text()
    assert not read_record(fresh).refusals


def test_own_reasons_are_short_and_on_one_line(fresh):
    record = Record(fresh)
    record.add("bank", "acme", refusal(FORGED), 100)
    record.add("bank", "acme", refusal("\x01" * (1 << 20)), 100)
    assert fresh.stat().st_size < 300 + 6 * 10 * MAX_CHARACTERS
    for _, receiver, reason in read_record(fresh).refusals:
        assert receiver == "acme"
        assert reason.isprintable()


def test_words_in_a_file_are_no_more_trusted_than_those_on_the_network(fresh):
    record = Record(fresh)
    record.add("bank", "acme", refusal("fine"), 100)
    line = json.loads(fresh.read_text())
    with open(fresh, "a") as file:
        for change in ({"from": "\x1b[2J"}, {"time": "\x1b]0;x\x07"}, {"to": 3}, {"bytes": "many"}):
            file.write(json.dumps(line | change) + "\n")
        file.write(json.dumps(line | {"reason": FORGED}) + "\n")
    sums = read_record(fresh)
    assert sums.damaged == 4
    assert [reason.isprintable() for _, _, reason in sums.refusals] == [True, True]
    assert str(sums.traffic).replace("\n", "").isprintable()


def test_a_torn_line_spoils_no_other(fresh):
    record = Record(fresh)
    record.add("bank", "acme", DONE, 10)
    for torn in ('{"time": "2026", "fr', "[" * 100_000, "\udcff"):
        with open(fresh, "a", errors="surrogateescape") as file:
            file.write(torn)
        record.add("bank", "acme", DONE, 10)
    traffic, _, damaged = read_record(fresh)
    assert damaged == 3
    assert traffic.flows["bank", "acme", "Done"].messages == 4
    with open(fresh, "a") as file:
        file.write('{"torn')
    write_traffic(fresh, traffic)
    assert read_record(fresh).traffic.flows["bank", "acme", "Done"].messages == 8


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit of files' lengths here")
def test_a_disk_that_was_full(fresh):
    record = Record(fresh)
    record.add("bank", "acme", DONE, 10)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (fresh.stat().st_size + 70, limits[1]))
        with pytest.raises(OSError, match="too large"):
            record.add("bank", "acme", DONE, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    record.add("bank", "acme", DONE, 10)
    traffic, _, damaged = read_record(fresh)
    assert (traffic.flows["bank", "acme", "Done"].messages, damaged) == (2, 1)


def test_a_record_needs_no_further_descriptor(fresh):
    record = Record(fresh)
    with no_more_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            os.open(fresh, os.O_RDONLY)
        record.add("bank", "acme", DONE, 10)
    assert read_record(fresh).traffic.flows["bank", "acme", "Done"].messages == 1


def test_a_record_that_is_gone_closes_its_file(fresh):
    record = Record(fresh)
    descriptor = record.descriptor
    os.fstat(descriptor)
    del record
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_records_are_their_owners_only(fresh, tmp_path):
    before = os.umask(0o022)
    try:
        Record(fresh)
        write_traffic(tmp_path / "active.jsonl", Traffic())
    finally:
        os.umask(before)
    for file in (fresh, tmp_path / "active.jsonl"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


# A record that has become long is continued in a new file.


@pytest.fixture
def short_files(monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 2000)
    monkeypatch.setattr(module, "MAX_FILES", 4)


def entries(record, count):
    envelope = messages.Envelope(b"s" * 16, 1, messages.Done())
    for _ in range(count):
        record.add("bank", "acme", envelope, 10)


def files_of(path):
    return sorted(path.parent.glob("record*.jsonl"))


def test_a_record_is_continued_and_its_sums_go_on(tmp_path, short_files):
    record = Record(tmp_path / "record.jsonl")
    entries(record, 30)
    sums = read_record(record.path)
    assert continued_by(record.path)[0] == f"record-{len(files_of(record.path)) - 1:06d}.jsonl"
    assert sums.traffic.flows["bank", "acme", "Done"] == Flow(30, 300, 0)
    assert not sums.damaged
    assert check_chain(record.path) == []
    # Another process goes on where this one stopped.
    entries(Record(record.path), 20)
    assert read_record(record.path).traffic.flows["bank", "acme", "Done"] == Flow(50, 500, 0)
    assert check_chain(record.path) == []


def test_disk_attack_by_messages_without_end_is_bounded(tmp_path, short_files):
    record = Record(tmp_path / "record.jsonl")
    entries(record, 500)
    assert len(files_of(record.path)) == 1 + 4
    assert sum(path.stat().st_size for path in files_of(record.path)) < 5 * 2500
    assert read_record(record.path).traffic.flows["bank", "acme", "Done"].messages == 500
    assert check_chain(record.path) == []
    assert len(os.listdir(tmp_path)) == 5


@pytest.mark.parametrize("how", ["removed", "altered"])
def test_attack_on_a_file_set_aside_is_noticed(tmp_path, short_files, how):
    record = Record(tmp_path / "record.jsonl")
    entries(record, 40)
    victim = tmp_path / "record-000002.jsonl"
    if how == "removed":
        victim.unlink()
        assert check_chain(record.path) == ["record-000002.jsonl is missing"]
    else:
        victim.write_text(victim.read_text().replace('"bytes": 10', '"bytes": 99', 1))
        assert check_chain(record.path) == ["record-000002.jsonl has been altered"]


def test_a_record_grows_on_while_it_cannot_be_continued(tmp_path, short_files):
    record = Record(tmp_path / "record.jsonl")
    with no_more_descriptors():
        entries(record, 30)
    assert files_of(record.path) == [record.path]
    entries(record, 1)
    assert len(files_of(record.path)) == 2
    assert read_record(record.path).traffic.flows["bank", "acme", "Done"].messages == 31


def test_a_crash_while_a_record_is_continued_loses_no_sums(tmp_path, short_files):
    record = Record(tmp_path / "record.jsonl")
    entries(record, 10)
    os.replace(record.path, tmp_path / "record-000001.jsonl")
    after = Record(record.path)
    assert read_record(after.path).traffic.flows["bank", "acme", "Done"].messages == 10
    assert check_chain(after.path) == []


# Refusals outlive the files.


def refused(record, reason, receiver="acme"):
    record.add("bank", receiver, refusal(reason), 10)


def test_refusals_are_not_washed_out_by_messages(tmp_path, short_files):
    record = Record(tmp_path / "record.jsonl")
    refused(record, "this party has no splits of that model")
    for k in range(3):
        refused(record, f"message {k} out of order; 1 is next")
    first = read_record(record.path).refusals
    assert [reason for _, _, reason in first][1:] == [
        f"message {k} out of order; 1 is next" for k in range(3)
    ]
    entries(record, 500)
    sums = read_record(record.path)
    assert [(to, reason) for _, to, reason in sums.refusals] == [
        ("acme", "this party has no splits of that model"),
        ("acme", "message # out of order; # is next (3 times up to then)"),
    ]
    assert [time for time, _, _ in sums.refusals] == [first[0][0], first[-1][0]]
    assert sums.traffic.flows["bank", "acme", "Refusal"].messages == 4
    # They go on being summed up.
    refused(record, "this party has no splits of that model")
    entries(record, 500)
    assert "that model (2 times up to then)" in read_record(record.path).refusals[0][2]


def test_disk_attack_by_different_refusals_is_bounded(tmp_path, short_files, monkeypatch):
    monkeypatch.setattr(module, "MAX_RECEIVERS", 2)
    monkeypatch.setattr(module, "MAX_REASONS", 3)
    record = Record(tmp_path / "record.jsonl")
    refused(record, "the first", "acme")
    for k in range(100):
        refused(record, "x" * k, "eve")
    for k in range(100):
        refused(record, "y", f"stranger {k}")
    entries(record, 50)
    sums = read_record(record.path)
    assert len(sums.refusals) == 1 + (3 + 1) + 1
    assert sums.refusals[0][1:] == ("acme", "the first")
    assert sums.refusals[-1][1:] == (module.OTHERS, "y (100 times up to then)")
    assert f"{module.OTHER_REASONS} (97 times" in sums.refusals[-2][2]


def test_calls_turned_away_are_recorded(tmp_path, short_files):
    record = Record(tmp_path / "record.jsonl")
    record.add_turned_away("bank", "eve\x1b[31m", "not on the\nallow-list", 7)
    (entry,) = read_record(record.path).refusals
    assert entry[1:] == ("eve\\x1b[31m", "not on the\\nallow-list (7 times up to then)")
    entries(record, 100)
    assert read_record(record.path).refusals == [entry]


# Files that are not what a record wrote.


def test_files_with_names_that_begin_alike_are_not_the_record_s(tmp_path, short_files):
    """An operator's copy: before, no record could be opened beside it."""
    alike = [f"record-{end}.jsonl" for end in ("1old", "1-2x", "000001.bak", "²")]
    for name in alike:
        (tmp_path / name).write_text("")
    record = Record(tmp_path / "record.jsonl")
    entries(record, 500)
    assert continued_by(record.path) is not None
    assert check_chain(record.path) == []
    assert all((tmp_path / name).exists() for name in alike)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "a/b", "../record.jsonl", "x" * 300, "é" * 200, "a\n", 1]
)
def test_a_forged_name_of_the_file_before_is_a_damaged_line(tmp_path, name):
    path = tmp_path / "record.jsonl"
    record = Record(path)
    entries(record, 1)
    path.write_text(json.dumps({"continues": name, "sha256": "0" * 64}) + "\n" + path.read_text())
    assert continued_by(path) is None
    assert check_chain(path) == []
    assert read_record(path).damaged == 1


def test_a_forged_digest_or_a_folder_in_place_of_the_file_before(tmp_path):
    path = tmp_path / "record.jsonl"
    (tmp_path / "record-000001.jsonl").mkdir()
    path.write_text(json.dumps({"continues": "record-000001.jsonl", "sha256": "0" * 64}) + "\n")
    assert check_chain(path) == ["record-000001.jsonl is missing"]
    path.write_text(json.dumps({"continues": "record-000001.jsonl", "sha256": ""}) + "\n")
    assert continued_by(path) is None
    with pytest.raises(InvalidDataError, match="not a record"):
        read_record(path)
