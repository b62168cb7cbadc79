"""The coordinator's progress on disk: one that was killed goes on with the same training run.

It is a journal that only grows.  It holds what the coordinator has seen, masked contributions and their sums'
attempts; nothing of any party's rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gbdt_commons.files import locked_folder, make_folder
from gbdt_parties._entries import EntryFile, read_entries
from lgb_dp.errors import FederatedCheckpointError

FORMAT = 1
JOURNAL_FILE = "federated.journal"
_HEAD, _RUN, _ATTEMPT, _OPENED, _MODEL = b"H", b"R", b"A", b"O", b"M"
"""First bytes of an entry."""

ATTEMPTS_PER_START = 1 << 32
"""Attempts are numbered on from the next multiple of this whenever a coordinator takes a run up: the last
numbers that were used may not have reached the disk when the machine failed, and none may be used twice."""


@dataclass
class Progress:
    """How far a run has come.

    Attributes
    ----------
    run : bytes
        Its number; empty if it has not begun.
    introductions : list of bytes
        Of all parties, in the roster's order.
    n_starts : int
        How often a coordinator has begun or taken up the run.
    history : list of bytes
        Contributions to every sum that was opened (`messages.Opened`).
    attempt : (int, tuple of int), optional
        Number and members of an attempt at the next sum that was begun.
    model : str
        Its text, empty before the end.
    """

    run: bytes = b""
    introductions: list[bytes] = field(default_factory=list)
    n_starts: int = 0
    history: list[bytes] = field(default_factory=list)
    attempt: tuple[int, tuple[int, ...]] | None = None
    model: str = ""


class Checkpoint:
    """A folder with the progress of one run; it is made if it is missing.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = make_folder(folder)
        self._file: EntryFile | None = None

    @property
    def _path(self) -> Path:
        return self.folder / JOURNAL_FILE

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs, also of other processes, out of the folder.

        Raises
        ------
        FederatedCheckpointError
            If one is in there.
        """
        with locked_folder(self.folder) as is_ours:
            if not is_ours:
                raise FederatedCheckpointError(
                    f"checkpoint={str(self.folder)!r} is in use by another training run; give each run a "
                    "folder of its own"
                )
            yield

    def load(self, task: str, names: Sequence[str]) -> Progress:
        """Kept state of a run, which may be empty.

        Parameters
        ----------
        task : str
            JSON of its settings.
        names : sequence of str
            Its parties.

        Raises
        ------
        FederatedCheckpointError
            If the folder holds another run, or is damaged.
        """
        progress, end = Progress(), 0
        about = hashlib.sha256(json.dumps([FORMAT, task, list(names)]).encode()).digest()
        if self._path.exists():
            try:
                for number, (content, end) in enumerate(read_entries(self._path)):  # noqa: B007
                    if number == 0:
                        self._check_is_of(content, about)
                    else:
                        _take(content[:1], content[1:], progress)
            except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
                if isinstance(error, FederatedCheckpointError):
                    raise
                raise FederatedCheckpointError(
                    f"checkpoint={str(self.folder)!r} cannot be read: {type(error).__name__}; remove it to "
                    "train anew, which the parties' ledgers are charged for again"
                ) from None
        self._file = EntryFile(self._path, end)
        if end == 0:
            self._add(_HEAD, about)
        return progress

    def _check_is_of(self, content: bytes, about: bytes) -> None:
        if content != _HEAD + about:
            raise FederatedCheckpointError(
                f"checkpoint={str(self.folder)!r} is of a training run with other settings or parties; give "
                "another folder, or remove this one"
            )

    def _add(self, kind: bytes, content: bytes, *, sync: bool = True) -> None:
        assert self._file is not None
        self._file.append(kind + content, sync=sync)

    def note_start(self, run: bytes, introductions: Sequence[bytes]) -> None:
        """Keep that a run begins, or is taken up."""
        about = {"run": run.hex(), "introductions": [one.hex() for one in introductions]}
        self._add(_RUN, json.dumps(about).encode())

    def note_attempt(self, number: int, members: Sequence[int]) -> None:
        """Keep an attempt that is about to be made; a resumed run finishes it."""
        self._add(_ATTEMPT, json.dumps([number, list(members)]).encode(), sync=False)

    def note_opened(self, opened: bytes) -> None:
        """Keep the contributions to a sum, before any party is sent them."""
        self._add(_OPENED, opened)

    def note_model(self, text: str) -> None:
        """Keep the model, before parties forget the run."""
        self._add(_MODEL, text.encode())

    def clear(self) -> None:
        """Remove the progress: the model is kept elsewhere."""
        self._path.unlink(missing_ok=True)
        self._file = None


def _take(kind: bytes, content: bytes, progress: Progress) -> None:
    if kind == _OPENED:
        progress.history.append(content)
        progress.attempt = None
    elif kind == _ATTEMPT:
        number, members = json.loads(content)
        progress.attempt = int(number), tuple(int(place) for place in members)
    elif kind == _MODEL:
        progress.model = content.decode()
    elif kind == _RUN:
        about: dict[str, Any] = json.loads(content)
        progress.run = bytes.fromhex(about["run"])
        progress.introductions = [bytes.fromhex(one) for one in about["introductions"]]
        progress.n_starts += 1
    else:
        raise ValueError("an entry of another kind")
