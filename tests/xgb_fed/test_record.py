import json
import os
import resource
import signal
import stat

import pytest
from limits import no_more_descriptors

from xgb_fed import messages
from xgb_fed.errors import InvalidDataError
from xgb_fed.quoting import MOST_CHARACTERS
from xgb_fed.record import Record, read_record, write_traffic
from xgb_fed.traffic import Traffic

FORGED = "x\n2026-01-01T00:00:00  refused to nobody: forged\x1b[31m RED \x1b]0;title\x07"


def refusal(reason):
    return messages.Envelope(b"s" * 16, 0, messages.Refusal(reason, messages.OTHER_REASON))


DONE = messages.Envelope(b"s" * 16, 1, messages.Done())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "record.jsonl"


def test_nothing_that_the_other_side_worded_is_recorded(path):
    Record(path).add_received("eve", "bank", refusal(FORGED + "\x01" * (1 << 20)), 1 << 20)
    assert path.stat().st_size < 300
    assert "forged" not in path.read_text()
    assert not read_record(path).refusals


def test_own_reasons_are_short_and_on_one_line(path):
    record = Record(path)
    record.add("bank", "acme", refusal(FORGED), 100)
    record.add("bank", "acme", refusal("\x01" * (1 << 20)), 100)
    assert path.stat().st_size < 300 + 6 * 10 * MOST_CHARACTERS
    for _, receiver, reason in read_record(path).refusals:
        assert receiver == "acme"
        assert reason.isprintable()


def test_words_in_a_file_are_no_more_trusted_than_those_on_the_network(path):
    record = Record(path)
    record.add("bank", "acme", refusal("fine"), 100)
    line = json.loads(path.read_text())
    with open(path, "a") as file:
        for change in ({"from": "\x1b[2J"}, {"time": "\x1b]0;x\x07"}, {"to": 3}, {"bytes": "many"}):
            file.write(json.dumps(line | change) + "\n")
        file.write(json.dumps(line | {"reason": FORGED}) + "\n")
    sums = read_record(path)
    assert sums.damaged == 4
    assert [reason.isprintable() for _, _, reason in sums.refusals] == [True, True]
    assert str(sums.traffic).replace("\n", "").isprintable()


def test_a_torn_line_spoils_no_other(path):
    record = Record(path)
    record.add("bank", "acme", DONE, 10)
    for torn in ('{"time": "2026", "fr', "[" * 100_000, "\udcff"):
        with open(path, "a", errors="surrogateescape") as file:
            file.write(torn)
        record.add("bank", "acme", DONE, 10)
    traffic, _, damaged = read_record(path)
    assert damaged == 3
    assert traffic.flows["bank", "acme", "Done"].messages == 4
    with open(path, "a") as file:
        file.write('{"torn')
    write_traffic(path, traffic)
    assert read_record(path).traffic.flows["bank", "acme", "Done"].messages == 8


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit of files' lengths here")
def test_a_disk_that_was_full(path):
    record = Record(path)
    record.add("bank", "acme", DONE, 10)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 70, limits[1]))
        with pytest.raises(OSError, match="too large"):
            record.add("bank", "acme", DONE, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    record.add("bank", "acme", DONE, 10)
    traffic, _, damaged = read_record(path)
    assert (traffic.flows["bank", "acme", "Done"].messages, damaged) == (2, 1)


def test_a_record_needs_no_further_descriptor(path):
    record = Record(path)
    with no_more_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            os.open(path, os.O_RDONLY)
        record.add("bank", "acme", DONE, 10)
    assert read_record(path).traffic.flows["bank", "acme", "Done"].messages == 1


def test_a_record_that_is_gone_closes_its_file(path):
    record = Record(path)
    descriptor = record._descriptor
    os.fstat(descriptor)
    del record
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_records_are_their_owners_only(path, tmp_path):
    before = os.umask(0o022)
    try:
        Record(path)
        write_traffic(tmp_path / "active.jsonl", Traffic())
    finally:
        os.umask(before)
    for file in (path, tmp_path / "active.jsonl"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_no_record(tmp_path):
    (tmp_path / "other").write_text("{}\n[]\nnonsense\n")
    with pytest.raises(InvalidDataError, match="none of its 3 lines"):
        read_record(tmp_path / "other")
    with pytest.raises(InvalidDataError, match="FileNotFoundError"):
        read_record(tmp_path / "nothing")
