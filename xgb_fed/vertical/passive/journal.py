"""A passive party's splits of training runs, kept as they are found so that a run can be resumed.

A journal is a file of entries: the terms of the training run, then the splits of one request each, on the
disk before the request is answered.  An entry that a crash cut off was never answered for, and is ignored.
Journals hold this party's own splits and digests, and nothing of other parties.  They are kept after the run:
its active party may not have heard that it ended, and is still bound by the terms.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

from gbdt_commons.files import make_folder, write_atomically
from gbdt_parties._entries import EntryFile, entry_of, read_entries
from gbdt_parties.errors import ProtocolError
from xgb_fed.boosting.categories import from_json, to_json
from xgb_fed.vertical.protocol.splits import Splits, check_split

FORMAT = 2
MAX_JOURNALS = 32
"""Training runs, ended or not, whose splits are kept for one active party; the oldest is removed first."""


@dataclass(frozen=True)
class Terms:
    """Terms that must be the same when a training run is resumed.

    Attributes
    ----------
    scheme : str
    key_bits : int
        At least as many.
    max_bin : int
    rows : str
        Digest of the names, or positions, of the rows trained on and of every evaluation set's.
    data : str
        Digest of the values of these rows.
    """

    scheme: str
    key_bits: int
    max_bin: int
    rows: str
    data: str

    def check(self, now: Terms) -> None:
        """Raise `ProtocolError` if a run with these terms cannot be resumed under the present ones.

        The active party chooses the rows.  Values are compared of rows with the same names only, so that the
        answer tells that this party's data has changed, and never whether two rows are equal.
        """
        if now.rows != self.rows or now.max_bin != self.max_bin:
            raise ProtocolError("the rows, or max_bin, are not what the training run began with")
        if now.data != self.data:
            raise ProtocolError("this party's data is not what the training run began with")
        if now.scheme != self.scheme or now.key_bits < self.key_bits:
            raise ProtocolError("a training run is not resumed with another scheme or a shorter key")


class Journal:
    """The splits of one training run, in memory or in a file.

    Parameters
    ----------
    model : bytes
        Id of the model that is trained.
    terms : Terms
    splits : Splits
        As far as it has come.
    path : Path or None
    """

    def __init__(self, model: bytes, terms: Terms, splits: Splits, path: Path | None) -> None:
        self.terms, self.splits = terms, splits
        self.is_current = True
        self._file: EntryFile | None = None
        self._n_written = len(splits)
        if path is not None:
            header = {"format": FORMAT, "model": model.hex(), "names": splits.names, "terms": terms.__dict__}
            if splits.categories:
                header["categories"] = to_json(splits.categories)
            content = _entry(header) + _entry(splits.entries(0))
            write_atomically(path, content)
            self._file = EntryFile(path, len(content))

    def check_current(self) -> None:
        """Raise `ProtocolError` if another session has taken up the training run since."""
        if not self.is_current:
            raise ProtocolError("another session has taken up this training run")

    def keep(self) -> None:
        """Put the splits that are new on the disk."""
        self.check_current()
        new = self.splits.entries(self._n_written)
        if self._file is None or not new:
            return
        self._file.append(json.dumps(new).encode(), sync=True)
        self._n_written = len(self.splits)


class Journals:
    """The journals of a party.

    Parameters
    ----------
    directory : Path or None
        None keeps them in memory: a training run survives a lost connection, but not this process.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._in_memory: dict[bytes, Journal] = {}
        self._current: WeakValueDictionary[bytes, Journal] = WeakValueDictionary()
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock and what sessions of this process hold."""
        return {"_directory": self._directory, "_in_memory": self._in_memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, with a new lock."""
        self.__dict__.update(state, _current=WeakValueDictionary(), _lock=RLock())

    def _path(self, model: bytes) -> Path | None:
        return None if self._directory is None else self._directory / f"{model.hex()}.journal"

    def start(self, model: bytes, terms: Terms, splits: Splits) -> Journal:
        """Open a journal of a training run that starts, or is resumed, with these splits.

        Any earlier writer of the file can write no more: a run is one session's at a time.

        Raises
        ------
        ProtocolError
            If the run was begun on other terms, or with other splits.
        """
        path = self._path(model)
        with self._lock:
            kept = self.find(model)
            if kept is not None:
                kept[0].check(terms)
                if len(splits) > len(kept[1]) or kept[1].first(len(splits)) != splits:
                    raise ProtocolError("this party has not kept those splits of the training run")
            before = self._current.get(model)
            if before is not None:
                before.is_current = False
            if path is not None:
                make_folder(path.parent)
            journal = self._current[model] = Journal(model, terms, splits, path)
            if path is None:
                self._in_memory.pop(model, None)
                self._in_memory[model] = journal
                while len(self._in_memory) > MAX_JOURNALS:
                    del self._in_memory[next(iter(self._in_memory))]
            else:
                self._remove_oldest(path)
        return journal

    def _remove_oldest(self, newest: Path) -> None:
        """All but the newest, and those that were written to last."""
        ages = {path: path.stat().st_mtime_ns for path in newest.parent.glob("*.journal") if path != newest}
        for path in sorted(ages, key=ages.__getitem__)[: max(0, len(ages) + 1 - MAX_JOURNALS)]:
            path.unlink(missing_ok=True)

    def find(self, model: bytes) -> tuple[Terms, Splits] | None:
        """Read the terms and splits of a training run; None if there is no journal of it."""
        path = self._path(model)
        if path is None:
            journal = self._in_memory.get(model)
            return None if journal is None else (journal.terms, journal.splits)
        try:
            header, *requests = [json.loads(content) for content, _ in read_entries(path)]
            if header["format"] != FORMAT or header["model"] != model.hex():
                raise ValueError("another training run's")
            names, terms = header["names"], Terms(**header["terms"])
            splits = Splits(names, categories=from_json(header.get("categories", []), len(names)))
            for found in requests:
                for split in found:
                    splits.add(*check_split(split, splits))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ProtocolError("this party's journal of the training run is damaged") from None
        return terms, splits


def _entry(content: Any) -> bytes:
    return entry_of(json.dumps(content).encode())
