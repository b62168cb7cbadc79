"""State of a passive party while a session is open."""

from __future__ import annotations

import hmac
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.memory import MemoryAllowance, Room
from xgb_fed.ciphers.base import PublicKey
from xgb_fed.ciphers.residue_key import ResidueKey
from xgb_fed.vertical.passive.disclosed_statistics import n_classes_of
from xgb_fed.vertical.passive.growing_tree import GrowingTree
from xgb_fed.vertical.passive.held_rows import HeldBins, HeldRows
from xgb_fed.vertical.passive.journal import ResumptionTerms, SplitsJournal
from xgb_fed.vertical.protocol.messages import Gradients, SplitStatistics
from xgb_fed.vertical.protocol.splits import Splits


class BackgroundWork:
    """Does what it is given, in order, and prepares a key's randomness in the time that is left."""

    def __init__(self, key: PublicKey) -> None:
        self._key = key
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="xgb_fed_meanwhile")
        self.given: list[Future[None]] = []
        self._wanted = 0

    def give(self, work: Callable[[], None]) -> None:
        """Have something done whose end `finish` waits for."""
        self.given.append(self._worker.submit(work))

    def finish(self) -> None:
        """Wait until all given work is done, or raise its exception, and stop preparing."""
        self.rest()
        given, self.given = self.given, []
        for one in given:
            one.result()

    def drop(self) -> None:
        """Give up what was given and has not begun, wait for what has, and stop preparing."""
        for one in self.given:
            one.cancel()
        self.given = []
        self.rest()

    def prepare(self, wanted: int) -> None:
        """Prepare a key's randomness for so many rows from now on, up to the next `finish` or `drop`."""
        self.rest()
        self._wanted = wanted
        if wanted:
            self._worker.submit(self._prepare_some)

    def _prepare_some(self) -> None:
        """Prepare a little and queue up again, behind what was given in between."""
        if self._wanted and self._key.prepare(self._wanted):
            self._worker.submit(self._prepare_some)

    def rest(self) -> None:
        """Prepare nothing any more; what is under way ends first."""
        self._wanted = 0
        self._worker.submit(lambda: None).result()

    def close(self) -> None:
        """End, after what is under way."""
        self._wanted = 0
        self._worker.shutdown(cancel_futures=True)


ROOT, RANDOMNESS, TABLE = (
    "statistics of the root",
    "randomness of the next statistics",
    "a table for randomness",
)
"""Work that is done ahead, in memory of its own."""

BYTES_PER_CATEGORY = 40
"""Bytes of a Python integer in a tuple; on the disk it is 7."""


@dataclass
class PredictionSession:
    """A session that only sends rows through splits, with the columns of the rows that it is about.

    `rooms` is memory reserved for this session, by what it is for, `category_rooms` that for the categories
    that splits send right.  `told` are splits at which the active party knows every row's side.
    """

    columns: HeldRows
    splits: Splits
    rooms: dict[str, Room] = field(default_factory=dict, kw_only=True)
    told: set[int] = field(default_factory=set, kw_only=True)
    memory: MemoryAllowance = field(default_factory=lambda: MemoryAllowance(sys.maxsize), kw_only=True)
    category_rooms: list[Room] = field(default_factory=list, kw_only=True)

    def keep_categories(self, n_categories: int) -> None:
        """Reserve memory for categories that splits of this session send right, besides those so far."""
        if n_categories:
            room = self.memory.reserve(BYTES_PER_CATEGORY * n_categories, "the categories of splits")
            self.category_rooms.append(room)


