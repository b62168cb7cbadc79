"""The progress of an exact training run at its coordinator: all parties' answers, for parties to catch up.

It is a journal that only grows.  It holds what the coordinator has seen: introductions, the settings, and
contributions, which are masked.  A party that was restarted is sent them again, and so is one whose
coordinator was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gbdt_parties._entries import EntryFile, read_entries
from xgb_fed.boosting.run_folder import RunFolder
from xgb_fed.errors import CheckpointError

FORMAT = 1
JOURNAL_FILE = "exact.journal"
_HEAD, _RUN, _OPENED, _MODEL = b"H", b"R", b"O", b"M"
"""First bytes of an entry."""


@dataclass
class ExactProgress:
    """How far a run has come.

    Attributes
    ----------
    run : bytes
        Its number; empty if it has not begun.
    introductions : list of bytes
        Of all parties, in the roster's order.
    classes : list or None
        All parties' labels.
    n_opened : int
        Sums that all parties have answered.
    last : bytes
        The answers to the last one.
    model : bytes
        The parties' result, empty before.
    """

    run: bytes = b""
    introductions: list[bytes] = field(default_factory=list)
    classes: list[Any] | None = None
    n_opened: int = 0
    last: bytes = b""
    model: bytes = b""


class ExactCheckpoint(RunFolder):
    """A directory with the progress of one run.

    Only the beginning and the model are synced to the disk: parties repeat answers that a power failure
    takes.

    Parameters
    ----------
    directory : path
    """

    def __init__(self, directory: str | Path) -> None:
        super().__init__(directory)
        self._file: EntryFile | None = None
        self._places: list[int] = []

    @property
    def _path(self) -> Path:
        return self.directory / JOURNAL_FILE

    def load(self, about: Any, names: Sequence[str]) -> ExactProgress:
        """Kept state of a run, which may be empty.

        Parameters
        ----------
        about : object
            Request for training, in JSON's types.
        names : sequence of str
            Of the parties.

        Raises
        ------
        CheckpointError
            If the directory belongs to another run, or is damaged.
        """
        digest = hashlib.sha256(json.dumps([FORMAT, about, list(names)]).encode()).digest()
        progress, end = ExactProgress(), 0
        if self._path.exists():
            try:
                for content, after in read_entries(self._path):
                    if end == 0:
                        if content != _HEAD + digest:
                            raise self.of_another_run()
                    else:
                        self._take(content, end, progress)
                    end = after
            except CheckpointError:
                raise
            except Exception as error:
                # Damaged entries make their readers raise nearly anything.
                raise self.unreadable(error) from None
        self._file = EntryFile(self._path, end)
        if end == 0:
            self._file.append(_HEAD + digest, sync=True)
        progress.n_opened = len(self._places)
        return progress

    def _take(self, content: bytes, place: int, progress: ExactProgress) -> None:
        if content[:1] == _OPENED:
            self._places.append(place)
            progress.last = content[1:]
        elif content[:1] == _MODEL:
            progress.model = content[1:]
        else:
            known = json.loads(content[1:])
            progress.run = bytes.fromhex(known["run"])
            progress.introductions = [bytes.fromhex(one) for one in known["introductions"]]
            progress.classes = known["classes"]

    def note_start(self, run: bytes, introductions: Sequence[bytes], classes: list[Any] | None) -> None:
        """Keep that all parties have begun a run."""
        known = {"run": run.hex(), "introductions": [one.hex() for one in introductions], "classes": classes}
        self._add(_RUN + json.dumps(known).encode(), sync=True)

    def note_opened(self, opened: bytes) -> None:
        """Keep the answers to a sum, before any party is sent them."""
        self._places.append(self._add(_OPENED + opened, sync=False))

    def note_model(self, content: bytes) -> None:
        """Keep the model, before parties forget the run."""
        self._add(_MODEL + content, sync=True)

    def _add(self, content: bytes, *, sync: bool) -> int:
        assert self._file is not None
        return self._file.append(content, sync=sync)

    def opened(self, number: int) -> bytes:
        """The answers to a sum."""
        assert self._file is not None
        return self._file.read(self._places[number])[1:]

    def clear(self) -> None:
        """Remove the progress: the model is kept elsewhere."""
        self._path.unlink(missing_ok=True)
        self._file, self._places = None, []
