"""Stores in the folders of a party that is restarted in the process of the test."""

import shutil
from pathlib import Path

from gbdt_commons import store_file
from gbdt_commons.store_file import StoreFile


def end_process(folder):
    """Let go of the stores in a folder, as the end of a party's process does."""
    for store in list(store_file._open):
        if Path(folder).absolute() in store._path.parents:
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
