"""A passive party's splits of training runs, kept as they are found so that a run can be resumed.

A journal is a record of the terms of the training run, and one of the splits of each request, on the disk
before the request is answered.  Journals hold this party's own splits and digests, and nothing of other
parties.  They are kept after the run: its active party may not have heard that it ended, and is still bound
by the terms.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore, Store, json_kind
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.log import ENTRIES, RUNS, RunLog
from xgb_fed.boosting.categories import from_json, to_json
from xgb_fed.vertical.protocol.splits import Splits, check_split

FOUND = json_kind(ENTRIES.name)
"""Records of a run: the splits that each of its requests has found."""

MAX_JOURNALS = 32
"""Training runs, ended or not, whose splits are kept for one active party; the oldest is removed first."""


@dataclass(frozen=True)
class ResumptionTerms:
    """Terms that must be the same when a training run is resumed; only the key may be longer.

    `rows` is the digest of the names, or positions, of the rows trained on and of every evaluation set's,
    `data` that of the values of these rows.
    """

    scheme: str
    key_bits: int
    max_bin: int
    rows: str
    data: str

    def check(self, now: ResumptionTerms) -> None:
        """Raise `ProtocolError` if a run with these terms cannot be resumed under the present ones.

        The active party chooses the rows.  Values are compared of rows with the same names only, so that the
        answer tells that this party's data has changed, and never whether two rows are equal.
        """
        if now.rows != self.rows or now.max_bin != self.max_bin:
            raise ProtocolError("the rows, or max_bin, have changed since the training run began")
        if now.data != self.data:
            raise ProtocolError("this party's data has changed since the training run began")
        if now.scheme != self.scheme or now.key_bits < self.key_bits:
            raise ProtocolError("a training run is not resumed with another scheme or a shorter key")


class SplitsJournal:
    """A run's splits so far, in the log of its model, with its messages if `auditable`."""

    def __init__(self, log: RunLog, terms: ResumptionTerms, splits: Splits, auditable: bool = False) -> None:
        self.terms, self.splits, self.is_current = terms, splits, True
        self._log, self._n_written = log, len(splits)
        about = {
            "names": splits.names,
            "terms": asdict(terms),
            "categories": to_json(splits.categories),
            "auditable": auditable,
        }
        with log.store.transaction():
            log.begin(about, MAX_JOURNALS)
            log.store.put(FOUND, "", splits.entries(0))

    def check_current(self) -> None:
        """Raise `ProtocolError` if another session has taken up the training run since."""
        if not self.is_current:
            raise ProtocolError("another session has taken up this training run")

    def keep(self) -> None:
        """Put the splits that are new on the disk."""
        self.check_current()
        new = self.splits.entries(self._n_written)
        if new:
            self._log.keep(FOUND, new)
            self._n_written = len(self.splits)


class Journals:
    """The journals of a party.

    They are in memory by default: a training run then survives a lost connection, but not this process.  If
    `auditable`, the messages of runs are kept with them.
    """

    def __init__(self, store: Store | None = None, auditable: bool = False) -> None:
        self.store, self.auditable = MemoryStore() if store is None else store, auditable
        self._current: WeakValueDictionary[bytes, SplitsJournal] = WeakValueDictionary()
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock and what sessions of this process hold."""
        return {"store": self.store, "auditable": self.auditable}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, with a new lock."""
        self.__dict__.update(state, _current=WeakValueDictionary(), _lock=RLock())

    def start(self, model: bytes, terms: ResumptionTerms, splits: Splits) -> SplitsJournal:
        """Open a journal of a training run that starts, or is resumed, with these splits.

        Any earlier journal of the run can write no more: a run is one session's at a time.  Raises
        `ProtocolError` if the run was begun on other terms, or with other splits.
        """
        with self._lock:
            kept = self.find(model)
            if kept is not None:
                kept[0].check(terms)
                if len(splits) > len(kept[1]) or kept[1].first(len(splits)) != splits:
                    raise ProtocolError("this party has not kept all splits of the training run")
            before = self._current.get(model)
            if before is not None:
                before.is_current = False
            log = RunLog(self.store, model)
            journal = self._current[model] = SplitsJournal(log, terms, splits, self.auditable)
        return journal

    def find(self, model: bytes) -> tuple[ResumptionTerms, Splits] | None:
        """Terms and splits of a training run, None without a journal; `StoreError` if it is damaged."""
        about, found_in = self.store.get(RUNS, model.hex()), RunLog(self.store, model).store
        if about is None:
            return None
        try:
            names, terms = about["names"], ResumptionTerms(**about["terms"])
            splits = Splits(names, categories=from_json(about["categories"], len(names)))
            for found in found_in.entries(FOUND, ""):
                for split in found:
                    splits.add(*check_split(split, splits))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError("this party's journal of the training run is damaged") from None
        return terms, splits
