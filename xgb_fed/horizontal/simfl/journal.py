"""A horizontal party's part in training runs, kept so that a run that was interrupted goes on with it.

A journal is a sequence of entries: the start of the run, this party's matrix of similar rows among it, then
the trees of each round, which are kept before the round is answered.  An answer that was given once is given
again unchanged: a round that is in the journal is never grown on, or continued by, other trees.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.log import ENTRIES, MAX_RUNS, RunLog
from xgb_fed.horizontal.common.messages import OpenHorizontal, Trees
from xgb_fed.horizontal.common.row_groups import arrays_of, bytes_of


@dataclass(frozen=True)
class RunStart:
    """Start of a training run at one party.

    `params` and `classes` are those of `OpenHorizontal`, `similar` that of `BoostingState`. `tree_seed`
    serves the draws of rows and columns of the trees that are grown here.
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
    """One run's trees by round, own or others', in the log of the session in which boosting started."""

    log: RunLog
    start: RunStart
    rounds: list[tuple[Trees, bool]] = field(default_factory=list)

    @classmethod
    def begin(cls, log: RunLog, start: RunStart, rows: str) -> RunJournal:
        """Open the journal of a training run that begins on rows of this digest.

        Raises ProtocolError if there is one of this number: it would be lost, and with it what its rounds
        were bound to.
        """
        if log.has_begun:
            raise ProtocolError("the number of this session is that of another training run")
        with log.store.transaction():
            log.begin({"method": "simfl", "rows": rows}, MAX_RUNS)
            log.keep(ENTRIES, _written(start))
        return cls(log, start)

    @classmethod
    def take_up(cls, log: RunLog, rows: str) -> RunJournal:
        """The journal of a training run that goes on, on the rows that it began with.

        Raises RunLostError if none exists, ProtocolError if it is of other rows, StoreError if it is damaged.
        """
        if log.begun()["rows"] != rows:
            raise ProtocolError("this party has other rows than when the run began")
        log.take_up()
        start, *rounds = log.store.entries(ENTRIES, "")
        journal = cls(log, _read(start))
        for content in rounds:
            envelope = messages.read(content)
            assert isinstance(envelope.message, Trees)
            journal.rounds.append((envelope.message, bool(envelope.sequence)))
        return journal

    def add(self, trees: Trees, is_own: bool) -> None:
        """Keep the trees of the next round."""
        self.log.keep(ENTRIES, messages.write(bytes(16), int(is_own), trees))
        self.rounds.append((trees, is_own))

    def check(self, number: int, trees: Trees) -> None:
        """Refuse other trees than those that the journal has for a round, if it has any."""
        if number < len(self.rounds):
            known, _ = self.rounds[number]
            same = np.array_equal(known.lengths, trees.lengths) and known.models == trees.models
            if not same:
                raise ProtocolError(f"round {number} had other trees before the training run was interrupted")


def size_of(log: RunLog) -> int:
    """Size in bytes of a journal; 0 without one."""
    return sum(map(len, log.store.entries(ENTRIES, "")))


def _written(start: RunStart) -> bytes:
    scalars = {name: value for name, value in start.__dict__.items() if name != "similar"}
    about = np.frombuffer(json.dumps(scalars).encode(), dtype=np.uint8)
    return bytes_of(about=about, **{f"similar_{place}": rows for place, rows in start.similar.items()})


def _read(content: bytes) -> RunStart:
    found = arrays_of(content)
    about = json.loads(bytes(found.pop("about")))
    similar = {int(name.partition("_")[2]): rows for name, rows in found.items()}
    return RunStart(**about, similar=similar)
