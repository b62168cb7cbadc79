"""State that a horizontal party keeps across sessions, callers and processes.

These are its groups of rows, the hash functions it has hashed by, the number of rounds that it has taken part
in, the seed agreements, and a secret key.  All draws that decide which rows' gradients are added where come
from that key and from what is agreed, so the same question is always answered by the same selection of rows.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.locks import OwnLock
from gbdt_commons.store import Kind, MemoryStore, Store, json_kind
from gbdt_parties.errors import InvalidDataError
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.common.row_groups import RowGroups

SIZE = 32
"""Bytes of a party's contribution, of a commitment and of the seed."""

MAX_RUNS = 64
"""Runs whose counted rounds are known; a round of an older one is counted again when it is resumed."""

KEY_BYTES = 32


def _written(groups: RowGroups) -> bytes:
    file = io.BytesIO()
    np.savez(file, order=groups.order, starts=groups.starts)
    return file.getvalue()


_READING = OwnLock()


def arrays_of(content: bytes) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file, by their names; one thread reads at a time.

    NumPy has Python parse the arrays' headers.  Python 3.11 keeps the parser's depth in one place for all
    threads, and ends in a SystemError where two parse at once and garbage is collected meanwhile.
    """
    with _READING.held(), np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _read(content: bytes) -> RowGroups:
    found = arrays_of(content)
    return RowGroups(found["order"], found["starts"])


STATE, GROUPS = json_kind("state of rows"), Kind("groups", _written, _read)


class PartyState:
    """The memory of one party, shared by all of its sessions.

    Parameters
    ----------
    rows : str
        Digest of the rows, labels and weights, and of the minimum size of groups.
    key : bytes, optional
        32 bytes that determine the draws.  Drawn from the operating system by default.
    store : Store, optional
        Where everything is kept, which is closed if it is refused; in memory by default.

    Attributes
    ----------
    told : dict
        Number of hashes of each row that were given away, by digest of the hash functions.
    n_rounds : int
        Rounds in which this party has grown trees, or taken those of others.
    last_seed : bytes
        The seed of the last hash functions; empty before the first ones.
    n_revealed, n_abandoned : int
        Seed contributions that were revealed, and those of them that were not used.
    commitments : bytes
        Commitments of all parties in the last agreement in which this party revealed its contribution.
    is_pending : bool
        Whether that agreement has not been used yet.
    groups : RowGroups or None
    n_samples : int
        Samples of rows that were drawn for trees, each counted before its use.
    samples_of : dict
        Rounds and classes whose samples are counted, by what names the draws.
    rounds_of : dict
        Number of rounds counted of each of the last runs, so that a round that was interrupted between its
        count and its journal is not counted twice.

    Raises
    ------
    InvalidDataError
        If the store was written for other rows.
    """

    def __init__(self, rows: str, key: bytes | None = None, store: Store | None = None) -> None:
        self._store = MemoryStore() if store is None else store
        self._lock, self._rows = OwnLock(), rows
        self.told: dict[bytes, int] = {}
        self.last_seed = self.commitments = b""
        self.n_revealed = self.n_abandoned = self.n_rounds = 0
        self.is_pending = False
        self.groups: RowGroups | None = None
        self.rounds_of: dict[bytes, int] = {}
        self.n_samples, self.samples_of = 0, dict[bytes, tuple[int, int]]()
        self._order = np.empty(0, dtype=np.int64)
        self._key = os.urandom(KEY_BYTES) if key is None else key
        try:
            self._load()
            self.save()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the store: another process, or object, can use it then."""
        self._store.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """To be entered while anything is looked at and changed: it excludes all other threads meanwhile.

        If the block raises an error, such as that of a full disk, changes that were not saved are undone.
        """
        with self._lock.held():
            try:
                yield
            except BaseException:
                self._load()
                raise

    def stream(self, purpose: str, *agreed: bytes) -> SecretStream:
        """The draws for a purpose: the same whenever they are made, and a secret to all other parties."""
        message = b"\0".join([purpose.encode(), *(hashlib.sha256(part).digest() for part in agreed)])
        return SecretStream(hmac.digest(self._key, message, "sha256"))

    def order(self, n_rows: int) -> NDArray[np.int64]:
        """The order in which other parties know the rows: a secret one, in all training runs the same.

        That of a file may follow the labels, and hashes show where a file goes from one class to the next.
        """
        if len(self._order) != n_rows:
            self._order = self.stream("order of rows").permutation(n_rows)
        return self._order

    def contribution(self, place: int = 0) -> bytes:
        """The next contribution to a hash seed that is to be revealed; with −1 the one revealed last."""
        stream = self.stream("contribution", (self.n_revealed + place).to_bytes(8, "little"))
        return stream.words(1, SIZE // 8).tobytes()

    def check_rounds(self, n_rounds: int, max_rounds: int) -> None:
        """Refuse rounds beyond those that the party takes part in, in all training runs.

        Raises
        ------
        InvalidDataError
            With both numbers.
        """
        if self.n_rounds + n_rounds > max_rounds:
            raise InvalidDataError(
                f"{n_rounds} further rounds; this party has taken part in {self.n_rounds}, and takes part in "
                f"max_rounds={max_rounds} in all training runs together"
            )

    def begin_run(self, run: bytes) -> None:
        """Count the rounds of a run from its first one, whatever had its number before."""
        with self.locked():
            self.rounds_of.pop(run, None)
            self.rounds_of[run] = 0
            while len(self.rounds_of) > MAX_RUNS:
                del self.rounds_of[next(iter(self.rounds_of))]
            self.save()

    def n_counted(self, run: bytes) -> int:
        """Rounds of a run that were counted; the last one may not be in its journal."""
        with self.locked():
            return self.rounds_of.get(run, 0)

    def count_round(self, run: bytes, number: int, max_rounds: int) -> None:
        """Count a round, once, before its trees are sent, or sums under them can be asked for."""
        with self.locked():
            if number < self.rounds_of.get(run, 0):
                return
            self.check_rounds(1, max_rounds)
            self.n_rounds += 1
            if run in self.rounds_of:
                self.rounds_of[run] = number + 1
            self.save()

    def count_run(self, run: bytes, n_rounds: int, max_rounds: int) -> None:
        """Count all rounds of a run at once, before its first answer; once, however often it is taken up."""
        with self.locked():
            if run in self.rounds_of:
                return
            self.check_rounds(n_rounds, max_rounds)
            self.n_rounds += n_rounds
            self.rounds_of[run] = n_rounds
            while len(self.rounds_of) > MAX_RUNS:
                del self.rounds_of[next(iter(self.rounds_of))]
            self.save()

    def count_samples(self, name: bytes, n_rounds: int, n_classes: int, max_samples: int) -> None:
        """Count samples of rows, one for each round and class, that were not counted before.

        Those of one name are the same in all runs; of `MAX_RUNS` names it is known what was counted.

        Raises
        ------
        InvalidDataError
            If there were more than `max_samples` in all runs together.
        """
        with self.locked():
            known = self.samples_of.get(name, (0, 0))
            rounds, classes = max(known[0], n_rounds), max(known[1], n_classes)
            further = rounds * classes - known[0] * known[1]
            if self.n_samples + further > max_samples:
                raise InvalidDataError(
                    f"{further} further samples of rows; this party has drawn {self.n_samples}, and draws "
                    f"max_samples={max_samples} in all training runs together"
                )
            self.n_samples += further
            self.samples_of[name] = rounds, classes
            while len(self.samples_of) > MAX_RUNS:
                del self.samples_of[next(iter(self.samples_of))]
            self.save()

    def keep_groups(self, groups: RowGroups) -> None:
        """Keep the groups, for good: other groups of the same rows would tell rows apart."""
        self._store.put(GROUPS, "", groups)
        self.groups = groups

    def save(self) -> None:
        """Keep everything but the groups, before anything that depends on it leaves."""
        content = {
            "rows": self._rows,
            "key": self._key.hex(),
            "told": {functions.hex(): count for functions, count in self.told.items()},
            "rounds": self.n_rounds,
            "last_seed": self.last_seed.hex(),
            "revealed": self.n_revealed,
            "abandoned": self.n_abandoned,
            "commitments": self.commitments.hex(),
            "pending": self.is_pending,
            "rounds_of": {run.hex(): count for run, count in self.rounds_of.items()},
            "samples": self.n_samples,
            "samples_of": {name.hex(): list(counted) for name, counted in self.samples_of.items()},
        }
        self._store.put(STATE, "", content)

    def _load(self) -> None:
        """Take what was saved, if anything was."""
        content: dict[str, Any] | None = self._store.get(STATE, "")
        if content is None:
            return
        if content["rows"] != self._rows:
            raise InvalidDataError(
                "this party's directory was written for other rows, labels or weights, or for another "
                "min_similar.  With another directory this party begins anew: rows that are in both data "
                "sets are then in two groups, and differences of their sums can tell about fewer rows than "
                "a group has"
            )
        self._key = bytes.fromhex(content["key"])
        self.told = {bytes.fromhex(name): count for name, count in content["told"].items()}
        self.n_rounds, self.n_samples = content["rounds"], content["samples"]
        self.last_seed = bytes.fromhex(content["last_seed"])
        self.n_revealed, self.n_abandoned = content["revealed"], content["abandoned"]
        self.commitments, self.is_pending = bytes.fromhex(content["commitments"]), content["pending"]
        self.rounds_of = {bytes.fromhex(run): count for run, count in content["rounds_of"].items()}
        self.samples_of = {
            bytes.fromhex(name): (rounds, classes)
            for name, (rounds, classes) in content["samples_of"].items()
        }
        if self.groups is None:
            self.groups = self._store.get(GROUPS, "")
