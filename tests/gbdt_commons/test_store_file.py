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
from contextlib import closing, suppress
from threading import Event, Thread

import pytest

from gbdt_commons import store_connection, store_file
from gbdt_commons.errors import StoreError
from gbdt_commons.files import is_out_of_room
from gbdt_commons.store import bytes_kind, json_kind
from gbdt_commons.store_connection import VERSION
from gbdt_commons.store_file import StoreFile, remove_store

NUMBERS, BLOBS = json_kind("numbers"), bytes_kind("blobs")
SECRET = b"a secret that was removed"
CLOSED, IN_USE = {"a.store", "a.store-lock"}, {"a.store", "a.store-lock", "a.store-wal", "a.store-shm"}


def opened(path, **options):
    return StoreFile(path, "a tester", **options)


def contents(store):
    return [{key: list(store.entries(kind, key)) for key in store.keys(kind)} for kind in (NUMBERS, BLOBS)]


def kept_in(path):
    with closing(opened(path)) as store:
        return contents(store)


def numbers(path):
    return kept_in(path)[0].get("run", [])


def filled(path, n=5):
    store = opened(path)
    for number in range(n):
        store.append(NUMBERS, "run", number)
    return store


def bytes_of(folder, *without):
    """Contents of the files of a store; the index of a log is made anew by every user."""
    ends = ("-shm", *without)
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(ends)}


def has_secret(folder):
    return any(SECRET in path.read_bytes() for path in folder.iterdir())


def killed(tmp_path, n=5):
    """The path of a store in a folder as a killed process leaves it."""
    with closing(filled(tmp_path / "a.store", n)):
        shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy", "*-shm"))
    return tmp_path / "copy" / "a.store"


def check_refused(path, match, **options):
    before = bytes_of(path.parent, "-lock")
    with pytest.raises(StoreError, match=match) as caught:
        opened(path, **options)
    assert str(path.parent) not in str(caught.value)
    assert path.name in str(caught.value)
    after = bytes_of(path.parent, "-lock")
    assert {name: content for name, content in after.items() if name in before or content} == before


def sql(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements]


def test_what_was_kept_is_there_after_a_restart(tmp_path):
    folder = tmp_path / "deep" / "er"
    filled(folder / "a.store").close()
    assert numbers(folder / "a.store") == [0, 1, 2, 3, 4]
    assert set(os.listdir(folder)) == CLOSED
    assert {one.stat().st_mode & 0o777 for one in (folder, folder.parent)} == {0o700}


def test_all_files_are_their_owners_only_also_of_a_copy_that_others_could_read(tmp_path):
    before = os.umask(0)
    try:
        for _ in range(2):
            with closing(filled(tmp_path / "a.store")):
                modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
                assert modes == dict.fromkeys(IN_USE, 0o600)
            (tmp_path / "a.store").chmod(0o644)
    finally:
        os.umask(before)


def test_one_object_of_one_process_uses_a_store(tmp_path):
    store = filled(tmp_path / "a.store")
    with pytest.raises(StoreError, match=r"'a.store'.*use"):
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


def test_an_object_or_a_process_that_is_gone_lets_go_and_leaves_a_closed_store(tmp_path):
    filled(tmp_path / "a.store")
    assert set(os.listdir(tmp_path)) == CLOSED
    code = "import sys; from gbdt_commons.store_file import *; store = StoreFile(sys.argv[1], 'a tester')"
    subprocess.run([sys.executable, "-c", code, tmp_path / "a.store"], check=True)
    assert set(os.listdir(tmp_path)) == CLOSED
    assert numbers(tmp_path / "a.store") == [0, 1, 2, 3, 4]


