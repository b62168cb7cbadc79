"""Answers to the active party while one tree grew, so that the tree can only grow again from the same.

A passive party learns which candidates won when it gets `SplitNodes`, or with the next question, which says
how other parties split a level. If it could then be lost, come back and send other statistics of the same
tree, it would learn more at every attempt. So the active party keeps a digest of every level's statistics
before anything that follows from them leaves, in the journal of the training run if it has a checkpoint. A
tree that is grown again must meet the same digests, and then the same candidates are named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any

from gbdt_parties.errors import ProtocolError
from xgb_fed.errors import CheckpointError


@dataclass(frozen=True)
class Restart:
    """A tree that was grown again after a party had been told its splits and was lost before it answered."""

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
    """Kept content of the tree under way.

    `digests` are those of statistics, by party and level.  `told` has party and level of every `SplitNodes`
    that was sent and is not known to be answered.  `gradients` is the digest of the gradients that a user's
    objective gave; empty for objectives of XGBoost.
    """

    tree: int = -1
    digests: dict[str, list[str]] = field(default_factory=dict)
    told: list[list[str | int]] = field(default_factory=list)
    restarts: list[list[int | str]] = field(default_factory=list)
    gradients: str = ""


class TreeRecord:
    """Digests of the statistics that the tree under way was grown from; threads may share it.

    `keep` puts what is known of the tree under way, a dictionary, on the disk; `kept` is such content from an
    earlier process, if that tree is not finished.
    """

    def __init__(
        self, keep: Callable[[dict[str, Any]], None] | None = None, kept: dict[str, Any] | None = None
    ) -> None:
        self._keep = keep
        self._lock = Lock()
        self.content = _Content(**(kept or {}))
        self._is_kept = True

    def start(self, tree: int, gradients: str = "") -> list[Restart]:
        """Begin a tree, or begin it again; gives the restarts of this tree that are new.

        `gradients` is the digest of the gradients that a user's objective gave; empty for objectives of
        XGBoost. Raises `CheckpointError` if the objective gave other gradients when the tree was first begun:
        statistics would differ.
        """
        content = self.content
        if content.tree != tree:
            self.content = _Content(tree, gradients=gradients)
            return []
        if content.gradients != gradients and content.gradients:
            raise CheckpointError(
                f"obj gives other gradients for tree {tree} than before the interruption: a run can be "
                "resumed if they depend on margins and labels only"
            )
        new = [Restart(tree, int(level), str(party)) for party, level in content.told]
        content.restarts += [[restart.tree, restart.level, restart.party] for restart in new]
        content.told = []
        self._save()
        return new

    @property
    def restarts(self) -> list[Restart]:
        """Restarts of the tree under way."""
        return [Restart(int(tree), int(level), str(party)) for tree, level, party in self.content.restarts]

    def check(self, party: str, level: int, digest: str) -> None:
        """Keep a digest of statistics; `ProtocolError` if the tree began with others."""
        with self._lock:
            known = self.content.digests.setdefault(party, [])
            if level < len(known) and known[level] != digest:
                raise ProtocolError("statistics differ from the first ones of the tree")
            if level == len(known):
                known.append(digest)
                self._is_kept = False

    def settle(self) -> None:
        """Put on disk what is not there yet: something that follows from the statistics is about to leave."""
        with self._lock:
            if not self._is_kept:
                self._save()

    def telling(self, party: str, level: int) -> None:
        """Keep, on disk, that a party is about to be told its splits of a level."""
        with self._lock:
            self.content.told.append([party, level])
            self._save()

    def answered(self, party: str, level: int) -> None:
        """Note that it answered."""
        with self._lock:
            self.content.told.remove([party, level])

    def _save(self) -> None:
        if self._keep is not None:
            self._keep(asdict(self.content))
        self._is_kept = True
