"""The log of a run at one party: what was agreed, answered and signed, each kept before it leaves.

One transaction keeps an answer and the charge for it, so that costs and answers cannot differ; an answer that
was lost on the way is sent again as it was, also after a restart.  A run that has ended leaves nothing here.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gbdt_commons.key_stream import this_process
from gbdt_commons.store import Kind, Store, bytes_kind, json_kind
from gbdt_parties.errors import ProtocolError, RunLostError
from gbdt_parties.run.record import MessageRecord

T = TypeVar("T")

MAX_RUNS = 4
"""Open runs of one coordinator that are kept, and ended ones of those that are auditable; the ones that were
used longest ago are removed first."""

THIS_PROCESS = "this process"
"""Name of the caller that is in the party's own process; callers of a service have folders' names."""

_HEAD = struct.Struct("<Q32s")


@dataclass(frozen=True)
class GivenAnswer:
    """An attempt that was answered; numbers of a run ascend.

    `asked` is a digest of the roster and the attempt, and `content` the answer, or what stands for it.  A
    coordinator has its attempts so: the number of the sum that was asked for, and the members.
    """

    number: int
    asked: bytes
    content: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> GivenAnswer:
        """Read what `to_bytes` wrote."""
        number, asked = _HEAD.unpack_from(data)
        return cls(number, asked, data[_HEAD.size :])

    def to_bytes(self) -> bytes:
        """All of it."""
        return _HEAD.pack(self.number, self.asked) + self.content


RUNS = json_kind("runs")
"""Records of a caller's runs by their numbers, in hexadecimal digits; secret, for the keys in them.  An empty
one says whose the model of a run is that has ended."""

ANSWERS, END = Kind("answers", GivenAnswer.to_bytes, GivenAnswer.from_bytes), bytes_kind("signed end")
ENTRIES = bytes_kind("entries")
"""In a run's own part of the store: its answers, what was signed as its end, and what it has come to, in
order: sums that a coordinator has, trees, or splits."""


def runs_of(store: Store, caller: str) -> Store:
    """The part of a party's store with the runs of one caller."""
    return store.part(f"of {caller}")