def test_somebody_else_reads_what_is_in_use(tmp_path):
    path = tmp_path / "a.store"
    store = filled(path)
    reader = opened(path, read_only=True)
    store.append(NUMBERS, "run", 5)
    store.delete(NUMBERS, "run", 4)
    assert list(reader.entries(NUMBERS, "run")) == [0, 1, 2, 3]
    with pytest.raises(StoreError, match="readonly"):
        reader.append(NUMBERS, "run", 6)
    store.close()
    assert reader.size(NUMBERS, "run") == 4
    assert set(os.listdir(tmp_path)) <= IN_USE
    with closing(opened(path)) as store:
        store.put(NUMBERS, "run", 7)
        assert list(reader.entries(NUMBERS, "run")) == [7]
    reader.close()
    kept_in(path)
    before = bytes_of(tmp_path)
    with closing(opened(path, read_only=True)) as reader:
        assert reader.get(NUMBERS, "run") == 7
    assert bytes_of(tmp_path) == before
    for role in ("a tester", None):
        with pytest.raises(FileNotFoundError):
            StoreFile(tmp_path / "none.store", role, read_only=role is not None)


def test_the_command_sqlite3_opens_every_store(tmp_path):
    command = shutil.which("sqlite3")
    for path in (killed(tmp_path), tmp_path / "a.store"):
        select = "SELECT kind, key, place, content FROM record WHERE is_live"
        if command:
            found = subprocess.run([command, path, select], capture_output=True, text=True, check=True).stdout
            assert found.splitlines() == [f"numbers|run|{number}|{number}" for number in range(5)]
        else:
            assert sql(path, select)[0] == [("numbers", "run", n, b"%d" % n) for n in range(5)]
        # It writes the log of a killed process into the file, and removes it.
        assert not path.with_name("a.store-wal").exists()
        assert numbers(path) == [0, 1, 2, 3, 4]


def test_a_store_that_another_program_has_locked_is_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(store_connection, "SECONDS_TO_WAIT", 0.01)
    with closing(filled(tmp_path / "a.store")) as store:
        with closing(sqlite3.connect(tmp_path / "a.store", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="use by another"):
                store.append(NUMBERS, "run", 5)
        store.append(NUMBERS, "run", 5)
    assert numbers(tmp_path / "a.store") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda path: path.write_bytes(b""), "no store of this program"),
        (lambda path: path.write_bytes(b"some other file\n" * 99), "no store of this program"),
        (lambda path: sql(path, "PRAGMA application_id = 7"), "no store of this program"),
        (lambda path: sql(path, f"PRAGMA user_version = {VERSION + 1}"), "a later release wrote it"),
        (lambda path: sql(path, f"PRAGMA user_version = {VERSION - 1}"), "an earlier release wrote it"),
        (lambda path: sql(path, "DROP INDEX entry", "DROP TABLE record"), "damaged"),
        (lambda path: sql(path, "DELETE FROM about"), "it is damaged"),
        (lambda path: sql(path, "UPDATE record SET content = 7"), "damaged"),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "damaged"),
    ],
)
def test_a_foreign_older_newer_or_damaged_file_is_refused_and_stays_as_it_is(tmp_path, spoil, match):
    filled(tmp_path / "a.store").close()
    spoil(tmp_path / "a.store")
    check_refused(tmp_path / "a.store", match)
    check_refused(tmp_path / "a.store", match, read_only=True)


def test_a_store_of_a_former_version_is_migrated_in_one_transaction_or_stays_as_it_was(tmp_path, monkeypatch):
    path, fails = tmp_path / "a.store", []
    with closing(filled(path)) as store:
        store.delete(NUMBERS, "run", 4)

    def migrate(role, kind, key, content):
        if fails and content == b"3":
            raise KeyError("a field")
        return f"{role}'s {kind}", key, b"1" + content

    monkeypatch.setattr("gbdt_commons.store_connection.VERSION", VERSION + 2)
    monkeypatch.setattr("gbdt_commons.store_connection.MIGRATIONS", {VERSION + 1: migrate})
    check_refused(path, "an earlier release wrote it")
    steps = {VERSION: migrate, VERSION + 1: lambda _, *record: record}
    monkeypatch.setattr("gbdt_commons.store_connection.MIGRATIONS", steps)
    fails.append(True)
    check_refused(path, r"record 4 of version \d+ cannot be migrated: KeyError")
    check_refused(path, "when its owner is started", read_only=True)
    fails.clear()
    named = json_kind("a tester's numbers")
    for n in (4, 5):
        with closing(opened(path)) as store:
            assert list(store.entries(named, "run")) == [10, 11, 12, 13, 7][:n]
            store.append(named, "run", 7)
            assert (store.kinds(), store.keys(named)) == (["a tester's numbers"], ["run"])


