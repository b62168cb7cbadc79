"""Stores in the folders of a party that is restarted in the process of the test."""

import shutil
from pathlib import Path

from gbdt_commons import store_file
from gbdt_commons.store_connection import HeldFile
from gbdt_commons.store_file import StoreFile


def end_process(folder):
    """Let go of the stores in a folder, as the end of a party's process does."""
    for store in list(store_file.open_stores):
        if Path(folder).absolute() in store.path.parents:
            store.close()


def restarted(folder, name="party.store", role="a tester"):
    """A store in a folder, after the end of the process that had it before."""
    end_process(folder)
    return StoreFile(Path(folder) / name, role)


def damage(path, old, new):
    """Replace bytes of a store that is not in use by as many others."""
    content = path.read_bytes()
    assert old in content
    assert len(old) == len(new)
    path.write_bytes(content.replace(old, new))


def copied(folder, to):
    """A copy of a folder whose stores may be in use, as a killed process leaves it."""
    shutil.copytree(folder, to)
    return to


def cut_off(path, to, n_left):
    """A copy of a store in use, as a loss of power leaves it: its log ends early, and no note says so."""
    to.mkdir()
    shutil.copy(path, to)
    content = path.with_name(f"{path.name}-wal").read_bytes()
    (to / f"{path.name}-wal").write_bytes(content[:n_left])
    return to / path.name


def interrupting(monkeypatch, when):
    """Raise `KeyboardInterrupt` before or after the next transaction is on the disk."""
    real = HeldFile.rows

    def rows(file, sql, *values):
        if sql != "COMMIT":
            return real(file, sql, *values)
        monkeypatch.undo()
        if when == "after":
            real(file, sql)
        raise KeyboardInterrupt

    monkeypatch.setattr(HeldFile, "rows", rows)


def full_disk(monkeypatch, path, n_commits):
    """Let a store have no room after some transactions; their number is that of the list that is returned."""
    real, commits = HeldFile.rows, []

    def rows(file, sql, *values):
        if sql == "COMMIT" and file.path == path:
            commits.append(sql)
            if len(commits) > n_commits:
                raise OSError(28, "No space left on device")
        return real(file, sql, *values)

    monkeypatch.setattr(HeldFile, "rows", rows)
    return commits


def kept_of_runs(store):
    """Kinds of records of runs that are kept in a party's store."""
    return [kind for kind in store.kinds() if "/run " in kind]
