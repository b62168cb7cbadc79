"""What the active party was told while one tree grew, so that the tree can only grow again from the same.

A passive party learns which candidate won when it gets `SplitNodes`.  If it could then be lost, come back and
send other statistics of the same tree, it would learn more at every attempt.  So the active party keeps a
digest of every level's statistics before it names a candidate, on disk if the training run has a checkpoint.
A tree that is grown again must meet the same digests, and then the same candidates are named.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock

from gbdt_parties._files import write_atomically
from gbdt_parties.errors import ProtocolError
from xgb_fed.errors import CheckpointError

RECORD_FILE = "tree-under-way.json"


@dataclass(frozen=True)
class Restart:
    """A tree that was grown again after a party had been told its splits and was lost before it answered.

    Attributes
    ----------
    tree, level : int
    party : str
    """

    tree: int
    level: int
    party: str

    def __str__(self) -> str:
        return (
            f"tree {self.tree} was restarted: party {self.party!r} was lost between being told its splits of "
            f"level {self.level} and answering"
        )


@dataclass
class _Content:
    """What is kept of the tree under way.

    Attributes
    ----------
    model : str
    tree : int
    digests : dict
        Of statistics, by party and level.
    told : list of [str, int]
        Party and level of every `SplitNodes` that was sent and is not known to be answered.
    restarts : list of [int, int, str]
    """

    model: str
    tree: int = -1
    digests: dict[str, list[str]] = field(default_factory=dict)
    told: list[list[str | int]] = field(default_factory=list)
    restarts: list[list[int | str]] = field(default_factory=list)


class TreeRecord:
    """Digests of the statistics that the tree under way was grown from; threads may share it.

    Parameters
    ----------
    model_id : bytes
    directory : Path or None
        Where the record is kept beside the checkpoint; None keeps it in memory.

    Raises
    ------
    CheckpointError
        If there is a record that cannot be read.
    """

    def __init__(self, model_id: bytes, directory: Path | None) -> None:
        self._path = None if directory is None else directory / RECORD_FILE
        self._lock = Lock()
        self._content = _Content(model_id.hex())
        if self._path is not None and self._path.exists():
            try:
                kept = _Content(**json.loads(self._path.read_text()))
            except (ValueError, TypeError) as error:
                raise CheckpointError(f"{self._path} cannot be read: {type(error).__name__}") from None
            if kept.model == model_id.hex():
                self._content = kept

    def start(self, tree: int) -> list[Restart]:
        """Begin a tree, or begin it again; gives the restarts of this tree that are new."""
        content = self._content
        if content.tree != tree:
            self._content = _Content(content.model, tree)
            return []
        new = [Restart(tree, int(level), str(party)) for party, level in content.told]
        content.restarts += [[restart.tree, restart.level, restart.party] for restart in new]
        content.told = []
        self._save()
        return new

    @property
    def restarts(self) -> list[Restart]:
        """Restarts of the tree under way."""
        return [Restart(int(tree), int(level), str(party)) for tree, level, party in self._content.restarts]

    def check(self, party: str, level: int, digest: str) -> None:
        """Keep a digest of statistics; `ProtocolError` if the tree began with others."""
        with self._lock:
            known = self._content.digests.setdefault(party, [])
            if level < len(known) and known[level] != digest:
                raise ProtocolError("other statistics than those that the tree began with")
            if level == len(known):
                known.append(digest)

    def telling(self, party: str, level: int) -> None:
        """Keep, on disk, that a party is about to be told its splits of a level."""
        with self._lock:
            self._content.told.append([party, level])
            self._save()

    def answered(self, party: str, level: int) -> None:
        """Note that it answered."""
        with self._lock:
            self._content.told.remove([party, level])

    def _save(self) -> None:
        if self._path is not None:
            write_atomically(self._path, json.dumps(asdict(self._content)))