def test_the_state_of_another_role_is_refused(tmp_path):
    StoreFile(tmp_path / "a.store", "another").close()
    check_refused(tmp_path / "a.store", "keeps the state of another, and not of a tester")


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ("DELETE FROM record WHERE number = 3", 4),
        ("DELETE FROM record WHERE number = 5", 5),
        ("UPDATE record SET content = '7' WHERE number = 2", 2),
        ("UPDATE record SET key = 'other' WHERE number = 2", 2),
        ("UPDATE record SET place = 9 WHERE number = 2", 2),
        ("UPDATE record SET is_live = 0 WHERE number = 4", 4),
        ("UPDATE record SET is_live = 0, covers = 2, salt = x'', content = x'' WHERE number = 1", 1),
        ("UPDATE record SET number = number + 1 WHERE number = 5", 6),
        (
            "INSERT INTO record SELECT 6, covers, is_live, kind, key, 5, salt, digest, content "
            "FROM record WHERE number = 5",
            6,
        ),
    ],
)
def test_records_have_their_order(tmp_path, change, number):
    """SQLite finds nothing wrong: only the chain of digests tells."""
    filled(tmp_path / "a.store").close()
    sql(tmp_path / "a.store", change)
    check_refused(tmp_path / "a.store", f"it is damaged at record {number}$|at record {number}:")


def test_a_record_of_another_store_is_damage(tmp_path):
    for name in "ab":
        filled(tmp_path / f"{name}.store").close()
    record = sql(tmp_path / "b.store", "SELECT salt, digest FROM record WHERE number = 4")[0][0]
    change = "UPDATE record SET salt = x'{}', digest = x'{}' WHERE number = 4"
    sql(tmp_path / "a.store", change.format(*(part.hex() for part in record)))
    check_refused(tmp_path / "a.store", "it is damaged at record 4")


def test_any_changed_byte_of_a_closed_store_is_refused_or_changes_nothing(tmp_path):
    path = tmp_path / "a.store"
    with closing(filled(path, 40)) as store:
        store.put(BLOBS, "big", bytes(range(256)) * 40)
        expected = contents(store)
    whole, rng, n_refused = path.read_bytes(), random.Random(4), 0
    for place in [*range(100), *rng.sample(range(len(whole)), 100)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            assert kept_in(path) == expected
        except StoreError:
            n_refused += 1
            assert path.read_bytes() == changed
    assert n_refused > 80


@pytest.mark.parametrize("how", ["flipped", "cut", "zeros", "removed"])
def test_damage_to_the_log_of_a_killed_process_is_refused_or_loses_nothing(tmp_path, how):
    """SQLite itself forgets all from the damage on."""
    path, rng, n_refused = killed(tmp_path, 6), random.Random(3), 0
    log, before = path.with_name("a.store-wal"), bytes_of(path.parent)
    whole = before["a.store-wal"]
    for place in [*range(24), *rng.sample(range(len(whole)), 60)] if how != "removed" else [0]:
        for name, content in before.items():
            path.with_name(name).write_bytes(content)
        path.with_name("a.store-shm").unlink(missing_ok=True)
        if how == "flipped":
            log.write_bytes(
                whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]
            )
        elif how == "zeros":
            log.write_bytes(whole[: place & -512] + bytes(512) + whole[(place & -512) + 512 :])
        elif how == "cut":
            log.write_bytes(whole[:place])
        else:
            log.unlink()
        damaged = bytes_of(path.parent)
        try:
            assert numbers(path) == list(range(6))
        except StoreError:
            n_refused += 1
            assert bytes_of(path.parent) == damaged
    assert n_refused > 20 * (how != "removed")


