"""What a store holds, in memory and in a file: one class of tests for both."""

import copy
import json
import pickle
from contextlib import suppress
from threading import Thread

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gbdt_commons.errors import StoreError
from gbdt_commons.store import Kind, MemoryStore, bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile

NUMBERS, BLOBS = json_kind("numbers"), bytes_kind("blobs")
KINDS = {kind.name: kind for kind in (NUMBERS, BLOBS)}


def contents(store, kinds=(NUMBERS, BLOBS)):
    return {kind.name: {key: list(store.entries(kind, key)) for key in store.keys(kind)} for kind in kinds}


@pytest.fixture(params=["memory", "file", "part of a file", "part of memory"])
def store(request, tmp_path):
    whole = StoreFile(tmp_path / "a.store", "a tester") if "file" in request.param else MemoryStore()
    yield whole.part("one") if "part" in request.param else whole
    whole.close()


class TestStore:
    def test_entries_come_back_in_order_and_by_place(self, store):
        for number in (3, 1, 2):
            store.append(NUMBERS, "run", number)
        store.append(BLOBS, "run", b"\0\n")
        assert contents(store) == {"numbers": {"run": [3, 1, 2]}, "blobs": {"run": [b"\0\n"]}}
        assert [store.get(NUMBERS, "run", place) for place in range(4)] == [3, 1, 2, None]
        assert (store.size(NUMBERS, "run"), store.size(NUMBERS, "other")) == (3, 0)
        assert store.get(NUMBERS, "other") is None

    def test_a_value_replaces_the_one_before(self, store):
        store.append(NUMBERS, "run", 1)
        store.append(NUMBERS, "run", 2)
        store.put(NUMBERS, "run", 7)
        assert list(store.entries(NUMBERS, "run")) == [7]

    def test_entries_are_removed_from_a_place_on(self, store):
        for number in range(4):
            store.append(NUMBERS, "run", number)
        store.delete(NUMBERS, "run", 2)
        assert list(store.entries(NUMBERS, "run")) == [0, 1]
        store.append(NUMBERS, "run", 9)
        assert list(store.entries(NUMBERS, "run")) == [0, 1, 9]
        store.delete(NUMBERS, "run")
        store.delete(NUMBERS, "run")
        assert contents(store) == {"numbers": {}, "blobs": {}}

    def test_keys_come_in_the_order_of_their_last_change(self, store):
        for key in ("a", "b", "c", "a"):
            store.append(NUMBERS, key, 0)
        store.put(NUMBERS, "b", 1)
        assert store.keys(NUMBERS) == ["c", "a", "b"]

    def test_a_transaction_that_fails_changes_nothing(self, store):
        store.append(NUMBERS, "kept", 1)
        store.append(NUMBERS, "also", 2)
        before = contents(store), store.keys(NUMBERS)

        def fail():
            with store.transaction():
                store.append(NUMBERS, "kept", 2)
                store.put(NUMBERS, "new", 3)
                with store.transaction():
                    store.put(NUMBERS, "also", 4)
                    store.delete(NUMBERS, "kept")
                assert store.keys(NUMBERS) == ["new", "also"]
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert (contents(store), store.keys(NUMBERS)) == before
        store.append(NUMBERS, "kept", 5)
        assert list(store.entries(NUMBERS, "kept")) == [1, 5]

    def test_parts_do_not_see_each_other(self, store):
        other = store.part("b/c")
        store.put(NUMBERS, "run", 1)
        other.put(NUMBERS, "run", 2)
        store.part("b").put(NUMBERS, "run", 3)
        assert [one.get(NUMBERS, "run") for one in (store, other, store.part("b"))] == [1, 2, 3]
        other.delete(NUMBERS, "run")
        assert contents(store)["numbers"] == {"run": [1]}

    def test_a_part_is_cleared_with_its_parts_alone(self, store):
        own, within, other = store.part("a"), store.part("a").part("b"), store.part("ab")
        for part in (store, own, within, other):
            part.put(NUMBERS, "run", 1)
            part.put(BLOBS, "run", b"x")
        own.clear()
        assert [part.size(NUMBERS, "run") for part in (store, own, within, other)] == [1, 0, 0, 1]
        assert [part.size(BLOBS, "run") for part in (store, own, within, other)] == [1, 0, 0, 1]
        store.clear()
        assert other.size(NUMBERS, "run") == 0

    def test_a_record_that_its_kind_cannot_read_is_damage(self, store):
        store.put(bytes_kind("numbers"), "run", b"{" * 9)
        strange = Kind("numbers", bytes, lambda content: {}["nothing"])
        for kind in (NUMBERS, strange):
            with pytest.raises(StoreError, match="record of numbers"):
                store.get(kind, "run")
            with pytest.raises(StoreError, match="record of numbers"):
                list(store.entries(kind, "run"))

    def test_a_value_that_cannot_be_written_changes_nothing(self, store):
        store.put(NUMBERS, "run", 1)
        with pytest.raises(TypeError):
            store.put(NUMBERS, "run", {1, 2})
        assert store.get(NUMBERS, "run") == 1

    def test_threads_share_a_store(self, store):
        def count():
            for _ in range(25):
                with store.transaction():
                    store.put(NUMBERS, "count", (store.get(NUMBERS, "count") or 0) + 1)
                    store.append(NUMBERS, "log", 0)

        threads = [Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (store.get(NUMBERS, "count"), store.size(NUMBERS, "log")) == (100, 100)

    def test_parts_whose_names_run_into_each_other_are_apart(self, store):
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

    def test_a_transaction_is_undone_if_a_part_of_it_was_and_the_error_was_lost(self, store):
        store.put(NUMBERS, "before", 1)

        def change():
            with store.transaction():
                store.put(NUMBERS, "outer", 1)
                with suppress(ValueError), store.transaction():
                    store.put(NUMBERS, "inner", 1)
                    raise ValueError
                store.put(NUMBERS, "outer", 2)

        with pytest.raises(StoreError, match="transaction has failed"):
            change()
        assert store.keys(NUMBERS) == ["before"]
        store.put(NUMBERS, "after", 1)
        assert store.keys(NUMBERS) == ["before", "after"]


class StoresBehaveAlike(RuleBasedStateMachine):
    """A store in a file that is opened again and again, one in memory, and a dictionary of lists."""

    keys, kinds = st.sampled_from(["a", "b", "c"]), st.sampled_from([NUMBERS, BLOBS])

    @initialize()
    def begin(self):
        self.in_memory, self.in_file = MemoryStore(), StoreFile(self.path, "a tester")
        self.model, self.changes = {"numbers": {}, "blobs": {}}, 0

    def both(self, change):
        for store in (self.in_memory, self.in_file):
            change(store)

    def value(self, kind):
        self.changes += 1
        return self.changes if kind is NUMBERS else b"%d" % self.changes

    def note(self, kind, key, entries):
        self.model[kind.name].pop(key, None)
        if entries:
            self.model[kind.name][key] = entries

    @rule(kind=kinds, key=keys)
    def append(self, kind, key):
        value = self.value(kind)
        self.both(lambda store: store.append(kind, key, value))
        self.note(kind, key, [*self.model[kind.name].get(key, []), value])

    @rule(kind=kinds, key=keys)
    def put(self, kind, key):
        value = self.value(kind)
        self.both(lambda store: store.put(kind, key, value))
        self.note(kind, key, [value])

    @rule(kind=kinds, key=keys)
    def delete(self, kind, key):
        self.both(lambda store: store.delete(kind, key))
        self.note(kind, key, [])

    @rule(kind=kinds, key=keys, sync=st.booleans())
    def fail(self, kind, key, sync):
        value = self.value(kind)

        def change(store):
            with suppress(ZeroDivisionError), store.transaction(sync=sync):
                store.append(kind, key, value)
                store.delete(kind, key)
                store.put(kind, key, value)
                raise ZeroDivisionError

        self.both(change)

    @rule()
    def restart(self):
        self.in_file.close()
        self.in_file = StoreFile(self.path, "a tester")
        self.in_memory = pickle.loads(pickle.dumps(copy.deepcopy(self.in_memory)))

    @invariant()
    def all_are_equal(self):
        for store in (self.in_memory, self.in_file):
            assert contents(store) == self.model
            for kind in KINDS.values():
                assert store.keys(kind) == list(self.model[kind.name])

    def teardown(self):
        self.in_file.close()
        self.path.unlink()


def test_stores_behave_alike_whatever_is_done(tmp_path):
    StoresBehaveAlike.path = tmp_path / "any.store"
    machine = StoresBehaveAlike.TestCase
    machine.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)
    machine().runTest()


def test_copies_of_a_store_in_memory_are_apart_and_files_have_none(tmp_path):
    store = MemoryStore()
    store.put(NUMBERS, "run", 1)
    for copied in (copy.deepcopy(store), pickle.loads(pickle.dumps(store))):
        copied.append(NUMBERS, "run", 2)
        assert contents(copied)["numbers"] == {"run": [1, 2]}
    assert contents(store)["numbers"] == {"run": [1]}
    file = StoreFile(tmp_path / "a.store", "a tester")
    for copying in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="pickled or copied"):
            copying(file)


def test_json_has_its_types():
    store = MemoryStore()
    store.put(NUMBERS, "run", {"a": [1, 2.5, None, "x"]})
    assert json.dumps(store.get(NUMBERS, "run")) == '{"a": [1, 2.5, null, "x"]}'
