"""A horizontal party's part in training runs, kept so that a run that was interrupted goes on with it.

A journal is a file of entries: what the run began with, this party's matrix of similar rows among it, then
the trees of each round, on the disk before the round is answered. An answer that was given once is given
again unchanged: a round that is in the journal is never grown on, or continued by, other trees.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import make_folder, write_atomically
from gbdt_parties import messages
from gbdt_parties._entries import EntryFile, entry_of, read_entries
from gbdt_parties.errors import ProtocolError
from xgb_fed.horizontal.common.messages import OpenHorizontal, Trees

FORMAT = 3
MAX_RUNS = 4
"""Training runs, ended or not, that are kept for one coordinator; the oldest is removed first."""


@dataclass(frozen=True)
class RunStart:
    """Start of a training run at one party.

    Attributes
    ----------
    params, classes : str
        As in `OpenHorizontal`.
    place : int
    party_rows : list of int
    rounds_per_turn : int
    base_score : list of float
    tree_seed : int
        Of the draws of rows and columns of the trees that are grown here.
    similar : dict of ndarray of int32, shape (TIE_DRAWS, n_groups)
        As in `BoostingState`.
    """

    params: str
    classes: str
    place: int
    party_rows: list[int]
    rounds_per_turn: int
    base_score: list[float]
    tree_seed: int
    similar: dict[int, NDArray[np.int32]]

    def opening(self, max_rounds: int) -> OpenHorizontal:
        """The message that opened the run, but for the number of rounds."""
        rows = np.array(self.party_rows, dtype=np.int64)
        return OpenHorizontal(self.params, self.classes, self.place, rows, self.rounds_per_turn, max_rounds)


@dataclass
class RunJournal:
    """One training run, in memory and, unless there is none, in a file.

    Attributes
    ----------
    run : bytes
        Number of the session in which boosting started.
    start : RunStart
    rounds : list of (Trees, bool)
        Each round's trees, and whether they were grown here.
    """

    run: bytes
    start: RunStart
    rounds: list[tuple[Trees, bool]] = field(default_factory=list)
    file: EntryFile | None = None

    def add(self, trees: Trees, is_own: bool) -> None:
        """Keep the trees of the next round."""
        if self.file is not None:
            content = messages.write(bytes(16), int(is_own), trees)
            self.file.append(content, sync=True)
        self.rounds.append((trees, is_own))

    def check(self, number: int, trees: Trees) -> None:
        """Refuse other trees than those that the journal has for a round, if it has any."""
        if number < len(self.rounds):
            known, _ = self.rounds[number]
            same = np.array_equal(known.lengths, trees.lengths) and known.models == trees.models
            if not same:
                raise ProtocolError(f"round {number} had other trees before the training run was interrupted")

    def __getstate__(self) -> dict[str, Any]:
        """Without the file."""
        return {**self.__dict__, "file": None}


class RunJournals:
    """The journals of a party for one coordinator.

    Parameters
    ----------
    directory : Path or None
        None keeps them in memory: a training run survives a lost connection, but not this process.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = None if directory is None else make_folder(directory)
        self._in_memory: dict[bytes, RunJournal] = {}

    def begin(self, run: bytes, start: RunStart) -> RunJournal:
        """Open the journal of a training run that begins.

        Raises
        ------
        ProtocolError
            If there is one of this number: it would be lost, and with it what its rounds were bound to.
        """
        path = None if self._directory is None else self._path(self._directory, run)
        if run in self._in_memory or (path is not None and path.exists()):
            raise ProtocolError("the number of this session is that of another training run")
        journal = RunJournal(run, start)
        if self._directory is None or path is None:
            self._in_memory[run] = journal
            while len(self._in_memory) > MAX_RUNS:
                del self._in_memory[next(iter(self._in_memory))]
            return journal
        self._remove_oldest(self._directory)
        content = entry_of(_written(run, start))
        write_atomically(path, content)
        journal.file = EntryFile(path, len(content))
        return journal

    def size(self, run: bytes) -> int:
        """Size in bytes of a journal on the disk; 0 if there is none."""
        path = None if self._directory is None else self._path(self._directory, run)
        return path.stat().st_size if path is not None and path.exists() else 0

    def take_up(self, run: bytes) -> RunJournal:
        """The journal of a training run that goes on.

        Raises
        ------
        ProtocolError
            If there is none, or it is damaged.
        """
        if self._directory is None:
            if run not in self._in_memory:
                raise ProtocolError("no such training run")
            return self._in_memory[run]
        path = self._path(self._directory, run)
        try:
            entries = list(read_entries(path))
            journal = RunJournal(run, _read(run, entries[0][0]))
            for content, _ in entries[1:]:
                envelope = messages.read(content)
                assert isinstance(envelope.message, Trees)
                journal.rounds.append((envelope.message, bool(envelope.sequence)))
        except FileNotFoundError:
            raise ProtocolError("no such training run") from None
        except OSError:
            raise
        except Exception:
            # A damaged archive makes its readers raise nearly anything.
            raise ProtocolError("this party's journal of the training run is damaged") from None
        journal.file = EntryFile(path, entries[-1][1])
        return journal

    @staticmethod
    def _path(directory: Path, run: bytes) -> Path:
        return directory / f"{run.hex()}.journal"

    @staticmethod
    def _remove_oldest(directory: Path) -> None:
        """Make room for one more run; those that were written to last are kept."""
        ages = {path: path.stat().st_mtime_ns for path in directory.glob("*.journal")}
        for path in sorted(ages, key=ages.__getitem__)[: max(0, len(ages) + 1 - MAX_RUNS)]:
            path.unlink(missing_ok=True)


def _written(run: bytes, start: RunStart) -> bytes:
    scalars = {name: value for name, value in start.__dict__.items() if name != "similar"}
    about = json.dumps({"format": FORMAT, "run": run.hex(), **scalars}).encode()
    arrays: dict[str, Any] = {f"similar_{place}": rows for place, rows in start.similar.items()}
    file = io.BytesIO()
    np.savez(file, about=np.frombuffer(about, dtype=np.uint8), **arrays)
    return file.getvalue()


def _read(run: bytes, content: bytes) -> RunStart:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        about = json.loads(bytes(file["about"]))
        if about.pop("format") != FORMAT or about.pop("run") != run.hex():
            raise ValueError("another training run's")
        names = [name for name in file.files if name.startswith("similar_")]
        return RunStart(**about, similar={int(name.partition("_")[2]): file[name] for name in names})
