"""Disks that are full for a moment, and what a caller sees of a party on one."""

import errno
import os
from contextlib import contextmanager
from functools import partial

from gbdt_commons.files import is_out_of_room
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyUnavailableError


class FullDisk:
    """A disk under a folder that is full once, at a write of some number, or for good from there on.

    Parameters
    ----------
    folder : Path
    monkeypatch : MonkeyPatch
    modules : modules
        That write models by `write_atomically` or `write_signed`.
    """

    def __init__(self, folder, monkeypatch, *modules):
        self.n, self.full_at, self.for_good, self.due, self.is_over = 0, None, False, None, False
        change = StoreFile.transaction

        @contextmanager
        def transaction(store, *, sync=True):
            if folder in store.path.parents:
                self.written()
            with change(store, sync=sync):
                yield

        monkeypatch.setattr(StoreFile, "transaction", transaction)
        for module in modules:
            name = "write_signed" if hasattr(module, "write_signed") else "write_atomically"
            monkeypatch.setattr(module, name, partial(self.write, getattr(module, name)))

    def write(self, write, *content):
        """Write a model, if there is room."""
        self.written()
        write(*content)

    def begin(self):
        """Count writes from now on; the disk is full at the one that is due, if any."""
        self.n, self.full_at, self.is_over = 0, self.due, False

    def end(self):
        """Count no more."""
        self.is_over = True

    def written(self):
        if self.is_over:
            return
        self.n += 1
        if self.full_at is not None and (self.n == self.full_at or (self.for_good and self.n > self.full_at)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class AsServed:
    """A party as callers see it behind a server: it is unavailable while it has no room."""

    def __init__(self, party):
        self.party = party

    @property
    def name(self):
        return self.party.name

    def handle(self, request):
        try:
            return self.party.handle(request)
        except OSError as error:
            if not is_out_of_room(error):
                raise
            raise PartyUnavailableError(f"party {self.name!r} is out of resources") from None


def full_now_and_then(disk, run, n_times=5):
    """Results of runs, ``run(k)``, in each of which the disk is full once, at another place.

    A run calls `FullDisk.begin` once its party has started, and `FullDisk.end` before it stops.
    """
    results = [run(-1)]
    n_writes = disk.n
    assert n_writes >= n_times
    for k in range(n_times):
        disk.due = 1 + k * (n_writes - 1) // (n_times - 1)
        results.append(run(k))
        assert disk.n > disk.due
    return results
