"""The coordinator's progress on disk: an interrupted training run resumes after the last finished round.

It is a journal that only grows.  Its first entry names the training run; each round's trees, and each change
of what else is known, is one more.  It holds what all parties have, the trees, and what the coordinator has
seen, contributions to the hash seed; nothing of any party's rows.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from gbdt_commons.files import write_atomically
from gbdt_parties import messages
from gbdt_parties._entries import EntryFile, entry_of, read_entries
from gbdt_parties.traffic import Flow, Traffic
from xgb_fed.boosting.run_folder import RunFolder
from xgb_fed.errors import CheckpointError
from xgb_fed.horizontal.common.messages import Trees

FORMAT = 1
JOURNAL_FILE = "horizontal.journal"
_KNOWN, _TREES = b"K", b"T"
"""First bytes of an entry after the first one."""


@dataclass
class Progress:
    """How far a training run has come.

    Attributes
    ----------
    run : bytes
        Number of the session in which boosting started; empty before.
    commitments, contributions : bytes
        All parties' commitments and contributions to the hash seed, as soon as they are there; empty before.
    base_score : list of float
    rounds : list of Trees
    traffic : Traffic
    """

    run: bytes = b""
    commitments: bytes = b""
    contributions: bytes = b""
    base_score: list[float] = field(default_factory=list)
    rounds: list[Trees] = field(default_factory=list)
    traffic: Traffic = field(default_factory=lambda: Traffic(encrypted=False))


class Checkpoint(RunFolder):
    """A directory with the progress of one training run.

    Parameters
    ----------
    directory : path
    """

    def __init__(self, directory: str | Path) -> None:
        super().__init__(directory)
        self._file: EntryFile | None = None
        self._n_rounds = 0

    @property
    def _path(self) -> Path:
        return self.directory / JOURNAL_FILE

    def load(self, training: str) -> Progress | None:
        """Kept state of a training run, or None.

        Parameters
        ----------
        training : str
            Digest of the parameters, the parties and what they say of their rows.

        Raises
        ------
        CheckpointError
            If the directory belongs to another training run, or is damaged.
        """
        if not self._path.exists():
            return None
        try:
            entries = list(read_entries(self._path))
            if json.loads(entries[0][0]) != _header(training):
                raise self.of_another_run()
            progress = Progress()
            for content, _ in entries[1:]:
                if content[:1] == _TREES:
                    message = messages.read(content[1:]).message
                    assert isinstance(message, Trees)
                    progress.rounds.append(message)
                else:
                    _take(json.loads(content[1:]), progress)
        except CheckpointError:
            raise
        except Exception as error:
            # Damaged entries make their readers raise nearly anything.
            raise self.unreadable(error) from None
        self._file, self._n_rounds = EntryFile(self._path, entries[-1][1]), len(progress.rounds)
        return progress

    def save(self, training: str, progress: Progress) -> None:
        """Keep new rounds, and everything else, on the disk.

        Raises
        ------
        OSError
            If the disk is full; the last progress stays.
        """
        if self._file is None:
            content = entry_of(json.dumps(_header(training)).encode())
            write_atomically(self._path, content)
            self._file = EntryFile(self._path, len(content))
        # First what names the run: trees that a crash left without it could not be taken up.
        n_rounds = len(progress.rounds)
        self._file.append(_KNOWN + json.dumps(_known(progress)).encode(), sync=self._n_rounds == n_rounds)
        for number in range(self._n_rounds, n_rounds):
            trees = messages.write(bytes(16), number, progress.rounds[number])
            self._file.append(_TREES + trees, sync=number == n_rounds - 1)
            self._n_rounds += 1

    def clear(self) -> None:
        """Remove the progress: the model is kept elsewhere."""
        self._path.unlink(missing_ok=True)
        self._file, self._n_rounds = None, 0


def _header(training: str) -> dict[str, Any]:
    return {"format": FORMAT, "training": training}


def _known(progress: Progress) -> dict[str, Any]:
    return {
        "run": progress.run.hex(),
        "commitments": progress.commitments.hex(),
        "contributions": progress.contributions.hex(),
        "base_score": progress.base_score,
        "flows": [(key, astuple(flow)) for key, flow in progress.traffic.flows.items()],
    }


def _take(known: dict[str, Any], progress: Progress) -> None:
    progress.run, progress.commitments = bytes.fromhex(known["run"]), bytes.fromhex(known["commitments"])
    progress.contributions, progress.base_score = bytes.fromhex(known["contributions"]), known["base_score"]
    progress.traffic = Traffic(False, {tuple(key): Flow(*flow) for key, flow in known["flows"]})
