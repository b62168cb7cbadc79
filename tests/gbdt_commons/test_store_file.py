"""What can happen to a store's file: damage, other files, a full disk, a crash, a fork, a second user."""

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from threading import Event, Thread

import pytest
from gbdt_commons.store_journal import VERSION

from gbdt_commons.errors import StoreError
from gbdt_commons.files import is_out_of_room
from gbdt_commons.store import bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile

NUMBERS, BLOBS = json_kind("numbers"), bytes_kind("blobs")


def opened(path, **options):
    return StoreFile(path, "a tester", **options)


def numbers(path):
    store = opened(path)
    try:
        return list(store.entries(NUMBERS, "run"))
    finally:
        store.close()


def filled(path, n=5):
    store = opened(path)
    for number in range(n):
        store.append(NUMBERS, "run", number)
    return store


def bytes_of(folder):
    """Contents of a store and of what is beside it, apart from its lock."""
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.endswith("-lock"))
    return {path.name: path.read_bytes() for path in files}


def crashed(path, copy, n=5):
    """A copy of a store as a killed process would have left it."""
    store = filled(path, n)
    copy.mkdir()
    shutil.copy(path, copy)
    store.close()
    return copy / path.name


def check_refused(path, match, **options):
    before = bytes_of(path.parent)
    with pytest.raises(StoreError, match=match) as caught:
        opened(path, **options).close()
    assert str(path.parent) not in str(caught.value)
    assert path.name in str(caught.value)
    assert bytes_of(path.parent) == before


def test_what_was_kept_is_there_after_a_restart(tmp_path):
    filled(tmp_path / "deep" / "a.store").close()
    assert numbers(tmp_path / "deep" / "a.store") == [0, 1, 2, 3, 4]
    assert set(os.listdir(tmp_path / "deep")) == {"a.store", "a.store-lock"}
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700


def test_all_files_are_their_owners_only(tmp_path):
    before = os.umask(0)
    try:
        store = filled(tmp_path / "a.store")
    finally:
        os.umask(before)
    files = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert set(files.values()) == {0o600}
    assert set(files) == {"a.store", "a.store-lock"}
    store.close()


def test_a_copy_that_others_can_read_becomes_its_owners_again(tmp_path):
    path = tmp_path / "a.store"
    filled(path).close()
    path.chmod(0o644)
    store = filled(path, 1)
    files = {found.name: found.stat().st_mode & 0o777 for found in tmp_path.iterdir()}
    assert set(files.values()) == {0o600}
    assert set(files) == {"a.store", "a.store-lock"}
    store.close()


def test_one_object_of_one_process_uses_a_store(tmp_path):
    store = filled(tmp_path / "a.store")
    with pytest.raises(StoreError, match=r"'a.store' cannot be used: it is in use by another process"):
        opened(tmp_path / "a.store")
    code = "import sys; from gbdt_commons.store_file import StoreFile; StoreFile(sys.argv[1], 'a tester')"
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.store"], capture_output=True, text=True, check=False
    )
    assert "it is in use by another process" in ended.stderr
    store.append(NUMBERS, "run", 5)
    store.close()
    assert numbers(tmp_path / "a.store") == [0, 1, 2, 3, 4, 5]
    with pytest.raises(StoreError, match="closed"):
        store.get(NUMBERS, "run")


def test_an_object_that_is_gone_lets_go(tmp_path):
    filled(tmp_path / "a.store")
    assert len(numbers(tmp_path / "a.store")) == 5


def test_somebody_else_reads_what_is_in_use(tmp_path):
    store = filled(tmp_path / "a.store")
    reader = opened(tmp_path / "a.store", read_only=True)
    store.append(NUMBERS, "run", 5)
    assert list(reader.entries(NUMBERS, "run")) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(StoreError, match="readonly"):
        reader.append(NUMBERS, "run", 6)
    reader.close()
    store.append(NUMBERS, "run", 6)
    store.close()
    reader = opened(tmp_path / "a.store", read_only=True)
    assert reader.size(NUMBERS, "run") == 7
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "none.store", read_only=True)


def with_bytes(path, start, content):
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(content)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda path: path.write_bytes(b""), "no store of this program"),
        (lambda path: path.write_bytes(b"some other file\n" * 99), "damaged, or no store"),
        (lambda path: with_bytes(path, 0, b"veilboost,"), "no store of this program"),
        (lambda path: path.write_bytes(path.read_bytes()[:40]), "it is damaged"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(4080)), "an earlier release wrote it"),
        (lambda path: with_bytes(path, 16, bytes([VERSION + 1])), "a later release wrote it"),
        (lambda path: with_bytes(path, 16, bytes([VERSION - 1])), "an earlier release wrote it"),
        (lambda path: path.write_bytes(path.read_bytes() + b"\0"), "it was cut off, or copied in part"),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "damaged"),
    ],
)
def test_a_foreign_older_newer_or_damaged_file_is_refused_and_stays_as_it_is(tmp_path, spoil, match):
    filled(tmp_path / "a.store").close()
    spoil(tmp_path / "a.store")
    check_refused(tmp_path / "a.store", match)


