import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_parties._entries import EntryFile, entry_of, read_entries
from gbdt_parties.errors import ProtocolError

CONTENTS = st.lists(st.binary(max_size=60) | st.just(b"\0" * 9), max_size=5)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("entries") / "file"


def found(path):
    return [content for content, _ in read_entries(path)]


def whole_size(path):
    return max((end for _, end in read_entries(path)), default=0)


@given(CONTENTS, st.data())
@settings(max_examples=100)
def test_a_file_cut_off_at_any_byte_holds_the_whole_entries_and_goes_on(path, contents, data):
    entries = [entry_of(content) for content in contents]
    written = b"".join(entries)
    end = data.draw(st.integers(0, len(written)))
    # Blocks that were given to the file, and never written, read as zeros.
    path.write_bytes(written[:end] + b"\0" * data.draw(st.sampled_from([0, 1, 40, 70_000])))
    n_whole = max(k for k in range(len(entries) + 1) if len(b"".join(entries[:k])) <= end)
    assert found(path) == contents[:n_whole]
    file = EntryFile(path, whole_size(path))
    for content in (b"further", b"", b"\0"):
        file.append(content, sync=False)
    assert found(path) == [*contents[:n_whole], b"further", b"", b"\0"]


@given(CONTENTS.filter(bool), st.data())
@settings(max_examples=100)
def test_a_changed_byte_is_damage(path, contents, data):
    written = bytearray(b"".join(map(entry_of, contents)))
    written[data.draw(st.integers(0, len(written) - 2))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(written)
    with pytest.raises(ValueError, match="damaged"):
        found(path)


def test_an_entry_that_could_not_be_written_does_not_count(tmp_path, monkeypatch):
    path = tmp_path / "file"
    file = EntryFile(path, 0)
    file.append(b"first", sync=True)
    write, calls = os.write, []

    def half(descriptor, content):
        calls.append(descriptor)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(content)[: len(content) // 2])

    with monkeypatch.context() as patch:
        patch.setattr("gbdt_parties._entries.os.write", half)
        with pytest.raises(OSError, match="No space"):
            file.append(b"second", sync=True)
    assert found(path) == [b"first"]
    file.append(b"third", sync=True)
    assert found(path) == [b"first", b"third"]


def test_entries_are_on_the_disk_if_that_was_asked_for(tmp_path, monkeypatch):
    path, synced = tmp_path / "file", []
    monkeypatch.setattr("gbdt_parties._entries.os.fdatasync", lambda fd: synced.append(found(path)))
    file = EntryFile(path, 0)
    file.append(b"one", sync=False)
    assert synced == []
    file.append(b"two", sync=True)
    assert synced == [[b"one", b"two"]]


def test_the_file_is_its_owners_only_and_is_closed(tmp_path):
    file = EntryFile(tmp_path / "file", 0)
    descriptor = file._descriptor
    assert os.fstat(descriptor).st_mode & 0o777 == 0o600
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_entries_of_another_object_are_neither_cut_off_nor_followed(tmp_path):
    """Before, each object cut the other's entries off, and the file was damaged for both."""
    path = tmp_path / "entries"
    one, other = EntryFile(path, 0), EntryFile(path, 0)
    one.append(b"first", sync=False)
    with pytest.raises(ProtocolError, match="continued elsewhere"):
        other.append(b"another first", sync=False)
    one.append(b"second", sync=False)
    assert [content for content, _ in read_entries(path)] == [b"first", b"second"]
    path.write_bytes(b"")
    with pytest.raises(ProtocolError, match="cut off"):
        one.append(b"third", sync=False)
