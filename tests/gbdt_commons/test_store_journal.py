"""How a store's journal is written anew, read while it is, interrupted, and torn by crashes and races."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from threading import Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons import store_index, store_journal
from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore, bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile

NUMBERS, BLOBS = json_kind("numbers"), bytes_kind("blobs")
SECRET = b"a secret that was removed"


def opened(path, **options):
    return StoreFile(path, "a tester", **options)


def contents(store):
    return [{key: list(store.entries(kind, key)) for key in store.keys(kind)} for kind in (NUMBERS, BLOBS)]


def kept_in(path):
    store = opened(path)
    try:
        return contents(store)
    finally:
        store.close()


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["append", "put", "delete"]),
        st.sampled_from([NUMBERS, BLOBS]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 3),
    ),
    max_size=4,
)


def do(store, changes, number):
    for place, (name, kind, key, start) in enumerate(changes):
        if name == "delete":
            store.delete(kind, key, start)
        else:
            getattr(store, name)(
                kind, key, [number, place] if kind is NUMBERS else bytes([number, 0]) * place
            )


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=6), st.data())
@settings(max_examples=25, deadline=None)
def test_a_crash_at_any_byte_leaves_a_state_between_transactions(tmp_path_factory, transactions, data):
    folder = tmp_path_factory.mktemp("crashes")
    store, memory = opened(folder / "a.store"), MemoryStore()
    inode, begun, states = None, 0, []
    for number, (changes, sync) in enumerate([([], True), *transactions]):
        for one in (store, memory):
            with one.transaction(sync=sync):
                do(one, changes, number)
        found = (folder / "a.store").stat()
        if found.st_ino != inode:
            # Written anew, at once and as a whole: a crash leaves this file or that before.
            inode, begun, states = found.st_ino, found.st_size, []
        states.append((found.st_size, contents(memory), [memory.keys(kind) for kind in (NUMBERS, BLOBS)]))
        assert contents(store) == contents(memory)
    whole = (folder / "a.store").read_bytes()
    for end in {begun, len(whole), *data.draw(st.lists(st.integers(begun, len(whole)), max_size=12))}:
        (folder / "b.store").write_bytes(whole[:end] + bytes(data.draw(st.sampled_from([0, 1, 9000]))))
        left = opened(folder / "b.store")
        _, expected, keys = [state for state in states if state[0] <= end][-1]
        assert contents(left) == expected
        assert [left.keys(kind) for kind in (NUMBERS, BLOBS)] == keys
        left.close()
    store.close()
    assert kept_in(folder / "a.store") == contents(memory)


def test_replaced_values_do_not_fill_the_disk(tmp_path):
    path = tmp_path / "a.store"
    store, largest = opened(path), 0
    for number in range(600):
        with store.transaction(sync=False):
            store.put(BLOBS, "last", bytes([number % 256]) * 2000)
            store.put(NUMBERS, "count", number)
        largest = max(largest, path.stat().st_size)
    assert 64 << 10 < largest < 100 << 10
    for _ in range(200):
        with store.transaction(sync=False):
            store.append(BLOBS, "all", bytes(2000))
    assert path.stat().st_size < 600_000
    store.close()
    assert kept_in(path) == [
        {"count": [599]},
        {"last": [bytes([599 % 256]) * 2000], "all": [bytes(2000)] * 200},
    ]


@pytest.mark.parametrize("when", ["the next transaction", "closing", "opening"])
def test_a_removal_that_could_not_write_the_file_anew_is_tried_again(tmp_path, monkeypatch, when):
    path = tmp_path / "a.store"
    store = opened(path)
    store.append(BLOBS, "run", SECRET)
    store.put(NUMBERS, "run", 1)
    with monkeypatch.context() as patch:
        patch.setattr("gbdt_commons.store_journal.os.replace", full)
        store.delete(BLOBS, "run")
        store.put(NUMBERS, "run", 2)
        assert SECRET in path.read_bytes()
        assert contents(store) == [{"run": [2]}, {}]
        if when == "opening":
            store.close()
            assert SECRET in path.read_bytes()
    if when == "the next transaction":
        store.put(NUMBERS, "run", 2)
    elif when == "closing":
        store.close()
    else:
        store = opened(path)
    assert SECRET not in path.read_bytes()
    store.close()
    assert kept_in(path) == [{"run": [2]}, {}]
    assert set(os.listdir(tmp_path)) == {"a.store", "a.store-lock"}


@pytest.mark.parametrize("step", ["pwrite", "fsync", "replace"])
def test_a_crash_as_the_file_is_written_anew_leaves_the_old_one_or_the_new_one(tmp_path, step):
    path = tmp_path / "a.store"
    child = os.fork()
    if not child:
        store = opened(path)
        store.append(BLOBS, "run", SECRET)
        store.append(NUMBERS, "run", 1)
        real, calls = getattr(os, step), []

        def killed(*args):
            calls.append(args)
            # The first write is that of the removal, in the old file.
            if len(calls) > (step == "pwrite"):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)

        setattr(os, step, killed)
        store.delete(BLOBS, "run")
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert ".a.store.part" in os.listdir(tmp_path)
    assert SECRET in path.read_bytes()
    assert kept_in(path) == [{"run": [1]}, {}]
    assert SECRET not in path.read_bytes()
    assert set(os.listdir(tmp_path)) == {"a.store", "a.store-lock"}


class Interrupted:
    """Raises `KeyboardInterrupt` at one line of the journal's code, counted from the beginning."""

    def __init__(self, n_lines):
        self.n_left, self.place = n_lines, None
        self.files = {store_index.__file__, store_journal.__file__}

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line":
            self.n_left -= 1
            if not self.n_left:
                sys.settrace(None)
                self.place = frame.f_code.co_name, frame.f_lineno
                raise KeyboardInterrupt
        return self