def test_what_was_not_synced_may_be_lost_with_the_power(tmp_path):
    """The end of the log is cut off or was never written, in any places; what was confirmed is there."""
    store, path, seen = filled(tmp_path / "a.store", 2), tmp_path / "copy" / "a.store", set()
    log = tmp_path / "a.store-wal"
    synced, rng = log.stat().st_size, random.Random(5)
    for number in range(2, 6):
        with store.transaction(sync=False):
            store.append(NUMBERS, "run", number)
    whole = log.read_bytes()
    for place in [synced, *rng.sample(range(synced, len(whole)), 25), len(whole)]:
        shutil.rmtree(path.parent, ignore_errors=True)
        shutil.copytree(tmp_path, path.parent, ignore=shutil.ignore_patterns("copy", "*-shm"))
        rest = bytes(512) + whole[place + 512 :]
        (path.parent / "a.store-wal").write_bytes(whole[:place] + rng.choice([b"", rest, bytes(5000)]))
        seen.add(len(numbers(path)))
        assert numbers(path) == list(range(len(numbers(path))))
    assert seen == {2, 3, 4, 5, 6}
    with store.transaction():
        pass
    assert not log.read_bytes()
    store.close()


def test_a_store_without_its_log_is_refused(tmp_path):
    path = killed(tmp_path)
    for name in ("a.store-wal", "a.store-lock"):
        path.with_name(name).unlink()
        if name.endswith("-wal"):
            sql(path, "PRAGMA journal_mode")
            path.with_name("a.store-wal").unlink(missing_ok=True)
        check_refused(path, "'a.store-wal' is missing", read_only=True)
        check_refused(path, "'a.store-wal' is missing")


def test_a_log_of_a_store_that_was_removed_is_not_read_into_a_new_one(tmp_path):
    path = killed(tmp_path)
    path.unlink()
    check_refused(path, "it was removed, and 'a.store-wal' was not")


def test_a_store_that_was_removed_is_not_begun_anew_while_its_lock_says_what_was_kept(tmp_path):
    """The oldest copy of all is none; the whole folder, or all files of the store, begin anew."""
    path = killed(tmp_path)
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    before = path.with_name("a.store-lock").read_bytes()
    check_refused(path, "it was removed, and 'a.store-lock' was not.*remove")
    assert path.with_name("a.store-lock").read_bytes() == before
    assert not path.exists()
    path.with_name("a.store-lock").unlink()
    assert numbers(path) == []
    (tmp_path / "other").mkdir()
    other = killed(tmp_path / "other")
    other.unlink()
    remove_store(other)
    assert numbers(other) == []


def test_a_restored_older_file_is_an_older_state_and_no_damage(tmp_path):
    path = tmp_path / "a.store"
    filled(path).close()
    backup = path.read_bytes()
    with closing(opened(path)) as store:
        store.append(NUMBERS, "run", 5)
    path.write_bytes(backup)
    assert numbers(path) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", ["removed", "replaced", "rolled back in place", "-wal", "-lock"])
def test_a_store_that_is_exchanged_while_in_use_is_used_no_more(tmp_path, how):
    path = tmp_path / "a.store"
    store = filled(path)
    store.delete(NUMBERS, "none")
    backup = path.read_bytes()
    store.append(NUMBERS, "run", 5)
    if how.startswith("-"):
        path.with_name(path.name + how).unlink()
    elif how != "rolled back in place":
        path.unlink()
    if how in ("replaced", "rolled back in place"):
        path.write_bytes(backup)
    for use in (lambda: store.append(NUMBERS, "run", 6), lambda: store.get(NUMBERS, "run")):
        with pytest.raises(StoreError, match="removed or replaced"):
            use()
    left = bytes_of(tmp_path)
    store.close()
    assert bytes_of(tmp_path) == left
    if how == "-lock":
        assert numbers(path) == [0, 1, 2, 3, 4, 5]


