"""A passive party's splits of trainings, kept as they are found so that a training can be taken up again.

A journal is a file of lines, each with its checksum: a header with the terms of the training, then the splits
of one request each, on the disk before the request is answered.  A line cut off by a crash was never answered
for, and is ignored.  Journals hold this party's own splits and digests, nothing of anybody else's.
They outlast the training: its active party may not have heard that it ended, and the terms bind it still.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xgb_fed.errors import ProtocolError
from xgb_fed.share import Share, write_atomically

FORMAT = 1
MOST_IN_MEMORY = 16
"""Trainings whose splits a party without a directory keeps; the oldest goes."""


@dataclass(frozen=True)
class Terms:
    """What must be the same when a training is taken up again.

    Attributes
    ----------
    scheme : str
    key_bits : int
        At least as many.
    max_bin : int
    data : str
        Digest of the cut columns and their rows.
    """

    scheme: str
    key_bits: int
    max_bin: int
    data: str

    def check(self, now: Terms) -> None:
        """Raise `ProtocolError` if a training on these terms cannot go on under those of now."""
        if now.data != self.data or now.max_bin != self.max_bin:
            raise ProtocolError("this party's data, or max_bin, is not what the training began with")
        if now.scheme != self.scheme or now.key_bits < self.key_bits:
            raise ProtocolError("a training is not taken up with another scheme or a shorter key")


class Journal:
    """The splits of one training, in memory or in a file.

    Parameters
    ----------
    terms : Terms
    share : Share
        As far as it has come.
    path : Path or None
    """

    def __init__(self, terms: Terms, share: Share, path: Path | None) -> None:
        self.terms, self.share, self._path = terms, share, path
        self._written = len(share)
        if path is not None:
            header = {"format": FORMAT, "names": share.names, "terms": terms.__dict__}
            write_atomically(path, _line(header) + self._lines(0))

    def _lines(self, start: int) -> str:
        share = self.share
        splits = list(zip(share.features, share.thresholds, share.default_left, strict=True))
        return _line(splits[start:]) if start < len(splits) else ""

    def keep(self) -> None:
        """Put the splits that are new on the disk."""
        if self._path is None:
            return
        with open(self._path, "a", encoding="ascii") as file:
            file.write(self._lines(self._written))
            file.flush()
            os.fsync(file.fileno())
        self._written = len(self.share)


class Journals:
    """The journals of a party.

    Parameters
    ----------
    directory : Path or None
        None keeps them in memory: a training survives a lost connection, but not this process.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._in_memory: dict[bytes, Journal] = {}

    def _path(self, model: bytes) -> Path | None:
        return None if self._directory is None else self._directory / f"{model.hex()}.journal"

    def start(self, model: bytes, terms: Terms, share: Share) -> Journal:
        """A journal of a training that starts, or goes on, with these splits."""
        journal = Journal(terms, share, self._path(model))
        if self._directory is None:
            self._in_memory.pop(model, None)
            self._in_memory[model] = journal
            while len(self._in_memory) > MOST_IN_MEMORY:
                del self._in_memory[next(iter(self._in_memory))]
        return journal

    def find(self, model: bytes) -> tuple[Terms, Share] | None:
        """Terms and splits of a training, or None if there is no journal of it."""
        path = self._path(model)
        if path is None:
            journal = self._in_memory.get(model)
            return None if journal is None else (journal.terms, journal.share)
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return None
        try:
            header, *requests = [_content(line) for line in lines[:-1]]
            if header["format"] != FORMAT:
                raise ValueError
            share, terms = Share(header["names"]), Terms(**header["terms"])
            for splits in requests:
                for feature, threshold, default_left in splits:
                    share.add(feature, threshold, default_left)
        except (ValueError, KeyError, TypeError):
            raise ProtocolError("this party's journal of the training is damaged") from None
        return terms, share


def _line(content: Any) -> str:
    text = json.dumps(content)
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def _content(line: bytes) -> Any:
    checksum, _, text = line.partition(b" ")
    if checksum != f"{zlib.crc32(text):08x}".encode():
        raise ValueError("checksum")
    return json.loads(text)
