"""The progress of a run of secure sums at its coordinator, in memory or in a folder.

It holds what the coordinator has seen: introductions, public settings, and contributions, which are masked;
nothing of any party's rows.  A coordinator that was killed goes on with it, and a party that was restarted is
sent the sums that it has missed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
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


class Progress:
    """How far a run has come; in memory, the contributions to its latest sums.

    Parameters
    ----------
    n_kept : int, optional
        Sums whose contributions are kept, by default all: a party that has missed earlier ones cannot take
        part again.

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
    n_opened : int
        Sums that were opened.
    attempt : (int, tuple of int), optional
        Number and members of an attempt at the next sum that was begun.
    model : bytes
        The result, empty before the end.
    """

    def __init__(self, n_kept: int | None = None) -> None:
        self.run, self.task, self.model = b"", "", b""
        self.introductions: list[bytes] = []
        self.n_starts = self.n_opened = 0
        self.attempt: tuple[int, tuple[int, ...]] | None = None
        self._n_kept = n_kept
        self._contents: dict[int, bytes] = {}

    def note_start(self, run: bytes, introductions: Sequence[bytes], task: str) -> None:
        """Keep that a run has begun, or is taken up."""
        known = {"run": run.hex(), "introductions": [one.hex() for one in introductions], "task": task}
        self._note(_RUN, json.dumps(known).encode())

    def note_attempt(self, number: int, members: Sequence[int]) -> None:
        """Keep an attempt that is about to be made; a run that is taken up finishes it."""
        self._note(_ATTEMPT, json.dumps([number, list(members)]).encode(), sync=False)

    def note_opened(self, opened: bytes, *, sync: bool) -> None:
        """Keep the contributions to a sum, before any party is sent them.

        Parameters
        ----------
        opened : bytes
        sync : bool
            Whether to wait for the disk.
        """
        self._note(_OPENED, opened, sync=sync)

    def note_model(self, content: bytes) -> None:
        """Keep the model, before parties forget the run."""
        self._note(_MODEL, content)

    def opened(self, number: int) -> bytes:
        """The contributions to a sum.

        Raises
        ------
        PartyUnavailableError
            If they are not kept any more.
        """
        if number not in self._contents:
            raise PartyUnavailableError("a party has missed sums that are not kept any more")
        return self._contents[number]

    def _note(self, kind: bytes, content: bytes, *, sync: bool = True) -> None:
        if kind == _OPENED:
            self._contents[self.n_opened] = content
            if self._n_kept is not None:
                self._contents.pop(self.n_opened - self._n_kept, None)
        self._count(kind, content)

    def _count(self, kind: bytes, content: bytes) -> None:
        if kind == _OPENED:
            self.n_opened += 1
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


class _AnotherRunError(Exception):
    """A journal that is not of the run."""


class _KeptProgress(Progress):
    """Progress in a journal that only grows; contributions stay on the disk.

    Parameters
    ----------
    path : Path
    head : bytes
        Names the run; the first entry.

    Raises
    ------
    _AnotherRunError
        If the journal is of another run.
    Exception
        Of nearly any kind, if it is damaged.
    """

    def __init__(self, path: Path, head: bytes) -> None:
        super().__init__()
        self._places: list[int] = []
        end = 0
        for content, after in read_entries(path) if path.exists() else ():
            if end == 0 and content != head:
                raise _AnotherRunError
            if end:
                self._count(content[:1], content[1:])
                self._places += [end] if content[:1] == _OPENED else []
            end = after
        self._file = EntryFile(path, end)
        if end == 0:
            self._file.append(head, sync=True)

    def opened(self, number: int) -> bytes:
        """The contributions to a sum."""
        return self._file.read(self._places[number])[1:]

    def _note(self, kind: bytes, content: bytes, *, sync: bool = True) -> None:
        place = self._file.append(kind + content, sync=sync)
        self._places += [place] if kind == _OPENED else []
        self._count(kind, content)


class Memory:
    """No checkpoint: the progress of a run ends with the process.

    Parameters
    ----------
    n_kept : int, optional
        As in `Progress`.
    """

    def __init__(self, n_kept: int | None = None) -> None:
        self._n_kept = n_kept

    @contextmanager
    def taken_up(self, about: Any, names: Sequence[str]) -> Iterator[Progress]:
        """The progress of a new run."""
        yield Progress(self._n_kept)


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
                progress = _KeptProgress(self._path, _HEAD + digest)
            except _AnotherRunError:
                raise self._error(
                    f"checkpoint={str(self.folder)!r} is of a training run with other settings or parties; "
                    "give another folder, or remove this one"
                ) from None
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise self._error(
                    f"checkpoint={str(self.folder)!r} cannot be read: {type(error).__name__}; remove it to "
                    "train anew, which the parties count as another run"
                ) from None
            yield progress

    @property
    def _path(self) -> Path:
        return self.folder / JOURNAL_FILE

    def clear(self) -> None:
        """Remove the progress: the model is kept elsewhere."""
        self._path.unlink(missing_ok=True)