@dataclass
class TrainingSession(PredictionSession):
    """State of a passive party from the start of a training run to its end."""

    key: PublicKey
    bins: HeldBins
    field_bits: int
    per_ciphertext: int
    n_groups: int
    max_depth: int
    model_id: bytes
    terms: ResumptionTerms
    journal: SplitsJournal | None = None
    last_tree: int = -1
    tree: GrowingTree | None = None
    background: BackgroundWork = field(init=False)
    n_sent: int = 0
    """Ciphertexts sent for the present tree."""
    n_prepared: int = 0
    """Those sent for the last one: as much randomness is made ahead."""
    seed: bytes | None = None
    """Of the randomness of all answers, in an auditable run, which makes none ahead."""
    n_answers: int = 0
    waiting: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Answers and requests to be kept once the run is."""

    def __post_init__(self) -> None:
        """Start without work."""
        self.background = BackgroundWork(self.key)

    @property
    def n_classes(self) -> int:
        """Classes whose gradients the ciphertexts of a row are announced to hold, at most."""
        return n_classes_of(self.field_bits, self.n_groups, self.columns.n_rows)

    def start_tree(self, columns: NDArray[np.int32], sampled: NDArray[np.bool_]) -> None:
        """Begin a tree in some columns, which ascend, and what can be done of it while gradients arrive."""
        self.background.drop()
        self._reserve_gradients(int(sampled.sum()))
        self.tree = GrowingTree(self.bins, columns, sampled, self.n_groups)
        self.n_prepared, self.n_sent = self.n_sent, 0
        n_bins = int(self.tree.rows.bin_offsets[-1])
        self._try_to_reserve(ROOT, 3 * n_bins * self.n_groups * self.key.ciphertext_bytes)
        self._try_to_reserve(RANDOMNESS, self.n_prepared * self.key.ciphertext_bytes)
        if self.n_prepared and TABLE not in self.rooms:
            self._try_to_reserve(TABLE, self.key.table_bytes)
            if TABLE in self.rooms:
                self.key.tabulate()
        self._prepare()

    def receive(self, message: Gradients) -> None:
        """Keep encrypted gradients, and sum them up at the root while the next ones arrive."""
        tree = self.growing()
        tree.receive(self.key, message)
        if ROOT in self.rooms and len(rows := tree.rows_to_add(message.group)):
            self.background.give(partial(tree.add_at_root, self.key, message.group, rows))

    def statistics(self, nodes: NDArray[np.int64]) -> SplitStatistics:
        """The statistics of nodes of the tree's present level; randomness of the next ones is made ahead."""
        if self.seed is not None and isinstance(self.key, ResidueKey):
            self.n_answers += 1
            message = b"veilboost answer %d" % self.n_answers
            self.key.random.begin(hmac.digest(self.seed, message, "sha256"))
        answer = self.growing().statistics(self.key, nodes, self.field_bits, self.per_ciphertext)
        self.n_sent += len(answer.sums) // self.key.ciphertext_bytes
        self._prepare()
        return answer

    def _prepare(self) -> None:
        """Have as much randomness ready as the last tree took."""
        is_ahead = self.seed is None and RANDOMNESS in self.rooms
        self.background.prepare(self.n_prepared if is_ahead else 0)

    def _try_to_reserve(self, what: str, n_bytes: int) -> None:
        """Reserve memory for something that is done ahead; if there is little, it is left until it is due."""
        self.rooms.pop(what, None)
        room = self.memory.reserve_spare(n_bytes)
        if room is not None:
            self.rooms[what] = room

    def _reserve_gradients(self, n_sampled: int) -> None:
        """Reserve memory for the encrypted gradients of a tree; that of the last tree is given back."""
        self.tree = None
        self.rooms.pop("level", None)
        self.rooms.pop("gradients", None)
        size = n_sampled * self.n_groups * self.key.ciphertext_bytes
        self.rooms["gradients"] = self.memory.reserve(size, "encrypted gradients")

    def reserve_level(self) -> None:
        """Reserve memory for the encrypted histograms of a level, which take as much while they are made."""
        tree = self.growing()
        self.rooms.pop(ROOT, None)
        n_bins = tree.partition.n_nodes * int(tree.rows.bin_offsets[-1])
        self.rooms.pop("level", None)
        size = 3 * n_bins * self.n_groups * self.key.ciphertext_bytes
        self.rooms["level"] = self.memory.reserve(size, "statistics of this level")

    def growing(self) -> GrowingTree:
        """The tree that is growing."""
        if self.tree is None:
            raise ProtocolError("no tree is growing")
        return self.tree
