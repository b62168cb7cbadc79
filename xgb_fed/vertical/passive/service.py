"""A passive party behind a server: training runs and predictions on its table, within its limits.

Every active party has a part of the store of its own, with its splits of models and its journals, and a
folder for its aligned rows.  No active party can name another one's models, rows or sessions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_commons.store import Kind, Store
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.messages import Message
from gbdt_parties.quota import CallerLimits
from gbdt_parties.run.log import RunLog
from gbdt_parties.run.replay import Replay, chosen
from gbdt_parties.transport.service import CALLER, STORE_FILE, Caller, RowService, part_of
from xgb_fed.boosting.features import Columns
from xgb_fed.vertical.passive.auditing import SESSIONS, KeptSeeds, PassiveAudit, compared
from xgb_fed.vertical.passive.disclosed_statistics import MAX_STATISTICS, DisclosedStatistics
from xgb_fed.vertical.passive.explanations import NONE, check_level
from xgb_fed.vertical.passive.held_rows import HeldRows, held
from xgb_fed.vertical.passive.journal import Journals
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.passive.told_thresholds import MAX_THRESHOLDS, ToldThresholds
from xgb_fed.vertical.protocol import messages as wire
from xgb_fed.vertical.protocol.splits import Splits

logger = logging.getLogger(__name__)
ROLE = "a passive party of vertical training"


@dataclass(frozen=True)
class Limits(CallerLimits):
    """Limits of a served passive party on each active party.

    Attributes
    ----------
    min_rows, max_rows : int
        Rows of a training run, and of the sample of a tree: statistics of few rows say much about each.  An
        alignment is of `max_rows` ids at most.
    allow_export : bool
        Whether it gives its splits to `export_booster`.
    allow_plain, allow_weak_key : bool
        Whether it trains without encryption, or under a key below 2048 bits.
    min_node_rows : int
        Sampled rows of a node whose statistics it gives; smaller nodes are not split in its columns.
    max_bin, max_depth : int
        Bins of a column, and levels of a tree, of a training run.
    max_statistics : float
        Statistics per row that one active party gets in all its training runs (`DisclosedStatistics`): about
        one per row tells it the bins of most values, and far fewer do if it encrypts other numbers than
        gradients.  The default leaves room for four runs of 100 trees of depth 5 on 150,000 rows; runs on a
        few hundred rows need more.
    max_thresholds : float
        Thresholds of a column, or sets of its categories, at which one active party learns the sides of rows
        in all training runs and predictions (`ToldThresholds`).
    allow_explanations : {"none", "per-party", "per-feature"}
        Whether it tells every row's side at its splits, for explanations and predictions that hide paths, and
        which of these splits share a column.  Each such question counts as a prediction.
    """

    min_rows: int = 100
    max_rows: int = 50_000_000
    allow_export: bool = False
    allow_plain: bool = False
    allow_weak_key: bool = False
    min_node_rows: int = 10
    max_bin: int = 256
    max_depth: int = 10
    max_statistics: float = MAX_STATISTICS
    max_thresholds: float = MAX_THRESHOLDS
    allow_explanations: str = NONE

    def __post_init__(self) -> None:
        """Raise `InvalidArgumentError` for a consent that there is not."""
        check_level(self.allow_explanations)


class NamedRows(Protocol):
    """A party's table as its service needs it."""

    @property
    def columns(self) -> Columns | HeldRows:
        """All rows."""

    @property
    def ids(self) -> Sequence[str]:
        """A name for each row, all different."""

    @property
    def has_ids(self) -> bool:
        """Whether the names are the data's own: rows are then known to others only once aligned."""


def _written(kept: tuple[Splits, float]) -> bytes:
    return json.dumps([kept[0].to_dict(), kept[1]]).encode()


def _read(content: bytes) -> tuple[Splits, float]:
    splits, since = json.loads(content)
    return Splits.from_dict(splits), float(since)


SPLITS = Kind("splits of a model", _written, _read)
"""Records by a model's id in hexadecimal digits: its splits, and when they were kept (seconds since 1970)."""


class KeptSplits(MutableMapping[bytes, Splits]):
    """A party's splits of models by model id, of `max_models` at most."""

    def __init__(self, store: Store, max_models: int = sys.maxsize) -> None:
        self._store, self._max_models = store, max_models

    def check_room(self) -> None:
        """Raise `ProtocolError` if there is no room for a further model."""
        if len(self) >= self._max_models:
            raise ProtocolError(
                f"this party keeps its splits of at most {self._max_models} models of one active party; "
                "its operator can remove some (veilboost models)"
            )

    def __getitem__(self, model: bytes) -> Splits:
        return self._kept(model)[0]

    def _kept(self, model: bytes) -> tuple[Splits, float]:
        kept = self._store.get(SPLITS, model.hex())
        if kept is None:
            raise KeyError(model)
        return kept

    def __setitem__(self, model: bytes, splits: Splits) -> None:
        if model not in self:
            self.check_room()
        self._store.put(SPLITS, model.hex(), (splits, time.time()))

    def __contains__(self, model: object) -> bool:
        return isinstance(model, bytes) and self._store.size(SPLITS, model.hex()) > 0

    def __delitem__(self, model: bytes) -> None:
        """Forget a model, and the journal of its training run."""
        if model not in self:
            raise KeyError(model)
        with self._store.transaction():
            self._store.delete(SPLITS, model.hex())
            RunLog(self._store, model).end()

    def __iter__(self) -> Iterator[bytes]:
        return map(bytes.fromhex, sorted(self._store.keys(SPLITS)))

    def __len__(self) -> int:
        return len(self._store.keys(SPLITS))

    def since(self, model: bytes) -> float:
        """When the splits of a model were kept, in seconds since 1970."""
        return self._kept(model)[1]