class RunLog:
    """The records of one run.

    They are in the store of one caller's runs at a party: what charges for answers writes to the same file.
    The run's own part of it, `store`, is removed with the run; `record` has the messages of an auditable one.
    """

    def __init__(self, runs: Store, run: bytes) -> None:
        self.runs, self.run = runs, run
        self._key, self.store = run.hex(), runs.part(f"run {run.hex()}")
        self._process = this_process()
        self.record = MessageRecord(self.store)

    @property
    def has_begun(self) -> bool:
        """Whether the run is known, also one that has ended."""
        return self.runs.size(RUNS, self._key) > 0

    def begun(self) -> dict[str, Any]:
        """The record of a run that has begun; a RunLostError if it is not kept."""
        kept = self.past()
        if not kept or kept.get("has_ended"):
            raise RunLostError("this party does not know the run: it has ended, or its state was removed")
        return kept

    def past(self) -> dict[str, Any]:
        """The record of a run, also of an auditable one that has ended; empty if it is not kept."""
        return self.runs.get(RUNS, self._key) or {}

    @property
    def has_ended(self) -> bool:
        """Whether an auditable run has ended."""
        return bool(self.past().get("has_ended"))

    @property
    def is_auditable(self) -> bool:
        """Whether the run's keys and messages are kept when it has ended (`gbdt_parties.run.replay`)."""
        return bool(self.past().get("auditable"))

    def begin(self, record: dict[str, Any], most: int = sys.maxsize) -> None:
        """Keep that a run has begun; of more than `most` open ones, those used longest ago are removed."""
        with self.runs.transaction():
            self.runs.put(RUNS, self._key, record)
            self._forget_oldest(most, has_ended=False)

    def take_up(self) -> dict[str, Any]:
        """The record of a run that goes on, which counts as used now; errors as of `begun`."""
        with self.runs.transaction():
            self.runs.put(RUNS, self._key, kept := self.begun())
        return kept

    def _forget_oldest(self, most: int, *, has_ended: bool) -> None:
        keys = self.runs.keys(RUNS)
        if len(keys) > most:
            logs = [RunLog(self.runs, bytes.fromhex(key)) for key in keys]
            for oldest in [log for log in logs if log.has_ended == has_ended][:-most]:
                oldest.end()

    def keep(self, kind: Kind[T], entry: T) -> None:
        """Keep one more entry of the run, which counts as used now, even if it was removed meanwhile."""
        with self.runs.transaction():
            if self.has_begun:
                if self.runs.keys(RUNS)[-1] != self._key:
                    self.take_up()
                self.store.append(kind, "", entry)

    def knows(self, number: int) -> bool:
        """Whether an attempt was answered here."""
        return self._found(number) is not None

    def answer(
        self,
        number: int,
        asked: bytes,
        make: Callable[[], bytes],
        pay: Callable[[], object],
        *,
        sync: bool = True,
    ) -> bytes:
        """The answer to an attempt: the one that was given before, or a new one.

        `asked` is the whole question, the roster included. `make` makes the answer, or what stands for it;
        `pay` decides whether to answer, and charges for it; an error of either leaves nothing behind. With
        `sync`, charge and answer are on the disk first (`Store.transaction`). Raises `ProtocolError` if the
        attempt was answered before to another question, a later one was answered, or in a forked process.
        """
        if self._process != this_process():
            raise ProtocolError("a party cannot answer in a forked process: its parent answers, too")
        digest, found = hashlib.sha256(asked).digest(), self._found(number)
        if found is None:
            with self.store.transaction(sync=sync):
                self._check_next(number)
                pay()
                found = GivenAnswer(number, digest, make())
                self.store.append(ANSWERS, "", found)
        elif found.asked != digest:
            raise ProtocolError(
                f"attempt {number} was answered before, and asked something else; an attempt is answered once"
            )
        return found.content

    def _check_next(self, number: int) -> None:
        last = self._at(self.store.size(ANSWERS, "") - 1)
        if last is not None and number <= last.number:
            raise ProtocolError(f"attempt {number} is asked for; attempt {last.number} was answered before")

    def _found(self, number: int) -> GivenAnswer | None:
        """An answer by its number; numbers ascend."""
        places = range(self.store.size(ANSWERS, ""))
        found = self._at(len(places) - 1)
        if found is not None and found.number > number:
            found = self._at(bisect_left(places, number, key=lambda place: self._at(place).number))  # type: ignore[union-attr]
        return found if found is not None and found.number == number else None

    def _at(self, place: int) -> GivenAnswer | None:
        return self.store.get(ANSWERS, "", place) if place >= 0 else None

    def sign_end(self, message: bytes) -> None:
        """Keep an end of the run before its signature leaves; a ProtocolError if another one was signed."""
        kept = self.store.get(END, "")
        if kept is None:
            self.store.put(END, "", message)
        elif kept != message:
            raise ProtocolError(
                "this party has signed another end of this run, with other sums or another model: the "
                "coordinator has opened others, or the data, CPU or library versions have changed"
            )

    def end(self, *, stays_known: bool = False) -> None:
        """Remove the keys of the run, and all that was kept of it: no answer can be given any more."""
        with self.runs.transaction():
            self.runs.delete(RUNS, self._key)
            self.store.clear()
            if stays_known:
                self.runs.put(RUNS, self._key, {})

    def end_for_audit(self) -> None:
        """End a run that gives no answer any more, but keeps all for an auditor, as the last `MAX_RUNS`."""
        with self.runs.transaction():
            self.runs.put(RUNS, self._key, {**self.begun(), "has_ended": True})
            self._forget_oldest(MAX_RUNS, has_ended=True)
