"""Paths that a plan or a command writes to: absent, or of their kind, before anything is done.

A plan that calls its rows the record would have lines appended to them; one that calls them the model would
fail when the model has been paid for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gbdt_parties.identity.row_ids import fault_of
from veilboost.plans.entries import Entry, shown

_HEAD_BYTES = 1 << 20
"""Of a file, as many as its kind is told by."""

_PREDICTIONS = re.compile(
    rb'id((,("class_.*"|class_[^,\r\n]*))+|,prediction|,(.*[, ])?bias"?)\r?$', re.MULTILINE
)
_SHARED = {("folder", ""), ("folder", "folder")}
_RECORD = b'{"time": "'
_OTHERS = frozenset({".json", ".jsonl", ".key", ".libsvm", ".pem", ".svm", ".toml", ".yaml", ".yml"})
"""Endings of files that hold no list of ids, though their lines may look like one."""


class UsedPath(NamedTuple):
    """A path that is read or written: the name of its entry, where it is, and what is written there if so."""

    name: str
    path: Path
    writes: str = ""


def paths_of(section: Any, folder: Path, called: Callable[[str], str]) -> Iterator[UsedPath]:
    """The paths of a section, relative to a folder, by the names that errors give their entries."""
    for f in fields(section):
        about, value = Entry.of(f), getattr(section, f.name)
        if (about.is_path or about.writes) and value is not None:
            yield UsedPath(called(f.name), folder / value, about.writes)


def faults_of_paths(used: Iterable[UsedPath]) -> Iterator[str]:
    """Paths that are written to and hold something else, or are used for two things, as sentences.

    Parameters
    ----------
    used : iterable of UsedPath
        All that a plan or a command reads and writes.
    """
    names: dict[Any, UsedPath] = {}
    files: dict[str, UsedPath] = {}
    # Files before the folders that could lie under one.
    for one in sorted(used, key=lambda one: (bool(one.writes), one.writes == "folder")):
        try:
            place = _place_of(one.path)
            other = names.setdefault(place, one)
            fault = _KINDS[one.writes](one.path) if one.writes else None
            name = os.path.realpath(one.path)
        except (OSError, ValueError) as error:
            yield f"{one.name}={shown(str(one.path))} cannot be used: {type(error).__name__}"
            continue
        above = next((files[str(each)] for each in Path(name).parents if str(each) in files), None)
        if one.writes not in ("", "folder"):
            files[name] = one
        # Folders may be shared: what is in them has names of its own.
        if other is not one and one.writes and (one.writes, other.writes) not in _SHARED:
            yield f"{one.name}={shown(str(one.path))} is {other.name} as well; name another one"
        elif above is not None:
            yield f"{one.name}={shown(str(one.path))} lies under {above.name}, a file; name another one"
        elif fault is not None:
            yield f"{one.name}={shown(str(one.path))} {fault}"


def _place_of(path: Path) -> Any:
    """Identity of a file or folder, the same for all of its names; OSError for a link to nothing."""
    if path.is_symlink() or path.exists():
        found = path.stat()
        return found.st_dev, found.st_ino
    return os.path.realpath(path)


def _fault_of_folder(path: Path) -> str | None:
    nearest = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not nearest.is_dir():
        return f"must be a folder, but {nearest} is a file"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"cannot be written: this user may not write to {nearest}"
    return None


def _fault_of_file(path: Path, what: str, is_one: Callable[[bytes], bool]) -> str | None:
    """Why a path is not that of a new file, nor of one of the kind."""
    if path.is_dir():
        return f"must be a file ({what}), and is a folder"
    if not path.exists():
        if not path.parent.exists():
            return "lies in a folder that is not there; make it first"
        return _fault_of_folder(path.parent)
    if not path.is_file():
        return None  # such as /dev/null
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return None if not head or is_one(head) else f"holds something other than {what}; name another file"


def _is_list_of_ids(head: bytes, path: Path, is_sorted: bool) -> bool:
    """Whether a file begins as a list of ids does, and not as a table whose rows look like some."""
    lines = head.split(b"\n")[:-1] if b"\n" in head else [head]
    try:
        ids = [line.decode() for line in lines]
    except UnicodeDecodeError:
        return False
    is_other = path.suffix in _OTHERS or (path.suffix == ".csv" and {",", ";"} & set(ids[0]))
    return not (is_other or any(map(fault_of, ids)) or (is_sorted and ids != sorted(set(ids))))


def _fault_of_ids(path: Path, is_sorted: bool) -> str | None:
    what = f"{'sorted ' * is_sorted}ids, one id per line in UTF-8"
    return _fault_of_file(path, what, partial(_is_list_of_ids, path=path, is_sorted=is_sorted))


def _fault_of_predictions(path: Path) -> str | None:
    if path.suffix.lower() != ".csv" and (path.is_file() or not path.exists()):
        return "must end in .csv, which is what is written"
    return _fault_of_file(path, "predictions", lambda head: _PREDICTIONS.match(head) is not None)


_KINDS: Mapping[str, Callable[[Path], str | None]] = {
    "folder": _fault_of_folder,
    "record": partial(_fault_of_file, what="a record", is_one=lambda head: head.startswith(_RECORD)),
    "aligned": partial(_fault_of_ids, is_sorted=True),
    "ids": partial(_fault_of_ids, is_sorted=False),
    "predictions": _fault_of_predictions,
}
"""By what is written to a path, the reason why it cannot be; None if it can."""
