"""The coordinator's progress on disk: an interrupted training run resumes after the last finished round.

It holds what all parties have, the trees, and what the coordinator has seen, contributions to the hash seed;
nothing of any party's rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from gbdt_commons.store import Kind, Store, bytes_kind
from gbdt_parties import messages
from gbdt_parties.progress_folder import ProgressFolder
from gbdt_parties.traffic import Flow, Traffic
from xgb_fed.errors import CheckpointError
from xgb_fed.horizontal.common.messages import Trees


@dataclass
class SimFLProgress:
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
    counted : Traffic
        The part of it that callers have counted: that of calls before, which failed.
    """

    run: bytes = b""
    commitments: bytes = b""
    contributions: bytes = b""
    base_score: list[float] = field(default_factory=list)
    rounds: list[Trees] = field(default_factory=list)
    traffic: Traffic = field(default_factory=lambda: Traffic(encrypted=False))
    counted: Traffic = field(default_factory=lambda: Traffic(encrypted=False))


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
    """The progress of one training run in an open store.

    Parameters
    ----------
    folder : ProgressFolder
        The store's, which errors name.
    store : Store
    """

    def __init__(self, folder: ProgressFolder, store: Store) -> None:
        self._folder, self._store, self._is_loaded = folder, store, False

    def load(self, training: str) -> SimFLProgress | None:
        """Kept state of a training run, or None.

        Parameters
        ----------
        training : str
            Digest of the parameters, the parties and what they say of their rows.

        Raises
        ------
        CheckpointError
            If the directory belongs to another training run.
        """
        kept = self._store.get(TRAINING, "")
        if kept not in (None, training.encode()):
            raise self._folder.of_another_run()
        self._is_loaded = True
        progress = self._store.get(KNOWN, "")
        if progress is not None:
            progress.rounds.extend(self._store.entries(TREES, ""))
        return progress

    def save(self, training: str, progress: SimFLProgress) -> None:
        """Keep new rounds, and everything else, on the disk.

        Raises
        ------
        OSError
            If the disk is full; the last progress stays.
        """
        with self._store.transaction():
            self._store.put(TRAINING, "", training.encode())
            self._store.put(KNOWN, "", progress)
            for trees in progress.rounds[self._store.size(TREES, "") :]:
                self._store.append(TREES, "", trees)

    def save_traffic(self, progress: SimFLProgress) -> None:
        """Keep what left until the end of a call, and what callers have counted of it."""
        known = self._store.get(KNOWN, "") if self._is_loaded else None
        if known is not None:
            self._store.put(KNOWN, "", replace(known, traffic=progress.traffic, counted=progress.counted))


def _flows(traffic: Traffic) -> list[Any]:
    return [(key, astuple(flow)) for key, flow in traffic.flows.items()]


def _traffic(flows: list[Any]) -> Traffic:
    return Traffic(False, {tuple(key): Flow(*flow) for key, flow in flows})


def _known(progress: SimFLProgress) -> bytes:
    known = {
        "run": progress.run.hex(),
        "commitments": progress.commitments.hex(),
        "contributions": progress.contributions.hex(),
        "base_score": progress.base_score,
        "flows": _flows(progress.traffic),
        "counted": _flows(progress.counted),
    }
    return json.dumps(known).encode()


def _progress(content: bytes) -> SimFLProgress:
    known: dict[str, Any] = json.loads(content)
    return SimFLProgress(
        bytes.fromhex(known["run"]),
        bytes.fromhex(known["commitments"]),
        bytes.fromhex(known["contributions"]),
        known["base_score"],
        traffic=_traffic(known["flows"]),
        counted=_traffic(known["counted"]),
    )


def _trees(content: bytes) -> Trees:
    message = messages.read(content).message
    assert isinstance(message, Trees)
    return message


TRAINING, KNOWN = bytes_kind("training"), Kind("all but the rounds", _known, _progress)
TREES = Kind[Trees]("trees", lambda trees: messages.write(bytes(16), 0, trees), _trees)