def test_the_state_of_another_role_is_refused(tmp_path):
    StoreFile(tmp_path / "a.store", "another").close()
    check_refused(tmp_path / "a.store", "keeps the state of another, and not of a tester")


def test_a_folder_of_an_earlier_release_is_refused_by_the_name_of_its_file(tmp_path):
    (tmp_path / "run.journal").write_bytes(b"splits")
    with pytest.raises(StoreError, match=r"'run.journal' cannot be used: an earlier release"):
        opened(tmp_path / "a.store", former=("ledger", "*.journal"))
    assert os.listdir(tmp_path) == ["run.journal"]


def test_any_changed_byte_of_a_closed_store_is_refused(tmp_path, without_waits):
    path = tmp_path / "a.store"
    store = filled(path, 40)
    store.put(BLOBS, "big", bytes(range(256)) * 40)
    store.close()
    whole, rng = path.read_bytes(), random.Random(4)
    for place in [*range(300), *rng.sample(range(len(whole)), 300), len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= rng.randrange(1, 256)
        path.write_bytes(changed)
        check_refused(path, "damaged|release wrote it")
    path.write_bytes(whole)
    assert numbers(path) == list(range(40))


def test_any_changed_bit_of_a_store_that_was_in_use_is_refused(tmp_path, without_waits):
    path = crashed(tmp_path / "a.store", tmp_path / "copy", 4)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8) if place < 64 or place > len(whole) - 64 else [place % 8]:
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            check_refused(path, "damaged|release wrote it")


def test_a_cut_of_a_closed_store_is_refused_at_every_byte(tmp_path, without_waits):
    path = tmp_path / "a.store"
    filled(path, 3).close()
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        check_refused(path, "damaged|release wrote it")
        path.write_bytes(whole[:end] + bytes(len(whole) - end))
        if any(whole[end:]):
            check_refused(path, "damaged|release wrote it")


def test_a_store_in_use_that_was_cut_off_holds_the_transactions_before(tmp_path, without_waits, caplog):
    store, copy, states = opened(tmp_path / "a.store"), tmp_path / "copy" / "a.store", []
    copy.parent.mkdir()
    shutil.copy(tmp_path / "a.store", copy)
    for number in range(3):
        states.append((len((tmp_path / "a.store").read_bytes()), number))
        with store.transaction(sync=number % 2 == 0):
            store.append(NUMBERS, "run", number)
            store.put(BLOBS, "last", bytes([number] * 5 + [0] * 40))
    whole, rng = (tmp_path / "a.store").read_bytes(), random.Random(5)
    states.append((len(whole), 3))
    for end in range(states[0][0], len(whole) + 1):
        n_zeros = rng.choice([0, 0, 1, 5000])
        copy.write_bytes(whole[:end] + bytes(n_zeros))
        n_kept = max(n for size, n in states if size <= end)
        caplog.clear()
        left = opened(copy)
        assert list(left.entries(NUMBERS, "run")) == list(range(n_kept))
        assert left.get(BLOBS, "last") == (bytes([n_kept - 1] * 5 + [0] * 40) if n_kept else None)
        size = copy.stat().st_size
        assert size == states[n_kept][0]
        assert ("a crash has cut off its last transaction" in caplog.text) == (size < end + n_zeros)
        left.append(NUMBERS, "run", n_kept)
        left.close()
        assert numbers(copy) == list(range(n_kept + 1))


@pytest.mark.parametrize("change", ["removed", "repeated", "exchanged", "of another store"])
def test_entries_have_their_order(tmp_path, change):
    """Each of the entries is whole: only the chain of digests tells."""
    path, sizes = tmp_path / "a.store", []
    other = crashed(tmp_path / "b.store", tmp_path / "other").read_bytes()
    store = opened(path)
    for number in range(5):
        sizes.append(path.stat().st_size)
        store.append(NUMBERS, "run", number)
    whole = path.read_bytes()
    store.close()
    head, *entries = (whole[a:b] for a, b in zip([0, *sizes], [*sizes, len(whole)], strict=True))
    assert len(other) == len(whole)
    if change == "removed":
        del entries[1]
    elif change == "repeated":
        entries.insert(2, entries[1])
    elif change == "exchanged":
        entries[1], entries[2] = entries[2], entries[1]
    else:
        entries[4] = other[sizes[4] :]
    path.write_bytes(head + b"".join(entries))
    check_refused(path, "a record is damaged")


