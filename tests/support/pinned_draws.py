"""Random bytes that follow from a name, so that no test fails by what is drawn."""

import contextlib
import hashlib
import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy.random  # noqa: F401  draws when it is imported, which no test may be the first to do


class Place:
    """A thread, or a task of a pool, whose draws do not depend on what others draw meanwhile.

    Parameters
    ----------
    name : str
        Of a test, and of the threads and tasks on the way from it to this one.
    """

    def __init__(self, name):
        self.name, self._draws, self._begun, self._lock = name, count(), Counter(), threading.Lock()

    def urandom(self, size):
        """The next bytes; two places have the same ones if their names are the same."""
        return hashlib.shake_256(f"{self.name} {next(self._draws)}".encode()).digest(size)

    def begin(self, work):
        """The place of work that is begun here: named by its function, and counted among those of it.

        A library that begins another thread now and then does not change the names of others.
        """
        kind = getattr(work, "__qualname__", type(work).__qualname__)
        with self._lock:
            self._begun[kind] += 1
            return Place(f"{self.name} > {kind} {self._begun[kind]}")


_here = threading.local()
_elsewhere = Place("threads that no test has begun")
_start, _submit = threading.Thread.start, ThreadPoolExecutor.submit


def _place():
    return getattr(_here, "place", _elsewhere)


@contextlib.contextmanager
def drawing_at(place):
    """Draw at another place meanwhile, as another process would."""
    before, _here.place = _place(), place
    try:
        yield
    finally:
        _here.place = before


def _urandom(size):
    return _place().urandom(size)


def _started(thread):
    run = thread.run
    place = _place().begin(getattr(thread, "_target", None) or thread)

    def run_there():
        del thread.run  # which would keep the thread alive
        _here.place = place
        run()

    thread.run = run_there
    try:
        return _start(thread)
    except RuntimeError:
        thread.__dict__.pop("run", None)
        raise


def _submitted(pool, work, /, *args, **kwargs):
    place = _place().begin(work)

    def work_there(*args, **kwargs):
        before, _here.place = _place(), place
        try:
            return work(*args, **kwargs)
        finally:
            _here.place = before

    return _submit(pool, work_there, *args, **kwargs)


@contextlib.contextmanager
def pinned_draws(name):
    """Let `os.urandom`, `secrets` and generators without a seed give bytes that follow from a name.

    So do those of threads and of tasks that are begun meanwhile, in whatever order they run.
    """
    before = os.urandom, random._urandom, threading.Thread.start, ThreadPoolExecutor.submit, _place()
    os.urandom = random._urandom = _urandom
    threading.Thread.start, ThreadPoolExecutor.submit = _started, _submitted
    _here.place = Place(name)
    try:
        yield
    finally:
        os.urandom, random._urandom, threading.Thread.start, ThreadPoolExecutor.submit, _here.place = before
