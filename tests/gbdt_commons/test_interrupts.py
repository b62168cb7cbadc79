"""An interrupt as a block begins or ends: nothing stays locked, and no transaction under way."""

import contextlib
import dis
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest

from gbdt_commons import locks, store, store_connection, store_file
from gbdt_commons.locks import OwnLock
from gbdt_commons.store import MemoryStore, json_kind
from gbdt_commons.store_file import StoreFile

NUMBERS = json_kind("numbers")
FILES = {contextlib.__file__, locks.__file__, store.__file__, store_connection.__file__, store_file.__file__}


def handler(code, place):
    """Where an error at a place of some code goes on; None in Python 3.10, which has no such table."""
    table = getattr(dis, "_parse_exception_table", lambda _: [])(code)
    return [one.target for one in table if one.start <= place < one.end]


class AfterCall:
    """Raises `KeyboardInterrupt` after a call in the code of some files: there, signals are looked at."""

    def __init__(self, n_calls):
        self.n_left, self.before, self.place = n_calls, {}, None

    def __call__(self, frame, event, argument):
        code = frame.f_code
        if code.co_filename not in FILES or self.place is not None:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before, self.before[frame] = self.before.get(frame), frame.f_lasti
            if before is not None and dis.opname[code.co_code[before]].startswith("CALL"):
                # A signal is raised at the call, and this error behind it: those that differ are left out.
                is_same = handler(code, before) == handler(code, frame.f_lasti)
                self.n_left -= is_same or code.co_filename == contextlib.__file__
                if not self.n_left:
                    self.place = code.co_name, frame.f_lineno
                    sys.settrace(None)
                    raise KeyboardInterrupt
        return self


def done_by_another_thread(change):
    """Whether another thread is not kept waiting."""
    thread = Thread(target=change, daemon=True)
    thread.start()
    thread.join(60)
    return not thread.is_alive()


@contextlib.contextmanager
def traced(tracer):
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)


def check_interrupted_anywhere(change, check):
    """Interrupt a change after each of its calls; `check` runs while the interrupt is handled.

    Each time in a thread of its own: the error of a tracer can leave its thread with an error in handling.
    """

    def interrupt(tracer):
        try:
            with traced(tracer):
                change()
        except KeyboardInterrupt:
            check()

    places = []
    while True:
        tracer = AfterCall(len(places) + 1)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(interrupt, tracer).result()
        if tracer.place is None:
            return places
        places.append(tracer.place)


def test_a_lock_is_free_again_whenever_an_interrupt_came():
    lock = OwnLock()

    def hold():
        with lock.held():
            pass

    check_interrupted_anywhere(
        hold, lambda: pytest.fail("held") if not done_by_another_thread(hold) else None
    )
    assert done_by_another_thread(hold)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_handler_of_an_interrupt_can_use_the_store(tmp_path, where):
    """Its own transactions are no part of one that nothing ends, also those of another thread."""
    path = tmp_path / "a.store"
    kept, numbers = MemoryStore() if where == "memory" else StoreFile(path, "a tester"), []

    def change():
        with kept.transaction():
            kept.append(NUMBERS, "run", -1)

    def append(number):
        kept.append(NUMBERS, "own", number)
        numbers.append(number)

    def check():
        append(len(numbers))
        assert done_by_another_thread(lambda: append(len(numbers)))
        assert list(kept.entries(NUMBERS, "own")) == numbers
        if where == "file":
            folder = shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy"))
            copy = StoreFile(folder / path.name, "a tester")
            assert list(copy.entries(NUMBERS, "own")) == numbers
            assert list(copy.entries(NUMBERS, "run")) == list(kept.entries(NUMBERS, "run"))
            copy.close()
            shutil.rmtree(folder)

    places = check_interrupted_anywhere(change, check)
    assert {name for name, _ in places} >= {"__enter__", "transaction"}
    assert len(numbers) == 2 * len(places)
    change()
    assert set(kept.entries(NUMBERS, "run")) == {-1}
    kept.close()