@pytest.mark.parametrize("how", ["removed", "replaced", "rolled back in place"])
def test_a_store_that_is_exchanged_while_in_use_is_used_no_more(tmp_path, how):
    store = filled(tmp_path / "a.store")
    backup = (tmp_path / "a.store").read_bytes()
    store.append(NUMBERS, "run", 5)
    if how != "rolled back in place":
        (tmp_path / "a.store").unlink()
    if how != "removed":
        (tmp_path / "a.store").write_bytes(backup)
    for use in (lambda: store.append(NUMBERS, "run", 6), lambda: store.get(NUMBERS, "run")):
        with pytest.raises(StoreError, match="removed or replaced while it was in use"):
            use()


def test_a_store_that_is_exchanged_within_a_transaction_is_used_no_more(tmp_path):
    store = filled(tmp_path / "a.store")
    shutil.copy(tmp_path / "a.store", tmp_path / "backup")
    with store.transaction():
        store.append(NUMBERS, "run", 5)
        os.replace(tmp_path / "backup", tmp_path / "a.store")
    with pytest.raises(StoreError, match="removed or replaced while it was in use"):
        store.append(NUMBERS, "run", 6)


@pytest.mark.parametrize("target", ["there", "not mounted", "folder", "pipe"])
def test_only_a_regular_file_is_a_store(tmp_path, target):
    path, other = tmp_path / "a.store", tmp_path / "disk" / "a.store"
    if target == "folder":
        path.mkdir()
    elif target == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(other)
    if target == "there":
        filled(other).close()
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"'a.store' cannot be used: it is a link, or no regular file"):
            opened(path, read_only=read_only)
    assert not path.is_file() or path.is_symlink()


def failing(monkeypatch, name, n_before=0, error=errno.EIO):
    """Make a call of the system fail after some calls, until what is returned is emptied."""
    real, fails, calls = getattr(os, name), [True], []

    def call(*args):
        calls.append(args)
        if fails and len(calls) > n_before:
            if name == "pwrite":
                real(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
            raise OSError(error, os.strerror(error))
        return real(*args)

    monkeypatch.setattr(f"gbdt_commons.store_journal.os.{name}", call)
    return fails


@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
def test_a_transaction_whose_write_or_sync_has_failed_is_undone_also_after_a_crash(
    tmp_path, monkeypatch, call
):
    path, copy = tmp_path / "a.store", tmp_path / "copy"
    store = filled(path, 1)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        failing(patch, call)
        with pytest.raises(OSError, match="Input/output error"):
            store.append(BLOBS, "run", bytes([7]) * 30_000)
        assert (store.size(BLOBS, "run"), numbers_of(store)) == (0, [0])
        assert path.read_bytes() == before
    store.append(NUMBERS, "run", 1)
    copy.mkdir()
    shutil.copy(path, copy)
    assert numbers(copy / "a.store") == [0, 1]
    store.close()
    assert numbers(path) == [0, 1]


def numbers_of(store):
    return list(store.entries(NUMBERS, "run"))


def test_after_a_failed_sync_the_next_transaction_is_in_a_file_that_was_written_anew(tmp_path, monkeypatch):
    """A second sync of the same file would succeed, whatever has become of its pages."""
    path = tmp_path / "a.store"
    store, inode = filled(path), path.stat().st_ino
    for name in ("fdatasync", "fsync"):
        with monkeypatch.context() as patch:
            failing(patch, name)
            with pytest.raises(OSError, match="Input/output error"):
                store.append(NUMBERS, "run", 5)
            assert path.stat().st_ino == inode
            assert numbers_of(store) == [0, 1, 2, 3, 4]
    store.append(NUMBERS, "run", 5)
    assert path.stat().st_ino != inode
    assert set(os.listdir(tmp_path)) == {"a.store", "a.store-lock"}
    store.close()
    assert numbers(path) == [0, 1, 2, 3, 4, 5]


def test_a_restored_older_file_is_an_older_state_and_no_damage(tmp_path):
    path = tmp_path / "a.store"
    filled(path).close()
    backup = path.read_bytes()
    store = opened(path)
    store.append(NUMBERS, "run", 5)
    store.close()
    path.write_bytes(backup)
    assert numbers(path) == [0, 1, 2, 3, 4]


def test_removed_bytes_are_nowhere_in_the_files(tmp_path):
    store = filled(tmp_path / "a.store")
    secret = os.urandom(24).hex().encode()
    for k in range(40):
        store.append(BLOBS, f"run {k % 4}", secret * (1 + 40 * k))
    store.put(BLOBS, "run 0", b"")
    store.delete(BLOBS, "run 1")
    store.delete(BLOBS, "run 2", 3)
    store.delete(BLOBS, "run 2")
    assert any(secret in content for content in bytes_of(tmp_path).values())
    store.delete(BLOBS, "run 3")
    assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())
    store.close()
    assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())