def test_a_store_that_is_exchanged_within_a_transaction_is_used_no_more(tmp_path):
    store = filled(tmp_path / "a.store")
    shutil.copy(tmp_path / "a.store", tmp_path / "backup")
    with store.transaction():
        store.append(NUMBERS, "run", 5)
        os.replace(tmp_path / "backup", tmp_path / "a.store")
    with pytest.raises(StoreError, match="removed or replaced"):
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
        with pytest.raises(StoreError, match=r"'a.store'.*regular"):
            opened(path, read_only=read_only)
    assert not path.is_file() or path.is_symlink()


def test_a_record_that_is_damaged_while_in_use_is_not_read(tmp_path):
    with closing(filled(tmp_path / "a.store")) as store:
        sql(tmp_path / "a.store", "UPDATE record SET content = '9' WHERE number = 3")
        with pytest.raises(StoreError, match="damaged at record 3"):
            list(store.entries(NUMBERS, "run"))
    check_refused(tmp_path / "a.store", "it is damaged at record 3")


def test_removed_bytes_are_nowhere_in_the_files(tmp_path):
    """SQLite's own `secure_delete` leaves copies of records where they were before they moved."""
    store, rng, live = opened(tmp_path / "a.store"), random.Random(1), {}
    for step in range(500):
        key, mark = f"run {step % 7}", b"secret %d of many" % step
        with store.transaction(sync=step % 3 == 0):
            store.append(BLOBS, key, mark * rng.choice([1, 3, 20, 200, 430, 900]))
        live.setdefault(key, []).append(mark)
        if rng.random() < 0.3:
            key = rng.choice([key for key in live if live[key]])
            start = rng.randrange(len(live[key]))
            gone, live[key] = live[key][start:], live[key][:start]
            store.delete(BLOBS, key, start)
            found = b"".join(bytes_of(tmp_path).values())
            assert not any(mark in found for mark in gone)
    assert [mark for key in sorted(store.keys(BLOBS)) for mark in live[key]] == [
        content[: content.index(b"many") + 4] for key in sorted(live) for content in store.entries(BLOBS, key)
    ]
    store.put(BLOBS, SECRET.decode(), b"")
    store.delete(BLOBS, SECRET.decode())
    assert not has_secret(tmp_path)
    store.close()
    zeros = "SELECT COUNT(*) FROM record WHERE NOT is_live AND trim(hex(salt) || hex(content), '0') != ''"
    assert sql(tmp_path / "a.store", zeros) == [[(0,)]]


@pytest.mark.parametrize("when", ["a removal", "closing", "a crash", "much else"])
def test_replaced_bytes_are_gone_soon(tmp_path, when):
    path = tmp_path / "a.store"
    store = opened(path)
    for value in (SECRET, b""):
        store.put(BLOBS, "run", value)
    store.put(NUMBERS, "run", 1)
    if when == "a removal":
        store.delete(NUMBERS, "run")
    elif when == "much else":
        store.append(BLOBS, "large", bytes(5 << 20))
        store.put(NUMBERS, "run", 1)
    elif when == "a crash":
        shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy"))
        assert has_secret(tmp_path / "copy")
        path = tmp_path / "copy" / "a.store"
        opened(path)
    else:
        store.close()
    assert not any(SECRET in content for content in bytes_of(path.parent).values())
    store.close()


