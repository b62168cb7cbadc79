"""A horizontal party's part in training runs, kept so that a run that was interrupted goes on with it.

A journal is a sequence of entries: the start of the run, this party's matrix of similar rows among it, then
the trees of each round, which are kept before the round is answered.  An answer that was given once is given
again unchanged: a round that is in the journal is never grown on, or continued by, other trees.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.store import Store, bytes_kind
from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from xgb_fed.horizontal.common.messages import OpenHorizontal, Trees
from xgb_fed.horizontal.common.row_groups import arrays_of

ENTRIES = bytes_kind("entries")
"""Records of a run by its number: its start, then its rounds."""

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
    """One training run.

    Attributes
    ----------
    run : bytes
        Number of the session in which boosting started.
    start : RunStart
    store : Store
    rounds : list of (Trees, bool)
        Each round's trees, and whether they were grown here.
    """

    run: bytes
    start: RunStart
    store: Store
    rounds: list[tuple[Trees, bool]] = field(default_factory=list)

    def add(self, trees: Trees, is_own: bool) -> None:
        """Keep the trees of the next round.

        A run whose journal was removed for later ones goes on, and cannot be taken up.
        """
        with self.store.transaction():
            if self.store.size(ENTRIES, self.run.hex()):
                self.store.append(ENTRIES, self.run.hex(), messages.write(bytes(16), int(is_own), trees))
        self.rounds.append((trees, is_own))

    def check(self, number: int, trees: Trees) -> None:
        """Refuse other trees than those that the journal has for a round, if it has any."""
        if number < len(self.rounds):
            known, _ = self.rounds[number]
            same = np.array_equal(known.lengths, trees.lengths) and known.models == trees.models
            if not same:
                raise ProtocolError(f"round {number} had other trees before the training run was interrupted")


class RunJournals:
    """The journals of a party for one coordinator."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def begin(self, run: bytes, start: RunStart) -> RunJournal:
        """Open the journal of a training run that begins.

        Raises
        ------
        ProtocolError
            If there is one of this number: it would be lost, and with it what its rounds were bound to.
        """
        if self.store.size(ENTRIES, run.hex()):
            raise ProtocolError("the number of this session is that of another training run")
        with self.store.transaction():
            self.store.append(ENTRIES, run.hex(), _written(start))
            for oldest in self.store.keys(ENTRIES)[:-MAX_RUNS]:
                self.store.delete(ENTRIES, oldest)
        return RunJournal(run, start, self.store)

    def size(self, run: bytes) -> int:
        """Size in bytes of a journal; 0 if there is none."""
        return sum(map(len, self.store.entries(ENTRIES, run.hex())))

    def take_up(self, run: bytes) -> RunJournal:
        """The journal of a training run that goes on.

        Raises
        ------
        ProtocolError
            If there is none.
        StoreError
            If it is damaged.
        """
        entries = self.store.entries(ENTRIES, run.hex())
        start = next(entries, None)
        if start is None:
            raise ProtocolError("no such training run")
        journal = RunJournal(run, _read(start), self.store)
        for content in entries:
            envelope = messages.read(content)
            assert isinstance(envelope.message, Trees)
            journal.rounds.append((envelope.message, bool(envelope.sequence)))
        return journal


def _written(start: RunStart) -> bytes:
    scalars = {name: value for name, value in start.__dict__.items() if name != "similar"}
    about = np.frombuffer(json.dumps(scalars).encode(), dtype=np.uint8)
    arrays: dict[str, Any] = {f"similar_{place}": rows for place, rows in start.similar.items()}
    file = io.BytesIO()
    np.savez(file, about=about, **arrays)
    return file.getvalue()


def _read(content: bytes) -> RunStart:
    found = arrays_of(content)
    about = json.loads(bytes(found.pop("about")))
    similar = {int(name.partition("_")[2]): rows for name, rows in found.items()}
    return RunStart(**about, similar=similar)
