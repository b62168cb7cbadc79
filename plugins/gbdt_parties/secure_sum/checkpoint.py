"""The progress of a run of secure sums at its coordinator, in memory or in a folder.

It holds what the coordinator has seen: introductions, public settings, and contributions, which are masked;
nothing of any party's rows.  A coordinator that was killed goes on with it, and a party that was restarted is
sent the sums that it has missed.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.files import locked_folder, make_folder
from gbdt_parties._entries import EntryFile, read_entries
from gbdt_parties.errors import PartyUnavailableError

FORMAT = 2
JOURNAL_FILE = "sums.journal"
_HEAD, _RUN, _ATTEMPT, _OPENED, _MODEL = b"H", b"R", b"A", b"O", b"M"
"""First bytes of an entry."""


class _MemoryEntries:
    """The latest entries of a run without a checkpoint; the in-memory twin of `EntryFile`.

    Parameters
    ----------
    n_kept : int, optional
        Entries that are kept, by default all.
    """

    def __init__(self, n_kept: int | None) -> None:
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=n_kept)

    def append(self, content: bytes, *, sync: bool) -> int:
        """Keep an entry; returns its place."""
        place = self._kept[-1][0] + 1 if self._kept else 0
        self._kept.append((place, content))
        return place

    def read(self, start: int) -> bytes:
        """The entry at a place; a PartyUnavailableError if it is not kept any more."""
        index = start - self._kept[0][0]
        if index < 0:
            raise PartyUnavailableError("a party has missed sums that are not kept any more")
        return self._kept[index][1]


class Progress:
    """How far a run has come.

    Parameters
    ----------
    entries : EntryFile or _MemoryEntries
    kept : iterable of (bytes, int)
        Entries that are there already, and their places.

    Attributes
    ----------
    run : bytes
        Its number; empty if it has not begun.
    introductions : list of bytes
        Of all parties, in the roster's order.
    task : str
        JSON of the settings that the parties have agreed on.
    n_starts : int
        How often a coordinator has begun or taken up the run.
    attempt : (int, tuple of int), optional
        Number and members of an attempt at the next sum that was begun.
    model : bytes
        The result, empty before the end.
    """

    def __init__(self, entries: EntryFile | _MemoryEntries, kept: Iterable[tuple[bytes, int]] = ()) -> None:
        self.run, self.task, self.model = b"", "", b""
        self.introductions: list[bytes] = []
        self.n_starts = 0
        self.attempt: tuple[int, tuple[int, ...]] | None = None
        self._entries, self._places = entries, list[int]()
        for content, place in kept:
            self._count(content[:1], content[1:], place)

    @property
    def n_opened(self) -> int:
        """Sums that were opened."""
        return len(self._places)

    def opened(self, number: int) -> bytes:
        """The contributions to a sum."""
        return self._entries.read(self._places[number])[1:]

    def note_start(self, run: bytes, introductions: Sequence[bytes], task: str) -> None:
        """Keep that a run has begun, or is taken up."""
        known = {"run": run.hex(), "introductions": [one.hex() for one in introductions], "task": task}
        self._note(_RUN, json.dumps(known).encode())

    def note_attempt(self, number: int, members: Sequence[int]) -> None:
        """Keep an attempt that is about to be made; a run that is taken up finishes it."""
        self._note(_ATTEMPT, json.dumps([number, list(members)]).encode(), sync=False)

    def note_opened(self, opened: bytes, *, sync: bool) -> None:
        """Keep the contributions to a sum, before any party is sent them; `sync` waits for the disk."""
        self._note(_OPENED, opened, sync=sync)

    def note_model(self, content: bytes) -> None:
        """Keep the model, before parties forget the run."""
        self._note(_MODEL, content)

    def _note(self, kind: bytes, content: bytes, *, sync: bool = True) -> None:
        self._count(kind, content, self._entries.append(kind + content, sync=sync))

    def _count(self, kind: bytes, content: bytes, place: int) -> None:
        if kind == _OPENED:
            self._places.append(place)
            self.attempt = None
        elif kind == _ATTEMPT:
            number, members = json.loads(content)
            self.attempt = int(number), tuple(int(place) for place in members)
        elif kind == _MODEL:
            self.model = content
        elif kind == _RUN:
            known: dict[str, Any] = json.loads(content)
            self.run, self.task = bytes.fromhex(known["run"]), str(known["task"])
            self.introductions = [bytes.fromhex(one) for one in known["introductions"]]
            self.n_starts += 1
        else:
            raise ValueError("an entry of another kind")


class Memory:
    """No checkpoint: the progress of a run ends with the process.

    Parameters
    ----------
    n_kept : int, optional
        Latest sums whose contributions are kept, by default all: a party that has missed earlier ones cannot
        take part again.
    """

    def __init__(self, n_kept: int | None = None) -> None:
        # Between two sums there is the next attempt.
        self._n_entries = None if n_kept is None else 2 * n_kept

    @contextmanager
    def taken_up(self, about: Any, names: Sequence[str]) -> Iterator[Progress]:
        """The progress of a new run."""
        yield Progress(_MemoryEntries(self._n_entries))


class Checkpoint:
    """A folder with the progress of one run; it is made if it is missing.

    Parameters
    ----------
    folder : path
    error : type
        Of the errors about the folder.
    """

    def __init__(self, folder: str | Path, error: type[VeilboostError]) -> None:
        self.folder, self._error = make_folder(folder), error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs, also of other processes, out of the folder.

        Raises
        ------
        VeilboostError
            Of the kind `error`, if one is in there.
        """
        with locked_folder(self.folder) as is_ours:
            if not is_ours:
                raise self._error(
                    f"checkpoint={str(self.folder)!r} is in use by another training run; give each run a "
                    "folder of its own"
                )
            yield

    @contextmanager
    def taken_up(self, about: Any, names: Sequence[str]) -> Iterator[Progress]:
        """The kept progress of a run, which may be none; the folder is locked meanwhile.

        Parameters
        ----------
        about : object
            Request for training, in JSON's types.
        names : sequence of str
            Of the parties.

        Raises
        ------
        VeilboostError
            Of the kind `error`, if the folder is in use, holds another run, or is damaged.
        """
        digest = hashlib.sha256(json.dumps([FORMAT, about, list(names)]).encode()).digest()
        with self.locked():
            try:
                progress = self._progress(_HEAD + digest)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise self._error(
                    f"checkpoint={str(self.folder)!r} cannot be read: {type(error).__name__}; remove it to "
                    "train anew, which the parties count as another run"
                ) from None
            if progress is None:
                raise self._error(
                    f"checkpoint={str(self.folder)!r} is of a training run with other settings or parties; "
                    "give another folder, or remove this one"
                )
            yield progress

    def _progress(self, head: bytes) -> Progress | None:
        """The progress in the journal, made if there is none; None if its first entry is another one."""
        kept, end = list[tuple[bytes, int]](), 0
        for content, after in read_entries(self._path) if self._path.exists() else ():
            # Contributions stay on the disk.
            kept.append((content[:1] if content[:1] == _OPENED else content, end))
            end = after
        file = EntryFile(self._path, end)
        if not kept:
            kept = [(head, file.append(head, sync=True))]
        return Progress(file, kept[1:]) if kept[0][0] == head else None

    @property
    def _path(self) -> Path:
        return self.folder / JOURNAL_FILE

    def clear(self) -> None:
        """Remove the progress: the model is kept elsewhere."""
        self._path.unlink(missing_ok=True)