class PassiveService(RowService[Limits]):
    """A passive party's answers, whose directory keeps aligned rows, the store and the record.

    The record has the party's name.  If `auditable`, the messages of training runs are kept for an auditor
    (`replay`), with a seed of each session, which takes the randomness off its answers: as secret as the
    rows.
    """

    role = ROLE
    opening = (wire.OpenTraining, wire.OpenModel)
    requests = PassiveParty.requests
    questions = (wire.OpenModel, wire.ResumeTraining, wire.ContinueTraining)

    def __init__(
        self, table: NamedRows, directory: str | Path, name: str, limits: Limits, auditable: bool = False
    ) -> None:
        self._auditable = auditable
        super().__init__(table.ids, table.has_ids, directory, name, limits, limits.max_rows)
        self._table = table
        self._kept: dict[Path, tuple[Journals, DisclosedStatistics, ToldThresholds]] = {}

    def admit(self, caller: str, message: Message) -> None:
        """Refuse training runs on too few or too many rows, or whose splits there is no room for."""
        limits = self.limits
        if isinstance(message, wire.OpenTraining):
            if not limits.min_rows <= message.n_rows <= limits.max_rows:
                raise ProtocolError(
                    f"this party trains on {limits.min_rows} to {limits.max_rows} rows, not {message.n_rows}"
                )
            KeptSplits(self.store_of(caller), limits.max_models).check_room()

    def served(self, caller: str, message: Message) -> None:
        """Log what a training run has come to."""
        super().served(caller, message)
        if isinstance(message, wire.StartTree):
            logger.info("%s: tree %d", caller, message.tree + 1)
        if isinstance(message, wire.OpenTraining):
            logger.info("%s starts a training run on %d rows", caller, message.n_rows)

    def kept_for(self, caller: Caller) -> tuple[Journals, DisclosedStatistics, ToldThresholds]:
        """One set for a caller's handlers: one run at a time, and disclosures add up over sessions."""
        if caller.directory not in self._kept:
            self._kept[caller.directory] = (
                Journals(caller.store, self._auditable),
                DisclosedStatistics(self.limits.max_statistics, caller.store),
                ToldThresholds(self.limits.max_thresholds, caller.store),
            )
        return self._kept[caller.directory]

    @property
    def row_bytes(self) -> int:
        """Bytes of a copy of one row."""
        return 4 * self._table.columns.n_features

    def new_handler(self, caller: Caller, positions: list[NDArray[np.int64]]) -> PassiveParty:
        """Make the passive party of some rows, and of evaluation sets."""
        table = held(self._table.columns)
        columns = [table.take(rows) for rows in positions] if positions else [table]
        names = [_rows_digest(self._table, rows) for rows in positions] or [""]
        journals, given, thresholds = self.kept_for(caller)
        return PassiveParty(
            columns[0],
            columns[1:],
            KeptSplits(caller.store, self.limits.max_models),
            allow_export=self.limits.allow_export,
            allow_plain=self.limits.allow_plain,
            allow_weak_key=self.limits.allow_weak_key,
            journals=journals,
            min_rows=max(self.limits.min_rows, wire.MIN_ROWS),
            min_node_rows=self.limits.min_node_rows,
            max_bin=self.limits.max_bin,
            max_depth=self.limits.max_depth,
            used=caller.used,
            memory=caller.memory,
            given=given,
            thresholds=thresholds,
            rows_digest=names[0],
            eval_digest=digest_of(*names[1:]),
            allow_explanations=self.limits.allow_explanations,
            audit=PassiveAudit(caller.store, names) if self._auditable else None,
        )


def _rows_digest(table: NamedRows, rows: NDArray[np.int64]) -> str:
    """Which rows these are: by their names, since positions change with the table."""
    digest = hashlib.sha256()
    for position in rows.tolist():
        name = table.ids[position].encode()
        digest.update(len(name).to_bytes(8, "little") + name)
    return digest.hexdigest()


def replay(directory: str | Path, table: NamedRows, *, min_node_rows: int, run: str | None = None) -> Replay:
    """Repeat a served party's side of a training run from its directory and table, and compare every answer.

    The directory, which is only read, is that of a party that was served with ``auditable=True`` and this
    `min_node_rows` of its `Limits`.  The run is the model's id in hexadecimal digits; by default the only
    one.

    Raises `PartyArgumentError`, `InvalidDataError` or `StoreError` if the directory has no such run, the
    table lacks its rows, or a file is in use or damaged.
    """
    with closing(StoreFile(Path(directory) / STORE_FILE, ROLE, read_only=True)) as store:
        log = chosen([part_of(store, caller) for caller in store.keys(CALLER)], run)
        rows, whole = {"": np.arange(len(table.ids))}, held(table.columns)
        for path in Path(directory).glob("for-*/rows/*.ids"):
            with suppress(InvalidDataError):
                positions = Alignment.load(path).positions(table.ids)
                rows[_rows_digest(table, positions)] = positions
        sessions = log.store.keys(SESSIONS)
        _, names = (sessions and log.store.get(SESSIONS, sessions[-1])) or ("", [""])
        if not set(names) <= set(rows):
            raise InvalidDataError("the table has not all rows of the run")
        sets, kept = [whole.take(rows[name]) for name in names], KeptSplits(log.runs)
        party = PassiveParty(
            sets[0],
            sets[1:],
            {model: kept[model] for model in kept if model != log.run},
            allow_export=True,
            min_node_rows=min_node_rows,
            allow_explanations="per-feature",
            audit=KeptSeeds(log),
        )
        return compared(log, party)