@pytest.mark.parametrize("size", [0, 10 << 20])
def test_undone_bytes_are_nowhere_in_the_files(tmp_path, size):
    with closing(opened(tmp_path / "a.store")) as store:
        with suppress(ZeroDivisionError), store.transaction():
            store.append(BLOBS, "run", SECRET + bytes(size))
            store.append(NUMBERS, "run", 1 // 0)
        assert contents(store) == [{}, {}]
        assert not has_secret(tmp_path)


@pytest.mark.parametrize("when", ["the next transaction", "closing", "opening"])
def test_a_removal_that_a_reader_puts_off_is_tried_again(tmp_path, monkeypatch, when):
    monkeypatch.setattr(store_connection, "SECONDS_TO_WAIT", 0.01)
    path = tmp_path / "a.store"
    store = opened(path)
    store.append(BLOBS, "run", SECRET)
    store.put(NUMBERS, "run", 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT COUNT(*) FROM record").fetchall() == [(2,)]
        store.delete(BLOBS, "run")
        assert has_secret(tmp_path)
        assert contents(store) == [{"run": [1]}, {}]
        if when == "opening":
            store.close()
            assert has_secret(tmp_path)
    if when == "the next transaction":
        store.put(NUMBERS, "run", 1)
    elif when == "closing":
        store.close()
    else:
        store = opened(path)
    assert not has_secret(tmp_path)
    store.close()
    assert kept_in(path) == [{"run": [1]}, {}]
    assert set(os.listdir(tmp_path)) == CLOSED


@pytest.mark.parametrize(
    "name",
    ["学", "\udcff", *(pytest.param(one, marks=pytest.mark.slow) for one in ("\0", "é", chr(34), "x"))],
)
def test_replaced_values_do_not_fill_the_disk(tmp_path, name):
    path, largest = tmp_path / "a.store", 0
    name *= 100
    store = opened(path)
    store.append(NUMBERS, "first", 0)
    for number in range(1000):
        with store.transaction(sync=False):
            store.part(name).put(NUMBERS, name, number)
            store.put(BLOBS, "last", bytes([number % 256]) * 2000)
        largest = max(largest, path.stat().st_size)
    store.append(NUMBERS, "last", 1)
    assert largest < 300 << 10
    assert store.part(name).get(NUMBERS, name) == 999
    store.close()
    assert path.stat().st_size < 300 << 10
    assert kept_in(path) == [{"first": [0], "last": [1]}, {"last": [bytes([999 % 256]) * 2000]}]
    assert sql(path, "SELECT COUNT(*) < 400, MAX(number) FROM record") == [[(1, 2002)]]


def test_keys_that_are_no_text_stay_apart_after_a_restart(tmp_path):
    keys = ["\ud83d\ude00", "\U0001f600", "\udcff", "a\nb", "a\\nb", "a\0b", "", "é", "e\u0301"]
    with closing(opened(tmp_path / "a.store")) as store:
        for number, key in enumerate(keys):
            store.put(NUMBERS, key, number)
    with closing(opened(tmp_path / "a.store")) as store:
        assert [store.get(NUMBERS, key) for key in keys] == list(range(len(keys)))
        assert store.keys(NUMBERS) == keys


def test_a_process_that_goes_to_another_folder_uses_the_same_file(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    store = opened("a.store")
    monkeypatch.chdir(tmp_path / "other")
    store.put(NUMBERS, "run", 1)
    store.delete(BLOBS, "run")
    store.close()
    assert os.listdir(tmp_path / "other") == []
    assert kept_in(tmp_path / "a.store") == [{"run": [1]}, {}]


@pytest.mark.parametrize("step", ["os.replace", "pathlib.Path.chmod"])
def test_a_store_that_could_not_be_opened_is_let_go_of(tmp_path, monkeypatch, step):
    def failing(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(step, failing)
        with pytest.raises(OSError, match="Too many open files"):
            opened(tmp_path / "a.store")
    opened(tmp_path / "a.store").close()
    assert set(os.listdir(tmp_path)) == CLOSED


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
        "print(os.getpid(), flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "a.store"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(60)
    try:
        store = filled(tmp_path / "a.store")
        # The child ends as a process does that closes all that it has.
        parent.stdin.close()
        assert parent.stdout.read() == b""
        store.append(NUMBERS, "run", 5)
        store.close()
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    assert numbers(tmp_path / "a.store") == [0, 1, 2, 3, 4, 5]


class Interrupted:
    """Raises `KeyboardInterrupt` at one line of the store's code, counted from the beginning."""

    def __init__(self, n_lines):
        self.n_left, self.files = n_lines, {store_connection.__file__, store_file.__file__}

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line":
            self.n_left -= 1
            if not self.n_left:
                sys.settrace(None)
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


@pytest.mark.parametrize("removes", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_transaction_that_is_interrupted_anywhere_is_kept_or_undone_as_a_whole(tmp_path, removes):
    """The store, and the file after it was let go of, say the same; and the store goes on."""
    path, n_lines, is_interrupted, seen = tmp_path / "a.store", 0, True, []
    while is_interrupted:
        n_lines += 1
        store = opened(path)
        store.append(BLOBS, "removed", SECRET)
        before = contents(store)

        def change(store=store, number=n_lines):
            with store.transaction():
                store.append(NUMBERS, "run", number)
                if removes:
                    store.delete(BLOBS, "removed")

        is_interrupted = interrupt(change, n_lines)
        after = contents(store)
        seen.append(len(after[0].get("run", ())) - len(before[0].get("run", ())))
        assert seen[-1] in (0, 1)
        assert ("removed" in after[1]) == (not removes or not seen[-1])
        store.put(NUMBERS, "next", n_lines)
        store.close()
        assert kept_in(path) == [{**after[0], "next": [n_lines]}, after[1]]
        assert has_secret(tmp_path) == ("removed" in after[1])
        assert set(os.listdir(tmp_path)) == CLOSED
    assert seen[0] == 0
    assert seen[-2:] == [1, 1]
    assert len(seen) > 50


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
                with suppress(ZeroDivisionError), store.transaction():
                    store.append(NUMBERS, "run", number // 0)

    thread = Thread(target=change)
    thread.start()
    try:
        kept = opened(path, read_only=True)
        until, n_read = time.monotonic() + 1.0, 0
        while time.monotonic() < until or n_read <= 10:
            for reader in (kept, opened(path, read_only=True)):
                assert reader.get(NUMBERS, "run") == 0
                assert not any(reader.get(BLOBS, "last") or b"")
                n_read += 1
                if reader is not kept:
                    reader.close()
    finally:
        ends.set()
        thread.join(20)
    store.put(NUMBERS, "end", 7)
    assert kept.get(NUMBERS, "end") == 7
    store.close()
    assert kept.get(NUMBERS, "end") == 7


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
    if rng.random() < 0.05:
        store.close()
        store = StoreFile(sys.argv[1], "a tester")
"""


@pytest.mark.parametrize("n_kills", [6, pytest.param(250, marks=pytest.mark.slow)])
def test_a_killed_process_has_kept_all_that_it_said_and_nothing_by_half(tmp_path, n_kills):
    path, rng = tmp_path / "a.store", random.Random(n_kills)
    for _ in range(n_kills):
        process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True)
        first = process.stdout.readline()
        time.sleep(rng.random() / 5)
        process.kill()
        said = [line for line in [first, *process.stdout.read().splitlines(True)] if line.endswith("\n")]
        process.wait(60)
        store = opened(path)
        assert store.get(NUMBERS, "last") - int(said[-1]) in (0, 1)
        sizes = {key: store.size(BLOBS, key) for key in sorted(store.keys(BLOBS))}
        assert store.get(NUMBERS, "sizes") == sizes
        for key in store.keys(BLOBS):
            assert all(len(content) % 4 == 0 for content in store.entries(BLOBS, key))
        store.close()
        assert set(os.listdir(tmp_path)) == CLOSED


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
    assert set(os.listdir(path.parent)) == CLOSED


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
