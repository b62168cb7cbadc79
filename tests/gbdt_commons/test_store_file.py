"""What can happen to a store's file: damage, other files, a full disk, a crash, a fork, a second user."""

import errno
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from gbdt_commons.errors import StoreError
from gbdt_commons.files import is_out_of_room
from gbdt_commons.store import bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile
from gbdt_commons.store_opening import VERSION
from gbdt_commons.write_ahead_log import is_whole

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
    """Contents of a store and its log; the index of the log is made anew by every user."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith(("-shm", "-lock"))}


def crashed(path, copy, n=5):
    """A copy of a store and its log as a killed process would have left them."""
    store = filled(path, n)
    copy.mkdir()
    for one in path.parent.glob(f"{path.name}*"):
        if not one.name.endswith("-lock"):
            shutil.copy(one, copy)
    store.close()
    return copy / path.name


def check_refused(path, match, **options):
    before = bytes_of(path.parent)
    with pytest.raises(StoreError, match=match) as caught:
        opened(path, **options).close()
    assert str(path.parent) not in str(caught.value)
    assert path.name in str(caught.value)
    after = bytes_of(path.parent)
    assert {name: content for name, content in after.items() if name in before or content} == before


def test_what_was_kept_is_there_after_a_restart(tmp_path):
    filled(tmp_path / "deep" / "a.store").close()
    assert numbers(tmp_path / "deep" / "a.store") == [0, 1, 2, 3, 4]
    assert not (tmp_path / "deep" / "a.store-wal").exists()
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700


def test_all_files_are_their_owners_only(tmp_path):
    before = os.umask(0)
    try:
        store = filled(tmp_path / "a.store")
    finally:
        os.umask(before)
    files = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert set(files.values()) == {0o600}
    assert {"a.store", "a.store-wal", "a.store-shm"} <= set(files)
    store.close()


def test_a_copy_that_others_can_read_becomes_its_owners_again(tmp_path):
    path = tmp_path / "a.store"
    filled(path).close()
    path.chmod(0o644)
    store = filled(path, 1)
    files = {found.name: found.stat().st_mode & 0o777 for found in tmp_path.iterdir()}
    assert set(files.values()) == {0o600}
    assert {"a.store", "a.store-wal", "a.store-shm"} <= set(files)
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


def with_pragma(path, pragma):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {pragma}")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda path: path.write_bytes(b""), "no store of this program"),
        (lambda path: path.write_bytes(b"some other file\n" * 99), "damaged, or no store"),
        (lambda path: with_pragma(path, "application_id = 7"), "no store of this program"),
        (lambda path: with_pragma(path, f"user_version = {VERSION + 1}"), "a later release wrote it"),
        (lambda path: with_pragma(path, f"user_version = {VERSION - 1}"), "an earlier release wrote it"),
        (lambda path: with_pragma(path, "journal_mode = DELETE"), "it is damaged"),
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


def test_any_changed_byte_is_refused_or_changes_no_record(tmp_path):
    path = tmp_path / "a.store"
    store = filled(path, 40)
    store.put(BLOBS, "big", bytes(range(256)) * 40)
    store.close()
    whole, rng = path.read_bytes(), random.Random(4)
    n_refused = 0
    for place in [*range(100), *rng.sample(range(len(whole)), 60)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        for end in ("-wal", "-shm"):
            (tmp_path / f"a.store{end}").unlink(missing_ok=True)
        path.write_bytes(changed)
        try:
            store = opened(path)
        except StoreError:
            n_refused += 1
            assert path.read_bytes() == changed
            continue
        assert list(store.entries(NUMBERS, "run")) == list(range(40))
        assert store.get(BLOBS, "big") == bytes(range(256)) * 40
        assert (store.keys(NUMBERS), store.keys(BLOBS)) == (["run"], ["big"])
        store.close()
    assert n_refused > 60


def test_any_changed_byte_of_a_log_is_refused_or_undoes_no_transaction(tmp_path):
    path = crashed(tmp_path / "a.store", tmp_path / "copy", 8)
    log, rng = path.with_name("a.store-wal"), random.Random(3)
    whole, store = log.read_bytes(), path.read_bytes()
    n_refused = 0
    for place in [*range(60), *rng.sample(range(len(whole)), 80)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        path.write_bytes(store)
        path.with_name("a.store-shm").unlink(missing_ok=True)
        log.write_bytes(changed)
        try:
            found = numbers(path)
        except StoreError:
            n_refused += 1
            assert log.read_bytes() == changed
            assert path.read_bytes() == store
            continue
        assert found == list(range(8))
    assert n_refused > 60


def test_a_log_that_was_cut_off_holds_the_transactions_before(tmp_path):
    path = crashed(tmp_path / "a.store", tmp_path / "copy", 6)
    log, rng = path.with_name("a.store-wal"), random.Random(5)
    whole, store = log.read_bytes(), path.read_bytes()
    seen = set()
    for end in [0, 1, 32, 33, len(whole), *rng.sample(range(len(whole)), 25)]:
        path.write_bytes(store)
        path.with_name("a.store-shm").unlink(missing_ok=True)
        log.write_bytes(whole[:end] + bytes(rng.choice([0, 1, 5000])))
        found = numbers(path)
        assert found == list(range(len(found)))
        seen.add(len(found))
    assert {0, 6} < seen
    assert not log.exists()


def test_a_log_is_not_forgotten_when_it_is_removed(tmp_path):
    path = crashed(tmp_path / "a.store", tmp_path / "copy")
    path.with_name("a.store-wal").unlink()
    check_refused(path, "'a.store-wal' is missing", read_only=True)
    check_refused(path, "'a.store-wal' is missing")


def test_a_log_of_a_store_that_was_removed_is_not_read_into_a_new_one(tmp_path):
    path = crashed(tmp_path / "a.store", tmp_path / "copy")
    path.unlink()
    check_refused(path, "it was removed, and its log")


def test_damage_to_a_last_page_that_ends_with_zeros_is_damage(tmp_path):
    store, copy = opened(tmp_path / "a.store"), tmp_path / "copy"
    for number in range(2):
        with store.transaction():
            store.append(NUMBERS, "run", number)
            store.append(BLOBS, "run", bytes([7]) * 8250)
    copy.mkdir()
    for end in ("", "-wal"):
        shutil.copy(tmp_path / f"a.store{end}", copy)
    log = copy / "a.store-wal"
    whole, rng = log.read_bytes(), random.Random(6)
    assert whole.endswith(bytes(100))
    last_page = range(len(whole) - 4096, len(whole))
    for place in [*rng.sample(last_page, 20), last_page[-1], len(whole) - 2 * 4120 + 100]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        log.write_bytes(changed)
        check_refused(copy / "a.store", "its log is damaged")
    log.write_bytes(whole)
    assert numbers(copy / "a.store") == [0, 1]


def test_logs_that_are_none(tmp_path):
    for content in (b"", b"x", bytes(4096), b"\0" * 32):
        (tmp_path / "log").write_bytes(content)
        assert is_whole(tmp_path / "log")
    (tmp_path / "log").write_bytes(b"x" * 4096)
    assert not is_whole(tmp_path / "log")
    assert is_whole(tmp_path / "none")


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


def test_a_damaged_description_of_a_table_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "a.store"
    filled(path).close()
    whole = path.read_bytes()
    for name in (b"CREATE TABLE about", b"CREATE TABLE record"):
        place = whole.index(name)
        for offset in range(len(name)):
            path.write_bytes(whole[: place + offset] + b"\xf2" + whole[place + offset + 1 :])
            check_refused(path, "it is damaged")


@pytest.mark.parametrize("change", ["DELETE FROM about", "INSERT INTO about VALUES ('a tester', 0)"])
def test_a_store_has_one_role(tmp_path, change):
    filled(tmp_path / "a.store").close()
    connection = sqlite3.connect(tmp_path / "a.store")
    connection.execute(change)
    connection.commit()
    connection.close()
    check_refused(tmp_path / "a.store", "it is damaged")


def test_a_transaction_whose_sync_has_failed_is_no_damage_after_a_crash(tmp_path):
    path, copy = tmp_path / "a.store", tmp_path / "copy"
    store = filled(path, 1)
    whole = Path(f"{path}-wal").read_bytes()
    with store.transaction():
        store.append(BLOBS, "run", bytes([7]) * 30_000)
    written = Path(f"{path}-wal").read_bytes()[len(whole) :]
    store.close()
    path.unlink()
    # As a failed sync does: the frames are in the log, and the transaction is undone.
    store = filled(path, 1)
    execute = store._execute

    def fails_to_sync(sql, *values):
        if sql != "COMMIT":
            return execute(sql, *values)
        with open(f"{path}-wal", "ab") as log:
            frames, salts = bytearray(written), Path(f"{path}-wal").read_bytes()[16:24]
            for start in range(0, len(frames), 4120):
                frames[start + 8 : start + 16] = salts
            log.write(frames)
        raise OSError(errno.ENOSPC, "No space left on device")

    store._execute = fails_to_sync
    with pytest.raises(OSError, match="No space left"):
        store.append(NUMBERS, "run", 9)
    store._execute = execute
    store.append(NUMBERS, "run", 1)
    copy.mkdir()
    for end in ("", "-wal"):
        shutil.copy(tmp_path / f"a.store{end}", copy)
    assert numbers(copy / "a.store") == [0, 1]


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
            ends.wait(20)

    thread = Thread(target=change)
    thread.start()
    is_changing.wait(20)
    child = os.fork()
    if not child:
        signal.alarm(10)
        store.close()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    ends.set()
    thread.join(20)
    assert os.waitstatus_to_exitcode(status) == 0
    store.close()


def test_a_child_that_outlives_its_parent_holds_no_lock(tmp_path):
    code = (
        "import os, sys, time; from gbdt_commons.store_file import StoreFile\n"
        "store = StoreFile(sys.argv[1], 'a tester')\n"
        "if os.fork(): time.sleep(30)\n"
        "print(os.getpid(), flush=True); time.sleep(30)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, tmp_path / "a.store"], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(20)
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
        with pytest.raises(OSError, match="No space left"):
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
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))\n"
        "StoreFile(sys.argv[1], 'a tester')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.store"], capture_output=True, text=True, check=False
    )
    assert "No space left" in ended.stderr
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