def interrupt(change, n_lines):
    """Whether a change was interrupted."""
    before = sys.gettrace()
    sys.settrace(Interrupted(n_lines))
    try:
        change()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_transaction_that_is_interrupted_anywhere_is_kept_or_undone_as_a_whole(tmp_path, without_waits):
    """The store, and the file after it was let go of, say the same; and the store goes on."""
    path, n_lines, is_interrupted, seen = tmp_path / "a.store", 0, True, []
    opened(path).close()
    while is_interrupted:
        n_lines += 1
        store = opened(path)
        before = contents(store)

        def change(store=store, number=n_lines):
            with store.transaction():
                store.append(NUMBERS, "run", number)
                store.put(BLOBS, "last", b"%d" % number)

        is_interrupted = interrupt(change, n_lines)
        after = contents(store)
        n_kept = len(after[0].get("run", ())) - len(before[0].get("run", ()))
        assert after == before or (n_kept == 1 and after[1] == {"last": [b"%d" % n_lines]})
        seen.append(n_kept)
        copy = tmp_path / "copy"
        shutil.copy(path, copy)
        assert kept_in(copy) == after
        store.put(NUMBERS, "next", n_lines)
        store.close()
        assert kept_in(path) == [{**after[0], "next": [n_lines]}, after[1]]
    assert seen[0] == 0
    assert seen[-2:] == [1, 1]
    assert len(seen) > 50


def test_a_removal_that_is_interrupted_anywhere_leaves_a_whole_store(tmp_path, without_waits):
    path, n_lines, is_interrupted, refusals = tmp_path / "a.store", 0, True, []
    while is_interrupted:
        n_lines += 1
        store = opened(path)
        store.append(BLOBS, "run", SECRET)
        store.put(NUMBERS, "run", n_lines)
        is_interrupted = interrupt(lambda store=store: store.delete(BLOBS, "run"), n_lines)
        try:
            assert store.size(BLOBS, "run") in (0, 1)
        except StoreError as error:
            # Between the renaming of the new file and the use of it.
            refusals.append(str(error))
        store.close()
        kept = kept_in(path)
        assert kept[0] == {"run": [n_lines]}
        assert kept[1] in ({}, {"run": [SECRET]})
        assert (SECRET in path.read_bytes()) == bool(kept[1])
        assert set(os.listdir(tmp_path)) == {"a.store", "a.store-lock"}
        store = opened(path)
        store.delete(BLOBS, "run")
        store.close()
    assert n_lines > 100
    assert len(refusals) < 10
    assert all("removed or replaced while it was in use" in text for text in refusals)


def test_a_reader_is_not_disturbed_by_what_the_user_of_a_store_does(tmp_path):
    path, ends = tmp_path / "a.store", Event()
    store = opened(path)
    store.append(NUMBERS, "run", 0)

    def change():
        for number in range(1, 10**6):
            if ends.is_set():
                return
            with store.transaction(sync=False):
                store.append(NUMBERS, "run", number)
                store.put(BLOBS, "last", bytes(number % 3000))
            if number % 20 == 0:
                store.delete(NUMBERS, "run", 1)
            if number % 7 == 0:
                with suppress(ZeroDivisionError):
                    fail(number)

    def fail(number):
        with store.transaction():
            store.append(NUMBERS, "run", number)
            raise ZeroDivisionError

    thread = Thread(target=change)
    thread.start()
    try:
        kept = opened(path, read_only=True)
        until, n_read = time.monotonic() + 1.0, 0
        while time.monotonic() < until or n_read <= 10:
            for reader in (kept, opened(path, read_only=True)):
                assert reader.get(NUMBERS, "run") == 0
                last = reader.get(BLOBS, "last")
                assert not any(last or b"")
                n_read += 1
                if reader is not kept:
                    reader.close()
    finally:
        ends.set()
        thread.join(20)
    assert n_read > 10
    store.put(NUMBERS, "end", 7)
    assert kept.get(NUMBERS, "end") == 7
    store.close()
    assert kept.get(NUMBERS, "end") == 7