def test_a_forked_child_is_refused_and_its_end_leaves_the_store_to_its_parent(tmp_path):
    store = filled(tmp_path / "a.store")
    child = os.fork()
    if not child:
        n_refused = 0
        for use in (lambda: store.append(NUMBERS, "run", 9), lambda: store.get(NUMBERS, "run")):
            try:
                use()
            except StoreError as error:
                n_refused += "forked" in str(error)
        store.close()
        del store
        os._exit(n_refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    store.append(NUMBERS, "run", 5)
    store.close()
    assert numbers(tmp_path / "a.store") == [0, 1, 2, 3, 4, 5]


def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not(tmp_path):
    store, is_changing, ends = filled(tmp_path / "a.store"), Event(), Event()

    def change():
        with store.transaction():
            is_changing.set()
            ends.wait(120)

    thread = Thread(target=change)
    thread.start()
    assert is_changing.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(60)
        store.close()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    ends.set()
    thread.join(60)
    assert os.waitstatus_to_exitcode(status) == 0
    store.close()


def test_a_child_that_outlives_its_parent_holds_no_lock(tmp_path):
    code = (
        "import os, sys, time; from gbdt_commons.store_file import StoreFile\n"
        "store = StoreFile(sys.argv[1], 'a tester')\n"
        "if os.fork(): time.sleep(120)\n"
        "print(os.getpid(), flush=True); time.sleep(120)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, tmp_path / "a.store"], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(60)
    try:
        opened(tmp_path / "a.store").close()
    finally:
        os.kill(child, signal.SIGKILL)


KILLED = """
import sys
from gbdt_commons.store import json_kind
from gbdt_commons.store_file import StoreFile
numbers, store = json_kind("numbers"), StoreFile(sys.argv[1], "a tester")
for number in range(store.size(numbers, "run"), 10**6):
    with store.transaction():
        store.append(numbers, "run", number)
        store.put(numbers, "last", [number] * (number % 3000))
    print(number, flush=True)
"""


def killed_at(path, seconds):
    """The last number that a process said was kept before it was killed."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True)
    first = process.stdout.readline()
    time.sleep(seconds)
    process.kill()
    said = [first, *process.stdout.read().splitlines(True)]
    return int([line for line in said if line.endswith("\n")][-1])


@pytest.mark.parametrize("n_kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_a_killed_process_has_kept_all_that_it_said_and_nothing_by_half(tmp_path, n_kills):
    rng = random.Random(n_kills)
    for _ in range(n_kills):
        said = killed_at(tmp_path / "a.store", rng.random() / 5)
        store = opened(tmp_path / "a.store")
        kept = list(store.entries(NUMBERS, "run"))
        assert kept == list(range(len(kept)))
        assert len(kept) - 1 in (said, said + 1)
        last = kept[-1]
        assert store.get(NUMBERS, "last") == [last] * (last % 3000)
        store.close()


def fill_up(path):
    """Run in a process of its own, whose files may not grow beyond a limit."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store, n_kept, failed = opened(path), 0, None
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    while failed is None:
        try:
            with store.transaction():
                store.append(NUMBERS, "run", n_kept)
                store.append(BLOBS, "run", bytes(20_000))
            n_kept += 1
        except OSError as error:
            failed = error
    assert is_out_of_room(failed), failed
    for _ in range(3):
        with pytest.raises(OSError, match="File too large"):
            store.append(BLOBS, "run", bytes(400_000))
    assert list(store.entries(NUMBERS, "run")) == list(range(n_kept))
    assert store.size(BLOBS, "run") == n_kept > 2
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    for number in range(n_kept, n_kept + 50):
        store.append(NUMBERS, "run", number)
    store.close()
    assert numbers(path) == list(range(n_kept + 50))


def test_a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_room(tmp_path):
    child = os.fork()
    if not child:
        try:
            fill_up(tmp_path / "a.store")
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_store_is_not_made_by_half_on_a_full_disk(tmp_path):
    code = (
        "import resource, signal, sys; from gbdt_commons.store_file import StoreFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, resource.RLIM_INFINITY))\n"
        "StoreFile(sys.argv[1], 'a tester')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.store"], capture_output=True, text=True, check=False
    )
    assert "File too large" in ended.stderr
    assert os.listdir(tmp_path) == ["a.store-lock"]
    opened(tmp_path / "a.store").close()


def test_a_process_without_file_descriptors_goes_on(tmp_path):
    store = filled(tmp_path / "a.store")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, hard))
    try:
        with pytest.raises(OSError, match="Too many open files") as caught:
            opened(tmp_path / "b.store")
        assert is_out_of_room(caught.value)
        store.append(NUMBERS, "run", 5)
        store.delete(NUMBERS, "other")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for one in held:
            os.close(one)
    store.close()
    assert numbers(tmp_path / "a.store") == [0, 1, 2, 3, 4, 5]
