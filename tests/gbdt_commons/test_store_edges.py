"""What stores keep apart, let go of and finish where something unusual happens beside them."""

import errno
import os
import zlib
from contextlib import suppress

import pytest

from gbdt_commons import store_journal
from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore, bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile

NUMBERS, BLOBS = json_kind("numbers"), bytes_kind("blobs")
SECRET = b"a secret that was removed"


def opened(path, **options):
    return StoreFile(path, "a tester", **options)


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else opened(tmp_path / "a.store")
    yield store
    store.close()


def failing(*_, **__):
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize("after", ["at once", "after another reading"])
def test_a_reader_forgets_an_undone_transaction_when_another_one_takes_its_very_place(
    tmp_path, monkeypatch, after
):
    path, real = tmp_path / "a.store", os.pwrite
    store = opened(path)
    reader = opened(path, read_only=True)
    seen = []

    def written_in_vain(descriptor, content, start):
        real(descriptor, content, start)
        seen.append(reader.get(NUMBERS, "run"))
        failing()

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", written_in_vain)
        with pytest.raises(OSError, match="Too many open files"):
            store.append(NUMBERS, "run", 1)
    assert seen == [1]
    if after == "after another reading":
        assert reader.size(NUMBERS, "run") == 0
    store.append(NUMBERS, "run", 2)
    assert list(reader.entries(NUMBERS, "run")) == [2]
    store.close()


@pytest.mark.parametrize(
    "step",
    ["gbdt_commons.store_journal.sync_folder", "pathlib.Path.chmod", "os.ftruncate"],
)
def test_a_store_that_could_not_be_opened_is_let_go_of(tmp_path, monkeypatch, step):
    path = tmp_path / "a.store"
    if "sync_folder" not in step:
        store = opened(path)
        store.put(NUMBERS, "run", 1)
        content = path.read_bytes()
        store.close()
        # Torn, as by a crash.
        path.write_bytes(content + b"\0")
    with monkeypatch.context() as patch:
        patch.setattr(step, failing)
        with pytest.raises(OSError, match="Too many open files") as caught:
            opened(path)
    store = opened(path)
    store.put(NUMBERS, "run", 2)
    store.close()
    assert caught.value.errno == errno.EMFILE


@pytest.mark.parametrize("name", ["学", "\0", "é", chr(34), "x"])
def test_a_counter_under_any_name_does_not_fill_the_disk(tmp_path, name):
    path = tmp_path / "a.store"
    store = opened(path)
    name *= 100
    counts, largest = store.part(name), 0
    for number in range(600):
        with store.transaction(sync=False):
            counts.put(NUMBERS, name, number)
        largest = max(largest, path.stat().st_size)
    assert largest < 128 << 10
    store.close()


def test_keys_that_are_no_text_stay_apart_after_a_restart(tmp_path):
    path = tmp_path / "a.store"
    keys = ["\ud83d\ude00", "\U0001f600", "\udcff", "a\nb", "a\\nb", "a\0b", "", "é", "e\u0301"]
    store = opened(path)
    for number, key in enumerate(keys):
        store.put(NUMBERS, key, number)
    store.close()
    store = opened(path)
    assert [store.get(NUMBERS, key) for key in keys] == list(range(len(keys)))
    assert store.keys(NUMBERS) == keys
    store.close()


def test_a_process_that_goes_to_another_folder_uses_the_same_file(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    store = opened("a.store")
    store.append(BLOBS, "run", SECRET)
    monkeypatch.chdir(tmp_path / "other")
    store.put(NUMBERS, "run", 1)
    store.delete(BLOBS, "run")
    store.close()
    assert os.listdir(tmp_path / "other") == []
    store = opened(tmp_path / "a.store")
    assert store.get(NUMBERS, "run") == 1
    store.close()


@pytest.mark.parametrize("again", [False, True])
def test_what_was_replaced_is_removed_with_what_has_replaced_it(tmp_path, again):
    path = tmp_path / "a.store"
    store = opened(path)
    store.put(BLOBS, "key", SECRET)
    store.put(BLOBS, "key", b"")
    if again:
        store.close()
        store = opened(path)
    store.delete(BLOBS, "key")
    assert SECRET not in path.read_bytes()
    store.close()


def test_removals_of_records_without_content_do_not_write_the_file_anew(tmp_path):
    path = tmp_path / "a.store"
    store = opened(path)
    store.put(NUMBERS, "count", 1)
    store.put(NUMBERS, "count", 2)
    store.put(BLOBS, "empty", b"")
    before = path.stat().st_ino
    store.delete(BLOBS, "empty")
    assert path.stat().st_ino == before
    store.close()


def test_parts_whose_names_run_into_each_other_are_apart(store):
    parts = [
        store.part("a").part("b"),
        store.part("a/b"),
        store.part("a%2Fb"),
        store.part("a"),
        store.part("a/").part("b"),
        store.part("").part("a"),
    ]
    for number, part in enumerate(parts):
        part.put(NUMBERS, "run", number)
    assert [part.get(NUMBERS, "run") for part in parts] == list(range(len(parts)))


def test_a_transaction_is_undone_if_a_part_of_it_was_and_the_error_was_lost(store):
    store.put(NUMBERS, "before", 1)

    def change():
        with store.transaction():
            store.put(NUMBERS, "outer", 1)
            with suppress(ValueError), store.transaction():
                store.put(NUMBERS, "inner", 1)
                raise ValueError
            store.put(NUMBERS, "outer", 2)

    with pytest.raises(StoreError, match="a part of the transaction has failed"):
        change()
    assert store.keys(NUMBERS) == ["before"]
    store.put(NUMBERS, "after", 1)
    assert store.keys(NUMBERS) == ["before", "after"]


def test_a_length_out_of_all_bounds_takes_no_memory(tmp_path, monkeypatch):
    """A length in the head of an entry, even with its checksum, is compared with the file first."""
    path = tmp_path / "a.store"
    store = opened(path)
    content, end = path.read_bytes(), path.stat().st_size
    lengths = store_journal._LENGTHS.pack(1 << 62, 1 << 62)
    head = lengths + zlib.crc32(lengths).to_bytes(4, "little") + bytes(16)
    store.close()
    path.write_bytes(content + head + b"table")
    store = opened(path)
    assert path.stat().st_size == end
    store.close()


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
def test_an_error_as_the_file_is_written_anew_does_not_deny_the_transaction_before(
    tmp_path, monkeypatch, error
):
    path = tmp_path / "a.store"
    store = opened(path)
    store.append(BLOBS, "run", SECRET)

    def broken(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(store_journal.Journal, "_copy_to", broken)
        store.delete(BLOBS, "run")
        assert store.size(BLOBS, "run") == 0
    store.put(NUMBERS, "run", 1)
    assert SECRET not in path.read_bytes()
    store.close()


def test_a_transaction_that_raises_an_error_is_undone_also_if_it_was_written(tmp_path, monkeypatch):
    path = tmp_path / "a.store"
    store = opened(path)

    real, calls = os.fdatasync, []

    def broken(descriptor):
        calls.append(descriptor)
        if len(calls) == 1:
            raise MemoryError
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(MemoryError):
            store.append(NUMBERS, "run", 1)
    assert store.size(NUMBERS, "run") == 0
    store.append(NUMBERS, "run", 2)
    store.close()
    store = opened(path)
    assert list(store.entries(NUMBERS, "run")) == [2]
    store.close()
