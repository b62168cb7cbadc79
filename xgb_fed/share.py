"""A party's share of a model: its splits, which nobody else has."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xgb_fed.errors import CorruptDataError, InvalidDataError
from xgb_fed.features import Columns

logger = logging.getLogger("xgb_fed.share")

FORMAT = 1

OUT_OF_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT})
"""Errors that end when a disk has room, or a process descriptors, again."""


@dataclass
class Share:
    """Splits by number, in the order in which they were chosen: equal trainings give equal shares.

    Attributes
    ----------
    names : list of str
        Columns.
    features : list of int
    thresholds : list of float
        ``x < threshold`` goes left.
    default_left : list of bool
        Whether missing values go left.
    """

    names: list[str]
    features: list[int] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    default_left: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def is_unnamed(self) -> bool:
        """Whether the columns came without names."""
        return self.names == [f"f{k}" for k in range(len(self.names))]

    def add(self, feature: int, threshold: float, default_left: bool) -> int:
        """Keep a split; returns its number."""
        self.features.append(feature)
        self.thresholds.append(threshold)
        self.default_left.append(default_left)
        return len(self) - 1

    def first(self, count: int) -> Share:
        """The first splits only; `IndexError` if there are fewer."""
        if not 0 <= count <= len(self):
            raise IndexError(f"{count} splits of {len(self)}")
        return Share(
            list(self.names), self.features[:count], self.thresholds[:count], self.default_left[:count]
        )

    def truncate(self, count: int) -> None:
        """Forget all but the first splits."""
        for values in (self.features, self.thresholds, self.default_left):
            del values[count:]

    def goes_left(self, split: int, columns: Columns, rows: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Which rows a split sends left."""
        values = columns.column(self.features[split])[rows]
        below = values < np.float32(self.thresholds[split])
        return np.where(np.isnan(values), self.default_left[split], below)

    def check_columns(self, columns: Columns) -> None:
        """Raise `InvalidDataError` unless the columns are the share's, by number and, if named, by name."""
        if columns.n_features != len(self.names):
            raise InvalidDataError("the data has another number of columns than the model was trained on")
        unnamed = [f"f{k}" for k in range(len(self.names))]
        if columns.names not in (self.names, unnamed):
            # Without names: this text may go to another party.
            raise InvalidDataError("the data's columns have other names than those the model was trained on")

    def save(self, path: str | Path) -> None:
        """Write the share; a file that is there is replaced only when the new one is complete."""
        content = {
            "format": FORMAT,
            "names": self.names,
            "features": self.features,
            "thresholds": self.thresholds,
            "default_left": self.default_left,
        }
        write_atomically(path, json.dumps(content))

    @classmethod
    def load(cls, path: str | Path) -> Share:
        """Read what `save` wrote.

        Raises
        ------
        CorruptDataError
            If the file is not a share; without its path.
        """
        try:
            content = dict(json.loads(Path(path).read_text()))
            if content.pop("format") != FORMAT:
                raise CorruptDataError(f"a share of another format version than {FORMAT}")
            names = content.pop("names")
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise TypeError("names")
            share = cls(names)
            columns = [content.pop(name) for name in ("features", "thresholds", "default_left")]
            if content:
                raise ValueError("unknown entries")
            for split in zip(*columns, strict=True):
                share.add(*check_split(split, len(names)))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, CorruptDataError):
                raise
            # Without the path: this text may go to another party.
            logger.error("%s is not a share of a model", path)
            raise CorruptDataError("a file is not a party's share of a model; the log says which") from None
        return share


def check_split(content: Any, n_columns: int) -> tuple[int, float, bool]:
    """Column, threshold and side of missing values, as read from a file.

    Raises
    ------
    ValueError, TypeError
        If they cannot be those of a split.
    """
    feature, threshold, default_left = content
    if type(feature) is not int or type(threshold) is not float or type(default_left) is not bool:
        raise TypeError("not a split")
    if not (0 <= feature < n_columns and math.isfinite(threshold)):
        raise ValueError("a split that cannot be")
    return feature, threshold, default_left


def is_out_of_room(error: OSError) -> bool:
    """Whether a disk is full or files cannot be opened for now: worth waiting for, nobody's refusal."""
    return error.errno in OUT_OF_ROOM


def make_folder(path: str | Path) -> Path:
    """Make a folder, and those above it that are missing, for this user only; gives its path."""
    path = Path(path)
    for folder in reversed([path, *path.parents]):
        # One by one: with `parents`, the mode would be the last one's only.
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    return path


def open_to_append(path: str | Path) -> int:
    """A descriptor of a file of which every write goes to the end; a new one is for its owner only."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, 0o600)


def append_lines(descriptor: int, lines: str) -> None:
    """Write whole lines; a line that an earlier failure tore is ended first, so that it spoils no other.

    Raises
    ------
    OSError
        If not all could be written.
    """
    size = os.fstat(descriptor).st_size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    left = (("\n" if torn else "") + lines).encode()
    while left:
        left = left[os.write(descriptor, left) :]


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write a file so that a failure, or the end of the process, leaves the old one as it was.

    Its owner only can read it.  On return it is on the disk, under its name.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # What a process with the same number left, or somebody else put there, is not written to.
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """A new name is on the disk only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
