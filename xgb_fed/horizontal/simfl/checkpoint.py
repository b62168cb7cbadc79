"""The coordinator's progress on disk: an interrupted training run resumes after the last finished round.

It holds what all parties have, the trees, and what the coordinator has seen, contributions to the hash seed;
nothing of any party's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from gbdt_commons.store import Store
from gbdt_parties import messages
from gbdt_parties.progress_folder import ProgressFolder
from gbdt_parties.run.log import ENTRIES, RunLog
from gbdt_parties.run.progress import log_of
from gbdt_parties.traffic import Flow, Traffic
from xgb_fed.errors import CheckpointError
from xgb_fed.horizontal.common.messages import Trees


@dataclass
class SimFLProgress:
    """How far a training run has come.

    `run` is the session in which boosting started, and empty before, as are all parties' commitments and
    contributions to the hash seed until they are there.  `counted` is the part of the traffic that callers
    have counted: that of calls before, which failed.
    """

    run: bytes = b""
    commitments: bytes = b""
    contributions: bytes = b""
    base_score: list[float] = field(default_factory=list)
    rounds: list[Trees] = field(default_factory=list)
    traffic: Traffic = field(default_factory=lambda: Traffic(encrypted=False))
    counted: Traffic = field(default_factory=lambda: Traffic(encrypted=False))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rounds, in JSON's types."""
        return {
            "run": self.run.hex(),
            "commitments": self.commitments.hex(),
            "contributions": self.contributions.hex(),
            "base_score": self.base_score,
            **self.flows(),
        }

    def flows(self) -> dict[str, Any]:
        """The traffic, in JSON's types."""
        return {"traffic": _flows(self.traffic), "counted": _flows(self.counted)}

    @classmethod
    def from_dict(cls, known: dict[str, Any]) -> SimFLProgress:
        """Read what `to_dict` gave."""
        names = "run", "commitments", "contributions"
        run, commitments, contributions = (bytes.fromhex(known[name]) for name in names)
        traffic, counted = (Traffic(False, dict(map(_flow, known[name]))) for name in ("traffic", "counted"))
        return cls(run, commitments, contributions, known["base_score"], [], traffic, counted)


def _flows(traffic: Traffic) -> list[Any]:
    return [(key, astuple(flow)) for key, flow in traffic.flows.items()]


def _flow(kept: tuple[Any, Any]) -> tuple[Any, Flow]:
    key, flow = kept
    return tuple(key), Flow(*flow)


class SimFLCheckpoint(ProgressFolder):
    """A directory with the progress of one training run."""

    # A party has a store of the same name in its directory, which then cannot be a coordinator's, too.
    store_file, role = "horizontal.store", "a coordinator of SimFL"

    def __init__(self, directory: str | Path) -> None:
        super().__init__(directory, CheckpointError)

    @contextmanager
    def taken_up(self) -> Iterator[KeptProgress]:
        """The kept progress; the directory is no other run's meanwhile."""
        with self.opened() as store:
            yield KeptProgress(self, store)


class KeptProgress:
    """The progress of one training run in the open store of a folder, which errors name."""

    def __init__(self, folder: ProgressFolder, store: Store) -> None:
        self._folder, self._store, self._log = folder, store, RunLog(store, b"")

    def load(self, training: str) -> SimFLProgress | None:
        """Kept state of a training run, or None.

        The run is named by a digest of the parameters, the parties and what they say of their rows; a
        CheckpointError says that the directory belongs to another one.
        """
        self._log = log_of(self._folder, self._store, bytes.fromhex(training))
        if not self._log.has_begun:
            return None
        progress = SimFLProgress.from_dict(self._log.past())
        for content in self._log.store.entries(ENTRIES, ""):
            trees = messages.read(content).message
            assert isinstance(trees, Trees)
            progress.rounds.append(trees)
        return progress

    def save(self, progress: SimFLProgress) -> None:
        """Keep new rounds, and everything else, on the disk; if that is full, the last progress stays."""
        with self._store.transaction():
            self._log.begin(progress.to_dict())
            for trees in progress.rounds[self._log.store.size(ENTRIES, "") :]:
                self._log.keep(ENTRIES, messages.write(bytes(16), 0, trees))

    def save_traffic(self, progress: SimFLProgress) -> None:
        """Keep what left until the end of a call, and what callers have counted of it."""
        if self._log.has_begun:
            self._log.begin({**self._log.past(), **progress.flows()})