def test_a_reader_forgets_a_transaction_that_was_undone(tmp_path, monkeypatch):
    path = tmp_path / "a.store"
    store = opened(path)
    reader = opened(path, read_only=True)
    seen = []

    def failing(descriptor):
        seen.append(contents(reader))
        full()

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", failing)
        with pytest.raises(OSError, match="No space left"):
            store.append(NUMBERS, "run", 1)
    assert seen == [[{"run": [1]}, {}]]
    assert contents(reader) == [{}, {}]
    store.put(NUMBERS, "run", 2)
    assert contents(reader) == [{"run": [2]}, {}]
    store.close()


RACING = """
import sys, time
from gbdt_commons.errors import StoreError
from gbdt_commons.store import json_kind
from gbdt_commons.store_file import StoreFile
numbers, until, n_won = json_kind("numbers"), time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < until or not n_won:
    try:
        store = StoreFile(sys.argv[1], "a tester")
    except StoreError as error:
        assert "in use" in str(error), error
        continue
    for _ in range(3):
        store.put(numbers, "count", (store.get(numbers, "count") or 0) + 1)
        store.append(numbers, "removed", n_won)
        store.delete(numbers, "removed")
        n_won += 1
    store.close()
print(n_won)
"""


def test_processes_that_race_for_a_store_never_have_it_together(tmp_path):
    """Each change is counted, while the file is written anew all the time."""
    command = [sys.executable, "-c", RACING, str(tmp_path / "a.store"), "1.5"]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    counts = [int(process.communicate(timeout=300)[0]) for process in racing]
    assert kept_in(tmp_path / "a.store") == [{"count": [sum(counts)]}, {}]
    assert sum(counts) > 3


KILLED = """
import os, random, sys
from gbdt_commons.store import bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile
numbers, blobs = json_kind("numbers"), bytes_kind("blobs")
store, rng = StoreFile(sys.argv[1], "a tester"), random.Random(os.getpid())
for number in range((store.get(numbers, "last") or 0) + 1, 10**6):
    with store.transaction(sync=rng.random() < 0.5):
        store.put(numbers, "last", number)
        for _ in range(rng.randrange(4)):
            store.append(blobs, f"run {number % 5}", number.to_bytes(4, "big") * rng.randrange(3000))
        if rng.random() < 0.1:
            store.delete(blobs, f"run {rng.randrange(5)}", rng.randrange(3))
        store.put(numbers, "sizes", {key: store.size(blobs, key) for key in sorted(store.keys(blobs))})
    print(number, flush=True)
"""


@pytest.mark.parametrize("n_kills", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_a_process_killed_among_removals_has_kept_all_that_it_said(tmp_path, n_kills):
    path, rng = tmp_path / "a.store", random.Random(n_kills)
    for _ in range(n_kills):
        process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True)
        first = process.stdout.readline()
        time.sleep(rng.random() / 5)
        process.kill()
        said = [line for line in [first, *process.stdout.read().splitlines(True)] if line.endswith("\n")]
        process.wait(60)
        store = opened(path)
        last = store.get(NUMBERS, "last")
        assert last - int(said[-1]) in (0, 1)
        assert store.get(NUMBERS, "sizes") == {
            key: store.size(BLOBS, key) for key in sorted(store.keys(BLOBS))
        }
        for key in store.keys(BLOBS):
            assert all(len(content) % 4 == 0 for content in store.entries(BLOBS, key))
        store.close()
        assert {"a.store", "a.store-lock"} == set(os.listdir(tmp_path))


def test_records_of_many_mebibytes_are_not_kept_in_memory(tmp_path):
    store = opened(tmp_path / "a.store")
    for number in range(4):
        store.append(BLOBS, "run", bytes([number]) * (3 << 20))
    store.append(BLOBS, "gone", SECRET)
    store.delete(BLOBS, "gone")
    assert all(record.content is None for *_, record in store._journal.index)
    assert [content[:2] for content in store.entries(BLOBS, "run")] == [bytes([k, k]) for k in range(4)]
    store.close()
    again = opened(tmp_path / "a.store")
    assert all(record.content is None for *_, record in again._journal.index)
    assert again.get(BLOBS, "run", 3) == bytes([3]) * (3 << 20)
    again.close()


def test_a_record_that_is_damaged_is_not_copied_into_a_new_file(tmp_path):
    path = tmp_path / "a.store"
    store = opened(path)
    store.append(BLOBS, "run", b"content")
    store.append(BLOBS, "gone", SECRET)
    place = path.read_bytes().index(b"content\n")
    with open(path, "r+b") as file:
        found = os.fstat(file.fileno())
        file.seek(place)
        file.write(b"C")
        file.flush()
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    store.delete(BLOBS, "gone")
    with pytest.raises(StoreError, match="a record is damaged"):
        store.get(BLOBS, "run")
    store.close()
    with pytest.raises(StoreError, match="a record is damaged"):
        opened(path)
